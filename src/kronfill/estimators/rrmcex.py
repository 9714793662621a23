"""RRMCEX: ridge regression on the leading eigenvectors of each kernel."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self, cast

import numpy as np
import scipy.linalg
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats
from kronfill.errors import ParameterError
from kronfill.estimators.base import (
    Kernels,
    check_mu,
    effects_of,
    resolved,
)
from kronfill.estimators.fitted.axes import Axis
from kronfill.estimators.fitted.bilinear import Bilinear, Combined, Factored
from kronfill.estimators.gaussian_process.online import (
    check_unchanged,
    kept_stream,
    more_observations,
)
from kronfill.estimators.gaussian_process.posterior import GaussianProcess
from kronfill.estimators.gaussian_process.regressor import (
    GaussianProcessRegressor,
    chosen_mu,
    kept_system,
)
from kronfill.estimators.inputs import check_largest, check_magnitude, sampled_entries
from kronfill.estimators.updates.sums import SummedProcess, SumUpdates
from kronfill.kernels.base import Kernel
from kronfill.online.summed_posterior import nothing_sampled
from kronfill.ridge.problem import RidgeProblem, RidgeResult, RidgeSolver, Sampled
from kronfill.ridge.trust import vouched
from kronfill.solvers.auto import as_solver, solve_in_factors
from kronfill.solvers.half_steps import FactorKernel
from kronfill.streaming.long_table import is_long_table

__all__ = ["RRMCEX"]


class RRMCEX(GaussianProcessRegressor):
    r"""Ridge regression matrix completion and extrapolation.

    KKMCEX with each kernel cut to its leading eigenvectors: F = Phi_w X Phi_h^T with
    Phi = U_k Lambda_k^(1/2) and one ridge penalty on X,

    .. math:: \min_X \sum_{(i,j) \in S_m} (M_{ij} - \phi_w(i) X \phi_h(j)^T)^2 + \mu \|X\|_F^2.

    The number of unknowns is row_rank x col_rank, whatever the number of observations. With full
    ranks it is KKMCEX.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like of shape (N, N) and (L, L), optional
        As for :class:`KKMCEX`.
    row_rank, col_rank : int or float, default=0.99
        Number of eigenvectors of each kernel; a float below 1 takes as many as explain this
        fraction of the kernel's trace.
    mu : float or "auto", default=1.0
        Ridge weight.
    center : {None, "mean", "rows", "cols", "both"}, default=None
        Unpenalised additive effects, as for :class:`KKMCEX`.
    solver : "auto" or solver object, default="auto"
        ``kf.PrimalDirect()`` or ``kf.PCG(...)``.

    Attributes
    ----------
    coef_ : ndarray of shape (row rank, column rank)
        X.
    row_rank_, col_rank_ : int
        Number of eigenvectors used.
    mu_, mu_search_, mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
        As for :class:`KKMCEX`.

    See Also
    --------
    KKMCEX : Without the cut.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 50), length_scale=0.3)
    >>> X = np.argwhere(np.random.default_rng(0).random((50, 50)) < 0.2)
    >>> y = np.sin(X[:, 0] / 10) * np.cos(X[:, 1] / 10)
    >>> est = kf.RRMCEX(k, k, row_rank=6, col_rank=0.999, mu=1e-3).fit(X, y)
    >>> est.coef_.shape, round(est.score(X, y), 3)
    ((6, 5), 1.0)
    """

    coef_: Floats
    _bases: tuple[Combined, Combined]

    def __init__(
        self,
        row_kernel: Any = None,
        col_kernel: Any = None,
        row_rank: Any = 0.99,
        col_rank: Any = 0.99,
        mu: Any = 1.0,
        center: Any = None,
        solver: Any = "auto",
    ) -> None:
        self.row_kernel = row_kernel
        self.col_kernel = col_kernel
        self.row_rank = row_rank
        self.col_rank = col_rank
        self.mu = mu
        self.center = center
        self.solver = solver

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        kernels = self._validated_sides()
        if is_long_table(X):
            return self._fit_long_table(kernels, X, y, sample_weight)
        observations = self._observations(X, y, sample_weight, kernels)
        check_magnitude(observations.values, observations.weights)

        with self._fitting(observations.m):
            row_kernel, col_kernel = resolved(kernels, observations.shape)
            sampled = sampled_entries(observations, self.center)
            bases = self._factor_bases((row_kernel, col_kernel))
            row, col = (FactorKernel(basis.known(None)) for basis in bases)
            problem = RidgeProblem(row, col, sampled, 1.0)
            choice = chosen_mu(self.mu, problem)
            mu = choice["mu_"]
            solver = as_solver(self.solver)

            def solved(sampled: Sampled, solver: RidgeSolver) -> RidgeResult:
                return solve_in_factors(row.phi, col.phi, sampled, mu, solver).over(row, col)

            asked = RidgeProblem(
                row_kernel if bases[0].left_out else row,
                col_kernel if bases[1].left_out else col,
                sampled,
                mu,
            )
            quiet = solver.quiet()
            result = vouched(
                asked, solved(sampled, solver), lambda other: solved(other.sampled, quiet)
            )
            assert result.primal is not None
            core = result.primal.core

        result.solution.warn()
        form = Bilinear(*bases, core, result.effects, observations.shape)
        return self._publish(
            X,
            observations,
            {"_kernels": kernels},
            row_rank_=row.phi.shape[1],
            col_rank_=col.phi.shape[1],
            **choice,
            _bases=bases,
            coef_=core,
            **effects_of(result.effects, observations.shape),
            solution_=result.solution,
            n_iter_=max(1, result.solution.iterations),
            _model=form,
            _kept_system=kept_system(form, [result]),
        )

    def _validated_sides(self) -> Kernels:
        check_mu(self.mu)
        _check_cut(self.row_rank, "row_rank")
        _check_cut(self.col_rank, "col_rank")
        return self._validated_kernels()

    def _problem(self, kernels: tuple[Kernel, Kernel], sampled: Sampled, mu: float) -> RidgeProblem:
        row, col = (FactorKernel(basis.known(None)) for basis in self._factor_bases(kernels))
        return RidgeProblem(row, col, sampled, mu)

    def _factor_bases(self, kernels: tuple[Kernel, Kernel]) -> tuple[Combined, Combined]:
        return _leading(kernels[0], self.row_rank), _leading(kernels[1], self.col_rank)

    def _table_attributes(self, form: Bilinear) -> dict[str, Any]:
        core = cast("Floats", form.core)
        return {
            "_bases": (form.row_basis, form.col_basis),
            "coef_": core,
            "row_rank_": core.shape[0],
            "col_rank_": core.shape[1],
        }

    # The fit, taken apart.

    def _priors(self) -> tuple[Axis, Axis]:
        row, col = resolved(self._kernels, self.shape_)
        return Axis(row, self._bases[0]), Axis(col, self._bases[1])

    def _dual(self) -> Floats:
        s = sampled_entries(self.observations_, self.center)
        rest = s.values - self._model.pairs(s.rows, s.cols)
        return (rest if s.weights is None else s.weights * rest) / self.mu_

    def _gaussian_process(self) -> GaussianProcess:
        if "observations_" in vars(self):
            return super()._gaussian_process()
        check_unchanged(self)
        sums, none = self._updates().sums, nothing_sampled(self.shape_)
        return SummedProcess(self._priors(), none, self.mu_, self.center, sums.least, sums)

    # Observations that come and go: sums are kept of them.

    def _updates(self) -> SumUpdates:
        """The sums over the observations so far, made from the fitted ones where there are none."""
        kept: SumUpdates | None = kept_stream(self)
        if kept is None:
            kept = SumUpdates.of(self._bases, self.mu_, self.center, self.observations_)
            kept.form = self._model
            self._stream = kept
        return kept

    def _renew(self, updates: SumUpdates, found: Any = None) -> None:
        updates.form, solution = updates.solved()
        self.__dict__.pop("observations_", None)  # let go: the sums are enough
        self.__dict__.update(
            coef_=updates.sums.core,
            **effects_of(updates.form.effects, self.shape_),
            solution_=solution,
            n_iter_=1,
            _model=updates.form,
            _from_table=True,
        )

    def _begin(self) -> None:
        self._renew(self._updates())
        self.solution_.warn(stacklevel=4)

    def forget(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Remove observations; the result is that of a fit to the others.

        Parameters
        ----------
        X : array-like of shape (k, 2) or Observations
            Row and column index of each entry to remove.
        y : array-like of shape (k,), optional
            The values they had: they were not kept.
        sample_weight : array-like of shape (k,), optional
            The weights they had.

        Returns
        -------
        self

        Notes
        -----
        What was never added cannot be told from what was, unless a row or column has fewer
        observations, or the sums become those of no observations; both are errors.

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> k = kf.kernels.rbf(np.linspace(0, 1, 20), length_scale=0.3)
        >>> X, y = np.argwhere(np.ones((20, 20))), np.arange(400.0)
        >>> est = kf.RRMCEX(k, k, row_rank=3, col_rank=3).partial_fit(X, y)
        >>> coef = est.forget(X[300:], y[300:]).coef_
        >>> bool(np.allclose(coef, est.fit(X[:300], y[:300]).coef_))
        True
        """
        check_is_fitted(self)
        check_unchanged(self)
        gone = more_observations(self, X, y, sample_weight)
        return self._update(lambda updates: updates.forget(gone))

    def revise(self, X: Any, y: Any, y_old: Any, sample_weight: Any = None) -> Self:
        """Correct values; the result is that of a fit to the corrected ones.

        Parameters
        ----------
        X : array-like of shape (k, 2)
            Row and column index of each entry to correct.
        y : array-like of shape (k,)
            The values that they should have had.
        y_old : array-like of shape (k,)
            The values they had: they were not kept.
        sample_weight : array-like of shape (k,), optional
            The weights they had; they stay.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> est = kf.RRMCEX(np.eye(2), np.eye(2), row_rank=2, col_rank=2)
        >>> est = est.partial_fit([[0, 0], [1, 1]], [1.0, 7.0])
        >>> est.revise([[1, 1]], [2.0], [7.0]).predict_matrix()
        array([[0.5, 0. ],
               [0. , 1. ]])
        """
        check_is_fitted(self)
        check_unchanged(self)
        old, new = (more_observations(self, X, v, sample_weight) for v in (y_old, y))
        check_largest(new.values, new.weights)
        return self._update(lambda updates: updates.revise(old, new))

    def __reduce_ex__(self, protocol: Any) -> Any:
        # Copies and pickles take the sums along: they cannot be made again.
        make, args, state, *rest = cast("tuple[Any, ...]", super().__reduce_ex__(protocol))
        stream = vars(self).get("_stream")
        return (make, args, state if stream is None else {**state, "_stream": stream}, *rest)


def _check_cut(rank: Any, name: str) -> None:
    whole = isinstance(rank, Integral) and not isinstance(rank, bool) and int(rank) >= 1
    share = isinstance(rank, Real) and not isinstance(rank, Integral) and 0 < float(rank) <= 1
    if not (whole or share):
        msg = (
            f"{name} must be a positive integer or a fraction of the trace above 0 and up to 1.0, "
            f"got {rank!r}."
        )
        raise ParameterError(msg)


def _leading(kernel: Kernel, rank: Any) -> Combined:
    """Phi = U_k Lambda_k^(1/2), from the singular vectors of any factor of the kernel."""
    factor = kernel.factor()
    if factor.rank == 0:
        return Combined(Factored(kernel, factor), np.empty((0, 0)))
    lam, turn = scipy.linalg.eigh(factor.phi.T @ factor.phi, check_finite=False)
    lam, turn = np.maximum(lam[::-1], 0.0), turn[:, ::-1]
    if isinstance(rank, Integral):
        count = min(int(rank), len(lam))
    else:
        explained = np.cumsum(lam)
        enough = explained >= float(rank) * explained[-1] * (1 - 1e-14)
        count = int(np.argmax(enough)) + 1
    return Combined(Factored(kernel, factor), np.ascontiguousarray(turn[:, :count]))

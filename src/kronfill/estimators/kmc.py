"""KMC: low-rank factors that are smooth in the kernels."""

from __future__ import annotations

from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import (
    KernelRegressor,
    Kernels,
    effects_of,
    resolved,
)
from kronfill.estimators.factorised import (
    SMALL,
    FactorisedRegressor,
    FactorSpaceProblem,
    alternated,
    random_factor,
    run_record,
)
from kronfill.estimators.fitted.axes import ObservedFactor
from kronfill.estimators.fitted.bilinear import Bilinear, Combined, Sections
from kronfill.estimators.inputs import check_magnitude, sampled_entries
from kronfill.kernels.base import Kernel
from kronfill.solvers.alternating import ALS, given_pair
from kronfill.solvers.row_wise import RowWise, RowWiseAlternation, inverse_kernel

__all__ = ["KMC"]

_INVERSES: WeakKeyDictionary[Kernel, Floats] = WeakKeyDictionary()


class KMC(FactorisedRegressor, KernelRegressor):
    r"""Kernel matrix completion, equation (2).

    .. math::
        \min_{W,H} \|P_{S_m}(M - W H^T)\|_F^2
        + \mu (\mathrm{Tr}\, W^T K_w^+ W + \mathrm{Tr}\, H^T K_h^+ H)

    with the columns of W in the range of K_w and those of H in the range of K_h. With H fixed this
    is KKMCEX with the column kernel H H^T, so each half-step is solved exactly and no kernel is
    ever inverted.

    Parameters
    ----------
    row_kernel, col_kernel : Kernel or array-like of shape (N, N) and (L, L), optional
        As for :class:`KKMCEX`.
    rank : int or "auto", default=10
        Number of latent factors; at most min(N, L) are used. "auto" chooses it along with mu:
        twice as many as long as the error on held-out entries falls.
    mu : float or "auto", default=1.0
        Ridge weight; "auto" takes the value with the smallest error on held-out entries.
    center : {None, "mean", "rows", "cols", "both"}, default=None
        Unpenalised additive effects, fitted along.
    solver : "auto", ALS or RowWise, default="auto"
        ``kf.ALS(...)``: exact half-steps; ``kf.RowWise(...)``: the solver of the paper's
        experiments, for comparison.
    random_state : int, Generator or None, default=0
        Seed of random starting points.

    Attributes
    ----------
    W_, H_ : ndarray of shape (N, rank) and (L, rank)
        The factors.
    rank_ : int
        Number of factors.
    objective_ : float
        The objective reached; ``solution_.history`` has it after each sweep.
    mu_, mu_search_, mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
        As for :class:`KKMCEX`.

    See Also
    --------
    IMC : The same from feature matrices.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.3)
    >>> X = np.argwhere(np.random.default_rng(0).random((30, 30)) < 0.3)
    >>> y = np.sin(X[:, 0] / 5) * np.cos(X[:, 1] / 5)
    >>> est = kf.KMC(k, k, rank=3, mu=1e-2).fit(X, y)
    >>> est.W_.shape, round(est.score(X, y), 2)
    ((30, 3), 1.0)
    """

    def __init__(
        self,
        row_kernel: Any = None,
        col_kernel: Any = None,
        rank: Any = 10,
        mu: Any = 1.0,
        center: Any = None,
        solver: Any = "auto",
        random_state: Any = 0,
    ) -> None:
        self.row_kernel = row_kernel
        self.col_kernel = col_kernel
        self.rank = rank
        self.mu = mu
        self.center = center
        self.solver = solver
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        kernels = self._validated_sides()
        observations = self._observations(X, y, sample_weight, kernels)
        check_magnitude(observations.values, observations.weights)
        with self._fitting(observations.m, SMALL):
            found = self._found(observations, kernels, self._settings().start)
        found["solution_"].warn()
        return self._publish(X, observations, {"_kernels": kernels}, **found)

    def _settings(self) -> Any:
        return self.solver if isinstance(self.solver, RowWise) else super()._settings()

    def _validated_sides(self) -> Kernels:
        self._check_parameters()
        if isinstance(self.solver, RowWise) and self.center is not None:
            msg = "RowWise is the paper's solver, which has no effects; use center=None."
            raise ParameterError(msg)
        return self._validated_kernels()

    def _scale(self, sides: Kernels) -> float:
        means = [1.0 if kernel is None else kernel.diagonal().mean() for kernel in sides]
        return float(np.prod(np.sqrt(means)))

    def _factor_problem(self, observations: Observations, sides: Kernels) -> FactorSpaceProblem:
        sampled = sampled_entries(observations, self.center)
        row, col = resolved(sides, sampled.shape)
        axes = (
            ObservedFactor.of_kernel(row, sampled.rows),
            ObservedFactor.of_kernel(col, sampled.cols),
        )
        return FactorSpaceProblem(*axes, sampled, self.random_state)

    def _found(self, observations: Observations, sides: Kernels, start: Any) -> dict[str, Any]:
        if not isinstance(self.solver, RowWise):
            return super()._found(observations, sides, start)
        problem = self._factor_problem(observations, sides)
        choice, _ = self._chosen(problem, sides)
        found = self._row_wise(problem, resolved(sides, observations.shape), choice, start)
        return {**found, **choice}

    def _row_wise(
        self,
        problem: FactorSpaceProblem,
        kernels: tuple[Kernel, Kernel],
        choice: dict[str, Any],
        start: Any,
    ) -> dict[str, Any]:
        """What the solver of the paper finds, which inverts both kernels."""
        (n, l), mu, rank = problem.shape, choice["mu_"], choice["rank_"]
        inverses = (
            _kept_inverse(kernels[0], "row_kernel"),
            _kept_inverse(kernels[1], "col_kernel"),
        )
        if not isinstance(start, str):
            w, h = given_pair(start, ((n, rank), (l, rank)))
        elif start in ("uniform", "gaussian"):
            both = random_factor(start, self.random_state, (n + l, rank))
            w, h = both[:n], both[n:]
        else:  # one exact sweep
            values = problem.start(start, problem.sampled, mu, rank)
            first = problem.fitted(*problem.run(problem.sampled, mu, values, ALS(sweeps=1))).form
            w, h = first.row_basis.known(None), first.col_basis.known(None)
        sampled = problem.data
        alternation = RowWiseAlternation(inverses, sampled, mu, w)
        state, solution = alternated(alternation, h, sampled, self.solver)
        # W = K_w (K_w^-1 W): the representer form extends to new rows.
        row_basis = Combined(Sections(kernels[0], np.arange(n)), inverses[0] @ state.w)
        col_basis = Combined(Sections(kernels[1], np.arange(l)), inverses[1] @ state.h)
        return {
            **run_record(state, solution),
            "W_": state.w,
            "H_": state.h,
            "_model": Bilinear(row_basis, col_basis, None, None, (n, l)),
            **effects_of(None, (n, l)),
        }


def _kept_inverse(kernel: Kernel, name: str) -> Floats:
    """K^-1, for as long as there is the kernel: fits on the same one follow each other."""
    found = _INVERSES.get(kernel)
    if found is None:
        found = _INVERSES[kernel] = inverse_kernel(kernel.to_array(), name)
    return found

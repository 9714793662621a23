"""RRMCEX: ridge regression on the leading eigenvectors of each kernel."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.linalg

from kronfill._types import Floats
from kronfill.criteria.exact import best_mu
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import check_mu
from kronfill.estimators.fitted.bilinear import Basis, Bilinear, Combined, Factored
from kronfill.estimators.fitted.priors import AxisPrior, CutPrior
from kronfill.estimators.kkmcex import KernelRegressor, set_effects
from kronfill.estimators.longtables import LongTables
from kronfill.estimators.suggest import Suggesting
from kronfill.estimators.updates.sums import OnlineSums
from kronfill.kernels.base import Kernel
from kronfill.ridge.problem import CoreResult, RidgeProblem, RidgeResult, RidgeSolver, Sampled
from kronfill.ridge.trust import vouched
from kronfill.solvers.auto import as_solver, solve_in_factors
from kronfill.solvers.half_steps import GivenFactor

__all__ = ["RRMCEX"]


class RRMCEX(OnlineSums, LongTables, KernelRegressor, Suggesting):
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
    mu_, mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
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

    def _axis_sizes(self) -> tuple[int | None, int | None]:
        check_mu(self.mu)
        _check_cut(self.row_rank, "row_rank")
        _check_cut(self.col_rank, "col_rank")
        return super()._axis_sizes()

    def _fit(self, observations: Observations) -> None:
        row_kernel, col_kernel = self._resolved()
        sampled = self._sampled(observations, self.center)
        row_basis = _leading(row_kernel, self.row_rank)
        col_basis = _leading(col_kernel, self.col_rank)
        row_phi, col_phi = row_basis.known(None), col_basis.known(None)
        self.row_rank_, self.col_rank_ = row_phi.shape[1], col_phi.shape[1]
        row, col = GivenFactor(row_phi), GivenFactor(col_phi)
        problem = RidgeProblem(row, col, sampled, 1.0)
        self.mu_ = best_mu(problem) if self.mu == "auto" else float(self.mu)
        solver = as_solver(self.solver)

        def solved(sampled: Sampled, solver: RidgeSolver) -> RidgeResult:
            found = solve_in_factors(row_phi, col_phi, sampled, self.mu_, solver)
            return found.over(row, col)

        asked = RidgeProblem(
            row_kernel if row_basis.left_out else row,
            col_kernel if col_basis.left_out else col,
            sampled,
            self.mu_,
        )
        quiet = solver.quiet()
        result = vouched(asked, solved(sampled, solver), lambda other: solved(other.sampled, quiet))
        assert result.primal is not None
        self._bases = (row_basis, col_basis)
        self.coef_ = result.primal.core
        set_effects(self, result.effects)
        self.solution_ = result.solution
        self.n_iter_ = max(1, result.solution.iterations)
        self._model = Bilinear(row_basis, col_basis, self.coef_, result.effects, self.shape_)
        self._keep_system(result)
        self.solution_.warn()

    def _table_bases(self) -> tuple[Basis, Basis]:
        row, col = self._resolved()
        return _leading(row, self.row_rank), _leading(col, self.col_rank)

    def _keep(self, bases: tuple[Basis, Basis], result: CoreResult) -> None:
        super()._keep(bases, result)
        self._bases = bases
        self.coef_ = result.core
        self.row_rank_, self.col_rank_ = result.core.shape

    def _priors(self) -> tuple[AxisPrior, AxisPrior]:
        row, col = self._resolved()
        left, right = self._bases
        return CutPrior(left, row), CutPrior(right, col)

    def _dual(self) -> Floats:
        s = self._sampled(self.observations_, self.center)
        rest = s.values - self._model.pairs(s.rows, s.cols)
        return (rest if s.weights is None else s.weights * rest) / self.mu_


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

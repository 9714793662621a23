"""KMC: low-rank factors that are smooth in the kernels."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.factorised import FactorisedRegressor, fit_in_factors
from kronfill.estimators.fitted.axes import FactorAxis, KernelAxis
from kronfill.estimators.fitted.bilinear import Bilinear, Combined, Sections
from kronfill.estimators.kkmcex import KernelRegressor, set_effects
from kronfill.kernels.base import Kernel
from kronfill.ridge.problem import Sampled
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
    rank : int, default=10
        Number of latent factors; at most min(N, L) are used.
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
    objective_ : float
        The objective reached; ``solution_.history`` has it after each sweep.
    mu_, mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
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

    def _settings(self) -> Any:
        return self.solver if isinstance(self.solver, RowWise) else super()._settings()

    def _axis_sizes(self) -> tuple[int | None, int | None]:
        self._check_parameters()
        if isinstance(self.solver, RowWise) and self.center is not None:
            msg = "RowWise is the paper's solver, which has no effects; use center=None."
            raise ParameterError(msg)
        return super()._axis_sizes()

    def _fit_factors(self, observations: Observations) -> None:
        row_kernel, col_kernel = self._resolved()
        sampled = self._sampled(observations, self.center)
        if isinstance(self.solver, RowWise):
            self._fit_rowwise(row_kernel, col_kernel, sampled)
        else:
            row = KernelAxis(row_kernel, sampled.rows)
            col = KernelAxis(col_kernel, sampled.cols)
            state = fit_in_factors(self, row, col, sampled)
            bases = row.basis(state.w), col.basis(state.h)
            self._model = Bilinear(*bases, None, state.effects, self.shape_)
            self.W_, self.H_ = bases[0].known(None), bases[1].known(None)

    def _checked(self) -> dict[str, Any]:
        row_kernel, col_kernel = self._resolved()
        return {"row_kernel": row_kernel, "col_kernel": col_kernel}

    def _scale(self) -> float:
        return float(np.prod([np.sqrt(kernel.diagonal().mean()) for kernel in self._resolved()]))

    def _start_values(self, sampled: Sampled, axis: FactorAxis) -> Floats | None:
        """H at the observed columns, unless the start is worked out in factor space."""
        start, rank = self._settings().start, self._rank()
        if not isinstance(start, str):
            n, l = sampled.shape
            return given_pair(start, ((n, rank), (l, rank)))[1][axis.items]
        if start in ("uniform", "gaussian"):
            return self._random(start, sampled.shape[1])[axis.items]
        return None

    def _fit_rowwise(self, row_kernel: Kernel, col_kernel: Kernel, sampled: Sampled) -> None:
        n, l = sampled.shape
        rank, start = self._rank(), self._settings().start
        row_inverse = _kept_inverse(row_kernel, "row_kernel")
        col_inverse = _kept_inverse(col_kernel, "col_kernel")
        if not isinstance(start, str):
            w, h = given_pair(start, ((n, rank), (l, rank)))
        elif start in ("uniform", "gaussian"):
            both = self._random(start, n + l)
            w, h = both[:n], both[n:]
        else:
            first = KMC(row_kernel, col_kernel, rank, self.mu, solver=ALS(sweeps=1, start=start))
            row = KernelAxis(row_kernel, sampled.rows)
            col = KernelAxis(col_kernel, sampled.cols)
            first.shape_, first.mu_ = self.shape_, self.mu_
            state = fit_in_factors(first, row, col, sampled)
            w, h = row.basis(state.w).known(None), col.basis(state.h).known(None)
        problem = RowWiseAlternation((row_inverse, col_inverse), sampled, self.mu_, w)
        state = self._run(problem, h, sampled)
        self.W_, self.H_ = state.w, state.h
        # W = K_w (K_w^-1 W): the representer form extends to new rows.
        row_basis = Combined(Sections(row_kernel, np.arange(n)), row_inverse @ state.w)
        col_basis = Combined(Sections(col_kernel, np.arange(l)), col_inverse @ state.h)
        self._model = Bilinear(row_basis, col_basis, None, None, self.shape_)
        set_effects(self, None)


def _kept_inverse(kernel: Kernel, name: str) -> Floats:
    """K^-1, for as long as there is the kernel: fits on the same one follow each other."""
    found = _INVERSES.get(kernel)
    if found is None:
        found = _INVERSES[kernel] = inverse_kernel(kernel.to_array(), name)
    return found

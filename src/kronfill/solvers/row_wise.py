"""The paper's own solver of KMC: Gauss-Seidel over rows with the inverse kernels.

Kept for comparison with the exact half-steps. For row i of W, with the others fixed,

    (sum_j w_ij h_j h_j^T + mu (K^-1)_ii I) w_i
        = sum_j w_ij y_ij h_j - mu sum_{l != i} (K^-1)_il w_l.

It moves one row at a time through a dense coupling, so it needs many sweeps, and an inverse that
the other solvers do without. A sweep costs one product K^-1 W: what the penalty changes by when a
row moves follows from the pull on that row, so that the objective needs no second one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np
from scipy.linalg import lapack

from kronfill._types import Floats
from kronfill.core.grouping import Grouped
from kronfill.core.loops.passes import FAST
from kronfill.core.loops.rowwise_ridge import CHUNK, augmented_gram, cholesky_solve
from kronfill.core.operator import pair_products
from kronfill.core.threads import one_blas_thread
from kronfill.errors import KernelError
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.factorised import CholeskyFactor
from kronfill.ridge.problem import Sampled
from kronfill.solvers.alternating import Alternation, State, check_sweeps

__all__ = ["RowWise", "RowWiseAlternation", "inverse_kernel"]

BLOCK = 64
DIGITS = 1e-3
"""Share of its largest value below which a penalty is summed up anew, before digits are lost."""


@dataclass(frozen=True, eq=False)
class RowWise:
    """Settings of the row-wise alternation used in the paper's experiments, for :class:`KMC`.

    Parameters
    ----------
    sweeps : int, default=100
        Most sweeps.
    tol : float, default=1e-6
        Stop when a sweep lowers the objective by less than this, relatively.
    start : str or pair of arrays, default="uniform"
        As for :class:`ALS`; here W matters too.
    time_limit : float, default=inf
        Seconds after which to stop.
    callback : callable, optional
        Called with (sweep, objective) after each sweep.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> k = kf.kernels.rbf(np.arange(4.0), length_scale=1.0)
    >>> X, y = np.array([[0, 0], [1, 2], [3, 1]]), np.array([1.0, 2.0, 0.5])
    >>> est = kf.KMC(k, k, rank=2, solver=kf.RowWise(sweeps=200), random_state=0).fit(X, y)
    >>> est.solution_.solver
    'RowWise'
    """

    sweeps: int = 100
    tol: float = 1e-6
    start: str | tuple[Any, Any] = "uniform"
    time_limit: float = float("inf")
    callback: Callable[[int, float], None] | None = None

    def __post_init__(self) -> None:
        check_sweeps(self)

    @property
    def accelerate(self) -> bool:
        """The paper's solver is taken as it is."""
        return False


@numba.njit(cache=True, fastmath=FAST)
def _penalty_change(old, new, pull, own):  # type: ignore[no-untyped-def]
    """2 (w' - w)^T sum_{l != i} (K^-1)_il w_l + (K^-1)_ii (||w'||^2 - ||w||^2)."""
    change = 0.0
    for a in range(len(old)):
        change += (new[a] - old[a]) * (2.0 * pull[a] + own * (new[a] + old[a]))
    return change


@numba.njit(cache=True, fastmath=FAST)
def _sweep_rows(w, h, inverse, indptr, inner, weights, values, mu):  # type: ignore[no-untyped-def]
    """Solve for one row of w after the other; what Tr(w^T K^-1 w) changes by."""
    n, p = w.shape
    change = 0.0
    buffer = np.empty((CHUNK, p + 1))
    g = np.empty((p + 1, p + 1))
    part = np.empty((p + 1, p + 1))
    pulls = np.empty((BLOCK, p))
    before = np.empty((BLOCK, p))
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        # All pulls of a block in one product; what moves inside the block is put right below.
        np.dot(inverse[first:last], w, pulls[: last - first])
        before[: last - first] = w[first:last]
        for i in range(first, last):
            pull = pulls[i - first]
            for other in range(first, i):
                k = inverse[i, other]
                for a in range(p):
                    pull[a] += k * (w[other, a] - before[other - first, a])
            for a in range(p):
                pull[a] -= inverse[i, i] * w[i, a]
            if indptr[i] == indptr[i + 1]:  # nothing observed: no system to solve
                for a in range(p):
                    w[i, a] = -pull[a] / inverse[i, i]
            else:
                span = (indptr[i], indptr[i + 1])
                augmented_gram(h, values, inner, weights, span, buffer, part, g)
                for a in range(p):
                    g[a, a] += mu * inverse[i, i]
                    g[p, a] -= mu * pull[a]
                cholesky_solve(g, p)
                for a in range(p):
                    w[i, a] = g[p, a]
            change += _penalty_change(before[i - first], w[i], pull, inverse[i, i])
    return change


def inverse_kernel(kernel: Floats, name: str) -> Floats:
    """K^-1, or an error if K is singular to working precision."""
    factor = CholeskyFactor.of(np.array(kernel, order="F"), overwrite=True)
    size = len(kernel)
    if factor is not None:
        rcond, _ = lapack.dpocon(factor.triangle, np.abs(kernel).sum(axis=0).max(), uplo="L")
        if rcond > size * np.finfo(float).eps:
            return np.ascontiguousarray(factor.solve(np.eye(size)))
    msg = (
        f"RowWise needs the inverse of {name}, which is singular to working precision. Use the "
        "default solver, which needs no inverse, or add an identity part to the kernel."
    )
    raise KernelError(msg)


@dataclass(frozen=True)
class _Penalty:
    """Tr(W^T K^-1 W), and the largest that it was since it was summed up."""

    value: float
    largest: float

    @classmethod
    def of(cls, factor: Floats, inverse: Floats) -> _Penalty:
        value = float(np.vdot(factor, inverse @ factor))
        return cls(value, value)

    def moved(self, change: float, factor: Floats, inverse: Floats) -> _Penalty:
        """The penalty of the factor, which a sweep has brought here."""
        value = self.value + change
        if value > DIGITS * self.largest:
            return _Penalty(value, max(value, self.largest))
        return self.of(factor, inverse)


@dataclass(frozen=True, eq=False)
class _Swept(State):
    """A state that knows the penalty of both factors."""

    penalties: tuple[_Penalty, _Penalty] = field(kw_only=True)


@dataclass(frozen=True, eq=False)
class RowWiseAlternation(Alternation):
    """KMC, equation (2), by row-wise updates of W and H themselves."""

    inverses: tuple[Floats, Floats]
    sampled: Sampled
    mu: float
    first_w: Floats

    def begin(self, values: Floats, effects: AdditiveEffects | None) -> State:
        """See :class:`~kronfill.solvers.alternating.Alternation`."""
        return self._sweep(self.first_w, values, (None, None))

    def sweep(self, state: State, h: Floats, rough: bool = False) -> State:
        """See :class:`~kronfill.solvers.alternating.Alternation`."""
        if isinstance(state, _Swept) and np.array_equal(state.h, h):
            return self._sweep(state.w, h, state.penalties)
        return self._sweep(state.w, h, (None, None))

    def _sweep(
        self, w: Floats, h: Floats, penalties: tuple[_Penalty | None, _Penalty | None]
    ) -> _Swept:
        """One sweep over the rows of W, then over those of H."""
        s = self.sampled
        w = np.array(w, dtype=float, order="C")
        h = np.array(h, dtype=float, order="C")
        with one_blas_thread():
            of_w = self._sweep_one(w, h, self.inverses[0], s.mask.by_rows, penalties[0])
            of_h = self._sweep_one(h, w, self.inverses[1], s.mask.by_cols, penalties[1])
        rest = s.values - pair_products(w, h, s.rows, s.cols)
        loss = float(rest @ rest if s.weights is None else (s.weights * rest) @ rest)
        objective = loss + self.mu * (of_w.value + of_h.value)
        return _Swept(w, h, None, objective, penalties=(of_w, of_h))

    def _sweep_one(
        self,
        moving: Floats,
        fixed: Floats,
        inverse: Floats,
        grouped: Grouped,
        penalty: _Penalty | None,
    ) -> _Penalty:
        """Move one factor in place; its penalty afterwards."""
        values = self.sampled.values[grouped.order]
        change = _sweep_rows(
            moving, fixed, inverse, grouped.indptr, grouped.inner, grouped.weights, values, self.mu
        )
        if penalty is None:
            return _Penalty.of(moving, inverse)
        return penalty.moved(change, moving, inverse)

"""The ridge problem of two factors over observations that are elsewhere: on disk, on a cluster.

All that conjugate gradients need of the observations is Psi^T W Psi x once per iteration, and
Psi^T W y once: sums over partitions of matrices of the size of the unknown. The preconditioner is
that of :mod:`kronfill.ridge.factor_system`, from the counts of the rows and columns.

A pass along the direction d changes the residual by about S0 d (the step is near 1), and single
precision would leave an error of some 1e-7 of that. While the steps are large passes are in double
precision; as soon as that error is far below the tolerance they are in single. No pass is added
for it. The residual that is reported comes from a pass in double precision; for the norm of it a
few digits do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats
from kronfill.core.grouping import Grouped
from kronfill.core.operator import SEGMENTS, SampledKronecker
from kronfill.core.threads import one_blas_thread
from kronfill.errors import DataError, ParameterError
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.factor_system import Rotated
from kronfill.ridge.problem import CoreResult
from kronfill.ridge.solution import Solution
from kronfill.ridge.system import NormalMap, System, inner

__all__ = ["PartitionedSystem", "Sums", "Totals", "moments_of", "normal_of", "outer_axis"]

SEGMENT_ITEMS = 512
EVEN = 8
ROUNDING = float(np.finfo(np.float32).eps)
SHARE = 0.1
"""Of the tolerance, what the rounding of a pass in single precision may take up."""


@dataclass(frozen=True, eq=False)
class Totals:
    """What is known of all observations together."""

    m: int
    shape: tuple[int, int]
    counts: tuple[Floats, Floats]
    """Total weight of each row and of each column."""
    square: float
    """sum of w y^2."""
    total: float
    """sum of w y."""


class Sums(ABC):
    """Sums over the observations, grouped by the outer axis, wherever they are."""

    totals: Totals

    @abstractmethod
    def place(self, outer: Floats, inner: Floats) -> None:
        """Bring the factors to where the observations are; before anything else."""

    @abstractmethod
    def normal(self, x: Floats, single: bool = False) -> Floats:
        """Psi^T W Psi x for x of shape (a, b); single precision may do where it is said to."""

    @abstractmethod
    def moments(self) -> Floats:
        """Psi^T W y and Psi^T W 1, shape (2, a, b)."""


def outer_axis(ranks: tuple[int, int]) -> int:
    """The axis to group by: the one that leaves the smaller rank in the inner loop."""
    return int(ranks[0] < ranks[1])


class _Pass(SampledKronecker):
    """The operator of one partition for one pass: Gram matrices would not pay.

    Its inner factor is laid out already, and has ``columns`` columns without those for filling up.
    Every segment reads the whole of it: there are as many as leave each SEGMENT_ITEMS outer items
    to use it, a multiple of EVEN so that threads have equal shares.
    """

    def __init__(self, p: Floats, q: NDArray[Any], grouped: Grouped, columns: int) -> None:
        super().__init__(p, q, grouped, q.dtype)
        self.core_shape = (p.shape[1], columns)

    def _make_grams(self) -> None:
        return None

    def _segments(self) -> NDArray[np.intp]:
        items = len(self._p)
        count = max(1, min(SEGMENTS, items // SEGMENT_ITEMS))
        count = count if count < EVEN else count - count % EVEN
        cuts = np.searchsorted(self._indptr, self.m * np.arange(1, count) / count)
        return np.unique(np.concatenate([[0], cuts, [items]]))


def normal_of(p: Floats, q: NDArray[Any], grouped: Grouped, x: Floats) -> Floats:
    """Psi^T W Psi x of some observations, in the precision of ``q``.

    ``p`` holds the factor at their outer items, ``q`` that of the inner axis, laid out by
    :func:`~kronfill.core.loops.lanes.lined`.
    """
    size = float(np.abs(x).max(initial=0.0))
    if not len(grouped.inner) or size == 0.0:
        return np.zeros_like(x)
    with one_blas_thread():
        # Single precision has a short range: what goes in is near 1.
        return size * _Pass(p, q, grouped, x.shape[1]).normal(x / size).astype(np.float64)


def moments_of(p: Floats, q: Floats, grouped: Grouped, values: Floats, columns: int) -> Floats:
    """Psi^T W y and Psi^T W 1 of some observations, from a factor of so many columns laid out."""
    if not len(values):
        return np.zeros((2, p.shape[1], columns))
    ones = grouped.weights if len(grouped.weights) else np.ones(len(values))
    with one_blas_thread():
        operator = _Pass(p, q, grouped, columns)
        return np.stack([operator.scatter(ones * values), operator.scatter(ones)])


class PartitionedSystem(System):
    """Psi^T M Psi in the rotated basis; M is W, less the mean if ``center`` is "mean".

    ``goal`` is mu times the tolerance of the relative residual; 0 keeps to double precision.
    """

    def __init__(
        self,
        phis: tuple[Floats, Floats],
        sums: Sums,
        center: str | None = None,
        goal: float = 0.0,
    ) -> None:
        if center not in (None, "mean"):
            msg = (
                f'center must be None or "mean" for observations that are not in memory, got '
                f"{center!r}. Take the effects of rows and columns off the values beforehand."
            )
            raise ParameterError(msg)
        self._sums, self._totals = sums, sums.totals
        counts = self._totals.counts
        sides = Rotated.of(phis[0], counts[0]), Rotated.of(phis[1], counts[1])
        self._turns = sides[0].turn, sides[1].turn
        by = outer_axis((phis[0].shape[1], phis[1].shape[1]))
        self._flipped = by == 1
        outer, inner_ = sides[by], sides[1 - by]
        self._weight = float(counts[0].sum())
        self._expected = np.outer(outer.diagonal, inner_.diagonal) / self._weight
        self._centred = center == "mean"
        sums.place(outer.phi, inner_.phi)
        del sides, outer, inner_  # whoever has the observations has what is needed of the factors
        self._xy: Floats
        self._ones: Floats
        self._xy, self._ones = sums.moments()
        square = self._totals.square
        if self._xy.any() and not np.finfo(float).tiny <= square < np.inf:
            msg = (
                f"The sum of the weighted squares of the values is {square:g}, beyond what double "
                "precision holds. Multiply all values by the same number, so that the largest is "
                "near 1."
            )
            raise DataError(msg)
        self.norm_y = np.array([np.sqrt(square)])
        self._spare = SHARE * goal * float(self.norm_y[0])

    def normal(self, x: Floats) -> Floats:
        """See :class:`NormalMap`."""
        changes = self.expected_norm(self._expected * x)
        single = ROUNDING * changes <= self._spare
        return np.stack([self._normal(*one) for one in zip(x, single, strict=True)])

    def _normal(self, x: Floats, single: bool = False) -> Floats:
        out = self._sums.normal(x, bool(single))
        if self._centred:  # M = W - w w^T / sum(w): a correction of rank one
            out -= self._ones * (float(np.vdot(self._ones, x)) / self._weight)
        return out

    def precondition(self, r: Floats, mu: float) -> Floats:
        """See :class:`NormalMap`."""
        return r / (self._expected + mu)

    def expected_norm(self, r: Floats) -> Floats:
        """See :class:`NormalMap`."""
        return np.sqrt(inner(r * r, np.broadcast_to(self._expected, r.shape)))

    def single(self) -> NormalMap:
        """See :class:`System`: the map itself, which chooses the precision of each pass."""
        return self

    def rhs(self) -> Floats:
        """See :class:`System`."""
        if not self._centred:
            return self._xy[None].copy()
        return (self._xy - self._ones * (self._totals.total / self._weight))[None]

    def dual_norm(self, r: Floats) -> Floats:
        """See :class:`System`: the columns of Psi are nearly orthogonal, so nothing cancels."""
        image = np.stack([self._normal(one, self._spare > 0) for one in r])
        return np.sqrt(np.maximum(0.0, inner(r, image)))

    def start(self, core: Floats) -> Floats:
        """See :class:`System`."""
        row, col = self._turns
        turned = row.T @ core @ col
        return np.ascontiguousarray(turned.T if self._flipped else turned)

    def result(self, x: Floats, mu: float, target: int, solution: Solution) -> CoreResult:
        """See :class:`System`: without the dual vector, which is as long as the data."""
        row, col = self._turns
        core = np.asarray(row @ (x.T if self._flipped else x) @ col.T)
        effects = None
        if self._centred:
            mean = (self._totals.total - float(np.vdot(self._ones, x))) / self._weight
            n, l = self._totals.shape
            effects = AdditiveEffects(mean, np.zeros(n), np.zeros(l))
        return CoreResult(core, np.empty(0), effects, solution)

"""The ridge problem of two factors over observations that are elsewhere: on disk, on a cluster.

All that conjugate gradients need of the observations is Psi^T W Psi x once per iteration, and
Psi^T W y once: sums over partitions of matrices of the size of the unknown. The preconditioner is
that of :mod:`kronfill.linalg.factorsystem`, from the counts of the rows and columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kronfill.errors import ParameterError
from kronfill.linalg.effects import AdditiveEffects
from kronfill.linalg.factorsystem import Rotated
from kronfill.linalg.grouping import Grouped
from kronfill.linalg.operator import SEGMENTS, SampledKronecker
from kronfill.linalg.ridge import CoreResult
from kronfill.linalg.solution import Solution, Status
from kronfill.linalg.system import NormalMap, System, inner
from kronfill.linalg.threads import one_blas_thread

__all__ = ["PartitionedSystem", "Sums", "Totals", "moments_of", "normal_of", "outer_axis"]

Floats = NDArray[np.float64]
SEGMENT_ITEMS = 256


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
    def normal(self, x: Floats) -> Floats:
        """Psi^T W Psi x for x of shape (a, b)."""

    @abstractmethod
    def moments(self) -> Floats:
        """Psi^T W y and Psi^T W 1, shape (2, a, b)."""


def outer_axis(ranks: tuple[int, int]) -> int:
    """The axis to group by: the one that leaves the smaller rank in the inner loop."""
    return int(ranks[0] < ranks[1])


class _Pass(SampledKronecker):
    """The operator of one partition for one pass: Gram matrices would not pay.

    Every segment reads the whole inner factor: there are as many as leave each SEGMENT_ITEMS outer
    items to use it.
    """

    def _make_grams(self) -> None:
        return None

    def _segments(self) -> NDArray[np.intp]:
        items = len(self._p)
        count = max(1, min(SEGMENTS, items // SEGMENT_ITEMS))
        cuts = np.searchsorted(self._indptr, self.m * np.arange(1, count) / count)
        return np.unique(np.concatenate([[0], cuts, [items]]))


def normal_of(p: Floats, q: Floats, grouped: Grouped, x: Floats) -> Floats:
    """Psi^T W Psi x of some observations; ``p`` holds the factor at their outer items."""
    if not len(grouped.inner):
        return np.zeros_like(x)
    with one_blas_thread():
        return _Pass(p, q, grouped).normal(x)


def moments_of(p: Floats, q: Floats, grouped: Grouped, values: Floats) -> Floats:
    """Psi^T W y and Psi^T W 1 of some observations."""
    if not len(values):
        return np.zeros((2, p.shape[1], q.shape[1]))
    ones = grouped.weights if len(grouped.weights) else np.ones(len(values))
    with one_blas_thread():
        operator = _Pass(p, q, grouped)
        return np.stack([operator.scatter(ones * values), operator.scatter(ones)])


class PartitionedSystem(System):
    """Psi^T M Psi in the rotated basis; M is W, less the mean if ``center`` is "mean"."""

    def __init__(self, phis: tuple[Floats, Floats], sums: Sums, center: str | None = None) -> None:
        if center not in (None, "mean"):
            msg = (
                f'center must be None or "mean" for observations that are not in memory, got '
                f"{center!r}. Take the effects of rows and columns off the values beforehand."
            )
            raise ParameterError(msg)
        self._sums, self._totals = sums, sums.totals
        counts = self._totals.counts
        self._sides = Rotated.of(phis[0], counts[0]), Rotated.of(phis[1], counts[1])
        by = outer_axis((phis[0].shape[1], phis[1].shape[1]))
        self._flipped = by == 1
        outer, inner_ = self._sides[by], self._sides[1 - by]
        self._weight = float(counts[0].sum())
        self._expected = np.outer(outer.diagonal, inner_.diagonal) / self._weight
        self._centred = center == "mean"
        sums.place(outer.phi, inner_.phi)
        self._xy: Floats
        self._ones: Floats
        self._xy, self._ones = sums.moments()
        self.norm_y = np.array([np.sqrt(self._totals.square)])

    def normal(self, x: Floats) -> Floats:
        """See :class:`NormalMap`."""
        return np.stack([self._normal(one) for one in x])

    def _normal(self, x: Floats) -> Floats:
        out = self._sums.normal(x)
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
        """See :class:`System`: the map itself, all passes are in double precision."""
        return self

    def rhs(self) -> Floats:
        """See :class:`System`."""
        if not self._centred:
            return self._xy[None].copy()
        return (self._xy - self._ones * (self._totals.total / self._weight))[None]

    def dual_norm(self, r: Floats) -> Floats:
        """See :class:`System`."""
        return np.sqrt(np.maximum(0.0, inner(r, self.normal(r))))

    def start(self, core: Floats) -> Floats:
        """See :class:`System`."""
        row, col = self._sides
        turned = row.turn.T @ core @ col.turn
        return np.ascontiguousarray(turned.T if self._flipped else turned)

    def result(self, x: Floats, mu: float, target: int) -> CoreResult:
        """See :class:`System`: without the dual vector, which is as long as the data."""
        row, col = self._sides
        core = np.asarray(row.turn @ (x.T if self._flipped else x) @ col.turn.T)
        effects = None
        if self._centred:
            mean = (self._totals.total - float(np.vdot(self._ones, x))) / self._weight
            n, l = self._totals.shape
            effects = AdditiveEffects(mean, np.zeros(n), np.zeros(l))
        return CoreResult(core, np.empty(0), effects, Solution(Status.CONVERGED, "PCG"))

"""The posterior covariance from running sums, for observations that were not kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from kronfill._types import Flags, Floats, Index
from kronfill.online.grouped_sums import GroupedSums
from kronfill.online.running import RunningSums
from kronfill.online.two_way_sums import TwoWaySums
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.free_effects import NONE, FreeEffects
from kronfill.ridge.problem import Mask, Sampled
from kronfill.uncertainty.posterior import FactorPosterior

__all__ = ["GroupEffects", "SummedPosterior", "nothing_sampled"]


def nothing_sampled(shape: tuple[int, int]) -> Sampled:
    """No observations at all: what is known of them are sums."""
    none = np.zeros(0, np.intp)
    return Sampled(Mask(none, none, shape), np.zeros(0))


@dataclass(frozen=True, eq=False)
class GroupEffects(FreeEffects):
    """Effects of groups that do not overlap, from the weight and the mean of each group."""

    sums: GroupedSums

    @classmethod
    def from_sums(cls, sums: GroupedSums) -> GroupEffects:
        """One column per group that has observations."""
        n, l = sums.shape
        row_at, col_at = np.full(n, NONE), np.full(l, NONE)
        seen = np.flatnonzero(sums.means.counts)
        if sums.kind != "mean":
            (row_at if sums.kind == "rows" else col_at)[seen] = np.arange(len(seen))
        labels = (np.zeros(n, np.intp), np.zeros(l, np.intp))
        table = sp.csr_array((n, l))
        return cls(sums.kind, row_at, col_at, *labels, len(seen), table, sums)

    def estimable(self, rows: Index, cols: Index) -> Flags:
        """See :class:`FreeEffects`."""
        if self.kind == "mean":
            return np.ones(len(rows), dtype=bool)
        items = rows if self.kind == "rows" else cols
        return np.asarray((items != NONE) & (self.sums.means.counts[items] > 0))

    @property
    def _seen(self) -> Index:
        return np.flatnonzero(self.sums.means.counts)

    @property
    def _normal(self) -> sp.csc_array:
        return sp.csc_array(sp.diags_array(self.sums.means.weights[self._seen]))

    def moments(self, row_phi: Floats, col_phi: Floats, columns: slice) -> Floats:
        """See :class:`FreeEffects`."""
        groups = self._seen[columns]
        means = self.sums.means
        return means.weights[groups, None] * self.sums.lifted(groups, means.features[groups])


class SummedPosterior(FactorPosterior):
    """By the inverse that recursive least squares keep."""

    def __init__(self, sums: RunningSums) -> None:
        super().__init__(sums.row_phi, sums.col_phi, nothing_sampled(sums.shape), sums.mu)
        self._sums = sums
        if isinstance(sums, TwoWaySums):
            rows, cols = np.nonzero(sums.table)
            weights = sums.table[rows, cols]
            self.effects = FreeEffects.of(EffectsDesign(rows, cols, sums.shape, "both", weights))
        elif isinstance(sums, GroupedSums) and sums.kind is not None:
            self.effects = GroupEffects.from_sums(sums)

    @property
    def dof(self) -> int:
        """See :class:`Posterior`."""
        return self._sums.m - (0 if self.effects is None else self.effects.rank)

    def _solve(self, u: Floats) -> Floats:
        return self._sums.products(u)

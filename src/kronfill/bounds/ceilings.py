"""The largest loss that each entry can have: known for every entry before its value is.

A value lies in [low, high] and its prediction f is known, so the square loss is at most
max(high - f, f - low)^2. What a bet needs of many such ceilings c is the sum of max(c, level) for
some levels: counts and sums of the ceilings in narrow bins give it exactly at the ends of the bins,
and no more than a block of predictions is held at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kronfill._types import Floats

__all__ = ["Ceilings"]

BINS = 512


@dataclass(frozen=True, eq=False)
class Ceilings:
    """Counts and sums of ceilings, by bins of [0, most].

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds.ceilings import Ceilings
    >>> found = Ceilings.of([np.array([1.0, 2.0]), np.array([4.0])], most=4.0)
    >>> found.count, found.total, found.total_above(3.0)
    (3, 7.0, 10.0)
    """

    most: float
    counts: Floats
    sums: Floats

    @classmethod
    def of(cls, blocks: Iterable[Floats], most: float) -> Ceilings:
        """Count ceilings, none of which exceeds ``most``, block by block."""
        counts, sums = np.zeros(BINS), np.zeros(BINS)
        for block in blocks:
            values = np.ravel(block)
            at = np.minimum((values * (BINS / most)).astype(np.intp), BINS - 1)
            counts += np.bincount(at, minlength=BINS)
            sums += np.bincount(at, weights=values, minlength=BINS)
        return cls(most, counts, sums)

    def __add__(self, other: Ceilings) -> Ceilings:
        return Ceilings(self.most, self.counts + other.counts, self.sums + other.sums)

    def __sub__(self, other: Ceilings) -> Ceilings:
        return Ceilings(self.most, self.counts - other.counts, self.sums - other.sums)

    @property
    def ends(self) -> Floats:
        """The upper ends of the bins."""
        return np.asarray(self.most * np.arange(1, BINS + 1) / BINS)

    @property
    def count(self) -> int:
        """Number of entries."""
        return round(float(self.counts.sum()))

    @property
    def total(self) -> float:
        """Sum of all ceilings."""
        return float(self.sums.sum())

    @property
    def top(self) -> float:
        """The end of the last bin that has a ceiling."""
        return float(self.ends[np.flatnonzero(self.counts > 0.5)[-1]])

    def total_above(self, level: float) -> float:
        """Sum of max(ceiling, level) for a level that is the end of a bin."""
        below = round(level / self.most * BINS)
        return float(level * self.counts[:below].sum() + self.sums[below:].sum())

    def boldest_level(self, log: float) -> float:
        """The level, at most ``top``, whose bets prove most if there are no losses at all.

        By v bets of headroom max(c, level), each over its mean, a mean loss of e is refuted where
        v (mean of ln max(c, level) - ln(mean of max(c, level) - e)) reaches ln(1/delta); ``log`` is
        ln(1/delta) / v. Within a bin ceilings count as their mean: this is a choice, not a proof.
        """
        there = self.counts > 0.5
        means = np.where(there, self.sums / np.maximum(self.counts, 1.0), self.ends)
        shares = np.where(there, self.counts, 0.0) / self.counts[there].sum()
        below = np.cumsum(shares)
        above = np.sum(shares * means) - np.cumsum(shares * means)
        logs = shares * np.log(np.maximum(means, 1e-300))
        typical = below * np.log(self.ends) + np.sum(logs) - np.cumsum(logs)
        refuted = below * self.ends + above - np.exp(typical - log)
        return float(min(self.ends[np.argmin(refuted)], self.top))

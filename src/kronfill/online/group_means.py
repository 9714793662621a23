"""Weighted means of groups that observations join and leave.

An unpenalised effect of a group takes up its mean: of an observation what is left to be explained
is its distance from the mean of the others in its group. With n the weight of the others and f
their mean, an observation of weight w adds to the sums about the mean

    w n / (w + n)   times the square (or product) of   feature - f,

exactly so, in any order, joining or leaving. A group of one has nothing left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from kronfill._types import Floats, Index

__all__ = ["GroupMeans", "feature_sums"]


@dataclass(eq=False)
class GroupMeans:
    """Weight, number of observations, mean value and mean feature of each group.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.online.group_means import GroupMeans
    >>> means = GroupMeans.empty(1, 1)
    >>> for value in (1.0, 2.0, 6.0):
    ...     gap, _, weight = means.join(0, np.array([value]), value, 1.0)
    >>> means.values, gap, weight  # 6 lies 4.5 above the mean of the two before it
    (array([3.]), array([4.5]), 0.6666666666666666)
    """

    weights: Floats
    counts: Index
    values: Floats
    features: Floats

    @classmethod
    def empty(cls, groups: int, width: int) -> GroupMeans:
        """Groups without any observation."""
        return cls(
            np.zeros(groups), np.zeros(groups, np.intp), np.zeros(groups), np.zeros((groups, width))
        )

    @classmethod
    def of(cls, group: Index, values: Floats, weights: Floats, sums: Floats) -> GroupMeans:
        """Of many observations; ``sums`` are the weighted sums of the features by group."""
        size = len(sums)
        total = np.bincount(group, weights, minlength=size).astype(float)
        share = np.divide(1.0, total, out=np.zeros(size), where=total > 0)
        means = share * np.bincount(group, weights * values, minlength=size).astype(float)
        counts = np.bincount(group, minlength=size)
        return cls(total, counts, means, share[:, None] * sums)

    def copy(self, extra: int = 0) -> GroupMeans:
        """Return a copy, with ``extra`` empty groups at the end."""
        empty = GroupMeans.empty(extra, self.features.shape[1])
        return GroupMeans(
            np.concatenate([self.weights, empty.weights]),
            np.concatenate([self.counts, empty.counts]),
            np.concatenate([self.values, empty.values]),
            np.concatenate([self.features, empty.features]),
        )

    def join(
        self, group: int, feature: Floats, value: float, weight: float
    ) -> tuple[Floats, float, float]:
        """Add one observation: its distance from the others, in feature and value, and weight."""
        n = float(self.weights[group])
        gap, rest = feature - self.features[group], value - float(self.values[group])
        share = weight / (n + weight)
        self.weights[group] = n + weight
        self.counts[group] += 1
        self.features[group] += share * gap
        self.values[group] += share * rest
        return gap, rest, n * share

    def leave(
        self, group: int, feature: Floats, value: float, weight: float
    ) -> tuple[Floats, float, float]:
        """Remove one observation: its distance from those that stay, and a negative weight."""
        n = float(self.weights[group])
        if self.counts[group] == 1:
            self._clear(group)
            return np.zeros_like(feature), 0.0, 0.0
        share = weight / (n - weight)
        self.features[group] -= share * (feature - self.features[group])
        self.values[group] -= share * (value - self.values[group])
        self.weights[group] = n - weight
        self.counts[group] -= 1
        gap, rest = feature - self.features[group], value - float(self.values[group])
        return gap, rest, -weight * (n - weight) / n

    def _clear(self, group: int | Index) -> None:
        for part in (self.weights, self.counts, self.values, self.features):
            part[group] = 0

    def merge(self, other: GroupMeans, sign: int) -> tuple[Index, Floats, Floats, Floats]:
        """Add (or remove) many observations, given by their own means.

        Returns
        -------
        The groups on both sides, the distances between the means (features, values), the weights.
        """
        both = np.flatnonzero((other.counts > 0) & (self.counts + min(sign, 0) * other.counts > 0))
        if sign < 0:
            self._move(other, -1)
        n, added = self.weights[both], other.weights[both]
        gap = other.features[both] - self.features[both]
        rest = other.values[both] - self.values[both]
        if sign > 0:
            self._move(other, 1)
        return both, gap, rest, sign * n * added / (n + added)

    def _move(self, other: GroupMeans, sign: int) -> None:
        total = self.weights + sign * other.weights
        counts = self.counts + sign * other.counts
        share = np.divide(sign * other.weights, total, out=np.zeros(len(total)), where=counts > 0)
        self.values += share * (other.values - self.values)
        self.features += share[:, None] * (other.features - self.features)
        self.weights, self.counts = total, counts
        self._clear(np.flatnonzero(counts == 0))


def feature_sums(kind: str, table: sp.csr_array, row_phi: Floats, col_phi: Floats) -> Floats:
    """Weighted sums of the features of each group: of entries, of columns or of rows."""
    if kind == "mean":
        return np.asarray(row_phi.T @ (table @ col_phi)).reshape(1, -1)
    return np.asarray(table @ col_phi if kind == "rows" else table.T @ row_phi)

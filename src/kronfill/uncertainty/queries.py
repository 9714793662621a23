"""Entries whose posterior is asked about: known or new items on each axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kronfill._types import Flags, Floats, Index

__all__ = ["QueriedItems", "Queries", "gathered"]


@dataclass(frozen=True, eq=False)
class QueriedItems:
    """Items of one axis that are asked about.

    Attributes
    ----------
    index : ndarray of shape (n,)
        Position of each item in the table, -1 for a new one.
    diagonal : ndarray of shape (n,)
        Similarity of each item with itself.
    cross : callable
        ``cross(part, items)``: similarity of the items at positions ``part`` with items of the
        table, len(part) x len(items).
    phi : callable
        ``phi(part)``: rows of the axis' factor, len(part) x rank.
    """

    index: Index
    diagonal: Floats
    cross: Callable[[Index, Index], Floats]
    phi: Callable[[Index], Floats]


@dataclass(frozen=True, eq=False)
class Queries:
    """Entries asked about: pairs of positions among the items of two sides."""

    row: QueriedItems
    col: QueriedItems
    at_r: Index
    at_c: Index

    def __len__(self) -> int:
        return len(self.at_r)

    @property
    def rows(self) -> Index:
        """Row of each entry in the table, -1 if new."""
        return self.row.index[self.at_r]

    @property
    def cols(self) -> Index:
        """Column of each entry in the table, -1 if new."""
        return self.col.index[self.at_c]

    @property
    def prior(self) -> Floats:
        """Prior variance of each entry."""
        return np.asarray(self.row.diagonal[self.at_r] * self.col.diagonal[self.at_c])

    def take(self, part: slice | Flags | Index) -> Queries:
        """Some of the entries."""
        return Queries(self.row, self.col, self.at_r[part], self.at_c[part])

    def kernel(self, other: Queries) -> Floats:
        """Prior covariance with the entries of ``other``, whose items must be in the table."""
        row = gathered(self.row, self.at_r, other.rows)
        return np.asarray(row * gathered(self.col, self.at_c, other.cols))


def gathered(side: QueriedItems, at: Index, items: Index) -> Floats:
    """Similarity of the items at positions ``at`` with ``items``, each pair computed once."""
    part, at_part = np.unique(at, return_inverse=True)
    other, at_other = np.unique(items, return_inverse=True)
    return side.cross(part, other)[np.ix_(at_part, at_other)]

"""Observations grouped by the items of one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["Grouped"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]


@numba.njit(cache=True)
def _starts(keys, indptr):  # type: ignore[no-untyped-def]
    """indptr[i] = number of keys below i."""
    indptr[:] = 0
    for k in range(len(keys)):
        indptr[keys[k] + 1] += 1
    for i in range(len(indptr) - 1):
        indptr[i + 1] += indptr[i]


@numba.njit(cache=True)
def _group(outer, inner, first, order, sorted_inner, place):  # type: ignore[no-untyped-def]
    """Two stable counting sorts: by inner item, then by outer item."""
    _starts(inner, place)
    for k in range(len(inner)):
        at = place[inner[k]]
        first[at] = k
        place[inner[k]] = at + 1
    _starts(outer, place)
    for t in range(len(outer)):
        k = first[t]
        at = place[outer[k]]
        order[at] = k
        sorted_inner[at] = inner[k]
        place[outer[k]] = at + 1


@dataclass(frozen=True, eq=False)
class Grouped:
    """Observations grouped by the items of one axis, sorted by the other within each group."""

    order: NDArray[Any]
    """Position in the caller's order of each grouped observation."""
    indptr: NDArray[np.int64]
    inner: NDArray[Any]
    weights: Floats
    """Weights in grouped order; empty when all are 1."""

    @classmethod
    def by(cls, outer: Index, inner: Index, n: int, weights: Floats | None = None) -> Grouped:
        """Group by ``outer``, which has ``n`` items."""
        widest = int(inner.max(initial=0)) + 1
        kind = np.int32 if max(len(outer), widest) < 2**31 else np.int64
        first, order, sorted_inner = (np.empty(len(outer), kind) for _ in range(3))
        place = np.empty(max(n, widest) + 1, np.int64)
        _group(outer, inner, first, order, sorted_inner, place)
        indptr = np.zeros(n + 1, np.int64)
        indptr[1:] = place[:n]  # after the sort, the start of an item has moved to its end
        sorted_weights = np.empty(0) if weights is None else weights[order]
        return cls(order, indptr, sorted_inner, sorted_weights)

    @property
    def outer(self) -> Index:
        """Outer item of each grouped observation."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

"""Observations grouped by the items of one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats, Index
from kronfill.core.threads import each, over

__all__ = ["Grouped", "totals"]


DIGIT = 9
"""Bits sorted at a time."""
MASK = 2**DIGIT - 1
INSERTED = 64
"""Up to this many observations of an item are sorted by insertion."""


@numba.njit(cache=True)
def _scatter(outer, inner, place, order, sorted_inner):  # type: ignore[no-untyped-def]
    """Counting sort by outer item, stable; place[i] becomes the end of item i."""
    place[:] = 0
    for k in range(len(outer)):
        place[outer[k] + 1] += 1
    for i in range(len(place) - 1):
        place[i + 1] += place[i]
    for k in range(len(outer)):
        at = place[outer[k]]
        order[at] = k
        sorted_inner[at] = inner[k]
        place[outer[k]] = at + 1


@numba.njit(cache=True)
def _insertion(keys, carried, start, end):  # type: ignore[no-untyped-def]
    for i in range(start + 1, end):
        key, value = keys[i], carried[i]
        j = i - 1
        while j >= start and keys[j] > key:
            keys[j + 1], carried[j + 1] = keys[j], carried[j]
            j -= 1
        keys[j + 1], carried[j + 1] = key, value


@numba.njit(cache=True)
def _radix(keys, carried, start, end, bits, spare_keys, spare_carried, count):  # type: ignore[no-untyped-def]
    """Sort keys[start:end] with what they carry, DIGIT bits at a time, lowest first; stable."""
    for shift in range(0, bits, DIGIT):
        for d in range(len(count)):
            count[d] = 0
        for k in range(start, end):
            count[((keys[k] >> shift) & MASK) + 1] += 1
        for d in range(len(count) - 1):
            count[d + 1] += count[d]
        for k in range(start, end):
            d = (keys[k] >> shift) & MASK
            spare_keys[count[d]], spare_carried[count[d]] = keys[k], carried[k]
            count[d] += 1
        for k in range(end - start):
            keys[start + k], carried[start + k] = spare_keys[k], spare_carried[k]


@numba.njit(nogil=True, cache=True)
def _sort_items(keys, carried, indptr, first, last, bits):  # type: ignore[no-untyped-def]
    """Sort the observations of the items first, ..., last - 1 by inner item."""
    longest = 1
    for i in range(first, last):
        longest = max(longest, indptr[i + 1] - indptr[i])
    spare_keys = np.empty(longest, keys.dtype)
    spare_carried = np.empty(longest, carried.dtype)
    count = np.empty(2**DIGIT + 1, np.int64)
    for i in range(first, last):
        start, end = indptr[i], indptr[i + 1]
        if end - start <= INSERTED:
            _insertion(keys, carried, start, end)
        else:
            _radix(keys, carried, start, end, bits, spare_keys, spare_carried, count)


@numba.njit(nogil=True, cache=True)
def _gather(values, order, first, last, out):  # type: ignore[no-untyped-def]
    for k in range(first, last):
        out[k] = values[order[k]]


@numba.njit(nogil=True, cache=True)
def _put(values, order, first, last, out):  # type: ignore[no-untyped-def]
    for k in range(first, last):
        out[order[k]] = values[k]


@numba.njit(cache=True)
def _count(index, out):  # type: ignore[no-untyped-def]
    for k in range(len(index)):
        out[index[k]] += 1.0


def totals(index: NDArray[Any], weights: Floats | None, n: int) -> Floats:
    """Number of observations, or sum of their weights, of each item."""
    if weights is not None:
        return np.bincount(index, weights, minlength=n).astype(float, copy=False)
    out = np.zeros(n)
    _count(index, out)
    return out


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
        order, sorted_inner = (np.empty(len(outer), kind) for _ in range(2))
        indptr = np.zeros(n + 1, np.int64)
        place = np.zeros(n + 1, np.int64)
        _scatter(outer, inner, place, order, sorted_inner)
        indptr[1:] = place[:n]  # after the sort, the start of an item has moved to its end
        bounds = np.unique(np.linspace(0, n, 129).astype(np.int64))
        bits = max(1, (widest - 1).bit_length())

        def sort(s: int) -> None:
            _sort_items(sorted_inner, order, indptr, bounds[s], bounds[s + 1], bits)

        each(len(bounds) - 1, sort)
        sorted_weights = np.empty(0) if weights is None else weights[order]
        return cls(order, indptr, sorted_inner, sorted_weights)

    def gather(self, values: Floats) -> Floats:
        """From the caller's order into the grouped one."""
        out = np.empty(len(self.order))
        over(len(out), lambda first, last: _gather(values, self.order, first, last, out))
        return out

    def restore(self, values: Floats) -> Floats:
        """From the grouped order into the caller's."""
        out = np.empty(len(self.order))
        over(len(out), lambda first, last: _put(values, self.order, first, last, out))
        return out

    @property
    def outer(self) -> Index:
        """Outer item of each grouped observation."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

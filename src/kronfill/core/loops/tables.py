"""Tables with one row per item against the observed entries: products and sums, by several threads.

Each item belongs to one thread: the same bits come out for any number of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats, Index
from kronfill.core.grouping import Grouped
from kronfill.core.loops.passes import FAST, block_size, chunk_size, product_row, reach, scatter_row
from kronfill.core.threads import each

__all__ = ["SparseTables"]

SEGMENTS = 128


@numba.njit(nogil=True, cache=True)
def _product_segment(left, right, indptr, inner, first, last, out):  # type: ignore[no-untyped-def]
    block = block_size(right, indptr, first, last)
    chunk = chunk_size(left.shape[1], last - first)
    cursor = np.empty(chunk, np.int64)
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        for i in range(n):
            cursor[i] = indptr[start + i]
        for low in range(0, len(right), block):
            for i in range(n):
                end = reach(inner, cursor[i], indptr[start + i + 1], low + block)
                product_row(left[start + i], right, inner, cursor[i], end, out)
                cursor[i] = end


@numba.njit(nogil=True, cache=True)
def _sum_segment(q, d, indptr, inner, first, last, out):  # type: ignore[no-untyped-def]
    block = block_size(q, indptr, first, last)
    chunk = chunk_size(q.shape[1], last - first)
    cursor = np.empty(chunk, np.int64)
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        for i in range(n):
            cursor[i] = indptr[start + i]
        for low in range(0, len(q), block):
            for i in range(n):
                end = reach(inner, cursor[i], indptr[start + i + 1], low + block)
                scatter_row(out[start + i], q, d, inner, cursor[i], end)
                cursor[i] = end


@numba.njit(cache=True, fastmath=FAST)
def _product_sum_row(t, g, q, weights, inner, start, end, out):  # type: ignore[no-untyped-def]
    """out[k] = w_k t . q_k, and g += sum of these times the leading part of q_k, two at a time."""
    weighted = len(weights) > 0
    k = start
    while k + 2 <= end:
        q0 = q[inner[k]]
        q1 = q[inner[k + 1]]
        v0 = q.dtype.type(0)
        v1 = q.dtype.type(0)
        for j in range(len(t)):
            v0 += t[j] * q0[j]
            v1 += t[j] * q1[j]
        if weighted:
            v0 *= weights[k]
            v1 *= weights[k + 1]
        out[k] = v0
        out[k + 1] = v1
        for j in range(len(g)):
            g[j] += v0 * q0[j] + v1 * q1[j]
        k += 2
    if k < end:
        q0 = q[inner[k]]
        v0 = q.dtype.type(0)
        for j in range(len(t)):
            v0 += t[j] * q0[j]
        if weighted:
            v0 *= weights[k]
        out[k] = v0
        for j in range(len(g)):
            g[j] += v0 * q0[j]


@numba.njit(nogil=True, cache=True)
def _product_sum_segment(left, right, weights, indptr, inner, first, last, out, sums):  # type: ignore[no-untyped-def]
    block = block_size(right, indptr, first, last)
    chunk = chunk_size(left.shape[1], last - first)
    cursor = np.empty(chunk, np.int64)
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        for i in range(n):
            cursor[i] = indptr[start + i]
        for low in range(0, len(right), block):
            for i in range(n):
                end = reach(inner, cursor[i], indptr[start + i + 1], low + block)
                _product_sum_row(
                    left[start + i], sums[start + i], right, weights, inner, cursor[i], end, out
                )
                cursor[i] = end


class SparseTables:
    """Products of tables with rows and columns at the observed entries, and their adjoints.

    The values of the observed entries are kept in the order of the rows.
    """

    def __init__(self, by_rows: Grouped, by_cols: Grouped) -> None:
        self.m = len(by_rows.order)
        place = np.empty_like(by_rows.order)
        place[by_rows.order] = np.arange(self.m, dtype=place.dtype)
        self._groups = (by_rows, by_cols)
        self._by_col = place[by_cols.order]
        self._bounds = tuple(_even(group.indptr) for group in self._groups)

    def _each_segment(self, axis: int, job: Callable[[int, int], None]) -> None:
        """Call job(first, last) on segments of the items of one axis."""
        bounds = self._bounds[axis]
        each(len(bounds) - 1, lambda s: job(bounds[s], bounds[s + 1]))

    def products(self, left: Floats, right: Floats) -> Floats:
        """left[r_k] . right[c_k] for each observation."""
        rows, out = self._groups[0], np.empty(self.m, left.dtype)

        def job(first: int, last: int) -> None:
            _product_segment(left, right, rows.indptr, rows.inner, first, last, out)

        self._each_segment(0, job)
        return out

    def products_sums(
        self, left: Floats, right: Floats, width: int, weights: Floats
    ) -> tuple[Floats, Floats]:
        """v_k = w_k left[r_k] . right[c_k], and sum_k v_k right[c_k, :width] of each row."""
        rows, out = self._groups[0], np.empty(self.m, left.dtype)
        sums = np.zeros((len(rows.indptr) - 1, width), left.dtype)

        def job(first: int, last: int) -> None:
            _product_sum_segment(
                left, right, weights, rows.indptr, rows.inner, first, last, out, sums
            )

        self._each_segment(0, job)
        return out, sums

    def sums(self, q: Floats, d: Floats, axis: int) -> Floats:
        """sum_k d_k q[other item of k] for each row (axis 0) or column (axis 1)."""
        group = self._groups[axis]
        out = np.zeros((len(group.indptr) - 1, q.shape[1]), q.dtype)
        d = d.astype(q.dtype, copy=False)
        d = d if axis == 0 else d[self._by_col]

        def job(first: int, last: int) -> None:
            _sum_segment(q, d, group.indptr, group.inner, first, last, out)

        self._each_segment(axis, job)
        return out


def _even(indptr: NDArray[np.int64], count: int = SEGMENTS) -> Index:
    """Cut items into segments of about equal numbers of observations."""
    work = indptr[1:] + np.arange(1, len(indptr))
    cuts = np.searchsorted(work, work[-1] * np.arange(1, count) / count)
    return np.unique(np.concatenate([[0], cuts, [len(indptr) - 1]]))

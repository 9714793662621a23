"""Compiled loops over the observations.

The loops over a segment are compiled, those over segments run them on several threads. ``p`` is
the factor of the outer axis, restricted to items with observations, ``q`` that of the inner axis,
with rows laid out by :func:`~kronfill.core.loops.lanes.lined`; ``indptr`` and ``inner`` are
those of :class:`~kronfill.core.grouping.Grouped`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from kronfill.core.loops.lanes import LINE, add_1, add_4, add_8, dots_1, dots_4, dots_8, prefetch
from kronfill.core.threads import each, over

__all__ = [
    "FAST", "block_size", "chunk_size", "gram_normal", "normal", "pair_products", "product_row",
    "reach", "row_grams", "sample", "scatter", "scatter_row",
]  # fmt: skip

FAST = {"reassoc", "contract", "nsz", "arcp"}  # reorders sums, keeps NaN and infinity honest
CACHED_FLOATS = 1 << 16
BLOCK_FLOATS = 3 << 15
AT_LEAST = 8
GATHER = 256
STRIDE = 16
"""Observations whose inner items fill a cache line."""
LINES = 4
"""Cache lines of inner items that are asked for before they are needed."""


@numba.njit(cache=True, fastmath=FAST)
def _zero(a):  # type: ignore[no-untyped-def]
    for j in range(len(a)):
        a[j] = 0.0


@numba.njit(cache=True, fastmath=FAST)
def _add_outer(p, g, work, total):  # type: ignore[no-untyped-def]
    """total += p^T g."""
    np.dot(p.T, g, work)
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            total[i, j] += work[i, j]


@numba.njit(cache=True)
def chunk_size(b, items):  # type: ignore[no-untyped-def]
    """Outer items worked on together: their vectors fit in the cache."""
    return max(1, min(items, max(32, min(1024, CACHED_FLOATS // max(1, b)))))


@numba.njit(cache=True)
def block_size(q, indptr, first, last):  # type: ignore[no-untyped-def]
    """Inner items worked on together: their vectors stay in the cache for a chunk of outer ones.

    Where items have few observations, blocks are larger, so that one has some in each of them.
    """
    observed = max(1, indptr[last] - indptr[first])
    wide = AT_LEAST * len(q) * (last - first) // observed
    return max(64, BLOCK_FLOATS // max(1, q.shape[1]), wide)


@numba.njit(cache=True)
def reach(inner, begin, stop, limit):  # type: ignore[no-untyped-def]
    """End of the observations from ``begin`` on whose inner item is below ``limit``."""
    end = begin
    while end + STRIDE <= stop and inner[end + STRIDE - 1] < limit:
        end += STRIDE
    while end < stop and inner[end] < limit:
        end += 1
    return end


@numba.njit(cache=True)
def _announce(inner, cursor, i, n):  # type: ignore[no-untyped-def]
    """Ask for the inner items of the outer item after the next one.

    The items of a chunk lie far apart, and each is left again after a few lines: the processor does
    not see the pattern.
    """
    begin = cursor[min(i + 2, n - 1)]
    for line in range(LINES):
        prefetch(inner, begin + STRIDE * line)


@numba.njit(cache=True)
def _share(q, indptr, start, n, block):  # type: ignore[no-untyped-def]
    """Rows of the next block that each outer item asks for; none where few of them are used."""
    return -(-block // n) if indptr[start + n] - indptr[start] >= len(q) else 0


@numba.njit(cache=True)
def _bring(q, first, count):  # type: ignore[no-untyped-def]
    """Ask for some rows of the next block, so that it is there when its turn comes."""
    for r in range(first, min(first + count, len(q))):
        for j in range(0, q.shape[1], LINE // q.itemsize):
            prefetch(q[r], j)


@numba.njit(cache=True)
def _normal_row(t, g, q, inner, start, end):  # type: ignore[no-untyped-def]
    """g += sum over the observations start, ..., end - 1 of (t . q_k) q_k, eight at a time."""
    k = start
    while k + 8 <= end:
        add_8(g, q, inner, k, dots_8(t, q, inner, k))
        k += 8
    if k + 4 <= end:
        add_4(g, q, inner, k, dots_4(t, q, inner, k))
        k += 4
    while k < end:
        add_1(g, q, inner, k, dots_1(t, q, inner, k))
        k += 1


@numba.njit(cache=True)
def _weighted_row(t, g, q, inner, w, start, end):  # type: ignore[no-untyped-def]
    """The same with weights w_k."""
    k = start
    while k + 4 <= end:
        a, b, c, d = dots_4(t, q, inner, k)
        add_4(g, q, inner, k, (a * w[k], b * w[k + 1], c * w[k + 2], d * w[k + 3]))
        k += 4
    while k < end:
        (a,) = dots_1(t, q, inner, k)
        add_1(g, q, inner, k, (a * w[k],))
        k += 1


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _normal_segment(p, q, x, indptr, inner, weights, first, last, total):  # type: ignore[no-untyped-def]
    b = q.shape[1]
    targets = len(x)
    chunk = chunk_size(b * targets, last - first)
    t = np.empty((targets, chunk, b), q.dtype)
    g = np.empty((targets, chunk, b), q.dtype)
    cursor = np.empty(chunk, np.int64)
    work = np.empty(total.shape[1:], q.dtype)
    block = block_size(q, indptr, first, last)
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        for s in range(targets):
            np.dot(p[start : start + n], x[s], t[s, :n])
            for i in range(n):
                _zero(g[s, i])
        for i in range(n):
            cursor[i] = indptr[start + i]
        share = _share(q, indptr, start, n, block)
        # One block of q at a time: it stays in the cache while all items of the chunk use it.
        for low in range(0, len(q), block):
            for i in range(n):
                _announce(inner, cursor, i, n)
                _bring(q, low + block + i * share, share)
                end = reach(inner, cursor[i], indptr[start + i + 1], low + block)
                for s in range(targets):
                    if len(weights) > 0:
                        _weighted_row(t[s, i], g[s, i], q, inner, weights, cursor[i], end)
                    else:
                        _normal_row(t[s, i], g[s, i], q, inner, cursor[i], end)
                cursor[i] = end
        for s in range(targets):
            _add_outer(p[start : start + n], g[s, :n], work, total[s])


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _gram_segment(p, x, grams, first, last, total):  # type: ignore[no-untyped-def]
    """The same from the matrices sum_k w_k q_k^T q_k of each item."""
    b = x.shape[2]
    chunk = chunk_size(b, last - first)
    t = np.empty((chunk, b), grams.dtype)
    g = np.empty((chunk, b), grams.dtype)
    work = np.empty(total.shape[1:], grams.dtype)
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        for s in range(len(x)):
            np.dot(p[start : start + n], x[s], t[:n])
            for i in range(n):
                gram = grams[start + i]
                for j in range(b):
                    v = grams.dtype.type(0)
                    for k in range(b):
                        v += gram[j, k] * t[i, k]
                    g[i, j] = v
            _add_outer(p[start : start + n], g[:n], work, total[s])


def gram_normal(p: Any, x: Any, grams: Any, bounds: Any, parts: Any) -> None:
    """parts[s] += what :func:`normal` adds, from the Gram matrices of the items."""
    each(len(parts), lambda s: _gram_segment(p, x, grams, bounds[s], bounds[s + 1], parts[s]))


@numba.njit(cache=True, fastmath=FAST)
def _row_gram(q, inner, weights, start, end, out):  # type: ignore[no-untyped-def]
    """out = sum_k w_k q_k^T q_k over the observations of one item."""
    b = q.shape[1]
    buffer = np.empty((GATHER, b), q.dtype)
    part = np.empty((b, b), q.dtype)
    for first in range(start, end, GATHER):
        n = min(GATHER, end - first)
        for i in range(n):
            root = q.dtype.type(np.sqrt(weights[first + i]) if len(weights) > 0 else 1.0)
            for j in range(b):
                buffer[i, j] = root * q[inner[first + i], j]
        np.dot(buffer[:n].T, buffer[:n], part)
        for i in range(b):
            for j in range(b):
                out[i, j] = part[i, j] if first == start else out[i, j] + part[i, j]


@numba.njit(nogil=True, cache=True)
def _row_grams(q, indptr, inner, weights, first, last, out):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        _row_gram(q, inner, weights, indptr[i], indptr[i + 1], out[i])


def row_grams(q: Any, indptr: Any, inner: Any, weights: Any, bounds: Any, out: Any) -> None:
    """out[i] = sum over the observations of item i of w_k q_k^T q_k."""
    each(
        len(bounds) - 1,
        lambda s: _row_grams(q, indptr, inner, weights, bounds[s], bounds[s + 1], out),
    )


@numba.njit(cache=True, fastmath=FAST)
def product_row(t, q, inner, start, end, out):  # type: ignore[no-untyped-def]
    """out[k] = t . q_k for the observations start, ..., end - 1, four at a time."""
    k = start
    while k + 4 <= end:
        q0 = q[inner[k]]
        q1 = q[inner[k + 1]]
        q2 = q[inner[k + 2]]
        q3 = q[inner[k + 3]]
        v0 = q.dtype.type(0)
        v1 = q.dtype.type(0)
        v2 = q.dtype.type(0)
        v3 = q.dtype.type(0)
        for j in range(len(t)):
            v0 += t[j] * q0[j]
            v1 += t[j] * q1[j]
            v2 += t[j] * q2[j]
            v3 += t[j] * q3[j]
        out[k] = v0
        out[k + 1] = v1
        out[k + 2] = v2
        out[k + 3] = v3
        k += 4
    while k < end:
        q0 = q[inner[k]]
        v0 = q.dtype.type(0)
        for j in range(len(t)):
            v0 += t[j] * q0[j]
        out[k] = v0
        k += 1


@numba.njit(cache=True)
def _product_lines(t, q, inner, start, end, out):  # type: ignore[no-untyped-def]
    """:func:`product_row` for rows of whole cache lines, eight at a time."""
    k = start
    while k + 8 <= end:
        v = dots_8(t, q, inner, k)
        for c in range(8):
            out[k + c] = v[c]
        k += 8
    while k < end:
        (out[k],) = dots_1(t, q, inner, k)
        k += 1


@numba.njit(nogil=True, cache=True)
def _sample_segment(p, q, x, indptr, inner, first, last, out):  # type: ignore[no-untyped-def]
    b = q.shape[1]
    chunk = chunk_size(b, last - first)
    t = np.empty((chunk, b), q.dtype)
    cursor = np.empty(chunk, np.int64)
    block = block_size(q, indptr, first, last)
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        np.dot(p[start : start + n], x, t[:n])
        for i in range(n):
            cursor[i] = indptr[start + i]
        share = _share(q, indptr, start, n, block)
        for low in range(0, len(q), block):
            for i in range(n):
                _announce(inner, cursor, i, n)
                _bring(q, low + block + i * share, share)
                end = reach(inner, cursor[i], indptr[start + i + 1], low + block)
                _product_lines(t[i], q, inner, cursor[i], end, out)
                cursor[i] = end


@numba.njit(cache=True, fastmath=FAST)
def scatter_row(g, q, d, inner, start, end):  # type: ignore[no-untyped-def]
    """g += sum of d_k q_k, four at a time."""
    k = start
    while k + 4 <= end:
        q0 = q[inner[k]]
        q1 = q[inner[k + 1]]
        q2 = q[inner[k + 2]]
        q3 = q[inner[k + 3]]
        for j in range(len(g)):
            g[j] += d[k] * q0[j] + d[k + 1] * q1[j] + d[k + 2] * q2[j] + d[k + 3] * q3[j]
        k += 4
    while k < end:
        q0 = q[inner[k]]
        for j in range(len(g)):
            g[j] += d[k] * q0[j]
        k += 1


@numba.njit(cache=True)
def _scatter_lines(g, q, d, inner, start, end):  # type: ignore[no-untyped-def]
    """:func:`scatter_row` for rows of whole cache lines, eight at a time."""
    k = start
    while k + 8 <= end:
        v = d[k], d[k + 1], d[k + 2], d[k + 3], d[k + 4], d[k + 5], d[k + 6], d[k + 7]
        add_8(g, q, inner, k, v)
        k += 8
    while k < end:
        add_1(g, q, inner, k, (d[k],))
        k += 1


@numba.njit(nogil=True, cache=True)
def _scatter_segment(p, q, d, indptr, inner, first, last, total):  # type: ignore[no-untyped-def]
    b = q.shape[1]
    chunk = chunk_size(b, last - first)
    g = np.empty((chunk, b), q.dtype)
    work = np.empty(total.shape, q.dtype)
    cursor = np.empty(chunk, np.int64)
    block = block_size(q, indptr, first, last)
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        for i in range(n):
            _zero(g[i])
        for i in range(n):
            cursor[i] = indptr[start + i]
        share = _share(q, indptr, start, n, block)
        for low in range(0, len(q), block):
            for i in range(n):
                _announce(inner, cursor, i, n)
                _bring(q, low + block + i * share, share)
                end = reach(inner, cursor[i], indptr[start + i + 1], low + block)
                _scatter_lines(g[i], q, d, inner, cursor[i], end)
                cursor[i] = end
        _add_outer(p[start : start + n], g[:n], work, total)


def normal(
    p: Any, q: Any, x: Any, indptr: Any, inner: Any, weights: Any, bounds: Any, parts: Any
) -> None:
    """parts[s, i] += sum over the observations of segment s of w (p x_i q^T) p^T q."""

    def job(s: int) -> None:
        _normal_segment(p, q, x, indptr, inner, weights, bounds[s], bounds[s + 1], parts[s])

    each(len(parts), job)


def sample(p: Any, q: Any, x: Any, indptr: Any, inner: Any, bounds: Any, out: Any) -> None:
    """out[k] = p[r_k] x q[c_k]^T."""

    def job(s: int) -> None:
        _sample_segment(p, q, x, indptr, inner, bounds[s], bounds[s + 1], out)

    each(len(bounds) - 1, job)


def scatter(p: Any, q: Any, d: Any, indptr: Any, inner: Any, bounds: Any, parts: Any) -> None:
    """parts[s] += sum over the observations of segment s of d_k p^T q."""

    def job(s: int) -> None:
        _scatter_segment(p, q, d, indptr, inner, bounds[s], bounds[s + 1], parts[s])

    each(len(parts), job)


def pair_products(left: Any, right: Any, rows: Any, cols: Any, out: Any) -> None:
    """out[k] = left[r_k] . right[c_k]."""
    over(len(out), lambda first, last: _pair_products(left, right, rows, cols, first, last, out))


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _pair_products(left, right, rows, cols, first, last, out):  # type: ignore[no-untyped-def]
    for k in range(first, last):
        u = left[rows[k]]
        v = right[cols[k]]
        total = 0.0
        for j in range(len(u)):
            total += u[j] * v[j]
        out[k] = total

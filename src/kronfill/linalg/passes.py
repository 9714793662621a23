"""Compiled loops over the observations.

The loops over a segment are compiled as ordinary functions; only the loop over segments is
parallel. That keeps compilation to a few seconds. ``p`` is the factor of the outer axis, restricted
to items with observations, ``q`` that of the inner axis; ``indptr`` and ``inner`` are those of
:class:`~kronfill.linalg.grouping.Grouped`.
"""

from __future__ import annotations

import numba
import numpy as np

__all__ = ["FAST", "gram_normal", "normal", "pair_products", "row_grams", "sample", "scatter"]

FAST = {"reassoc", "contract", "nsz", "arcp"}  # reorders sums, keeps NaN and infinity honest
CHUNK_FLOATS = 1 << 16
BLOCK_FLOATS = 1 << 17
GATHER = 256


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
def _chunk(b):  # type: ignore[no-untyped-def]
    """Outer items worked on together: their vectors fit in the cache."""
    return max(32, min(1024, CHUNK_FLOATS // b))


@numba.njit(cache=True, fastmath=FAST)
def _normal_row(t, g, q, inner, weights, start, end):  # type: ignore[no-untyped-def]
    """g += sum over the observations start, ..., end - 1 of w (t . q_k) q_k, four at a time."""
    weighted = len(weights) > 0
    b = q.shape[1]
    k = start
    while k + 4 <= end:
        q0 = q[inner[k]]
        q1 = q[inner[k + 1]]
        q2 = q[inner[k + 2]]
        q3 = q[inner[k + 3]]
        v0 = 0.0
        v1 = 0.0
        v2 = 0.0
        v3 = 0.0
        for j in range(b):
            tj = t[j]
            v0 += tj * q0[j]
            v1 += tj * q1[j]
            v2 += tj * q2[j]
            v3 += tj * q3[j]
        if weighted:
            v0 *= weights[k]
            v1 *= weights[k + 1]
            v2 *= weights[k + 2]
            v3 *= weights[k + 3]
        for j in range(b):
            g[j] += v0 * q0[j] + v1 * q1[j] + v2 * q2[j] + v3 * q3[j]
        k += 4
    while k < end:
        q0 = q[inner[k]]
        v0 = 0.0
        for j in range(b):
            v0 += t[j] * q0[j]
        if weighted:
            v0 *= weights[k]
        for j in range(b):
            g[j] += v0 * q0[j]
        k += 1


@numba.njit(cache=True, fastmath=FAST)
def _normal_segment(p, q, x, indptr, inner, weights, first, last, total):  # type: ignore[no-untyped-def]
    b = q.shape[1]
    chunk = _chunk(b)
    t = np.empty((chunk, b))
    g = np.empty((chunk, b))
    cursor = np.empty(chunk, np.int64)
    work = np.empty(total.shape)
    block = max(64, BLOCK_FLOATS // b)
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        np.dot(p[start : start + n], x, t[:n])
        for i in range(n):
            _zero(g[i])
            cursor[i] = indptr[start + i]
        # One block of q at a time: it stays in the cache while all items of the chunk use it.
        for low in range(0, len(q), block):
            for i in range(n):
                begin = cursor[i]
                end = begin
                while end < indptr[start + i + 1] and inner[end] < low + block:
                    end += 1
                _normal_row(t[i], g[i], q, inner, weights, begin, end)
                cursor[i] = end
        _add_outer(p[start : start + n], g[:n], work, total)


@numba.njit(cache=True, fastmath=FAST)
def _gram_segment(p, x, grams, first, last, total):  # type: ignore[no-untyped-def]
    """The same from the matrices sum_k w_k q_k^T q_k of each item."""
    b = x.shape[1]
    chunk = _chunk(b)
    t = np.empty((chunk, b))
    g = np.empty((chunk, b))
    work = np.empty(total.shape)
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        np.dot(p[start : start + n], x, t[:n])
        for i in range(n):
            gram = grams[start + i]
            for j in range(b):
                v = 0.0
                for k in range(b):
                    v += gram[j, k] * t[i, k]
                g[i, j] = v
        _add_outer(p[start : start + n], g[:n], work, total)


@numba.njit(parallel=True, cache=True)
def gram_normal(p, x, grams, bounds, parts):  # type: ignore[no-untyped-def]
    """parts[s] += what :func:`normal` adds, from the Gram matrices of the items."""
    for s in numba.prange(len(bounds) - 1):
        _gram_segment(p, x, grams, bounds[s], bounds[s + 1], parts[s])


@numba.njit(cache=True, fastmath=FAST)
def _row_gram(q, inner, weights, start, end, out):  # type: ignore[no-untyped-def]
    """out = sum_k w_k q_k^T q_k over the observations of one item."""
    b = q.shape[1]
    buffer = np.empty((GATHER, b))
    part = np.empty((b, b))
    for first in range(start, end, GATHER):
        n = min(GATHER, end - first)
        for i in range(n):
            root = np.sqrt(weights[first + i]) if len(weights) > 0 else 1.0
            for j in range(b):
                buffer[i, j] = root * q[inner[first + i], j]
        np.dot(buffer[:n].T, buffer[:n], part)
        for i in range(b):
            for j in range(b):
                out[i, j] = part[i, j] if first == start else out[i, j] + part[i, j]


@numba.njit(parallel=True, cache=True)
def row_grams(q, indptr, inner, weights, out):  # type: ignore[no-untyped-def]
    """out[i] = sum over the observations of item i of w_k q_k^T q_k."""
    for i in numba.prange(len(out)):
        _row_gram(q, inner, weights, indptr[i], indptr[i + 1], out[i])


@numba.njit(cache=True, fastmath=FAST)
def _sample_segment(p, q, x, indptr, inner, first, last, out):  # type: ignore[no-untyped-def]
    chunk = _chunk(q.shape[1])
    t = np.empty((chunk, q.shape[1]))
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        np.dot(p[start : start + n], x, t[:n])
        for i in range(n):
            ti = t[i]
            for k in range(indptr[start + i], indptr[start + i + 1]):
                qk = q[inner[k]]
                v = 0.0
                for j in range(len(qk)):
                    v += ti[j] * qk[j]
                out[k] = v


@numba.njit(cache=True, fastmath=FAST)
def _scatter_row(g, q, d, inner, start, end):  # type: ignore[no-untyped-def]
    """g = sum of d_k q_k, four at a time."""
    _zero(g)
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


@numba.njit(cache=True, fastmath=FAST)
def _scatter_segment(p, q, d, indptr, inner, first, last, total):  # type: ignore[no-untyped-def]
    chunk = _chunk(q.shape[1])
    g = np.empty((chunk, q.shape[1]))
    work = np.empty(total.shape)
    for start in range(first, last, chunk):
        n = min(chunk, last - start)
        for i in range(n):
            _scatter_row(g[i], q, d, inner, indptr[start + i], indptr[start + i + 1])
        _add_outer(p[start : start + n], g[:n], work, total)


@numba.njit(parallel=True, cache=True)
def normal(p, q, x, indptr, inner, weights, bounds, parts):  # type: ignore[no-untyped-def]
    """parts[s] += sum over the observations of segment s of w (p x q^T) p^T q."""
    for s in numba.prange(len(bounds) - 1):
        _normal_segment(p, q, x, indptr, inner, weights, bounds[s], bounds[s + 1], parts[s])


@numba.njit(parallel=True, cache=True)
def sample(p, q, x, indptr, inner, bounds, out):  # type: ignore[no-untyped-def]
    """out[k] = p[r_k] x q[c_k]^T."""
    for s in numba.prange(len(bounds) - 1):
        _sample_segment(p, q, x, indptr, inner, bounds[s], bounds[s + 1], out)


@numba.njit(parallel=True, cache=True)
def scatter(p, q, d, indptr, inner, bounds, parts):  # type: ignore[no-untyped-def]
    """parts[s] += sum over the observations of segment s of d_k p^T q."""
    for s in numba.prange(len(bounds) - 1):
        _scatter_segment(p, q, d, indptr, inner, bounds[s], bounds[s + 1], parts[s])


@numba.njit(parallel=True, cache=True, fastmath=FAST)
def pair_products(left, right, rows, cols, out):  # type: ignore[no-untyped-def]
    """out[k] = left[r_k] . right[c_k]."""
    for k in numba.prange(len(out)):
        u = left[rows[k]]
        v = right[cols[k]]
        total = 0.0
        for j in range(len(u)):
            total += u[j] * v[j]
        out[k] = total

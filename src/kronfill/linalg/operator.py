"""The sampled-Kronecker operator: X (a x b) -> the m numbers P[r_k] X Q[c_k]^T, and back.

With vec column-major it is S (Q (x) P), which is never formed. The observations are kept sorted by
the item of the *outer* axis, the one with the larger rank, so that the loop over observations runs
over vectors of the smaller rank. All work is cut into segments whose number depends on the problem
alone; each is done by one thread and their sums are added in order: the same bits come out for any
number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from kronfill.linalg.threads import one_blas_thread

__all__ = ["Grouped", "SampledKronecker", "pair_products", "row_grams"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

FAST = {"reassoc", "contract", "nsz", "arcp"}  # reorders sums, keeps NaN and infinity honest
SEGMENTS = 32
SEGMENT_BYTES = 1 << 23
CHUNK_FLOATS = 1 << 16
BLOCK_FLOATS = 1 << 17
GRAM_RANK = 32
GRAM_FLOATS = 1 << 26
GATHER = 256


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


# The loops over a segment are compiled as ordinary functions; only the loop over segments is
# parallel. That keeps compilation to a few seconds.


@numba.njit(cache=True, fastmath=FAST)
def _zero(a):  # type: ignore[no-untyped-def]
    for j in range(len(a)):
        a[j] = 0.0


@numba.njit(cache=True, fastmath=FAST)
def _add_outer(p, g, work, total):  # type: ignore[no-untyped-def]
    """Total += p^T g."""
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
    """G += sum over the observations start, ..., end - 1 of w (t . q_k) q_k, four at a time."""
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
def _gram_normal(p, x, grams, bounds, parts):  # type: ignore[no-untyped-def]
    for s in numba.prange(len(bounds) - 1):
        _gram_segment(p, x, grams, bounds[s], bounds[s + 1], parts[s])


@numba.njit(cache=True, fastmath=FAST)
def _row_gram(q, inner, weights, start, end, out):  # type: ignore[no-untyped-def]
    """Out = sum_k w_k q_k^T q_k over the observations of one item."""
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
def _row_grams(q, indptr, inner, weights, out):  # type: ignore[no-untyped-def]
    for i in numba.prange(len(out)):
        _row_gram(q, inner, weights, indptr[i], indptr[i + 1], out[i])


def row_grams(q: Floats, indptr: NDArray[np.int64], inner: NDArray[Any], weights: Floats) -> Floats:
    """sum_k w_k q_k^T q_k for each item that ``indptr`` delimits."""
    out = np.zeros((len(indptr) - 1, q.shape[1], q.shape[1]))
    with one_blas_thread():
        _row_grams(q, indptr, inner, weights, out)
    return out


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
    """G = sum of d_k q_k, four at a time."""
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
def _normal(p, q, x, indptr, inner, weights, bounds, parts):  # type: ignore[no-untyped-def]
    """parts[s] += sum over the observations of segment s of w (p x q^T) p^T q."""
    for s in numba.prange(len(bounds) - 1):
        _normal_segment(p, q, x, indptr, inner, weights, bounds[s], bounds[s + 1], parts[s])


@numba.njit(parallel=True, cache=True)
def _sample(p, q, x, indptr, inner, bounds, out):  # type: ignore[no-untyped-def]
    """out[k] = p[r_k] x q[c_k]^T."""
    for s in numba.prange(len(bounds) - 1):
        _sample_segment(p, q, x, indptr, inner, bounds[s], bounds[s + 1], out)


@numba.njit(parallel=True, cache=True)
def _scatter(p, q, d, indptr, inner, bounds, parts):  # type: ignore[no-untyped-def]
    """parts[s] += sum over the observations of segment s of d_k p^T q."""
    for s in numba.prange(len(bounds) - 1):
        _scatter_segment(p, q, d, indptr, inner, bounds[s], bounds[s + 1], parts[s])


def uses_grams(m: int, items: int, b: int) -> bool:
    """Whether the Gram matrices of all items pay, and fit."""
    return b <= GRAM_RANK and m >= items * b and items * b * b <= GRAM_FLOATS


class SampledKronecker(LinearOperator):  # type: ignore[misc]
    """The map X -> (P[r_k] X Q[c_k]^T)_k with its adjoint and its fused normal product.

    As a SciPy ``LinearOperator`` it has shape (m, a b) and acts on X flattened row by row.

    Parameters
    ----------
    p : ndarray of shape (N, a)
        Factor of the outer axis.
    q : ndarray of shape (L, b)
        Factor of the inner axis; the cost per observation is proportional to b.
    grouped : Grouped
        Observations grouped by outer item.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.linalg.operator import Grouped, SampledKronecker
    >>> grouped = Grouped.by(np.array([1, 0]), np.array([0, 1]), n=2)
    >>> op = SampledKronecker(np.eye(2), np.eye(2), grouped)
    >>> op.sample(np.array([[1.0, 2.0], [3.0, 4.0]]))  # grouped order: row 0 first
    array([2., 3.])
    """

    def __init__(self, p: Floats, q: Floats, grouped: Grouped) -> None:
        used = np.flatnonzero(np.diff(grouped.indptr))
        self._p = np.ascontiguousarray(p[used])
        self._q = np.ascontiguousarray(q)
        self._indptr = np.append(grouped.indptr[used], grouped.indptr[-1])
        self._grouped = grouped
        self.m = len(grouped.inner)
        self.core_shape = (p.shape[1], q.shape[1])
        super().__init__(np.dtype(float), (self.m, p.shape[1] * q.shape[1]))
        self._bounds = self._segments()
        self._parts = np.empty((len(self._bounds) - 1, *self.core_shape))
        self._grams = self._make_grams()

    def _make_grams(self) -> Floats | None:
        """sum_k w_k q_k^T q_k of each item, where an item has more observations than b.

        That costs m b^2 once, at the speed of matrix products, and makes a product cost N b^2
        instead of m b.
        """
        if not uses_grams(self.m, len(self._p), self.core_shape[1]):
            return None
        return row_grams(self._q, self._indptr, self._grouped.inner, self._grouped.weights)

    def _segments(self) -> Index:
        """Cut the outer items into segments of about equal work."""
        a, b = self.core_shape
        limit = max(4, min(SEGMENTS, SEGMENT_BYTES // max(1, 8 * a * b)))
        work = np.cumsum(np.diff(self._indptr) + a)
        cuts = np.searchsorted(work, work[-1] * np.arange(1, limit) / limit)
        return np.unique(np.concatenate([[0], cuts, [len(self._p)]]))

    def _matvec(self, x: Floats) -> Floats:
        return self.sample(np.reshape(x, self.core_shape))

    def _rmatvec(self, d: Floats) -> Floats:
        return self.scatter(np.ravel(d)).ravel()

    def normal(self, x: Floats) -> Floats:
        """P^T [W o (P X Q^T) on the observed entries] Q, in one pass."""
        g = self._grouped
        self._parts[:] = 0.0
        if self._grams is not None:
            _gram_normal(self._p, np.ascontiguousarray(x), self._grams, self._bounds, self._parts)
            return np.asarray(self._parts.sum(axis=0))
        _normal(
            self._p, self._q, np.ascontiguousarray(x), self._indptr, g.inner, g.weights,
            self._bounds, self._parts,
        )  # fmt: skip
        return np.asarray(self._parts.sum(axis=0))

    def sample(self, x: Floats) -> Floats:
        """P[r_k] X Q[c_k]^T for each observation, in grouped order."""
        out = np.empty(self.m)
        g = self._grouped
        x = np.ascontiguousarray(x)
        _sample(self._p, self._q, x, self._indptr, g.inner, self._bounds, out)
        return out

    def scatter(self, d: Floats) -> Floats:
        """Adjoint of :meth:`sample`: P^T D Q with D the sparse matrix of ``d``."""
        self._parts[:] = 0.0
        _scatter(self._p, self._q, d, self._indptr, self._grouped.inner, self._bounds, self._parts)
        return np.asarray(self._parts.sum(axis=0))


@numba.njit(parallel=True, cache=True, fastmath=FAST)
def _pair_products(left, right, rows, cols, out):  # type: ignore[no-untyped-def]
    for k in numba.prange(len(out)):
        u = left[rows[k]]
        v = right[cols[k]]
        total = 0.0
        for j in range(len(u)):
            total += u[j] * v[j]
        out[k] = total


def pair_products(left: Floats, right: Floats, rows: NDArray[Any], cols: NDArray[Any]) -> Floats:
    """``left[r_k] . right[c_k]`` for each pair."""
    out = np.empty(len(rows))
    _pair_products(np.ascontiguousarray(left), np.ascontiguousarray(right), rows, cols, out)
    return out

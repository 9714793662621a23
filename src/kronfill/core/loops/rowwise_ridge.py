"""Row-decoupled ridge regression: the half-step of base matrix completion.

With H fixed, equation (1) splits into one p x p system per row:
(sum_j w_ij h_j h_j^T + mu I) w_i = sum_j w_ij y_ij h_j. Rows are independent, so they are spread
over threads without changing a bit of the result. The vectors of a row are gathered with their
value as a last component; one small matrix product then gives both sides of the system.
"""

from __future__ import annotations

import numba
import numpy as np

from kronfill._types import Floats
from kronfill.core.grouping import Grouped
from kronfill.core.loops.passes import FAST
from kronfill.core.threads import each, one_blas_thread

__all__ = ["CHUNK", "augmented_gram", "cholesky_solve", "ridge_rows"]

CHUNK = 256
BLOCKS = 128


@numba.njit(cache=True, fastmath=FAST)
def augmented_gram(q, values, inner, weights, span, buffer, part, out):  # type: ignore[no-untyped-def]
    """out = sum_k w_k (q_k, y_k)^T (q_k, y_k) over the observations of ``span``."""
    p = q.shape[1]
    weighted = len(weights) > 0
    start, end = span
    k = start
    while k < end or k == start:
        n = min(CHUNK, end - k)
        for s in range(n):
            source = q[inner[k + s]]
            sink = buffer[s]
            for a in range(p):
                sink[a] = source[a]
            sink[p] = values[k + s]
            if weighted:
                root = np.sqrt(weights[k + s])
                for a in range(p + 1):
                    sink[a] *= root
        if k == start:
            np.dot(buffer[:n].T, buffer[:n], out)
        else:
            np.dot(buffer[:n].T, buffer[:n], part)
            for a in range(p + 1):
                for b in range(p + 1):
                    out[a, b] += part[a, b]
        k += CHUNK


@numba.njit(cache=True, fastmath=FAST)
def cholesky_solve(g, p):  # type: ignore[no-untyped-def]
    """Solve with the leading p x p block of g; the last row of g is right-hand side and answer."""
    x = g[p]
    for a in range(p):
        for b in range(a):
            v = g[a, b]
            for c in range(b):
                v -= g[a, c] * g[b, c]
            g[a, b] = v / g[b, b]
        v = g[a, a]
        for c in range(a):
            v -= g[a, c] * g[a, c]
        g[a, a] = np.sqrt(v)
    for a in range(p):
        v = x[a]
        for c in range(a):
            v -= g[a, c] * x[c]
        x[a] = v / g[a, a]
    for a in range(p - 1, -1, -1):
        v = x[a] / g[a, a]
        x[a] = v
        for c in range(a):
            x[c] -= g[a, c] * v


@numba.njit(cache=True, fastmath=FAST)
def _solve_short_row(h, values, inner, weights, span, mu, g, out):  # type: ignore[no-untyped-def]
    """Fewer observations than factors: w = sum_k a_k h_k from the smaller system for a.

    (s_k s_l h_k h_l^T + mu I) b = s_k y_k and a_k = s_k b_k with s_k the root of the weight.
    """
    start, end = span
    n, p = end - start, h.shape[1]
    weighted = len(weights) > 0
    for k in range(n):
        row = h[inner[start + k]]
        root = np.sqrt(weights[start + k]) if weighted else h.dtype.type(1.0)
        for l in range(k + 1):
            other = h[inner[start + l]]
            v = h.dtype.type(0.0)
            for a in range(p):
                v += row[a] * other[a]
            if weighted:
                v *= root * np.sqrt(weights[start + l])
            g[k, l] = v
        g[k, k] += mu
        g[n, k] = root * values[start + k]
    cholesky_solve(g, n)
    out[:] = 0.0
    for k in range(n):
        row = h[inner[start + k]]
        c = g[n, k] * (np.sqrt(weights[start + k]) if weighted else h.dtype.type(1.0))
        for a in range(p):
            out[a] += c * row[a]


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _ridge_block(h, indptr, inner, weights, values, mu, queue, block, blocks, out):  # type: ignore[no-untyped-def]
    """Solve the rows queue[block], queue[block + blocks], ..."""
    p = h.shape[1]
    buffer = np.empty((CHUNK, p + 1), dtype=h.dtype)
    g = np.empty((p + 1, p + 1), dtype=h.dtype)
    part = np.empty((p + 1, p + 1), dtype=h.dtype)
    for place in range(block, len(queue), blocks):
        i = queue[place]
        span = (indptr[i], indptr[i + 1])
        if span[1] - span[0] < p:
            _solve_short_row(h, values, inner, weights, span, mu, g, out[i])
            continue
        augmented_gram(h, values, inner, weights, span, buffer, part, g)
        for a in range(p):
            g[a, a] += mu
        cholesky_solve(g, p)
        for a in range(p):
            out[i, a] = g[p, a]


def ridge_rows(h: Floats, grouped: Grouped, values: Floats, mu: float) -> Floats:
    """Solve the ridge regression of every row on the rows of ``h``.

    Parameters
    ----------
    h : ndarray of shape (L, p)
        Fixed factor.
    grouped : Grouped
        Observations grouped by row.
    values : ndarray of shape (m,)
        Values in grouped order.
    mu : float
        Ridge weight.

    Returns
    -------
    ndarray of shape (N, p)
        Rows without observations are zero.
    """
    counts = np.diff(grouped.indptr)
    out = np.zeros((len(counts), h.shape[1]), dtype=h.dtype)
    # Longest rows first and dealt out in turn: the threads finish together.
    queue = np.argsort(-counts, kind="stable")[: int(np.count_nonzero(counts))]
    h = np.ascontiguousarray(h)
    blocks = min(BLOCKS, -(-len(queue) // 64))
    arguments = (h, grouped.indptr, grouped.inner, grouped.weights, values, h.dtype.type(mu), queue)
    with one_blas_thread():
        each(blocks, lambda block: _ridge_block(*arguments, block, blocks, out))
    return out

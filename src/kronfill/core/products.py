"""Products of tall matrices by several threads, the same bits for any number of them."""

from __future__ import annotations

import numpy as np

from kronfill._types import Floats
from kronfill.core.threads import each

__all__ = ["gram", "matmul", "row_major", "transposed_matmul"]

STEP = 256
PARTS = 32


def matmul(a: Floats, b: Floats) -> Floats:
    """A b for a tall A, in blocks of rows: the same bits for any number of threads."""
    if a.shape[1] == 0 or b.shape[1] == 0:
        return np.zeros((len(a), b.shape[1]), a.dtype)
    out = np.empty((len(a), b.shape[1]), a.dtype)
    b = np.ascontiguousarray(b)

    def job(s: int) -> None:
        rows = slice(s * STEP, (s + 1) * STEP)
        np.dot(a[rows], b, out=out[rows])

    each(-(-len(a) // STEP), job)
    return out


def row_major(a: Floats) -> Floats:
    """A row-major copy of a tall column-major A: blocks of rows are turned inside the cache."""
    out = np.empty(a.shape, a.dtype)

    def job(s: int) -> None:
        rows = slice(s * STEP, (s + 1) * STEP)
        out[rows] = a[rows]

    each(-(-len(a) // STEP), job)
    return out


def gram(a: Floats, weights: Floats) -> Floats:
    """A^T diag(weights) A for a tall A, in blocks of rows that are scaled inside the cache."""
    step = max(STEP, -(-len(a) // PARTS))
    parts = np.zeros((-(-len(a) // step), a.shape[1], a.shape[1]), a.dtype)

    def job(s: int) -> None:
        for first in range(s * step, min((s + 1) * step, len(a)), STEP):
            rows = slice(first, min(first + STEP, (s + 1) * step))
            scaled = np.sqrt(weights[rows])[:, None] * a[rows]
            parts[s] += scaled.T @ scaled

    each(len(parts), job)
    return np.asarray(parts.sum(axis=0))


def transposed_matmul(a: Floats, b: Floats) -> Floats:
    """A^T B for tall A and B, likewise."""
    if a.shape[1] == 0 or b.shape[1] == 0:
        return np.zeros((a.shape[1], b.shape[1]), a.dtype)
    step = max(STEP, -(-len(a) // PARTS))
    parts = np.empty((-(-len(a) // step), a.shape[1], b.shape[1]), a.dtype)

    def job(s: int) -> None:
        rows = slice(s * step, (s + 1) * step)
        np.dot(a[rows].T, b[rows], out=parts[s])

    each(len(parts), job)
    return np.asarray(parts.sum(axis=0))

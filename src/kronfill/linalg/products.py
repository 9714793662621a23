"""Products of tall matrices by several threads, the same bits for any number of them."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["matmul", "transposed_matmul"]

Floats = NDArray[np.float64]
STEP = 256
PARTS = 32


@numba.njit(parallel=True, cache=True)
def _matmul(a, b, step, out):  # type: ignore[no-untyped-def]
    """out = a b, by blocks of rows."""
    for s in numba.prange((len(a) + step - 1) // step):
        np.dot(a[s * step : (s + 1) * step], b, out[s * step : (s + 1) * step])


@numba.njit(parallel=True, cache=True)
def _transposed_matmul(a, b, step, parts):  # type: ignore[no-untyped-def]
    """parts[s] = a^T b of the rows of block s."""
    for s in numba.prange(len(parts)):
        np.dot(a[s * step : (s + 1) * step].T, b[s * step : (s + 1) * step], parts[s])


def matmul(a: Floats, b: Floats) -> Floats:
    """A b for a tall A, in blocks of rows: the same bits for any number of threads."""
    if a.shape[1] == 0 or b.shape[1] == 0:
        return np.zeros((len(a), b.shape[1]), a.dtype)
    out = np.empty((len(a), b.shape[1]), a.dtype)
    _matmul(a, np.ascontiguousarray(b), STEP, out)
    return out


def transposed_matmul(a: Floats, b: Floats) -> Floats:
    """A^T B for tall A and B, likewise."""
    if a.shape[1] == 0 or b.shape[1] == 0:
        return np.zeros((a.shape[1], b.shape[1]), a.dtype)
    step = max(STEP, -(-len(a) // PARTS))
    parts = np.empty((-(-len(a) // step), a.shape[1], b.shape[1]), a.dtype)
    _transposed_matmul(a, b, step, parts)
    return np.asarray(parts.sum(axis=0))

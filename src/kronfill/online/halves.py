"""A large symmetric matrix kept as two halves in single precision, B = leading + trailing.

Together they carry 48 bits of each number. A product that may be wrong in the eighth digit reads
the leading half alone: a quarter of the memory of the whole matrix, and reading memory is all that
such a product costs. How wrong it is follows from the norms of the columns, which are kept along.
"""

from __future__ import annotations

from typing import TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from kronfill._types import Floats
from kronfill.core.threads import each

__all__ = ["Halves", "Symmetric", "Whole", "symmetric"]

Singles = NDArray[np.float32]

SEGMENTS = 8
"""Shares of a product: the same bits come out for any number of threads."""
IN_CACHE = 768
"""Smaller matrices stay in the cache: they are kept whole."""
STRIP = 4
"""Rows read together."""
FEW_VECTORS = 8
"""Up to this many vectors a product is limited by reading the matrix."""
ROUNDING = 2.0**-24 / 3**0.5
"""Relative size of what the leading half leaves out of a number: root mean square, at most."""


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _strip(b, v, first, out):  # type: ignore[no-untyped-def]
    """Share of four rows of a symmetric matrix, left of the diagonal, in its product with v."""
    b0, b1, b2, b3 = b[first], b[first + 1], b[first + 2], b[first + 3]
    v0, v1, v2, v3 = v[first], v[first + 1], v[first + 2], v[first + 3]
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(first):
        out[j] += b0[j] * v0 + b1[j] * v1 + b2[j] * v2 + b3[j] * v3
        s0 += b0[j] * v[j]
        s1 += b1[j] * v[j]
        s2 += b2[j] * v[j]
        s3 += b3[j] * v[j]
    out[first] += s0
    out[first + 1] += s1
    out[first + 2] += s2
    out[first + 3] += s3


@numba.njit(cache=True, nogil=True)
def _near_diagonal(b, v, first, last, out):  # type: ignore[no-untyped-def]
    """Share of a small diagonal block, of which the lower triangle is read."""
    for i in range(first, last):
        out[i] += b[i, i] * v[i]
        for j in range(first, i):
            out[j] += b[i, j] * v[i]
            out[i] += b[i, j] * v[j]


@numba.njit(cache=True, nogil=True)
def _share(b, vectors, segment, out):  # type: ignore[no-untyped-def]
    """out[t] += share of one segment, every eighth strip of rows, in B v_t."""
    n = b.shape[0]
    strips = n // STRIP
    for strip in range(segment, strips, SEGMENTS):
        first = STRIP * strip
        for t in range(len(vectors)):
            _strip(b, vectors[t], first, out[t])
            _near_diagonal(b, vectors[t], first, first + STRIP, out[t])
    if segment == 0:  # the rows that fill no strip
        for t in range(len(vectors)):
            for i in range(STRIP * strips, n):
                _near_diagonal(b, vectors[t], i, i + 1, out[t])
                for j in range(i):
                    out[t, j] += b[i, j] * vectors[t, i]
                    out[t, i] += b[i, j] * vectors[t, j]


@numba.njit(cache=True, nogil=True)
def _add(leading, trailing, change, first, segment, sums):  # type: ignore[no-untyped-def]
    """Add to every eighth row of a slab from ``first`` on; sums += its squares by column.

    The diagonal block at the end of the slab is whole: its part above the diagonal is not counted.
    """
    for i in range(segment, len(change), SEGMENTS):
        high, low, new = leading[first + i], trailing[first + i], change[i]
        total = 0.0
        for j in range(len(new)):
            value = (np.float64(high[j]) + np.float64(low[j])) + new[j]
            rounded = np.float32(value)
            high[j] = rounded
            low[j] = np.float32(value - np.float64(rounded))
            if j < first + i:
                sums[j] += value * value
                total += value * value
            elif j == first + i:
                total += value * value
        sums[first + i] += total


def _products(halves: list[Singles], vectors: Floats) -> Floats:
    """Sum of the halves times each of the vectors, on several threads."""
    rows = np.ascontiguousarray(vectors)
    parts = np.zeros((SEGMENTS, *rows.shape))

    def share(segment: int) -> None:
        for half in halves:
            _share(half, rows, segment, parts[segment])

    each(SEGMENTS, share)
    return np.asarray(parts.sum(axis=0))


class Whole:
    """A matrix that is small enough to be kept in double precision; the array is taken over."""

    def __init__(self, lower: Floats) -> None:
        self._b = np.ascontiguousarray(lower)

    def exact(self, vectors: Floats) -> Floats:
        """B v for each row v of ``vectors``."""
        # A row-major lower triangle is a column-major upper one.
        return np.asarray(blas.dsymm(1.0, self._b.T, np.ascontiguousarray(vectors).T).T)

    rough = exact

    def rest(self, vectors: Floats) -> Floats:
        """What the rough products left out: nothing."""
        return np.zeros_like(vectors)

    def error(self, vector: Floats) -> float:
        """Norm of the error of a rough product."""
        return 0.0

    def add(self, first: int, change: Floats) -> None:
        """Add to the rows from ``first`` on, which end in a diagonal block."""
        rows, last = change.shape
        self._b[first : first + rows, :last] += change


class Halves:
    """A matrix as two single-precision arrays; only the lower triangle is kept up to date."""

    def __init__(self, lower: Floats) -> None:
        n = len(lower)
        self._leading: Singles = lower.astype(np.float32)
        self._trailing: Singles = (lower - self._leading).astype(np.float32)
        below = np.tril(lower, -1)
        squares = np.einsum("ij,ij->j", below, below) + np.einsum("ij,ij->i", below, below)
        self._norms = np.sqrt(squares + np.diagonal(lower) ** 2)
        self._squares = np.zeros((SEGMENTS, n))

    def rough(self, vectors: Floats) -> Floats:
        """B v for each row v, perhaps not to the last digit: the leading half alone."""
        return _products([self._leading], vectors)

    def rest(self, vectors: Floats) -> Floats:
        """What the rough products left out: the trailing half."""
        return _products([self._trailing], vectors)

    def exact(self, vectors: Floats) -> Floats:
        """B v for each row v of ``vectors``: both halves."""
        if len(vectors) > FEW_VECTORS:
            return Whole(self._leading.astype(np.float64) + self._trailing).exact(vectors)
        return _products([self._leading, self._trailing], vectors)

    def error(self, vector: Floats) -> float:
        """Norm of the error of a rough product, about: what is left out has signs of its own."""
        return ROUNDING * float(np.linalg.norm(self._norms * vector))

    def add(self, first: int, change: Floats) -> None:
        """Add to the rows from ``first`` on, which end in a diagonal block.

        All slabs are to be changed in turn, from the first to the last.
        """
        if first == 0:
            self._squares[:] = 0.0
        halves = (self._leading, self._trailing)
        each(SEGMENTS, lambda s: _add(*halves, change, first, s, self._squares[s]))
        if first + len(change) == len(self._norms):
            self._norms = np.sqrt(self._squares.sum(axis=0))


Symmetric: TypeAlias = Whole | Halves
"""A symmetric matrix that changes slab by slab."""


def symmetric(lower: Floats) -> Symmetric:
    """Keep a matrix, given by its lower triangle, in the form that suits its size."""
    return Whole(lower) if len(lower) < IN_CACHE else Halves(lower)

"""Sign patterns Sigma as N x L matrices, sparse or streamed: never a dense array of that size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds

from kronfill._types import Floats
from kronfill.bounds.complexity.signs import SignLaw
from kronfill.bounds.splits import EntrySet, Grid, Sizes
from kronfill.data.arrays import own_sparse, real_array
from kronfill.errors import ShapeError

__all__ = ["Pattern", "SparsePattern", "as_pattern", "draw_pattern"]

SMALL = 250_000
"""Up to this many entries of the matrix a spectral norm is taken of a dense array."""
BLOCK = 1_000_000


class Pattern(ABC):
    """A matrix Sigma of signs."""

    shape: tuple[int, int]

    @abstractmethod
    def times(self, right: Floats) -> Floats:
        """Sigma @ right."""

    @abstractmethod
    def transposed_times(self, left: Floats) -> Floats:
        """Sigma.T @ left."""

    @abstractmethod
    def dense(self) -> Floats:
        """The whole matrix, for small ones."""

    def spectral_norm(self) -> float:
        """Largest singular value."""
        if self.shape[0] * self.shape[1] <= SMALL or min(self.shape) < 3:
            return float(np.linalg.norm(self.dense(), 2))
        operator = LinearOperator(
            self.shape,
            matvec=lambda x: self.times(x.reshape(-1, 1)).ravel(),
            rmatvec=lambda x: self.transposed_times(x.reshape(-1, 1)).ravel(),
            dtype=float,
        )
        start = np.random.default_rng(0).standard_normal(min(self.shape))
        top = svds(operator, k=1, v0=start, return_singular_vectors=False, tol=1e-8)
        return float(top[0])


class SparsePattern(Pattern):
    """Few nonzero signs."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self._matrix = matrix
        self._transposed = matrix.T.tocsr()
        self.shape = matrix.shape

    def times(self, right: Floats) -> Floats:
        """See :class:`Pattern`."""
        return np.asarray(self._matrix @ right)

    def transposed_times(self, left: Floats) -> Floats:
        """See :class:`Pattern`."""
        return np.asarray(self._transposed @ left)

    def dense(self) -> Floats:
        """See :class:`Pattern`."""
        return np.asarray(self._matrix.toarray())


class _StreamedPattern(Pattern):
    """Signs on a whole grid, one bit each, unpacked block by block."""

    def __init__(self, rng: np.random.Generator, grid: Grid) -> None:
        self.shape = grid.shape
        n, l = grid.shape
        width = -(-l // 8)
        self._bits = np.frombuffer(rng.bytes(n * width), dtype=np.uint8).reshape(n, width)
        self._left_out = grid.left_out

    def _blocks(self) -> Any:
        n, l = self.shape
        step = max(1, BLOCK // l)
        rows, cols = self._left_out.rows, self._left_out.cols
        for start in range(0, n, step):
            stop = min(n, start + step)
            bits = np.unpackbits(self._bits[start:stop], axis=1, count=l)
            block = 2.0 * bits - 1.0
            inside = (rows >= start) & (rows < stop)
            block[rows[inside] - start, cols[inside]] = 0.0
            yield slice(start, stop), block

    def times(self, right: Floats) -> Floats:
        """See :class:`Pattern`."""
        return np.concatenate([block @ right for _, block in self._blocks()])

    def transposed_times(self, left: Floats) -> Floats:
        """See :class:`Pattern`."""
        out = np.zeros((self.shape[1], left.shape[1]))
        for part, block in self._blocks():
            out += block.T @ left[part]
        return out

    def dense(self) -> Floats:
        """See :class:`Pattern`."""
        return np.concatenate([block for _, block in self._blocks()])


def draw_pattern(
    law: SignLaw, rng: np.random.Generator, entries: EntrySet, sizes: Sizes
) -> Pattern:
    """Draw a pattern of signs on ``entries``."""
    if law.name == "paper" and isinstance(entries, Grid):
        return _StreamedPattern(rng, entries)
    rows, cols, signs = law.draw(rng, entries, sizes)
    return SparsePattern(sp.csr_array((signs, (rows, cols)), shape=entries.shape))


def as_pattern(signs: Any, shape: tuple[int, int]) -> Pattern:
    """Return a pattern from a pattern, a sparse or a dense N x L matrix."""
    if isinstance(signs, Pattern):
        return signs
    sparse = sp.issparse(signs)
    matrix = sp.csr_array(own_sparse(signs, "signs") if sparse else real_array(signs, "signs"))
    if matrix.shape != tuple(shape):
        msg = f"signs must be an array or sparse matrix of shape {shape}, got {matrix.shape}."
        raise ShapeError(msg)
    return SparsePattern(matrix)

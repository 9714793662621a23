"""The sampled-Kronecker operator: X (a x b) -> the m numbers P[r_k] X Q[c_k]^T, and back.

With vec column-major it is S (Q (x) P), which is never formed. The observations are kept sorted by
the item of the *outer* axis, the one with the larger rank, so that the loop over observations runs
over vectors of the smaller rank. All work is cut into segments whose number depends on the problem
alone; each is done by one thread and their sums are added in order: the same bits come out for any
number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from kronfill._types import Floats, Index
from kronfill.core.grouping import Grouped
from kronfill.core.loops import passes
from kronfill.core.loops.lanes import lined
from kronfill.core.threads import one_blas_thread

__all__ = ["SampledKronecker", "gram_products", "pair_products", "row_grams", "uses_grams"]


SEGMENTS = 32
FEWEST_SEGMENTS = 8
SEGMENT_BYTES = 1 << 21
MOSTLY = 0.95
"""Outer items without observations are left out, if more than the rest of them have none."""
GRAM_RANK = 32
GRAM_FLOATS = 1 << 26


def row_grams(q: Floats, indptr: NDArray[np.int64], inner: NDArray[Any], weights: Floats) -> Floats:
    """sum_k w_k q_k^T q_k for each item that ``indptr`` delimits."""
    items = len(indptr) - 1
    out = np.zeros((items, q.shape[1], q.shape[1]), q.dtype)
    bounds = np.unique(np.linspace(0, items, 4 * SEGMENTS + 1).astype(np.int64))
    with one_blas_thread():
        passes.row_grams(q, indptr, inner, weights, bounds, out)
    return out


def gram_products(p: Floats, x: Floats, grams: Floats) -> Floats:
    """P^T [G_i (P X)_i]_i for the Gram matrices G_i of all items, in one pass over P."""
    bounds = np.unique(np.linspace(0, len(p), SEGMENTS + 1).astype(np.int64))
    parts = np.zeros((len(bounds) - 1, 1, *x.shape), p.dtype)
    with one_blas_thread():
        passes.gram_normal(p, np.ascontiguousarray(x)[None], grams, bounds, parts)
    return np.asarray(parts.sum(axis=0)[0])


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
    dtype : {float64, float32}, default=float64
        Precision of the products.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.core.grouping import Grouped
    >>> from kronfill.core.operator import SampledKronecker
    >>> grouped = Grouped.by(np.array([1, 0]), np.array([0, 1]), n=2)
    >>> op = SampledKronecker(np.eye(2), np.eye(2), grouped)
    >>> op.sample(np.array([[1.0, 2.0], [3.0, 4.0]]))  # grouped order: row 0 first
    array([2., 3.])
    """

    def __init__(
        self, p: Floats, q: Floats, grouped: Grouped, dtype: npt.DTypeLike = np.float64
    ) -> None:
        seen = np.flatnonzero(np.diff(grouped.indptr))
        # A copy would cost more than a few empty items do.
        used = slice(0, len(p)) if len(seen) > MOSTLY * len(p) else seen
        self._p = np.ascontiguousarray(p[used], dtype)
        self._q = lined(q, dtype)
        self._indptr = np.append(grouped.indptr[:-1][used], grouped.indptr[-1])
        self._inner = grouped.inner
        self._weights = grouped.weights.astype(dtype, copy=False)
        self.m = len(grouped.inner)
        self.core_shape = (p.shape[1], q.shape[1])
        super().__init__(np.dtype(dtype), (self.m, p.shape[1] * q.shape[1]))
        self._bounds = self._segments()
        self._grams = self._make_grams()
        self._parts = np.empty((0, 0), dtype)

    def _make_grams(self) -> Floats | None:
        """sum_k w_k q_k^T q_k of each item, where an item has more observations than b.

        That costs m b^2 once, at the speed of matrix products, and makes a product cost N b^2
        instead of m b.
        """
        if not uses_grams(self.m, len(self._p), self.core_shape[1]):
            return None
        q = np.ascontiguousarray(self._q[:, : self.core_shape[1]])
        return row_grams(q, self._indptr, self._inner, self._weights)

    def _segments(self) -> Index:
        """Cut the outer items into segments of about equal work."""
        a, b = self.core_shape
        limit = max(FEWEST_SEGMENTS, min(SEGMENTS, SEGMENT_BYTES // max(1, 8 * a * b)))
        work = np.cumsum(np.diff(self._indptr) + a)
        cuts = np.searchsorted(work, work[-1] * np.arange(1, limit) / limit)
        return np.unique(np.concatenate([[0], cuts, [len(self._p)]]))

    def _matvec(self, x: Floats) -> Floats:
        return self.sample(np.reshape(x, self.core_shape))

    def _rmatvec(self, d: Floats) -> Floats:
        return self.scatter(np.ravel(d)).ravel()

    def normal(self, x: Floats) -> Floats:
        """P^T [W o (P X Q^T) on the observed entries] Q, in one pass.

        ``x`` is one X, of shape (a, b), or several, of shape (t, a, b): the observations are then
        read once for all of them.
        """
        several = np.ascontiguousarray(x, self.dtype).reshape(-1, *self.core_shape)
        out = np.empty_like(several)
        together = max(1, 4 * SEGMENT_BYTES // max(1, 8 * several[0].size))
        for first in range(0, len(several), together):
            part = slice(first, first + together)
            out[part] = self._normal(several[part])
        return out.reshape(x.shape)

    def _normal(self, x: Floats) -> Floats:
        if self._grams is not None:
            parts = self._zeros(x.shape)
            passes.gram_normal(self._p, x, self._grams, self._bounds, parts)
            return np.asarray(parts.sum(axis=0))
        x = self._widened(x)
        parts = self._zeros(x.shape)
        passes.normal(
            self._p, self._q, x, self._indptr, self._inner, self._weights, self._bounds, parts
        )
        return np.asarray(parts.sum(axis=0)[..., : self.core_shape[1]])

    def _widened(self, x: Floats) -> Floats:
        """Zeros behind the columns of X, as there are behind those of Q."""
        missing = self._q.shape[1] - x.shape[-1]
        if not missing:
            return x
        return np.concatenate([x, np.zeros((*x.shape[:-1], missing), x.dtype)], axis=-1)

    def _zeros(self, shape: tuple[int, ...]) -> Floats:
        """One array of zeros for each segment, in memory that is used again."""
        if self._parts.shape[1:] != shape:
            self._parts = np.empty((len(self._bounds) - 1, *shape), self.dtype)
        self._parts[:] = 0
        return self._parts

    def sample(self, x: Floats) -> Floats:
        """P[r_k] X Q[c_k]^T for each observation, in grouped order."""
        out = np.empty(self.m, self.dtype)
        x = self._widened(np.ascontiguousarray(x, self.dtype))
        passes.sample(self._p, self._q, x, self._indptr, self._inner, self._bounds, out)
        return out

    def scatter(self, d: Floats) -> Floats:
        """Adjoint of :meth:`sample`: P^T D Q with D the sparse matrix of ``d``."""
        parts = self._zeros((self.core_shape[0], self._q.shape[1]))
        d = d.astype(self.dtype, copy=False)
        passes.scatter(self._p, self._q, d, self._indptr, self._inner, self._bounds, parts)
        return np.ascontiguousarray(parts.sum(axis=0)[:, : self.core_shape[1]])


def pair_products(left: Floats, right: Floats, rows: NDArray[Any], cols: NDArray[Any]) -> Floats:
    """``left[r_k] . right[c_k]`` for each pair."""
    out = np.empty(len(rows))
    passes.pair_products(np.ascontiguousarray(left), np.ascontiguousarray(right), rows, cols, out)
    return out

"""Products with Kbar = S (K_h (x) K_w) S^T, the kernel over the observed entries, never formed.

With D the sparse matrix of a dual vector, Kbar d are the observed entries of K_w D K_h. A kernel of
low rank enters through its factor, m times its rank; two dense kernels cost m (N + L), or as much
as the matrix products where most entries are observed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from kronfill._types import Floats, Index
from kronfill.core.grouping import Grouped
from kronfill.core.limits import FACTOR_RTOL
from kronfill.core.loops.tables import SparseTables
from kronfill.core.memory import require_memory
from kronfill.core.products import matmul, row_major
from kronfill.errors import MemoryLimitError
from kronfill.ridge.problem import KernelLike, Mask, RidgeProblem

__all__ = ["DualOperator", "ObservedKernel", "largest_rank"]

LOW_RANK = 256
"""A kernel counts as of low rank up to this, and up to an eighth of its items."""
PROBES = 64
CHUNK = 64
DENSE_SHARE = 0.4
"""Share of observed entries from which on the whole table is computed, by matrix products."""


def largest_rank(n: int) -> int:
    """Up to which rank a kernel of n items enters through its factor."""
    return max(1, min(LOW_RANK, n // 8))


@dataclass(frozen=True, eq=False)
class ObservedKernel:
    """The kernel of one axis at its observed items: a thin factor, a dense matrix, or products."""

    factor: Floats | None
    matrix: Floats | None
    kernel: KernelLike | None = None

    @classmethod
    def of(cls, kernel: KernelLike, items: Index) -> ObservedKernel:
        """Factor the kernel if its rank is low, else take its matrix."""
        if kernel.by_products:
            return cls(None, None, kernel if len(items) == kernel.n else kernel.take(items))
        if kernel.split()[1] == 0:
            thin = kernel.factor(rtol=FACTOR_RTOL, max_rank=largest_rank(kernel.n))
            if getattr(thin, "residual", 0.0) <= FACTOR_RTOL and thin.phi.shape[1] < len(items):
                return cls(np.ascontiguousarray(thin.phi[items]), None)
        advice = "Use solver=kf.PCG() with a kernel of lower rank, or fewer items."
        require_memory(8.0 * len(items) ** 2, f"A kernel of {len(items):,} observed items", advice)
        which = None if len(items) == kernel.n else items  # no entry is looked up one by one
        return cls(None, np.ascontiguousarray(kernel.block(which, which)))

    def times(self, table: Floats) -> Floats:
        """K times a table with one row per item."""
        if self.factor is not None:
            return np.asarray(self.factor @ (self.factor.T @ table))
        if self.kernel is not None:
            return self.kernel.apply(table)
        return np.asarray(np.asarray(self.matrix) @ table)

    def columns(self, items: Index) -> Floats:
        """K[:, items]."""
        if self.factor is not None:
            return np.asarray(self.factor[items] @ self.factor.T).T
        if self.kernel is not None:
            return self.kernel.block(None, items)
        # Rows of the symmetric matrix are contiguous, columns are not.
        return np.asarray(self.matrix)[items].T

    def diagonal(self) -> Floats:
        """Diagonal of K, estimated from products with random signs where these are cheap."""
        if self.factor is not None:
            return np.asarray(np.einsum("ij,ij->i", self.factor, self.factor))
        if self.kernel is not None:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (self.kernel.n, PROBES))
            guess = np.mean(signs * self.kernel.apply(signs), axis=1)
            return np.asarray(np.maximum(guess, 0.1 * float(np.abs(guess).mean())))
        return np.diagonal(np.asarray(self.matrix)).copy()


class DualOperator(LinearOperator):  # type: ignore[misc]
    """Kbar as a SciPy ``LinearOperator`` on vectors in the caller's order.

    Parameters
    ----------
    row_kernel, col_kernel : KernelLike
        The kernels.
    mask : Mask
        The observed entries; weights are not used here.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.ridge.dual_operator import DualOperator
    >>> from kronfill.ridge.problem import Mask
    >>> mask = Mask(np.array([0, 1]), np.array([0, 0]), (2, 1))
    >>> rows = kf.kernels.precomputed([[2.0, 1.0], [1.0, 2.0]])
    >>> DualOperator(rows, kf.kernels.identity(1), mask) @ np.array([1.0, 0.0])
    array([2., 1.])
    """

    def __init__(self, row_kernel: KernelLike, col_kernel: KernelLike, mask: Mask) -> None:
        (items_r, at_r), (items_c, at_c) = mask.observed()
        self.at = (at_r, at_c)
        self.sides = (
            ObservedKernel.of(row_kernel, items_r),
            ObservedKernel.of(col_kernel, items_c),
        )
        self._by_rows = Grouped.by(at_r, at_c, len(items_r))
        self._by_cols = Grouped.by(at_c, at_r, len(items_c))
        self._tables = SparseTables(self._by_rows, self._by_cols)
        self._swapped = SparseTables(self._by_cols, self._by_rows)
        self._product = self._choose()
        self.made: dict[type, Any] = {}
        """What a preconditioner has made of kernels and entries, for whatever mu, by its class."""
        super().__init__(np.dtype(float), (len(at_r), len(at_r)))

    @classmethod
    def of(cls, problem: RidgeProblem) -> DualOperator:
        """That of a problem, made once for all mu."""
        if cls not in problem.made:
            mask = problem.sampled.mask
            problem.made[cls] = cls(problem.row_kernel, problem.col_kernel, mask)
        made: DualOperator = problem.made[cls]
        return made

    def _choose(self) -> Callable[[Floats], Floats]:
        row, col = self.sides
        if col.factor is not None and (
            row.factor is None or col.factor.shape[1] <= row.factor.shape[1]
        ):
            return partial(self._through_factor, 1)
        if row.factor is not None:
            return partial(self._through_factor, 0)
        if row.kernel is None and col.kernel is None:
            return self._through_both
        if row.kernel is None or col.kernel is None:
            return self._through_products
        msg = (
            "Both kernels are of graphs too large for a matrix. Give one a larger t or sigma and "
            "cut it to its leading part: kf.RRMCEX(row_kernel, col_kernel, row_rank=..., "
            "col_rank=...)."
        )
        raise MemoryLimitError(msg)

    def _matvec(self, d: Floats) -> Floats:
        return self._product(np.ravel(d))

    def _rmatvec(self, d: Floats) -> Floats:
        return self._product(np.ravel(d))

    def _through_factor(self, axis: int, d: Floats) -> Floats:
        """(K (D Q)) Q^T at the observed entries, Q Q^T being the kernel of ``axis``."""
        tables, group = ((self._swapped, self._by_cols), (self._tables, self._by_rows))[axis]
        thin = self.sides[axis].factor
        assert thin is not None
        table = self.sides[1 - axis].times(tables.sums(thin, d[group.order], 0))
        out = np.empty_like(d)
        out[group.order] = tables.products(np.ascontiguousarray(table), thin)
        return out

    def _through_products(self, d: Floats) -> Floats:
        """K_w D K_h for blocks of columns, where one kernel is known by its products."""
        row, col = self.sides
        tables, order, group = self._tables, self._by_rows.order, self._by_cols
        if col.matrix is None:
            row, col = col, row
            tables, order, group = self._swapped, self._by_cols.order, self._by_rows
        assert col.matrix is not None
        out, ordered = np.empty_like(d), d[order]
        for start in range(0, len(col.matrix), CHUNK):
            stop = min(start + CHUNK, len(col.matrix))
            block = np.ascontiguousarray(col.matrix[:, start:stop])
            table = row.times(tables.sums(block, ordered, 0))
            part = slice(group.indptr[start], group.indptr[stop])
            column = np.repeat(np.arange(stop - start), np.diff(group.indptr[start : stop + 1]))
            out[group.order[part]] = table[group.inner[part], column]
        return out

    def _through_both(self, d: Floats) -> Floats:
        """K_w D K_h at the observed entries: the kernel of the shorter axis first."""
        row, col = self.sides
        assert row.matrix is not None
        assert col.matrix is not None
        first, last, tables, group = col.matrix, row.matrix, self._tables, self._by_rows
        if len(first) > len(last):
            first, last, tables, group = last, first, self._swapped, self._by_cols
        table = tables.sums(first, group.gather(d), 0)  # of the longer axis x the shorter
        if len(d) > DENSE_SHARE * table.size:
            found = matmul(last, table)[group.outer, group.inner]
        else:
            found = tables.products(last, row_major(table.T))
        return group.restore(found)

    def entries(self, chosen: Index) -> Floats:
        """Kbar[:, chosen]."""
        (row, col), (at_r, at_c) = self.sides, self.at
        out = row.columns(at_r[chosen]).T[:, at_r]
        out *= col.columns(at_c[chosen]).T[:, at_c]
        return out.T

    def corner(self, first: Index, second: Index) -> Floats:
        """Kbar[first, second]."""
        (row, col), (at_r, at_c) = self.sides, self.at
        left = row.columns(at_r[second])[at_r[first]]
        return np.asarray(left * col.columns(at_c[second])[at_c[first]])

    def diagonal(self) -> Floats:
        """Diagonal of Kbar."""
        (row, col), (at_r, at_c) = self.sides, self.at
        return np.asarray(row.diagonal()[at_r] * col.diagonal()[at_c])

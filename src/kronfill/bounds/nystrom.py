"""The trace of Theorem 4, Tr(S_n K_f S^T Kbar^+ S K_f S_n^T), without any object of size N L.

Over a whole grid the sum over S_n factorises: S K_f K_f S^T = (K_w^2)[I, I] o (K_h^2)[J, J], so the
trace is the sum of Kbar^+ o G with two gathered squared kernels: O(m^3) work, O(m^2) memory. For a
list of entries the columns are streamed.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from kronfill.bounds.splits import EntrySet, Grid, Listed
from kronfill.kernels.base import Kernel

__all__ = ["TrainingKernel", "nystrom_trace"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]
CHUNK = 4_000_000


class TrainingKernel:
    """Kbar over the training entries, with the square root of its pseudo-inverse.

    Eigenvalues up to m eps lambda_max are dropped, which is exact for a positive semidefinite K_f:
    the range of S K_f S_n^T lies in that of Kbar.
    """

    def __init__(self, row_kernel: Kernel, col_kernel: Kernel, rows: Index, cols: Index) -> None:
        self.kernels = row_kernel, col_kernel
        self.rows, self.cols = rows, cols
        self._items_r, self._at_r = np.unique(rows, return_inverse=True)
        self._items_c, self._at_c = np.unique(cols, return_inverse=True)
        kbar = self._gather(
            row_kernel.block(self._items_r, self._items_r),
            col_kernel.block(self._items_c, self._items_c),
        )
        self.trace = float(np.trace(kbar))
        lam, vec = scipy.linalg.eigh(kbar, overwrite_a=True, check_finite=False)
        keep = lam > len(lam) * np.finfo(float).eps * max(float(lam[-1]), 0.0)
        self.half = np.asarray(vec[:, keep] / np.sqrt(lam[keep]))
        """V Lambda^(-1/2), so that half @ half.T is Kbar^+."""

    def _gather(self, row: Floats, col: Floats) -> Floats:
        out = row[np.ix_(self._at_r, self._at_r)]
        out = out * col[np.ix_(self._at_c, self._at_c)]
        return np.asarray(out)

    def grid_trace(self) -> float:
        """The trace for S_n = all entries."""
        row = self.kernels[0].block(self._items_r, None)
        col = self.kernels[1].block(self._items_c, None)
        squared = self._gather(row @ row.T, col @ col.T)
        return float(np.sum((squared @ self.half) * self.half))

    def streamed_trace(self, rows: Index, cols: Index) -> float:
        """The trace for listed entries: a sum over chunks of their columns."""
        total, step = 0.0, max(1, CHUNK // max(1, len(self.rows)))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            total += float(np.sum((self.half.T @ self.cross(rows[part], cols[part])) ** 2))
        return total

    def cross(self, rows: Index, cols: Index) -> Floats:
        """K_f between the training entries and these entries."""
        left = self.kernels[0].block(self._items_r, rows)[self._at_r]
        return np.asarray(left * self.kernels[1].block(self._items_c, cols)[self._at_c])


def nystrom_trace(kernel: TrainingKernel, entries: EntrySet) -> float:
    """Tr(S_n K_f S^T Kbar^+ S K_f S_n^T) for the entries S_n."""
    return _trace(entries, kernel)


@singledispatch
def _trace(entries: EntrySet, kernel: TrainingKernel) -> float:
    raise NotImplementedError(type(entries).__name__)


@_trace.register
def _(entries: Grid, kernel: TrainingKernel) -> float:
    left_out = np.divmod(entries.without, entries.shape[1])
    return kernel.grid_trace() - kernel.streamed_trace(*left_out)


@_trace.register
def _(entries: Listed, kernel: TrainingKernel) -> float:
    return kernel.streamed_trace(entries.rows, entries.cols)

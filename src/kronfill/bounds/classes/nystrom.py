"""The trace of Theorem 4, Tr(S_n K_f S^T Kbar^+ S K_f S_n^T), without any object of size N L.

Over a whole grid the sum over S_n factorises. With factors of the kernels in their eigenbases,
Psi[a] = phi_w(i_a) (x) phi_h(j_a), the trace is the sum of lambda_w lambda_h (Psi^T Kbar^(+1/2))^2:
m^2 d_w d_h work. Where the factors are too wide for that, S K_f K_f S^T is gathered from the
squared kernels, (K_w^2)[I, I] o (K_h^2)[J, J]: m^3 work, but rounding errors of K_f^2 are divided
by the small eigenvalues of Kbar, so the first way is preferred. Listed entries are streamed.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from kronfill._types import Floats, Index
from kronfill.bounds.classes.sides import rotated
from kronfill.bounds.splits import EntrySet, Grid
from kronfill.core.threads import one_blas_thread
from kronfill.kernels.base import Kernel

__all__ = ["TrainingKernel", "nystrom_trace"]

CHUNK = 4_000_000
WIDEST = 20
"""Up to d_w d_h = 20 m the factors are used."""


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
        with one_blas_thread():  # an eigendecomposition gains little from threads that may wait
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
        factors = [kernel.factor().phi for kernel in self.kernels]
        if factors[0].shape[1] * factors[1].shape[1] <= WIDEST * len(self.rows):
            return self._factored_trace(*(rotated(phi) for phi in factors))
        return self._gathered_trace()

    def _factored_trace(self, row: tuple[Floats, Floats], col: tuple[Floats, Floats]) -> float:
        (lam_w, phi_w), (lam_h, phi_h) = row, col
        left, right = phi_w[self.rows], phi_h[self.cols]
        total, step = 0.0, max(1, CHUNK // (len(left) * right.shape[1]))
        for start in range(0, left.shape[1], step):
            part = slice(start, start + step)
            psi = (left[:, part, None] * right[:, None, :]).reshape(len(left), -1)
            weights = np.outer(lam_w[part], lam_h).ravel()
            total += float(weights @ np.sum((psi.T @ self.half) ** 2, axis=1))
        return total

    def _gathered_trace(self) -> float:
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
    if isinstance(entries, Grid):
        left_out = entries.left_out
        return kernel.grid_trace() - kernel.streamed_trace(left_out.rows, left_out.cols)
    rows, cols = entries.at(np.arange(entries.n))
    return kernel.streamed_trace(rows, cols)

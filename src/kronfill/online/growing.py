"""A Cholesky factorisation that grows and shrinks, with the right-hand sides solved along.

Of A = L L^T the rows of L are kept one after the other (packed), and of right-hand sides T the
solved ones, L^-1 T. New observations at the end add rows,

    L = [[L, 0], [L21, L22]],   L21 L^T = A21,   L22 L22^T = A22 - L21 L21^T.

Without row j what is below it changes by a correction of rank one: the column l of row j joins the
triangle, [L33, l] Q = [L33', 0] with rotations Q, and the same rotations turn the solved right-hand
sides. What they leave over is what the observation contributed to T^T A^-1 T.
"""

from __future__ import annotations

import numba
import numpy as np
import scipy.linalg

from kronfill._types import Floats
from kronfill.core.memory import require_memory
from kronfill.ridge.factorised import CholeskyFactor

__all__ = ["Extension", "GrowingCholesky"]


AFRESH = 256
"""After this many removals T^T A^-1 T is summed up anew."""


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(u, v):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(u)):
        total += u[j] * v[j]
    return total


@numba.njit(cache=True)
def _forward(packed, m, vectors):  # type: ignore[no-untyped-def]
    """Replace each row v of ``vectors`` by L^-1 v."""
    start = 0
    for i in range(m):
        row = packed[start : start + i]
        diagonal = packed[start + i]
        for t in range(len(vectors)):
            vectors[t, i] = (vectors[t, i] - _dot(row, vectors[t, :i])) / diagonal
        start += i + 1


@numba.njit(cache=True, fastmath={"contract"})
def _backward(packed, m, vector):  # type: ignore[no-untyped-def]
    """Replace v by L^-T v."""
    start = m * (m + 1) // 2
    for i in range(m - 1, -1, -1):
        start -= i + 1
        vector[i] /= packed[start + i]
        value = vector[i]
        for j in range(i):
            vector[j] -= value * packed[start + j]


@numba.njit(cache=True)
def _delete(packed, m, gone, solved, left):  # type: ignore[no-untyped-def]
    """Take row ``gone`` out of L and of the solved right-hand sides; ``left`` is what is over."""
    cosines, sines = np.empty(m), np.empty(m)
    left[:] = solved[gone]
    source = (gone + 1) * (gone + 2) // 2
    sink = gone * (gone + 1) // 2
    for i in range(gone + 1, m):
        for j in range(gone):
            packed[sink + j] = packed[source + j]
        spill = packed[source + gone]
        for k in range(gone + 1, i):
            entry = packed[source + k]
            packed[sink + k - 1] = cosines[k] * entry + sines[k] * spill
            spill = cosines[k] * spill - sines[k] * entry
        entry = packed[source + i]
        size = np.hypot(entry, spill)
        cosines[i], sines[i] = entry / size, spill / size
        packed[sink + i - 1] = size
        for t in range(len(left)):
            value = solved[i, t]
            solved[i - 1, t] = cosines[i] * value + sines[i] * left[t]
            left[t] = cosines[i] * left[t] - sines[i] * value
        source += i + 1
        sink += i


class Extension:
    """Rows that would be added to a factorisation."""

    def __init__(self, below: Floats, corner: Floats, solved: Floats) -> None:
        self.below = below
        """L21."""
        self.corner = corner
        """L22."""
        self.solved = solved
        """The new rows of L^-1 T."""


class GrowingCholesky:
    """L with A = L L^T, and L^-1 T for right-hand sides T.

    Parameters
    ----------
    lower : ndarray of shape (m, m)
        L; what is above the diagonal is not read.
    targets : ndarray of shape (m, t)
        T.

    Attributes
    ----------
    m : int
        Number of rows.
    normal : ndarray of shape (t, t)
        T^T A^-1 T.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.online.growing import GrowingCholesky
    >>> factor = GrowingCholesky(np.array([[2.0]]), np.array([[6.0]]))  # A = 4
    >>> factor.append(factor.extension(np.array([[2.0]]), np.array([[5.0]]), np.array([[7.0]])))
    >>> factor.adjoint(factor.solved[:, 0])  # [[4, 2], [2, 5]]^-1 [6, 7]
    array([1., 1.])
    >>> factor.delete(0)
    >>> factor.adjoint(factor.solved[:, 0])  # 7 / 5
    array([1.4])
    """

    def __init__(self, lower: Floats, targets: Floats) -> None:
        self.m = len(lower)
        rows, cols = np.tril_indices(self.m)
        self._packed = np.ascontiguousarray(lower[rows, cols])
        self._solved = np.ascontiguousarray(CholeskyFactor(lower, lower=True).whiten(targets))
        self.normal = self._solved.T @ self._solved
        self._removals = 0

    @property
    def solved(self) -> Floats:
        """L^-1 T."""
        return self._solved[: self.m]

    def extension(self, border: Floats, corner: Floats, targets: Floats) -> Extension | None:
        """The rows for new observations: A21, A22 and their right-hand sides.

        None where rounding does not let A22 - L21 L21^T be factored.
        """
        below = np.array(border, order="C")
        _forward(self._packed, self.m, below)
        block = CholeskyFactor.of(np.asfortranarray(corner - below @ below.T), overwrite=True)
        if block is None:
            return None
        solved = block.whiten(targets - below @ self.solved)
        return Extension(below, block.triangle, solved)

    def append(self, new: Extension) -> None:
        """Add rows at the end."""
        k = len(new.corner)
        self._reserve(self.m + k)
        at = self.m * (self.m + 1) // 2
        for i in range(k):
            row = np.concatenate([new.below[i], new.corner[i, : i + 1]])
            self._packed[at : at + len(row)] = row
            at += len(row)
        self._solved[self.m : self.m + k] = new.solved
        self.normal = self.normal + new.solved.T @ new.solved
        self.m += k

    def _reserve(self, rows: int) -> None:
        if rows <= len(self._solved):
            return
        rows = max(rows, self.m + self.m // 4 + 16)
        size = rows * (rows + 1) // 2
        advice = "Use solver=kf.PCG(), which does without it."
        require_memory(8.0 * size, f"The factor for {rows:,} observations", advice)
        packed, solved = np.empty(size), np.empty((rows, self._solved.shape[1]))
        packed[: len(self._packed)] = self._packed
        solved[: len(self._solved)] = self._solved
        self._packed, self._solved = packed, solved

    def delete(self, row: int) -> None:
        """Take a row (and column) out of A."""
        left = np.empty(self._solved.shape[1])
        _delete(self._packed, self.m, row, self._solved, left)
        self.m -= 1
        self._removals += 1
        if self._removals % AFRESH == 0:
            self.normal = self.solved.T @ self.solved
        else:
            self.normal = self.normal - np.outer(left, left)

    def replace(self, target: int, values: Floats) -> None:
        """Put other values at the place of one right-hand side."""
        vector = np.array(values, ndmin=2)
        _forward(self._packed, self.m, vector)
        self._solved[: self.m, target] = vector[0]
        self.normal = self.normal.copy()
        self.normal[target] = self.normal[:, target] = self.solved.T @ vector[0]

    def adjoint(self, vector: Floats, new: Extension | None = None) -> Floats:
        """L^-T v, with the rows of an extension if there is one."""
        out = np.array(vector)
        if new is not None:
            end = scipy.linalg.solve_triangular(
                new.corner, out[self.m :], lower=True, trans=1, check_finite=False
            )
            out[self.m :] = end
            out[: self.m] -= end @ new.below
        _backward(self._packed, self.m, out[: self.m])
        return out

"""The kernel of the paper's experiment: circulant, so one column says everything.

A circulant matrix is diagonal in the DFT basis: products cost an FFT, powers are powers of the
eigenvalues, and blocks are read off the first column. No N x N array is formed unless asked for.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numba
import numpy as np
import scipy.fft

from kronfill._types import Floats, Index
from kronfill.kernels.given import MatrixKernel

__all__ = ["Circulant", "paper_kernel"]


class Circulant(MatrixKernel):
    """Symmetric positive semidefinite circulant kernel, K[i, j] = column[(i - j) mod n].

    Parameters
    ----------
    column : array-like of shape (n,)
        First column; entry j must equal entry n - j.

    Examples
    --------
    >>> from kronfill.paper.circulant import Circulant
    >>> Circulant([1.0, 0.5, 0.25, 0.5]).block([0, 1], [0, 2])
    array([[1.  , 0.25],
           [0.5 , 0.5 ]])
    """

    column: Floats
    spectrum: Floats
    _twice: Floats

    def __init__(self, column: Any) -> None:
        column = np.array(column, dtype=float)
        # A symmetric column has a real spectrum; half of it is enough for real vectors.
        spectrum = np.ascontiguousarray(scipy.fft.rfft(column).real)
        twice = np.concatenate([column, column])
        self._set(n=len(column), labels=None, column=column, spectrum=spectrum, _twice=twice)

    def _matrix(self) -> Floats:
        return self._block(None, None)

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        left = np.arange(self.n) if rows is None else rows
        right = np.arange(self.n) if cols is None else cols
        found = np.empty((len(left), len(right)))
        _gather(self._twice, left + self.n, right, found)
        return found

    def _diagonal(self, rows: Index | None) -> Floats:
        return np.full(self.n if rows is None else rows.size, self.column[0])

    def _parameters(self) -> dict[str, Any]:
        return {}

    def times(self, values: Floats, axis: int = 0) -> Floats:
        """Multiply along an axis: K values for axis 0, values K for axis 1 of a matrix."""
        shape = [1] * values.ndim
        shape[axis] = -1
        turned = scipy.fft.rfft(values, axis=axis)
        turned *= self.spectrum.reshape(shape)
        found: Floats = scipy.fft.irfft(turned, self.n, axis=axis, overwrite_x=True)
        return found

    def squared(self) -> Circulant:
        """The matrix K K, which is circulant too."""
        return Circulant(scipy.fft.irfft(self.spectrum**2, self.n))


@numba.njit(cache=True)
def _gather(twice, left, right, out):  # type: ignore[no-untyped-def]
    """Read off i + n - j, between 1 and 2n - 1: the doubled column saves the remainder."""
    for a in range(len(left)):
        for b in range(len(right)):
            out[a, b] = twice[left[a] - right[b]]


@lru_cache(maxsize=32)
def paper_kernel(size: int, exponent: float) -> Circulant:
    """abs(R D R^H) of section IV, scaled to a unit diagonal, with d_k proportional to k^-exponent.

    R D R^H is circulant with first column fft(d) / N, and so is its absolute value, which is
    positive semidefinite for every exponent that was tried (0.05 to 12).

    Examples
    --------
    >>> from kronfill.paper.circulant import paper_kernel
    >>> kernel = paper_kernel(100, 1.35)
    >>> float(kernel.diagonal()[0]), bool(kernel.spectrum.min() > 0)
    (1.0, True)
    """
    column = np.abs(np.fft.fft(np.arange(1.0, size + 1.0) ** -exponent))
    # Entry j equals entry N - j up to rounding.
    column = (column + np.roll(column[::-1], 1)) / 2
    return Circulant(column / column[0])

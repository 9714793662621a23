"""Is a given matrix symmetric and positive semidefinite, and the nearest one that is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, lapack

from kronfill._types import Floats
from kronfill.data.arrays import plain_array
from kronfill.data.reading.frames import refuse_coordinates
from kronfill.errors import NonFiniteError, NotPSDError, NotSymmetricError, ShapeError

__all__ = ["as_real", "check_square", "check_symmetric_psd", "nearest_psd"]


# Entries K[i, j] and K[j, i] may differ by this share of the largest entry.
_SYMMETRY = 1e-10
# Eigenvalues down to -_SHIFT * n * eps * max(diagonal) are rounding error.
_SHIFT = 8.0
_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 512


def check_symmetric_psd(
    matrix: npt.ArrayLike, name: str = "kernel", *, copy: bool = True
) -> Floats:
    """Check that a matrix is finite, symmetric and positive semidefinite, and return it.

    Parameters
    ----------
    matrix : array_like of shape (n, n)
        The matrix. It is not changed.
    name : str, default="kernel"
        What to call it in an error message.
    copy : bool, default=True
        False returns a read-only view of the matrix itself, if that is exactly symmetric.

    Returns
    -------
    ndarray of shape (n, n)
        Read-only; differences between ``K[i, j]`` and ``K[j, i]`` at rounding level are
        averaged out, so that it is exactly symmetric.

    Raises
    ------
    ShapeError
        If it is not a square matrix.
    NonFiniteError
        If an entry is NaN or infinite.
    NotSymmetricError
        If two entries differ by more than 1e-10 of the largest entry.
    NotPSDError
        If an eigenvalue is negative beyond rounding error, ``8 n eps max(diagonal)``.

    Notes
    -----
    One Cholesky factorisation of the matrix plus a shift at rounding level, in the memory of the
    copy that is returned; eigenvalues are computed only when that fails.

    Examples
    --------
    >>> check_symmetric_psd([[2.0, 1.0], [1.0, 2.0]]).shape
    (2, 2)
    >>> check_symmetric_psd([[1.0, 2.0], [2.0, 1.0]])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    kronfill.errors.NotPSDError: kernel is not positive semidefinite: its smallest eigenvalue ...
    """
    K = _square_floats(matrix, name)
    _check_finite(K, name)
    exact = _check_symmetric(K, name)
    shared = exact and not copy
    work: Floats = np.empty(K.shape, order="F")
    _write(work, K, exact)
    largest = float(np.abs(np.diagonal(work)).max())
    shift = _SHIFT * len(K) * _EPS * (largest if largest > 0 else float(np.abs(K).max()))
    if shift > 0:
        work.flat[:: len(K) + 1] += shift
        _, info = lapack.dpotrf(work, lower=1, clean=0, overwrite_a=1)
        if info != 0 or not shared:
            _write(work, K, exact)
        if info != 0:
            _check_smallest_eigenvalue(work, shift, name)
    # Symmetric, so the transpose is the same matrix, in the usual memory order.
    result = K.view() if shared else work.T
    result.flags.writeable = False
    return result


def _write(out: Floats, K: Floats, exact: bool) -> None:
    """Write the symmetric part of K; of an exactly symmetric matrix that is K itself."""
    if exact:
        out.T[...] = K
    else:
        _symmetrise_into(out, K)


def nearest_psd(matrix: Any) -> Any:
    """Return the positive semidefinite matrix nearest to a symmetric one.

    Negative eigenvalues are set to zero, which gives the nearest such matrix in the Frobenius
    norm [1]_. This is the explicit repair for similarities that are not quite a kernel.

    Parameters
    ----------
    matrix : array_like or data frame of shape (n, n)
        A finite matrix. Only its symmetric part ``(K + K.T) / 2`` is used.

    Returns
    -------
    ndarray or data frame of shape (n, n)
        Symmetric and positive semidefinite; a data frame keeps its labels.

    References
    ----------
    .. [1] N. J. Higham (1988), "Computing a nearest symmetric positive semidefinite matrix",
       Linear Algebra and its Applications 103, 103-118.

    Examples
    --------
    >>> nearest_psd([[1.0, 2.0], [2.0, 1.0]])
    array([[1.5, 1.5],
           [1.5, 1.5]])
    """
    K = _square_floats(matrix, "matrix")
    _check_finite(K, "matrix")
    work: Floats = np.empty(K.shape, order="F")
    _symmetrise_into(work, K)
    values, vectors = eigh(work, overwrite_a=True, check_finite=False)
    half = vectors * np.sqrt(np.clip(values, 0.0, None))
    # numpy recognises A @ A.T and returns an exactly symmetric product.
    product: Floats = half @ half.T
    if hasattr(matrix, "set_axis"):  # a data frame keeps its labels
        return type(matrix)(product, index=matrix.index, columns=matrix.columns)
    return product


def as_real(values: Any, name: str) -> Floats:
    """Return an array of float64, without copying where possible; only real numbers will do.

    Parameters
    ----------
    values : array_like
        Numbers or booleans, one for each item or pair of items.
    name : str
        What to call them in an error message.

    Returns
    -------
    ndarray of float64

    Raises
    ------
    DataError
        If a mask hides some of them, or labels would be lost.
    TypeError
        If these are complex numbers, dates, strings or anything else that is no real number.
    """
    refuse_coordinates(values, name)
    array = plain_array(values, name)
    if array.dtype.kind not in "biufO":
        msg = f"real numbers are needed, not {array.dtype}"
        raise TypeError(msg)
    try:
        return np.asarray(array, dtype=np.float64)
    except ValueError as error:
        raise TypeError(str(error)) from None


def _square_floats(matrix: npt.ArrayLike, name: str) -> Floats:
    """Return the matrix as float64 without copying where possible."""
    try:
        K = as_real(matrix, name)
    except TypeError as error:
        msg = f"{name} must be a square matrix of numbers, got {type(matrix).__name__}: {error}"
        raise ShapeError(msg) from error
    check_square(K.shape, name)
    return K


def check_square(shape: tuple[int, ...], name: str) -> None:
    """Refuse the shape of anything but a square matrix.

    Parameters
    ----------
    shape : tuple of int
        The shape.
    name : str
        What to call the matrix in an error message.
    """
    if len(shape) != 2 or shape[0] != shape[1]:
        msg = (
            f"{name} must be a square matrix, got shape {shape}. To build a kernel from a table "
            "of features use kronfill.kernels.rbf(features) or .linear(features)."
        )
        raise ShapeError(msg)
    if shape[0] == 0:
        msg = f"{name} has no items: its shape is (0, 0), at least (1, 1) is needed."
        raise ShapeError(msg)


def _check_finite(K: Floats, name: str) -> None:
    """Refuse NaN and infinity, naming the first; a finite sum of all rows rules both out."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(K.sum()):
            return
    bad = ~np.isfinite(K)
    if bad.any():
        i, j = np.argwhere(bad)[0]
        msg = f"{name} has {K[i, j]} at row {i}, column {j}. All entries must be finite."
        raise NonFiniteError(msg)


def _check_symmetric(K: Floats, name: str) -> bool:
    """Refuse asymmetry beyond rounding; return whether the matrix is exactly symmetric."""
    n = K.shape[0]
    worst, where = 0.0, (0, 0)
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        lower, upper = K[start:stop, :stop], K[:stop, start:stop].T
        if np.array_equal(lower, upper):
            continue
        gap = np.abs(lower - upper)
        top = int(np.argmax(gap))
        if gap.flat[top] > worst:
            worst = float(gap.flat[top])
            i, j = divmod(top, stop)
            where = (start + i, j)
    if worst > _SYMMETRY * np.abs(K).max(initial=0.0):
        i, j = where
        msg = (
            f"{name} is not symmetric: entry ({i}, {j}) is {K[i, j]:.10g} but entry ({j}, {i}) is "
            f"{K[j, i]:.10g}, a difference of {worst:.3g}. Symmetrise it with (K + K.T) / 2 if "
            "that is what is meant."
        )
        raise NotSymmetricError(msg)
    return worst == 0.0


def _symmetrise_into(out: Floats, K: Floats) -> None:
    """Write ``(K + K.T) / 2`` into `out`, block by block."""
    n = K.shape[0]
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        half = 0.5 * K[start:stop, :stop]
        half += 0.5 * K[:stop, start:stop].T
        out[start:stop, :stop] = half
        out[:stop, start:stop] = half.T


def _check_smallest_eigenvalue(K: Floats, shift: float, name: str) -> None:
    smallest = float(eigh(K, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)[0])
    if smallest >= -shift:
        return
    msg = (
        f"{name} is not positive semidefinite: its smallest eigenvalue is {smallest:.3g} (down to "
        f"{-shift:.1g} would pass as rounding error)."
    )
    advice = "If it should be a kernel up to noise, project it with kronfill.kernels.nearest_psd(K)"
    raise NotPSDError(msg, smallest, advice=advice)

"""Checks of single arrays: one pass, few temporaries; offenders are searched only on failure."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    EmptyDataError,
    IndexRangeError,
    NonFiniteError,
    ShapeError,
)

__all__ = [
    "FloatArray",
    "IntArray",
    "check_finite",
    "check_shape",
    "first_positions",
    "frozen",
    "is_finite",
    "listing",
    "own_floats",
    "own_index",
    "own_positions",
    "require_real",
]

IntArray = npt.NDArray[np.intp]
FloatArray = npt.NDArray[np.float64]

_MANY = 2**24
_MAX_ENTRIES = np.iinfo(np.int64).max


def listing(items: Sequence[str], total: int) -> str:
    """Join what is shown and say how many there are when that is not all."""
    text = ", ".join(items)
    return text if total <= len(items) else f"{text}, ... ({total} in all)"


def first_positions(bad: npt.NDArray[np.bool_], count: int = 3) -> tuple[list[int], int]:
    """Return the first few positions where `bad` holds, and how many there are."""
    positions = np.flatnonzero(bad)
    return positions[:count].tolist(), int(positions.size)


def check_shape(shape: Any) -> tuple[int, int]:
    """Return the shape as two positive Python ints."""
    allowed = "shape must be two positive integers (number of rows, number of columns)"
    try:
        n_rows, n_cols = (operator.index(size) for size in shape)
    except (TypeError, ValueError):
        msg = f"{allowed}, got {shape!r}"
        raise ShapeError(msg) from None
    if n_rows < 0 or n_cols < 0:
        msg = f"{allowed}, got ({n_rows}, {n_cols})"
        raise ShapeError(msg)
    if n_rows == 0 or n_cols == 0:
        msg = f"{allowed}, got ({n_rows}, {n_cols}), a matrix without entries"
        raise EmptyDataError(msg)
    if n_rows * n_cols > _MAX_ENTRIES:
        msg = f"{allowed} with a product below 2^63, got ({n_rows}, {n_cols})"
        raise ShapeError(msg)
    return n_rows, n_cols


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make an array that belongs to us read-only and return it."""
    array.flags.writeable = False
    return array


def _is_read_only(array: npt.NDArray[Any]) -> bool:
    """Return whether the array and whatever it is a view of are all read-only."""
    current: Any = array
    while isinstance(current, np.ndarray):
        if current.flags.writeable:
            return False
        current = current.base
    if current is None:
        return True
    try:
        with memoryview(current) as view:  # e.g. a memory-mapped file, or bytes
            return view.readonly
    except TypeError:
        return False


def _own(array: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return a read-only C-contiguous array that no one else can write to.

    An array that is already so, down to the owner of its memory, is shared; all else is copied.
    """
    if array.dtype == dtype and array.flags.c_contiguous and _is_read_only(array):
        return array
    return frozen(np.array(array, dtype=dtype, order="C", copy=True, subok=False))


def _vector(values: Any, name: str) -> npt.NDArray[Any]:
    """Return the input as a one-dimensional plain array without copying."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        shown, total = first_positions(np.ma.getmaskarray(values).ravel())
        where = listing([str(k) for k in shown], total)
        msg = f"{name} is masked at position {where}; leave the masked entries out"
        raise NonFiniteError(msg)
    try:
        array = np.asarray(values)
    except ValueError:
        msg = f"{name} must be one-dimensional, got nested sequences of different lengths"
        raise ShapeError(msg) from None
    if array.ndim != 1:
        msg = f"{name} must be one-dimensional, got an array of shape {array.shape}; try .ravel()"
        raise ShapeError(msg)
    return array


def own_index(values: Any, name: str, size: int) -> IntArray:
    """Return row or column indices as a read-only integer array, each in [0, size)."""
    array = _vector(values, name)
    allowed = f"{name} must be integers in [0, {size - 1}]"
    if array.size == 0:
        return frozen(np.empty(0, dtype=np.intp))
    if array.dtype.kind == "f":
        bad = array != np.trunc(array)  # true of NaN; infinite entries fail the range check
        if bad.any():
            msg = f"{allowed}, got {_offenders(array, bad)}"
            raise IndexRangeError(msg)
    elif array.dtype.kind not in "iu":
        msg = f"{allowed}, got {array.dtype} (first entry {array[0]!r}); for labels use from_long"
        raise IndexRangeError(msg)
    if array.min() < 0 or array.max() >= size:
        bad = (array < 0) | (array >= size)
        msg = f"{allowed}, counted from 0, got {_offenders(array, bad)}; is the shape right?"
        raise IndexRangeError(msg)
    small = array.size >= _MANY and size < 2**31
    return _own(array, np.int32 if small else np.intp)


def _offenders(array: npt.NDArray[Any], bad: npt.NDArray[np.bool_]) -> str:
    """Name the first bad entries with their positions."""
    shown, total = first_positions(bad)
    return listing([f"{array[k]} at position {k}" for k in shown], total)


def require_real(array: npt.NDArray[Any], name: str) -> None:
    """Refuse text, dates and complex numbers; objects are left to the conversion."""
    if array.dtype.kind not in "biufO":
        msg = f"{name} must be real numbers, got dtype {array.dtype}; convert them first"
        raise DataError(msg)


def own_floats(values: Any, name: str) -> FloatArray:
    """Return numbers as a read-only float64 array (finiteness is checked elsewhere)."""
    array = _vector(values, name)
    require_real(array, name)
    try:
        return _own(array, np.float64)
    except (TypeError, ValueError) as error:
        msg = f"{name} must be real numbers, got objects that are not ({error})"
        raise DataError(msg) from None


def is_finite(array: FloatArray) -> bool:
    """Return whether every number is finite, without a temporary: NaN passes through min."""
    if array.size == 0:
        return True
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def check_finite(array: FloatArray, name: str, advice: str) -> None:
    """Raise if a number is NaN or infinite (for arrays whose entries have no better name)."""
    if not is_finite(array):
        msg = f"{name} must be finite, got {_offenders(array, ~np.isfinite(array))}; {advice}"
        raise NonFiniteError(msg)


def own_positions(index: Any, m: int) -> IntArray:
    """Return distinct positions in [0, m) from a mask, a slice or positions."""
    if isinstance(index, slice):
        return np.arange(m)[index]
    array = np.asarray(index)
    if array.ndim != 1:
        msg = f"positions or a mask must be one-dimensional, got shape {array.shape}"
        raise ShapeError(msg)
    if array.dtype.kind == "b":
        if array.size != m:
            msg = f"a mask must have one entry per observation ({m}), got {array.size}"
            raise ShapeError(msg)
        return np.flatnonzero(array)
    if array.size == 0:
        msg = "no observation was chosen; at least one entry must be observed"
        raise EmptyDataError(msg)
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= m:
        got = f"{array.min()} to {array.max()}" if array.dtype.kind in "iu" else array.dtype
        msg = f"positions must be integers in [0, {m - 1}], or a mask of {m} booleans; got {got}"
        raise IndexRangeError(msg)
    if np.bincount(array).max() > 1:
        msg = "positions must be distinct: an entry may be observed once"
        raise DuplicateEntryError(msg)
    return array.astype(np.intp, copy=False)

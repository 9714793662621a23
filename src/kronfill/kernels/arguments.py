"""What users hand to kernels: positions of items, numbers, square tables with labels."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from kronfill._types import Floats, Index
from kronfill.core.psd import as_real
from kronfill.data.amounts import count_of
from kronfill.data.arrays import plain_array
from kronfill.data.reading.frames import as_pandas, frame_labels
from kronfill.errors import (
    FeatureError,
    IndexRangeError,
    KernelError,
    LabelError,
    NonFiniteError,
    ParameterError,
)

__all__ = [
    "as_positions",
    "finite_numbers",
    "labelled_square",
    "positions_from_key",
    "positive_integer",
    "positive_values",
    "real_at_least",
]


def as_positions(items: npt.ArrayLike | None, n: int, name: str) -> Index | None:
    """Return item positions as a 1-D integer array; None, which means all items, stays None."""
    if items is None:
        return None
    array = plain_array(items, name).copy()  # first ours, then checked
    if array.size == 0:
        return np.empty(0, dtype=np.intp)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        msg = (
            f"{name} must be a one-dimensional array of integer positions, got "
            f"{array.ndim}-dimensional {array.dtype}; a mask is turned into positions by "
            "np.flatnonzero."
        )
        raise IndexRangeError(msg)
    (bad,) = np.nonzero((array < 0) | (array >= n))
    if bad.size:
        msg = f"{name} has {array[bad[0]]} at place {bad[0]}; allowed are 0 to {n - 1}."
        raise IndexRangeError(msg)
    return array.astype(np.intp, copy=False)


def positions_from_key(key: Any, n: int, name: str) -> tuple[Index | None, bool]:
    """Resolve one part of ``kernel[rows, cols]``; the flag tells a single item from an array."""
    if isinstance(key, slice):
        whole = key == slice(None)
        return (None if whole else np.arange(*key.indices(n), dtype=np.intp)), False
    array = plain_array(key, name)
    if array.dtype == bool:
        if array.shape != (n,):
            msg = f"{name}: a mask must have shape ({n},), got {array.shape}."
            raise IndexRangeError(msg)
        return np.flatnonzero(array), False
    single = array.ndim == 0
    if array.dtype.kind == "i":
        array = np.where((array < 0) & (array >= -n), array + n, array)
    return as_positions(np.atleast_1d(array), n, name), single


def finite_numbers(values: npt.ArrayLike, name: str, wanted: str = "numbers") -> Floats:
    """Return an array of finite numbers, without copying where possible."""
    try:
        array = as_real(values, name)
    except TypeError as error:
        msg = f"{name} must be {wanted}, got {type(values).__name__}: {error}."
        raise KernelError(msg) from error
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        msg = f"{name} must be finite, got {array[where]} at {where}."
        raise NonFiniteError(msg)
    return array


def labelled_square(frame: Any, name: str) -> tuple[Floats, tuple[Any, ...] | None]:
    """Read a square table whose rows and columns are the same items."""
    table = as_pandas(frame)
    if not table.columns.is_unique or not table.index.is_unique:
        twice = table.columns[table.columns.duplicated()].append(
            table.index[table.index.duplicated()]
        )
        msg = f"{name} has the label {twice[0]!r} twice; every item may appear only once."
        raise LabelError(msg)
    if table.shape[0] != table.shape[1]:
        msg = (
            f"{name} must be a square table of similarities, got shape {table.shape}; to build "
            "a kernel from a table of features use kronfill.kernels.rbf(features) or .linear."
        )
        raise KernelError(msg)
    odd = table.index.symmetric_difference(table.columns, sort=False)
    if len(odd):
        msg = (
            f"{name} has rows and columns that differ: they must be the same items, but {odd[0]!r} "
            f"is only in one of them ({count_of(len(odd), 'such label')}); give both the same "
            "labels, or pass a bare array (frame.to_numpy())."
        )
        raise LabelError(msg)
    ordered = table[table.index]
    try:
        values = ordered.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"{name} must hold numbers only: {error}."
        raise FeatureError(msg) from error
    return values, frame_labels(table)


def real_at_least(value: Any, lowest: float, name: str, *, strict: bool = False) -> float:
    """Check a finite number that is at least (if `strict`, above) the lowest allowed."""
    number = float(value) if isinstance(value, Real) else np.nan
    if not np.isfinite(number) or number < lowest or (strict and number == lowest):
        bound = "above" if strict else "at least"
        msg = f"{name} must be a finite number {bound} {lowest:g}, got {value!r}."
        raise ParameterError(msg)
    return number


def positive_integer(value: Any, name: str) -> int:
    """Check a whole number of at least one."""
    if type(value) is bool or not isinstance(value, Integral) or value < 1:
        msg = f"{name} must be a positive integer, got {value!r}."
        raise ParameterError(msg)
    return int(value)


def positive_values(value: Any, width: int, name: str) -> float | Floats:
    """Check a positive number, or one for each of `width` features."""
    try:
        array = np.array(plain_array(value, name), dtype=np.float64)
    except NonFiniteError:
        raise
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if not (np.isfinite(array) & (array > 0)).all() or array.shape not in {(), (width,)}:
        shape = "" if array.ndim == 0 else f" of shape {array.shape}"
        msg = (
            f"{name} must be a positive number or {width} of them, one per encoded feature; "
            f"got {value!r}{shape}."
        )
        raise ParameterError(msg)
    return array if array.ndim else float(array)

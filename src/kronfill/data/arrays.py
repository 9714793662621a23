"""Checks of single arrays: one pass, few temporaries; offenders are searched only on failure.

What users hand in becomes an array in :func:`plain_array` and nowhere else: ``np.asarray`` alone
drops a mask.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse

from kronfill._types import Floats, Index
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    EmptyDataError,
    IndexRangeError,
    NonFiniteError,
    ShapeError,
)

__all__ = [
    "Floats",
    "Index",
    "check_finite",
    "check_shape",
    "finite_array",
    "first_positions",
    "frozen",
    "is_finite",
    "listing",
    "nbytes_of",
    "own_floats",
    "own_index",
    "own_positions",
    "own_sparse",
    "plain_array",
    "real_array",
    "require_real",
]


Matrix = TypeVar("Matrix")

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
        msg = f"{allowed}, got {shape!r}."
        raise ShapeError(msg) from None
    if n_rows < 0 or n_cols < 0:
        msg = f"{allowed}, got ({n_rows}, {n_cols})."
        raise ShapeError(msg)
    if n_rows == 0 or n_cols == 0:
        msg = f"{allowed}, got ({n_rows}, {n_cols}), a matrix without entries."
        raise EmptyDataError(msg)
    if n_rows * n_cols > _MAX_ENTRIES:
        msg = f"{allowed} with a product below 2^63, got ({n_rows}, {n_cols})."
        raise ShapeError(msg)
    return n_rows, n_cols


def frozen(array: Matrix) -> Matrix:
    """Make an array, or a sparse matrix by rows, that belongs to us read-only and return it."""
    for part in _parts(array):
        part.flags.writeable = False
    return array


def nbytes_of(array: Any) -> int:
    """Return the bytes of an array, or of a sparse matrix by rows."""
    return sum(int(part.nbytes) for part in _parts(array))


def _parts(array: Any) -> tuple[npt.NDArray[Any], ...]:
    return (array,) if isinstance(array, np.ndarray) else (array.data, array.indices, array.indptr)


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


def plain_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Return what was handed in as a plain array, without copying; what a mask hides is refused."""
    if scipy.sparse.issparse(values):
        msg = (
            f"{name} must be a dense array, got a sparse one of shape {values.shape}; toarray() "
            "makes it dense."
        )
        raise ShapeError(msg)
    if isinstance(values, np.ma.MaskedArray):
        _refuse_masked(np.ma.getmaskarray(values), name)
    elif isinstance(values, list | tuple):
        hidden = [isinstance(v, np.ma.MaskedArray) and np.ma.is_masked(v) for v in values]
        _refuse_masked(np.array(hidden, dtype=bool), name)
    nullable = getattr(getattr(values, "dtype", None), "numpy_dtype", None)
    if nullable is not None and not values.isna().any():  # pandas before 2.2 makes objects of them
        return np.asarray(values.to_numpy(dtype=nullable))
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        got = f"{type(values).__name__} ({error})"
        got = "nested sequences of different lengths" if isinstance(values, list | tuple) else got
        msg = f"{name} must be an array, got {got}."
        raise ShapeError(msg) from None


def _refuse_masked(hidden: npt.NDArray[np.bool_], name: str) -> None:
    """Raise if anything is hidden by a mask."""
    if not hidden.any():
        return
    where = [", ".join(map(str, at)) for at in np.argwhere(hidden)[:3]]
    shown = [f"({at})" if hidden.ndim > 1 else at for at in where]
    msg = (
        f"{name} is masked at position {listing(shown, int(hidden.sum()))}; leave masked entries "
        "out or fill them in. Observations.from_matrix reads a masked matrix, in which they are "
        "missing."
    )
    raise NonFiniteError(msg)


def _vector(values: Any, name: str) -> npt.NDArray[Any]:
    """Return the input as a one-dimensional plain array without copying."""
    array = plain_array(values, name)
    if array.ndim != 1:
        msg = f"{name} must be one-dimensional, got an array of shape {array.shape}; try .ravel()."
        raise ShapeError(msg)
    return array


def own_index(values: Any, name: str, size: int) -> Index:
    """Return row or column indices as a read-only integer array of our own, each in [0, size).

    The copy is what is checked: compiled code trusts an index, and what others hold, be it a file
    that is mapped into memory read-only, may still change.
    """
    given = _vector(values, name)
    allowed = f"{name} must be integers in [0, {size - 1}]"
    if given.size == 0:
        return frozen(np.empty(0, dtype=np.intp))
    if given.dtype.kind not in "iuf":
        msg = f"{allowed}, got {given.dtype} (first entry {given[0]!r}); for labels use from_long."
        raise IndexRangeError(msg)
    small = given.size >= _MANY and size < 2**31
    with np.errstate(invalid="ignore"):
        index: Index = np.array(given, dtype=np.int32 if small else np.intp)
    same = np.can_cast(given.dtype, index.dtype) or np.array_equal(index, given)
    if not same or index.min() < 0 or index.max() >= size:
        raise IndexRangeError(_why_no_index(given, size, allowed))
    return frozen(index)


def _why_no_index(given: npt.NDArray[Any], size: int, allowed: str) -> str:
    """Say which entries are no indices."""
    if given.dtype.kind == "f":
        fraction = given != np.trunc(given)  # true of NaN; infinite entries are out of range
        if fraction.any():
            return f"{allowed}, got {_offenders(given, fraction)}."
    outside = (given < 0) | (given >= size)
    return f"{allowed}, counted from 0, got {_offenders(given, outside)}; is the shape right?"


def _offenders(array: npt.NDArray[Any], bad: npt.NDArray[np.bool_]) -> str:
    """Name the first bad entries with their positions."""
    shown, total = first_positions(bad)
    return listing([f"{array[k]} at position {k}" for k in shown], total)


def require_real(array: Any, name: str) -> None:
    """Refuse text, dates and complex numbers; objects are left to the conversion."""
    if array.dtype.kind not in "biufO":
        msg = f"{name} must be real numbers, got dtype {array.dtype}; convert them first."
        raise DataError(msg)


def real_array(values: Any, name: str) -> Floats:
    """Return numbers as floats, in any number of dimensions, without copying where possible."""
    array = plain_array(values, name)
    require_real(array, name)
    try:
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        msg = f"{name} must be real numbers, got objects that are not ({error})."
        raise DataError(msg) from None


def finite_array(values: Any, name: str) -> Floats:
    """Return finite numbers as floats, in any number of dimensions."""
    numbers = real_array(values, name)
    if not is_finite(numbers):
        where = tuple(int(k) for k in np.argwhere(~np.isfinite(numbers))[0])
        at = where[0] if len(where) == 1 else where
        msg = f"{name} must be finite, got {numbers[where]} at position {at}."
        raise NonFiniteError(msg)
    return numbers


def own_floats(values: Any, name: str) -> Floats:
    """Return numbers as a read-only float64 array (finiteness is checked elsewhere).

    An array that is already so, down to the owner of its memory, is shared; all else is copied.
    """
    given = _vector(values, name)
    numbers = real_array(given, name)
    if numbers is not given:  # converted: ours already
        return frozen(numbers)
    if given.flags.c_contiguous and _is_read_only(given):
        return given
    return frozen(given.copy())


def is_finite(array: Floats) -> bool:
    """Return whether every number is finite, without a temporary: NaN passes through min."""
    if array.size == 0:
        return True
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def check_finite(array: Floats, name: str, advice: str) -> None:
    """Raise if a number is NaN or infinite (for arrays whose entries have no better name)."""
    if not is_finite(array):
        msg = f"{name} must be finite, got {_offenders(array, ~np.isfinite(array))}; {advice}."
        raise NonFiniteError(msg)


def own_positions(index: Any, m: int) -> Index:
    """Return distinct positions in [0, m) from a mask, a slice or positions."""
    if isinstance(index, slice):
        return np.arange(m)[index]
    array = plain_array(index, "The index").copy()  # first ours, then checked
    if array.ndim != 1:
        msg = f"Positions or a mask must be one-dimensional, got shape {array.shape}."
        raise ShapeError(msg)
    if array.dtype.kind == "b":
        if array.size != m:
            msg = f"A mask must have one entry per observation ({m}), got {array.size}."
            raise ShapeError(msg)
        return np.flatnonzero(array)
    if array.size == 0:
        msg = "No observation was chosen; at least one entry must be observed."
        raise EmptyDataError(msg)
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= m:
        got = f"{array.min()} to {array.max()}" if array.dtype.kind in "iu" else array.dtype
        msg = f"Positions must be integers in [0, {m - 1}], or a mask of {m} booleans; got {got}."
        raise IndexRangeError(msg)
    if np.bincount(array).max() > 1:
        msg = "Positions must be distinct: an entry may be observed once."
        raise DuplicateEntryError(msg)
    return array.astype(np.intp, copy=False)


def own_sparse(matrix: Any, name: str) -> Any:
    """Return a copy of a sparse matrix of real numbers that is safe to convert and multiply.

    scipy trusts the indices that a matrix stores, which anyone may have changed; here they are
    looked at.
    """
    if matrix.ndim != 2:
        msg = f"{name} must have two dimensions, got a sparse array of shape {matrix.shape}."
        raise ShapeError(msg)
    require_real(matrix, name)
    try:
        mine = matrix.tocsr() if matrix.format in ("lil", "dok") else matrix.copy()
        if mine.format in ("csr", "csc", "bsr"):
            mine.check_format(full_check=True)
    except ValueError as error:
        msg = f"{name} is a sparse matrix whose indices do not fit together ({error})."
        raise DataError(msg) from None
    return mine

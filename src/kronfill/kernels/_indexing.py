"""Positions of items: integers, slices and masks turned into one checked integer array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kronfill._types import Floats, Index
from kronfill.data._arrays import plain_array
from kronfill.errors import IndexRangeError

__all__ = ["Floats", "Index", "as_positions", "frozen", "positions_from_key"]


def frozen(array: Any) -> Any:
    """Make an array (or the arrays of a sparse matrix) read-only and return it."""
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    else:
        for part in (array.data, array.indices, array.indptr):
            part.flags.writeable = False
    return array


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
            "np.flatnonzero"
        )
        raise IndexRangeError(msg)
    (bad,) = np.nonzero((array < 0) | (array >= n))
    if bad.size:
        msg = f"{name} has {array[bad[0]]} at place {bad[0]}; allowed are 0 to {n - 1}"
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
            msg = f"{name}: a mask must have shape ({n},), got {array.shape}"
            raise IndexRangeError(msg)
        return np.flatnonzero(array), False
    single = array.ndim == 0
    if array.dtype.kind == "i":
        array = np.where((array < 0) & (array >= -n), array + n, array)
    return as_positions(np.atleast_1d(array), n, name), single

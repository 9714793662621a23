"""Observed entries looked up in the sorted partitions on disk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats, Index
from kronfill.streaming.storage.partitions import Partitions

__all__ = ["find_entries"]


def find_entries(parts: Partitions, rows: Index, cols: Index) -> tuple[NDArray[np.bool_], Floats]:
    """Which entries are observed, and their values.

    Parameters
    ----------
    parts : Partitions
        All observations; no more of them is read than the search touches.
    rows, cols : ndarray of shape (t,)
        The entries asked for.

    Returns
    -------
    seen : ndarray of shape (t,)
        Whether each is observed.
    values : ndarray of shape (t,)
        Its value, NaN where it is not.
    """
    outer, inner = (rows, cols) if parts.by == 0 else (cols, rows)
    values = np.full(len(outer), np.nan)
    seen = np.zeros(len(outer), bool)
    where = np.searchsorted(parts.bounds, outer, side="right") - 1
    for number in np.unique(where):
        part = parts[int(number)]
        mine = np.flatnonzero(where == number)
        item = outer[mine] - part.items.start
        begin, end = part.indptr[item], part.indptr[item + 1]
        stored = part.grouped.inner
        at = _bisect(stored, inner[mine], begin, end)
        hit = at < end
        hit[hit] = stored[at[hit]] == inner[mine[hit]]
        seen[mine] = hit
        values[mine[hit]] = part.stored[at[hit]]
    return seen, values


def _bisect(
    stored: NDArray[np.int32], wanted: Index, begin: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """First position in begin, ..., end - 1 that is not below the one wanted, else end."""
    low, high = begin.copy(), end.copy()
    open_ = np.flatnonzero(low < high)
    while len(open_):
        middle = (low[open_] + high[open_]) // 2
        below = stored[middle] < wanted[open_]
        low[open_[below]] = middle[below] + 1
        high[open_[~below]] = middle[~below]
        open_ = open_[low[open_] < high[open_]]
    return low

"""Whether entries are distinct, for many of them: one counting sort and one mark per column."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["are_distinct"]


@numba.njit(cache=True)
def _by_row(rows, cols, ends, sorted_cols):  # type: ignore[no-untyped-def]
    """Columns of each row side by side; ends[i] is where those of row i end."""
    for k in range(len(rows)):
        ends[rows[k] + 1] += 1
    for i in range(len(ends) - 1):
        ends[i + 1] += ends[i]
    for k in range(len(rows)):
        at = ends[rows[k]]
        sorted_cols[at] = cols[k]
        ends[rows[k]] = at + 1


@numba.njit(cache=True)
def _repeats(ends, sorted_cols, mark):  # type: ignore[no-untyped-def]
    """Whether a row has a column twice: mark[c] is the last row that had column c."""
    start = 0
    for i in range(len(ends) - 1):
        for k in range(start, ends[i]):
            c = sorted_cols[k]
            if mark[c] == i:
                return True
            mark[c] = i
        start = ends[i]
    return False


def are_distinct(
    rows: NDArray[np.integer], cols: NDArray[np.integer], shape: tuple[int, int]
) -> bool:
    """Return whether no pair occurs twice; takes 4 or 8 bytes for each pair."""
    ends = np.zeros(shape[0] + 1, np.int64)
    sorted_cols = np.empty(len(cols), cols.dtype)
    _by_row(rows, cols, ends, sorted_cols)
    return not _repeats(ends, sorted_cols, np.full(shape[1], -1, np.int64))

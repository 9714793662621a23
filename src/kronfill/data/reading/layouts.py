"""Wide or long: whether columns of numbers could be the labels of entries, one on each line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from kronfill._types import Floats
from kronfill.data.reading.frames import FrameLike, axis_indexes, is_table, open_table
from kronfill.errors import DataError

__all__ = ["FEW", "are_labels", "entry_columns", "hang_together", "is_like_value", "refuse_long"]

FEW = 6
"""A long table seldom has more columns: row, column, value, and what else is known of an entry."""
MOSTLY = 0.9
"""Share of the lines of a long table that are the first for their entry, at least."""
_NUMBER = re.compile(r"[$€£]?\s*[+-]?(\d+|\d{1,3}([,.'’ ]\d{3})+|\d*[.,]\d+)([eE][+-]?\d+)?\s*%?")


def are_labels(column: Floats) -> bool:
    """Whether numbers could be labels: whole, and none missing."""
    return bool(np.all(np.isfinite(column)) and np.all(column == np.floor(column)))


def is_like_value(text: str) -> bool:
    """Whether a text was likely meant as a number, 3,000 or 12%, or as a missing one, a dash."""
    return _NUMBER.fullmatch(text) is not None or not any(sign.isalnum() for sign in text)


def entry_columns(columns: Sequence[Floats]) -> tuple[int, int] | None:
    """Two columns that could name the entries of a long table, if there are such.

    They hold labels, at least one of them repeats some, and hardly any pair of labels comes twice.
    """
    coded = {
        j: np.unique(column, return_inverse=True)
        for j, column in enumerate(columns)
        if are_labels(column)
    }
    for a, b in combinations(coded, 2):
        (rows, at_r), (cols, at_c) = coded[a], coded[b]
        lines, pairs = len(at_r), at_r * len(cols) + at_c
        if min(len(rows), len(cols)) < lines and len(np.unique(pairs)) >= MOSTLY * lines:
            return a, b
    return None


def hang_together(lines: int, n_rows: int, n_cols: int, numbered: bool = False) -> bool:
    """Whether so many lines are likely to be the entries of so many rows and columns.

    Fewer entries could not connect all rows and columns, and a label that stands in one line only
    is rather the name of that line; where rows are ``numbered`` less will do.
    """
    if numbered:
        return lines >= n_rows + n_cols - 1 and 2 * lines >= 3 * n_rows
    return lines >= n_rows + n_cols and lines >= 2 * n_rows


def refuse_long(source: Any) -> None:
    """Raise if a table of columns that is to be taken as a matrix could be a long table.

    A table with labels of its own for its rows is wide.
    """
    if not is_table(source):
        return
    index, _ = axis_indexes(source)
    table = open_table(source)
    if index is not None and index.nlevels == 2 and len(table.names) == 1:
        _refuse(
            table, "the two levels of its index", "table.reset_index(), row=..., col=..., value=..."
        )
    if not 3 <= len(table.names) <= FEW or not all(isinstance(n, str) for n in table.names):
        return
    if index is not None and (index.name is not None or index.dtype.kind not in "iu"):
        return
    found = entry_columns([table.numbers(j) for j in range(len(table.names))])
    if found is not None:
        row, col = (table.names[j] for j in found)
        value = next(name for j, name in enumerate(table.names) if j not in found)
        said = f"table, row={row!r}, col={col!r}, value={value!r}"
        _refuse(table, f"its columns {row!r} and {col!r}", said)


def _refuse(table: FrameLike, where: str, said: str) -> None:
    msg = (
        f"The table can be read in two ways. As a long one, each line is an entry, whose row and "
        f"column are named by {where}. As a wide one, each line is a row and the columns are "
        f"{', '.join(map(repr, table.names))}. Say which it is: if it is long, its columns, such "
        f"as kf.complete({said}); if it is wide, kf.complete(kf.Observations.from_matrix(table))."
    )
    raise DataError(msg)

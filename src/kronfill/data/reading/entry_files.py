"""The entries of a matrix from a file: a wide table, or a long one with a line for each entry."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.data.amounts import count_of
from kronfill.data.arrays import listing
from kronfill.data.entries import Entries, LabelledShape, check_policy
from kronfill.data.observations import Observations
from kronfill.data.reading.file_table import FileTable
from kronfill.data.reading.layouts import (
    FEW,
    are_labels,
    entry_columns,
    hang_together,
    is_like_value,
)
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    EmptyDataError,
    ParameterError,
)

__all__ = ["EntryFile", "Roles", "are_numbers", "read_entries", "read_pairs"]

LAYOUTS = ("wide", "long")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def are_numbers(*labels: Iterable[str]) -> bool:
    """Whether all labels are whole numbers written as Python would: "7", but not "007" or "7.0"."""
    return all(_WHOLE.fullmatch(label) for some in labels for label in some)


@dataclass(frozen=True)
class Roles:
    """What the user said about the columns of a table; None is to be found out.

    Attributes
    ----------
    layout : {"wide", "long"} or None
        How the entries are laid out.
    row, col, value, weight : str or None
        Columns of a long table.
    index : str or None
        Column of a wide table with the row labels; "none" if there is none.
    """

    layout: str | None = None
    row: str | None = None
    col: str | None = None
    value: str | None = None
    weight: str | None = None
    index: str | None = None


@dataclass(frozen=True, eq=False)
class EntryFile:
    """Entries as they stand in a file; labels are text.

    Attributes
    ----------
    table : FileTable
        The file.
    layout : {"wide", "long"}
        How the entries were laid out.
    names : tuple of str
        What rows, columns and values are called (in a wide table only rows have a name).
    row_labels, col_labels : list of str
        The labels, in the order of the file.
    words : str
        What was found, in words.
    """

    table: FileTable
    layout: str
    names: tuple[str, str, str]
    row_labels: list[str]
    col_labels: list[str]
    words: str
    _rows: Index
    _cols: Index
    _values: Floats
    _weights: Floats | None = None
    _lines: Index | None = None

    def observations(
        self, numbers: tuple[bool, bool] = (False, False), duplicates: str = "error"
    ) -> Observations:
        """Return the observed entries.

        Parameters
        ----------
        numbers : tuple of bool
            Whether row labels and column labels become whole numbers.
        duplicates : {"error", "mean"}, default="error"
            What to do with several lines for one entry.
        """
        if not len(self._values):
            msg = f"{self.table.path}: every value is missing; at least one entry must be observed."
            raise EmptyDataError(msg)
        labels = [
            [int(label) for label in some] if whole else some
            for some, whole in zip((self.row_labels, self.col_labels), numbers, strict=True)
        ]
        rows, cols = self._rows, self._cols
        if self.layout == "long":  # a line may stand anywhere: labels are put in order
            (rows, labels[0]), (cols, labels[1]) = (
                _sorted(at, some) for at, some in zip((rows, cols), labels, strict=True)
            )
        check_policy(duplicates)
        grid = LabelledShape.build((len(labels[0]), len(labels[1])), *labels)
        entries = Entries.build(rows, cols, self._values, self._weights, grid)
        try:
            return Observations.from_entries(entries.settled(duplicates))
        except DuplicateEntryError:
            raise DuplicateEntryError(self._repeats(entries)) from None

    def _repeats(self, entries: Entries) -> str:
        """Say which entries have several lines."""
        lines = np.arange(len(self._values)) + 2 if self._lines is None else self._lines
        repeats = entries.repeats()
        shown = []
        for one, two in repeats[:3]:
            labels = f"{self.row_labels[self._rows[one]]!r}, {self.col_labels[self._cols[one]]!r}"
            shown.append(f"{labels} at lines {lines[one]} and {lines[two]}")
        return (
            f"{self.table.path} has several lines for the same entry: "
            f"{listing(shown, len(repeats))}. Merge them, or take their mean (--duplicates mean)."
        )


def _sorted(at: Index, labels: list[Any]) -> tuple[Index, list[Any]]:
    order = sorted(range(len(labels)), key=labels.__getitem__)
    place = np.empty(len(labels), dtype=np.intp)
    place[order] = np.arange(len(labels))
    return place[at], [labels[k] for k in order]


def read_entries(table: FileTable, roles: Roles | None = None) -> EntryFile:
    r"""Read the entries of a wide or a long table, whichever it is.

    Parameters
    ----------
    table : FileTable
        The file. A table is long if it is said to be, if its second column holds text and the
        third numbers, or if the labels of its first two columns repeat as those of entries do;
        otherwise it is wide. Where both could be meant it is refused.
    roles : Roles, optional
        What is known about its columns.

    Returns
    -------
    EntryFile

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from kronfill.data.reading.table_files import open_file
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ratings.csv"
    >>> _ = path.write_text("user,film,stars\nann,up,5\nbob,up,3\nann,jaws,4\n")
    >>> ratings = read_entries(open_file(path))
    >>> ratings.layout, ratings.row_labels, ratings.observations().values
    ('long', ['ann', 'bob'], array([5., 3., 4.]))
    """
    roles = roles or Roles()
    _check(table, roles)
    if len(table) == 0:
        msg = f"{table.path} has a header but no lines below it; there is nothing to complete."
        raise EmptyDataError(msg)
    layout, why = _layout(table, roles)
    return _long(table, roles, why) if layout == "long" else _wide(table, roles, why)


def _check(table: FileTable, roles: Roles) -> None:
    if roles.layout not in (None, *LAYOUTS):
        msg = f"layout must be one of {LAYOUTS}, got {roles.layout!r}."
        raise ParameterError(msg)
    named = [name for name in (roles.row, roles.col, roles.value, roles.weight) if name is not None]
    if named and (roles.layout == "wide" or roles.index is not None):
        msg = (
            f"The columns {', '.join(map(repr, named))} were named as those of a long table, but a "
            "wide table was asked for as well (--layout wide, --index): choose one."
        )
        raise ParameterError(msg)
    if roles.layout == "long" and roles.index is not None:
        msg = "A long table has no index column; name its columns with --row-column instead."
        raise ParameterError(msg)
    for name in named:
        table.position(name)


def _layout(table: FileTable, roles: Roles) -> tuple[str, str]:
    """The layout and the reason for it."""
    if roles.layout is not None:
        return roles.layout, "as asked"
    if roles.row or roles.col or roles.value or roles.weight:
        return "long", "as its columns were named"
    if roles.index is not None:
        return "wide", "as its index was named"
    if len(table.names) < 3:
        return "wide", f"it has {count_of(len(table.names), 'column')}"
    return _found_layout(table)


def _found_layout(table: FileTable) -> tuple[str, str]:
    """The layout by what the first three columns hold; DataError where that leaves it open."""
    codes, labels = table.labels(0)
    name, second, third = table.names[:3]
    repeated = len(labels) < len(codes)
    wide = f"one line for each {name or 'row'!r}, numbers in the other columns"
    if not table.is_numeric(2):
        if not repeated:
            return "wide", wide
        twice = labels[int(np.argmax(np.bincount(codes)))]
        msg = (
            f"{table.path} is neither a wide table, for {name!r} has the label {twice!r} more than "
            f"once, nor a long one (row, column, value), for {third!r} is not numeric. "
            "Name the columns of a long table: --row-column, --col-column, --value-column."
        )
        raise DataError(msg)
    _refuse_numbered(table, labels)
    if table.is_numeric(1):
        if not repeated or not are_labels(table.numbers(1)):
            return "wide", wide  # which a label that repeats is not: it is refused there
        if _are_entries(table, labels):
            return "long", f"{name!r} has the same label in several lines"
        why = f"the label {labels[int(np.argmax(np.bincount(codes)))]!r} stands in several lines"
        raise DataError(_either(table, why))
    odd = table.odd_cell(1)
    if odd and any(map(is_like_value, table.texts(1))) and not _are_entries(table, labels):
        why = f"{odd[1]!r} in line {odd[0]} of {second!r} is not a number (3,000 is written 3000)"
        raise DataError(_either(table, why))
    if repeated:
        return "long", f"{name!r} has the same label in several lines"
    return "long", f"{second!r} holds labels and {third!r} numbers"


def _are_entries(table: FileTable, labels: list[str]) -> bool:
    """Whether the lines are likely to be entries, by how often their labels repeat."""
    if len(table.names) > FEW or are_numbers(table.names[1:]):
        return False
    return hang_together(len(table), len(labels), len(table.texts(1)), are_numbers(labels))


def _either(table: FileTable, why: str) -> str:
    """Say how a table can be read, and what is against the first way."""
    _, second, third = table.names[:3]
    return (
        f"{table.path} can be read in two ways. As a wide table, with the row labels in "
        f"{_first(table)} and values in all other columns; but then {why}. As a long one, each "
        f"line an entry, with the row label in {_first(table)}, the column label in {second!r} and "
        f"the value in {third!r}. Say which it is: --layout wide or --layout long."
    )


def _first(table: FileTable) -> str:
    return repr(table.names[0]) if table.names[0] else "the first column"


def _refuse_numbered(table: FileTable, labels: list[str]) -> None:
    """Raise if the first column only numbers the lines of what may be a long table."""
    others = range(1, len(table.names))
    if not 3 <= len(others) <= FEW or are_numbers(table.names[1:]):
        return
    if not any(labels == [str(k + first) for k in range(len(table))] for first in (0, 1)):
        return
    if table.is_numeric(1):
        numeric = [j for j in others if table.is_numeric(j)]
        found = entry_columns([table.numbers(j) for j in numeric])
        if found is None:
            return
        row, col = (numeric[k] for k in found)
        if not hang_together(len(table), len(table.texts(row)), len(table.texts(col))):
            return
    msg = (
        f"{table.path} can be read in two ways: {_first(table)} holds the row labels of a wide "
        "table, or it only numbers the lines of a long one, whose labels are in other columns. "
        "Say which it is: --layout wide, or name the columns of a long table (--row-column, "
        "--col-column, --value-column)."
    )
    raise DataError(msg)


def _long(table: FileTable, roles: Roles, why: str) -> EntryFile:
    free = [name for name in table.names if name not in (roles.row, roles.col, roles.value)]
    weight = roles.weight
    if weight is None:
        weight = next((name for name in free if name.lower() in ("weight", "weights")), None)
    rest = iter([name for name in free if name != weight])
    chosen = [given or next(rest, None) for given in (roles.row, roles.col, roles.value)]
    if None in chosen or len({*chosen, weight}) < 4:
        msg = (
            f"A long table needs three columns (row, column, value); {table.path} has "
            f"{', '.join(map(repr, table.names))}. Name them: --row-column, --col-column, "
            "--value-column."
        )
        raise DataError(msg)
    row, col, value = (str(name) for name in chosen)
    (rows, row_labels), (cols, col_labels) = (
        table.labels(table.position(row)),
        table.labels(table.position(col)),
    )
    values = table.numbers(table.position(value))
    weights = None if weight is None else table.numbers(table.position(weight))
    blank = np.isnan(values)
    words = (
        f"long table ({why}): rows from {row!r}, columns from {col!r}, values from {value!r}"
        f"{'' if weight is None else f', weights from {weight!r}'}"
    )
    if blank.any():
        words += f"; to be filled in: {count_of(int(blank.sum()), 'line')} without a value"
    lines = np.flatnonzero(~blank) + 2
    if weights is not None:
        weights = weights[~blank]
        _check_weights(table, str(weight), weights, lines)
    return EntryFile(
        table, "long", (row, col, value), row_labels, col_labels, words,
        rows[~blank], cols[~blank], values[~blank], weights, lines,
    )  # fmt: skip


def _check_weights(table: FileTable, name: str, weights: Floats, lines: Index) -> None:
    bad = np.flatnonzero(~(weights >= 0))  # a missing one too
    if bad.size:
        first = weights[bad[0]]
        what = "missing" if np.isnan(first) else f"{first:g}"
        msg = (
            f"{table.path}, column {name!r}, line {lines[bad[0]]}: the weight is {what}. A weight "
            "says how much an entry counts: 0 or larger. If the column is something else, rename "
            "it, or name the one with the weights (--weight-column)."
        )
        raise DataError(msg)


def _wide(table: FileTable, roles: Roles, why: str) -> EntryFile:
    index = table.names[0] if roles.index is None else roles.index
    if roles.index == "none":
        names, labels = list(table.names), [str(k) for k in range(len(table))]
        origin = "rows are numbered from 0"
    else:
        advice = (
            "every row of a wide table needs a label of its own. If this is a long table (row, "
            "column, value), say so: --layout long."
        )
        labels = table.names_of_lines(table.position(index), "row label", advice)
        names = [name for name in table.names if name != index]
        origin = f"rows are named by {index or 'the first column'!r}"
    if not names:
        msg = f"{table.path} has no column besides the row labels: there are no values."
        raise DataError(msg)
    array = np.empty((len(table), len(names)))
    for j, name in enumerate(names):
        array[:, j] = _wide_column(table, name)
    seen = np.flatnonzero(~np.isnan(array))
    rows, cols = np.divmod(seen, len(names))
    words = f"wide table ({why}): {origin}, blank cells are missing"
    title = "row" if index in ("", "none") else index
    return EntryFile(
        table, "wide", (title, "column", "value"), labels, names, words,
        rows, cols, array.ravel()[seen],
    )  # fmt: skip


def _wide_column(table: FileTable, name: str) -> Floats:
    try:
        return table.numbers(table.position(name))
    except DataError as error:
        if table.is_numeric(table.position(name)):
            raise
        msg = (
            f"{error} In a wide table every column but that of the labels holds values. If this "
            "is a long table (row, column, value), say so: --layout long."
        )
        raise DataError(msg) from None


def read_pairs(table: FileTable, roles: Roles | None = None) -> tuple[Any, Any]:
    """Return row and column labels of entries that are asked for, as (codes, labels) each.

    The columns are those named, otherwise the first two.
    """
    roles = roles or Roles()
    rest = iter([name for name in table.names if name not in (roles.row, roles.col)])
    chosen = [roles.row or next(rest, None), roles.col or next(rest, None)]
    if None in chosen:
        msg = (
            f"{table.path} needs two columns, the row and the column label of each entry asked "
            f"for; it has {', '.join(map(repr, table.names))}."
        )
        raise DataError(msg)
    row, col = (table.labels(table.position(str(name))) for name in chosen)
    return row, col

"""A table that was read from a file: its columns as labels or as numbers, whoever asks.

Text is kept cell by cell as it is written: "007" stays "007" as a label and is 7 as a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.data.arrays import listing
from kronfill.errors import DataError, LabelError

__all__ = ["MISSING", "FileTable", "label_text"]

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A")
"""How a cell of a text file says that there is nothing in it."""


@dataclass(frozen=True, eq=False)
class FileTable:
    """A table from a file, read column by column.

    Attributes
    ----------
    path : Path
        Where it came from.
    words : str
        The format in words, such as "CSV separated by ';'".
    names : list of str
        The column names.
    separator, decimal : str
        What stands between the cells and in decimal numbers of a text file.
    """

    path: Path
    words: str
    names: list[str]
    _columns: Any
    separator: str = ","
    decimal: str = "."

    def __len__(self) -> int:
        return int(self._columns.num_rows)

    def position(self, name: str) -> int:
        """Return where a column is; DataError if there is none of this name."""
        if name in self.names:
            return self.names.index(name)
        known = listing([repr(known) for known in self.names[:8]], len(self.names))
        msg = f"{self.path} has no column {name!r}; it has {known}."
        raise DataError(msg)

    def column(self, j: int) -> Any:
        """Return a column as a pyarrow array, categories as what they stand for."""
        import pyarrow as pa

        column = self._columns.column(j).combine_chunks()
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column

    def is_text(self, j: int) -> bool:
        """Whether the column holds text as far as the file says: always so in a CSV."""
        return _is_text(self.column(j).type)

    @cached_property
    def _odd(self) -> dict[int, tuple[int, Any] | None]:
        return {}

    def is_numeric(self, j: int) -> bool:
        """Whether all that the column holds are numbers (or nothing)."""
        return self.odd_cell(j) is None

    def odd_cell(self, j: int) -> tuple[int, Any] | None:
        """Line and content of the first cell that holds something else than a number."""
        if j not in self._odd:
            self._odd[j] = self._floats(j)[1]
        return self._odd[j]

    def texts(self, j: int) -> list[str]:
        """Return the distinct texts of a column, blank ones left out."""
        import pyarrow.compute as pc

        return [text for text in dict.fromkeys(_texts(self.column(j).unique(), pc)) if text]

    def numbers(self, j: int) -> Floats:
        """Return a column as floats, NaN where it has nothing; DataError names a bad cell."""
        values, bad = self._floats(j)
        if bad is not None:
            line, cell = bad
            msg = (
                f"{self.path}, column {self.names[j]!r}, line {line}: {cell!r} is not a number. "
                "Leave the cell blank if the value is missing."
            )
            raise DataError(msg)
        endless = np.flatnonzero(np.isinf(values))
        if endless.size:
            line = int(endless[0]) + 2
            cell = self.column(j)[line - 2].as_py()
            msg = (
                f"{self.path}, column {self.names[j]!r}, line {line}: {cell!r} is not a finite "
                "number. Leave the cell blank if the value is missing."
            )
            raise DataError(msg)
        return values

    def _floats(self, j: int) -> tuple[Floats, tuple[int, Any] | None]:
        """The numbers of a column, or the line and content of the first cell that is none."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.column(j)
        kind = column.type
        if _is_text(kind):
            trimmed = pc.utf8_trim_whitespace(column)
            trimmed = _without(trimmed, MISSING)
            if self.decimal == ",":
                trimmed = pc.replace_substring(trimmed, ",", ".")
            try:
                numbers = trimmed.cast(pa.float64())
            except pa.ArrowInvalid:
                return np.empty(0), self._first_text(trimmed.to_pylist())
            return _floats(numbers), None
        types = pa.types
        if types.is_boolean(kind):
            return _floats(column.cast(pa.uint8()).cast(pa.float64())), None
        number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        if number or types.is_null(kind):
            return _floats(column.cast(pa.float64(), safe=False)), None
        first = next((k for k, v in enumerate(column.to_pylist()) if v is not None), 0)
        return np.empty(0), (first + 2, column[first].as_py())

    @staticmethod
    def _first_text(cells: list[Any]) -> tuple[int, Any]:
        """Line and content of the first cell that is not a number."""
        for k, cell in enumerate(cells):
            try:
                if cell is None or ("_" not in cell and float(cell) is not None):
                    continue
            except ValueError:
                pass
            return k + 2, cell
        return 2, cells[0]

    def labels(self, j: int) -> tuple[Index, list[str]]:
        """Return a column as codes into its distinct labels, which are text; DataError if blank.

        Whole numbers are written without a decimal point, dates in ISO form, and blanks around
        text are taken off, so that the same item has the same label in files of different kinds.
        """
        import pyarrow.compute as pc

        column = self.column(j)
        encoded = column.dictionary_encode()
        codes = encoded.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
        texts = _texts(encoded.dictionary, pc)
        known: dict[str, int] = {}
        again = [known.setdefault(text, len(known)) if text else -1 for text in texts]
        codes = np.array([*again, -1], dtype=np.intp)[codes]
        if codes.size and codes.min() < 0:
            lines = np.flatnonzero(codes < 0)
            shown = listing([str(k + 2) for k in lines[:3].tolist()], len(lines))
            msg = (
                f"{self.path}, column {self.names[j]!r} has no label at line {shown}. Give every "
                "line a label, or delete these lines."
            )
            raise DataError(msg)
        return codes, list(known)

    def names_of_lines(self, j: int, what: str, advice: str) -> list[str]:
        """Return the labels of the lines; LabelError, with advice, if one stands there twice."""
        codes, labels = self.labels(j)
        if len(labels) == len(codes):
            return labels
        often = np.flatnonzero(np.bincount(codes) > 1)
        twice = listing([repr(labels[k]) for k in often[:3]], len(often))
        msg = f"{self.path} has the {what} {twice} more than once in column {self.names[j]!r}; "
        raise LabelError(msg + advice)


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _without(column: Any, markers: tuple[str, ...]) -> Any:
    """Null where a cell holds one of the markers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    marked = pc.is_in(column, value_set=pa.array(markers, column.type))
    return pc.if_else(marked, pa.scalar(None, column.type), column)


def _floats(column: Any) -> Floats:
    out: Floats = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    return out


def _texts(values: Any, pc: Any) -> list[str]:
    """Distinct values of a column as text."""
    if _is_text(values.type):
        return [text or "" for text in pc.utf8_trim_whitespace(values).to_pylist()]
    return [label_text(value) for value in values.to_pylist()]


def label_text(value: Any) -> str:
    """Return what a label is called in a file: the way back from any label to its text."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if hasattr(value, "isoformat"):
        text = str(value.isoformat())
        return text.removesuffix("T00:00:00").replace("T", " ")
    return str(value).strip()

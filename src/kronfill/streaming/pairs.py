"""Entries that a Parquet file asks for, read block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._types import Index
from kronfill.errors import DataError
from kronfill.streaming.columns import TableAxis, arrow

__all__ = ["ParquetPairs"]


@dataclass(frozen=True, eq=False)
class ParquetPairs:
    """A file with a row and a column label in each line; it is read anew each time.

    Parameters
    ----------
    path : path
        The file.
    axes : pair of TableAxis
        Rows and columns that it may name.
    row, col : str, optional
        Columns with their labels; the first two by default.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from kronfill.streaming.columns import TableAxis
    >>> from kronfill.streaming.pairs import ParquetPairs
    >>> path = tempfile.mkdtemp() + "/pairs.parquet"
    >>> pq.write_table(pa.table({"user": ["b", "a"], "item": [0, 3]}), path)
    >>> pairs = ParquetPairs(path, (TableAxis("row", 2, ("a", "b")), TableAxis("column", 4)))
    >>> len(pairs), list(pairs.blocks(1000))
    (2, [(array([1, 0]), array([0, 3]))])
    """

    path: Any
    axes: tuple[TableAxis, TableAxis]
    row: str | None = None
    col: str | None = None

    def __len__(self) -> int:
        return int(self._opened().metadata.num_rows)

    def check(self) -> None:
        """Raise if a label is unknown."""
        for _ in self.blocks():
            pass

    def blocks(self, size: int = 1 << 16) -> Iterator[tuple[Index, Index]]:
        """Positions of the entries, up to ``size`` at a time."""
        file = self._opened()
        names = [str(name) for name in file.schema_arrow.names]
        rest = iter([name for name in names if name not in (self.row, self.col)])
        wanted = [self.row or next(rest, None), self.col or next(rest, None)]
        if not set(wanted) <= set(names):
            there = ", ".join(map(repr, names))
            msg = f"{self.path} needs a row and a column label in each line; it has {there}."
            raise DataError(msg)
        line = 0
        for batch in file.iter_batches(size, columns=wanted, use_threads=False):
            row, col = (batch.column(name) for name in wanted)
            yield self._codes(self.axes[0], row, line), self._codes(self.axes[1], col, line)
            line += batch.num_rows
        if line == 0:
            yield np.empty(0, np.intp), np.empty(0, np.intp)

    def _opened(self) -> Any:
        pa, _ = arrow()
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(self.path)
        except (pa.ArrowException, OSError) as error:
            msg = f"Cannot read {self.path} as a Parquet file: {error}"
            raise DataError(msg) from None

    def _codes(self, axis: TableAxis, column: Any, line: int) -> Index:
        pa, _ = arrow()
        is_text = axis.labels is not None and isinstance(axis.labels[0], str)
        if is_text and pa.types.is_integer(column.type):  # a label as it is written, no position
            column = column.cast(pa.string())
        return axis.codes(column, str(self.path), line).astype(np.intp)

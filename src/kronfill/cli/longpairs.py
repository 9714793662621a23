"""The entries of a long table that are asked for and what is said about each, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kronfill._types import Index
from kronfill.cli.inputs import ask_pairs
from kronfill.cli.longfiles import is_parquet
from kronfill.completion.details import CHUNK, STATUS
from kronfill.data.reading.entry_files import Roles
from kronfill.errors import DataError
from kronfill.streaming.columns import TableAxis
from kronfill.streaming.storage.lookup import find_entries
from kronfill.streaming.storage.partitions import Partitions

__all__ = ["RequestedPairs", "described"]

Block = tuple[Index, Index]


@dataclass(frozen=True, eq=False)
class RequestedPairs:
    """Entries that are asked for: those of a file, or all of them, row by row.

    Attributes
    ----------
    path : Path or None
        The file; None for all entries.
    axes : pair of TableAxis
        Rows and columns of the table.
    roles : Roles
        Columns of the file.
    """

    path: Path | None
    axes: tuple[TableAxis, TableAxis]
    roles: Roles

    @property
    def stays_on_disk(self) -> bool:
        """Whether the file is read block by block, each time anew."""
        return self.path is not None and is_parquet(self.path)

    def count(self) -> int:
        """Number of entries; of a Parquet file from what it says about itself."""
        if self.path is None:
            return self.axes[0].size * self.axes[1].size
        if self.stays_on_disk:
            return int(self._opened().metadata.num_rows)
        return len(self._read()[0])

    def blocks(self) -> Iterator[Block]:
        """Positions of the entries, CHUNK at a time."""
        if self.path is None:
            width, count = self.axes[1].size, self.count()
            for first in range(0, count, CHUNK):
                yield np.divmod(np.arange(first, min(first + CHUNK, count)), width)
        elif self.stays_on_disk:
            yield from self._parquet()
        else:
            rows, cols = self._read()
            for first in range(0, max(1, len(rows)), CHUNK):
                yield rows[first : first + CHUNK], cols[first : first + CHUNK]

    def check(self) -> None:
        """Raise if a label is unknown: before the fit, not after it."""
        for _ in self.blocks() if self.path is not None else ():
            pass

    def _read(self) -> Block:
        assert self.path is not None
        labels = [range(axis.size) if axis.labels is None else axis.labels for axis in self.axes]
        return ask_pairs(self.path, self.roles, (labels[0], labels[1]))

    def _opened(self) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(self.path)
        except (pa.ArrowException, OSError) as error:
            msg = f"Cannot read {self.path} as a Parquet file: {error}"
            raise DataError(msg) from None

    def _parquet(self) -> Iterator[Block]:
        file = self._opened()
        names = [str(name) for name in file.schema_arrow.names]
        rest = iter([name for name in names if name not in (self.roles.row, self.roles.col)])
        wanted = [self.roles.row or next(rest, None), self.roles.col or next(rest, None)]
        if not set(wanted) <= set(names):
            told = ", ".join(map(repr, names))
            msg = f"{self.path} needs a row and a column label in each line; it has {told}."
            raise DataError(msg)
        line, begun = 0, False
        for batch in file.iter_batches(CHUNK, columns=wanted, use_threads=False):
            row, col = (batch.column(name) for name in wanted)
            yield self._codes(0, row, line), self._codes(1, col, line)
            line, begun = line + batch.num_rows, True
        if not begun:
            yield np.empty(0, np.intp), np.empty(0, np.intp)

    def _codes(self, which: int, column: Any, line: int) -> Index:
        import pyarrow as pa

        axis = self.axes[which]
        text = axis.labels is not None and isinstance(axis.labels[0], str)
        if text and pa.types.is_integer(column.type):  # a label as it is written, not a position
            column = column.cast(pa.string())
        return axis.codes(column, str(self.path), line).astype(np.intp)


def described(
    model: Any, asked: RequestedPairs, parts: Partitions | None, names: tuple[str, str, str]
) -> Iterator[Any]:
    """Value and status of each entry as data frames; no status without partitions to look into."""
    import pandas as pd

    from kronfill.cli.outputs import named_as

    index = [
        pd.RangeIndex(axis.size) if axis.labels is None
        else pd.Index(list(axis.labels), tupleize_cols=False)
        for axis in asked.axes
    ]  # fmt: skip
    kinds = pd.Index(STATUS)
    for rows, cols in asked.blocks():
        value = model.predict(np.column_stack([rows, cols])) if len(rows) else np.empty(0)
        frame = {"row": index[0].take(rows), "column": index[1].take(cols), "value": value}
        if parts is not None:
            seen, observed = find_entries(parts, rows, cols)
            value[seen] = observed[seen]
            cold = (parts.counts[0][rows] == 0) | (parts.counts[1][cols] == 0)
            status = np.where(seen, 0, np.where(cold, 2, 1)).astype(np.int8)
            frame["status"] = pd.Categorical.from_codes(status, categories=kinds)
        yield named_as(pd.DataFrame(frame), names)

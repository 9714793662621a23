"""Tables of observed entries that are too long for memory, read a piece at a time and checked.

A table has one line per entry: a row, a column, a value, perhaps a weight. It is made of *pieces*,
the row groups of Parquet files or the partitions of a Dask DataFrame, each of which can be read by
itself.
"""

from __future__ import annotations

import glob
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from kronfill.errors import (
    DataError,
    EmptyDataError,
    KronfillError,
    StorageError,
)
from kronfill.streaming.columns import Batch, Columns, TableAxis, arrow

__all__ = [
    "FrameTable", "LongTable", "ParquetTable", "arrow_table", "is_frame", "is_long_table",
    "long_table",
]  # fmt: skip

EXACT_IN_SINGLE = ("float", "halffloat", "int8", "int16", "uint8", "uint16", "bool")
"""Types of Arrow whose values single precision holds without loss."""


class LongTable(ABC):
    """A table that is read piece by piece, always in the same order."""

    columns: Columns
    single: bool
    """Whether single precision holds all values without loss."""

    @property
    @abstractmethod
    def pieces(self) -> int:
        """Number of pieces."""

    @property
    def lines(self) -> int | None:
        """Number of lines, None where it is not known before they are read."""
        return None

    @abstractmethod
    def named(self, piece: int) -> str:
        """What a piece is called in messages."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A digest that changes when the data does."""

    @abstractmethod
    def read(self, piece: int, size: int) -> Iterator[Any]:
        """The lines of a piece, as Arrow tables of up to ``size`` lines."""

    def batches(
        self, axes: tuple[TableAxis, TableAxis], size: int, begin: tuple[int, int] = (0, 0)
    ) -> Iterator[tuple[Batch, tuple[int, int]]]:
        """Checked observations from a position on, each with the position after it."""
        for piece in range(begin[0], self.pieces):
            skip, line, where = begin[1] if piece == begin[0] else 0, 0, self.named(piece)
            for table in self.read(piece, size):
                line, first = line + table.num_rows, line
                if line <= skip:
                    continue
                table, first = table.slice(max(0, skip - first)), max(skip, first)
                yield self.columns.decode(table, axes, where, first), (piece, line)


class ParquetTable(LongTable):
    """Parquet files; a piece is a row group.

    Parameters
    ----------
    source : str, path, list of str or pyarrow.dataset.Dataset
        A file, a folder, a pattern such as ``"big/*.parquet"``, a list of files, or a data set.
    value, weight, row, col : str, optional
        Names of these columns.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from kronfill.streaming.columns import TableAxis
    >>> from kronfill.streaming.long_table import ParquetTable
    >>> path = tempfile.mkdtemp() + "/a.parquet"
    >>> pq.write_table(pa.table({"i": [0, 1], "j": [2, 0], "y": [0.5, 1.5]}), path)
    >>> table = ParquetTable(path)
    >>> batch, position = next(table.batches((TableAxis("row", 2), TableAxis("column", 3)), 1000))
    >>> batch.cols, batch.values, position
    (array([2, 0], dtype=int32), array([0.5, 1.5]), (0, 2))
    """

    def __init__(
        self,
        source: Any,
        value: Any = None,
        weight: Any = None,
        row: Any = None,
        col: Any = None,
    ) -> None:
        self._files = _fragments(source)
        names = [str(name) for name in self._files[0].physical_schema.names]
        self.columns = Columns.of(names, value, weight, row, col)
        self._same_columns()
        at = [file.physical_schema.field(self.columns.value).type for file in self._files]
        self.single = all(str(kind) in EXACT_IN_SINGLE for kind in at)
        self._groups = [
            (at, group.id)
            for at, file in enumerate(self._files)
            for group in _readable(lambda file=file: file.row_groups, file.path)
        ]

    def _same_columns(self) -> None:
        """Refuse files whose columns are of another kind, before anything is read."""
        expected = None
        for file in self._files:
            schema = _readable(lambda file=file: file.physical_schema, file.path)
            kinds = {}
            for name in self.columns.names:
                at = schema.get_field_index(name)
                kinds[name] = None if at < 0 else _kind(schema.field(at).type)
            expected = expected or kinds
            if kinds != expected:
                msg = (
                    f"{file.path}: the columns are {_named(kinds)}, those of {self._files[0].path} "
                    f"{_named(expected)}. All files need the same columns."
                )
                raise DataError(msg)

    @property
    def pieces(self) -> int:
        """See :class:`LongTable`."""
        return len(self._groups)

    @property
    def lines(self) -> int:
        """Number of lines, from what the files say about themselves at their end."""
        counts = (_readable(lambda file=file: file.count_rows(), file.path) for file in self._files)
        return int(sum(counts))

    def kind(self, name: str) -> str:
        """Return "integer", "number", or the name of another type that a column has."""
        return _kind(self._files[0].physical_schema.field(name).type)

    def named(self, piece: int) -> str:
        """See :class:`LongTable`."""
        at, group = self._groups[piece]
        return f"{self._files[at].path}, row group {group}"

    def fingerprint(self) -> str:
        """See :class:`LongTable`: names, sizes and times of the files, and the columns."""
        parts = [repr(self.columns)]
        for file in self._files:
            info = file.filesystem.get_file_info(file.path)
            parts.append(f"{file.path} {info.size} {info.mtime_ns}")
        return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()

    def read(self, piece: int, size: int) -> Iterator[Any]:
        """See :class:`LongTable`."""
        import pyarrow.parquet as pq

        at, group = self._groups[piece]
        file, where = self._files[at], self.named(piece)
        opened = _readable(lambda: pq.ParquetFile(file.open(), pre_buffer=False), where)
        with opened:
            missing = set(self.columns.names) - set(opened.schema_arrow.names)
            names = [n for n in self.columns.names if n not in missing]  # refused by ``decode``
            batches = opened.iter_batches(size, [group], names, use_threads=False)
            while (batch := _readable(lambda: next(batches, None), where)) is not None:
                yield batch


class FrameTable(LongTable):
    """A Dask DataFrame; a piece is a partition, computed when it is read."""

    def __init__(self, frame: Any, value: Any = None, weight: Any = None) -> None:
        self.columns = Columns.of(list(frame.columns), value, weight)
        self.frame = frame[self.columns.names]
        self.single = str(frame.dtypes[self.columns.value]).lower() in ("float32", "int16", "int8")

    @property
    def pieces(self) -> int:
        """See :class:`LongTable`."""
        return int(self.frame.npartitions)

    def named(self, piece: int) -> str:
        """See :class:`LongTable`."""
        return f"partition {piece} of the Dask DataFrame"

    def fingerprint(self) -> str:
        """See :class:`LongTable`: Dask's own token of how the frame is made."""
        from dask.base import tokenize

        return str(tokenize(self.frame))

    def read(self, piece: int, size: int) -> Iterator[Any]:
        """See :class:`LongTable`."""
        table = arrow_table(self.frame.get_partition(piece).compute())
        for first in range(0, table.num_rows, size):
            yield table.slice(first, size)


def arrow_table(frame: Any) -> Any:
    """A pandas frame as an Arrow table, NaN staying NaN."""
    pa, _ = arrow()
    return pa.Table.from_pandas(frame, preserve_index=False)


def _kind(arrow_type: Any) -> str:
    pa, _ = arrow()
    if pa.types.is_dictionary(arrow_type):
        return _kind(arrow_type.value_type)
    if pa.types.is_integer(arrow_type):
        return "integer"
    return "number" if pa.types.is_floating(arrow_type) else str(arrow_type)


def _named(kinds: dict[str, str | None]) -> str:
    return ", ".join(f"{name}: {kind or 'missing'}" for name, kind in kinds.items())


def _readable(read: Any, where: str) -> Any:
    """What ``read`` gives; if it fails, an error that says where."""
    pa, _ = arrow()
    try:
        return read()
    except KronfillError:
        raise
    except (OSError, pa.ArrowException) as error:
        msg = f"{where} cannot be read: {error}"
        raise StorageError(msg) from error


def _fragments(source: Any) -> list[Any]:
    """The Parquet files of a path, a pattern or a data set, in the order of their names."""
    arrow()
    import pyarrow.dataset as ds

    if not isinstance(source, ds.Dataset):
        path = ", ".join(source[:3]) if isinstance(source, list) else os.fspath(source)
        if isinstance(source, list):
            found = source
        else:
            found = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
        if not found or not all(os.path.exists(one) for one in found):
            msg = f"{path}: there is no such file, folder or pattern."
            raise StorageError(msg)
        one = found[0] if len(found) == 1 else found
        source = _readable(lambda: ds.dataset(one, format="parquet"), path)
    files = list(source.get_fragments())
    for file in files:
        if not isinstance(file, ds.ParquetFileFragment):
            msg = f"A data set must consist of Parquet files, got {file}."
            raise DataError(msg)
    if not files:
        msg = f"{source} has no files."
        raise EmptyDataError(msg)
    return sorted(files, key=lambda file: str(file.path))


def is_frame(X: Any) -> bool:
    """Whether X is a Dask DataFrame; Dask is not imported to find out."""
    return type(X).__module__.startswith("dask.") and hasattr(X, "map_partitions")


def is_long_table(X: Any) -> bool:
    """Whether X is a table to be read piece by piece: a path, a data set or a Dask DataFrame."""
    if isinstance(X, str | os.PathLike | LongTable):
        return True
    return type(X).__module__.startswith("pyarrow._dataset") or is_frame(X)


def long_table(X: Any, value: Any = None, weight: Any = None) -> LongTable:
    """The table that X stands for."""
    if isinstance(X, LongTable):
        return X
    return (FrameTable if is_frame(X) else ParquetTable)(X, value, weight)

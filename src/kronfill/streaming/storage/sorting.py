"""Partitions from a long table: an external merge sort, done once.

Batches that fit in memory are sorted by outer item and written as *runs*; the runs are merged into
*partitions*. What comes out depends on the observations and the size of a partition alone, not on
the order or the batches in which they were read.

A run counts when the journal names it, a set of partitions when the manifest is there; both are
replaced as a whole, so that work that was interrupted goes on where it was.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats
from kronfill.core.grouping import Grouped
from kronfill.errors import (
    EmptyDataError,
    MemoryLimitError,
    StorageError,
    argument,
)
from kronfill.streaming.columns import Batch, TableAxis, repeated_entry
from kronfill.streaming.long_table import LongTable
from kronfill.streaming.storage.files import mapped, read_json, write_whole
from kronfill.streaming.storage.partitions import Partition, Partitions

__all__ = ["BYTES", "ROOM", "cuts", "first_repeat", "prepare"]

READ = 1 << 16
"""Lines that are read at a time."""
BYTES = (52, 76)
"""Memory per observation of a batch while it is sorted, without and with weights."""
ROOM = 0.8
"""Work that was begun with batches of up to 1 / ROOM of what is allowed now goes on with them."""
PASS = 0.6
"""Share of the memory for sorting a batch that a pass over it takes."""
Notice = Callable[[str, int, int], None]


def prepare(
    table: LongTable,
    axes: tuple[TableAxis, TableAxis],
    by: int,
    folder: Path,
    batch: int,
    notice: Notice = lambda what, done, total: None,
) -> Partitions:
    """Sort a table into partitions, or find them ready from an earlier call.

    Parameters
    ----------
    table : LongTable
        The observations.
    axes : pair of TableAxis
        Rows and columns.
    by : {0, 1}
        TableAxis whose items are the outer ones.
    folder : Path
        Where the partitions go.
    batch : int
        Observations in memory at a time. Work that was begun with fewer, or with a little more,
        goes on with these.
    notice : callable, optional
        Called with (what is done, how many are done, how many there are).

    Returns
    -------
    Partitions
    """
    folder.mkdir(exist_ok=True)
    runs = _Runs.begin(table, axes, by, folder)
    ready = Partitions.open(folder)
    if ready is not None:
        if PASS * ready.batch > batch / ROOM:
            msg = (
                f"{folder} was begun with batches of {ready.batch} observations, memory allows "
                f"{batch}. Allow more memory, or use another {argument('work_dir')}."
            )
            raise MemoryLimitError(msg)
        ready.check()
        return ready
    runs.keep_to(batch)
    runs.write(notice)
    made = _merge(runs, notice)
    made.save()
    shutil.rmtree(folder / "runs")
    return made


class _Runs:
    """Sorted batches on disk, and the journal that says how far the table has been read."""

    def __init__(
        self, table: LongTable, axes: tuple[TableAxis, TableAxis], by: int, folder: Path
    ) -> None:
        self.table, self.axes, self.by = table, axes, by
        self.folder = folder
        self.path = folder / "runs"
        self.journal: dict[str, Any] = {}

    @classmethod
    def begin(
        cls, table: LongTable, axes: tuple[TableAxis, TableAxis], by: int, folder: Path
    ) -> _Runs:
        """Start, or go on from what the journal says."""
        runs = cls(table, axes, by, folder)
        depends_on = [table.fingerprint(), by, *((axis.size, axis.labels) for axis in axes)]
        checksum = zlib.crc32(repr(depends_on).encode())
        found = read_json(folder / "journal.json")
        if found is not None and found["table"] != checksum:
            msg = (
                f"{folder} holds the partitions of other data: a file, the columns or the items "
                f"have changed since. Use another {argument('work_dir')}, or delete this one."
            )
            raise StorageError(msg)
        runs.journal = found or {"table": checksum, "counts": [], "next": [0, 0]}
        return runs

    def keep_to(self, batch: int) -> None:
        """Go on with the batches that it was begun with, or smaller ones if memory asks for it."""
        before = self.journal.get("batch", batch)
        self.journal["batch"] = before if before * ROOM <= batch else batch

    @property
    def batch(self) -> int:
        return int(self.journal["batch"])

    @property
    def weighted(self) -> bool:
        return self.table.columns.weight is not None

    def write(self, notice: Notice) -> None:
        """Write the runs that are not there yet."""
        self.path.mkdir(exist_ok=True)
        if not (self.folder / "journal.json").exists():
            self._note()
        waiting: list[Batch] = []
        size, pieces, reached = 0, self.table.pieces, self._next
        for found, after in self.table.batches(self.axes, min(READ, self.batch), reached):
            if size + len(found.rows) > self.batch:
                self._add(waiting, size, reached)
                waiting, size = [], 0
            waiting.append(found)
            size, reached = size + len(found.rows), after
            notice("row groups read", after[0], pieces)
        if size:
            self._add(waiting, size, reached)
        notice("row groups read", pieces, pieces)

    @property
    def _next(self) -> tuple[int, int]:
        """Piece and line at which to go on."""
        piece, line = self.journal["next"]
        return piece, line

    def _add(self, waiting: list[Batch], size: int, position: tuple[int, int]) -> None:
        number = len(self.journal["counts"])
        outer = np.concatenate([one[self.by] for one in waiting])
        inner = np.concatenate([one[1 - self.by] for one in waiting])
        values = np.concatenate([one.values for one in waiting])
        weights = np.concatenate([one.weights for one in waiting]) if self.weighted else None
        waiting.clear()
        grouped = Grouped.by(outer, inner, self.axes[self.by].size, weights)
        del outer, inner
        write_whole(self._file(number, "indptr"), grouped.indptr)
        write_whole(self._file(number, "inner"), grouped.inner)
        write_whole(self._file(number, "values"), grouped.gather(values))
        if self.weighted:
            write_whole(self._file(number, "weights"), grouped.weights)
        self.journal["counts"].append(size)
        self.journal["next"] = list(position)
        self._note()

    def _note(self) -> None:
        write_whole(self.folder / "journal.json", json.dumps(self.journal).encode())

    def _file(self, number: int, what: str) -> Path:
        return self.path / f"{number:05d}.{what}"

    def indptr(self, number: int) -> NDArray[np.int64]:
        """Where the observations of each outer item begin in a run."""
        return mapped(self._file(number, "indptr"), np.int64, 0, self.axes[self.by].size + 1)

    def items(self, first: int, last: int) -> tuple[Any, Any, Floats, Floats | None]:
        """Outer and inner items, values and weights of a range of outer items, from all runs."""
        parts = []
        for number in range(len(self.journal["counts"])):
            indptr = self.indptr(number)[first : last + 1]
            start, stop = int(indptr[0]), int(indptr[-1])
            outer = np.repeat(np.arange(last - first, dtype=np.int32), np.diff(indptr))
            inner = mapped(self._file(number, "inner"), np.int32, start, stop)
            values = mapped(self._file(number, "values"), np.float64, start, stop)
            weights = np.empty(0)
            if self.weighted:
                weights = mapped(self._file(number, "weights"), np.float64, start, stop)
            parts.append((outer, inner, values, weights))
        outer, inner, values, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
        return outer, inner, values, weights if self.weighted else None


@numba.njit(cache=True)
def _first_repeat(indptr, inner):  # type: ignore[no-untyped-def]
    for i in range(len(indptr) - 1):
        for k in range(indptr[i] + 1, indptr[i + 1]):
            if inner[k] == inner[k - 1]:
                return i, k
    return -1, -1


def first_repeat(grouped: Grouped) -> tuple[int, int] | None:
    """Outer and inner item of an entry that occurs twice."""
    i, k = _first_repeat(grouped.indptr, grouped.inner)
    return None if i < 0 else (i, int(grouped.inner[k]))


def _merge(runs: _Runs, notice: Notice) -> Partitions:
    sizes = [axis.size for axis in runs.axes]
    by, folder = runs.by, runs.folder
    counted = np.zeros(sizes[by] + 1, np.int64)
    for number in range(len(runs.journal["counts"])):
        counted += runs.indptr(number)
    if counted[-1] == 0:
        msg = "The table has no line with an observation."
        raise EmptyDataError(msg)
    bounds = cuts(counted, runs.batch)
    counts = (np.zeros(sizes[0]), np.zeros(sizes[1]))
    square = total = 0.0
    checksums: dict[str, int] = {}
    for number, (first, last) in enumerate(pairwise(bounds)):
        notice("partitions written", number, len(bounds) - 1)
        outer, inner, values, weights = runs.items(first, last)
        grouped = Grouped.by(outer, inner, last - first, weights)
        repeat = first_repeat(grouped)
        if repeat is not None:
            _refuse(runs, repeat[0] + first, repeat[1])
        counts[by][first:last] += np.bincount(outer, weights, last - first)
        counts[1 - by][:] += np.bincount(inner, weights, sizes[1 - by])
        weighted = values if weights is None else weights * values
        square, total = square + float(weighted @ values), total + float(weighted.sum())
        part = Partition(
            folder, number, slice(first, last), grouped.indptr, runs.table.single, runs.weighted
        )
        stored = grouped.gather(values).astype(np.float32 if part.single else np.float64)
        arrays = [grouped.inner, stored, grouped.weights]
        for path, array in zip(part.files, arrays, strict=False):
            checksums[path.name] = write_whole(path, array)
    notice("partitions written", len(bounds) - 1, len(bounds) - 1)
    shape = (sizes[0], sizes[1])
    return Partitions(
        folder, int(counted[-1]), shape, by, runs.table.single, runs.weighted, square, total,
        counts, counted, tuple(bounds), checksums, runs.batch,
    )  # fmt: skip


def cuts(indptr: NDArray[np.int64], most: int) -> list[int]:
    """Cut items into ranges of up to ``most`` observations each; a single item may have more."""
    bounds, items = [0], len(indptr) - 1
    while bounds[-1] < items:
        end = int(np.searchsorted(indptr, indptr[bounds[-1]] + most, side="right")) - 1
        end = min(max(end, bounds[-1] + 1), items)
        if indptr[end] == indptr[-1]:  # items without observations join the last range
            end = items
        bounds.append(end)
    return bounds


def _refuse(runs: _Runs, outer: int, inner: int) -> None:
    """Find the lines of an entry that occurs twice, and say so."""
    row, col = (outer, inner) if runs.by == 0 else (inner, outer)
    found: list[str] = []
    for piece in range(runs.table.pieces):
        begin = 0
        where = runs.table.named(piece)
        for table in runs.table.read(piece, READ):
            batch = runs.table.columns.decode(table, runs.axes, where, begin)
            for k in np.flatnonzero((batch.rows == row) & (batch.cols == col)):
                found.append(f"{where}, line {begin + k}")
            begin += table.num_rows
        if len(found) > 1:
            break
    raise repeated_entry(runs.axes, (row, col), found)

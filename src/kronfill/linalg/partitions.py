"""Observations sorted and compact on disk: an external merge sort, done once.

Batches that fit in memory are sorted by outer item and written as *runs*; the runs are merged into
*partitions*, each with the observations of a range of outer items, sorted by inner item within each
outer one. No outer index is stored: one table of pointers does for all partitions. What comes out
depends on the observations alone, not on the order or the batches in which they were read.

A run counts when the journal names it, a set of partitions when the manifest is there; both are
replaced as a whole, so that work that was interrupted goes on where it was.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from kronfill.data.lines import Axis, Batch, LongTable
from kronfill.errors import DuplicateEntryError, EmptyDataError, MemoryLimitError, StorageError
from kronfill.linalg.grouping import Grouped

__all__ = [
    "BYTES", "ROOM", "Partition", "Partitions", "alone_in", "cuts", "first_repeat", "prepare",
    "write_whole",
]  # fmt: skip

Floats = NDArray[np.float64]
READ = 1 << 16
"""Lines that are read at a time."""
BYTES = (52, 76)
"""Memory per observation of a batch while it is sorted, without and with weights."""
ROOM = 0.8
"""Share of the memory for a batch that is used: a process that resumes may hold a little more."""
PASS = 0.6
"""Share of the memory for sorting a batch that a pass over it takes."""
CHECKED = 1 << 22
"""Bytes of a file that are checked at a time."""
Notice = Callable[[str, int, int], None]


def write_whole(path: Path, *arrays: NDArray[Any] | bytes) -> int:
    """Write a file that is there as a whole or not at all; its checksum."""
    partial, checksum = path.with_name(path.name + ".partial"), 0
    try:
        with open(partial, "wb") as file:
            for array in arrays:
                data = memoryview(array).cast("B")  # type: ignore[arg-type]
                file.write(data)
                checksum = zlib.crc32(data, checksum)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        advice = "the disk is full; free some space, then run the same again" if full else error
        msg = f"{path} cannot be written: {advice}. What was finished before is kept."
        raise StorageError(msg) from error
    return checksum


@contextmanager
def alone_in(folder: Path) -> Iterator[Path]:
    """Make a folder, and refuse to share it with another process that works there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / "lock", "w")  # noqa: SIM115
    except OSError as error:
        msg = f"{folder} cannot be written to: {error}; choose another work_dir."
        raise StorageError(msg) from error
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # a system without such locks
            pass
        except BlockingIOError:
            msg = f"Another process is working in {folder}; wait for it, or use another work_dir."
            raise StorageError(msg) from None
        yield folder


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    try:
        told: dict[str, Any] = json.loads(text)
    except ValueError as error:
        msg = f"{path} is damaged ({error}); use another work_dir."
        raise StorageError(msg) from None
    return told


def _mapped(path: Path, dtype: Any, start: int, stop: int) -> NDArray[Any]:
    """Elements start, ..., stop - 1 of an array on disk; what is not touched is not read."""
    if start == stop:
        return np.empty(0, dtype)
    size = np.dtype(dtype).itemsize
    try:
        # Copy on write: nothing is written, and compiled loops know such arrays already.
        mapped = np.memmap(path, dtype, "c", start * size, (stop - start,))
    except (OSError, ValueError) as error:
        msg = f"{path} cannot be read: {error}. Delete its folder to make the partitions anew."
        raise StorageError(msg) from error
    return mapped.view(np.ndarray)


@dataclass(frozen=True)
class Partition:
    """Observations of the outer items first, ..., last - 1, which are start, ..., stop - 1."""

    folder: Path
    number: int
    items: slice
    indptr: NDArray[np.int64]
    single: bool
    weighted: bool

    @property
    def m(self) -> int:
        """Number of observations."""
        return int(self.indptr[-1])

    def path(self, what: str) -> Path:
        """The file with these numbers."""
        return self.folder / f"{self.number:05d}.{what}"

    @property
    def files(self) -> list[Path]:
        """All files of the partition."""
        names = ["inner", "values", *["weights"] * self.weighted]
        return [self.path(name) for name in names]

    @property
    def grouped(self) -> Grouped:
        """The observations, mapped from disk; positions in the caller's order are not known."""
        inner = _mapped(self.path("inner"), np.int32, 0, self.m)
        weights = np.empty(0)
        if self.weighted:
            weights = _mapped(self.path("weights"), np.float64, 0, self.m)
        return Grouped(np.empty(0, np.int32), self.indptr, inner, weights)

    @property
    def stored(self) -> NDArray[Any]:
        """Their values as they are on disk, mapped."""
        dtype = np.float32 if self.single else np.float64
        return _mapped(self.path("values"), dtype, 0, self.m)

    @property
    def values(self) -> Floats:
        """Their values."""
        return self.stored.astype(np.float64, copy=False)

    def ahead(self) -> None:
        """Ask the system to read what the next pass needs, without waiting for it."""
        if not hasattr(os, "posix_fadvise"):
            return
        for path in self.files:
            if path.suffix != ".values" and path.exists():
                with open(path, "rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)


@dataclass(frozen=True, eq=False)
class Partitions:
    """All observations of a table on disk, grouped by the items of one axis."""

    folder: Path
    m: int
    shape: tuple[int, int]
    by: int
    """The axis that the observations are grouped by."""
    single: bool
    weighted: bool
    square: float
    """sum of w y^2."""
    total: float
    """sum of w y."""
    counts: tuple[Floats, Floats]
    """Total weight of each row and of each column."""
    indptr: NDArray[np.int64]
    bounds: tuple[int, ...]
    """Outer item at which each partition begins, and the end."""
    checksums: dict[str, int]
    batch: int
    """Most observations of a partition, unless one item has more."""

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, number: int) -> Partition:
        first, last = self.bounds[number], self.bounds[number + 1]
        indptr = self.indptr[first : last + 1] - self.indptr[first]
        return Partition(
            self.folder, number, slice(first, last), indptr, self.single, self.weighted
        )

    def __iter__(self) -> Iterator[Partition]:
        return (self[number] for number in range(len(self)))

    def check(self) -> None:
        """Read every file once, by ordinary reads, and compare its checksum."""
        for path in (path for part in self for path in part.files):
            checksum = 0
            try:
                with open(path, "rb") as file:
                    while data := file.read(CHECKED):
                        checksum = zlib.crc32(data, checksum)
            except OSError as error:
                msg = f"{path} cannot be read: {error}. Delete its folder to make it anew."
                raise StorageError(msg) from error
            if checksum != self.checksums[path.name]:
                msg = f"{path} is damaged (wrong checksum). Delete its folder to make it anew."
                raise StorageError(msg)

    @classmethod
    def open(cls, folder: Path) -> Partitions | None:
        """What is there, None if it is not finished."""
        told = _read_json(folder / "manifest.json")
        if told is None:
            return None
        n, l = told["shape"]
        outer = (n, l)[told["by"]]
        rows = _mapped(folder / "counts", np.float64, 0, n)
        cols = _mapped(folder / "counts", np.float64, n, n + l)
        indptr = _mapped(folder / "indptr", np.int64, 0, outer + 1)
        return cls(
            folder, told["m"], (n, l), told["by"], told["single"], told["weighted"],
            told["square"], told["total"], (np.array(rows), np.array(cols)), np.array(indptr),
            tuple(told["bounds"]), told["checksums"], told["batch"],
        )  # fmt: skip

    def save(self) -> None:
        """Write what :meth:`open` reads."""
        write_whole(self.folder / "counts", *self.counts)
        write_whole(self.folder / "indptr", self.indptr)
        names = ("m", "shape", "by", "single", "weighted", "square", "total", "bounds",
                 "checksums", "batch")  # fmt: skip
        told = {name: getattr(self, name) for name in names}
        write_whole(self.folder / "manifest.json", json.dumps(told).encode())


def prepare(
    table: LongTable,
    axes: tuple[Axis, Axis],
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
    axes : pair of Axis
        Rows and columns.
    by : {0, 1}
        Axis whose items are the outer ones.
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
                f"{batch}. Allow more memory, or use another work_dir."
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

    def __init__(self, table: LongTable, axes: tuple[Axis, Axis], by: int, folder: Path) -> None:
        self.table, self.axes, self.by = table, axes, by
        self.folder = folder
        self.path = folder / "runs"
        self.journal: dict[str, Any] = {}

    @classmethod
    def begin(cls, table: LongTable, axes: tuple[Axis, Axis], by: int, folder: Path) -> _Runs:
        """Start, or go on from what the journal says."""
        runs = cls(table, axes, by, folder)
        told = [table.fingerprint(), by, *((axis.size, axis.labels) for axis in axes)]
        checksum = zlib.crc32(repr(told).encode())
        found = _read_json(folder / "journal.json")
        if found is not None and found["table"] != checksum:
            msg = (
                f"{folder} holds the partitions of other data: a file, the columns or the items "
                "have changed since. Use another work_dir, or delete this one."
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
        return _mapped(self._file(number, "indptr"), np.int64, 0, self.axes[self.by].size + 1)

    def items(self, first: int, last: int) -> tuple[Any, Any, Floats, Floats | None]:
        """Outer and inner items, values and weights of a range of outer items, from all runs."""
        parts = []
        for number in range(len(self.journal["counts"])):
            indptr = self.indptr(number)[first : last + 1]
            start, stop = int(indptr[0]), int(indptr[-1])
            outer = np.repeat(np.arange(last - first, dtype=np.int32), np.diff(indptr))
            inner = _mapped(self._file(number, "inner"), np.int32, start, stop)
            values = _mapped(self._file(number, "values"), np.float64, start, stop)
            weights = np.empty(0)
            if self.weighted:
                weights = _mapped(self._file(number, "weights"), np.float64, start, stop)
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
    names = [
        f"{axis.name} {item if axis.labels is None else repr(axis.labels[item])}"
        for axis, item in zip(runs.axes, (row, col), strict=True)
    ]
    msg = (
        f"The entry at {', '.join(names)} occurs more than once: {'; '.join(found)}. Each entry "
        "may be observed once; merge repeats first."
    )
    raise DuplicateEntryError(msg)

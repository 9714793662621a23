"""Observations sorted and compact on disk.

Each partition has the observations of a range of outer items, sorted by inner item within each
outer one. No outer index is stored: one table of pointers does for all partitions.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats
from kronfill.core.grouping import Grouped
from kronfill.errors import StorageError
from kronfill.streaming.storage.files import mapped, read_json, write_whole

__all__ = ["Partition", "Partitions"]

CHECKED = 1 << 22
"""Bytes of a file that are checked at a time."""


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
        inner = mapped(self.path("inner"), np.int32, 0, self.m)
        weights = np.empty(0)
        if self.weighted:
            weights = mapped(self.path("weights"), np.float64, 0, self.m)
        return Grouped(np.empty(0, np.int32), self.indptr, inner, weights)

    @property
    def stored(self) -> NDArray[Any]:
        """Their values as they are on disk, mapped."""
        dtype = np.float32 if self.single else np.float64
        return mapped(self.path("values"), dtype, 0, self.m)

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
        manifest = read_json(folder / "manifest.json")
        if manifest is None:
            return None
        n, l = manifest["shape"]
        outer = (n, l)[manifest["by"]]
        rows = mapped(folder / "counts", np.float64, 0, n)
        cols = mapped(folder / "counts", np.float64, n, n + l)
        indptr = mapped(folder / "indptr", np.int64, 0, outer + 1)
        return cls(
            folder, manifest["m"], (n, l), manifest["by"], manifest["single"], manifest["weighted"],
            manifest["square"], manifest["total"], (np.array(rows), np.array(cols)),
            np.array(indptr), tuple(manifest["bounds"]), manifest["checksums"], manifest["batch"],
        )  # fmt: skip

    def save(self) -> None:
        """Write what :meth:`open` reads."""
        write_whole(self.folder / "counts", *self.counts)
        write_whole(self.folder / "indptr", self.indptr)
        names = ("m", "shape", "by", "single", "weighted", "square", "total", "bounds",
                 "checksums", "batch")  # fmt: skip
        manifest = {name: getattr(self, name) for name in names}
        write_whole(self.folder / "manifest.json", json.dumps(manifest).encode())

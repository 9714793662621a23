"""Arrays in a model file: raw numbers in an entry, type, shape and checksum in the manifest."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kronfill.errors import ModelFileError
from kronfill.io.container import Container
from kronfill.io.limits import Allowance, refuse

__all__ = ["MAPPED_FROM", "ArrayReader", "ArrayWriter", "sha256"]

DTYPES = frozenset(
    ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
)  # fmt: skip
MAPPED_FROM = 2**20
"""Floats of at least so many bytes stay in the file and are paged in as they are used."""
MAPPED_SHARE = 16
"""What is mapped is looked through and not copied: it counts as this part of its length."""
SHARED = 8
"""So many arrays that are equal but apart share an entry; more would look like too many of them."""
MAX_DIMENSIONS = 8
MAX_ARRAYS = 1_000_000
_KEYS = {"entry", "dtype", "shape", "order", "sha256"}
_CHUNK = 2**24

Array = NDArray[Any]


def sha256(data: memoryview | bytes) -> str:
    """Checksum of some bytes."""
    view, digest = memoryview(data), hashlib.sha256()
    for start in range(0, len(view), _CHUNK):
        digest.update(view[start : start + _CHUNK])
    return digest.hexdigest()


class ArrayWriter:
    """Collects the arrays of a model; what is met twice is stored once.

    An array that two objects share has one number, so that they share it again. Arrays that are
    equal but apart have two, with the same entry.
    """

    def __init__(self) -> None:
        self.parts: dict[str, memoryview] = {}
        self.table: list[dict[str, Any]] = []
        self._seen: dict[tuple[Any, ...], int] = {}
        self._entries: dict[tuple[str, int, int], str] = {}
        self._uses: Counter[tuple[str, int]] = Counter()
        self._kept: list[Array] = []

    def add(self, array: Array) -> int:
        """Return the number of the array."""
        address = array.__array_interface__["data"][0]
        key = (address, array.shape, array.strides, array.dtype.str)
        if key not in self._seen:
            self._kept.append(array)  # while it lives, no other array has its address
            self._seen[key] = len(self.table)
            self.table.append(self._stored(array))
        return self._seen[key]

    def add_values(self, array: Array) -> int:
        """Return the number of any array with these values."""
        line = self._stored(array)
        key = tuple(map(str, line.values()))
        if key not in self._seen:
            self._seen[key] = len(self.table)
            self.table.append(line)
        return self._seen[key]

    def _stored(self, array: Array) -> dict[str, Any]:
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        order: Literal["C", "F"] = "F" if by_columns else "C"
        plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order=order)
        if plain.dtype.str not in DTYPES:
            msg = (
                f"An array of type {array.dtype} cannot be saved; allowed are booleans, integers "
                "and floats of 4 or 8 bytes. Convert it first."
            )
            raise ModelFileError(msg)
        flat = np.ravel(plain, order=order)
        data = flat.view(np.uint8).data if flat.size else memoryview(b"")
        checksum = sha256(data)
        copy = self._uses[checksum, len(data)] // SHARED
        self._uses[checksum, len(data)] += 1
        name = self._entries.setdefault((checksum, len(data), copy), f"{len(self._entries)}.bin")
        self.parts[name] = data
        return {
            "entry": name,
            "dtype": plain.dtype.str,
            "shape": list(plain.shape),
            "order": order,
            "sha256": checksum,
        }


class ArrayReader:
    """The arrays of a model file: small ones read, large floats mapped, all checked.

    Whole numbers and truth values are read whatever their length: they say where to look in other
    arrays, and what was checked here must be what is used, even if the file changes.

    Parameters
    ----------
    container : Container
        The file.
    table : list of dict
        The manifest's description of the arrays.
    verify : bool
        Whether the checksums of arrays that are mapped are compared too.
    """

    def __init__(self, container: Container, table: Any, verify: bool) -> None:
        if not isinstance(table, list) or len(table) > MAX_ARRAYS:
            refuse("its list of arrays is missing or too long")
        self.allowance = Allowance(len(container.buffer))
        self._sums: dict[str, str] = {}
        self._container, self._verify = container, verify
        self._lines = [self._checked(number, line) for number, line in enumerate(table)]
        self._arrays: dict[int, Array] = {}

    def __getitem__(self, number: Any) -> Array:
        if type(number) is not int or not 0 <= number < len(self._lines):
            refuse(f"there is no array {number!r:.60}")
        line = self._lines[number]
        self.allowance.spend(line.length // MAPPED_SHARE if line.is_mapped else line.length)
        if number not in self._arrays:
            self._arrays[number] = self._made(number, line)
        return self._arrays[number]

    def _made(self, number: int, line: _Line) -> Array:
        raw = self._raw(line) if line.is_mapped else self._raw(line).copy()
        if line.dtype.kind == "b" and raw.max(initial=0) > 1:
            refuse(f"array {number} has truth values other than 0 and 1")
        if line.length >= MAPPED_FROM:
            raw.flags.writeable = False  # so that no one needs a copy of their own
        return raw.view(line.dtype).reshape(line.shape, order=line.order)

    def is_looked_at(self, array: Array) -> bool:
        """Whether the numbers of an array are read on loading."""
        return self._verify or not _is_mapped(array.dtype, array.nbytes)

    def _raw(self, line: _Line) -> NDArray[np.uint8]:
        offset, length = self._container.place(line.entry)
        if not length:
            return np.empty(0, np.uint8)
        return np.frombuffer(self._container.buffer, np.uint8, length, offset)

    def _sum(self, line: _Line) -> str:
        if line.entry not in self._sums:
            self._sums[line.entry] = sha256(self._raw(line).data)
        return self._sums[line.entry]

    def _checked(self, number: int, described: Any) -> _Line:
        line = _described(number, described)
        _, length = self._container.place(line.entry)
        if line.length != length or max(line.shape, default=0) > self.allowance.size:
            refuse(
                f"array {number} of shape {line.shape} and type {line.dtype} is not in its entry"
            )
        if (self._verify or not line.is_mapped) and self._sum(line) != described["sha256"]:
            refuse(f"the numbers of array {number} do not have the checksum that was stored")
        return line


@dataclass(frozen=True)
class _Line:
    """What the manifest says about an array."""

    entry: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]

    @property
    def length(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    @property
    def is_mapped(self) -> bool:
        return _is_mapped(self.dtype, self.length)


def _is_mapped(dtype: np.dtype[Any], length: int) -> bool:
    return dtype.kind == "f" and length >= MAPPED_FROM


def _described(number: int, line: Any) -> _Line:
    """What the manifest says about an array, if it says it as it should."""
    if not isinstance(line, dict) or set(line) != _KEYS or not isinstance(line["entry"], str):
        refuse(f"array {number} is not described as it should be")
    dtype, shape, order = line["dtype"], line["shape"], line["order"]
    if not isinstance(dtype, str) or dtype not in DTYPES or order not in ("C", "F"):
        refuse(f"array {number} has type {dtype!r:.60} and order {order!r:.60}")
    sizes = isinstance(shape, list) and all(type(k) is int and 0 <= k < 2**62 for k in shape)
    if not sizes or len(shape) > MAX_DIMENSIONS:
        refuse(f"array {number} has the shape {str(shape)[:60]}")
    return _Line(line["entry"], np.dtype(dtype), tuple(shape), order)

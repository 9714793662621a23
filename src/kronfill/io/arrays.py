"""Arrays in a model file: raw numbers in an entry, type, shape and checksum in the manifest."""

from __future__ import annotations

import hashlib
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from kronfill.errors import ModelFileError
from kronfill.io.container import Container

__all__ = ["MAPPED_FROM", "ArrayReader", "ArrayWriter", "Inconsistent", "sha256"]

DTYPES = frozenset(
    ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
)  # fmt: skip
MAPPED_FROM = 2**20
"""Floats of at least so many bytes stay in the file and are paged in as they are used."""
MAX_DIMENSIONS = 8
MAX_ARRAYS = 1_000_000
_KEYS = {"entry", "dtype", "shape", "order", "sha256"}
_CHUNK = 2**24

Array = NDArray[Any]


class Inconsistent(Exception):
    """What a file says does not fit together; its message becomes a part of ModelFileError's."""


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
        self._entries: dict[tuple[str, int], str] = {}
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
        name = self._entries.setdefault((checksum, len(data)), f"{len(self._entries)}.bin")
        self.parts[name] = data
        return {
            "entry": name,
            "dtype": plain.dtype.str,
            "shape": list(plain.shape),
            "order": order,
            "sha256": checksum,
        }


class ArrayReader:
    """The arrays of a model file: small ones and integers read, large floats mapped, all checked.

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
            msg = "its list of arrays is missing or too long"
            raise Inconsistent(msg)
        self._sums: dict[str, str] = {}
        self._copies: dict[str, Array] = {}
        self._container, self._verify = container, verify
        self._arrays = [self._read(number, line) for number, line in enumerate(table)]

    def __len__(self) -> int:
        return len(self._arrays)

    def __getitem__(self, number: Any) -> Array:
        if type(number) is not int or not 0 <= number < len(self._arrays):
            msg = f"there is no array {number!r:.60}"
            raise Inconsistent(msg)
        return self._arrays[number]

    def is_looked_at(self, length: int) -> bool:
        """Whether the numbers of an array of so many bytes are read on loading."""
        return self._verify or length < MAPPED_FROM

    def _own(self, entry: str, raw: Array) -> Array:
        """The bytes of an entry, read once: compiled code trusts indices, and a file can change."""
        if entry not in self._copies:
            self._copies[entry] = raw.copy()
            self._copies[entry].flags.writeable = False
        return self._copies[entry]

    def _sum(self, entry: str, raw: Array) -> str:
        if entry not in self._sums:
            self._sums[entry] = sha256(raw.data)
        return self._sums[entry]

    def _read(self, number: int, line: Any) -> Array:
        dtype, shape = _described(number, line)
        offset, length = self._container.place(line["entry"])
        if prod(shape) * dtype.itemsize != length:
            msg = f"array {number} of shape {shape} and type {dtype} is not {length} bytes long"
            raise Inconsistent(msg)
        raw = np.empty(0, np.uint8)
        if length:
            raw = np.frombuffer(self._container.buffer, np.uint8, length, offset)
        if dtype.kind != "f":
            raw = self._own(line["entry"], raw)
        if self.is_looked_at(length) and self._sum(line["entry"], raw) != line["sha256"]:
            msg = f"the numbers of array {number} do not have the checksum that was stored"
            raise Inconsistent(msg)
        if dtype.kind == "b" and self.is_looked_at(length) and raw.max(initial=0) > 1:
            msg = f"array {number} has truth values other than 0 and 1"
            raise Inconsistent(msg)
        flat = (raw if length >= MAPPED_FROM else raw.copy()).view(dtype)
        return flat.reshape(shape, order=line["order"])


def _described(number: int, line: Any) -> tuple[np.dtype[Any], list[int]]:
    """Type and shape of an array, if the manifest gives them as it should."""
    if not isinstance(line, dict) or set(line) != _KEYS or not isinstance(line["entry"], str):
        msg = f"array {number} is not described as it should be"
        raise Inconsistent(msg)
    dtype, shape, order = line["dtype"], line["shape"], line["order"]
    if not isinstance(dtype, str) or dtype not in DTYPES or order not in ("C", "F"):
        msg = f"array {number} has type {dtype!r:.60} and order {order!r:.60}"
        raise Inconsistent(msg)
    sizes = isinstance(shape, list) and all(type(k) is int and 0 <= k < 2**62 for k in shape)
    if not sizes or len(shape) > MAX_DIMENSIONS:
        msg = f"array {number} has the shape {str(shape)[:60]}"
        raise Inconsistent(msg)
    return np.dtype(dtype), shape

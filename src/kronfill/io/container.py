"""The outside of a model file: a zip of uncompressed, aligned entries, read as strictly as written.

Names, sizes and CRC-32 sums of the entries determine every other byte of the zip: no compression,
no comments, no dates, 64-bit sizes throughout, and padding so that the data of each entry begin at
a multiple of 64. A reader takes these three from the directory at the end, makes the headers anew
and compares: nothing can hide between the entries, overlap, or unpack to more than the file holds.
"""

from __future__ import annotations

import mmap
import os
import stat
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

from kronfill.errors import ModelFileError

__all__ = ["ALIGNMENT", "Container", "write_container"]

ALIGNMENT = 64
MAX_ENTRIES = 65_536
MAX_NAME = 64
_CHUNK = 2**24

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_END = struct.Struct("<4s4H2LH")
_TAIL = _END64.size + _LOCATOR.size + _END.size
_SIZES = struct.Struct("<2H2Q")  # extra field 1: sizes of 64 bits
_PLACE = struct.Struct("<2H3Q")  # in the directory with the offset besides
_PADDING = struct.Struct("<3H")  # extra field 0xd935: the alignment, then zeros
_ZIP64, _ALIGNED = 0x0001, 0xD935
_VERSION, _UNIX = 45, 3 << 8
_FIRST_DAY = 0x21  # 1980-01-01
_ELSEWHERE = 0xFFFFFFFF
_PERMISSIONS = 0o100644 << 16


@dataclass(frozen=True)
class _Entry:
    """What the directory says about one entry."""

    name: bytes
    size: int
    crc: int

    def header(self, offset: int) -> bytes:
        """What stands before the data when the entry begins at this offset."""
        fixed = offset + _LOCAL.size + len(self.name) + _SIZES.size + _PADDING.size
        fill = -fixed % ALIGNMENT
        extra = (
            _SIZES.pack(_ZIP64, 16, self.size, self.size)
            + _PADDING.pack(_ALIGNED, 2 + fill, ALIGNMENT)
            + bytes(fill)
        )
        fields = (b"PK\3\4", _VERSION, 0, 0, 0, _FIRST_DAY, self.crc, _ELSEWHERE, _ELSEWHERE)
        return _LOCAL.pack(*fields, len(self.name), len(extra)) + self.name + extra

    def record(self, offset: int) -> bytes:
        """The entry's line in the directory."""
        extra = _PLACE.pack(_ZIP64, 24, self.size, self.size, offset)
        fields = (b"PK\1\2", _UNIX | _VERSION, _VERSION, 0, 0, 0, _FIRST_DAY, self.crc)
        more = (_ELSEWHERE, _ELSEWHERE, len(self.name), len(extra), 0, 0, 0)
        return _CENTRAL.pack(*fields, *more, _PERMISSIONS, _ELSEWHERE) + self.name + extra


@dataclass(frozen=True)
class _Layout:
    """Where everything is in a file with these entries."""

    offsets: list[int]
    headers: list[bytes]
    tail: bytes
    size: int

    @classmethod
    def of(cls, entries: Sequence[_Entry]) -> _Layout:
        """Place the entries one behind the other, then the directory."""
        offsets, headers, at = [], [], 0
        for entry in entries:
            offsets.append(at)
            headers.append(entry.header(at))
            at += len(headers[-1]) + entry.size
        pairs = zip(entries, offsets, strict=True)
        directory = b"".join(entry.record(offset) for entry, offset in pairs)
        tail = directory + _ending(len(entries), len(directory), at)
        return cls(offsets, headers, tail, at + len(tail))


def _ending(count: int, length: int, start: int) -> bytes:
    numbers = (_UNIX | _VERSION, _VERSION, 0, 0, count, count, length, start)
    return (
        _END64.pack(b"PK\6\6", _END64.size - 12, *numbers)
        + _LOCATOR.pack(b"PK\6\7", 0, start + length, 1)
        + _END.pack(b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, _ELSEWHERE, _ELSEWHERE, 0)
    )


def write_container(file: BinaryIO, parts: Mapping[str, memoryview | bytes]) -> None:
    """Write named parts as the entries of a zip, in the order given."""
    if len(parts) > MAX_ENTRIES:
        msg = f"The model has {len(parts)} arrays; a model file holds at most {MAX_ENTRIES}."
        raise ModelFileError(msg)
    entries = [_Entry(name.encode("ascii"), len(part), _crc(part)) for name, part in parts.items()]
    layout = _Layout.of(entries)
    for header, part in zip(layout.headers, parts.values(), strict=True):
        file.write(header)
        view = memoryview(part)
        for start in range(0, len(view), _CHUNK):
            file.write(view[start : start + _CHUNK])
    file.write(layout.tail)


def _crc(part: memoryview | bytes) -> int:
    view, crc = memoryview(part), 0
    for start in range(0, len(view), _CHUNK):
        crc = zlib.crc32(view[start : start + _CHUNK], crc)
    return crc


class Container:
    """The entries of a file, mapped into memory read-only.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    ModelFileError
        If the file cannot be read, or is not byte for byte laid out as :func:`write_container` does
        it. What is in the entries is not looked at.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _mapped(path)
        entries = self._directory()
        layout = _Layout.of(entries)
        if layout.size != len(self._file) or self._bytes(-len(layout.tail)) != layout.tail:
            self._refuse("its directory does not describe it")
        self._places: dict[str, tuple[int, int]] = {}
        for entry, offset, header in zip(entries, layout.offsets, layout.headers, strict=True):
            if self._bytes(offset, offset + len(header)) != header:
                self._refuse(f"the header of entry {entry.name!r} was changed")
            self._places[entry.name.decode("ascii")] = (offset + len(header), entry.size)
        if len(self._places) != len(entries):
            self._refuse("it has two entries of the same name")

    @property
    def buffer(self) -> mmap.mmap:
        """The whole file."""
        return self._file

    @property
    def names(self) -> list[str]:
        """Names of the entries, in order."""
        return list(self._places)

    def place(self, name: str) -> tuple[int, int]:
        """Offset and length of the data of an entry."""
        if name not in self._places:
            self._refuse(f"it has no entry {name!r}")
        return self._places[name]

    def read(self, name: str, limit: int) -> bytes:
        """Return the data of a small entry."""
        offset, size = self.place(name)
        if size > limit:
            self._refuse(f"entry {name!r} has {size} bytes, more than the {limit} allowed")
        return self._bytes(offset, offset + size)

    def _bytes(self, start: int, end: int | None = None) -> bytes:
        return self._file[start:end]

    def _directory(self) -> list[_Entry]:
        """Names, sizes and sums, as far as they can be read at all."""
        if self._bytes(0, 4) != b"PK\3\4":
            msg = f"{self.path} is not a kronfill model: it does not begin like a zip file."
            advice = "Files written by est.save(path) and Completion.save(path) can be loaded."
            raise ModelFileError(msg, advice=advice)
        tail = self._bytes(max(0, len(self._file) - _TAIL))
        if len(tail) < _TAIL or tail[-_END.size :][:4] != b"PK\5\6" or tail[:4] != b"PK\6\6":
            msg = (
                f"{self.path} is truncated, or a zip file that kronfill did not write: it has "
                f"{len(self._file)} bytes and no end record. Copy or save it again."
            )
            raise ModelFileError(msg)
        *_, count, length, start = _END64.unpack_from(tail)
        least = _CENTRAL.size + _PLACE.size
        if not (count <= MAX_ENTRIES and start + length + _TAIL == len(self._file)):
            self._refuse("its end record does not fit its size")
        if not count * least <= length <= count * (least + MAX_NAME):
            self._refuse("its directory has the wrong length")
        return self._records(self._bytes(start, start + length), count)

    def _records(self, directory: bytes, count: int) -> list[_Entry]:
        entries, at = [], 0
        for _ in range(count):
            if at + _CENTRAL.size > len(directory):
                self._refuse("its directory is too short")
            fields = _CENTRAL.unpack_from(directory, at)
            method, crc, name_length = fields[4], fields[7], fields[10]
            at += _CENTRAL.size
            name = directory[at : at + name_length]
            at += name_length
            if method != 0:
                self._refuse(f"entry {name!r} is compressed, which is not accepted")
            if at + _PLACE.size > len(directory) or not name.isascii():
                self._refuse("its directory cannot be read")
            _, _, size, _, _ = _PLACE.unpack_from(directory, at)
            at += _PLACE.size
            if size > len(self._file):
                self._refuse(f"entry {name!r} says it is larger than the file")
            entries.append(_Entry(name, size, crc))
        return entries

    def _refuse(self, what: str) -> NoReturn:
        msg = f"{self.path} is damaged or was changed: {what}. Copy or save it again."
        raise ModelFileError(msg)


def _mapped(path: Path) -> mmap.mmap:
    try:
        found = os.stat(path)
        # To open a pipe would be to wait for its other end.
        if stat.S_ISREG(found.st_mode) and found.st_size:
            with open(path, "rb") as file:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        msg = f"There is no file {path}."
        raise ModelFileError(msg) from None
    except (OSError, ValueError) as error:
        msg = f"{path} cannot be read: {error}"
        raise ModelFileError(msg) from error
    what = "empty" if stat.S_ISREG(found.st_mode) else "a folder or a device"
    msg = f"{path} is {what}, not a kronfill model."
    raise ModelFileError(msg, advice="Files written by save(path) can be loaded.")

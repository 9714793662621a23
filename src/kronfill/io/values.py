"""Values as JSON: numbers and text as they are, all else as an object whose one key says what.

``{"tuple": [1, 2]}``, ``{"array": 3}``, ``{"date": "2026-03-01"}``: each key has a codec here (or,
for pandas, in :mod:`kronfill.io.frames`), and nothing else can be written or read. Long sequences
of one type, such as labels, are packed into arrays.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kronfill.data.arrays import is_finite
from kronfill.errors import ModelFileError
from kronfill.io.arrays import ArrayReader, ArrayWriter
from kronfill.io.limits import distinguishable, refuse
from kronfill.ridge.solution import Status

__all__ = ["BASIC", "Codec", "Reader", "Writer", "read_zone", "write_zone"]

SHORT = 16
"""Sequences of fewer items are written item by item."""
MAX_DEPTH = 60
MAX_EXPANDED = 1_000_000
"""An object written out with all that it refers to has at most so many parts."""
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_TIME = re.compile(r"<[Mm]8\[\d{0,4}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]")
_POINTER, _OBJECT = 8, 512  # bytes
_ENDLESS = "its objects are nested without end"
MAX_COLUMNS = 2**27
"""Columns of a sparse matrix: they are not in the file, but work with them takes 4 bytes each."""

Node = Any


@dataclass(frozen=True)
class Codec:
    """How values of one kind are written under a key and read back.

    ``weight`` is about how many bytes one of them takes in memory, besides what it is made from.
    """

    key: str
    accepts: Callable[[Any], bool]
    write: Callable[[Writer, Any], Node]
    read: Callable[[Reader, Node], Any]
    weight: int = 128


class Writer:
    """Turns values into JSON nodes; arrays and objects are numbered and stored once."""

    def __init__(self, codecs: Iterable[Codec]) -> None:
        self.arrays = ArrayWriter()
        self.objects: list[Node] = []
        self.where: list[str] = []
        self._codecs = tuple(codecs)
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []

    def node(self, value: Any) -> Node:
        """Write a value."""
        value = _plain(value)
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else {"float": str(value)}
        for codec in self._codecs:
            if codec.accepts(value):
                return {codec.key: codec.write(self, value)}
        where = f" in {'.'.join(self.where)}" if self.where else ""
        msg = (
            f"A {type(value).__module__}.{type(value).__qualname__}{where} has no place in a model "
            "file, which holds numbers, text, dates, tuples, arrays, data frames and the objects "
            "of kronfill itself. Replace it, or leave it out."
        )
        raise ModelFileError(msg)

    def array(self, array: NDArray[Any]) -> int:
        """Write an array and return its number."""
        return self.arrays.add(array)

    def values(self, array: NDArray[Any]) -> int:
        """Write values that belong to no one, and return the number of an array that has them."""
        return self.arrays.add_values(array)

    def once(self, value: Any, write: Callable[[], Node]) -> int:
        """Write an object unless that was done before, and return its number."""
        if id(value) not in self._seen:
            node = write()
            self._kept.append(value)  # while it lives, no other object has its id
            self._seen[id(value)] = len(self.objects)
            self.objects.append(node)
        return self._seen[id(value)]


class Reader:
    """Turns JSON nodes back into values.

    An object is read when it is first named, and may name earlier ones only: there are no circles.
    How deep and how large it is with all that it refers to is kept track of, since ten lines, each
    of which names the one before ten times, would stand for ten thousand million parts.

    Parameters
    ----------
    codecs : iterable of Codec
        How values are read.
    arrays : ArrayReader
        The arrays of the file.
    lines : list
        The manifest's list of objects.
    make : callable
        Makes an object from the reader and its line in that list.
    functions : mapping of str to callable
        The functions that names in the file may stand for.
    """

    def __init__(
        self,
        codecs: Iterable[Codec],
        arrays: ArrayReader,
        lines: list[Node],
        make: Callable[[Reader, Node], Any],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.functions = functions
        self._arrays, self._lines, self._make = arrays, lines, make
        self._codecs = {codec.key: codec for codec in codecs}
        self._objects: dict[int, tuple[Any, int, int]] = {}
        self._number, self._height, self._size, self._depth = len(lines), 0, 0, 0
        self._level = 0
        self._sequences: dict[str, tuple[Any, ...]] = {}

    def refer(self, number: int) -> Any:
        """Return an object, which is read unless that was done before."""
        if not 0 <= number < self._number:
            refuse(f"object {number} is used before it is described")
        if number not in self._objects:
            self._objects[number] = self._object(number)
        value, height, size = self._objects[number]
        self._height, self._size = max(self._height, height), self._size + size
        if self._height > MAX_DEPTH or self._size > MAX_EXPANDED:
            refuse(_ENDLESS)
        return value

    def _object(self, number: int) -> tuple[Any, int, int]:
        """Read an object; with it its height and its size."""
        outer = self._number, self._height, self._size, self._depth
        self._number, self._height, self._size, self._depth = number, 0, 1, 0
        self._level += 1
        if self._level > MAX_DEPTH:
            refuse(_ENDLESS)
        self.spend(_OBJECT)
        found = (self._make(self, self._lines[number]), self._height + 1, self._size)
        self._level -= 1
        self._number, self._height, self._size, self._depth = outer
        return found

    @property
    def is_done(self) -> bool:
        """Whether every object was read: nothing is in a file that is not a part of the model."""
        return len(self._objects) == len(self._lines)

    @property
    def expanded(self) -> int:
        """Number of parts of the object that is being read, parts of parts included."""
        return self._size

    def value(self, node: Node) -> Any:
        """Read a value."""
        if node is None or type(node) in (bool, int, str):
            return node
        if type(node) is float and np.isfinite(node):
            return node
        if not isinstance(node, dict) or len(node) != 1:
            refuse(f"a value is written as {str(node)[:60]!r}")
        ((key, inner),) = node.items()
        if key not in self._codecs:
            refuse(f"it has a value of the unknown kind {key[:60]!r}")
        codec = self._codecs[key]
        self.spend(codec.weight)
        return self._inside(lambda: codec.read(self, inner))

    def items(self, node: Node) -> tuple[Any, ...]:
        """Read the items of a sequence; packed ones that are used again (labels) are read once."""
        if isinstance(node, list):
            return distinguishable(tuple(self.value(item) for item in node))
        if not isinstance(node, dict) or len(node) != 1 or next(iter(node)) not in _PACKED:
            refuse(f"a sequence is written as {str(node)[:60]!r}")
        ((kind, inner),) = node.items()
        key = json.dumps(node)
        self.spend(len(key))
        if key not in self._sequences:
            found = self._inside(lambda: tuple(_PACKED[kind](self, inner)))
            self._sequences[key] = distinguishable(found)
        self.spend(_POINTER * len(self._sequences[key]))
        return self._sequences[key]

    def _inside(self, read: Callable[[], Any]) -> Any:
        """Read what stands inside of something else."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            refuse(f"its values are nested more than {MAX_DEPTH} deep")
        value = read()
        self._depth -= 1
        return value

    def spend(self, amount: int) -> None:
        """Count bytes of memory that something takes."""
        self._arrays.allowance.spend(amount)

    @property
    def length(self) -> int:
        """Bytes of the file: nothing in it has more items."""
        return self._arrays.allowance.size

    def is_finite(self, value: Any) -> bool:
        """Whether an array has no NaN and no infinity, as far as it is to be looked at."""
        array = getattr(value, "data", value) if sparse.issparse(value) else value
        if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
            return True
        return not self._arrays.is_looked_at(array) or bool(is_finite(array))

    def array(
        self,
        number: Any,
        kinds: str = "biuf",
        ndim: int | None = None,
        dtype: type[np.generic] | None = None,
    ) -> NDArray[Any]:
        """Return an array, if it holds numbers of these kinds."""
        array = self._arrays[number]
        right = array.dtype.kind in kinds and dtype in (None, array.dtype)
        if not right or ndim not in (None, array.ndim):
            refuse(f"array {number} has {array.ndim} dimensions and type {array.dtype}")
        return array


def fields(node: Node, *types: Any) -> list[Any]:
    """Return the items of a list if there is one of each type."""
    if not isinstance(node, list) or len(node) != len(types):
        refuse(f"{len(types)} items are expected in {str(node)[:60]!r}")
    for item, kind in zip(node, types, strict=True):
        if kind is not Any and type(item) not in (kind if isinstance(kind, tuple) else (kind,)):
            refuse(f"{item!r:.60} is not of the type expected")
    return node


def _plain(value: Any) -> Any:
    """Numbers and text of numpy as those of Python, which are equal to them."""
    if isinstance(value, np.bool_ | np.integer | np.floating | np.str_):
        return value if isinstance(value, np.timedelta64) else value.item()
    return value


# Sequences.


def write_items(writer: Writer, items: Iterable[Any]) -> Node:
    """Write the items of a sequence: packed into arrays where they are many of one type."""
    plain = [_plain(item) for item in items]
    kinds = set(map(type, plain))
    if len(plain) >= SHORT and len(kinds) == 1:
        packed = _packed(writer, plain, kinds.pop())
        if packed is not None:
            return packed
    return [writer.node(item) for item in plain]


def _packed(writer: Writer, items: list[Any], kind: type) -> Node | None:
    pandas = sys.modules.get("pandas")
    if kind is str:
        texts = [item.encode("utf-8", "surrogatepass") for item in items]
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        data = np.frombuffer(b"".join(texts), np.uint8)
        return {"texts": [writer.values(data), writer.values(ends)]}
    if kind is int and all(-(2**63) <= item < 2**63 for item in items):
        return {"ints": writer.values(np.array(items, dtype=np.int64))}
    if kind is float:
        return {"floats": writer.values(np.array(items, dtype=np.float64))}
    if kind is bool:
        return {"flags": writer.values(np.array(items, dtype=bool))}
    if kind is datetime.datetime and all(item.tzinfo is None for item in items):
        moments = [(item - _EPOCH) // _MICROSECOND for item in items]
        return {"datetimes": writer.values(np.array(moments, dtype=np.int64))}
    if kind is datetime.date:
        days = [item.toordinal() for item in items]
        return {"dates": writer.values(np.array(days, dtype=np.int64))}
    if kind is tuple and items[0] and len({len(item) for item in items}) == 1:
        return {"columns": [write_items(writer, column) for column in zip(*items, strict=True)]}
    if pandas is None or kind is not pandas.Timestamp:
        return None
    if len({(item.unit, str(item.tz)) for item in items}) == 1:
        return {"stamps": writer.node(pandas.DatetimeIndex(items).as_unit(items[0].unit))}
    return None


def _read_texts(reader: Reader, node: Node) -> list[Any]:
    data, ends = fields(node, int, int)
    raw = reader.array(data, ndim=1, dtype=np.uint8).tobytes()
    stops = reader.array(ends, ndim=1, dtype=np.int64)
    starts = np.concatenate([[0], stops[:-1]])
    if stops.size == 0 or stops[-1] != len(raw) or (stops < starts).any() or starts.min() < 0:
        refuse("the ends of packed texts are not in order")
    reader.spend(64 * stops.size + 4 * len(raw))
    pairs = zip(starts.tolist(), stops.tolist(), strict=True)
    return [raw[start:end].decode("utf-8", "surrogatepass") for start, end in pairs]


def _plain_numbers(dtype: type[np.generic], each: int) -> Callable[[Reader, Node], list[Any]]:
    """Read numbers of a type; as objects of Python they take so many bytes each."""

    def read(reader: Reader, node: Node) -> list[Any]:
        array = reader.array(node, ndim=1, dtype=dtype)
        reader.spend(each * array.size)
        return list(array.tolist())

    return read


_read_ints = _plain_numbers(np.int64, 40)


def _read_datetimes(reader: Reader, node: Node) -> list[Any]:
    moments = _read_ints(reader, node)
    reader.spend(64 * len(moments))
    return [_EPOCH + datetime.timedelta(microseconds=moment) for moment in moments]


def _read_dates(reader: Reader, node: Node) -> list[Any]:
    return [datetime.date.fromordinal(day) for day in _read_ints(reader, node)]


def _read_columns(reader: Reader, node: Node) -> list[Any]:
    if not isinstance(node, list) or not node:
        refuse("packed tuples have no columns")
    columns = [reader.items(column) for column in node]
    reader.spend((64 + _POINTER * len(columns)) * len(columns[0]))
    return list(zip(*columns, strict=True))


def _read_stamps(reader: Reader, node: Node) -> list[Any]:
    stamps = reader.value(node)
    if type(stamps).__name__ != "DatetimeIndex":
        refuse("packed time stamps are not dates")
    reader.spend(192 * len(stamps))
    return [stamp.as_unit(stamps.unit) for stamp in stamps]


_PACKED: dict[str, Callable[[Reader, Node], list[Any]]] = {
    "texts": _read_texts,
    "ints": _read_ints,
    "floats": _plain_numbers(np.float64, 32),
    "flags": _plain_numbers(np.bool_, 8),
    "datetimes": _read_datetimes,
    "dates": _read_dates,
    "columns": _read_columns,
    "stamps": _read_stamps,
}


def _write_dict(writer: Writer, value: dict[Any, Any]) -> Node:
    return [[writer.node(key), writer.node(item)] for key, item in value.items()]


def _read_dict(reader: Reader, node: Node) -> dict[Any, Any]:
    if not isinstance(node, list):
        refuse("a dictionary is not written as pairs")
    pairs = [fields(pair, Any, Any) for pair in node]
    keys = distinguishable(tuple(reader.value(key) for key, _ in pairs))
    return dict(zip(keys, (reader.value(item) for _, item in pairs), strict=True))


# Arrays.


def _write_objects(writer: Writer, value: NDArray[Any]) -> Node:
    return [list(value.shape), write_items(writer, value.ravel().tolist())]


def _read_objects(reader: Reader, node: Node) -> NDArray[Any]:
    shape, items = fields(node, list, Any)
    array = as_objects(reader.items(items))
    reader.spend(array.nbytes)
    if any(type(size) is not int or not 0 <= size <= reader.length for size in shape):
        refuse(f"an array of objects has the shape {str(shape)[:60]}")
    return array.reshape(shape)


def as_objects(items: tuple[Any, ...]) -> NDArray[Any]:
    """A one-dimensional array of any objects, sequences among them."""
    array = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        array[k] = item
    return array


def _write_csr(writer: Writer, value: Any) -> Node:
    matrix = sparse.csr_array(value)
    if matrix.shape[1] > MAX_COLUMNS:
        msg = (
            f"A sparse matrix of {matrix.shape[1]} columns has no place in a model file, which "
            f"takes {MAX_COLUMNS} of them. Leave out the columns that are empty."
        )
        raise ModelFileError(msg)
    parts = (matrix.data, matrix.indices, matrix.indptr)
    return [*(writer.array(part) for part in parts), list(matrix.shape)]


def _read_csr(reader: Reader, node: Node) -> Any:
    data, indices, indptr, shape = fields(node, int, int, int, list)
    n, width = fields(shape, int, int)
    values, at, ends = (
        reader.array(data, "biuf", 1),
        reader.array(indices, "i", 1),
        reader.array(indptr, "i", 1),
    )
    # scipy trusts these, and one that is out of range would read foreign memory.
    right = 0 <= n == len(ends) - 1 and ends[0] == 0 and ends[-1] == len(at) == len(values)
    if not right or not 0 <= width <= MAX_COLUMNS or (ends[1:] < ends[:-1]).any():
        refuse(f"the row ends of a sparse matrix of shape {shape} are not in order")
    if at.size and (at.min() < 0 or at.max() >= width):
        refuse(f"a sparse matrix of shape {shape} has entries outside of it")
    return sparse.csr_array((values, at, ends), shape=(n, width))


# Dates and times.


def write_zone(zone: datetime.tzinfo, moment: datetime.datetime | None = None) -> Node:
    """Write a time zone: by name, or as an offset from UTC in seconds."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if isinstance(name, str):
        return name
    offset = zone.utcoffset(moment)
    if offset is None:
        msg = f"The time zone {zone!r} has no fixed offset; use one of zoneinfo."
        raise ModelFileError(msg)
    return offset.total_seconds()


def read_zone(node: Node) -> datetime.tzinfo:
    """Read a time zone."""
    if isinstance(node, str):
        return ZoneInfo(node)
    if type(node) not in (int, float):
        refuse(f"{node!r:.60} is no time zone")
    offset = datetime.timedelta(seconds=node)
    return datetime.UTC if not offset else datetime.timezone(offset)


def _write_datetime(_writer: Writer, value: datetime.datetime) -> Node:
    zone = None if value.tzinfo is None else write_zone(value.tzinfo, value)
    return [value.replace(tzinfo=None, fold=0).isoformat(), zone, value.fold]


def _read_datetime(_reader: Reader, node: Node) -> datetime.datetime:
    text, zone, fold = fields(node, str, (str, int, float, type(None)), int)
    moment = datetime.datetime.fromisoformat(text).replace(fold=fold)
    return moment if zone is None else moment.replace(tzinfo=read_zone(zone))


def _write_time64(_writer: Writer, value: Any) -> Node:
    return [int(value.astype(np.int64)), value.dtype.newbyteorder("<").str]


def _read_time64(_reader: Reader, node: Node) -> Any:
    count, dtype = fields(node, int, str)
    return np.int64(count).astype(time_dtype(dtype))


def time_dtype(text: Any) -> np.dtype[Any]:
    """Check and return a type of dates or durations."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        refuse(f"{text!r:.60} is no type of dates")
    return np.dtype(text)


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


BASIC = (
    Codec("array", _is_array, Writer.array, lambda reader, node: reader.array(node)),
    Codec("csr", sparse.issparse, _write_csr, _read_csr, weight=2**13),
    Codec(
        "objects",
        lambda value: isinstance(value, np.ndarray) and value.dtype.kind in "OU",
        _write_objects,
        _read_objects,
    ),
    Codec("tuple", _of(tuple), write_items, Reader.items),
    Codec("list", _of(list), write_items, lambda reader, node: list(reader.items(node))),
    Codec("dict", _of(dict), _write_dict, _read_dict),
    Codec("float", _of(), lambda _, value: str(value), lambda _, node: _read_float(node)),
    Codec(
        "bytes",
        _of(bytes),
        lambda _, value: value.hex(),
        lambda _, node: bytes.fromhex(*fields([node], str)),
    ),
    Codec("datetime", _of(datetime.datetime), _write_datetime, _read_datetime),
    Codec(
        "date",
        _of(datetime.date),
        lambda _, value: value.isoformat(),
        lambda _, node: datetime.date.fromisoformat(*fields([node], str)),
    ),
    Codec(
        "timedelta",
        _of(datetime.timedelta),
        lambda _, value: value // _MICROSECOND,
        lambda _, node: datetime.timedelta(microseconds=fields([node], int)[0]),
    ),
    Codec("time64", _of(np.datetime64, np.timedelta64), _write_time64, _read_time64),
    Codec(
        "status",
        _of(Status),
        lambda _, value: value.name,
        lambda _, node: Status[fields([node], str)[0]],
    ),
)
"""The codecs of everything but random generators, data frames and the objects of kronfill."""


def _read_float(node: Node) -> float:
    if node not in ("nan", "inf", "-inf"):
        refuse(f"{node!r:.60} is no number")
    return float(node)

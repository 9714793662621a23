"""Indexes, series and data frames of pandas, column by column, with their types."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from kronfill._optional import needed
from kronfill.data.reading.frames import as_pandas, is_frame
from kronfill.errors import MissingDependencyError, ModelFileError
from kronfill.io.limits import refuse
from kronfill.io.values import (
    Codec,
    Reader,
    Writer,
    as_objects,
    fields,
    read_zone,
    time_dtype,
    write_items,
    write_zone,
)

__all__ = ["FRAMES"]

MAX_NAME = 100
"""Letters of a frequency."""

Node = Any


def _pandas() -> Any:
    return needed("pandas", "This model, which was made from data frames,")


# The values of one column or index.


def _write_column(writer: Writer, column: Any) -> Node:
    """Write the values of an index or a series: {kind: ...}."""
    pd = _pandas()
    dtype, values = column.dtype, column.array
    if isinstance(dtype, np.dtype):
        return _write_numpy(writer, np.asarray(column))
    if isinstance(dtype, pd.DatetimeTZDtype):
        moments = np.asarray(values.tz_convert("UTC").tz_localize(None))
        return {"zoned": [_write_numpy(writer, moments), write_zone(dtype.tz)]}
    if isinstance(dtype, pd.CategoricalDtype):
        codes = writer.array(np.asarray(values.codes))
        return {"categories": [codes, writer.node(values.categories), bool(values.ordered)]}
    if isinstance(dtype, pd.StringDtype):
        items = [None if item is pd.NA or item != item else item for item in values]
        missing = getattr(dtype, "na_value", pd.NA)
        return {"strings": [write_items(writer, items), dtype.storage, missing is not pd.NA]}
    if isinstance(dtype, pd.PeriodDtype):
        return {"periods": [writer.array(np.asarray(values.asi8)), str(dtype)]}
    if isinstance(dtype, pd.IntervalDtype):
        ends = (pd.Index(values.left), pd.Index(values.right))
        return {"intervals": [*(writer.node(end) for end in ends), values.closed]}
    if type(values) in _masked(pd):
        numbers = values.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0))
        return {"masked": [writer.array(numbers), writer.array(np.asarray(values.isna()))]}
    msg = (
        f"Data of the pandas type {dtype} have no place in a model file; convert them first, "
        "such as with astype(object)."
    )
    raise ModelFileError(msg)


def _write_numpy(writer: Writer, values: Any) -> Node:
    if values.dtype.kind in "mM":
        return {"times": [writer.array(values.view(np.int64)), values.dtype.newbyteorder("<").str]}
    if values.dtype.kind == "O":
        return {"objects": write_items(writer, values.tolist())}
    return {"numbers": writer.array(values)}


def _masked(pd: Any) -> tuple[type, ...]:
    return (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)


def _read_column(reader: Reader, node: Node) -> Any:
    if not isinstance(node, dict) or len(node) != 1 or next(iter(node)) not in _COLUMNS:
        refuse(f"a column is written as {str(node)[:60]!r}")
    ((kind, inner),) = node.items()
    values = _COLUMNS[kind](reader, inner)
    reader.spend(1024 + 16 * len(values))
    return values


def _read_times(reader: Reader, node: Node) -> Any:
    number, dtype = fields(node, int, str)
    return reader.array(number, ndim=1, dtype=np.int64).view(time_dtype(dtype))


def _read_zoned(reader: Reader, node: Node) -> Any:
    moments, zone = fields(node, dict, (str, int, float))
    index = _pandas().DatetimeIndex(_read_column(reader, moments))
    return index.tz_localize("UTC").tz_convert(_own_zone(zone)).array


def _own_zone(node: Node) -> Any:
    """A named zone as pandas itself makes it: of pytz before pandas 3, of zoneinfo since."""
    zone = read_zone(node)
    return zone.key if isinstance(zone, ZoneInfo) else zone


def _read_categories(reader: Reader, node: Node) -> Any:
    codes, index, ordered = fields(node, int, dict, bool)
    categories = reader.value(index)
    pd = _pandas()
    if not isinstance(categories, pd.Index):
        refuse("categories are not an index")
    return pd.Categorical.from_codes(
        reader.array(codes, "i", 1), categories=categories, ordered=ordered
    )


def _read_strings(reader: Reader, node: Node) -> Any:
    node, storage, nan = fields(node, Any, str, bool)
    pd, items = _pandas(), list(reader.items(node))
    more = {"na_value": np.nan} if nan else {}
    try:
        dtype = pd.StringDtype(storage, **more)
    except ImportError as error:
        raise MissingDependencyError(str(error)) from error
    except TypeError:  # before 2.3 pandas had no such type: text with NaN was of objects
        return as_objects(tuple(np.nan if item is None else item for item in items))
    return pd.array(items, dtype=dtype)


def _read_periods(reader: Reader, node: Node) -> Any:
    number, name = fields(node, int, str)
    pd = _pandas()
    ordinals = reader.array(number, ndim=1, dtype=np.int64)
    return pd.arrays.PeriodArray(ordinals, dtype=pd.PeriodDtype(_short(name)))


def _read_intervals(reader: Reader, node: Node) -> Any:
    left, right, closed = fields(node, dict, dict, str)
    ends = (reader.value(left), reader.value(right))
    return _pandas().arrays.IntervalArray.from_arrays(*ends, closed=closed)


def _read_masked(reader: Reader, node: Node) -> Any:
    numbers, missing = fields(node, int, int)
    values, mask = reader.array(numbers, "biuf", 1), reader.array(missing, "b", 1)
    integer, floating, boolean = _masked(_pandas())
    kind = {"b": boolean, "f": floating}.get(values.dtype.kind, integer)
    return kind(values, mask)


_COLUMNS: dict[str, Callable[[Reader, Node], Any]] = {
    "numbers": lambda reader, node: reader.array(node, "biuf", 1),
    "times": _read_times,
    "objects": lambda reader, node: as_objects(reader.items(node)),
    "zoned": _read_zoned,
    "categories": _read_categories,
    "strings": _read_strings,
    "periods": _read_periods,
    "intervals": _read_intervals,
    "masked": _read_masked,
}


# Indexes.


def _write_index(writer: Writer, value: Any) -> Node:
    pd = _pandas()
    regular = isinstance(value, pd.DatetimeIndex | pd.TimedeltaIndex)
    freq = value.freqstr if regular else None
    return [_write_column(writer, value), writer.node(value.name), freq]


def _read_index(reader: Reader, node: Node) -> Any:
    column, name, freq = fields(node, dict, Any, (str, type(None)))
    pd = _pandas()
    values, name = _read_column(reader, column), reader.value(name)
    if freq is None:
        dtype = object if values.dtype.kind == "O" and isinstance(values, np.ndarray) else None
        return pd.Index(values, dtype=dtype, name=name, tupleize_cols=False)
    kind = pd.TimedeltaIndex if values.dtype.kind == "m" else pd.DatetimeIndex
    return kind(values, freq=_short(freq), name=name)


def _short(name: str) -> str:
    """A frequency; to make out a very long one could take long."""
    if len(name) > MAX_NAME:
        refuse(f"the frequency {name[:60]!r} has {len(name)} letters")
    return name


def _write_range(writer: Writer, value: Any) -> Node:
    return [value.start, value.stop, value.step, writer.node(value.name)]


def _read_range(reader: Reader, node: Node) -> Any:
    start, stop, step, name = fields(node, int, int, int, Any)
    length = len(range(start, stop, step))
    if length > reader.length:
        refuse(f"a range of {length} items is longer than the file")
    reader.spend(8 * length)
    return _pandas().RangeIndex(start, stop, step, name=reader.value(name))


def _write_levels(writer: Writer, value: Any) -> Node:
    codes = [writer.array(np.asarray(codes)) for codes in value.codes]
    levels = [writer.node(level.rename(None)) for level in value.levels]
    return [levels, codes, [writer.node(name) for name in value.names]]


def _read_levels(reader: Reader, node: Node) -> Any:
    levels, codes, names = fields(node, list, list, list)
    return _pandas().MultiIndex(
        levels=[reader.value(level) for level in levels],
        codes=[reader.array(number, "i", 1) for number in codes],
        names=[reader.value(name) for name in names],
    )


# Tables.


def _write_frame(writer: Writer, value: Any) -> Node:
    table = as_pandas(value)
    columns = [_write_column(writer, table.iloc[:, j]) for j in range(table.shape[1])]
    return [writer.node(table.index), writer.node(table.columns), columns]


def _read_frame(reader: Reader, node: Node) -> Any:
    index, names, columns = fields(node, dict, dict, list)
    pd = _pandas()
    data = {j: _read_column(reader, column) for j, column in enumerate(columns)}
    table = pd.DataFrame(data, index=reader.value(index))
    return table.set_axis(reader.value(names), axis=1)


def _write_series(writer: Writer, value: Any) -> Node:
    return [writer.node(value.index), writer.node(value.name), _write_column(writer, value)]


def _read_series(reader: Reader, node: Node) -> Any:
    index, name, column = fields(node, dict, Any, dict)
    values = _read_column(reader, column)
    return _pandas().Series(values, index=reader.value(index), name=reader.value(name))


# Single values.


def _write_stamp(_writer: Writer, value: Any) -> Node:
    zone = None if value.tz is None else write_zone(value.tz, value.to_pydatetime(warn=False))
    naive = value if value.tz is None else value.tz_convert("UTC").tz_localize(None)
    moment = naive.to_datetime64()
    return [int(moment.astype(np.int64)), moment.dtype.str, zone]


def _read_stamp(_reader: Reader, node: Node) -> Any:
    count, dtype, zone = fields(node, int, str, (str, int, float, type(None)))
    stamp = _pandas().Timestamp(np.int64(count).astype(time_dtype(dtype)))
    return stamp if zone is None else stamp.tz_localize("UTC").tz_convert(_own_zone(zone))


def _write_duration(_writer: Writer, value: Any) -> Node:
    span = value.to_timedelta64()
    return [int(span.astype(np.int64)), span.dtype.str]


def _read_duration(_reader: Reader, node: Node) -> Any:
    count, dtype = fields(node, int, str)
    return _pandas().Timedelta(np.int64(count).astype(time_dtype(dtype)))


def _read_period(_reader: Reader, node: Node) -> Any:
    ordinal, freq = fields(node, int, str)
    return _pandas().Period(ordinal=ordinal, freq=_short(freq))


def _write_interval(writer: Writer, value: Any) -> Node:
    return [writer.node(value.left), writer.node(value.right), value.closed]


def _read_interval(reader: Reader, node: Node) -> Any:
    left, right, closed = fields(node, Any, Any, str)
    return _pandas().Interval(reader.value(left), reader.value(right), closed=closed)


def _read_missing(_reader: Reader, node: Node) -> Any:
    pd = _pandas()
    known = {"NaT": pd.NaT, "NA": pd.NA}
    if node not in known:
        refuse(f"{node!r:.60} is no missing value")
    return known[node]


def _is(*names: str) -> Callable[[Any], bool]:
    """Tell instances of classes of pandas, without importing it."""

    def accepts(value: Any) -> bool:
        pd = sys.modules.get("pandas")
        return pd is not None and isinstance(value, tuple(getattr(pd, name) for name in names))

    return accepts


def _is_missing(value: Any) -> bool:
    pd = sys.modules.get("pandas")
    return pd is not None and (value is pd.NaT or value is pd.NA)


_LARGE = 2**15
FRAMES = (
    Codec("missing", _is_missing, lambda _, value: str(value).strip("<>"), _read_missing),
    Codec("stamp", _is("Timestamp"), _write_stamp, _read_stamp),
    Codec("duration", _is("Timedelta"), _write_duration, _read_duration),
    Codec("period", _is("Period"), lambda _, v: [v.ordinal, v.freqstr], _read_period),
    Codec("interval", _is("Interval"), _write_interval, _read_interval),
    Codec("range", _is("RangeIndex"), _write_range, _read_range, _LARGE),
    Codec("levels", _is("MultiIndex"), _write_levels, _read_levels, _LARGE),
    Codec("index", _is("Index"), _write_index, _read_index, _LARGE),
    Codec("series", _is("Series"), _write_series, _read_series, _LARGE),
    Codec("frame", is_frame, _write_frame, _read_frame, _LARGE),
)
"""The codecs of pandas; a frame of another library becomes one of pandas."""

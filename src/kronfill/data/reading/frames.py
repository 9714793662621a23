"""Tables of any make behind one small interface: names, numbers and coded labels per column.

pandas is used for pandas frames only; every other table (polars, pyarrow, ...) comes in through the
Arrow stream protocol or the dataframe interchange protocol and needs pyarrow.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.data.labels import is_missing
from kronfill.errors import DataError, LabelError

__all__ = [
    "FrameLike", "arrow_table", "as_pandas", "axis_indexes", "frame_labels", "is_frame",
    "is_labelled_array", "is_table", "open_table", "refuse_coordinates",
]  # fmt: skip

_NUMBER_OBJECTS = frozenset(
    ["floating", "integer", "mixed-integer-float", "boolean", "decimal", "empty"]
)


def arrow_table(table: Any) -> Any:
    """Return a table of any make as one of pyarrow, or say how to get pyarrow."""
    purpose = f"Reading a {type(table).__name__}"
    pa, interchange = needed("pyarrow", purpose), needed("pyarrow.interchange", purpose)
    _refuse_python_objects(table)
    streams = hasattr(table, "__arrow_c_stream__")  # a protocol: its absence is an answer
    return pa.table(table) if streams else interchange.from_dataframe(table)


def _refuse_python_objects(table: Any) -> None:
    """Refuse what polars hands over as addresses in memory, or before 1.41 ends the process at."""
    polars = sys.modules.get("polars")
    if polars is None or not isinstance(table, polars.DataFrame):
        return
    for name, kind in table.schema.items():
        if kind == polars.Object:
            msg = (
                f"Column {name!r} holds Python objects, which polars cannot pass on; convert it, "
                "such as to text, or drop it."
            )
            raise DataError(msg)


class FrameLike(ABC):
    """A table read column by column."""

    @property
    @abstractmethod
    def names(self) -> list[Any]:
        """The column names, in order."""

    @property
    @abstractmethod
    def row_labels(self) -> list[Any] | None:
        """What the rows are called, if the table says so."""

    @abstractmethod
    def numbers(self, position: int) -> Floats:
        """Return a column as floats with NaN where the table has nothing."""

    @abstractmethod
    def coded(self, position: int) -> tuple[Index, list[Any]]:
        """Return a column as codes (-1 is missing) into its distinct labels.

        TypeError or NotImplementedError if what the column holds cannot be labels.
        """

    @abstractmethod
    def dense(self) -> Floats:
        """Return all columns side by side as floats."""

    def _refuse(self, position: int, dtype: object) -> DataError:
        """Build the error for a column that does not hold numbers."""
        return DataError(
            f"Column {self.names[position]!r} must hold numbers, got {dtype}; convert or drop it "
            "(yes and no are written 1 and 0). A table of (row, column, value) lines is read by "
            "Observations.from_long, or by kronfill.complete if row=, col= and value= name its "
            "columns."
        )


class _PandasTable(FrameLike):
    """A pandas DataFrame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._pd = needed("pandas", "Reading a pandas table")

    @property
    def names(self) -> list[Any]:
        return list(self._frame.columns)

    @property
    def row_labels(self) -> list[Any]:
        return list(self._frame.index)

    def numbers(self, position: int) -> Floats:
        column = self._frame.iloc[:, position]
        types = self._pd.api.types
        is_number = types.is_numeric_dtype(column.dtype) and not types.is_complex_dtype(
            column.dtype
        )
        if types.is_object_dtype(column.dtype):
            is_number = types.infer_dtype(column, skipna=True) in _NUMBER_OBJECTS
        if not is_number:
            raise self._refuse(position, f"dtype {column.dtype}")
        result: Floats = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return result

    def coded(self, position: int) -> tuple[Index, list[Any]]:
        codes, labels = self._pd.factorize(self._frame.iloc[:, position])
        return codes.astype(np.intp, copy=False), labels.tolist()

    def dense(self) -> Floats:
        if all(isinstance(t, np.dtype) and t.kind in "iuf" for t in self._frame.dtypes):
            result: Floats = self._frame.to_numpy(dtype=np.float64)
            return result
        return _side_by_side(self, len(self._frame))


class _ArrowTable(FrameLike):
    """Anything that pyarrow can read."""

    def __init__(self, table: Any) -> None:
        self._table = arrow_table(table)
        from pyarrow import types

        self._types = types

    @property
    def names(self) -> list[Any]:
        return list(self._table.column_names)

    @property
    def row_labels(self) -> None:
        return None

    def numbers(self, position: int) -> Floats:
        column, types = self._table.column(position), self._types
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        allowed = ("integer", "floating", "boolean", "decimal", "null")
        if not any(getattr(types, f"is_{name}")(kind) for name in allowed):
            raise self._refuse(position, f"type {column.type}")
        if types.is_dictionary(column.type) or types.is_boolean(kind):
            column = column.cast("uint8" if types.is_boolean(kind) else kind)
        result: Floats = column.cast("float64", safe=False).to_numpy()
        return result

    def coded(self, position: int) -> tuple[Index, list[Any]]:
        column = self._table.column(position)
        if self._types.is_dictionary(column.type):
            chunks = column.chunks  # each may have a dictionary of its own
        else:
            chunks = [column.combine_chunks().dictionary_encode()]
        known: dict[Any, int] = {}
        parts = [np.empty(0, dtype=np.intp)]
        for chunk in chunks:
            local = [known.setdefault(label, len(known)) for label in chunk.dictionary.to_pylist()]
            indices = chunk.indices.cast("int64").fill_null(-1).to_numpy()
            parts.append(np.array([*local, -1], dtype=np.intp)[indices])
        return _compact(np.concatenate(parts), list(known))

    def dense(self) -> Floats:
        return _side_by_side(self, self._table.num_rows)


def _side_by_side(table: FrameLike, n_rows: int) -> Floats:
    """Read every column as numbers into one array."""
    result = np.empty((n_rows, len(table.names)), dtype=np.float64)
    for position in range(result.shape[1]):
        result[:, position] = table.numbers(position)
    return result


def _compact(codes: Index, labels: list[Any]) -> tuple[Index, list[Any]]:
    """Drop labels that do not occur, and give those that mean "missing" (NaN) the code -1."""
    used = np.bincount(codes[codes >= 0], minlength=len(labels)) > 0
    kept = [k for k, label in enumerate(labels) if used[k] and not is_missing(label)]
    if len(kept) == len(labels):
        return codes, labels
    renumber = np.full(len(labels) + 1, -1, dtype=np.intp)  # the last one is for the code -1
    renumber[kept] = np.arange(len(kept))
    return renumber[codes], [labels[k] for k in kept]


def _is_pandas(table: Any) -> bool:
    """Return whether this is a pandas DataFrame, without importing pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(table, pandas.DataFrame)


def is_table(table: Any) -> bool:
    """Return whether this is a table of columns rather than an array."""
    if _is_pandas(table):
        return True
    return hasattr(table, "__dataframe__") or (
        hasattr(table, "__arrow_c_stream__") and hasattr(table, "columns")
    )


def is_frame(obj: Any) -> bool:
    """Return whether this is a table of columns or a single one, a pandas Series."""
    pandas = sys.modules.get("pandas")
    return is_table(obj) or (pandas is not None and isinstance(obj, pandas.Series))


def as_pandas(frame: Any) -> Any:
    """Return a frame of any library as a pandas DataFrame."""
    pandas = needed("pandas", "A data frame")
    if isinstance(frame, pandas.DataFrame):
        return frame
    if isinstance(frame, pandas.Series):
        return frame.to_frame()
    if hasattr(frame, "__arrow_c_stream__"):
        return _signed_codes(arrow_table(frame)).to_pandas(date_as_object=False)
    return pandas.api.interchange.from_dataframe(frame)


def _signed_codes(table: Any) -> Any:
    """Return an Arrow table whose categories pyarrow before 23 can convert, those of polars too."""
    import pyarrow as pa

    fields = []
    for field in table.schema:
        kind = field.type
        if pa.types.is_dictionary(kind):
            field = field.with_type(pa.dictionary(pa.int64(), kind.value_type, kind.ordered))
        fields.append(field)
    return table.cast(pa.schema(fields))


def frame_labels(frame: Any) -> tuple[Any, ...] | None:
    """Return the index as labels; the default index 0, 1, 2, ... is none."""
    pandas = needed("pandas", "A data frame")
    index = frame.index
    if isinstance(index, pandas.RangeIndex) and (index.start, index.step) == (0, 1):
        return None
    return tuple(index.tolist())


def is_labelled_array(values: Any) -> bool:
    """Return whether this is an array of xarray whose items have labels, without importing it."""
    xarray = sys.modules.get("xarray")
    is_array = xarray is not None and isinstance(values, xarray.DataArray)
    return is_array and any(part.ndim for part in values.coords.values())


def axis_indexes(table: Any) -> tuple[Any, Any]:
    """Return what a table calls its rows and columns, as pandas has it; None where it has not."""
    if _is_pandas(table):
        return table.index, table.columns
    if is_labelled_array(table) and table.ndim == 2:
        row, col = (table.indexes.get(name) for name in table.dims)
        return row, col
    return None, None


def refuse_coordinates(values: Any, name: str) -> None:
    """Raise if reading the bare numbers would lose the labels of an array of xarray."""
    if is_labelled_array(values):
        lost = ", ".join(repr(label) for label, part in values.coords.items() if part.ndim)
        msg = (
            f"{name} is a DataArray of xarray with the coordinates {lost}, which would be lost. "
            "Give its to_pandas(), a table with labels, or its to_numpy(), bare numbers in this "
            "order."
        )
        raise LabelError(msg)


def open_table(table: Any) -> FrameLike:
    """Return the table behind the common interface."""
    if _is_pandas(table):
        return _PandasTable(table)
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__dataframe__"):
        return _ArrowTable(table)
    msg = (
        f"Cannot read a {type(table).__name__} as a table; pass a pandas, polars or pyarrow table, "
        "or any object with __arrow_c_stream__ or __dataframe__."
    )
    raise DataError(msg)

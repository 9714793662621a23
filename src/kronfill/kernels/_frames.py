"""Data frames of any library, recognised without importing one, and read through pandas."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill._types import Floats
from kronfill.data._counts import count_of
from kronfill.data.reading.frames import arrow_table
from kronfill.errors import FeatureError, KernelError, LabelError

__all__ = ["as_pandas", "columns_as_numbers", "is_frame", "labelled_square"]

Labels = tuple[Any, ...] | None


def is_frame(obj: object) -> bool:
    """Tell whether an object is a table with named columns (pandas, polars, Arrow, ...)."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(obj, pandas.DataFrame | pandas.Series):
        return True
    named = hasattr(obj, "columns") or hasattr(obj, "column_names")
    return named and (hasattr(obj, "__arrow_c_stream__") or hasattr(obj, "__dataframe__"))


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


def frame_labels(frame: Any) -> Labels:
    """Return the index as labels; the default index 0, 1, 2, ... is none."""
    pandas = needed("pandas", "A data frame")
    index = frame.index
    if isinstance(index, pandas.RangeIndex) and (index.start, index.step) == (0, 1):
        return None
    return tuple(index.tolist())


def labelled_square(frame: Any, name: str) -> tuple[Floats, Labels]:
    """Read a square table whose rows and columns are the same items."""
    table = as_pandas(frame)
    if not table.columns.is_unique or not table.index.is_unique:
        twice = table.columns[table.columns.duplicated()].append(
            table.index[table.index.duplicated()]
        )
        msg = f"{name} has the label {twice[0]!r} twice; every item may appear only once"
        raise LabelError(msg)
    if table.shape[0] != table.shape[1]:
        msg = (
            f"{name} must be a square table of similarities, got shape {table.shape}; to build "
            "a kernel from a table of features use kronfill.kernels.rbf(features) or .linear"
        )
        raise KernelError(msg)
    odd = table.index.symmetric_difference(table.columns, sort=False)
    if len(odd):
        msg = (
            f"the rows and columns of {name} must be the same items, but {odd[0]!r} is only in one "
            f"of them ({count_of(len(odd), 'such label')}); give both the same labels, or pass a "
            "bare array (frame.to_numpy())"
        )
        raise LabelError(msg)
    ordered = table[table.index]
    try:
        values = ordered.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"{name} must hold numbers only: {error}"
        raise FeatureError(msg) from error
    return values, frame_labels(table)


def columns_as_numbers(table: Any) -> tuple[Any, dict[str, list[Any]]]:
    """Convert each column to what the encoders want, and sort the columns by kind.

    Returns
    -------
    frame : pandas.DataFrame
        Numbers and dates (days since 1970) as floats, booleans as 0.0 and 1.0, categories as
        strings.
    kinds : dict
        The column names under "number", "bool", "date" and "category".
    """
    pandas = needed("pandas", "A data frame")
    kinds: dict[str, list[Any]] = {"number": [], "bool": [], "date": [], "category": []}
    converted = {}
    for name in table.columns:
        column = table[name]
        if getattr(column, "ndim", 1) != 1:
            msg = f"the table has more than one column called {name!r}; rename them"
            raise FeatureError(msg)
        _refuse_missing(column, name)
        kind, values = _read_column(column, name, pandas)
        kinds[kind].append(name)
        converted[name] = values
    return pandas.DataFrame(converted, index=table.index, columns=table.columns), kinds


def _refuse_missing(column: Any, name: Any) -> None:
    (missing,) = np.nonzero(column.isna().to_numpy())
    if missing.size:
        items = ", ".join(repr(label) for label in column.index[missing[:3]].tolist())
        more = ", ..." if missing.size > 3 else ""
        msg = (
            f"column {name!r} has {count_of(missing.size, 'missing value')}, at {items}{more}; "
            "fill what is missing (sklearn.impute.SimpleImputer, frame.fillna) or drop the items "
            "or the column"
        )
        raise FeatureError(msg)


def _read_column(column: Any, name: Any, pandas: Any) -> tuple[str, Any]:
    types = pandas.api.types
    # Objects (and categories) may hold anything: pandas looks inside and says what.
    inside = types.infer_dtype(column, skipna=True)
    if isinstance(column.dtype, pandas.CategoricalDtype) or inside == "string":
        return "category", column.astype(str).astype(object)
    if inside == "boolean":
        return "bool", column.astype(bool).astype(np.float64)
    if inside in {"integer", "floating", "mixed-integer-float", "decimal"}:
        return "number", column.astype(np.float64)
    if inside in {"date", "datetime", "datetime64"}:
        stamps = pandas.to_datetime(column, utc=True)
        epoch = pandas.Timestamp("1970-01-01", tz="UTC")
        return "date", (stamps - epoch) / pandas.Timedelta(days=1)
    if inside in {"timedelta", "timedelta64"}:
        return "number", pandas.to_timedelta(column) / pandas.Timedelta(days=1)
    msg = (
        f"column {name!r} holds {inside} values ({column.dtype}); allowed are numbers, booleans, "
        "dates, strings and categories: convert or drop it"
    )
    raise FeatureError(msg)

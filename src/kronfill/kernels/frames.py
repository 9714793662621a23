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

__all__ = ["Labels", "as_pandas", "frame_labels", "is_frame", "labelled_square"]

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
        msg = f"{name} has the label {twice[0]!r} twice; every item may appear only once."
        raise LabelError(msg)
    if table.shape[0] != table.shape[1]:
        msg = (
            f"{name} must be a square table of similarities, got shape {table.shape}; to build "
            "a kernel from a table of features use kronfill.kernels.rbf(features) or .linear."
        )
        raise KernelError(msg)
    odd = table.index.symmetric_difference(table.columns, sort=False)
    if len(odd):
        msg = (
            f"{name} has rows and columns that differ: they must be the same items, but {odd[0]!r} "
            f"is only in one of them ({count_of(len(odd), 'such label')}); give both the same "
            "labels, or pass a bare array (frame.to_numpy())."
        )
        raise LabelError(msg)
    ordered = table[table.index]
    try:
        values = ordered.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        msg = f"{name} must hold numbers only: {error}."
        raise FeatureError(msg) from error
    return values, frame_labels(table)

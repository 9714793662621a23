"""From matrices and tables in all their forms to entries of a matrix."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from kronfill._types import Floats, Index
from kronfill.data.arrays import (
    first_positions,
    listing,
    own_sparse,
    plain_array,
    require_real,
)
from kronfill.data.entries import Entries, LabelledShape, check_policy
from kronfill.data.labels import Labels
from kronfill.data.reading.frames import (
    FrameLike,
    axis_indexes,
    is_labelled_array,
    is_table,
    open_table,
)
from kronfill.errors import (
    DataError,
    EmptyDataError,
    KronfillWarning,
    LabelError,
    NonFiniteError,
    ParameterError,
    ShapeError,
)

__all__ = ["read_long", "read_matrix"]


def read_matrix(A: Any, row_labels: Any, col_labels: Any, duplicates: str) -> Entries:
    """Read a matrix whose missing entries are marked or absent."""
    check_policy(duplicates)
    if scipy.sparse.issparse(A):
        return _read_sparse(A, row_labels, col_labels, duplicates)
    if is_table(A):
        table = open_table(A)
        row_labels = _only_one("row", table.row_labels, row_labels)
        col_labels = _only_one("column", table.names, col_labels)
        array = table.dense()
        observed = ~np.isnan(array)
    else:
        row_labels, col_labels = _coordinates(A, row_labels, col_labels)
        array, observed = _read_array(A)
    return _dense_entries(array, observed, LabelledShape.build(array.shape, row_labels, col_labels))


def _coordinates(A: Any, row_labels: Any, col_labels: Any) -> tuple[Any, Any]:
    """Return the labels of an array of xarray, and say which coordinates are not used."""
    if not is_labelled_array(A) or A.ndim != 2:
        return row_labels, col_labels
    more = [name for name, part in A.coords.items() if part.ndim and name not in A.indexes]
    if more:
        msg = (
            f"The coordinates {', '.join(map(repr, more))} of the DataArray label neither rows nor "
            "columns and are not used. What is known about an axis is given beside the table: rows="
            " and cols= of kronfill.complete."
        )
        warnings.warn(msg, KronfillWarning, stacklevel=4)
    own = axis_indexes(A)
    return (
        _only_one("row", None if own[0] is None else list(own[0]), row_labels),
        _only_one("column", None if own[1] is None else list(own[1]), col_labels),
    )


def _only_one(axis: str, own: list[Any] | None, given: Any) -> Any:
    """Return the labels of a table, or those given for a side that has none."""
    if own is None:
        return given
    if given is not None:
        msg = f"The table already names its {axis}s; rename them in the table instead."
        raise LabelError(msg)
    return own


def _read_array(A: Any) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return a dense matrix as floats and what of it is observed."""
    masked = isinstance(A, np.ma.MaskedArray)
    try:
        array = np.asarray(A) if masked else plain_array(A, "The matrix")
    except ShapeError:
        if not isinstance(A, list | tuple):
            raise
        msg = "The rows of the matrix differ in length; fill the gaps with NaN."
        raise ShapeError(msg) from None
    if array.ndim == 0:
        msg = (
            f"A table was expected, got {type(A).__name__}: give a pandas DataFrame, a list of "
            "rows, a NumPy array or a sparse matrix (of a dict, pandas.DataFrame makes a table)."
        )
        raise ShapeError(msg)
    if array.ndim != 2:
        msg = f"A matrix must have two dimensions, got an array of shape {array.shape}."
        raise ShapeError(msg)
    require_real(array, "The matrix")
    if masked and array.dtype.kind == "O":
        array = np.where(np.ma.getmaskarray(A), np.nan, array)
    try:
        numbers = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        msg = f"The matrix must hold real numbers, with NaN where one is missing ({error})."
        raise DataError(msg) from None
    return numbers, ~np.ma.getmaskarray(A) if masked else ~np.isnan(numbers)


def _dense_entries(array: Floats, observed: npt.NDArray[np.bool_], grid: LabelledShape) -> Entries:
    """Return the observed entries row by row."""
    codes = np.flatnonzero(observed)
    if codes.size == 0:
        msg = f"All {array.size} entries are missing; at least one must be observed."
        raise EmptyDataError(msg)
    rows, cols = np.divmod(codes, array.shape[1])
    return Entries(rows, cols, array[observed], None, grid).checked()


def _read_sparse(A: Any, row_labels: Any, col_labels: Any, duplicates: str) -> Entries:
    """Read the stored entries of a scipy.sparse matrix or array."""
    own = own_sparse(A, "The matrix")
    grid = LabelledShape.build(own.shape, row_labels, col_labels)
    stored = own.tocoo()
    if A.format in ("bsr", "dia"):  # these pad with zeros: a zero says nothing here
        stored.eliminate_zeros()
    return Entries.build(stored.row, stored.col, stored.data, None, grid).settled(duplicates)


def read_long(
    source: Any,
    columns: dict[str, Any],
    row_labels: Any,
    col_labels: Any,
    duplicates: str,
) -> Entries:
    """Read a table with one line per observed entry.

    `columns` maps "row", "col", "value" and "weight" to a column name or None.
    """
    check_policy(duplicates)
    if hasattr(source, "to_frame") and not hasattr(source, "columns"):
        msg = (
            f"A long table needs columns for row, column and value, got a {type(source).__name__}; "
            "a stacked one becomes such a table by reset_index()."
        )
        raise DataError(msg)
    table = open_table(source)
    at = _locate(table, columns)
    rows, row_axis = _axis(table, at["row"], row_labels, "row")
    cols, col_axis = _axis(table, at["col"], col_labels, "column")
    weights = None if columns["weight"] is None else table.numbers(at["weight"])
    values = table.numbers(at["value"])
    grid = LabelledShape.build((len(row_axis), len(col_axis)), row_axis, col_axis)
    _check_present(values, rows, cols, table.names[at["value"]], grid)
    return Entries.build(rows, cols, values, weights, grid).settled(duplicates)


def _locate(table: FrameLike, columns: dict[str, Any]) -> dict[str, int]:
    """Return the position of every column; unnamed ones are the first, second and third."""
    names = table.names
    found = {}
    for default, (role, name) in enumerate(columns.items()):
        if name is None:
            found[role] = default
            continue
        if names.count(name) != 1:
            count = "no" if name not in names else "more than one"
            msg = f"{role}={name!r}: the table has {count} such column; it has {names}."
            raise ParameterError(msg)
        found[role] = names.index(name)
    needed = [found[role] for role in ("row", "col", "value")]
    if max(needed) >= len(names) or len(set(needed)) < 3:
        msg = f"Three columns (row, col, value) are needed, the table has {names}; name them."
        raise ParameterError(msg)
    return found


def _axis(table: FrameLike, position: int, given: Any, axis: str) -> tuple[Index, Labels]:
    """Return the indices of one side of the entries and the labels they point to."""
    name = table.names[position]
    try:
        codes, uniques = table.coded(position)
    except (TypeError, NotImplementedError) as error:
        msg = f"Column {name!r} cannot hold {axis} labels ({error}); use text, numbers or dates."
        raise LabelError(msg) from None
    if codes.size == 0:
        msg = "The table has no lines; at least one entry must be observed."
        raise EmptyDataError(msg)
    if codes.min() < 0:
        shown, total = first_positions(codes < 0)
        where = listing([f"line {k}" for k in shown], total)
        msg = f"Column {name!r} has no {axis} label at {where}; drop these lines or label them."
        raise LabelError(msg)
    if given is not None:
        labels = given if isinstance(given, Labels) else Labels(given, axis=axis)
        return labels.index(uniques)[codes], labels
    labels = Labels(_ordered(uniques), axis=axis)
    return labels.index(uniques)[codes], labels


def _ordered(labels: list[Any]) -> list[Any]:
    """Sort the labels; keep the order of appearance if they cannot be compared."""
    try:
        return sorted(labels)
    except TypeError:
        return labels


def _check_present(values: Floats, rows: Index, cols: Index, name: Any, g: LabelledShape) -> None:
    """Raise if a line of the table has no value."""
    missing = np.isnan(values)
    if missing.any():
        shown, total = first_positions(missing)
        where = listing([f"line {k} {g.entry(rows[k], cols[k])}" for k in shown], total)
        msg = f"Column {name!r} has no value at {where}; drop these lines: absent is missing."
        raise NonFiniteError(msg)

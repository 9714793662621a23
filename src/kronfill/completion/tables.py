"""Tables of every make, and what lies beside them: long or wide, polars, xarray, sparse frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill.data import Observations
from kronfill.data.reading.frames import as_pandas, is_frame, is_labelled_array, is_table
from kronfill.errors import ParameterError

__all__ = ["as_entries", "told_roles", "with_coordinates", "with_labels"]

ROWS = {"row", "user", "customer", "person", "patient", "drug", "compound", "ligand", "sensor",
        "station", "student"}  # fmt: skip
COLS = {"col", "column", "item", "movie", "film", "product", "book", "song", "artist", "target",
        "protein", "kinase", "question", "cell_line"}  # fmt: skip
VALUES = {"value", "rating", "stars", "score", "affinity", "response", "measurement", "count",
          "counts", "clicked", "clicks", "liked", "likes", "purchased", "purchases", "active",
          "trips", "views", "plays", "y"}  # fmt: skip
BESIDE = {"timestamp", "time", "date", "datetime", "weight"}
"""What a line of a long table may have beside row, column and value."""


def told_roles(names: Sequence[Any]) -> tuple[Any, Any, Any] | None:
    """The columns of a long table for row, column and value, if their names tell; or None.

    Examples
    --------
    >>> from kronfill.completion.tables import told_roles
    >>> told_roles(["userId", "movieId", "rating", "timestamp"])
    ('userId', 'movieId', 'rating')
    >>> told_roles(["user", "age", "rating"]) is None
    True
    """
    plain = {name: _plain(name) for name in names}
    found = []
    for known in (ROWS, COLS, VALUES):
        mine = [name for name, word in plain.items() if word in known]
        if len(mine) != 1:
            return None
        found += mine
    rest = [word for name, word in plain.items() if name not in found]
    return (found[0], found[1], found[2]) if set(rest) <= BESIDE else None


def _plain(name: Any) -> str:
    """A name as it is compared: userId, user_id and "User ID" are a user."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", str(name)).strip().lower()
    return re.sub(r"[\s_.-]*(id|name|label|no)$", "", re.sub(r"[\s.-]+", "_", text))


def as_entries(table: Any, row: Any, col: Any, value: Any) -> Any:
    """Return a table in one of the ways that are read by themselves, a long one as its entries."""
    named = {"row": row, "col": col, "value": value}
    if any(name is not None for name in named.values()):
        missing = [f"{role}=" for role, name in named.items() if name is None]
        if missing:
            msg = (
                f"A long table needs the names of its three columns; {' and '.join(missing)} "
                f"{'is' if len(missing) == 1 else 'are'} missing beside row=, col= or value=."
            )
            raise ParameterError(msg)
        return Observations.from_long(table, row, col, value)
    if not is_table(table):
        return table
    if _is_sparse(table):
        stored = table.sparse.to_coo()
        rows, cols = list(table.index), list(table.columns)
        return Observations.from_matrix(stored, row_labels=rows, col_labels=cols)
    has_index = hasattr(table, "iloc")
    if has_index and not _is_numbered(table.index):
        return table
    names = list(table.columns if has_index else as_pandas(table).columns)
    roles = told_roles(names)
    if roles is not None:
        return Observations.from_long(table, *roles)
    return table if has_index else with_labels(table)


def _is_sparse(table: Any) -> bool:
    """Whether a data frame stores few of its values, all others being 0."""
    pd = needed("pandas", "Tables") if hasattr(table, "dtypes") and hasattr(table, "iloc") else None
    return (
        pd is not None
        and len(table.columns) > 0
        and all(isinstance(kind, pd.SparseDtype) and kind.fill_value == 0 for kind in table.dtypes)
    )


def _is_numbered(index: Any) -> bool:
    """Whether rows are only numbered: a wide table has names for them."""
    return index.nlevels == 1 and index.name is None and index.dtype.kind in "iu"


def with_labels(side: Any) -> Any:
    """Return a table without an index (polars, pyarrow) with its first column as labels, if text.

    Several, in a list or dict, are taken one by one; anything else stays as it is.
    """
    if isinstance(side, dict):
        return {name: with_labels(one) for name, one in side.items()}
    if isinstance(side, list | tuple) and any(map(_has_no_index, side)):
        return [with_labels(one) for one in side]
    if not _has_no_index(side):
        return side
    frame = as_pandas(side)
    first = frame.columns[0]
    if frame[first].map(lambda value: isinstance(value, str)).all():
        return frame.set_index(first)
    return side


def _has_no_index(side: Any) -> bool:
    return is_frame(side) and not hasattr(side, "iloc")


def with_coordinates(table: Any, rows: Any, cols: Any) -> tuple[Any, Any, Any]:
    """Return a table and what is known: further coordinates of an xarray where nothing is given."""
    if not is_labelled_array(table) or table.ndim != 2:
        return table, rows, cols
    pd = needed("pandas", "Coordinates")
    given = [rows, cols]
    for axis, dim in enumerate(table.dims):
        index = table.indexes.get(dim)
        more = {
            name: np.asarray(part.values)
            for name, part in table.coords.items()
            if part.dims == (dim,) and name not in table.indexes
        }
        if given[axis] is None and index is not None and more:
            given[axis] = pd.DataFrame(more, index=index)
            table = table.drop_vars(list(more))
    return table, given[0], given[1]

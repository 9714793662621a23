"""Features as numbers: how those of the known items are encoded, and new ones the same way."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kronfill._optional import needed
from kronfill._stored import (
    Stored,
    Tests,
    anything,
    count,
    flag,
    floats,
    of,
    positive_floats,
    text,
    tuple_of,
)
from kronfill._types import Floats
from kronfill.core.psd import as_real
from kronfill.data.amounts import count_of
from kronfill.data.arrays import own_sparse
from kronfill.data.reading.frames import as_pandas, is_frame
from kronfill.errors import FeatureError, KronfillWarning, NonFiniteError, ShapeError

__all__ = [
    "KINDS", "ArrayEncoder", "ColumnEncoder", "FrameEncoder", "as_matrix", "columns_as_numbers",
    "columns_of",
]  # fmt: skip

KINDS = frozenset({"number", "bool", "date", "category"})
"""What a column of a data frame may hold."""
# A wide one-hot encoding stays sparse; a narrow one is faster dense.
_DENSE_WIDTH, _DENSE_SHARE = 256, 0.3


@dataclass(frozen=True)
class ArrayEncoder(Stored):
    """Takes numbers as they are; only the width has to agree."""

    width: int
    stored: ClassVar[Tests] = {"width": count}

    def encode(self, new: Any) -> Any:
        """Return the features of new items as an array or a sparse matrix."""
        if is_frame(new):
            msg = (
                "The kernel was built from an array, so new items cannot be matched by column "
                f"name; give an array with {self.width} columns (frame.to_numpy())."
            )
            raise FeatureError(msg)
        values = as_matrix(new, self.width)
        if values.shape[1] != self.width:
            msg = (
                f"New items have {values.shape[1]} features, but the known ones {self.width}; "
                "give the same columns in the same order."
            )
            raise FeatureError(msg)
        return values


class ColumnEncoder(Stored, ABC):
    """Encodes columns of a data frame that it knows by name.

    A line without a value is encoded as NaN where zeros would tell something: a kernel takes the
    item for one of which it knows nothing.

    Attributes
    ----------
    kinds : dict
        The columns that it needs, by what they hold.
    width : int
        Number of encoded features.
    """

    kinds: dict[str, list[Any]]
    width: int

    @abstractmethod
    def encode(self, new: Any) -> Any:
        """Return the features of new items as an array or a sparse matrix."""


@dataclass(frozen=True)
class FrameEncoder(ColumnEncoder):
    """Encodes the columns of a data frame by name, with what was learnt from the known items."""

    columns: tuple[Any, ...]
    kinds: dict[str, list[Any]]
    centres: Floats
    """What is taken off the numbers and the dates, in this order."""
    scales: Floats
    """What they are divided by then."""
    categories: tuple[tuple[str, ...], ...]
    """The values of each column of categories, in the order of their 0/1 columns."""
    width: int
    dense: bool
    stored: ClassVar[Tests] = {
        "columns": tuple_of(anything),
        "kinds": of(dict),
        "centres": floats(1),
        "scales": positive_floats,
        "categories": tuple_of(tuple_of(text)),
        "width": count,
        "dense": flag,
    }

    def _fits_together(self) -> bool:
        kinds = self.kinds
        if set(kinds) != KINDS or any(type(some) is not list for some in kinds.values()):
            return False
        listed = [name for some in kinds.values() for name in some]
        scaled = len(kinds["number"]) + len(kinds["date"])
        width = scaled + len(kinds["bool"]) + sum(map(len, self.categories))
        return (
            len(listed) == len(self.columns)
            and set(listed) == set(self.columns)
            and self.centres.shape == self.scales.shape == (scaled,)
            and len(self.categories) == len(kinds["category"])
            and self.width == width
        )

    @classmethod
    def fit(cls, table: Any, scale: bool, allowed: frozenset[str]) -> tuple[FrameEncoder, Any]:
        """Learn how to encode a table, and return its encoded features too."""
        frame, kinds = columns_as_numbers(table)
        wrong = [(kind, name) for kind in kinds if kind not in allowed for name in kinds[kind]]
        if wrong:
            msg = (
                f"Column {wrong[0][1]!r} is of kind {wrong[0][0]!r}; this kernel takes columns of "
                f"kind {', '.join(sorted(allowed))} only: drop or encode it first."
            )
            raise FeatureError(msg)
        if frame.shape[0] == 0 or frame.shape[1] == 0:
            msg = f"features need at least one item and one column, got shape {frame.shape}."
            raise FeatureError(msg)
        _refuse_infinite(frame, kinds)
        _warn_of_names(frame, kinds)
        columns = tuple(table.columns)
        centres, scales = _learnt(frame, kinds, scale)
        categories = tuple(tuple(sorted(set(frame[name]))) for name in kinds["category"])
        width = centres.size + len(kinds["bool"]) + sum(map(len, categories))
        filled = len(columns) / width  # an item has one number for each column
        dense = width <= _DENSE_WIDTH or not categories or filled >= _DENSE_SHARE
        encoder = cls(columns, kinds, centres, scales, categories, width, dense)
        return encoder, encoder._encoded(frame)

    def encode(self, new: Any) -> Any:
        """Return the features of new items as an array or a sparse matrix."""
        table = columns_of(new, self.columns)
        if len(table) == 0:
            empty = np.zeros((0, self.width))
            return empty if self.dense else sparse.csr_array(empty)
        frame, kinds = columns_as_numbers(table)
        self._refuse_other_kinds(kinds)
        _refuse_infinite(frame, self.kinds)
        return self._encoded(frame)

    def _encoded(self, frame: Any) -> Any:
        """Numbers and dates, then yes and no, then a 0/1 column for each category."""
        scaled = [*self.kinds["number"], *self.kinds["date"]]
        numbers = (frame[scaled].to_numpy(dtype=np.float64) - self.centres) / self.scales
        flags = frame[self.kinds["bool"]].to_numpy(dtype=np.float64)
        indicators = self._indicators(frame)
        if self.dense:
            parts = [numbers, flags, *(part.toarray() for part in indicators)]
            return np.ascontiguousarray(np.hstack(parts))
        left = sparse.csr_array(np.hstack([numbers, flags]))
        return sparse.csr_array(sparse.hstack([left, *indicators], format="csr"))

    def _indicators(self, frame: Any) -> list[Any]:
        """One sparse 0/1 matrix for each column of categories; an unknown value has no 1."""
        found = []
        for name, values in zip(self.kinds["category"], self.categories, strict=True):
            place = {value: j for j, value in enumerate(values)}
            at = np.array([place.get(value, -1) for value in frame[name]], dtype=np.int32)
            ends = np.concatenate([[0], np.cumsum(at >= 0)]).astype(np.int32)
            at = at[at >= 0]
            shape = (len(frame), len(values))
            found.append(sparse.csr_array((np.ones(at.size), at, ends), shape=shape))
        return found

    def _refuse_other_kinds(self, kinds: dict[str, list[Any]]) -> None:
        before = {name: kind for kind, names in self.kinds.items() for name in names}
        for kind, names in kinds.items():
            for name in names:
                if before[name] != kind:
                    msg = (
                        f"Column {name!r} of the new items is of kind {kind!r}, among the known "
                        f"items it is {before[name]!r}; convert it to the same type."
                    )
                    raise FeatureError(msg)


def columns_of(new: Any, columns: Sequence[Any]) -> Any:
    """Return some columns of what describes new items, a data frame of pandas."""
    wanted = ", ".join(repr(name) for name in columns)
    if not is_frame(new):
        msg = (
            "The kernel was built from a data frame; give new items as one with the columns "
            f"{wanted}, got {type(new).__name__}."
        )
        raise FeatureError(msg)
    table = as_pandas(new)
    missing = [name for name in columns if name not in table.columns]
    if missing:
        msg = (
            f"New items lack the columns {missing}; needed are {wanted}. One item is a data "
            "frame with one line: frame.iloc[[0]]."
        )
        raise FeatureError(msg)
    return table[list(columns)]


def _learnt(frame: Any, kinds: dict[str, list[Any]], scale: bool) -> tuple[Floats, Floats]:
    """Return what is taken off numbers and dates, and what they are divided by then."""
    from sklearn.preprocessing import StandardScaler

    centres, scales = [np.zeros(0)], [np.zeros(0)]
    for names in (kinds["number"], kinds["date"]):
        if scale and names:
            scaler = StandardScaler().fit(frame[names].to_numpy(dtype=np.float64))
            centres.append(scaler.mean_)
            scales.append(scaler.scale_)
        else:
            centres.append(np.zeros(len(names)))
            scales.append(np.ones(len(names)))
    return np.concatenate(centres), np.concatenate(scales)


def _refuse_infinite(frame: Any, kinds: dict[str, list[Any]]) -> None:
    for name in kinds["number"]:
        (bad,) = np.nonzero(~np.isfinite(frame[name].to_numpy()))
        if bad.size:
            item = frame.index[bad[0]]
            msg = f"Column {name!r} is infinite at item {item!r}; all features must be finite."
            raise NonFiniteError(msg)


def as_matrix(features: Any, width: int | None) -> Any:
    """Return an array or sparse matrix as checked floats of shape (items, features)."""
    if sparse.issparse(features):
        matrix = sparse.csr_array(own_sparse(features, "features"), dtype=np.float64)
        matrix.sum_duplicates()
        _refuse_bad(matrix.data, matrix)
        return matrix
    try:
        array = np.array(as_real(features, "features"), order="C")
    except TypeError as error:
        msg = (
            f"features must be numbers, got {type(features).__name__}: {error}; give columns of "
            "other kinds (strings, dates) in a data frame."
        )
        raise FeatureError(msg) from error
    if array.ndim == 1 and width in (None, 1):
        array = array[:, None]
    if array.ndim != 2:
        msg = (
            f"features must be two-dimensional (items, features), got shape {array.shape}; a "
            "single item with several features is np.reshape(x, (1, -1))."
        )
        raise ShapeError(msg)
    _refuse_bad(array, array)
    return array


def _refuse_bad(values: Any, matrix: Any) -> None:
    if np.isfinite(values).all():
        return
    dense = matrix.tocoo() if sparse.issparse(matrix) else None
    flat = np.flatnonzero(~np.isfinite(values))[0]
    if dense is None:
        item, column = divmod(int(flat), matrix.shape[1])
        value = float(matrix[item, column])
    else:
        item, column, value = int(dense.row[flat]), int(dense.col[flat]), float(dense.data[flat])
    if np.isnan(value):
        msg = (
            f"Feature {column} is missing (NaN) at item {item}; fill it in "
            "(sklearn.impute.SimpleImputer) or drop the item or the feature."
        )
        raise FeatureError(msg)
    msg = f"Feature {column} is {value} at item {item}; all features must be finite."
    raise NonFiniteError(msg)


def _warn_of_names(frame: Any, kinds: dict[str, list[Any]]) -> None:
    """Warn of text that differs from item to item: as a category it says nothing about others."""
    for name in kinds.get("category", []):
        count = frame[name].nunique()
        if len(frame) >= 20 and count > 0.9 * len(frame):
            msg = (
                f"Column {name!r} has {count} different texts for {len(frame)} items, each of them "
                "a category of its own. Dates are read with pd.to_datetime; drop names and ids."
            )
            warnings.warn(msg, KronfillWarning, stacklevel=6)


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
            msg = f"The table has more than one column called {name!r}; rename them."
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
            f"Column {name!r} has {count_of(missing.size, 'missing value')}, at {items}{more}; "
            "fill what is missing (sklearn.impute.SimpleImputer, frame.fillna) or drop the items "
            "or the column."
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
        f"Column {name!r} holds {inside} values ({column.dtype}); allowed are numbers, booleans, "
        "dates, strings and categories: convert or drop it."
    )
    raise FeatureError(msg)

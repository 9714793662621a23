"""Feature tables: what is known about each item, encoded as numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from kronfill._types import Floats, Index
from kronfill.core.psd import as_real
from kronfill.data._arrays import own_sparse
from kronfill.errors import FeatureError, KronfillWarning, NonFiniteError, ShapeError
from kronfill.kernels._frames import (
    Labels,
    as_pandas,
    columns_as_numbers,
    frame_labels,
    is_frame,
)
from kronfill.kernels._indexing import frozen

__all__ = ["FeatureTable"]

# A wide one-hot encoding stays sparse; a narrow one is faster dense.
_DENSE_WIDTH = 256
_KINDS = frozenset({"number", "bool", "date", "category"})


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTable:
    """Features of `n` items as numbers, and how to encode those of new items the same way.

    Build one with :meth:`from_data`.

    Attributes
    ----------
    values : ndarray or scipy.sparse.csr_array of shape (n, width)
        The encoded features, read-only.
    labels : tuple or None
        The index of the data frame they came from, if it has one of its own.

    Examples
    --------
    >>> import pandas as pd
    >>> shops = pd.DataFrame({"size": [10.0, 20.0, 30.0], "town": ["Oslo", "Rome", "Oslo"]})
    >>> table = FeatureTable.from_data(shops)
    >>> table.values.round(2)
    array([[-1.22,  1.  ,  0.  ],
           [ 0.  ,  0.  ,  1.  ],
           [ 1.22,  1.  ,  0.  ]])
    >>> table.encode(pd.DataFrame({"town": ["Paris"], "size": [20.0]}))
    array([[0., 0., 0.]])
    """

    values: Any
    labels: Labels
    _encoder: _ArrayEncoder | _FrameEncoder = field()

    def __post_init__(self) -> None:
        frozen(self.values)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickled arrays come back writeable.
        self.__dict__.update(state)
        frozen(self.values)

    @classmethod
    def from_data(
        cls,
        features: Any,
        *,
        scale: bool = True,
        kinds: frozenset[str] = _KINDS,
    ) -> FeatureTable:
        """Encode the features of the known items.

        Parameters
        ----------
        features : array_like, scipy.sparse matrix or data frame
            Arrays and sparse matrices are taken as they are. In a data frame numbers and dates
            are brought to mean 0 and standard deviation 1, booleans become 0 and 1, and
            categories and strings one 0/1 column per value.
        scale : bool, default=True
            False takes the numbers and dates (days since 1970) of a data frame as they are.
        kinds : frozenset of str
            Kinds of columns allowed, of "number", "bool", "date" and "category".

        Returns
        -------
        FeatureTable
        """
        encoder: _ArrayEncoder | _FrameEncoder
        if is_frame(features):
            table = as_pandas(features)
            encoder, values = _FrameEncoder.fit(table, scale, kinds)
            labels = frame_labels(table)
        else:
            values, labels = _as_matrix(features, None), None
            encoder = _ArrayEncoder(int(values.shape[1]))
        if values.shape[0] == 0 or values.shape[1] == 0:
            msg = f"features need at least one item and one column, got shape {values.shape}"
            raise FeatureError(msg)
        return cls(values, labels, encoder)

    @property
    def n(self) -> int:
        """Number of items."""
        return int(self.values.shape[0])

    @property
    def width(self) -> int:
        """Number of encoded features."""
        return int(self.values.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the encoded features."""
        values = self.values
        if sparse.issparse(values):
            return int(values.data.nbytes + values.indices.nbytes + values.indptr.nbytes)
        return int(values.nbytes)

    def __repr__(self) -> str:
        return f"FeatureTable(n={self.n}, width={self.width})"

    def encode(self, new: Any) -> Any:
        """Return the features of new items, encoded as those of the known ones were.

        Parameters
        ----------
        new : array_like, scipy.sparse matrix or data frame
            As many columns as the known items have; a data frame is matched by column name.

        Returns
        -------
        ndarray or scipy.sparse.csr_array of shape (k, width)
        """
        return self._encoder.encode(new)

    def with_values(self, values: Any) -> FeatureTable:
        """Return the table with other values in the place of the encoded ones."""
        return replace(self, values=values)

    def take(self, positions: Index) -> FeatureTable:
        """Return the table of the items at the given positions."""
        labels = None if self.labels is None else tuple(self.labels[i] for i in positions)
        return replace(self, values=self.values[positions], labels=labels)


def _warn_of_names(frame: Any, kinds: dict[str, list[Any]]) -> None:
    """Warn of text that differs from item to item: as a category it says nothing about others."""
    for name in kinds.get("category", []):
        count = frame[name].nunique()
        if len(frame) >= 20 and count > 0.9 * len(frame):
            msg = (
                f"column {name!r} has {count} different texts for {len(frame)} items, each of them "
                "a category of its own. Dates are read with pd.to_datetime; drop names and ids."
            )
            warnings.warn(msg, KronfillWarning, stacklevel=6)


@dataclass(frozen=True)
class _ArrayEncoder:
    """Takes numbers as they are; only the width has to agree."""

    width: int

    def encode(self, new: Any) -> Any:
        if is_frame(new):
            msg = (
                "the kernel was built from an array, so new items cannot be matched by column "
                f"name; give an array with {self.width} columns (frame.to_numpy())"
            )
            raise FeatureError(msg)
        values = _as_matrix(new, self.width)
        if values.shape[1] != self.width:
            msg = (
                f"new items have {values.shape[1]} features, but the known ones {self.width}; "
                "give the same columns in the same order"
            )
            raise FeatureError(msg)
        return values


@dataclass(frozen=True)
class _FrameEncoder:
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

    @classmethod
    def fit(cls, table: Any, scale: bool, allowed: frozenset[str]) -> tuple[_FrameEncoder, Any]:
        frame, kinds = columns_as_numbers(table)
        wrong = [(kind, name) for kind in kinds if kind not in allowed for name in kinds[kind]]
        if wrong:
            msg = (
                f"column {wrong[0][1]!r} is of kind {wrong[0][0]!r}; this kernel takes columns of "
                f"kind {', '.join(sorted(allowed))} only: drop or encode it first"
            )
            raise FeatureError(msg)
        if frame.shape[0] == 0 or frame.shape[1] == 0:
            msg = f"features need at least one item and one column, got shape {frame.shape}"
            raise FeatureError(msg)
        _refuse_infinite(frame, kinds)
        _warn_of_names(frame, kinds)
        columns = tuple(table.columns)
        transformer = _column_transformer(columns, kinds, scale)
        values = transformer.fit_transform(_numbered(frame))
        width = int(values.shape[1])
        dense = not sparse.issparse(values) or width <= _DENSE_WIDTH
        encoder = cls(columns, kinds, *_learnt(transformer), width, dense)
        return encoder, encoder._in_form(values)

    def encode(self, new: Any) -> Any:
        wanted = ", ".join(repr(name) for name in self.columns)
        if not is_frame(new):
            msg = (
                "the kernel was built from a data frame; give new items as one with the columns "
                f"{wanted}, got {type(new).__name__}"
            )
            raise FeatureError(msg)
        table = as_pandas(new)
        missing = [name for name in self.columns if name not in table.columns]
        if missing:
            msg = (
                f"new items lack the columns {missing}; needed are {wanted}. One item is a data "
                "frame with one line: frame.iloc[[0]]"
            )
            raise FeatureError(msg)
        if len(table) == 0:
            return self._in_form(np.zeros((0, self.width)))
        frame, kinds = columns_as_numbers(table[list(self.columns)])
        self._refuse_other_kinds(kinds)
        _refuse_infinite(frame, self.kinds)
        scaled = [*self.kinds["number"], *self.kinds["date"]]
        numbers = (frame[scaled].to_numpy(dtype=np.float64) - self.centres) / self.scales
        flags = frame[self.kinds["bool"]].to_numpy(dtype=np.float64)
        values = sparse.csr_array(np.hstack([numbers, flags]))
        return self._in_form(sparse.hstack([values, *self._indicators(frame)], format="csr"))

    def _indicators(self, frame: Any) -> list[Any]:
        """One sparse 0/1 matrix for each column of categories; an unknown value has no 1."""
        found = []
        for name, values in zip(self.kinds["category"], self.categories, strict=True):
            place = {value: j for j, value in enumerate(values)}
            at = np.array([place.get(value, -1) for value in frame[name]], dtype=np.intp)
            (known,) = np.nonzero(at >= 0)
            shape = (len(frame), len(values))
            ones = np.ones(known.size)
            found.append(sparse.csr_array((ones, (known, at[known])), shape=shape))
        return found

    def _refuse_other_kinds(self, kinds: dict[str, list[Any]]) -> None:
        before = {name: kind for kind, names in self.kinds.items() for name in names}
        for kind, names in kinds.items():
            for name in names:
                if before[name] != kind:
                    msg = (
                        f"column {name!r} of the new items is of kind {kind!r}, among the known "
                        f"items it is {before[name]!r}; convert it to the same type"
                    )
                    raise FeatureError(msg)

    def _in_form(self, values: Any) -> Any:
        if self.dense:
            values = values.toarray() if sparse.issparse(values) else values
            return np.ascontiguousarray(values, dtype=np.float64)
        return sparse.csr_array(values, dtype=np.float64)


def _numbered(frame: Any) -> Any:
    """Rename the columns f0, f1, ...: scikit-learn reads whole numbers as positions."""
    return frame.set_axis([f"f{j}" for j in range(frame.shape[1])], axis=1)


def _column_transformer(columns: tuple[Any, ...], kinds: dict[str, list[Any]], scale: bool) -> Any:
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    place = {name: f"f{j}" for j, name in enumerate(columns)}
    named = {kind: [place[name] for name in names] for kind, names in kinds.items()}
    return ColumnTransformer(
        [
            ("numbers", StandardScaler() if scale else "passthrough", named["number"]),
            ("dates", StandardScaler() if scale else "passthrough", named["date"]),
            ("flags", "passthrough", named["bool"]),
            ("categories", OneHotEncoder(handle_unknown="ignore"), named["category"]),
        ]
    )


def _learnt(transformer: Any) -> tuple[Floats, Floats, tuple[tuple[str, ...], ...]]:
    """Return what encodes new items, as plain numbers: centres, scales, categories."""
    centres, scales = [np.zeros(0)], [np.zeros(0)]
    categories: tuple[tuple[str, ...], ...] = ()
    for name, step, columns in transformer.transformers_:
        if name in ("numbers", "dates") and len(columns):
            scaled = hasattr(step, "mean_")
            centres.append(step.mean_ if scaled else np.zeros(len(columns)))
            scales.append(step.scale_ if scaled else np.ones(len(columns)))
        elif name == "categories" and len(columns):
            categories = tuple(tuple(values.tolist()) for values in step.categories_)
    return np.concatenate(centres), np.concatenate(scales), categories


def _refuse_infinite(frame: Any, kinds: dict[str, list[Any]]) -> None:
    for name in kinds["number"]:
        (bad,) = np.nonzero(~np.isfinite(frame[name].to_numpy()))
        if bad.size:
            item = frame.index[bad[0]]
            msg = f"column {name!r} is infinite at item {item!r}; all features must be finite"
            raise NonFiniteError(msg)


def _as_matrix(features: Any, width: int | None) -> Any:
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
            "other kinds (strings, dates) in a data frame"
        )
        raise FeatureError(msg) from error
    if array.ndim == 1 and width in (None, 1):
        array = array[:, None]
    if array.ndim != 2:
        msg = (
            f"features must be two-dimensional (items, features), got shape {array.shape}; a "
            "single item with several features is np.reshape(x, (1, -1))"
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
            f"feature {column} is missing (NaN) at item {item}; fill it in "
            "(sklearn.impute.SimpleImputer) or drop the item or the feature"
        )
        raise FeatureError(msg)
    msg = f"feature {column} is {value} at item {item}; all features must be finite"
    raise NonFiniteError(msg)

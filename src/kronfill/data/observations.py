"""The observed entries of a matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.data.arrays import (
    frozen,
    own_floats,
    own_index,
    own_positions,
)
from kronfill.data.entries import Entries, LabelledShape
from kronfill.data.labels import Labels
from kronfill.data.reading.matrices import read_long, read_matrix
from kronfill.errors import LabelError

__all__ = ["Observations"]


class Observations:
    """The observed entries of an N x L matrix: validated once, then immutable.

    Parameters
    ----------
    rows, cols : array-like of int, shape (m,)
        Row and column of every observed entry, counted from 0. Whole floats are accepted.
    values : array-like of float, shape (m,)
        The observed values; all finite.
    shape : tuple of int
        ``(N, L)``, the size of the whole matrix.
    weights : array-like of float, shape (m,), optional
        How much every entry counts: not negative, not all zero.
    row_labels, col_labels : iterable of hashable, optional
        Distinct names of the N rows and the L columns.

    Attributes
    ----------
    rows, cols : ndarray of int, shape (m,)
        Read-only.
    values : ndarray of float, shape (m,)
        Read-only.
    weights : ndarray of float, shape (m,), or None
        Read-only.
    shape : tuple of int
        ``(N, L)``.

    Raises
    ------
    DataError
        One of its kinds, naming the first offending entries: see :mod:`kronfill.errors`.

    Notes
    -----
    The arrays handed in are copied, but for values and weights that are read-only (down to the
    owner of their memory), contiguous and of the right type already: those are shared. A masked
    entry is an error. Entries keep their order. From 2^24 observations on `rows` and `cols` take 4
    bytes each (int32), where the shape allows it.

    Examples
    --------
    >>> from kronfill.data import Observations
    >>> obs = Observations([0, 0, 2], [1, 3, 0], [5.0, 3.0, 4.0], shape=(3, 4))
    >>> obs
    Observations(3 x 4, m=3, density=0.25, values from 3 to 5,
                 1 cold row, 1 cold column)
    >>> obs.cold_rows
    array([1])
    >>> Observations([0, 7], [1, 1], [5.0, 3.0], shape=(3, 4))
    Traceback (most recent call last):
    ...
    kronfill.errors.IndexRangeError: rows must be integers in [0, 2], counted from 0, got 7 at \
position 1; is the shape right?
    """

    _entries: Entries

    def __init__(
        self,
        rows: npt.ArrayLike,
        cols: npt.ArrayLike,
        values: npt.ArrayLike,
        shape: tuple[int, int],
        *,
        weights: npt.ArrayLike | None = None,
        row_labels: Iterable[Any] | None = None,
        col_labels: Iterable[Any] | None = None,
    ) -> None:
        grid = LabelledShape.build(shape, row_labels, col_labels)
        entries = Entries.build(rows, cols, values, weights, grid).settled("error")
        self.__dict__.update(_entries=entries)

    @classmethod
    def from_entries(cls, entries: Entries) -> Observations:
        """Wrap entries that are known to be valid and whose arrays are ours."""
        for array in entries.arrays().values():
            frozen(array)
        self = cls.__new__(cls)
        self.__dict__.update(_entries=entries)
        return self

    @classmethod
    def from_matrix(
        cls,
        A: Any,
        *,
        row_labels: Iterable[Any] | None = None,
        col_labels: Iterable[Any] | None = None,
        duplicates: str = "error",
    ) -> Observations:
        """Read a matrix in which missing entries are marked or absent.

        Parameters
        ----------
        A : array-like, masked array, sparse matrix or table, shape (N, L)
            An array or nested lists: NaN (or None) is missing. A masked array: masked is missing
            and an unmasked NaN is an error. A ``scipy.sparse`` matrix or array: the stored entries
            are the observed ones, zeros included (but DIA and BSR pad with zeros, so there a zero
            is missing). A pandas DataFrame: index and columns become labels; NaN, None and NA are
            missing. Any other table (polars, pyarrow): the column names become labels.
        row_labels, col_labels : iterable of hashable, optional
            Labels for a side that has none of its own.
        duplicates : {"error", "mean"}, default="error"
            What to do with entries that a sparse matrix stores more than once. "mean" averages
            them and makes their number the weight.

        Returns
        -------
        Observations
            The observed entries, row by row (a sparse matrix keeps the order it stores).

        Examples
        --------
        >>> import numpy as np
        >>> from kronfill.data import Observations
        >>> obs = Observations.from_matrix([[1.0, np.nan], [0.0, 2.0]])
        >>> obs.X.tolist(), obs.values
        ([[0, 0], [1, 0], [1, 1]], array([1., 0., 2.]))
        """
        return cls.from_entries(read_matrix(A, row_labels, col_labels, duplicates))

    @classmethod
    def from_long(
        cls,
        table: Any,
        row: Any = None,
        col: Any = None,
        value: Any = None,
        weight: Any = None,
        row_labels: Iterable[Any] | None = None,
        col_labels: Iterable[Any] | None = None,
        duplicates: str = "error",
    ) -> Observations:
        """Read a table with one line per observed entry.

        Parameters
        ----------
        table : DataFrame or table
            A pandas DataFrame, or anything that exports an Arrow stream or the dataframe
            interchange protocol (polars, pyarrow, ...).
        row, col, value : hashable, optional
            The columns that hold the row label, the column label and the value; by default the
            first, second and third column.
        weight : hashable, optional
            The column that holds the weights, if any.
        row_labels, col_labels : iterable of hashable, optional
            The labels in the order wanted; the table may use a part of them only. By default the
            labels of the table, sorted (in order of appearance if they cannot be compared).
        duplicates : {"error", "mean"}, default="error"
            What to do with lines for the same entry. "mean" averages them, weighted if there are
            weights; the sum of their weights, or their number, becomes the weight.

        Returns
        -------
        Observations
            The entries in the order of the table (of first appearance, if merged), with labels.

        Examples
        --------
        >>> import pandas as pd
        >>> from kronfill.data import Observations
        >>> sales = pd.DataFrame({"shop": ["b", "a"], "day": [1, 2], "sold": [7, 9]})
        >>> obs = Observations.from_long(sales)
        >>> obs.row_labels, obs.rows
        (('a', 'b'), array([1, 0]))
        """
        columns = {"row": row, "col": col, "value": value, "weight": weight}
        return cls.from_entries(read_long(table, columns, row_labels, col_labels, duplicates))

    @property
    def rows(self) -> Index:
        """Row of every observed entry."""
        return self._entries.rows

    @property
    def cols(self) -> Index:
        """Column of every observed entry."""
        return self._entries.cols

    @property
    def values(self) -> Floats:
        """Observed values."""
        return self._entries.values

    @property
    def weights(self) -> Floats | None:
        """Weight of every observed entry, or None."""
        return self._entries.weights

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the whole matrix."""
        return self._entries.grid.shape

    @property
    def row_labels(self) -> tuple[Any, ...] | None:
        """Labels of the rows, or None."""
        labels = self._entries.grid.row_labels
        return None if labels is None else labels.values

    @property
    def col_labels(self) -> tuple[Any, ...] | None:
        """Labels of the columns, or None."""
        labels = self._entries.grid.col_labels
        return None if labels is None else labels.values

    @property
    def m(self) -> int:
        """Number of observed entries."""
        return int(self.values.size)

    @property
    def X(self) -> Index:
        """The (row, column) pairs, shape (m, 2): a new array at every call."""
        return np.column_stack((self.rows, self.cols))

    @cached_property
    def row_counts(self) -> Index:
        """Number of observed entries in every row."""
        return frozen(np.bincount(self.rows, minlength=self.shape[0]))

    @cached_property
    def col_counts(self) -> Index:
        """Number of observed entries in every column."""
        return frozen(np.bincount(self.cols, minlength=self.shape[1]))

    @property
    def cold_rows(self) -> Index:
        """Rows without an observed entry."""
        return np.flatnonzero(self.row_counts == 0)

    @property
    def cold_cols(self) -> Index:
        """Columns without an observed entry."""
        return np.flatnonzero(self.col_counts == 0)

    @property
    def density(self) -> float:
        """Share of the entries that are observed."""
        return self.m / (self.shape[0] * self.shape[1])

    @property
    def is_complete(self) -> bool:
        """Whether every entry of the matrix is observed."""
        return self.m == self.shape[0] * self.shape[1]

    def row_index(self, labels: Iterable[Any]) -> Index:
        """Return the rows with these labels; LabelError if a label is unknown."""
        return _require(self._entries.grid.row_labels, "row").index(labels)

    def col_index(self, labels: Iterable[Any]) -> Index:
        """Return the columns with these labels; LabelError if a label is unknown."""
        return _require(self._entries.grid.col_labels, "column").index(labels)

    def take(self, index: npt.ArrayLike | slice) -> Observations:
        """Return some of the observations, in the same matrix with the same labels.

        Parameters
        ----------
        index : array-like of int or bool, or slice
            Distinct positions among the m observations, or a mask of length m.

        Returns
        -------
        Observations
            The chosen ones, in the order asked for.

        Examples
        --------
        >>> from kronfill.data import Observations
        >>> obs = Observations([0, 0, 1], [0, 1, 0], [1.0, 2.0, 3.0], shape=(2, 2))
        >>> obs.take(obs.values > 1.5).values
        array([2., 3.])
        """
        return self.from_entries(self._entries.take(own_positions(index, self.m)).checked())

    def with_values(self, values: npt.ArrayLike) -> Observations:
        """Return the same entries with other values, given in the same order."""
        entries = replace(self._entries, values=own_floats(values, "values"))
        return self.from_entries(entries.checked())

    def with_weights(self, weights: npt.ArrayLike) -> Observations:
        """Return the same entries with other weights, given in the same order."""
        entries = replace(self._entries, weights=own_floats(weights, "weights"))
        return self.from_entries(entries.checked())

    def within(self, shape: tuple[int, int], row_labels: Any, col_labels: Any) -> Observations:
        """Return the same entries in a matrix that is at least as large, with these labels."""
        grid = LabelledShape.build(shape, row_labels, col_labels)
        return self.from_entries(replace(self._entries, grid=grid))

    def to_dense(self, fill: float = np.nan) -> Floats:
        """Return the whole matrix as an array, with `fill` where nothing was observed."""
        dense = np.full(self.shape, fill, dtype=np.float64)
        dense[self.rows, self.cols] = self.values
        return dense

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return a ``scipy.sparse.csr_array`` of the observed entries, zeros included."""
        pairs = (self.rows.copy(), self.cols.copy())
        return scipy.sparse.coo_array((self.values.copy(), pairs), shape=self.shape).tocsr()

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: one line per entry; row, col, value, and weight if any.

        Rows and columns are given by label, or by index where there are no labels.
        """
        pd = needed("pandas", "to_frame")
        columns = {
            "row": _names(self.row_labels, self.rows, pd),
            "col": _names(self.col_labels, self.cols, pd),
            "value": self.values.copy(),
        }
        if self.weights is not None:
            columns["weight"] = self.weights.copy()
        return pd.DataFrame(columns)

    def __len__(self) -> int:
        return self.m

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same entries in the same order, weights and labels too."""
        if not isinstance(other, Observations):
            return NotImplemented
        return self._entries.same(other._entries)

    __hash__ = None  # type: ignore[assignment]  # equality compares arrays

    def __setattr__(self, name: str, value: object) -> None:
        msg = f"Observations are immutable: cannot set {name!r}; see with_values and take."
        raise AttributeError(msg)

    def __delattr__(self, name: str) -> None:
        msg = f"Observations are immutable: cannot delete {name!r}."
        raise AttributeError(msg)

    def __copy__(self) -> Observations:
        return self

    def __deepcopy__(self, memo: object) -> Observations:
        return self

    def __sklearn_clone__(self) -> Observations:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._entries,)

    def __repr__(self) -> str:
        cold = ((self.cold_rows.size, "cold row"), (self.cold_cols.size, "cold column"))
        extra = [f"{count} {noun}{'s' * (count != 1)}" for count, noun in cold]
        extra += ["row labels"] * (self.row_labels is not None)
        extra += ["column labels"] * (self.col_labels is not None)
        extra += ["weighted"] * (self.weights is not None)
        return (
            f"Observations({self.shape[0]} x {self.shape[1]}, m={self.m}, "
            f"density={self.density:.3g}, "
            f"values from {self.values.min():.6g} to {self.values.max():.6g},\n"
            f"             {', '.join(extra)})"
        )


def _rebuild(entries: Entries) -> Observations:
    """Unpickle observations, whose indices may have come as a file mapped into memory."""
    shape = entries.grid.shape
    rows = own_index(entries.rows, "rows", shape[0])
    cols = own_index(entries.cols, "cols", shape[1])
    return Observations.from_entries(replace(entries, rows=rows, cols=cols))


def _require(labels: Labels | None, axis: str) -> Labels:
    """Return the labels, or say that there are none."""
    if labels is None:
        msg = f"The {axis}s have no labels; use their indices, or give {axis[:3]}_labels."
        raise LabelError(msg)
    return labels


def _names(labels: tuple[Any, ...] | None, index: Index, pd: Any) -> Any:
    """Return what a column of the long table holds."""
    return index.copy() if labels is None else pd.Index(labels, tupleize_cols=False).take(index)

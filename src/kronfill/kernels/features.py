"""Feature tables, what is known about each item as numbers, and kernels that are made of them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kronfill._stored import Stored, Tests, either, floats, label_tuple, of, sparse_floats
from kronfill._types import Floats, Index
from kronfill.data.arrays import frozen, nbytes_of
from kronfill.data.reading.frames import as_pandas, frame_labels, is_frame
from kronfill.errors import FeatureError
from kronfill.kernels.base import Kernel
from kronfill.kernels.columns.encoding import (
    KINDS,
    ArrayEncoder,
    ColumnEncoder,
    FrameEncoder,
    as_matrix,
)

__all__ = ["FeatureKernel", "FeatureTable"]


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTable(Stored):
    """Features of `n` items as numbers, and how to encode those of new items the same way.

    Build one with :meth:`from_data`.

    Attributes
    ----------
    values : ndarray or scipy.sparse.csr_array of shape (n, width)
        The encoded features, read-only.
    labels : tuple or None
        The index of the data frame they came from, if it has one of its own.
    encoder : ArrayEncoder or ColumnEncoder
        What encodes new items.

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
    labels: tuple[Any, ...] | None
    encoder: ArrayEncoder | ColumnEncoder
    stored: ClassVar[Tests] = {
        "values": either(floats(2), sparse_floats),
        "labels": label_tuple,
        "encoder": of(ArrayEncoder, ColumnEncoder),
    }

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
        kinds: frozenset[str] = KINDS,
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
        encoder: ArrayEncoder | ColumnEncoder
        if is_frame(features):
            table = as_pandas(features)
            encoder, values = FrameEncoder.fit(table, scale, kinds)
            labels = frame_labels(table)
        else:
            values, labels = as_matrix(features, None), None
            encoder = ArrayEncoder(int(values.shape[1]))
        if values.shape[0] == 0 or values.shape[1] == 0:
            msg = f"features need at least one item and one column, got shape {values.shape}."
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
    def new_width(self) -> int:
        """Number of encoded features of new items: that of the known ones as they were given."""
        return self.encoder.width

    def _fits_together(self) -> bool:
        return self.labels is None or len(self.labels) == self.n

    @property
    def nbytes(self) -> int:
        """Bytes of the encoded features."""
        return nbytes_of(self.values)

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
        return self.encoder.encode(new)

    def with_values(self, values: Any) -> FeatureTable:
        """Return the table with other values in the place of the encoded ones."""
        return replace(self, values=values)

    def take(self, positions: Index) -> FeatureTable:
        """Return the table of the items at the given positions."""
        labels = None if self.labels is None else tuple(self.labels[i] for i in positions)
        return replace(self, values=self.values[positions], labels=labels)


class FeatureKernel(Kernel):
    """A kernel ``K[i, j] = k(x_i, x_j)``; only the pairs asked for are evaluated."""

    _table: FeatureTable
    stored: ClassVar[Tests] = {**Kernel.stored, "_table": of(FeatureTable)}

    def __init__(self, table: FeatureTable, **attributes: Any) -> None:
        self._set(n=table.n, labels=table.labels, **attributes)
        self._set(_table=table.with_values(self._place(table.values)))

    @property
    def table(self) -> FeatureTable:
        """The features in the coordinates in which the kernel works."""
        return self._table

    def _place(self, encoded: Any) -> Any:
        """Map encoded features to the coordinates in which the kernel works."""
        return encoded

    def _fits_together(self) -> bool:
        """New items must have the same coordinates.

        This is told by sizes alone: a table of few entries may be very wide.
        """
        return (
            super()._fits_together()
            and self._table.n == self.n
            and self._table.width == self._placed_width(self._table.new_width)
        )

    def _placed_width(self, width: int) -> int:
        """Number of coordinates of what has so many encoded features."""
        return width

    @abstractmethod
    def _pairs(self, left: Any, right: Any) -> Floats:
        """Return the kernel between the rows of two matrices of such coordinates."""

    def _selves(self, points: Any) -> Floats:
        """Return the kernel between each row and itself, which is 1 for most."""
        return np.ones(points.shape[0])

    def _points(self, items: Index | None) -> Any:
        values = self._table.values
        return values if items is None else values[items]

    def _new_points(self, new: Any) -> Any:
        points = self._place(self._table.encode(new))
        known_sparse, new_sparse = sparse.issparse(self._table.values), sparse.issparse(points)
        if known_sparse and not new_sparse:
            return sparse.csr_array(points)
        return points.toarray() if new_sparse and not known_sparse else points

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        left = self._points(rows)
        return self._evaluate(left, left if rows is cols else self._points(cols))

    def _diagonal(self, rows: Index | None) -> Floats:
        return self._selves(self._points(rows))

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        points, right = self._new_points(new), self._points(cols)
        known = _known(points)
        if known is None:
            return self._evaluate(points, right)
        out = np.zeros((points.shape[0], right.shape[0]))
        out[known] = self._evaluate(points[known], right)
        return out

    def _new_diagonal(self, new: Any) -> Floats:
        points = self._new_points(new)
        known = _known(points)
        if known is None:
            return self._selves(points)
        out = np.zeros(points.shape[0])
        out[known] = self._selves(points[known])
        return out

    def _evaluate(self, left: Any, right: Any) -> Floats:
        if left.shape[0] == 0 or right.shape[0] == 0:
            return np.zeros((left.shape[0], right.shape[0]))
        return self._pairs(left, right)

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return self._with(n=items.size, labels=labels, _table=self._table.take(items))


def _known(points: Any) -> Index | None:
    """New items of which something is known: their features are not NaN. None for all."""
    if not sparse.issparse(points):
        missing = np.isnan(points).any(axis=1)
    elif np.isnan(points.data).any():
        missing = np.isnan(points.sum(axis=1))
    else:
        return None
    return np.flatnonzero(~missing) if missing.any() else None

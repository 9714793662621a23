"""The common part of kernels that are a function of two feature vectors."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from kronfill._types import Floats, Index
from kronfill.kernels.base import Kernel
from kronfill.kernels.features import FeatureTable

__all__ = ["FeatureKernel"]


class FeatureKernel(Kernel):
    """A kernel ``K[i, j] = k(x_i, x_j)``; only the pairs asked for are evaluated."""

    _table: FeatureTable

    def _attach(self, table: FeatureTable, **attributes: Any) -> None:
        """Store the encoded features in the coordinates in which the kernel works."""
        self._set(n=table.n, labels=table.labels, **attributes)
        self._set(_table=table.with_values(self._place(table.values)))

    def _place(self, encoded: Any) -> Any:
        """Map encoded features to the coordinates in which the kernel works."""
        return encoded

    @abstractmethod
    def _pairs(self, left: Any, right: Any) -> Floats:
        """Return the kernel between the rows of two matrices of such coordinates."""

    @abstractmethod
    def _selves(self, points: Any) -> Floats:
        """Return the kernel between each row and itself."""

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
        return self._evaluate(self._new_points(new), self._points(cols))

    def _new_diagonal(self, new: Any) -> Floats:
        return self._selves(self._new_points(new))

    def _evaluate(self, left: Any, right: Any) -> Floats:
        if left.shape[0] == 0 or right.shape[0] == 0:
            return np.zeros((left.shape[0], right.shape[0]))
        return self._pairs(left, right)

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return self._with(n=items.size, labels=labels, _table=self._table.take(items))

"""What all estimators have in common: the scikit-learn boundary and prediction."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from kronfill.data import Observations
from kronfill.errors import EmptyDataError, IndexRangeError, ParameterError, ShapeError
from kronfill.estimators.model import Bilinear
from kronfill.kernels import as_kernel, identity
from kronfill.kernels.base import Kernel
from kronfill.linalg.effects import EffectsDesign
from kronfill.linalg.ridge import Mask, Sampled

__all__ = ["MatrixRegressor"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]


class MatrixRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the five methods: a regressor on (row, column) index pairs.

    Subclasses say how large the matrix is and how to fit it; everything about input, prediction
    and scikit-learn is here.
    """

    _model: Bilinear

    # What a method has to say.

    @abstractmethod
    def _axis_sizes(self) -> tuple[int | None, int | None]:
        """Check the side information and give the size of each axis, None where it is open."""

    @abstractmethod
    def _fit(self, observations: Observations) -> None:
        """Fit and set the fitted attributes."""

    # scikit-learn's methods.

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to observed entries.

        Parameters
        ----------
        X : array-like of shape (m, 2) or Observations
            Row and column index of each observed entry, or the observations themselves.
        y : array-like of shape (m,), optional
            Observed values; left out when ``X`` is an :class:`~kronfill.Observations`.
        sample_weight : array-like of shape (m,), optional
            How much each entry counts. The objective is sum of w (y - f)^2 plus the penalty.

        Returns
        -------
        self
        """
        sizes = self._axis_sizes()
        observations = self._observations(X, y, sample_weight, sizes)
        self.shape_ = observations.shape
        self._fit(observations)
        return self

    def predict(self, X: Any) -> Floats:
        """Predict values at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,)
        """
        check_is_fitted(self)
        rows, cols = self._pairs(X, reset=False)
        _check_range(rows, self.shape_[0], "row")
        _check_range(cols, self.shape_[1], "column")
        return self._model.pairs(rows, cols)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Coefficient of determination R^2 of the prediction.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Entries to predict.
        y : array-like of shape (t,), optional
            Their values; left out when ``X`` is an :class:`~kronfill.Observations`.
        sample_weight : array-like of shape (t,), optional
            Weights.

        Returns
        -------
        float
        """
        if isinstance(X, Observations):
            X, y, sample_weight = X.X, X.values, X.weights
        return float(super().score(X, y, sample_weight=sample_weight))

    # Beyond scikit-learn.

    def predict_matrix(self, rows: Any = None, cols: Any = None) -> Floats:
        """Predict a dense block.

        Parameters
        ----------
        rows, cols : array-like of int, optional
            Indices of the rows and columns of the block; all by default.

        Returns
        -------
        ndarray of shape (len(rows), len(cols))
        """
        check_is_fitted(self)
        return self._model.block(
            _positions(rows, self.shape_[0], "row"), _positions(cols, self.shape_[1], "column")
        )

    def extrapolate(self, rows: Any = None, cols: Any = None) -> Floats:
        """Predict rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : object, optional
            What is known about the new rows (columns): features for a kernel built from features,
            an array of similarities with the known items of shape (k, N) (or (k, L)) for a given
            kernel or a graph. None stands for all the rows (columns) that are in the table.

        Returns
        -------
        ndarray of shape (k, l)
        """
        check_is_fitted(self)
        return self._model.extended(rows, cols)

    # Input.

    def _observations(
        self, X: Any, y: Any, sample_weight: Any, sizes: tuple[int | None, int | None]
    ) -> Observations:
        if isinstance(X, Observations):
            if y is not None:
                msg = "y must be left out when X is an Observations: it has the values."
                raise ParameterError(msg)
            self._pairs(X, reset=True)
            _check_shape(X.shape, sizes)
            if sample_weight is None:
                return X
            if X.weights is not None:
                msg = "Both the Observations and sample_weight have weights; give only one."
                raise ParameterError(msg)
            return Observations(X.rows, X.cols, X.values, X.shape, weights=sample_weight)
        if y is None:
            msg = (
                f"{type(self).__name__}.fit requires y to be passed, but the target y is None; only "
                "an Observations brings its own values."
            )
            raise ParameterError(msg)
        rows, cols = self._pairs(X, reset=True)
        if len(rows) == 0:
            msg = f"Found array with 0 sample(s) (shape={np.shape(X)}) while a minimum of 1 is required."
            raise EmptyDataError(msg)
        values = column_or_1d(y, warn=True)
        shape = tuple(
            int(index.max()) + 1 if size is None else size
            for index, size in zip((rows, cols), sizes, strict=True)
        )
        return Observations(rows, cols, values, shape, weights=sample_weight)

    def _pairs(self, X: Any, *, reset: bool) -> tuple[Index, Index]:
        """Row and column indices from what was given as X."""
        if isinstance(X, Observations):
            self.n_features_in_ = 2
            return X.rows, X.cols
        validate_data(self, X, reset=reset, skip_check_array=True)
        array = np.asarray(X)
        if array.ndim != 2 or array.shape[1] != 2:
            msg = (
                f"X must have shape (m, 2), one (row, column) pair per entry; got shape "
                f"{array.shape}. Reshape your data."
            )
            raise ShapeError(msg)
        return _as_indices(array[:, 0], "row"), _as_indices(array[:, 1], "column")

    def _sampled(self, observations: Observations, center: Any) -> Sampled:
        """The observations in the form that the solvers take; entries of no weight are dropped."""
        rows, cols, weights = observations.rows, observations.cols, observations.weights
        values = observations.values
        if weights is not None and not weights.all():
            keep = weights > 0
            rows, cols, values, weights = rows[keep], cols[keep], values[keep], weights[keep]
        mask = Mask(rows, cols, observations.shape, weights)
        design = None
        if center is not None:
            design = EffectsDesign(rows, cols, observations.shape, center, weights)
        return Sampled(mask, values, design)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.positive_only = True
        tags.no_validation = True
        return tags


def check_mu(mu: Any, auto: bool = True) -> None:
    """Raise unless ``mu`` is a positive finite number (or "auto")."""
    if auto and isinstance(mu, str) and mu == "auto":
        return
    if isinstance(mu, bool) or not isinstance(mu, Real) or not 0 < float(mu) < np.inf:
        also = ' or "auto"' if auto else ""
        msg = f"mu must be a positive finite number{also}, got {mu!r}."
        raise ParameterError(msg)


def check_rank(rank: Any, name: str = "rank") -> int:
    """Raise unless ``rank`` is a positive integer."""
    if isinstance(rank, bool) or not isinstance(rank, Integral) or int(rank) < 1:
        msg = f"{name} must be a positive integer, got {rank!r}."
        raise ParameterError(msg)
    return int(rank)


def resolve_kernel(kernel: Any, size: int, name: str) -> Kernel:
    """Return a kernel object; None is the identity: nothing is known about this axis."""
    return identity(size) if kernel is None else as_kernel(kernel, name)


def _check_shape(shape: tuple[int, int], sizes: tuple[int | None, int | None]) -> None:
    for got, size, axis in zip(shape, sizes, ("rows", "columns"), strict=True):
        if size is not None and got != size:
            msg = (
                f"The observations have {got} {axis}, but what is known about the {axis} "
                f"describes {size}. Give one kernel item per {axis[:-1]}, cold ones included."
            )
            raise ShapeError(msg)


def _as_indices(column: NDArray[Any], axis: str) -> Index:
    """Whole numbers as indices; anything else is an error that names the first offender."""
    if column.dtype.kind in "iu":
        return np.ascontiguousarray(column, dtype=np.intp)
    try:
        numbers = column.astype(float)
    except (TypeError, ValueError):
        msg = f"{axis} indices in X must be integers, got {column.dtype} values such as {column[0]!r}."
        raise IndexRangeError(msg) from None
    whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
    if not whole.all():
        at = int(np.flatnonzero(~whole)[0])
        shown = "NaN" if np.isnan(numbers[at]) else f"{numbers[at]}"
        msg = (
            f"{axis} indices in X must be integers, got {shown} at position {at}: no NaN, inf "
            "or fractions."
        )
        raise IndexRangeError(msg)
    return numbers.astype(np.intp)


def _check_range(index: Index, size: int, axis: str) -> None:
    bad = np.flatnonzero((index < 0) | (index >= size))
    if len(bad):
        msg = (
            f"{axis} index {index[bad[0]]} at position {bad[0]} is outside the fitted matrix, which "
            f"has {size} {axis}s (0 to {size - 1}). For {axis}s that are not in the table use "
            "extrapolate()."
        )
        raise IndexRangeError(msg)


def _positions(items: Any, size: int, axis: str) -> Index | None:
    if items is None:
        return None
    index = _as_indices(np.atleast_1d(np.asarray(items)), axis)
    _check_range(index, size, axis)
    return index

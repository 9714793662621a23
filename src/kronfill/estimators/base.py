"""What all estimators have in common: the scikit-learn boundary and prediction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from numbers import Integral, Real
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kronfill._types import Floats, Index
from kronfill.core.threads import one_thread
from kronfill.data import Observations
from kronfill.data._arrays import finite_array
from kronfill.errors import (
    DataError,
    EmptyDataError,
    ParameterError,
)
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.estimators.inputs import (
    as_indices,
    check_largest,
    check_not_negative,
    check_range,
    check_shape,
    check_smallest,
    column,
    positions,
    several_targets,
    two_columns,
    weights_of,
)
from kronfill.kernels import as_kernel, identity
from kronfill.kernels.base import Kernel
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.problem import Mask, Sampled

__all__ = ["MatrixRegressor"]


class FittedForm(Protocol):
    """What is kept of a fit: a function of row and column."""

    def block(self, rows: Index | None, cols: Index | None) -> Floats:
        """Dense block of known rows and columns."""
        ...

    def pairs(self, rows: Index, cols: Index) -> Floats:
        """Values at index pairs."""
        ...

    def extended(self, new_rows: Any, new_cols: Any) -> Floats:
        """Block of new rows and columns; None stands for all the known ones."""
        ...


class MatrixRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the five methods: a regressor on (row, column) index pairs.

    Subclasses say how large the matrix is and how to fit it; everything about input, prediction
    and scikit-learn is here.
    """

    _model: FittedForm
    _small = 500
    """Up to this many observations more threads cost more than they save."""
    _chosen_from: int
    """Among how many candidates it was chosen by looking at values, if it was."""
    _fit_several: Callable[[Observations, Floats], None] | None = None
    """Fits several targets that share the observed entries; None for a method that takes one."""

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
            Observed values; left out when ``X`` is an :class:`~kronfill.Observations`. KKMCEX also
            takes several targets, shape (m, t), and solves for them together.
        sample_weight : array-like of shape (m,), optional
            How much each entry counts. The objective is sum of w (y - f)^2 plus the penalty.

        Returns
        -------
        self
        """
        sizes = self._axis_sizes()
        targets = None if self._fit_several is None else several_targets(y)
        first = y if targets is None else targets[:, 0]
        observations = self._observations(X, first, sample_weight, sizes)
        values = observations.values if targets is None else targets
        check_largest(values, observations.weights)
        check_smallest(values, observations.weights)
        self.__dict__.pop("_model", None)  # a fit that fails from here on leaves nothing half new
        self.shape_ = observations.shape
        with one_thread() if observations.m <= self._small else nullcontext():
            if targets is None or self._fit_several is None:
                self._fit(observations)
            else:
                self._fit_several(observations, targets)
        self.observations_ = observations
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
        check_range(rows, self.shape_[0], "row")
        check_range(cols, self.shape_[1], "column")
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
            sample_weight = weights_of(X, y, sample_weight)
            y = X.values
        if y is None:
            raise ParameterError(self._needs_y("score"))
        if sample_weight is not None:
            sample_weight = finite_array(sample_weight, "sample_weight")
        return float(super().score(X, finite_array(y, "y"), sample_weight=sample_weight))

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
            positions(rows, self.shape_[0], "row"), positions(cols, self.shape_[1], "column")
        )

    def extrapolate(self, rows: Any = None, cols: Any = None) -> Floats:
        """Predict rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : object, optional
            What is known about the new rows (columns): features for a kernel built from features,
            an array of similarities with the known items of shape (k, N) (or (k, L)) for a given
            kernel or a graph, or a data frame of them whose columns are the labels of the kernel.
            None stands for all the rows (columns) that are in the table.

        Returns
        -------
        ndarray of shape (k, l)
        """
        check_is_fitted(self)
        return self._model.extended(rows, cols)

    def save(self, path: Any) -> None:
        """Write the fitted method to a file, which :func:`kronfill.load` reads.

        Parameters
        ----------
        path : str or path
            The file, by custom with the ending ``.kf``. One that is there is replaced, in one step,
            once the new one is complete.

        Examples
        --------
        >>> import tempfile, pathlib, kronfill as kf
        >>> est = kf.KKMCEX([[1.0, 0.5], [0.5, 1.0]]).fit([[0, 0]], [2.0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     est.save(pathlib.Path(folder) / "model.kf")
        ...     kf.load(pathlib.Path(folder) / "model.kf").predict([[1, 0]])
        array([0.5])
        """
        from kronfill.io import save

        save(self, path)

    def _bilinear(self) -> Bilinear:
        """The fitted form as one product, for those who take it apart."""
        assert isinstance(self._model, Bilinear)
        return self._model

    # Input.

    def _observations(
        self, X: Any, y: Any, sample_weight: Any, sizes: tuple[int | None, int | None]
    ) -> Observations:
        if isinstance(X, Observations):
            weights = weights_of(X, y, sample_weight)
            self._pairs(X, reset=True)
            check_shape(X.shape, sizes)
            return X if weights is X.weights else X.with_weights(weights)
        if y is None:
            raise ParameterError(self._needs_y("fit"))
        rows, cols = self._pairs(X, reset=True, own=False)
        if len(rows) == 0:
            msg = "Found array with 0 sample(s) (shape=(0, 2)) while a minimum of 1 is required."
            raise EmptyDataError(msg)
        for index, axis in ((rows, "row"), (cols, "column")):
            check_not_negative(index, axis)
        values = column(y)
        n, l = (
            int(index.max()) + 1 if size is None else size
            for index, size in zip((rows, cols), sizes, strict=True)
        )
        return Observations(rows, cols, values, (n, l), weights=sample_weight)

    def _needs_y(self, method: str) -> str:
        return (
            f"{type(self).__name__}.{method} requires y to be passed, but the target y is None; "
            "only an Observations brings its own values: Observations.from_matrix(table) makes one "
            "of a table with missing entries."
        )

    def _pairs(self, X: Any, *, reset: bool, own: bool = True) -> tuple[Index, Index]:
        """Row and column indices from what was given as X, views of it unless ``own``."""
        if isinstance(X, Observations):
            if reset:
                self.n_features_in_ = 2
                self.__dict__.pop("feature_names_in_", None)
            return X.rows, X.cols
        array = two_columns(X, type(self).__name__)
        try:
            validate_data(self, X, reset=reset, skip_check_array=True)  # names of the columns
        except (TypeError, ValueError) as error:
            raise DataError(str(error)) from None
        return as_indices(array[:, 0], "row", own), as_indices(array[:, 1], "column", own)

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

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in vars(self)

    def __sklearn_clone__(self) -> Self:
        twin: Self = super().__sklearn_clone__()
        if "_chosen_from" in vars(self):  # its kernels are still those that were chosen
            twin._chosen_from = self._chosen_from
        return twin

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.positive_only = True
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

"""What a method has to provide, and what it gets for it: input, prediction, scikit-learn.

A method is a subclass of :class:`MatrixRegressor`, or of :class:`KernelRegressor` if it has a
kernel for each axis; one that predicts classes is a :class:`MatrixEstimator` that is no regressor.
It

* stores its parameters in ``__init__``, unchanged;
* checks them in ``_validated_sides``, and returns what is known about each axis;
* fits in ``fit``: check (``_validated_sides``), make the observations (``_observations``), solve
  (within ``_fitting``), and return ``self._publish(...)`` with everything that was found.

Among what is published are ``shape_``, ``mu_``, ``solution_`` and ``_model``, the fitted function
of row and column (:class:`FittedForm`), by which everything here predicts. Other modules reach what
a fitted method keeps to itself through the functions at the end of this one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from numbers import Integral, Real
from typing import Any, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kronfill._types import Floats, Index
from kronfill.core.threads import one_thread
from kronfill.data import Observations
from kronfill.data.arrays import finite_array
from kronfill.errors import DataError, EmptyDataError, ParameterError
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.estimators.inputs import (
    as_indices,
    check_not_negative,
    check_range,
    check_shape,
    column,
    positions,
    two_columns,
    weights_of,
)
from kronfill.kernels import as_kernel, identity
from kronfill.kernels.base import Kernel
from kronfill.ridge.effects import AdditiveEffects

__all__ = ["KernelRegressor", "MatrixEstimator", "MatrixRegressor"]

Kernels = tuple[Kernel | None, Kernel | None]

SMALL = 500
"""Up to this many observations more threads cost more than they save."""
AT_TIMES = ("feature_names_in_", "observations_", "dual_coef_", "mu_search_", "_from_table")
"""What one fit of an estimator may set and the next may not."""


class FittedForm(Protocol):
    """What is kept of a fit: a function of row and column."""

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the matrix."""
        ...

    def block(self, rows: Index | None, cols: Index | None) -> Floats:
        """Dense block of known rows and columns."""
        ...

    def pairs(self, rows: Index, cols: Index) -> Floats:
        """Values at index pairs."""
        ...

    def extended(self, new_rows: Any, new_cols: Any) -> Floats:
        """Block of new rows and columns; None stands for all the known ones."""
        ...


class MatrixEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all methods: an estimator on (row, column) index pairs."""

    _model: FittedForm
    _chosen_from: int
    """Among how many candidates it was chosen by looking at values, if it was."""
    shape_: tuple[int, int]
    mu_: float
    solution_: Any

    # What a method has to say.

    @abstractmethod
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

    @abstractmethod
    def _validated_sides(self) -> Any:
        """Check all parameters; what is known about rows and columns, None for nothing.

        Each of the two says with ``n`` how many items there are.
        """

    # What it has to do it with.

    def _observations(
        self, X: Any, y: Any, sample_weight: Any, sides: tuple[Any, Any]
    ) -> Observations:
        """The observed entries, checked, from what was given to ``fit``."""
        sizes = None if sides[0] is None else sides[0].n, None if sides[1] is None else sides[1].n
        if isinstance(X, Observations):
            weights = weights_of(X, y, sample_weight)
            check_shape(X.shape, sizes)
            return X if weights is X.weights else X.with_weights(weights)
        if y is None:
            raise ParameterError(self._needs_y("fit"))
        array = two_columns(X, type(self).__name__)
        feature_columns(X)  # raises what is wrong with their names
        rows, cols = (
            as_indices(part, axis, own=False)
            for part, axis in zip(array.T, ("row", "column"), strict=True)
        )
        check_not_empty(rows)
        for index, axis in ((rows, "row"), (cols, "column")):
            check_not_negative(index, axis)
        n, l = (
            int(index.max()) + 1 if size is None else size
            for index, size in zip((rows, cols), sizes, strict=True)
        )
        return Observations(rows, cols, column(y), (n, l), weights=sample_weight)

    @contextmanager
    def _fitting(self, m: int, small: int = SMALL) -> Iterator[None]:
        """The work of a fit, once all is checked; one that fails leaves nothing half new."""
        self.__dict__.pop("_model", None)
        with few_threads(m, small):
            yield

    def _publish(
        self, X: Any, observations: Observations, sides: dict[str, Any], **found: Any
    ) -> Self:
        """Set what was given to a fit and what it has found, all at once."""
        return self._set(
            **sides,
            **feature_columns(X),
            shape_=observations.shape,
            **found,
            observations_=observations,
        )

    def _set(self, **fitted: Any) -> Self:
        for name in AT_TIMES:
            self.__dict__.pop(name, None)
        self.__dict__.update(fitted)
        return self

    # scikit-learn's methods.

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
        return self._model.pairs(*index_pairs(self, X))

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
        assert isinstance(self._model, Bilinear)
        return self._model

    def _to_score(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        """Values and weights that ``score`` was given, or those of the observations."""
        if isinstance(X, Observations):
            sample_weight = weights_of(X, y, sample_weight)
            y = X.values
        if y is None:
            raise ParameterError(self._needs_y("score"))
        if sample_weight is not None:
            sample_weight = finite_array(sample_weight, "sample_weight")
        return y, sample_weight

    def _needs_y(self, method: str) -> str:
        return (
            f"{type(self).__name__}.{method} requires y to be passed, but the target y is None; "
            "only an Observations brings its own values: Observations.from_matrix(table) makes one "
            "of a table with missing entries."
        )

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


class MatrixRegressor(RegressorMixin, MatrixEstimator):  # type: ignore[misc]
    """A regressor on (row, column) index pairs."""

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
        y, weights = self._to_score(X, y, sample_weight)
        return float(super().score(X, finite_array(y, "y"), sample_weight=weights))


class KernelRegressor(MatrixRegressor):
    """A method with one kernel per axis."""

    row_kernel: Any
    col_kernel: Any
    _kernels: Kernels

    def _validated_kernels(self) -> Kernels:
        """Both kernels, checked; None where nothing is known about an axis."""
        return checked_kernels(self.row_kernel, self.col_kernel)


# What other modules may ask of a method.


def inner_method(estimator: Any) -> Any:
    """The fitted method inside of one that only tells its values otherwise."""
    return vars(estimator).get("estimator_", estimator)


def fitted_form(estimator: MatrixEstimator) -> FittedForm:
    """The fitted function of row and column."""
    return estimator._model


def bilinear_form(estimator: MatrixEstimator) -> Bilinear:
    """The fitted function as one product, for those who take it apart."""
    return estimator._bilinear()


def validated_sides(estimator: MatrixEstimator) -> Any:
    """What is known about rows and columns, None for nothing, once all parameters are checked."""
    return estimator._validated_sides()


def validated(
    estimator: MatrixEstimator, X: Any, y: Any = None, sample_weight: Any = None
) -> tuple[Any, Observations]:
    """What is known about the axes and the observations, as ``fit`` would take them."""
    sides = validated_sides(estimator)
    return sides, estimator._observations(X, y, sample_weight, sides)


def index_pairs(estimator: MatrixEstimator, X: Any) -> tuple[Index, Index]:
    """Row and column indices of entries of the fitted matrix, checked."""
    if isinstance(X, Observations):
        rows, cols = X.rows, X.cols
    else:
        array = two_columns(X, type(estimator).__name__)
        try:
            validate_data(estimator, X, reset=False, skip_check_array=True)
        except (TypeError, ValueError) as error:
            raise DataError(str(error)) from None
        rows, cols = as_indices(array[:, 0], "row"), as_indices(array[:, 1], "column")
    check_range(rows, estimator.shape_[0], "row")
    check_range(cols, estimator.shape_[1], "column")
    return rows, cols


def fitted_kernels(estimator: Any) -> Kernels:
    """The kernels of the fit; None where nothing is known, or the method has no kernels."""
    kernels: Kernels = vars(estimator).get("_kernels", (None, None))
    return kernels


def chosen_from(estimator: Any) -> int:
    """Among how many candidates the method was chosen by looking at values."""
    return int(vars(estimator).get("_chosen_from", 1))


def mark_chosen(estimator: MatrixEstimator, count: int) -> None:
    """Note that the method was chosen among ``count`` candidates by looking at values."""
    estimator._chosen_from = count


# Small tools of the methods.


def checked_kernels(row_kernel: Any, col_kernel: Any) -> Kernels:
    """Both kernels, checked; None where nothing is known about an axis."""
    row = None if row_kernel is None else as_kernel(row_kernel, "row_kernel")
    if col_kernel is row_kernel:
        return row, row
    return row, None if col_kernel is None else as_kernel(col_kernel, "col_kernel")


def resolved(kernels: Kernels, shape: tuple[int, int]) -> tuple[Kernel, Kernel]:
    """Kernels for both axes: where nothing is known it is the identity."""
    row, col = (
        identity(size) if kernel is None else kernel
        for kernel, size in zip(kernels, shape, strict=True)
    )
    return row, col


def feature_columns(X: Any) -> dict[str, Any]:
    """What scikit-learn notes about the columns of X: how many there are, and their names."""
    if isinstance(X, Observations):
        return {"n_features_in_": 2}
    noted = BaseEstimator()
    try:
        validate_data(noted, X, reset=True, skip_check_array=True)
    except (TypeError, ValueError) as error:
        raise DataError(str(error)) from None
    return dict(vars(noted))


def effects_of(effects: AdditiveEffects | None, shape: tuple[int, int]) -> dict[str, Any]:
    """The additive part as attributes; zero where there is none."""
    if effects is None:
        effects = AdditiveEffects(0.0, np.zeros(shape[0]), np.zeros(shape[1]))
    return {"mean_": effects.mean, "row_effects_": effects.row, "col_effects_": effects.col}


def few_threads(m: int, small: int = SMALL) -> AbstractContextManager[None]:
    """One thread for a small problem, as many as there are for a large one."""
    return one_thread() if m <= small else nullcontext()


def check_not_empty(rows: Index) -> None:
    """Raise if there are no entries."""
    if len(rows) == 0:
        msg = "Found array with 0 sample(s) (shape=(0, 2)) while a minimum of 1 is required."
        raise EmptyDataError(msg)


def check_mu(mu: Any) -> None:
    """Raise unless ``mu`` is a positive finite number or "auto"."""
    if isinstance(mu, str) and mu == "auto":
        return
    if isinstance(mu, bool) or not isinstance(mu, Real) or not 0 < float(mu) < np.inf:
        msg = f'mu must be a positive finite number or "auto", got {mu!r}.'
        raise ParameterError(msg)


def check_rank(rank: Any, name: str = "rank") -> int:
    """Raise unless ``rank`` is a positive integer."""
    if isinstance(rank, bool) or not isinstance(rank, Integral) or int(rank) < 1:
        msg = f"{name} must be a positive integer, got {rank!r}."
        raise ParameterError(msg)
    return int(rank)

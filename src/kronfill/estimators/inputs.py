"""What users hand to estimators, checked: index pairs, values, positions."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.data.arrays import plain_array
from kronfill.errors import (
    DataError,
    IndexRangeError,
    NonFiniteError,
    ParameterError,
    ShapeError,
)
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.problem import Mask, Sampled

__all__ = [
    "as_indices", "as_sampled", "check_fourth_powers", "check_largest", "check_magnitude",
    "check_not_negative", "check_range", "check_shape", "column", "positions", "random_generator",
    "sampled_entries", "several_targets", "two_columns", "weights_of",
]  # fmt: skip

LARGEST = 1e100
"""Of values and of weights: a weight times a square is still a finite number."""
SMALLEST = 1 / LARGEST
FOURTH = 1e50
"""Fourth powers of larger values overflow soon, and those of values below its inverse vanish."""
MAX_INDEX = 2**53  # up to here floats are whole numbers without gaps


def two_columns(X: Any, name: str) -> NDArray[Any]:
    """X as an (m, 2) array; ``name`` is the estimator's."""
    wanted = "X must have shape (m, 2), one (row, column) pair per entry"
    if sp.issparse(X):
        msg = (
            f"{wanted}; got a sparse matrix of shape {X.shape}, and sparse input is not "
            "supported as X. If it holds the entries, use Observations.from_matrix."
        )
        raise ShapeError(msg)
    try:
        array = plain_array(X, "X")
    except ShapeError:
        msg = f"{wanted}; got nested sequences of different lengths."
        raise ShapeError(msg) from None
    if array.ndim != 2:
        msg = f"{wanted}; got shape {array.shape}. Reshape your data."
        raise ShapeError(msg)
    if array.shape[1] != 2:
        msg = (
            f"{wanted}; got shape {array.shape}: X has {array.shape[1]} features, but "
            f"{name} is expecting 2 features as input."
        )
        raise ShapeError(msg)
    return array


def check_shape(shape: tuple[int, int], sizes: tuple[int | None, int | None]) -> None:
    """Raise unless observations have the size that the side information describes."""
    for got, size, axis in zip(shape, sizes, ("rows", "columns"), strict=True):
        if size is not None and got != size:
            msg = (
                f"The observations have {got} {axis}, but what is known about the {axis} "
                f"describes {size}. Give one kernel item per {axis[:-1]}, cold ones included."
            )
            raise ShapeError(msg)


def weights_of(observations: Observations, y: Any, sample_weight: Any) -> Any:
    """Weights that count, given observations; their own values and weights have no rival."""
    if y is not None:
        msg = "y must be left out when X is an Observations: it has the values."
        raise ParameterError(msg)
    if sample_weight is None:
        return observations.weights
    if observations.weights is not None:
        msg = "Both the Observations and sample_weight have weights; give only one."
        raise ParameterError(msg)
    return sample_weight


def several_targets(y: Any) -> Floats | None:
    """Several targets as an array of shape (m, t); None if there is one."""
    given = plain_array(y, "y")
    if given.ndim != 2 or given.shape[1] < 2:
        return None
    try:
        array = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(str(error)) from None
    if not np.isfinite(array).all():
        k, j = np.argwhere(~np.isfinite(array))[0]
        msg = (
            f"values must be finite, got {array[k, j]} at position {k} of target {j}; targets that "
            "are observed at different entries are fitted one by one."
        )
        raise NonFiniteError(msg)
    return array


def column(y: Any) -> NDArray[Any]:
    """One value per entry; a column vector is taken with scikit-learn's warning."""
    array = plain_array(y, "y")
    if array.ndim == 1:
        return array
    try:
        return np.asarray(column_or_1d(array, warn=True))
    except (TypeError, ValueError) as error:
        raise ShapeError(str(error)) from None


def as_indices(column: NDArray[Any], axis: str, own: bool = True) -> Index:
    """Whole numbers as indices; anything else is an error that names the first offender."""
    if column.dtype.kind == "i" and not own:
        return column
    numbers = column
    if column.dtype.kind == "O":
        numbers = _objects_as_numbers(column)
    if numbers.dtype.kind not in "iuf":
        shown = f" such as {column[0]!r}" if len(column) else ""
        msg = (
            f"{axis} indices in X must be integers, got {column.dtype} values{shown}. Labels are "
            "turned into indices by Observations.from_long or scikit-learn's OrdinalEncoder."
        )
        raise IndexRangeError(msg)
    if numbers.dtype.kind == "f":
        whole = np.isfinite(numbers) & (numbers == np.floor(numbers))
        if not whole.all():
            at = int(np.flatnonzero(~whole)[0])
            shown = "NaN" if np.isnan(numbers[at]) else f"{numbers[at]}"
            msg = (
                f"{axis} indices in X must be integers, got {shown} at position {at}: no NaN, inf "
                "or fractions."
            )
            raise IndexRangeError(msg)
    if numbers.dtype.kind != "i" and (numbers > MAX_INDEX).any():
        at = int(np.flatnonzero(numbers > MAX_INDEX)[0])
        msg = (
            f"{axis} indices in X must be integers up to 2^53, got {numbers[at]} at position {at}."
        )
        raise IndexRangeError(msg)
    return np.array(numbers, dtype=np.intp, order="C")


def _objects_as_numbers(column: NDArray[Any]) -> NDArray[Any]:
    """Floats where all the objects are numbers, else the objects as they are."""
    if not all(isinstance(item, Real) and not isinstance(item, bool) for item in column):
        return column
    return column.astype(float)


def check_not_negative(index: Index, axis: str) -> None:
    """Raise if an index counts from the end."""
    if index.min() < 0:
        at = int(np.argmax(index < 0))
        msg = (
            f"Negative values in data: {axis} index {index[at]} at position {at}; {axis}s are "
            "counted from 0."
        )
        raise IndexRangeError(msg)


def check_largest(values: Floats, weights: Floats | None) -> None:
    """Raise if squares of values, or sums of weighted ones, would overflow."""
    if max(values.max(), -values.min()) > LARGEST:
        worst = int(np.abs(values).argmax())
        msg = (
            f"values must be at most {LARGEST:g} in size, got {values.flat[worst]:g} at position "
            f"{worst}: squares of larger ones overflow. Is it a code for a missing "
            "value? Leave it out; or divide all values by the same number."
        )
        raise DataError(msg)
    if weights is not None and weights.max() > LARGEST:
        msg = (
            f"weights must be at most {LARGEST:g}, got {weights.max():g} at position "
            f"{int(weights.argmax())}: sums of larger ones overflow. Divide all of them, and mu, "
            "by the same number, which changes no prediction."
        )
        raise DataError(msg)


def check_magnitude(values: Floats, weights: Floats | None) -> None:
    """Raise if squares overflow, or vanish for all values of a target or all weights."""
    check_largest(values, weights)
    largest = np.abs(values).max(axis=0).reshape(-1)
    small = np.flatnonzero((largest > 0) & (largest < SMALLEST))
    if len(small):
        msg = (
            f"The largest of the values must be at least {SMALLEST:g} in size, got "
            f"{largest[small[0]]:g}: squares of smaller ones vanish. Multiply all values by the "
            "same number."
        )
        raise DataError(msg)
    if weights is not None and 0 < weights.max() < SMALLEST:
        msg = (
            f"The largest of the weights must be at least {SMALLEST:g}, got {weights.max():g}: "
            "products with smaller ones vanish. Multiply all of them, and mu, by the same number, "
            "which changes no prediction."
        )
        raise DataError(msg)


def check_fourth_powers(values: Floats, weights: Floats | None) -> None:
    """Raise where squares of variances, which variational Bayes has, overflow or vanish."""
    check_magnitude(values, weights)
    largest = float(np.abs(values).max())
    if largest > 0 and not 1 / FOURTH <= largest <= FOURTH:
        msg = (
            f"The largest of the values must be between {1 / FOURTH:g} and {FOURTH:g} in size, got "
            f"{largest:g}: squares of variances would not be numbers. Multiply all values by the "
            "same number."
        )
        raise DataError(msg)


def sampled_entries(observations: Observations, center: Any) -> Sampled:
    """The observations in the form that the solvers take; entries of no weight are dropped."""
    rows, cols, weights = observations.rows, observations.cols, observations.weights
    values = observations.values
    if weights is not None and not weights.all():
        keep = weights > 0
        rows, cols, values, weights = rows[keep], cols[keep], values[keep], weights[keep]
    return as_sampled(rows, cols, values, observations.shape, weights, center)


def as_sampled(
    rows: Index,
    cols: Index,
    values: Floats,
    shape: tuple[int, int],
    weights: Floats | None,
    center: Any,
) -> Sampled:
    """Entries in the form that the solvers take, with the design of their effects, if any."""
    design = None if center is None else EffectsDesign(rows, cols, shape, center, weights)
    return Sampled(Mask(rows, cols, shape, weights), values, design)


def check_range(index: Index, size: int, axis: str) -> None:
    """Raise if an index is outside the fitted matrix."""
    bad = np.flatnonzero((index < 0) | (index >= size))
    if len(bad):
        msg = (
            f"{axis} index {index[bad[0]]} at position {bad[0]} is outside the fitted matrix, "
            f"which has {size} {axis}s (0 to {size - 1}). Where nothing is known about the "
            f"{axis}s, their number is taken from what fit is given: an Observations of the whole "
            f"shape, or a kernel, covers more. For {axis}s that are not in the table use "
            "extrapolate()."
        )
        raise IndexRangeError(msg)


def positions(items: Any, size: int, axis: str) -> Index | None:
    """Positions of known items, checked; None stands for all."""
    if items is None:
        return None
    index = as_indices(np.atleast_1d(plain_array(items, f"{axis} indices")), axis)
    check_range(index, size, axis)
    return index


def random_generator(random_state: Any) -> np.random.Generator:
    """The generator that a seed stands for, or the one that was given."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        msg = (
            "random_state must be a whole number that is not negative, a NumPy generator or "
            f"None, got {random_state!r}."
        )
        raise ParameterError(msg) from None

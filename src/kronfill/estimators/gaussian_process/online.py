"""What is asked of observations that keep arriving, before a solution is updated.

What an update does is in :mod:`kronfill.estimators.updates`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.data.arrays import plain_array, real_array
from kronfill.errors import DataError, ParameterError, ShapeError
from kronfill.estimators.base import check_not_empty, index_pairs
from kronfill.estimators.inputs import (
    check_largest,
    check_shape,
    column,
    positions,
    weights_of,
)
from kronfill.online.running import SOLVER

__all__ = [
    "check_start", "check_unchanged", "item_entries", "kept_stream", "more_observations",
    "some_entries",
]  # fmt: skip

FEWEST_FOR_AUTO = 20
"""A stream does not begin with mu="auto" on fewer observations."""


def check_start(estimator: Any, X: Any) -> None:
    """Refuse to begin a stream whose mu cannot be told from its first observations."""
    count = X.m if isinstance(X, Observations) else np.shape(X)[0] if np.ndim(X) else 0
    if isinstance(estimator.mu, str) and estimator.mu == "auto" and 0 < count < FEWEST_FOR_AUTO:
        msg = (
            f'mu="auto" is chosen by the first call and kept for all observations to come; '
            f"{count} cannot tell it. Give a number, or at least {FEWEST_FOR_AUTO} "
            "observations to begin with."
        )
        raise ParameterError(msg)


def kept_stream(estimator: Any) -> Any:
    """What the last call left to go on from; None if there was another fit since then."""
    stream = vars(estimator).get("_stream")
    usable = stream is not None and not stream.is_empty and stream.form is estimator._model
    return stream if usable else None


def check_unchanged(estimator: Any) -> None:
    """Refuse to go on from a fit with other parameters, or one whose sums are gone."""
    stream = kept_stream(estimator)
    if "_from_table" in vars(estimator) and stream is None:
        summed = estimator.solution_.solver == SOLVER
        where = "was read from a file" if summed else "is of a table that is not in memory"
        msg = (
            f"The fit {where}, and the sums over its observations were not kept: there is "
            "nothing to add to or to take from. Give the observations to partial_fit in "
            "batches, from the start."
        )
        raise DataError(msg)
    if estimator.mu != "auto" and float(estimator.mu) != estimator.mu_:
        msg = (
            f"mu was changed from {estimator.mu_:g} to {estimator.mu:g} since the fit; what was "
            "learnt so far belongs to the former. Set it back, or fit anew."
        )
        raise ParameterError(msg)
    if stream is not None and stream.center != estimator.center:
        msg = (
            f"center was changed from {stream.center!r} to {estimator.center!r} since the fit. Set "
            "it back, or fit anew."
        )
        raise ParameterError(msg)


def more_observations(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Observations:
    """Further observations of the fitted matrix, checked."""
    if isinstance(X, Observations):
        weights = weights_of(X, y, sample_weight)
        check_shape(X.shape, estimator.shape_)
        return X if weights is X.weights else X.with_weights(weights)
    if y is None:
        raise ParameterError(estimator._needs_y("partial_fit"))
    rows, cols = some_entries(estimator, X)
    return Observations(rows, cols, column(y), estimator.shape_, weights=sample_weight)


def some_entries(estimator: Any, X: Any) -> tuple[Index, Index]:
    """Rows and columns of at least one entry of the fitted matrix."""
    rows, cols = index_pairs(estimator, X)
    check_not_empty(rows)
    return rows, cols


def item_entries(
    index: Any, values: Any, sample_weight: Any, size: int, axis: str
) -> tuple[Index, Floats, Floats]:
    """Observations of a new item that have a weight, checked."""
    where = positions(plain_array(index, "index"), size, axis)
    assert where is not None
    y = real_array(values, "values").reshape(-1)
    weights = np.ones(len(where))
    if sample_weight is not None:
        weights = real_array(sample_weight, "sample_weight")
    if len(where):
        none = np.zeros(len(where), np.intp)
        Observations(none, where, y, (1, size), weights=weights)  # raises what is wrong with them
        check_largest(y, weights)
    elif len(y):
        msg = f"index has no entry, but values have {len(y)}; give one value per entry."
        raise ShapeError(msg)
    used = weights > 0
    return where[used], y[used], weights[used]

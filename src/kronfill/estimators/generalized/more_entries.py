"""Further observations of a fitted method: the old ones with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import MatrixEstimator, check_not_empty, index_pairs
from kronfill.estimators.inputs import check_shape, column, weights_of

__all__ = ["with_more"]


def with_more(
    estimator: MatrixEstimator, X: Any, y: Any, sample_weight: Any
) -> tuple[Observations, Observations]:
    """The new observations, and all of them: the old ones first."""
    old: Observations = vars(estimator)["observations_"]
    if isinstance(X, Observations):
        weights = weights_of(X, y, sample_weight)
        check_shape(X.shape, old.shape)
        new = X if weights is X.weights else X.with_weights(weights)
    else:
        if y is None:
            msg = f"{type(estimator).__name__}.partial_fit requires y, but y is None."
            raise ParameterError(msg)
        rows, cols = index_pairs(estimator, X)
        check_not_empty(rows)
        new = Observations(rows, cols, column(y), old.shape, weights=sample_weight)
    both = None
    if old.weights is not None or new.weights is not None:
        both = np.concatenate([_weights(old), _weights(new)])
    rows, cols, values = (
        np.concatenate([getattr(one, name) for one in (old, new)])
        for name in ("rows", "cols", "values")
    )
    labels = {"row_labels": old.row_labels, "col_labels": old.col_labels}
    return new, Observations(rows, cols, values, old.shape, weights=both, **labels)


def _weights(observations: Observations) -> Floats:
    given = observations.weights
    return np.ones(observations.m) if given is None else given

"""Ways to leave observations out other than a split: each by itself, folds, rows and columns."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from sklearn.base import clone

from kronfill._types import Index
from kronfill.criteria.exact import leave_one_out, leave_one_out_by
from kronfill.data import Observations
from kronfill.errors import DataError
from kronfill.estimators.base import MatrixRegressor, few_threads
from kronfill.estimators.conformal.calibration import held_items, held_pairs, items_in_turn
from kronfill.estimators.conformal.left_out_errors import (
    LeavingFoldsOut,
    LeavingOneOut,
    dual_problem,
)
from kronfill.estimators.folds import left_out
from kronfill.estimators.gaussian_process.regressor import (
    GaussianProcessRegressor,
    gaussian_process,
)

__all__ = ["each_left_out", "folds_left_out", "new_items"]


def each_left_out(model: GaussianProcessRegressor, observations: Observations) -> LeavingOneOut:
    """Jackknife+ by the factorised system of one fit."""
    model.fit(observations)
    problem = dual_problem(model)
    with few_threads(observations.m):
        factor = gaussian_process(model).dual_factor
        if factor is not None:
            residuals = leave_one_out_by(factor, problem.sampled)
        else:
            residuals = leave_one_out(problem, np.array([problem.mu]))[0]
    lonely = np.isnan(residuals)  # left out, nothing is known about its effect: any error
    return LeavingOneOut(model, np.where(lonely, 0.0, residuals), lonely)


def folds_left_out(
    model: MatrixRegressor, observations: Observations, label: Index
) -> LeavingFoldsOut:
    """CV+: one fit without each fold."""
    splits = ((label != k, label == k) for k in range(int(label.max()) + 1))
    found = list(left_out(lambda part: clone(model).fit(part), observations, splits))
    scores = np.empty(observations.m)
    for k, fold in enumerate(found):
        scores[label == k] = np.abs(fold.gap)
    models = tuple(fold.model for fold in found)
    return LeavingFoldsOut(model.fit(observations), scores, models, label)


def new_items(
    estimator: Any, observations: Observations, way: str, scores: str, seed: int
) -> tuple[Any, ...]:
    """Errors on left-out rows, columns, and both; or why there are none."""
    found = list[Any]()
    for axis in (0, 1, 2):
        model = cast("MatrixRegressor", clone(estimator))
        try:
            if axis == 2:
                found.append(held_pairs(model, observations, scores=scores, seed=seed))
            elif way == "split":
                found.append(held_items(model, observations, axis, scores=scores, seed=seed))
            else:
                found.append(items_in_turn(model, observations, axis, scores=scores))
        except DataError as error:
            found.append(str(error))
    return tuple(found)

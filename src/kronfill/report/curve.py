"""The error along the ridge weight, on all observations or on a sample of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill.completion.judging.evaluation import FOLDS, counted
from kronfill.data import Observations
from kronfill.errors import EmptyDataError
from kronfill.estimators.base import (
    KernelRegressor,
    MatrixRegressor,
    fitted_kernels,
    resolved,
)
from kronfill.estimators.gaussian_process.regressor import GaussianProcessRegressor
from kronfill.report.content import Path
from kronfill.selection import EntryKFold, mu_path

__all__ = ["LIMIT", "error_path", "part_of"]

LIMIT = 1000
"""Up to this many observations the curve is that of all of them."""


def error_path(model: MatrixRegressor, seed: int = 0) -> Path | None:
    """Leave-one-out error of KKMCEX and RRMCEX, cross-validated error of the others.

    None where there is none: too few observations, every entry alone determines an effect, or a
    method that has no mu to be given.
    """
    obs = counted(model.observations_)
    if obs.m < 3 or "mu" not in model.get_params(deep=False):
        return None
    twin, part = part_of(model, LIMIT, seed)
    name = "loo" if isinstance(model, GaussianProcessRegressor) else "cv"
    folds = EntryKFold(min(FOLDS, part.m))
    found = mu_path(twin, part, criterion=name, cv=folds)
    there = ~np.isnan(found.criteria[name])
    square, error = found.criteria[name][there], found.errors[name][there]
    try:
        best = found.mu
    except EmptyDataError:
        return None
    # The standard error of a root is that of the square over twice the root.
    with np.errstate(divide="ignore", invalid="ignore"):
        rmse = np.sqrt(square)
        margin = error / (2 * rmse)
    return Path(
        criterion=name,
        how=found.method,
        observations=part.m,
        sampled=part.m < obs.m,
        mus=found.mus[there].tolist(),
        rmse=rmse.tolist(),
        margin=[float(x) if np.isfinite(x) else None for x in margin],
        best_mu=float(best),
        best_rmse=float(np.nanmin(rmse)),
    )


def part_of(model: MatrixRegressor, most: int, seed: int) -> tuple[MatrixRegressor, Observations]:
    """The method on a random sample of the observations, over the rows and columns it touches."""
    obs = counted(model.observations_)
    if obs.m <= most:
        return model, obs
    chosen = np.sort(np.random.default_rng(seed).choice(obs.m, size=most, replace=False))
    part = obs.take(chosen)
    if not isinstance(model, KernelRegressor):
        return model, part
    rows, at_r = np.unique(part.rows, return_inverse=True)
    cols, at_c = np.unique(part.cols, return_inverse=True)
    row, col = resolved(fitted_kernels(model), model.shape_)
    kernels: dict[str, Any] = {"row_kernel": row.take(rows), "col_kernel": col.take(cols)}
    small = Observations(at_r, at_c, part.values, (len(rows), len(cols)), weights=part.weights)
    return type(model)(**{**model.get_params(deep=False), **kernels}), small

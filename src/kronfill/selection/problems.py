"""From an estimator and observations to the ridge problem that it would solve."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

from kronfill.core.threads import one_thread
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators import KKMCEX, RRMCEX
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.rrmcex import _leading
from kronfill.ridge.problem import RidgeProblem
from kronfill.solvers.half_steps import GivenFactor

__all__ = ["checked", "few_threads", "ridge_problem"]

SMALL = 500
"""Up to this many observations more threads cost more than they save."""


def few_threads(m: int) -> AbstractContextManager[None]:
    """One thread for a small problem, as many as there are for a large one."""
    return one_thread() if m <= SMALL else nullcontext()


def checked(
    estimator: Any, X: Any, y: Any = None, sample_weight: Any = None
) -> tuple[MatrixRegressor, Observations]:
    """A copy of the estimator with its kernels checked, and the observations."""
    if not isinstance(estimator, MatrixRegressor):
        msg = (
            "The estimator must be one of kronfill's (KKMCEX, RRMCEX, KMC, IMC, MC), got "
            f"{type(estimator).__name__}. For others use the splitters in scikit-learn's tools."
        )
        raise ParameterError(msg)
    twin = copy.copy(estimator)
    sizes = twin._axis_sizes()
    observations = twin._observations(X, y, sample_weight, sizes)
    twin.shape_ = observations.shape
    return twin, observations


def ridge_problem(estimator: MatrixRegressor, observations: Observations) -> RidgeProblem:
    """The problem of a KKMCEX or RRMCEX that :func:`checked` returned; its mu is 1."""
    if not isinstance(estimator, KKMCEX | RRMCEX):
        msg = (
            "This needs a method that is linear in the observations, KKMCEX or RRMCEX; got "
            f"{type(estimator).__name__}. Use cross-validation with a splitter instead."
        )
        raise ParameterError(msg)
    row, col = estimator._resolved()
    sampled = estimator._sampled(observations, estimator.center)
    if isinstance(estimator, KKMCEX):
        return RidgeProblem(row, col, sampled, 1.0)
    row_phi = _leading(row, estimator.row_rank).known(None)
    col_phi = _leading(col, estimator.col_rank).known(None)
    return RidgeProblem(
        cast("Any", GivenFactor(row_phi)), cast("Any", GivenFactor(col_phi)), sampled, 1.0
    )

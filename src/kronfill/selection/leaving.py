"""Residuals of entries, rows or columns that are left out, without a refit for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.criteria.exact import criteria, exact_form, group_residuals
from kronfill.criteria.reduction import DualForm
from kronfill.criteria.stochastic import leave_group_out_at, leave_one_out_at
from kronfill.data.arrays import plain_array
from kronfill.errors import ParameterError
from kronfill.estimators.base import few_threads
from kronfill.ridge.problem import RidgeProblem
from kronfill.selection.path import EXACT_WORK, ridge_problem

__all__ = ["leave_out"]


ALL_WORK = 10 * EXACT_WORK
"""Multiplications that may be spent on leaving out all there is: m = 11,000 dual."""


def leave_out(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    by: str = "entry",
    items: Any = None,
    sample_weight: Any = None,
) -> Floats:
    """Residuals of entries, rows or columns when they are left out, without refitting.

    Parameters
    ----------
    estimator : KKMCEX or RRMCEX
        With a number as mu. It is not changed.
    X : array-like of shape (m, 2) or Observations
        Observed entries.
    y : array-like of shape (m,), optional
        Their values; left out when ``X`` is an :class:`~kronfill.Observations`.
    by : {"entry", "row", "column"}, default="entry"
        What is left out together.
    items : array-like of int, optional
        Which entries (their positions), rows or columns to leave out; all by default. Where there
        are too many observations for the exact formula it must be given: each is then a solve.
    sample_weight : array-like of shape (m,), optional
        Weights.

    Returns
    -------
    ndarray of shape (m,)
        Value less prediction, in the order of the observations; NaN where there is no such
        prediction, for entries of weight zero, and for those that are not left out.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.selection import leave_out
    >>> X, y = np.array([[0, 0], [0, 1], [1, 0]]), np.array([1.0, 2.0, 4.0])
    >>> leave_out(kf.KKMCEX(np.eye(2), np.eye(2), center="mean"), X, y).round(2)
    array([-2. , -0.5,  2.5])
    """
    if by not in ("entry", "row", "column"):
        msg = f"by must be 'entry', 'row' or 'column', got {by!r}."
        raise ParameterError(msg)
    observations, problem = ridge_problem(estimator, X, y, sample_weight)
    if isinstance(estimator.mu, str):
        msg = "leave_out needs a number as mu; mu_path(estimator, X, y).mu chooses one."
        raise ParameterError(msg)
    mus = np.array([float(estimator.mu)])
    groups = {"entry": np.arange(observations.m), "row": observations.rows}
    group = groups.get(by, observations.cols)
    chosen = None if items is None else _items(items, group, by)
    out = np.full(observations.m, np.nan)
    counted = slice(None) if observations.weights is None else observations.weights > 0
    with few_threads(observations.m):
        out[counted] = _left_out(problem, group[counted], by, chosen, mus)
    if chosen is not None:
        out[~np.isin(group, chosen)] = np.nan
    return out


def _items(items: Any, group: Index, by: str) -> Index:
    """What is to be left out, checked."""
    chosen = np.atleast_1d(plain_array(items, "items"))
    whole = chosen.ndim == 1 and np.issubdtype(chosen.dtype, np.integer)
    if not whole or len(np.setdiff1d(chosen, group)):
        what = "positions of observations" if by == "entry" else f"{by}s with observations"
        msg = f"items must be {what}, as integers, got {items!r}."
        raise ParameterError(msg)
    return chosen.astype(np.intp)


def _left_out(
    problem: RidgeProblem, group: Index, by: str, chosen: Index | None, mus: Floats
) -> Floats:
    """Residuals at one mu, exact where that is affordable."""
    s, work = problem.sampled, EXACT_WORK if chosen is not None else ALL_WORK
    if by == "entry":
        reduced = exact_form(problem, work)
        if reduced is not None:
            return np.asarray(criteria(reduced, mus).residuals[0])
    elif 4.0 * s.m**3 <= work:
        return np.asarray(group_residuals(DualForm.of(problem), s, group, mus)[0])
    if chosen is None:
        msg = (
            f"{s.m:,} observations with these ranks are too many to leave out every {by}. Name "
            "some with items=..., or estimate the mean square error by mu_path(..., "
            f"criterion={('loo' if by == 'entry' else by)!r})."
        )
        raise ParameterError(msg)
    if by != "entry":
        return np.asarray(leave_group_out_at(problem, group, chosen, mus)[0])
    out = np.full(s.m, np.nan)
    entries = np.flatnonzero(np.isin(group, chosen))
    out[entries] = leave_one_out_at(problem, entries, mus)[0]
    return out

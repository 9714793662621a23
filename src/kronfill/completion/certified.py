"""A certificate beside a completed table: a part is set aside, judged by, and then used as well."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from kronfill.completion.problem import CompletionProblem
from kronfill.data import Observations
from kronfill.errors import EmptyDataError, ParameterError, argument
from kronfill.estimators.base import fitted_form, inner_method
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.estimators.fitted.identity_part import IdentityForm
from kronfill.estimators.transformed.regressor import TransformedRegressor

if TYPE_CHECKING:
    from kronfill.bounds import Certificate
    from kronfill.bounds.new_rows import NewItemsCertificate

__all__ = [
    "can_be_certified", "certify", "certify_new_items", "check_as_they_are", "check_certify",
    "other_scale",
]  # fmt: skip

AXES = ("rows", "cols")


def check_certify(value_range: Any, share: Any, new: Any = None) -> None:
    """Raise unless the share is one and comes with a range, if it is given."""
    if new is not None and new not in AXES:
        msg = f"{argument('certify_new')} must be one of {AXES}, got {new!r}."
        raise ParameterError(msg)
    if new is not None and share is None:
        msg = (
            f"{argument('certify_new')} needs {argument('certify')}, the share of the {new} that "
            "is set aside, such as 0.2."
        )
        raise ParameterError(msg)
    if share is None:
        return
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < float(share) < 1:
        msg = (
            f"{argument('certify')} is the share of the observed entries that is set aside to "
            f"judge the predictions by, above 0 and below 1, such as 0.1; got {share!r}."
        )
        raise ParameterError(msg)
    if value_range is None:
        msg = (
            f"{argument('certify')} needs {argument('value_range')}, (low, high): a range that all "
            "values, observed or not, are known to obey from what the numbers mean."
        )
        raise ParameterError(msg)
    from kronfill.bounds.losses import as_value_range

    as_value_range(value_range)


def check_as_they_are(transform: Any, rounded: Any) -> None:
    """Raise if values are to be fitted on a scale of which certificates do not speak."""
    told = [] if transform in (None, "auto") else [argument("transform", transform)]
    told += [argument("round", rounded)] if rounded else []
    if told:
        raise other_scale(" and ".join(told))


def other_scale(words: str) -> ParameterError:
    """What is said where values are fitted on another scale, or rounded."""
    return ParameterError(
        "Certificates are about values that are fitted as they are, and these are fitted on "
        f"another scale or rounded ({words}): use {argument('transform', None)} and "
        f"{argument('round', False)}."
    )


def can_be_certified(model: Any) -> bool:
    """Whether bounds speak of a fitted method: one of the five, on values as they are."""
    plain = not isinstance(model, TransformedRegressor) or (
        model.scale_.kind == "none" and not model.rounded
    )
    return plain and isinstance(fitted_form(inner_method(model)), Bilinear | IdentityForm)


def certify(
    problem: CompletionProblem, value_range: tuple[float, float], share: float, seed: Any = 0
) -> Certificate:
    """Bound the loss of the method of a problem, fitted to all but a random share of its entries.

    Parameters
    ----------
    problem : CompletionProblem
        The table and the method. Nothing may have been chosen by a look at its values yet; what the
        fit chooses, it chooses without the part that is set aside.
    value_range : tuple of float
        Range (low, high) that all values obey.
    share : float
        Share of the observed entries that is set aside.
    seed : int or Generator, default=0
        Seed of the draw.

    Returns
    -------
    Certificate
        It says of which model it speaks.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.completion.certified import certify
    >>> from kronfill.completion.problem import CompletionProblem
    >>> rng = np.random.default_rng(0)
    >>> table = np.where(rng.random((60, 50)) < 0.5, rng.random((60, 50)) / 10, np.nan)
    >>> found = certify(CompletionProblem.of(table, method="mc", rank=1), (0, 1), 0.2)
    >>> found.valid, found.value < 0.03
    (True, True)
    """
    from kronfill.bounds import certificate

    check_certify(value_range, share)
    problem = _as_they_are(problem)
    if problem.likelihood != "gaussian":
        msg = (
            f"{argument('certify')} is for values that are numbers: leave it or "
            f"{argument('likelihood', problem.likelihood)} out."
        )
        raise ParameterError(msg)
    obs = problem.observations
    held = _random(seed).permutation(obs.m) < max(1, round(share * obs.m))
    if held.all():
        msg = f"A certificate needs entries to fit and others to judge by, got {obs.m} in all."
        raise EmptyDataError(msg)
    train = obs.take(~held)
    model = replace(problem, observations=train).fit()
    found = certificate(model, value_range, holdout=obs.take(held))
    return replace(found, about=_about(train, obs))


def certify_new_items(
    problem: CompletionProblem,
    value_range: tuple[float, float],
    share: float,
    axis: str = "rows",
    seed: Any = 0,
) -> NewItemsCertificate:
    """Bound the loss on rows (columns) without observations, from a share of the others.

    Parameters
    ----------
    problem : CompletionProblem
        The table and the method, as for :func:`certify`.
    value_range : tuple of float
        Range (low, high) that all values obey.
    share : float
        Share of the rows (columns) with observations that is set aside, whole.
    axis : {"rows", "cols"}, default="rows"
        Which of the two.
    seed : int or Generator, default=0
        Seed of the draw.

    Returns
    -------
    NewItemsCertificate

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from kronfill.completion.certified import certify_new_items
    >>> from kronfill.completion.problem import CompletionProblem
    >>> rng = np.random.default_rng(0)
    >>> table = np.where(rng.random((90, 10)) < 0.5, 0.1 * rng.random((90, 10)), np.nan)
    >>> problem = CompletionProblem.of(table, method="mc", rank=1)
    >>> found = certify_new_items(problem, (0, 1), 0.3)
    >>> found.held_out, found.value < 0.2
    (27, True)
    """
    from kronfill.bounds import new_items_certificate

    check_certify(value_range, share, axis)
    problem = _as_they_are(problem)
    obs, at = problem.observations, AXES.index(axis)
    known = np.flatnonzero((obs.row_counts, obs.col_counts)[at])
    drawn = _random(seed).permutation(known)[: max(1, round(share * len(known)))]
    if len(drawn) == len(known):
        name = ("row", "column")[at]
        msg = f"A certificate for new {name}s needs some to fit and others to judge by."
        raise EmptyDataError(msg)
    held = np.isin((obs.rows, obs.cols)[at], drawn)
    train = obs.take(~held)
    model = replace(problem, observations=train).fit()
    found = new_items_certificate(model, value_range, obs.take(held), axis=axis)
    return replace(found, about=_about(train, obs))


def _as_they_are(problem: CompletionProblem) -> CompletionProblem:
    """The problem with the method alone; what is clipped is no further from values in the range."""
    plain = problem.as_fitted()
    if isinstance(plain.estimator, TransformedRegressor):
        check_as_they_are(plain.estimator.scale, plain.estimator.rounded)
    return plain


def _about(train: Observations, everything: Observations) -> str:
    return (
        f"It speaks of the model fitted to {train.m:,} of the {everything.m:,} observed entries, "
        "its predictions clipped to the range. The table is completed by the same method fitted to "
        "all of them, which should do no worse; of that nothing is proved."
    )


def _random(seed: Any) -> np.random.Generator:
    return seed if isinstance(seed, np.random.Generator) else np.random.default_rng(_number(seed))


def _number(seed: Any) -> Any:
    return seed if seed is None or isinstance(seed, int) else 0

"""Tables of yes or no, of counts and of ordered levels: recognised, fitted, and what ends mean."""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill._types import Floats
from kronfill.errors import DataError, ParameterError, argument
from kronfill.estimators import KKMCEX, KKMCEXClassifier, KKMCEXPoisson, LinkedRegressor
from kronfill.estimators.base import MatrixRegressor, inner_method

__all__ = [
    "LIKELIHOODS", "MEANINGS", "described_method", "level_names", "likelihood_of", "linked",
    "method_words",
    "possible_ends", "recognised", "recorded", "settled",
]  # fmt: skip

LIKELIHOODS = ("gaussian", "bernoulli", "poisson", "ordinal", "auto")
MEANINGS = {
    "bernoulli": "yes or no: values are probabilities of 1",
    "poisson": "counts: values are expected counts",
    "ordinal": "ordered levels: values are expected ratings",
}
SMALL_MEAN = 100.0
"""Counts of a larger mean scatter by more than their number says."""


def recognised(values: Floats) -> tuple[str, str]:
    """The likelihood that values call for, and why.

    Yes or no are 0 and 1. Counts are whole numbers from 0 on, most of them small beside the
    largest: ratings from 0 to 10 are not, nor are ratings from 1 to 5, which stay numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.completion.likelihood import recognised
    >>> recognised(np.array([0.0, 1.0, 1.0]))
    ('bernoulli', 'all values are 0 or 1')
    >>> recognised(np.array([0.0, 3.0, 1.0, 7.0]))[0], recognised(np.array([1.0, 5.0, 4.0]))[0]
    ('poisson', 'gaussian')
    """
    low, high, mean = float(values.min()), float(values.max()), float(values.mean())
    if low == 0 and high == 1 and bool(((values == 0) | (values == 1)).all()):
        return "bernoulli", "all values are 0 or 1"
    whole = low == 0 and bool((values == np.floor(values)).all())
    if whole and high > 1 and 2 * mean < high and mean <= SMALL_MEAN:
        return "poisson", f"all values are whole numbers from 0 to {high:g}, most of them small"
    return "gaussian", "the values are neither 0 and 1 nor small counts"


def settled(likelihood: Any, negatives: Any, values: Floats) -> tuple[str, str]:
    """The likelihood to use, and why if it was found out."""
    if likelihood not in LIKELIHOODS:
        msg = f"likelihood must be one of {LIKELIHOODS}, got {likelihood!r}."
        raise ParameterError(msg)
    if negatives not in (None, "sample"):
        msg = f"{argument('negatives')} must be None or 'sample', got {negatives!r}."
        raise ParameterError(msg)
    if negatives is not None:
        if likelihood not in ("bernoulli", "auto"):
            msg = (
                f"{argument('negatives', 'sample')} draws zeros for a table of ones: it needs "
                f"{argument('likelihood', 'bernoulli')}, got {likelihood!r}."
            )
            raise ParameterError(msg)
        return "bernoulli", "ones alone are recorded"
    if likelihood == "auto":
        if (values == 1).all():
            msg = (
                "All values are 1. If zeros are not recorded, use "
                f"{argument('negatives', 'sample')}; if these are numbers, "
                f"{argument('likelihood', 'gaussian')}."
            )
            raise DataError(msg)
        return recognised(values)
    return str(likelihood), ""


def linked(
    estimator: MatrixRegressor, likelihood: str, negatives: Any, random_state: Any
) -> MatrixRegressor:
    """The method for values with a likelihood; as it is for Gaussian ones."""
    if likelihood == "gaussian":
        return estimator
    inner: Any = estimator
    if type(estimator) is KKMCEX and likelihood != "ordinal":
        kind = KKMCEXClassifier if likelihood == "bernoulli" else KKMCEXPoisson
        inner = kind(estimator.row_kernel, estimator.col_kernel, estimator.mu, estimator.center)
    return LinkedRegressor(inner, likelihood, negatives, random_state=random_state)


def likelihood_of(model: Any) -> str:
    """The likelihood of a fitted method."""
    return str(model.likelihood) if isinstance(model, LinkedRegressor) else "gaussian"


def described_method(model: Any) -> Any:
    """The method that knows what rows and columns are like: behind a link, or another scale."""
    return inner_method(model)


def method_words(model: Any) -> str:
    """The method by name, and what its values are if they are not those of the table."""
    inner = described_method(model)
    inner = model.estimator if inner is model and isinstance(model, LinkedRegressor) else inner
    name = type(inner).__name__
    words = MEANINGS.get(likelihood_of(model))
    return name if words is None else f"{name} for {words.partition(':')[0]}"


def level_names(model: Any) -> list[str]:
    """What the probabilities of levels are called; none of two levels, the mean tells both."""
    if not isinstance(model, LinkedRegressor) or len(model.levels_) <= 2:
        return []
    return [f"P({level:g})" for level in model.levels_]


def recorded(model: Any) -> bool:
    """Whether what was observed says how often an entry is what: not where ones alone are."""
    return not (isinstance(model, LinkedRegressor) and model.negatives is not None)


def possible_ends(model: Any, low: Floats, high: Floats, middle: Floats) -> tuple[Floats, Floats]:
    """The smallest and the largest possible value between two ends.

    Coverage stays as it is, for no value lies between. Where none is inside, it is the nearest one.
    """
    if not isinstance(model, LinkedRegressor):
        return low, high
    levels = model.levels_
    if not len(levels):
        near = np.round(middle)
        first = np.maximum(np.ceil(low - 1e-9), 0.0)
        last = np.floor(high + 1e-9)
    else:
        near = levels[np.abs(levels - middle[..., None]).argmin(axis=-1)]
        inner = np.concatenate([levels, [np.inf]])
        first = inner[np.searchsorted(levels, low - 1e-9)]
        last = np.concatenate([[-np.inf], levels])[np.searchsorted(levels, high + 1e-9, "right")]
    empty = first > last
    none = np.isnan(low) | np.isnan(high)
    return (
        np.where(none, np.nan, np.where(empty, near, first)),
        np.where(none, np.nan, np.where(empty, near, last)),
    )

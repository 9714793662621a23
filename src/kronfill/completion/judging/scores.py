"""How far predictions are from hidden values, and how likely they said that these were."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from kronfill._types import Floats, Index
from kronfill.likelihoods.families import Poisson

__all__ = ["HiddenEntries", "Score", "joined_entries", "score", "share_above"]

LEAST_SHARE = 1e-3
"""Simple rules are not surer than this of yes or no, nor expect fewer counts."""


@dataclass(frozen=True)
class Score:
    """How far predictions are from what was observed.

    Attributes
    ----------
    rmse, mae : float
        Root mean square error and mean absolute error.
    r2 : float or None
        Share of the variance explained; None for values that do not vary.
    deviance : float or None
        Of yes or no, counts and ordered levels: twice the mean negative log likelihood above that
        of a perfect prediction; None for numbers, and for rules without probabilities.
    auc, average_precision : float or None
        Of yes or no: the share of pairs of a 1 and a 0 in the right order, and the mean over the
        ones of the share of ones among those ranked as high.
    """

    rmse: float
    mae: float
    r2: float | None
    deviance: float | None = None
    auc: float | None = None
    average_precision: float | None = None


@dataclass(frozen=True, eq=False)
class HiddenEntries:
    """Entries of one kind that were hidden from the fit that predicts them.

    Attributes
    ----------
    rows, cols : ndarray of int
        Where they are.
    observed : ndarray
        Their values.
    predicted : ndarray
        What the method says from the other observations.
    mean, effects : ndarray
        What two simple rules say from the same: the mean of all values; mean, row effect and
        column effect.
    deviances : ndarray
        Of each value by the method; empty where values are numbers.
    likelihood : str
        What values are.
    """

    rows: Index
    cols: Index
    observed: Floats
    predicted: Floats
    mean: Floats
    effects: Floats
    deviances: Floats = field(default_factory=lambda: np.empty(0))
    likelihood: str = "gaussian"

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, where: Any) -> HiddenEntries:
        """Some of the entries."""
        arrays: dict[str, Any] = {name: getattr(self, name)[where] for name in _ARRAYS}
        if len(self.deviances):
            arrays["deviances"] = self.deviances[where]
        return replace(self, **arrays)

    def scores(self) -> tuple[Score, Score, Score]:
        """Scores of the method, of the mean, and of mean, row and column effects."""
        guesses = (self.predicted, self.mean, self.effects)
        own, mean, effects = (
            score(self.observed, guess, self.likelihood, deviances)
            for guess, deviances in zip(guesses, self._deviances(), strict=True)
        )
        return own, mean, effects

    def losses(self) -> tuple[Floats, Floats, Floats]:
        """What each entry costs the method and the rules: a squared error, or a deviance."""
        own, mean, effects = self._deviances()
        if own is not None and mean is not None and effects is not None:
            return own, mean, effects
        guesses = (self.predicted, self.mean, self.effects)
        one, two, three = ((self.observed - guess) ** 2 for guess in guesses)
        return one, two, three

    def _deviances(self) -> tuple[Floats | None, Floats | None, Floats | None]:
        if self.likelihood == "gaussian":
            return None, None, None
        return (
            self.deviances,
            deviance_of(self.observed, self.mean, self.likelihood),
            deviance_of(self.observed, self.effects, self.likelihood),
        )


_ARRAYS = ("rows", "cols", "observed", "predicted", "mean", "effects")


def joined_entries(parts: list[HiddenEntries]) -> HiddenEntries:
    """All of them together."""
    names = (*_ARRAYS, "deviances")
    whole: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in names
    }
    return replace(parts[0], **whole)


def deviance_of(observed: Floats, guess: Floats, likelihood: str) -> Floats | None:
    """Deviance of values for expected ones; None where an expected value gives no probability."""
    if likelihood == "bernoulli":
        share = np.clip(guess, LEAST_SHARE, 1.0 - LEAST_SHARE)
        return -2.0 * np.log(np.where(observed > 0.5, share, 1.0 - share))
    if likelihood == "poisson":
        return Poisson().deviance(observed, np.log(np.maximum(guess, LEAST_SHARE)))
    return None


def score(
    observed: Floats,
    predicted: Floats,
    likelihood: str = "gaussian",
    deviances: Floats | None = None,
) -> Score:
    """Root mean square and mean absolute error, and the share of the variance explained.

    Of yes or no, counts and ordered levels the mean deviance too, and of yes or no how well they
    are told apart.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.completion.judging.scores import score
    >>> score(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])).rmse
    0.0
    >>> score(np.array([0.0, 1.0, 1.0]), np.array([0.2, 0.1, 0.9]), "bernoulli").auc
    0.5
    """
    gap = observed - predicted
    spread = float(np.mean((observed - observed.mean()) ** 2))
    square = float(np.mean(gap**2))
    r2 = 1.0 - square / spread if spread > 0 else None
    more: dict[str, float | None] = {}
    if deviances is not None:
        more["deviance"] = float(deviances.mean())
    if likelihood == "bernoulli" and spread > 0:
        more["auc"] = share_above(predicted, observed > 0.5)
        more["average_precision"] = _average_precision(predicted, observed > 0.5)
    return Score(float(np.sqrt(square)), float(np.mean(np.abs(gap))), r2, **more)


def share_above(scores: Floats, ones: Any) -> float:
    """Share of pairs of a one and another in the right order, ties counting half."""
    count, others = int(ones.sum()), int((~ones).sum())
    above = rankdata(scores)[ones].sum() - count * (count + 1) / 2
    return float(above / (count * others))


def _average_precision(scores: Floats, ones: Any) -> float:
    """Mean precision at the ones; those with equal scores are taken together."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(ones[order])
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    gained = np.diff(hits[last], prepend=0)
    return float((gained * hits[last] / (last + 1)).sum() / hits[-1])

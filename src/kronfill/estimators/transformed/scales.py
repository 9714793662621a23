"""Scales on which values are nearer to a normal distribution, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, ndtri

from kronfill._stored import Stored, Tests, floats, one_of, real
from kronfill._types import Floats
from kronfill.errors import ParameterError, argument

__all__ = ["SCALES", "WORDS", "ValueScale", "are_skewed"]

SCALES = ("log", "sqrt", "ranks")
"""Scales for positive values."""
WORDS = {
    "none": "as they are", "log": "logarithms", "sqrt": "square roots",
    "ranks": "normal scores of their ranks", "range": "log odds within the range",
}  # fmt: skip
KNOTS = 257
"""Values between which normal scores are interpolated."""
SKEWED, VARIED = 1.0, 0.5
"""Skewness, and standard deviation by the mean, from which on values may need another scale."""
MARGIN = 0.01
"""Share of the range that is added at its ends, so that values there have finite log odds."""


def are_skewed(values: Floats) -> bool:
    """Whether values are positive, vary by much of their size, and have a long upper tail.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.estimators.transformed.scales import are_skewed
    >>> x = np.random.default_rng(0).standard_normal(500)
    >>> are_skewed(np.exp(x)), are_skewed(10 + x), are_skewed(x)
    (True, False, False)
    """
    if values.size < 3 or values.min() < 0:
        return False
    top = float(values.max())
    values = values / top if top > 0 else values  # powers of very large ones overflow
    mean, std = float(values.mean()), float(values.std())
    if not std > VARIED * mean:
        return False
    return float(np.mean(((values - mean) / std) ** 3)) > SKEWED


@dataclass(frozen=True, eq=False)
class ValueScale(Stored):
    """A rising function of values and its inverse, as plain numbers.

    Attributes
    ----------
    kind : {"none", "log", "sqrt", "ranks", "range"}
        The function.
    shift : float
        What is added before a logarithm is taken: to values, or to both distances from the ends.
    low, high : float
        Ends of the range of "range".
    knots, scores : ndarray
        Values and their scores, of "ranks".
    """

    kind: str
    shift: float
    low: float
    high: float
    knots: Floats
    scores: Floats
    stored: ClassVar[Tests] = {
        "kind": one_of(*WORDS), "shift": real, "low": real, "high": real,
        "knots": floats(1), "scores": floats(1),
    }  # fmt: skip

    def _fits_together(self) -> bool:
        rises = all((np.diff(part) > 0).all() for part in (self.knots, self.scores))
        return len(self.knots) == len(self.scores) and rises and self.shift >= 0

    @classmethod
    def of(
        cls, kind: str, values: Floats, value_range: tuple[float, float] | None = None
    ) -> ValueScale:
        """Return the scale of a kind for some values, all of which must have a place on it.

        Examples
        --------
        >>> import numpy as np
        >>> from kronfill.estimators.transformed import ValueScale
        >>> scale = ValueScale.of("log", np.array([1.0, 10.0, 100.0]))
        >>> scale.forward(np.array([1.0, 10.0])).round(3), scale.inverse(np.zeros(1))
        (array([0.   , 2.303]), array([1.]))
        """
        none = np.empty(0)
        shift, low, high, knots, scores = 0.0, 0.0, 0.0, none, none
        if kind in ("log", "sqrt") and values.min() < 0:
            msg = (
                f"{argument('transform', kind)} is for values that are not negative, and the least "
                f"is {values.min():.6g}. Use 'ranks', or None."
            )
            raise ParameterError(msg)
        if kind == "log" and values.min() == 0:
            positive = values[values > 0]
            shift = 0.5 * float(positive.min()) if positive.size else 1.0
        elif kind == "ranks":
            knots, scores = _normal_scores(values)
        elif kind == "range":
            assert value_range is not None
            low, high = value_range
            whole = bool((values == np.round(values)).all())
            shift = 0.5 if whole else MARGIN * (high - low)
        return cls(kind, shift, float(low), float(high), knots, scores)

    @property
    def words(self) -> str:
        """What values are on this scale."""
        return WORDS[self.kind]

    def forward(self, values: Floats) -> Floats:
        """Values on this scale."""
        if self.kind == "log":
            return np.asarray(np.log(np.maximum(values + self.shift, np.finfo(float).tiny)))
        if self.kind == "sqrt":
            return np.asarray(np.sqrt(np.maximum(values, 0.0)))
        if self.kind == "ranks":
            return np.asarray(np.interp(values, self.knots, self.scores))
        if self.kind == "range":
            below, above = values - self.low + self.shift, self.high - values + self.shift
            return np.asarray(np.log(below) - np.log(above))
        return values

    def inverse(self, scaled: Floats) -> Floats:
        """Return the values that have these places on the scale, the nearest where none has."""
        if self.kind == "log":
            return np.asarray(np.maximum(np.exp(np.minimum(scaled, 700.0)) - self.shift, 0.0))
        if self.kind == "sqrt":
            return np.asarray(np.maximum(scaled, 0.0) ** 2)
        if self.kind == "ranks":
            return np.asarray(np.interp(scaled, self.scores, self.knots))
        if self.kind == "range":
            width = self.high - self.low + 2 * self.shift
            return np.asarray(self.low - self.shift + width * expit(scaled))
        return scaled


def _normal_scores(values: Floats) -> tuple[Floats, Floats]:
    """Different values and the normal quantiles of their middle ranks, some of very many."""
    knots, counts = np.unique(values, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * counts
    scores = ndtri(ranks / values.size)
    if len(knots) > KNOTS:
        at = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], KNOTS)))
        knots, scores = knots[at], scores[at]
    return knots, np.asarray(scores)

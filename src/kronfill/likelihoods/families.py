"""Negative log likelihoods l(y, eta) of one value each, with two derivatives and the mean.

All are convex in eta, so that the penalised sum over entries has one minimum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from kronfill._types import Flags, Floats

__all__ = ["Bernoulli", "Likelihood", "Ordinal", "Parts", "Poisson"]

Parts = tuple[Floats, Floats, Floats]
"""Losses, their first and their second derivatives."""


class Likelihood(ABC):
    """How likely values are, given the latent number of each."""

    @abstractmethod
    def losses(self, y: Floats, eta: Floats) -> Floats:
        """l(y, eta) of each, up to what does not depend on eta."""

    @abstractmethod
    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        """First and second derivative of l in eta."""

    def parts(self, y: Floats, eta: Floats) -> Parts:
        """Losses and both derivatives, which have most of their work in common."""
        return self.losses(y, eta), *self.derivatives(y, eta)

    @abstractmethod
    def mean(self, eta: Floats) -> Floats:
        """Expected value."""

    @abstractmethod
    def deviance(self, y: Floats, eta: Floats) -> Floats:
        """Twice what l exceeds its least value over all eta by."""

    @abstractmethod
    def bounding(self, y: Floats) -> tuple[tuple[Flags, str], ...]:
        """Of which values there must be one to keep a free constant in eta finite.

        Which values are such, and words for a lack of them.
        """

    def first(self, y: Floats, offset: Floats) -> tuple[Floats, Floats]:
        """Curvature and working response of the first step, from eta = offset."""
        slope, curvature = self.derivatives(y, offset)
        return curvature, -slope / curvature


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """0 or 1 with P(1) = 1 / (1 + exp(-eta)).

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.likelihoods.families import Bernoulli
    >>> Bernoulli().losses(np.array([0.0, 1.0]), np.array([0.0, 0.0])).round(4)  # log 2
    array([0.6931, 0.6931])
    """

    def losses(self, y: Floats, eta: Floats) -> Floats:
        """See :class:`Likelihood`."""
        return np.logaddexp(0.0, (1.0 - 2.0 * y) * eta)

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        """See :class:`Likelihood`: p - y and p (1 - p), neither with a difference that cancels."""
        sign = 2.0 * y - 1.0
        return -sign * expit(-sign * eta), expit(eta) * expit(-eta)

    def parts(self, y: Floats, eta: Floats) -> Parts:
        """See :class:`Likelihood`: with e = exp(-abs(eta)) <= 1, and one exponential for all."""
        sign = 2.0 * y - 1.0
        margin = sign * eta
        e = np.exp(-np.abs(eta))
        far = 1.0 / (1.0 + e)  # the larger of both probabilities
        near = e * far
        wrong = np.where(margin > 0, near, far)
        return np.log1p(e) - np.minimum(margin, 0.0), -sign * wrong, near * far

    def mean(self, eta: Floats) -> Floats:
        """See :class:`Likelihood`."""
        return np.asarray(expit(eta))

    def deviance(self, y: Floats, eta: Floats) -> Floats:
        """See :class:`Likelihood`."""
        return 2.0 * self.losses(y, eta)

    def bounding(self, y: Floats) -> tuple[tuple[Flags, str], ...]:
        """See :class:`Likelihood`."""
        return (y > 0.5, "no value of the second class"), (y < 0.5, "no value of the first class")


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts with mean exp(eta).

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.likelihoods.families import Poisson
    >>> Poisson().deviance(np.array([1.0, 0.0]), np.log([1.0, 1.0]))
    array([0., 2.])
    """

    def losses(self, y: Floats, eta: Floats) -> Floats:
        """See :class:`Likelihood`."""
        with np.errstate(over="ignore"):  # a step that leads there is not taken
            return np.asarray(np.exp(eta) - y * eta)

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        """See :class:`Likelihood`."""
        mean = np.exp(eta)
        return mean - y, mean

    def parts(self, y: Floats, eta: Floats) -> Parts:
        """See :class:`Likelihood`."""
        with np.errstate(over="ignore"):  # a step that leads there is not taken
            mean = np.exp(eta)
        return mean - y * eta, mean - y, mean

    def mean(self, eta: Floats) -> Floats:
        """See :class:`Likelihood`."""
        return np.asarray(np.exp(eta))

    def deviance(self, y: Floats, eta: Floats) -> Floats:
        """See :class:`Likelihood`."""
        return np.asarray(2.0 * (self.losses(y, eta) - y + xlogy(y, y)))

    def bounding(self, y: Floats) -> tuple[tuple[Flags, str], ...]:
        """See :class:`Likelihood`."""
        return ((y > 0, "no count above 0"),)

    def first(self, y: Floats, offset: Floats) -> tuple[Floats, Floats]:
        """See :class:`Likelihood`: as if each mean were its count; from 0 a step would overshoot.

        P. McCullagh, J. A. Nelder, "Generalized linear models" (1989), section 2.5.
        """
        mean = y + 0.1
        return mean, np.log(mean) - offset


@dataclass(frozen=True, eq=False)
class Ordinal(Likelihood):
    """Ordered levels 0, ..., K with P(y <= k) = 1 / (1 + exp(eta - cuts[k])).

    With a < b the cuts on both sides of a level and a - eta, b - eta written a, b, its probability
    s(b) - s(a) is s(b) s(-a) (1 - exp(a - b)): no difference of two numbers near 1 is needed.
    """

    cuts: Floats
    """K increasing numbers."""

    def _ends(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        level = y.astype(np.intp)
        ends = np.concatenate([[-np.inf], self.cuts, [np.inf]])
        return ends[level] - eta, ends[level + 1] - eta

    def losses(self, y: Floats, eta: Floats) -> Floats:
        """See :class:`Likelihood`."""
        low, high = self._ends(y, eta)
        gap = -np.log(-np.expm1(low - high))
        return np.asarray(np.logaddexp(0.0, -high) + np.logaddexp(0.0, low) + gap)

    def derivatives(self, y: Floats, eta: Floats) -> tuple[Floats, Floats]:
        """See :class:`Likelihood`."""
        low, high = self._ends(y, eta)
        below, above = expit(low), expit(-high)
        return above - below, above * expit(high) + below * expit(-low)

    def mean(self, eta: Floats) -> Floats:
        """See :class:`Likelihood`: the sum over k of P(y > k)."""
        return np.asarray(self.exceeding(eta).sum(axis=-1))

    def exceeding(self, eta: Floats) -> Floats:
        """P(y > k) for each k but the last, along a last axis."""
        return np.asarray(expit(eta[..., None] - self.cuts))

    def probabilities(self, eta: Floats) -> Floats:
        """Of each level, along a last axis."""
        below = expit(self.cuts - eta[..., None])
        ends = [np.zeros((*eta.shape, 1)), below, np.ones((*eta.shape, 1))]
        return np.diff(np.concatenate(ends, axis=-1), axis=-1)

    def deviance(self, y: Floats, eta: Floats) -> Floats:
        """See :class:`Likelihood`."""
        return 2.0 * self.losses(y, eta)

    def bounding(self, y: Floats) -> tuple[tuple[Flags, str], ...]:
        """See :class:`Likelihood`: the cuts are free, and so is the constant."""
        top = len(self.cuts)
        return (y > 0, "none but the lowest level"), (y < top, "none but the highest level")

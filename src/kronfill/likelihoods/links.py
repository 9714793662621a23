"""From a number that orders entries to the values that they may have: probabilities and means.

A link is a line in that number, f: the log of the expected count is slope f - cuts[0], and the
probability of at most the k-th level is 1 / (1 + exp(slope f - cuts[k])). Yes or no are two levels.
Where f is a regression on 0 and 1, it is a probability itself, as far as it goes: the line is one
in its log odds. Links are learned from numbers that were predicted while the values were hidden.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kronfill._stored import Stored, Tests, flag, floats, real
from kronfill._types import Floats
from kronfill.likelihoods.families import Likelihood, Ordinal, Poisson
from kronfill.likelihoods.ordered import ordered_link

__all__ = ["Link", "learned_link", "moved_link"]

WEAK = 0.01
"""Inverse variance of the slope beforehand, for f of variance 1: what is told apart without an
error would have an infinite one."""
FIRM = 1.0
"""The same of a change of slope and level, for entries of another kind. Of cuts: how many entries
at each say beforehand what the first link says."""
STEPS, HALVINGS, SETTLED = 100, 60, 1e-10
EDGE = 0.01
"""A regression on 0 and 1 is taken at its word between this and 1 less this."""
LARGEST = 500.0
"""Of the logarithm of a mean: beyond there is no number."""


@dataclass(frozen=True, eq=False)
class Link(Stored):
    """What f says about values.

    Attributes
    ----------
    slope, cuts : float, ndarray
        The line, and where the levels end.
    levels : ndarray
        The value of each level, sorted; empty for counts.
    odds : bool
        Whether f is a share, of which the log odds count.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.likelihoods.links import Link
    >>> yes_or_no = Link(2.0, np.array([0.0]), np.array([0.0, 1.0]))
    >>> yes_or_no.mean(np.array([0.0, 1.0])).round(3)
    array([0.5  , 0.881])
    """

    slope: float
    cuts: Floats
    levels: Floats
    odds: bool = False
    stored: ClassVar[Tests] = {
        "slope": real, "cuts": floats(1), "levels": floats(1), "odds": flag,
    }  # fmt: skip

    def _fits_together(self) -> bool:
        if not (np.isfinite(self.cuts).all() and np.isfinite(self.levels).all()):
            return False
        if not len(self.levels):
            return len(self.cuts) == 1
        return (
            len(self.levels) == len(self.cuts) + 1 >= 2
            and bool((np.diff(self.cuts) > 0).all())
            and bool((np.diff(self.levels) > 0).all())
        )

    @property
    def counts(self) -> bool:
        """Whether values are counts."""
        return not len(self.levels)

    @property
    def family(self) -> Likelihood:
        """The likelihood of values (of counts) or positions among the levels, given eta."""
        return Poisson() if self.counts else Ordinal(self.cuts)

    def eta(self, f: Floats) -> Floats:
        """The latent numbers of :attr:`family`."""
        eta = self.slope * self.scaled(f)
        return np.clip(eta - self.cuts[0], -LARGEST, LARGEST) if self.counts else eta

    def scaled(self, f: Floats) -> Floats:
        """What the line is in: f, or its log odds, which go on as a line beyond the edges."""
        if not self.odds:
            return f
        inside = np.clip(f, EDGE, 1.0 - EDGE)
        return np.asarray(np.log(inside / (1.0 - inside)) + 4.0 * (f - inside))

    def shares(self, f: Floats) -> Floats:
        """Probability of each level, along a last axis."""
        return Ordinal(self.cuts).probabilities(self.eta(f))

    def mean(self, f: Floats) -> Floats:
        """Expected value."""
        if self.counts:
            return np.exp(self.eta(f))
        # The sum over k of P(y > k) times the step from level k to the next.
        steps = np.diff(self.levels)
        above = Ordinal(self.cuts)
        return np.asarray(self.levels[0] + above.exceeding(self.eta(f)) @ steps)

    def std(self, f: Floats) -> Floats:
        """Standard deviation of the value."""
        if self.counts:
            return np.exp(0.5 * self.eta(f))
        share, middle = self.shares(f), self.mean(f)
        square = ((self.levels - middle[..., None]) ** 2 * share).sum(axis=-1)
        return np.asarray(np.sqrt(square))

    def losses(self, y: Floats, f: Floats) -> Floats:
        """Negative log likelihood of values, of counts up to what does not depend on f."""
        return self.family.losses(self.coded(y), self.eta(f))

    def coded(self, y: Floats) -> Floats:
        """Counts as they are, levels as positions among them."""
        return y if self.counts else np.searchsorted(self.levels, y).astype(float)


def learned_link(
    y: Floats,
    weights: Floats,
    f: Floats,
    levels: Floats,
    start: tuple[Floats, Floats],
    shares: bool = False,
) -> Link:
    """The likeliest link of hidden values.

    Parameters
    ----------
    y, weights, f : ndarray of shape (t,)
        Values, their weights, and what was predicted while they were hidden.
    levels : ndarray
        The levels, empty for counts.
    start : pair of ndarray
        All values and what the whole fit says about them, for levels that are not among those
        hidden; each level counts for half an entry more.
    shares : bool, default=False
        Whether f is a regression on 0 and 1: its log odds are tried too.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.likelihoods.links import learned_link
    >>> f, y = np.array([-1.0, 0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0, 8.0])
    >>> link = learned_link(y, np.ones(4), f, np.empty(0), (y, f))
    >>> link.mean(np.array([0.0])).round(1)
    array([0.6])
    """
    if shares:
        both = [
            _one_link(y, weights, f, levels, start, Link(1.0, np.zeros(1), levels, odds))
            for odds in (False, True)
        ]
        return min(both, key=lambda link: float(weights @ link.losses(y, f)))
    return _one_link(y, weights, f, levels, start, Link(1.0, np.zeros(1), levels))


def _one_link(
    y: Floats,
    weights: Floats,
    f: Floats,
    levels: Floats,
    start: tuple[Floats, Floats],
    blank: Link,
) -> Link:
    if blank.odds:
        f, start = blank.scaled(f), (start[0], blank.scaled(start[1]))
    spread = float(np.average((f - np.average(f, weights=weights)) ** 2, weights=weights))
    if not len(levels):
        rate = (float(weights @ y) + 0.5) / (float(weights.sum()) + 0.5)
        level = Link(1.0, np.array([float(np.average(f, weights=weights)) - np.log(rate)]), levels)
        return moved_link(level, y, weights, f, max(WEAK * spread, 1e-6))
    codes = np.searchsorted(levels, y).astype(float)
    whole, fitted = np.searchsorted(levels, start[0]), start[1]
    count = np.maximum(np.bincount(whole, minlength=len(levels)), 1)
    usual = np.bincount(whole, fitted, minlength=len(levels)) / count
    codes = np.concatenate([codes, np.arange(float(len(levels)))])
    weights = np.concatenate([weights, np.full(len(levels), 0.5)])
    f = np.concatenate([f, usual])
    slope, cuts = ordered_link(codes, weights, f, len(levels), WEAK * spread)
    if slope < 0:  # that would turn the order round: f tells nothing
        slope, cuts = ordered_link(codes, weights, np.zeros_like(f), len(levels), 1.0)
    return replace(blank, slope=slope, cuts=cuts)


def moved_link(
    link: Link, y: Floats, weights: Floats, f: Floats, firm: float | None = None
) -> Link:
    """The link for entries of another kind, from the first one: a few of them hardly change it.

    Of counts, and of yes or no, slope and level are others: what is minimised is
    sum w l(y, s eta + t) + firm/2 (t^2 + (s - 1)^2), where eta = slope f. Of three levels and more
    so are all cuts, for where f says less, the levels overlap more. A slope below 0 would turn the
    order round: it is 0 then.
    """
    if len(link.levels) > 2:
        return _cut_anew(link, y, weights, f)
    firm = FIRM if firm is None else firm
    at = _moved(link, y, weights, f, firm, free=True)
    if at[0] < 0:
        at = _moved(link, y, weights, f, firm, free=False)
    return replace(link, slope=float(at[0] * link.slope), cuts=link.cuts - at[1])


def _cut_anew(link: Link, y: Floats, weights: Floats, f: Floats) -> Link:
    """The likeliest slope and cuts for the entries and for FIRM others at each of the old cuts.

    Those others have each level as often as the first link says, so that alone they give it back.
    """
    if not len(y):
        return link
    count = len(link.levels)
    others = Ordinal(link.cuts).probabilities(link.cuts).ravel()
    codes = np.concatenate([link.coded(y), np.tile(np.arange(float(count)), count - 1)])
    counts = np.concatenate([weights, FIRM * others])
    eta = np.concatenate([link.eta(f), np.repeat(link.cuts, count)])
    slope, cuts = ordered_link(codes, counts, eta, count)
    if slope < 0:
        slope, cuts = ordered_link(codes, counts, np.zeros_like(eta), count, 1.0)
    return replace(link, slope=slope * link.slope, cuts=cuts)


def _moved(link: Link, y: Floats, weights: Floats, f: Floats, firm: float, free: bool) -> Floats:
    family, codes, plain = link.family, link.coded(y), link.slope * link.scaled(f)
    shift = link.cuts[0] if link.counts else 0.0
    design = np.column_stack([plain if free else np.zeros_like(plain), np.ones(len(plain))])
    first = np.array([1.0 if free else 0.0, 0.0])

    def value(at: Floats) -> float:
        eta = np.clip(design @ at - shift, -LARGEST, LARGEST)
        loss = float(weights @ family.losses(codes, eta))
        return loss + 0.5 * firm * float((at - first) @ (at - first))

    at = first
    now = value(at)
    for _ in range(STEPS):
        eta = np.clip(design @ at - shift, -LARGEST, LARGEST)
        slope, curve = family.derivatives(codes, eta)
        gradient = design.T @ (weights * slope) + firm * (at - first)
        hessian = (design.T * (weights * curve)) @ design + firm * np.eye(2)
        step, length = np.linalg.solve(hessian, gradient), 1.0
        for _ in range(HALVINGS):
            further = value(at - length * step)
            if further <= now:
                break
            length /= 2
        else:
            break
        settled = now - further <= SETTLED * max(abs(now), 1.0)
        at, now = at - length * step, further
        if settled:
            break
    return np.asarray(at)

"""Upper bounds on a mean from a sample without replacement: what a hold-out part proves.

A population of N losses in [0, B], v of them seen, drawn uniformly without replacement. Each bound
holds with probability at least 1 - delta for the mean of the population; :func:`rest_mean` turns it
into one for the entries not seen. By Hoeffding's comparison (1963, Theorem 4) moment generating
functions of sums drawn without replacement are at most those with replacement.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from kronfill._types import Floats
from kronfill.bounds.splits import Sizes

__all__ = ["empirical_bernstein", "kl_hoeffding", "rest_mean", "serfling"]


def serfling(losses: Floats, population: int, bound: float, delta: float) -> float:
    """Serfling (1974): mean + B sqrt((1 - (v - 1)/N) ln(1/delta) / (2 v)), or the martingale bound.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds.holdout import serfling
    >>> round(serfling(np.full(100, 0.2), 1000, 1.0, 0.05), 3)
    0.316
    """
    v = len(losses)
    sampled = 1.0 - (v - 1) / population
    gap = bound * float(np.sqrt(sampled * np.log(1 / delta) / (2 * v)))
    if population > v:
        # The concentration step of Theorem A for one function bounds (N/u) (mean - sample mean).
        sizes = Sizes(v, population - v)
        gap = min(gap, bound * sizes.deviation(delta) * sizes.u / population)
    return float(np.mean(losses)) + gap


def kl_hoeffding(losses: Floats, bound: float, delta: float) -> float:
    """Hoeffding (1963, Theorem 1): the largest mean p with v kl(sample mean, p) <= ln(1/delta).

    Far better than the square-root form where the losses are small compared with their range.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds.holdout import kl_hoeffding
    >>> round(kl_hoeffding(np.full(100, 0.01), 1.0, 0.05), 3)
    0.056
    """
    share = float(np.clip(np.mean(losses) / bound, 0.0, 1.0))
    limit = np.log(1 / delta) / len(losses)

    def excess(p: float) -> float:
        first = share * np.log(share / p) if share > 0 else 0.0
        second = (1 - share) * np.log((1 - share) / (1 - p)) if share < 1 else 0.0
        return float(first + second - limit)

    top = 1 - 1e-15
    if share >= top or excess(top) <= 0:
        return bound
    return (
        bound * float(brentq(excess, max(share, 1e-300), top, xtol=1e-14)) if limit > 0 else share
    )


def empirical_bernstein(losses: Floats, bound: float, delta: float) -> float:
    """Bernstein's inequality with a standard deviation that is itself bounded from the sample.

    With l = ln(3/delta) and a = B sqrt(2 l / v), three events of probability delta / 3 each fail:
    the mean and the sample mean differ by more than sigma a / B + B l / (3 v), on either side, or
    the mean of (x - mu)^2 exceeds that of the sample by more than a sigma (lower tail of a positive
    variable of range B^2). Otherwise (1 - a^2/B^2) sigma^2 - (a + a^3/(3 B^2)) sigma <= s^2 +
    a^4/(36 B^2), which bounds sigma; sigma <= B/2 in any case.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds.holdout import empirical_bernstein
    >>> round(empirical_bernstein(np.full(10000, 0.3), 1.0, 0.05), 3)
    0.301
    """
    v, log = len(losses), np.log(3 / delta)
    a = bound * np.sqrt(2 * log / v)
    sigma = bound / 2
    lead = 1 - (a / bound) ** 2
    if lead > 0:
        slope = a + a**3 / (3 * bound**2)
        rest = float(np.var(losses)) + a**4 / (36 * bound**2)
        sigma = min(sigma, (slope + np.sqrt(slope**2 + 4 * lead * rest)) / (2 * lead))
    return float(np.mean(losses) + sigma * a / bound + bound * log / (3 * v))


def rest_mean(upper: float, losses: Floats, population: int) -> float:
    """Bound on the mean of the losses not seen, given one on the mean of all."""
    v = len(losses)
    mean = float(np.mean(losses))
    return mean + (population / (population - v)) * (upper - mean)

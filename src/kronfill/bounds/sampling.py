"""Is the observed mask compatible with uniform sampling, is a hold-out? Else no bound applies."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betaln, logsumexp, rel_entr

from kronfill._types import Floats, Index
from kronfill.bounds.splits import Sizes, Split
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.masks import SamplingTest, uniformity

__all__ = ["SamplingTest", "holdout_p_value", "sampling_test"]

STEP = 8.0
"""Ratio of neighbouring concentrations of the alternatives to a random hold-out."""


def sampling_test(observed: Any, *, shape: Any = None, alpha: float = 0.001) -> SamplingTest:
    """Test from row and column counts whether the observed entries were drawn uniformly.

    Parameters
    ----------
    observed : Observations or pair of index arrays
        The observed entries.
    shape : tuple of int, optional
        Size of the matrix, needed for a pair of arrays.
    alpha : float, default=0.001
        Level below which the mask is called incompatible.

    Returns
    -------
    SamplingTest

    Notes
    -----
    The statistic is the sum of squared deviations of the counts. For m entries drawn without
    replacement its mean and variance are known exactly (pairs, triples and quadruples of entries in
    a row); a scaled chi-square with these two moments gives both tails. A mask that passes may
    still be non-uniform in ways that counts do not show: missing values that depend on the value.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.bounds import sampling_test
    >>> mask = np.random.default_rng(0).random((50, 40)) < 0.3
    >>> sampling_test(np.nonzero(mask), shape=mask.shape).compatible
    True
    >>> mask[:10] = True
    >>> sampling_test(np.nonzero(mask), shape=mask.shape).compatible
    False
    """
    if not 0 < alpha < 1:
        msg = f"alpha must be between 0 and 1, got {alpha!r}."
        raise ParameterError(msg)
    split = Split.of(observed, shape=shape)
    return uniformity(split.rows, split.cols, split.shape, alpha)


def holdout_p_value(train: Observations, holdout: Observations) -> float:
    """How likely a hold-out drawn at random has row and column counts that differ as much.

    An upper bound on that probability, for any counts: of the m + v entries every set of v is as
    likely to be held out as any other. Two tests for each axis, each with a quarter of the level.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.bounds.sampling import holdout_p_value
    >>> rng = np.random.default_rng(0)
    >>> rows, cols = np.divmod(rng.permutation(900)[:450], 30)
    >>> observed = kf.Observations(rows, cols, np.zeros(450), (30, 30))
    >>> holdout_p_value(observed.take(slice(90, 450)), observed.take(slice(90)))
    1.0
    >>> from_three_rows = rows < 3
    >>> holdout_p_value(observed.take(~from_three_rows), observed.take(from_three_rows)) < 1e-30
    True
    """
    axes = ((train.rows, holdout.rows), (train.cols, holdout.cols))
    logs = [0.0]
    for size, (kept, drawn) in zip(train.shape, axes, strict=True):
        taken = np.bincount(drawn, minlength=size)
        total = np.bincount(kept, minlength=size) + taken
        there = total > 0
        logs += [np.log(4.0) + log for log in _unlike(taken[there], total[there])]
    return float(np.exp(max(min(logs), -690.0)))


def _unlike(taken: Index, total: Index) -> tuple[float, float]:
    """Logarithms of bounds on the chance of such counts: by one line, and by all together.

    One line: both the v entries drawn and the ``total`` ones of the line are a sample without
    replacement from all, for which Hoeffding's bound is that of a binomial. All together: given
    their sum the counts are those of independent binomials, so that the likelihood ratio with any
    alternative, here lines with rates of their own (beta-binomial), has a mean of at most
    1 / P(sum), and exceeds its inverse over p with probability p at most.
    """
    n, v = int(total.sum()), int(taken.sum())
    sizes, rate = Sizes(v, n - v), v / n
    farthest = np.maximum(total * _kl(taken / total, rate), v * _kl(taken / v, total / n)).max()
    reach = np.log(total.max() * np.sqrt(len(total))) / np.log(STEP)
    alternatives = STEP ** np.arange(np.ceil(reach) + 1)
    own = taken * np.log(rate) + (total - taken) * np.log1p(-rate)
    ratios = []
    for c in alternatives:
        a, b = c * rate, c * (1 - rate)
        ratios.append(np.sum(betaln(a + taken, b + total - taken) - betaln(a, b) - own))
    chance = 0.5 * sizes.q * sizes.mean_deviation  # that the sum of the binomials is v
    together = np.log(len(ratios)) - logsumexp(ratios) - np.log(chance)
    return float(np.log(2 * len(total)) - farthest), float(together)


def _kl(share: Floats, rate: Any) -> Floats:
    """Relative entropy of two coins."""
    return np.asarray(rel_entr(share, rate) + rel_entr(1 - share, 1 - rate))

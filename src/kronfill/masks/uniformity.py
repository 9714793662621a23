"""Could a mask have been drawn uniformly? A test by the numbers of entries of rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np

from kronfill._types import Floats, Index
from kronfill.data import Observations

__all__ = ["SamplingTest", "apart_p_value", "uniformity", "uniformity_where_known"]

ALPHA = 0.001
"""Level below which a mask is called incompatible with uniform sampling."""
FEW = 5.0
"""With fewer entries per column than this a sum of squares is far from a chi-square."""


@dataclass(frozen=True)
class SamplingTest:
    """Result of :func:`uniformity`.

    Attributes
    ----------
    p_value : float
        Small if counts are too uneven, or too even, for a uniformly random mask; both axes are
        accounted for.
    row_p, col_p : float
        The same for rows and for columns alone.
    alpha : float
        Level below which the mask is called incompatible.
    """

    p_value: float
    row_p: float
    col_p: float
    alpha: float

    @property
    def compatible(self) -> bool:
        """Whether uniform sampling is not rejected."""
        return self.p_value >= self.alpha

    def __str__(self) -> str:
        verdict = "compatible" if self.compatible else "NOT compatible"
        return (
            f"the observed mask is {verdict} with uniform sampling "
            f"(p = {self.p_value:.2g} from row and column counts)"
        )


def uniformity(
    rows: Index, cols: Index, shape: tuple[int, int], alpha: float = ALPHA
) -> SamplingTest:
    """Test from row and column counts whether entries were drawn uniformly from a table.

    See :func:`kronfill.bounds.sampling_test`, which checks its arguments.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.masks import uniformity
    >>> mask = np.random.default_rng(0).random((50, 40)) < np.linspace(0.1, 0.9, 50)[:, None]
    >>> uniformity(*np.nonzero(mask), mask.shape).compatible
    False
    """
    n, l = shape
    row_p = _two_sided(np.bincount(rows, minlength=n).astype(float), l)
    col_p = _two_sided(np.bincount(cols, minlength=l).astype(float), n)
    both = min(1.0, 2.0 * min(row_p, col_p))
    return SamplingTest(both, row_p, col_p, alpha)


def uniformity_where_known(observations: Observations) -> SamplingTest:
    """Return the same for rows and columns of which something was observed.

    Rows without any entry may be new ones, which say nothing about the others, or empty by chance
    in a table with few entries: the mask is called uneven if it is both with them and without.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.masks import uniformity_where_known
    >>> mask = np.random.default_rng(0).random((50, 40)) < 0.3
    >>> mask[:10] = False  # new rows
    >>> seen = kf.Observations.from_matrix(np.where(mask, 1.0, np.nan))
    >>> uniformity_where_known(seen).compatible
    True
    """
    rows, cols, shape = observations.rows, observations.cols, observations.shape
    whole = uniformity(rows, cols, shape)
    if whole.compatible or (observations.row_counts.all() and observations.col_counts.all()):
        return whole
    known = [np.unique(index, return_inverse=True) for index in (rows, cols)]
    (row_names, at_r), (col_names, at_c) = known
    part = uniformity(at_r, at_c, (len(row_names), len(col_names)))
    return part if part.p_value > whole.p_value else whole


def apart_p_value(lines: Index, places: Index, size: int) -> float:
    """How likely entries lie as they do if every line drew its own uniformly, apart from others.

    Lines may have any numbers n of entries, each in one of ``size`` places. With a = n (1 - n/size)
    the sum of squared deviations of the counts of the places has the mean sum of a and the variance
    4 / (size - 1) times the sum of a a' over pairs of lines. Its tail is that of a scaled
    chi-square, or with few entries per place Chebyshev's bound.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.masks.uniformity import apart_p_value
    >>> own = np.random.default_rng(0).integers(0, 8, 100)  # one entry in each line
    >>> apart_p_value(np.arange(100), own, 8) > 0.01
    True
    >>> apart_p_value(np.arange(100), np.full(100, 3), 8) < 1e-6  # the same place in all lines
    True
    """
    numbers = np.bincount(np.unique(lines, return_inverse=True)[1]).astype(float)
    own = numbers * (1.0 - numbers / size)
    mean = float(own.sum())
    variance = 2.0 * (mean**2 - float(own @ own)) / max(size - 1, 1)
    if variance <= 1e-12 * mean**2:
        return 1.0  # one line, or complete ones: there is nothing to compare
    spread = _spread(np.bincount(places, minlength=size).astype(float))
    if len(lines) >= FEW * size:
        return _tail(spread, mean, variance)
    return float(min(1.0, variance / max((spread - mean) ** 2, 1e-300)))


def _two_sided(counts: Floats, width: int) -> float:
    """Two-sided p-value of the spread of the counts of items that have ``width`` entries each."""
    mean, variance = _moments(len(counts), width, int(counts.sum()))
    if mean <= 0.0 or variance <= 1e-12 * mean**2:
        return 1.0  # one item, or all entries observed: the counts cannot vary
    return _tail(_spread(counts), mean, variance)


def _spread(counts: Floats) -> float:
    return float(np.sum((counts - counts.mean()) ** 2))


def _tail(spread: float, mean: float, variance: float) -> float:
    """Two-sided tail of a scaled chi-square with this mean and variance."""
    from scipy.stats import chi2

    scale, freedom = variance / (2 * mean), 2 * mean**2 / variance
    upper = float(chi2.sf(spread / scale, freedom))
    return float(min(1.0, 2 * min(upper, 1 - upper)))


def _moments(items: int, width: int, m: int) -> tuple[float, float]:
    """Mean and variance of the sum of squared deviations, for m of items x width entries.

    The sum is Y + m - m^2 / items with Y the number of ordered pairs of observed entries that share
    an item; Y^2 counts pairs of pairs that have two, one or no entry in common. In fractions: the
    variance is the small difference of two numbers of the size of m^4.
    """
    seen = [_falling_ratio(m, items * width, k) for k in range(5)]
    w2, w3, w4 = (_falling(width, k) for k in (2, 3, 4))
    mean = items * w2 * seen[2]
    disjoint = items * w4 + items * (items - 1) * w2**2
    second = 2 * mean + 4 * items * w3 * seen[3] + disjoint * seen[4]
    return float(mean + m - Fraction(m**2, items)), float(second - mean**2)


def _falling(x: int, k: int) -> int:
    """Falling factorial x (x - 1) ... (x - k + 1)."""
    return prod(max(x - i, 0) for i in range(k))


def _falling_ratio(m: int, n: int, k: int) -> Fraction:
    """Probability that k given entries of n are all among m drawn ones."""
    return prod((Fraction(max(m - i, 0), max(n - i, 1)) for i in range(k)), start=Fraction(1))

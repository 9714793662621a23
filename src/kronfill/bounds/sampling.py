"""Is the observed mask compatible with uniform sampling? Otherwise no bound applies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill.bounds.splits import Split
from kronfill.errors import ParameterError

__all__ = ["SamplingTest", "sampling_test"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SamplingTest:
    """Result of :func:`sampling_test`.

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
    n, l = split.shape
    row_p = _two_sided(np.bincount(split.rows, minlength=n).astype(float), l)
    col_p = _two_sided(np.bincount(split.cols, minlength=l).astype(float), n)
    both = min(1.0, 2.0 * min(row_p, col_p))
    return SamplingTest(both, row_p, col_p, alpha)


def _two_sided(counts: Floats, width: int) -> float:
    """Two-sided p-value of the spread of the counts of items that have ``width`` entries each."""
    from scipy.stats import chi2

    mean, variance = _moments(len(counts), width, counts.sum())
    if mean <= 0.0 or variance <= 1e-12 * mean**2:
        return 1.0  # one item, or all entries observed: the counts cannot vary
    spread = float(np.sum((counts - counts.mean()) ** 2))
    scale, freedom = variance / (2 * mean), 2 * mean**2 / variance
    upper = float(chi2.sf(spread / scale, freedom))
    return float(min(1.0, 2 * min(upper, 1 - upper)))


def _moments(items: int, width: int, m: float) -> tuple[float, float]:
    """Mean and variance of the sum of squared deviations, for m of items x width entries.

    The sum is Y + m - m^2 / items with Y the number of ordered pairs of observed entries that share
    an item; Y^2 counts pairs of pairs that have two, one or no entry in common.
    """
    total = float(items) * width
    in_sample = _falling_ratio(m, total)
    w2, w3, w4 = _falling(width, 2), _falling(width, 3), _falling(width, 4)
    mean = items * w2 * in_sample[2]
    disjoint = items * w4 + items * (items - 1) * w2**2
    second = 2 * mean + 4 * items * w3 * in_sample[3] + disjoint * in_sample[4]
    return mean + m - m**2 / items, second - mean**2


def _falling(x: float, k: int) -> float:
    """Falling factorial x (x - 1) ... (x - k + 1)."""
    return float(np.prod([max(x - i, 0.0) for i in range(k)]))


def _falling_ratio(m: float, n: float) -> list[float]:
    """Probability that k given entries are all observed, k = 0 .. 4."""
    return [float(np.prod([max(m - i, 0.0) / max(n - i, 1.0) for i in range(k)])) for k in range(5)]

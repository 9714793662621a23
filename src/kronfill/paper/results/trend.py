"""Whether a curve rises with N, and from which N on it is flat within its errors.

The cells of different sizes have random numbers of their own, so the means of a curve are
independent. The test is that of the slope of log(value) against log(N), all sizes with the same
weight: with weights the few sizes of smallest error would decide alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.stats

from kronfill.paper.results.table import Point

__all__ = ["Trend", "flat_from", "trend"]

LEVEL = 0.05
"""A slope, or a scatter of the means, that chance gives less often than this is taken for one."""
TINY = 1e-99
"""Smaller probabilities are not written out."""


@dataclass(frozen=True)
class Trend:
    """How a curve goes from its first size to its last."""

    first: int
    last: int
    """Smallest and largest N."""
    change: float
    """Change from the first size to the last, as a share of the first value."""
    stderr: float
    """Standard error of the change."""
    z: float
    """Slope of log(value) against log(N), in standard errors."""
    p: float
    """Probability of a slope as large as this, either way, if there was none."""
    constant: float
    """Probability of means that differ as much as these if all sizes had the same."""

    @property
    def slopes(self) -> bool:
        """Whether the slope is more than chance."""
        return self.p < LEVEL

    @property
    def flat(self) -> bool:
        """Whether neither the slope nor the scatter speaks against a constant."""
        return not self.slopes and self.constant >= LEVEL

    @property
    def test(self) -> str:
        """The test of the slope, in words."""
        p = f"p = {self.p:.2g}" if self.p >= TINY else f"p < {TINY:g}"
        return f"z = {self.z:.1f}, {p}"

    def __str__(self) -> str:
        """The change with its error, in per cent, and the test of the slope."""
        digits = 0 if self.stderr >= 0.01 else 1
        return f"{self.change:+.{digits}%} ± {self.stderr:.{digits}%} ({self.test})"


def trend(row: Sequence[Point]) -> Trend | None:
    """The trend of a curve in order of N; None without errors or two sizes.

    Examples
    --------
    >>> from kronfill.paper.results.table import Point
    >>> from kronfill.paper.results.trend import trend
    >>> values = {100: 1.0, 400: 1.2, 1600: 1.4}
    >>> row = [Point("a", 1.0, "MC", "test", n, v, 0.05, 9, v) for n, v in values.items()]
    >>> str(trend(row))
    '+40% ± 9% (z = 5.5, p = 4.4e-08)'
    """
    if len(row) < 2 or not all(p.stderr > 0 and p.value > 0 for p in row):
        return None
    values, errors = (np.array([getattr(p, name) for p in row]) for name in ("value", "stderr"))
    sizes = np.log([p.N for p in row])
    sizes -= sizes.mean()
    logs, shares = np.log(values), errors / values
    z = float(sizes @ logs / np.linalg.norm(sizes * shares))
    change = float(values[-1] / values[0])
    mean = np.average(values, weights=errors**-2.0)
    chi2 = float(np.sum(((values - mean) / errors) ** 2))
    return Trend(
        row[0].N,
        row[-1].N,
        change - 1.0,
        change * math.hypot(shares[0], shares[-1]),
        z,
        2.0 * float(scipy.stats.norm.sf(abs(z))),
        float(scipy.stats.chi2.sf(chi2, len(row) - 1)),
    )


def flat_from(row: Sequence[Point]) -> Trend | None:
    """The trend over the longest end of a curve that is flat within its errors, if there is one.

    Examples
    --------
    >>> from kronfill.paper.results.table import Point
    >>> from kronfill.paper.results.trend import flat_from
    >>> values = {100: 1.0, 400: 1.38, 1600: 1.4}
    >>> row = [Point("a", 1.0, "MC", "test", n, v, 0.05, 9, v) for n, v in values.items()]
    >>> flat_from(row).first
    400
    """
    for first in range(len(row) - 1):
        found = trend(row[first:])
        if found is not None and found.flat:
            return found
    return None

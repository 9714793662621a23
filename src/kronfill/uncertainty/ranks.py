"""Quantiles of errors that count unequally, with the entry asked about among them.

One formula serves three ways. Of errors s_k of weight w_k, and a further one of weight w that may
be anything, the least t with

    sum of w_k over s_k <= t   >=   level (sum of all w_k + w)

is not exceeded by the further one with probability ``level``, if it is as likely as its weight
says to be that one (Tibshirani, Barber, Candes and Ramdas 2019):

* all weights 1: the k-th smallest error, k = ceil(level (n + 1));
* odds of being missing: entries of an uneven mask (Gui, Barber and Ma 2023);
* 1 / n_k for each of the n_k entries of a left-out row, 1 for the new one: new rows (Dunn,
  Wasserman and Ramdas 2023; Lee, Barber and Willett 2023).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill._types import Floats

__all__ = ["effective_number", "misjudged", "plus_ends", "threshold", "worst_coverage"]

ROUNDING = 1e-12


def threshold(scores: Floats, weights: Floats, own: Any, level: float) -> Floats:
    """The quantile of sorted scores for each weight of the entry asked about.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.uncertainty.ranks import threshold
    >>> scores = np.array([1.0, 2.0, 3.0, 4.0])
    >>> [threshold(scores, np.ones(4), 1.0, level).item() for level in (0.8, 0.9)]
    [4.0, inf]
    >>> threshold(scores, np.array([6.0, 2.0, 1.0, 1.0]), [0.0, 5.0], 0.6)
    array([1., 3.])
    """
    below = np.cumsum(weights)
    total = float(below[-1]) if len(below) else 0.0
    whole = total + np.asarray(own, dtype=float)
    at = np.searchsorted(below, level * whole - ROUNDING * whole)
    return np.append(scores, np.inf)[np.minimum(at, len(scores))]


def plus_ends(
    low: Floats, high: Floats, weights: Floats, own: float, level: float
) -> tuple[Floats, Floats]:
    """Ends of jackknife+ intervals, row by row: quantiles of f^(-i) - s_i and f^(-i) + s_i."""
    return -_upper(-low, weights, own, level), _upper(high, weights, own, level)


def _upper(ends: Floats, weights: Floats, own: float, level: float) -> Floats:
    order = np.argsort(ends, axis=1)
    below = np.cumsum(weights[order], axis=1)
    whole = float(weights.sum()) + own
    at = np.sum(below < (level - ROUNDING) * whole, axis=1)
    ends = np.take_along_axis(ends, order, axis=1)
    ends = np.column_stack([ends, np.full(len(ends), np.inf)])
    return np.asarray(ends[np.arange(len(ends)), at])


def misjudged(level: float, factor: float) -> float:
    """The level to ask for so that ``level`` is kept by weights wrong by up to this factor.

    Examples
    --------
    >>> from kronfill.uncertainty.ranks import misjudged
    >>> misjudged(0.9, 1.0), round(misjudged(0.9, 1.5), 3)
    (0.9, 0.953)
    """
    return level * factor**2 / (1.0 - level + level * factor**2)


def worst_coverage(level: float, factor: float) -> float:
    """What may be left of ``level`` if weights are wrong by up to this factor.

    At worst errors above the quantile count ``factor`` times as much as was thought and those
    below ``factor`` times less: a share c becomes c / (c + (1 - c) factor^2).

    Examples
    --------
    >>> from kronfill.uncertainty.ranks import worst_coverage
    >>> round(worst_coverage(0.9, 1.5), 3)
    0.8
    """
    return level / (level + (1.0 - level) * factor**2)


def effective_number(weights: Floats) -> float:
    """How many errors of equal weight tell as much: (sum w)^2 / sum w^2.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.uncertainty.ranks import effective_number
    >>> effective_number(np.ones(7)), round(effective_number(np.array([1.0, 1e-9, 1e-9])), 3)
    (7.0, 1.0)
    """
    return float(weights.sum() ** 2 / np.sum(weights**2)) if len(weights) else 0.0

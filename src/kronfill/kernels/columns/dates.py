"""Time as trend, day, week and year: the parts that the dates at hand can tell."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np

from kronfill._types import Floats
from kronfill.data.reading.column_kinds import is_date_text
from kronfill.kernels.base import Kernel
from kronfill.kernels.features import FeatureTable
from kronfill.kernels.stationary import Matern, Periodic

__all__ = ["PERIODS", "are_dates", "date_parts", "rhythms"]

PERIODS = {"day": 1.0, "week": 7.0, "year": 365.2425}
"""Rhythms, in days."""
TIMES = 2.0
"""A rhythm is looked for if the dates span so many of its periods."""
DENSE = 3.0
"""And if so many of them, at least, usually fall into one period."""
SHARPNESS = 0.7
"""Length scale on the circle: two neighbouring days of a week have a similarity of 0.46."""
STRETCH, WIDEST, NEIGHBOURS = 0.1, 0.3, 4.0
"""Share of the whole span over which a trend changes: more where dates have few neighbours."""
FEW = 24
"""Different dates below which no rhythm is looked for."""
FEWEST = 4
"""Labels that are taken for dates are so many, at least."""


def date_parts(table: FeatureTable) -> dict[str, Kernel]:
    """Return the kernels of the parts of time that some dates can tell.

    Parameters
    ----------
    table : FeatureTable
        One feature: days since 1970.

    Returns
    -------
    dict of str to Kernel
        "trend" (Matern 3/2), and "day", "week" and "year" (periodic) where they can be told.

    Examples
    --------
    >>> from kronfill.kernels import FeatureTable
    >>> from kronfill.kernels.columns.dates import date_parts
    >>> hours = FeatureTable.from_data([[k / 24] for k in range(24 * 20)])
    >>> list(date_parts(hours))
    ['trend', 'day', 'week']
    """
    days = table.values[:, 0]
    span = float(np.ptp(days))
    share = float(np.clip(NEIGHBOURS / np.unique(days).size, STRETCH, WIDEST))
    parts: dict[str, Kernel] = {"trend": Matern(table, share * span if span > 0 else 1.0, nu=1.5)}
    for name in rhythms(days):
        parts[name] = Periodic(table, period=PERIODS[name], length_scale=SHARPNESS)
    return parts


def rhythms(days: Floats) -> list[str]:
    """The rhythms that dates can tell: they span it twice, and look at it three times each."""
    different = np.unique(days)
    if different.size < FEW:
        return []
    span, step = float(np.ptp(different)), float(np.median(np.diff(different)))
    return [
        name
        for name, period in PERIODS.items()
        if span + step >= TIMES * period and step * DENSE <= period
    ]


def are_dates(labels: Sequence[Any], fewest: int = FEWEST) -> bool:
    """Whether labels are dates, so many at least: objects, or text such as 2024-01-31."""
    if len(labels) < fewest:
        return False
    if all(isinstance(label, str) for label in labels):
        return all(map(is_date_text, labels))
    return all(isinstance(label, datetime.date | np.datetime64) for label in labels)

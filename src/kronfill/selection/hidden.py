"""Hide a part of the observations, and say what is still known of each entry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill.data import Observations

__all__ = ["LEAST", "hide", "kinds_of"]

HIDDEN = 0.1
"""Share of the rows, of the columns and of the other entries that is hidden to measure errors."""
LEAST = 10
"""So many rows (columns) with entries are needed for a part of them to be hidden."""


def hide(obs: Observations, rng: np.random.Generator) -> tuple[Observations, Observations]:
    """Observations with rows, columns and entries hidden, and those that were."""
    hidden = rng.random(obs.m) < HIDDEN
    for index, counts in ((obs.rows, obs.row_counts), (obs.cols, obs.col_counts)):
        items = np.flatnonzero(counts)
        if len(items) >= LEAST:
            drawn = rng.choice(items, size=max(1, round(HIDDEN * len(items))), replace=False)
            hidden |= np.isin(index, drawn)
    if hidden.all() or not hidden.any():
        hidden = np.arange(obs.m) % 2 == 0
    return obs.take(~hidden), obs.take(hidden)


def kinds_of(obs: Observations, rows: Any, cols: Any) -> NDArray[np.intp]:
    """0 for known rows and columns, 1 for a row without entries, 2 for a column, 3 for both."""
    return np.asarray((obs.row_counts[rows] == 0) + 2 * (obs.col_counts[cols] == 0), np.intp)

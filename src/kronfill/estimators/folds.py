"""The loop of every cross-validation: fit without a part of the observations, predict that part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._types import Flags, Floats
from kronfill.data import Observations

__all__ = ["LEAST", "Fold", "hide", "left_out"]

HIDDEN = 0.1
"""Share of the rows, of the columns and of the other entries that is hidden to measure errors."""
LEAST = 10
"""So many rows (columns) with entries are needed for a part of them to be hidden."""


@dataclass(frozen=True, eq=False)
class Fold:
    """A fit to a part of the observations, and what it says about those held out."""

    model: Any
    train: Observations
    held: Observations
    predicted: Floats

    @property
    def gap(self) -> Floats:
        """Values held out less their predictions."""
        return self.held.values - self.predicted


def left_out(
    fit: Callable[[Observations], Any],
    observations: Observations,
    splits: Iterable[tuple[Any, Any]],
) -> Iterator[Fold]:
    """Fit to the training part of each split, positions or masks, and predict its other part.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> from kronfill.estimators.folds import left_out
    >>> obs = kf.Observations([0, 1, 2], [0, 0, 0], [1.0, 2.0, 4.0], (3, 1))
    >>> mean = kf.KKMCEX(np.zeros((3, 3)), None, center="mean")
    >>> splits = [([0, 1], [2]), ([1, 2], [0])]
    >>> [float(fold.gap[0].round(3)) for fold in left_out(mean.fit, obs, splits)]
    [2.5, -2.0]
    """
    for train, test in splits:
        part, held = observations.take(train), observations.take(test)
        model = fit(part)
        yield Fold(model, part, held, model.predict(held))


def hide(obs: Observations, rng: np.random.Generator) -> Flags:
    """Which observations to hide: those of some rows, of some columns, and others."""
    hidden = rng.random(obs.m) < HIDDEN
    for index, counts in ((obs.rows, obs.row_counts), (obs.cols, obs.col_counts)):
        items = np.flatnonzero(counts)
        if len(items) >= LEAST:
            drawn = rng.choice(items, size=max(1, round(HIDDEN * len(items))), replace=False)
            hidden |= np.isin(index, drawn)
    if hidden.all() or not hidden.any():
        hidden = np.arange(obs.m) % 2 == 0
    return hidden

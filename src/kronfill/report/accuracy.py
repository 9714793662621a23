"""Scores of hidden entries beside simple rules, and whether the difference is more than chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats
from kronfill.completion.evaluation import Evaluation, HiddenEntries
from kronfill.report.content import Accuracy, Part

__all__ = ["POINTS", "accuracy"]


POINTS = 600
"""Entries of each kind that are drawn as points."""


def accuracy(found: Evaluation) -> Accuracy:
    """All kinds of hidden entries, each with its scores."""
    parts = [_part(kind, hidden, found.doubts.get(kind)) for kind, hidden in found.parts.items()]
    return Accuracy(found.scheme, found.folds, found.seed, parts)


def _part(kind: str, hidden: HiddenEntries, doubt: str | None) -> Part:
    own, mean, effects = hidden.scores()
    best = "mean" if mean.rmse <= effects.rmse else "effects"
    rival = hidden.mean if best == "mean" else hidden.effects
    least = min(mean.rmse, effects.rmse)
    drawn = _drawn(len(hidden))
    return Part(
        kind=kind,
        count=len(hidden),
        method=own,
        mean=mean,
        effects=effects,
        best=best,
        gain=1.0 - own.rmse / least if least > 0 else None,
        clear=_clear(hidden, rival),
        doubt=doubt,
        observed=hidden.observed[drawn].tolist(),
        predicted=hidden.predicted[drawn].tolist(),
    )


def _clear(hidden: HiddenEntries, rival: Floats) -> bool:
    """Whether the mean difference of squared errors is more than two of its standard errors."""
    if len(hidden) < 3:
        return False
    gap = (hidden.observed - rival) ** 2 - (hidden.observed - hidden.predicted) ** 2
    margin = 2.0 * float(gap.std(ddof=1)) / np.sqrt(len(gap))
    return bool(abs(float(gap.mean())) > margin)


def _drawn(count: int) -> NDArray[np.intp]:
    """Evenly spread positions: parts are in the order of the folds, which is random."""
    if count <= POINTS:
        return np.arange(count)
    return np.linspace(0, count - 1, POINTS).astype(np.intp)

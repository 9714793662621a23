"""Scores of hidden entries beside simple rules, and whether the difference is more than chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats
from kronfill.completion.judging.evaluation import Evaluation
from kronfill.completion.judging.scores import HiddenEntries
from kronfill.report.content import Accuracy, Calibration, Part

__all__ = ["POINTS", "accuracy", "calibration"]


POINTS = 600
"""Entries of each kind that are drawn as points."""
LEAST_GAIN = 0.01
"""Of the error of a simple rule: by less no method is clearly better, however many entries."""
GROUPS, LEAST_IN_GROUP = 10, 10
"""Groups of similar predictions, and entries of each."""


def accuracy(found: Evaluation) -> Accuracy:
    """All kinds of hidden entries, each with its scores."""
    parts = [_part(kind, hidden, found.doubts.get(kind)) for kind, hidden in found.parts.items()]
    return Accuracy(found.scheme, found.folds, found.seed, parts, found.ranking)


def _part(kind: str, hidden: HiddenEntries, doubt: str | None) -> Part:
    own, mean, effects = hidden.scores()
    losses = hidden.losses()
    root = (lambda x: x) if _by_deviance(hidden) else np.sqrt
    mine, of_mean, of_effects = (float(root(part.mean())) for part in losses)
    best = "mean" if of_mean <= of_effects else "effects"
    least = min(of_mean, of_effects)
    gain = 1.0 - mine / least if least > 0 else None
    drawn = _drawn(len(hidden))
    return Part(
        kind=kind,
        count=len(hidden),
        method=own,
        mean=mean,
        effects=effects,
        best=best,
        gain=gain,
        clear=gain is not None
        and abs(gain) >= LEAST_GAIN
        and _clear(losses[1 if best == "mean" else 2] - losses[0]),
        doubt=doubt,
        observed=hidden.observed[drawn].tolist(),
        predicted=hidden.predicted[drawn].tolist(),
        calibration=[] if hidden.likelihood == "gaussian" else calibration(hidden),
    )


def calibration(hidden: HiddenEntries) -> list[Calibration]:
    """Groups of entries with similar predictions, of about the same size each."""
    order = np.argsort(hidden.predicted, kind="stable")
    groups = np.array_split(order, max(1, min(GROUPS, len(order) // LEAST_IN_GROUP)))
    found = []
    for some in groups:
        seen = hidden.observed[some]
        margin = 2.0 * float(seen.std(ddof=1)) / np.sqrt(len(some)) if len(some) > 1 else np.nan
        said = float(hidden.predicted[some].mean())
        found.append(Calibration(len(some), said, float(seen.mean()), margin))
    return found


def _by_deviance(hidden: HiddenEntries) -> bool:
    """Whether entries cost a deviance, not a squared error."""
    return hidden.likelihood in ("bernoulli", "poisson")


def _clear(gap: Floats) -> bool:
    """Whether the mean difference of losses is more than two of its standard errors."""
    if len(gap) < 3:
        return False
    margin = 2.0 * float(gap.std(ddof=1)) / np.sqrt(len(gap))
    return bool(abs(float(gap.mean())) > margin)


def _drawn(count: int) -> NDArray[np.intp]:
    """Evenly spread positions: parts are in the order of the folds, which is random."""
    if count <= POINTS:
        return np.arange(count)
    return np.linspace(0, count - 1, POINTS).astype(np.intp)

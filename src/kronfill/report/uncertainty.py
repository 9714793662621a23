"""Which intervals a report shows, and how many of them can be afforded."""

from __future__ import annotations

from kronfill.completion.evaluation import Evaluation
from kronfill.completion.intervals import (
    Calibrated,
    Gaussian,
    Intervals,
    NoIntervals,
    intervals_for,
    std_work,
)
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.gaussian_process import GaussianProcessRegressor
from kronfill.report.content import Uncertainty

__all__ = ["LEVEL", "chosen_intervals", "source_of"]

LEVEL = 0.9
WORK = 3e10
"""Multiplications that a report may spend on standard deviations: some seconds."""
FEWEST = 400
"""Standard deviations that must be affordable, for a coarse picture at least."""


def chosen_intervals(
    model: MatrixRegressor, evaluation: Evaluation, most: int
) -> tuple[Intervals, int]:
    """The intervals, and for how many entries (at most ``most``) they can be had in seconds.

    The model's own standard deviation where it has one and it is affordable, else widths from
    hidden entries, as in :meth:`kronfill.Completion.details`.
    """
    if isinstance(model, GaussianProcessRegressor):
        base, one = std_work(model, 0), std_work(model, 1)
        if base + FEWEST * (one - base) <= WORK:
            return intervals_for(model, 1, "gaussian"), min(most, int((WORK - base) / (one - base)))
    if evaluation.scheme == "hold-out":
        return Calibrated(model, evaluation), most
    return intervals_for(model, most, "calibrated"), most


def source_of(intervals: Intervals) -> Uncertainty:
    """Where these intervals come from."""
    kinds = ((Gaussian, "gaussian"), (Calibrated, "calibrated"), (NoIntervals, "none"))
    kind = next(name for one, name in kinds if isinstance(intervals, one))
    return Uncertainty(kind, intervals.words.removeprefix("none: "), LEVEL)

"""Which intervals a report shows, and how many of them can be afforded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kronfill.completion.entries.intervals import (
    ENOUGH,
    Calibrated,
    Gaussian,
    Intervals,
    NoIntervals,
    std_work,
)
from kronfill.completion.judging.evaluation import Evaluation
from kronfill.completion.values import base_of
from kronfill.estimators.gaussian_process.regressor import GaussianProcessRegressor
from kronfill.report.content import Uncertainty
from kronfill.report.labels import shown

__all__ = ["LEVEL", "chosen_intervals", "source_of"]

LEVEL = 0.9
WORK = 3e10
"""Multiplications that a report may spend on standard deviations: some seconds."""
ALL = 2**62
"""So many entries that no standard deviation is affordable."""
FEWEST = 400
"""Standard deviations that must be affordable, for a coarse picture at least."""


def chosen_intervals(completion: Any, most: int) -> tuple[Intervals, int]:
    """The intervals, and for how many entries (at most ``most``) they can be had in seconds.

    Those of :meth:`kronfill.Completion.details`; widths follow the model's standard deviation where
    it has one and it is affordable.
    """
    model = completion.model
    if isinstance(model, GaussianProcessRegressor):
        base, one = std_work(model, 0), std_work(model, 1)
        if base + FEWEST * (one - base) <= WORK:
            count = min(most, int((WORK - base) / (one - base)))
            return completion.intervals_for(count), count
        if model.observations_.m < ENOUGH:
            return completion.intervals_for(most, "calibrated"), most
    return completion.intervals_for(ALL), most


def source_of(completion: Any, intervals: Intervals, evaluation: Evaluation) -> Uncertainty:
    """Where these intervals come from, and how often they hold in groups of entries."""
    kinds = ((Gaussian, "gaussian"), (Calibrated, "calibrated"), (NoIntervals, "none"))
    made = base_of(intervals)
    kind = next(name for one, name in kinds if isinstance(made, one))
    told = intervals.words.removeprefix("none: ")
    if not isinstance(made, Calibrated):
        return Uncertainty(kind, told, LEVEL, [])
    found = evaluation.coverage or completion.measured_coverage("observations", LEVEL)
    return Uncertainty(kind, told, LEVEL, [replace(one, group=shown(one.group)) for one in found])

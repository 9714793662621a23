"""The entries worth a closer look, and why they are predicted as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill.completion.entries.intervals import Intervals
from kronfill.completion.judging.evaluation import Evaluation
from kronfill.completion.likelihood import likelihood_of
from kronfill.completion.values import is_scaled
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.gaussian_process.explain import Explanation
from kronfill.report.cells import Widths
from kronfill.report.content import Contribution, Entry
from kronfill.report.labels import shown
from kronfill.report.uncertainty import LEVEL

__all__ = ["COUNT", "TOP", "surprising_entries", "uncertain_entries"]


COUNT = 5
TOP = 5
"""Observations named for each entry."""


def uncertain_entries(completion: Any, found: Widths) -> list[Entry]:
    """Entries that were not observed, widest interval first, no two in the same row."""
    obs = completion.observations
    known = np.flatnonzero(found.missing & ~np.isnan(found.half))
    # Of equal widths (whole kinds of entries may share one), where least was measured.
    seen = (obs.row_counts[found.rows] + obs.col_counts[found.cols])[known]
    half = found.half[known]
    largest = np.max(half, where=np.isfinite(half), initial=0.0) or 1.0
    half = np.round(half / largest, 6)  # rounding errors make no difference
    taken: dict[int, int] = {}
    for k in known[np.lexsort((seen, -half))]:
        taken.setdefault(int(found.rows[k]), int(k))
        if len(taken) == COUNT:
            break
    return [
        _entry(completion, (int(found.rows[k]), int(found.cols[k])),
               ends=(float(found.lower[k]), float(found.upper[k])))
        for k in taken.values()
    ]  # fmt: skip


def surprising_entries(
    completion: Any, evaluation: Evaluation, intervals: Intervals
) -> list[Entry]:
    """Observed entries that are farthest from what the others make one expect."""
    part = evaluation.parts.get("known") or next(iter(evaluation.parts.values()), None)
    if part is None:
        return []
    gap = np.abs(part.observed - part.predicted)
    chosen = np.argsort(-gap, kind="stable")[:COUNT]
    middle = completion.model.predict(np.column_stack([part.rows[chosen], part.cols[chosen]]))
    lower, upper, _ = intervals.at(part.rows[chosen], part.cols[chosen], middle, LEVEL)
    return [
        _entry(
            completion,
            (int(part.rows[k]), int(part.cols[k])),
            observed=float(part.observed[k]),
            left_out=float(part.predicted[k]),
            ends=(float(low), float(high)),
        )
        for k, low, high in zip(chosen, lower, upper, strict=True)
    ]


def _entry(
    completion: Any,
    at: tuple[int, int],
    observed: float | None = None,
    left_out: float | None = None,
    ends: tuple[float, float] = (float("nan"), float("nan")),
) -> Entry:
    model, obs = completion.model, completion.observations
    i, j = at
    predicted = float(model.predict(np.array([[i, j]]))[0])
    base, row, col = float(model.mean_), float(model.row_effects_[i]), float(model.col_effects_[j])
    if is_scaled(model):  # effects on another scale do not add up to values
        base, row, col = float(obs.values.mean()), 0.0, 0.0
    rest, parts = predicted - base - row - col, list[Contribution]()
    cancellation, explained = None, likelihood_of(model) == "gaussian"
    why = _explanation(model, _name(obs, i, "row"), _name(obs, j, "col")) if explained else None
    if why is not None:
        base, row, col, cancellation = why.mean, why.row_effect, why.col_effect, why.cancellation
        rest = predicted - base - row - col - float(why.contributions.sum())
        parts = [
            Contribution(shown(r), shown(c), float(value), float(similarity), float(part))
            for r, c, value, similarity, part in zip(
                why.row_labels, why.col_labels, why.values, why.similarities, why.contributions,
                strict=True,
            )
        ]  # fmt: skip
    return Entry(
        i=i,
        j=j,
        row=shown(_name(obs, i, "row")),
        column=shown(_name(obs, j, "col")),
        status=_status(obs, i, j, observed),
        predicted=predicted,
        observed=observed,
        left_out=left_out,
        lower=ends[0],
        upper=ends[1],
        base=base,
        row_effect=row,
        column_effect=col,
        rest=rest,
        parts=parts,
        cancellation=cancellation,
        explained=explained,
    )


def _explanation(model: Any, row: Any, col: Any) -> Explanation | None:
    """The observations that a prediction comes from, of a method that knows and in its units."""
    if not hasattr(model, "explain") or is_scaled(model):
        return None
    try:
        found: Explanation = model.explain(row, col, top=TOP)
    except ParameterError:  # too many observations for a method without kernels
        return None
    return found


def _name(obs: Observations, k: int, axis: str) -> Any:
    labels = obs.row_labels if axis == "row" else obs.col_labels
    return k if labels is None else labels[k]


def _status(obs: Observations, i: int, j: int, observed: float | None) -> str:
    if observed is not None:
        return "observed"
    cold = obs.row_counts[i] == 0 or obs.col_counts[j] == 0
    return "extrapolated" if cold else "filled"

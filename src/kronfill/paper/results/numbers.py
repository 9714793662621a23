"""The results as Markdown tables, for the documentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kronfill.paper.limits import Limit
from kronfill.paper.methods import METHODS
from kronfill.paper.results.claims import claims
from kronfill.paper.results.table import (
    SOLVER_COLUMNS,
    Point,
    Records,
    costs,
    curves,
    paired,
    ratio,
    solver_means,
)
from kronfill.paper.results.trend import flat_from, trend
from kronfill.paper.results.verdict import CurveVerdict, summary

__all__ = ["numbers"]

JUDGED_NOTE = (
    "A value agrees if it is within the tolerance and two standard errors are smaller than that. "
    "Curves that had a part in choosing a constant are marked as calibrated and do not count; the "
    "levels of MC and of (b) were in view when the power was chosen, so only their shapes count."
)
TREND_NOTE = (
    "Change from the first size to the last, with its standard error; z is the slope of log(loss) "
    "against log(N), in standard errors. Flat: the longest end of the curve with |z| < 2 whose "
    "values pass a chi-square test of one constant at 5%."
)


def numbers(
    points: Sequence[Point],
    records: Records,
    judged: Sequence[CurveVerdict],
    bounds: Sequence[Limit],
) -> str:
    """All tables that the page about the figure refers to."""
    parts = [
        "# Figure 1: the numbers",
        "Written by `kronfill reproduce fig1`.",
        "## Test losses, ours ± one standard error, and the paper's",
        _losses(points),
        "## The paper's claims",
        _table(("claim", "what the numbers say"), claims(points, records)),
        "## Verdict per curve",
        JUDGED_NOTE,
        summary(judged),
        _verdicts(judged),
        "## Trend of the test losses",
        TREND_NOTE,
        _trends(points),
        "## KMC: two solvers of the same problem, on the same realisations",
        _solvers(records, "kmc-rowwise"),
        *_longer(records),
        "## KMC against KKMCEX: ratio of test losses on the same realisations",
        "Geometric mean, with the factor of one standard error.",
        _against_kkmcex(records),
        "## Generalization error and its bounds",
        _bounds(bounds),
        "## Seconds per cell (median)",
        _costs(records),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _trends(points: Sequence[Point]) -> str:
    rows = []
    for (panel, label, metric), row in curves(points).items():
        found, flat = trend(row), flat_from(row)
        if metric == "test" and found is not None:
            later = "–" if flat is None else f"N = {flat.first}: {flat}"
            rows.append([f"({panel})", label, f"{found.first} to {found.last}", str(found), later])
    return _table(("panel", "method", "N", "change", "flat within errors from"), rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else "Not run."


def _losses(points: Sequence[Point]) -> str:
    rows = [
        [
            f"({p.panel})", p.algorithm, str(p.N),
            f"{p.value:.4g}" + ("" if math.isnan(p.stderr) else f" ± {p.stderr:.2g}"),
            "–" if math.isnan(p.paper) else f"{p.paper:.4g}",
            "–" if math.isnan(p.paper) else f"{p.relative:+.0%}",
            str(p.realizations),
        ]
        for p in points
        if p.metric == "test"
    ]  # fmt: skip
    return _table(("panel", "method", "N", "ours", "paper", "deviation", "realisations"), rows)


def _verdicts(judged: Sequence[CurveVerdict]) -> str:
    rows = [[f"({v.panel})", v.algorithm, v.metric, v.word, v.sentence] for v in judged]
    return _table(("panel", "method", "loss", "verdict", "why"), rows)


def _solvers(records: Records, slow: str) -> str:
    rows = []
    for (panel, size), pair in paired(records, slow, "kmc").items():
        lower = np.mean([b["objective"] < a["objective"] for a, b in zip(*pair, strict=True)])
        means = solver_means(pair, ".3g")
        rows.append([f"({panel})", str(size), str(len(pair[0])), *means, f"{lower:.0%}"])
    head = ("panel", "N", "realisations", *SOLVER_COLUMNS, "exact reaches a lower objective")
    return _table(head, rows)


def _longer(records: Records) -> list[str]:
    """The row-wise solver with four times the sweeps, where it was run."""
    table = _solvers(records, "kmc-rowwise-400")
    return ["The same with 400 row-wise sweeps:", table] if "|" in table else []


def _against_kkmcex(records: Records) -> str:
    found = {
        name: paired(records, name, "kkmcex")
        for name in METHODS
        if METHODS[name].algorithm == "KMC"
    }
    keys = sorted({key for pairs in found.values() for key in pairs})
    rows = [
        [f"({panel})", str(size), *(_ratio(found[name].get((panel, size))) for name in found)]
        for panel, size in keys
    ]
    return _table(("panel", "N", *(METHODS[name].label for name in found)), rows)


def _ratio(pair: Any) -> str:
    if pair is None:
        return "–"
    value, error = ratio(pair, "test")
    return f"{value:.3g}" + ("" if math.isnan(error) else f" ×/÷ {error:.2f}")


def _bounds(bounds: Sequence[Limit]) -> str:
    rows = [
        [f"({x.panel})", METHODS[x.method].label, str(x.N)]
        + [f"{value:.4g}" for value in (x.ge, x.norm, x.printed, x.corrected)]
        for x in bounds
    ]
    head = ("panel", "method", "N", "measured", "norm of the fit", "as printed", "corrected")
    return _table(head, rows)


def _costs(records: Records) -> str:
    rows = [
        [label, str(size), *(f"{value:.3f}" for value in times)]
        for label, size, *times in costs(records)
    ]
    return _table(("method", "N", "data", "fit", "losses over all entries"), rows)

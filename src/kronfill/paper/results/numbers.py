"""What the table of the figure says, as Markdown: everything here follows from its points alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kronfill.paper.results.claims import claims
from kronfill.paper.results.table import Point, curves
from kronfill.paper.results.trend import flat_from, trend
from kronfill.paper.results.verdict import CurveVerdict, summary, verdicts

__all__ = ["markdown_table", "numbers"]

JUDGED_NOTE = (
    "A value agrees if it is within the tolerance and two standard errors are smaller than that. "
    "Curves that had a part in choosing a constant are marked as calibrated and do not count; the "
    "levels of MC and of (b) were in view when the power was chosen, so only their shapes count."
)
TREND_NOTE = (
    "Change from the first size to the last, with its standard error; z is the slope of log(loss) "
    "against log(N), in standard errors, p the probability of as large a z by chance. Flat: the "
    "longest end of the curve for which p is at least 5%, and so is the probability of the "
    "scatter of its values about one constant (chi-square). The ends are tried one after the "
    "other, without a correction for several tests."
)
WRITTEN = (
    "Written from [the table](fig1.csv) by `kronfill reproduce fig1`, or from several tables by "
    "`python -m kronfill.paper.results.joined`. What needs the single cells is in "
    "[another file](fig1-cells.md)."
)


def numbers(points: Sequence[Point]) -> str:
    """Losses, claims, verdicts and trends.

    Examples
    --------
    >>> from kronfill.paper.results.numbers import numbers
    >>> numbers([]).splitlines()[0]
    '# Figure 1: the numbers'
    """
    judged = verdicts(points)
    parts = [
        "# Figure 1: the numbers",
        WRITTEN,
        _realizations(points),
        "## Test losses, ours ± one standard error, and the paper's",
        _losses(points),
        "## The paper's claims",
        markdown_table(("claim", "what the numbers say"), claims(points)),
        "## Verdict per curve",
        JUDGED_NOTE,
        summary(judged),
        _verdicts(judged),
        "## Trend of the test losses",
        TREND_NOTE,
        _trends(points),
    ]
    return "\n\n".join(parts) + "\n"


def _realizations(points: Sequence[Point]) -> str:
    """How many realisations each method has, and where they differ with N."""
    parts = []
    for (panel, label, metric), row in curves(points).items():
        if metric == "test":
            sizes: dict[int, list[int]] = {}
            for point in row:
                sizes.setdefault(point.realizations, []).append(point.N)
            many = ", ".join(
                str(count) if len(sizes) == 1 else f"{count} at N = {_spanned(found)}"
                for count, found in sizes.items()
            )
            parts.append([f"({panel})", label, many])
    return markdown_table(("panel", "method", "realisations"), parts)


def _spanned(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"


def _trends(points: Sequence[Point]) -> str:
    rows = []
    for (panel, label, metric), row in curves(points).items():
        found, flat = trend(row), flat_from(row)
        if metric == "test" and found is not None:
            later = "–" if flat is None else f"N = {flat.first}: {flat}"
            rows.append([f"({panel})", label, f"{found.first} to {found.last}", str(found), later])
    return markdown_table(("panel", "method", "N", "change", "flat within errors from"), rows)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; "Not run." without rows.

    Examples
    --------
    >>> from kronfill.paper.results.numbers import markdown_table
    >>> print(markdown_table(["N", "loss"], [["100", "0.5"]]))
    | N | loss |
    | --- | --- |
    | 100 | 0.5 |
    """
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
    return markdown_table(
        ("panel", "method", "N", "ours", "paper", "deviation", "realisations"), rows
    )


def _verdicts(judged: Sequence[CurveVerdict]) -> str:
    rows = [[f"({v.panel})", v.algorithm, v.metric, v.word, v.sentence] for v in judged]
    return markdown_table(("panel", "method", "loss", "verdict", "why"), rows)

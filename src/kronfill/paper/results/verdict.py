"""What each curve says about the paper's, in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kronfill.paper.published import METRICS, PANELS
from kronfill.paper.results.table import Point, algorithms_shown, curves

__all__ = ["CurveVerdict", "verdicts"]

TOLERANCE = {"MC": 0.20, "KMC": 0.20, "KKMCEX": 0.15}
"""Relative deviation up to which a curve agrees, if it is not within two standard errors anyway."""
ROUNDING = 1e-20
"""A loss below this is the square of rounding errors: only its order of magnitude counts."""


@dataclass(frozen=True)
class CurveVerdict:
    """Judgement on one of the 18 curves."""

    panel: str
    algorithm: str
    metric: str
    word: str
    """One of "agrees", "same shape", "differs" and "not run"."""
    sentence: str
    """What the judgement rests on."""


def verdicts(points: Iterable[Point]) -> list[CurveVerdict]:
    """Judge every curve of the figure.

    Examples
    --------
    >>> from kronfill.paper.results.verdict import verdicts
    >>> found = verdicts([])
    >>> len(found), found[0].word
    (18, 'not run')
    """
    found = curves(points)
    return [
        _judge(panel, algorithm, metric, found.get((panel, label, metric), []))
        for panel in PANELS
        for algorithm, label in algorithms_shown().items()
        for metric in METRICS
    ]


def _judge(panel: str, algorithm: str, metric: str, row: Sequence[Point]) -> CurveVerdict:
    compared = [p for p in row if math.isfinite(p.paper)]
    if not compared:
        return CurveVerdict(panel, algorithm, metric, "not run", "No cell of this curve was run.")
    if max(p.paper for p in compared) < ROUNDING:
        return CurveVerdict(panel, algorithm, metric, *_rounding(compared))
    return CurveVerdict(panel, algorithm, metric, *_compare(compared, TOLERANCE[algorithm]))


def _rounding(row: Sequence[Point]) -> tuple[str, str]:
    orders = [math.log10(max(p.value, 1e-300) / p.paper) for p in row]
    word = "agrees" if max(map(abs, orders)) < 1.5 else "differs"
    ours = max(p.value for p in row)
    return word, (
        f"The square of rounding errors and of mu: at most {ours:.0e} here, "
        f"{max(p.paper for p in row):.0e} in the paper. Only the order counts."
    )


def _compare(row: Sequence[Point], tolerance: float) -> tuple[str, str]:
    near = [p for p in row if _near(p, tolerance)]
    worst = max(row, key=lambda p: abs(p.relative))
    ours, theirs = (_trend([getattr(p, name) for p in row]) for name in ("value", "paper"))
    shape = f"Ours {ours}" + (", as in the paper" if ours == theirs else f", the paper's {theirs}")
    if len(near) == len(row):
        word = "agrees"
    elif ours == theirs:
        word = "same shape"
    else:
        word = "differs"
    count = "all" if len(near) == len(row) else f"{len(near)} of"
    return word, (
        f"{shape}. Within {tolerance:.0%} or 2 standard errors at {count} {len(row)} sizes; "
        f"furthest at N = {worst.N}: {worst.value:.3g}{_error(worst)} against {worst.paper:.3g} "
        f"({worst.relative:+.0%})."
    )


def _error(point: Point) -> str:
    return "" if math.isnan(point.stderr) else f" ± {point.stderr:.1g}"


def _near(point: Point, tolerance: float) -> bool:
    return abs(point.relative) <= tolerance or abs(point.deviation) <= 2.0


def _trend(values: Sequence[float]) -> str:
    """Grows, falls or stays, from the first size to the last."""
    ratio = values[-1] / values[0] if values[0] > 0 else np.inf
    if len(values) < 2 or 1 / 1.1 < ratio < 1.1:
        return "stays about the same with N"
    return "grows with N" if ratio > 1 else "falls with N"

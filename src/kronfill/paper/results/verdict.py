"""What each curve says about the paper's, in plain words that its standard errors bear."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kronfill.paper.published import ALGORITHMS, METRICS, PANELS
from kronfill.paper.results.table import Point, algorithms_shown, curves
from kronfill.paper.results.trend import flat_from, trend

__all__ = ["CALIBRATED", "LEVEL_TAKEN", "CurveVerdict", "summary", "verdicts"]

TOLERANCE = {"MC": 0.20, "KMC": 0.20, "KKMCEX": 0.15}
"""Relative deviation up to which a value agrees, if two standard errors are no more than that."""
ROUNDING = 1e-20
"""A loss below this is the square of rounding errors: only its order of magnitude counts."""
STEADY = 0.1
"""A relative change from the first size to the last that is smaller is no growth."""
ALIKE = 2.0
"""Curves have the same shape if both grow or fall, by factors that differ by less than this."""
CALIBRATED = {
    ("a", "KKMCEX", "test"): "the constants of the data were fitted to it",
    ("a", "KKMCEX", "ge"): "it is the test loss, to which the constants of the data were fitted",
    ("a", "KKMCEX", "train"): "the smallest mu was chosen after its order",
    ("a", "MC", "train"): "mu = 0.1 was chosen after it",
    ("b", "MC", "train"): "mu = 0.1 was chosen after it",
}
"""Curves that had a part in choosing constants, and which; that they agree is no finding."""
LEVEL_TAKEN = {
    (panel, algorithm, metric)
    for panel in PANELS
    for algorithm in ALGORITHMS
    for metric in METRICS
    if panel == "b" or (algorithm == "MC" and metric != "train")
}
"""Curves whose level is about P or P / snr. Of the acceptable pairs one near earlier trials was
taken, which had the whole figure in view: their level is no finding, only their shape is."""
LEVEL_NOTE = "The level agrees as well, but was in view when the power was chosen."
WORDS = ("agrees", "same shape", "differs", "undecided", "calibrated", "not run")


@dataclass(frozen=True)
class CurveVerdict:
    """Judgement on one of the 18 curves."""

    panel: str
    algorithm: str
    metric: str
    word: str
    """One of "agrees", "same shape", "differs", "undecided", "calibrated" and "not run"."""
    sentence: str
    """What the judgement rests on."""


def verdicts(points: Iterable[Point]) -> list[CurveVerdict]:
    """Judge every curve of the figure.

    A value agrees if it is within the tolerance and two standard errors are smaller than that; it
    disagrees if it is beyond both. A curve with a value that does neither is undecided.

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


def summary(judged: Iterable[CurveVerdict]) -> str:
    """How many curves came out how; those used for calibration are counted apart.

    Examples
    --------
    >>> from kronfill.paper.results.verdict import summary, verdicts
    >>> summary(verdicts([]))
    'Of 18 curves: 18 not run.'
    """
    counts = Counter(v.word for v in judged)
    parts = [f"{counts[word]} {word}" for word in WORDS if counts[word]]
    return f"Of {counts.total()} curves: {', '.join(parts)}."


def _judge(panel: str, algorithm: str, metric: str, row: Sequence[Point]) -> CurveVerdict:
    compared = [p for p in row if math.isfinite(p.paper)]
    if not compared:
        return CurveVerdict(panel, algorithm, metric, "not run", "No cell of this curve was run.")
    if max(p.paper for p in compared) < ROUNDING:
        word, sentence = _rounding(compared)
    else:
        word, sentence = _compare(compared, TOLERANCE[algorithm])
    reason = CALIBRATED.get((panel, algorithm, metric))
    if reason is not None:
        word, sentence = "calibrated", f"No finding: {reason}. {sentence}"
    elif word == "agrees" and (panel, algorithm, metric) in LEVEL_TAKEN:
        word, sentence = "same shape", f"{sentence} {LEVEL_NOTE}"
    return CurveVerdict(panel, algorithm, metric, word, sentence)


def _rounding(row: Sequence[Point]) -> tuple[str, str]:
    orders = [math.log10(max(p.value, 1e-300) / p.paper) for p in row]
    word = "agrees" if max(map(abs, orders)) < 1.5 else "differs"
    ours = max(p.value for p in row)
    return word, (
        f"The square of rounding errors and of mu: at most {ours:.0e} here, "
        f"{max(p.paper for p in row):.0e} in the paper. Only the order counts."
    )


def _compare(row: Sequence[Point], tolerance: float) -> tuple[str, str]:
    near = sum(_agrees(p, tolerance) for p in row)
    far = sum(_disagrees(p, tolerance) for p in row)
    worst = max(row, key=lambda p: abs(p.relative))
    change = _growth(row, "paper") - 1.0
    ours, theirs = _shape(row), _grown(change)
    if near == len(row):
        word = "agrees"
    elif far == 0:
        word = "undecided"
    else:
        alike = (
            ours == theirs and 1 / ALIKE <= _growth(row, "value") / _growth(row, "paper") <= ALIKE
        )
        word = "same shape" if alike else "differs"
    open_ = len(row) - near - far
    counts = f"{near} of {len(row)} sizes within {tolerance:.0%}, {far} beyond"
    counts += f", {open_} with an error too large to tell" if open_ else ""
    return word, (
        f"Ours {ours}{_test(row)}, the paper's {theirs} ({change:+.0%}). {counts}; "
        f"furthest at N = {worst.N}: {worst.value:.3g}{_error(worst)} against {worst.paper:.3g} "
        f"({worst.relative:+.0%}).{_flat(row)}"
    )


def _agrees(point: Point, tolerance: float) -> bool:
    """Close, with an error small enough to have shown a deviation."""
    return abs(point.relative) <= tolerance and 2.0 * point.stderr <= tolerance * point.paper


def _disagrees(point: Point, tolerance: float) -> bool:
    return abs(point.relative) > tolerance and abs(point.deviation) > 2.0


def _error(point: Point) -> str:
    return "" if math.isnan(point.stderr) else f" ± {point.stderr:.1g}"


def _shape(row: Sequence[Point]) -> str:
    found = trend(row)
    if found is None:
        return _grown(_growth(row, "value") - 1.0)
    return _grown(found.change if found.slopes else 0.0)


def _growth(row: Sequence[Point], name: str) -> float:
    """By which factor ours ("value") or the paper's ("paper") is larger at the last size."""
    return float(getattr(row[-1], name) / getattr(row[0], name))


def _grown(change: float) -> str:
    """In words: grows, falls or neither, from the first size to the last."""
    if not abs(change) >= STEADY:
        return "stays about the same with N"
    return "grows with N" if change > 0 else "falls with N"


def _test(row: Sequence[Point]) -> str:
    found = trend(row)
    return "" if found is None else f" ({found.change:+.0%}, {found.test})"


def _flat(row: Sequence[Point]) -> str:
    found = flat_from(row)
    if found is None:
        return "" if any(np.isnan(p.stderr) for p in row) else " Not flat within errors."
    return f" Flat within errors from N = {found.first} on: {found}."

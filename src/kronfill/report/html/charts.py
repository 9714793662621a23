"""Charts as inline SVG: the error along mu, predicted against observed, calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from kronfill.report.html.formats import written

__all__ = ["calibration_chart", "curve_chart", "scatter_chart"]

WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 42
FEW = 150
"""Fewer points than this are drawn opaque."""
Scale = Callable[[float], float]


def curve_chart(
    mus: Sequence[float],
    values: Sequence[float | None],
    margins: Sequence[float | None],
    best: tuple[float, float],
    used: float,
    label: str,
) -> str:
    """An error against mu, with a band, the least value and the mu that was used."""
    points = [
        (math.log10(mu), value, 2 * (margin or 0.0))
        for mu, value, margin in zip(mus, values, margins, strict=True)
        if isinstance(value, float)
    ]
    ends = [math.log10(used), *(p[0] for p in points)]
    x, x_ticks = _axis(min(ends), max(ends), LEFT, WIDTH - RIGHT, decades=True)
    low = min(p[1] - p[2] for p in points)
    high = min(max(p[1] + p[2] for p in points), 4 * max(p[1] for p in points))
    y, y_ticks = _axis(max(low, 0.0), high, HEIGHT - BOTTOM, TOP)
    line = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b, _ in points)
    upper = [f"{x(a):.1f},{y(min(b + m, high)):.1f}" for a, b, m in points]
    lower = [f"{x(a):.1f},{y(max(b - m, 0.0)):.1f}" for a, b, m in reversed(points)]
    at = f"{x(math.log10(used)):.1f}"
    body = [
        _frame(x, x_ticks, y, y_ticks, "ridge weight mu", "error (RMSE)", decades=True),
        f'<polygon class="band" points="{" ".join(upper + lower)}"/>',
        f'<polyline class="curve" points="{line}"/>',
        f'<line class="mark" x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>',
        f'<circle class="best" r="4" cx="{x(math.log10(best[0])):.1f}" cy="{y(best[1]):.1f}"/>',
    ]
    return _svg(body, label)


def scatter_chart(observed: Sequence[float], predicted: Sequence[float], label: str) -> str:
    """Points and the line on which prediction and observation agree."""
    both = np.concatenate([observed, predicted])
    x, x_ticks = _axis(float(both.min()), float(both.max()), LEFT, WIDTH - RIGHT)
    y, y_ticks = _axis(float(both.min()), float(both.max()), HEIGHT - BOTTOM, TOP)
    dots = "".join(
        f'<circle class="dot" r="2.5" cx="{x(a):.1f}" cy="{y(b):.1f}"/>'
        for a, b in zip(observed, predicted, strict=True)
    )
    first, last = float(both.min()), float(both.max())
    line = (
        f'<line class="mark" x1="{x(first):.1f}" y1="{y(first):.1f}" '
        f'x2="{x(last):.1f}" y2="{y(last):.1f}"/>'
    )
    group = f'<g class="{"few" if len(observed) < FEW else "many"}">{dots}</g>'
    return _svg([_frame(x, x_ticks, y, y_ticks, "observed", "predicted"), line, group], label)


def calibration_chart(
    groups: Sequence[tuple[float, float, float]],
    label: str,
    names: tuple[str, str],
    whole: Sequence[float] = (),
) -> str:
    """What was said of entries with similar predictions, what they were, and a margin of chance.

    ``whole`` are values that both axes have in any case.
    """
    ends = [end for said, seen, margin in groups for end in (said, seen - margin, seen + margin)]
    low, high = min([*ends, *whole]), max([*ends, *whole])
    x, x_ticks = _axis(low, high, LEFT, WIDTH - RIGHT)
    y, y_ticks = _axis(low, high, HEIGHT - BOTTOM, TOP)
    marks = "".join(
        f'<line class="axis" x1="{x(a):.1f}" x2="{x(a):.1f}" y1="{y(b - m):.1f}" '
        f'y2="{y(b + m):.1f}"/><circle class="best" r="4" cx="{x(a):.1f}" cy="{y(b):.1f}"/>'
        for a, b, m in groups
    )
    line = (
        f'<line class="mark" x1="{x(low):.1f}" y1="{y(low):.1f}" '
        f'x2="{x(high):.1f}" y2="{y(high):.1f}"/>'
    )
    return _svg([_frame(x, x_ticks, y, y_ticks, *names), line, marks], label)


def _svg(body: list[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{''.join(body)}</svg>"
    )


def _axis(
    low: float, high: float, start: int, end: int, decades: bool = False
) -> tuple[Scale, list[float]]:
    """A scale with some room at both ends, and where its ticks are."""
    span = (high - low) or abs(low) or 1.0
    low, high = (low - 0.05 * span, high + 0.05 * span)
    step = max(1.0, math.ceil((high - low) / 5)) if decades else _round_step((high - low) / 4)
    first = math.ceil(low / step)
    ticks = [k * step for k in range(first, math.floor(high / step) + 1)]
    return lambda value: start + (value - low) / (high - low) * (end - start), ticks


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return float(next(m for m in (1, 2, 5, 10) if rough <= m * power * (1 + 1e-9)) * power)


def _frame(
    x: Scale, x_ticks: list[float], y: Scale, y_ticks: list[float], x_name: str, y_name: str,
    decades: bool = False,
) -> str:  # fmt: skip
    floor = HEIGHT - BOTTOM
    parts = []
    for tick in x_ticks:
        at = f"{x(tick):.1f}"
        text = _power(tick) if decades else written(round(tick, 12), "g")
        parts.append(f'<line class="grid-line" x1="{at}" x2="{at}" y1="{TOP}" y2="{floor}"/>')
        parts.append(f'<text x="{at}" y="{floor + 15}" text-anchor="middle">{text}</text>')
    for tick in y_ticks:
        at = f"{y(tick):.1f}"
        parts.append(
            f'<line class="grid-line" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>'
            f'<text x="{LEFT - 5}" y="{at}" dy="4" text-anchor="end">'
            f"{written(round(tick, 12), 'g')}</text>"
        )
    parts.append(f'<path class="axis" d="M{LEFT},{TOP}V{floor}H{WIDTH - RIGHT}"/>')
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) // 2}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{x_name}</text>"
        f'<text transform="translate(12 {(TOP + floor) // 2}) rotate(-90)" text-anchor="middle">'
        f"{y_name}</text>"
    )
    return "".join(parts)


def _power(exponent: float) -> str:
    """10 to a whole power, as text."""
    whole = round(exponent)
    digits = str(whole).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{digits}" if whole not in (0, 1) else ("1" if whole == 0 else "10")

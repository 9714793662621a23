"""The pictures: Figure 1, one panel for each loss, and what belongs beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill.paper.limits import Limit
from kronfill.paper.methods import METHODS
from kronfill.paper.published import ALGORITHMS, METRICS, PANELS
from kronfill.paper.results.table import Point, Records, algorithms_shown, costs, curves

__all__ = ["draw_bounds", "draw_costs", "draw_figure", "draw_variants"]

COLORS = {"MC": "C0", "KMC": "C3", "KKMCEX": "k"}
MARKS = {"MC": "o", "KMC": "s", "KKMCEX": "^"}
NAMES = {"test": "test loss", "train": "training loss", "ge": "generalization error"}
UNIT = "mean squared error"
"""Of all losses: in squared units of the data, of which the scale is arbitrary."""
DASHED = {"mc-0.1", "kmc"}
"""Variants whose curves lie on others."""
TITLES = {"a": "(a)  snr = ∞", "b": "(b)  snr = 4"}


def draw_figure(points: Iterable[Point]) -> Any:
    """A panel for each loss, without and with noise: ours as lines, the paper's as open markers."""
    found = curves(points)
    figure = _figure(12.0, 6.6)
    axes = figure.subplots(len(PANELS), len(METRICS), sharex=True)
    for row, panel in zip(axes, PANELS, strict=True):
        for ax, metric in zip(row, ("test", "ge", "train"), strict=True):
            for algorithm, label in algorithms_shown().items():
                _curve(ax, found.get((panel, label, metric), []), algorithm)
            ax.set(yscale="log", xlim=(0, 3200), xticks=range(100, 3101, 600))
            ax.set_title(f"{TITLES[panel]}, {NAMES[metric]}", fontsize=10)
            ax.grid(color="0.9")
        row[0].set_ylabel(UNIT)
    for ax in axes[-1]:
        ax.set_xlabel("N (rows = columns)")
    names: dict[str, Any] = {}
    for ax in axes.flat:
        names |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    if names:
        figure.legend(
            names.values(), names.keys(), loc="outside lower center", ncols=6, frameon=False
        )
    return figure


def _curve(ax: Any, row: Sequence[Point], algorithm: str) -> None:
    """One curve of the figure, ours and the paper's."""
    color = COLORS[algorithm]
    theirs = _ours(ax, row, "-", color, label=f"{algorithm}, ours")
    if theirs:
        ax.plot(
            *zip(*theirs, strict=True), MARKS[algorithm], color=color, markerfacecolor="none",
            markersize=5, label=f"{algorithm}, the paper",
        )  # fmt: skip


def _ours(
    ax: Any, row: Sequence[Point], style: str, color: str, **look: Any
) -> list[tuple[int, float]]:
    """Draw our means with a band of two standard errors; gives N and value of the paper's."""
    if not row:
        return []
    sizes = [p.N for p in row]
    values = np.array([p.value for p in row])
    errors = 2.0 * np.nan_to_num([p.stderr for p in row])
    ax.plot(sizes, values, style, color=color, markersize=3, **look)
    ax.fill_between(sizes, values - errors, values + errors, color=color, alpha=0.25, lw=0)
    return [(p.N, p.paper) for p in row if np.isfinite(p.paper)]


def draw_variants(points: Iterable[Point]) -> Any:
    """Test losses of every variant: what the paper's curves of MC and KMC hang on."""
    found = curves(points)
    panels = sorted({*PANELS, *(key[0] for key in found)})
    figure = _figure(5.5 * len(panels), 7.0)
    axes = figure.subplots(2, len(panels))
    for row, algorithms in zip(axes, (("MC",), ("KMC", "KKMCEX")), strict=True):
        for ax, panel in zip(row, panels, strict=True):
            for name, method in METHODS.items():
                if method.algorithm in algorithms:
                    _variant(ax, found.get((panel, method.label, "test"), []), name)
            ax.set_title(f"{_title(panel)}, {' and '.join(algorithms)}", fontsize=10)
            ax.set(xlabel="N (rows = columns)", yscale="log")
            ax.grid(color="0.9")
            if ax.lines:
                ax.legend(fontsize=8, frameon=False)
        row[0].set_ylabel(f"test loss ({UNIT})")
    return figure


def _variant(ax: Any, row: Sequence[Point], name: str) -> None:
    method = METHODS[name]
    style = "--" if name in DASHED else "-"
    theirs = _ours(ax, row, style, _color(name), label=method.label)
    first = next(key for key, other in METHODS.items() if other.algorithm == method.algorithm)
    if theirs and name == first:
        mark = "ks" if method.algorithm == "KKMCEX" else "ko"
        label = f"{method.algorithm} in the paper"
        ax.plot(*zip(*theirs, strict=True), mark, markerfacecolor="none", label=label)


def draw_bounds(found: Sequence[Limit]) -> Any:
    """Measured generalization error with the printed and the corrected bound, for each method."""
    figure = _figure(11.0, 6.4)
    panels = sorted({x.panel for x in found}) or list(PANELS)
    axes = figure.subplots(len(panels), len(ALGORITHMS), sharex=True, sharey="row", squeeze=False)
    for row, panel in zip(axes, panels, strict=True):
        for ax, algorithm in zip(row, ALGORITHMS, strict=True):
            _bound_lines(ax, [x for x in found if x.panel == panel], algorithm)
            ax.set_title(f"{_title(panel)}, {algorithm}", fontsize=10)
            ax.set_yscale("log")
        row[0].set_ylabel(UNIT)
    for ax in axes[-1]:
        ax.set_xlabel("N (rows = columns)")
    handles = dict(zip(*reversed(axes[0][0].get_legend_handles_labels()), strict=True))
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False
    )
    return figure


def _bound_lines(ax: Any, found: Sequence[Limit], algorithm: str) -> None:
    label = algorithms_shown()[algorithm]
    rows = [x for x in found if METHODS[x.method].label == label]
    sizes = [x.N for x in rows]
    if rows:
        ax.plot(sizes, [x.printed for x in rows], "v--", color="C3", label="bound as printed")
        ax.plot(sizes, [x.corrected for x in rows], "^-", color="C0", label="bound corrected")
        ax.plot(sizes, [x.ge for x in rows], "o-", color="k", label="measured")


def draw_costs(records: Records) -> Any:
    """Median processor seconds per cell against N: fit, and losses over all entries."""
    figure = _figure(10.0, 3.8)
    left, right = figure.subplots(1, 2, sharey=True)
    found = costs(records)
    for ax, column, title in ((left, 3, "fit"), (right, 4, "losses over all N² entries")):
        for name, method in METHODS.items():
            rows = [row for row in found if row[0] == method.label]
            if rows:
                at = [row[1] for row in rows], [row[column] for row in rows]
                ax.plot(*at, "o-", color=_color(name), markersize=4, label=method.label)
        ax.set(xscale="log", yscale="log", xlabel="N", title=title)
    left.set_ylabel("processor seconds per cell (median)")
    if left.lines:
        left.legend(fontsize=7, frameon=False)
    return figure


def _color(name: str) -> str:
    return f"C{list(METHODS).index(name)}"


def _title(panel: str) -> str:
    return TITLES.get(panel, panel)


def _figure(width: float, height: float) -> Any:
    drawing = needed("matplotlib.figure", "Drawing the figures")
    return drawing.Figure(figsize=(width, height), layout="constrained")

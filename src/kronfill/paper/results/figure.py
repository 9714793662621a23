"""The pictures: Figure 1 in the paper's layout, and what belongs beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill.paper.limits import Limit
from kronfill.paper.methods import METHODS
from kronfill.paper.published import ALGORITHMS, METRICS, PANELS
from kronfill.paper.results.table import Point, Records, algorithms_shown, costs, curves

__all__ = ["draw_bounds", "draw_costs", "draw_figure", "draw_variants"]

# Colours and marks of the paper's figure.
COLORS = {
    ("MC", "test"): "#1f77b4",
    ("MC", "train"): "#ff7f0e",
    ("MC", "ge"): "#2ca02c",
    ("KMC", "test"): "#d62728",
    ("KMC", "train"): "#9467bd",
    ("KMC", "ge"): "#8c564b",
    ("KKMCEX", "test"): "#e377c2",
    ("KKMCEX", "train"): "#7f7f7f",
    ("KKMCEX", "ge"): "#bcbd22",
}
MARKS = {"test": "o", "train": "D", "ge": "s"}
LINES = {"MC": "-", "KMC": ":", "KKMCEX": "--"}
NAMES = {"test": "test", "train": "train", "ge": "gen."}
BREAK = (0.04, 0.1)
"""Where the axis of panel (a) is broken."""
TITLES = {"a": "(a)  snr = ∞", "b": "(b)  snr = 4"}


def draw_figure(points: Iterable[Point]) -> Any:
    """Both panels in the paper's layout, ours as lines with bands, the paper's as open markers."""
    found = curves(points)
    figure = _figure(12.0, 5.4)
    figure.get_layout_engine().set(hspace=0.0, h_pad=0.03)
    grid = figure.add_gridspec(2, 2)
    upper, lower = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[1, 0])
    right = figure.add_subplot(grid[:, 1])
    for algorithm, label in algorithms_shown().items():
        for metric in METRICS:
            for ax in (upper, lower):
                _curve(ax, found.get(("a", label, metric), []), algorithm, metric)
            _curve(right, found.get(("b", label, metric), []), algorithm, metric)
    _break_axis(upper, lower, [p for key, row in found.items() if key[0] == "a" for p in row])
    right.set_ylim(0.0, _top(found, "b", 0.582))
    for ax in (upper, lower, right):
        ax.set_xlim(0, 3200)
        ax.set_xticks(range(100, 3101, 600))
        ax.grid(color="0.9")
    for ax, panel in ((lower, "a"), (right, "b")):
        ax.set_xlabel(f"N      {TITLES[panel]}")
    _legend(figure, (lower, right))
    figure.supylabel("Error", fontsize=10)
    return figure


def _legend(figure: Any, axes: Sequence[Any]) -> None:
    """All curves once, in the paper's order, and what the open markers are."""
    found: dict[str, Any] = {}
    for ax in axes:
        found |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    names = [f"{a} {NAMES[metric]}" for a in ALGORITHMS for metric in METRICS]
    order = sorted(found, key=lambda name: names.index(name) if name in names else len(names))
    figure.legend(
        [found[name] for name in order], order, loc="outside lower center", ncols=5,
        frameon=False, fontsize=8,
    )  # fmt: skip


def _curve(ax: Any, row: Sequence[Point], algorithm: str, metric: str) -> None:
    """One curve of the figure, ours and the paper's."""
    color, mark = COLORS[algorithm, metric], MARKS[metric]
    label = f"{algorithm} {NAMES[metric]}"
    theirs = _ours(ax, row, LINES[algorithm], color, marker=mark, label=label)
    if theirs:
        ax.plot(
            *zip(*theirs, strict=True), mark, color=color, markerfacecolor="none", markersize=8,
            label="open: the paper's value" if (algorithm, metric) == ("MC", "test") else None,
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


def _break_axis(upper: Any, lower: Any, shown: Sequence[Point]) -> None:
    labels = set(algorithms_shown().values())
    small = [
        p.value + 2.0 * np.nan_to_num(p.stderr)
        for p in shown
        if p.algorithm in labels - {algorithms_shown()["MC"]}
    ]
    top = max([BREAK[0], *(1.1 * value for value in small)])
    lower.set_ylim(-0.08 * top, top)
    upper.set_ylim(max(BREAK[1], top), max(0.582, *(1.05 * p.value for p in shown), 0.0))
    lower.spines.top.set_visible(False)
    upper.spines.bottom.set_visible(False)
    upper.tick_params(bottom=False, labelbottom=False)
    slash = {"marker": [(-1, -0.6), (1, 0.6)], "markersize": 8, "ls": "none", "color": "k"}
    upper.plot([0, 1], [0, 0], transform=upper.transAxes, clip_on=False, **slash)
    lower.plot([0, 1], [1, 1], transform=lower.transAxes, clip_on=False, **slash)


def _top(found: Mapping[tuple[str, str, str], list[Point]], panel: str, least: float) -> float:
    labels = set(algorithms_shown().values())
    values = [p.value for k, row in found.items() if k[0] == panel and k[1] in labels for p in row]
    return max([least, *(1.05 * value for value in values)])


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
            ax.set_xlabel("N")
            if ax.lines:
                ax.set_ylim(0.0, 1.08 * max(np.max(line.get_ydata()) for line in ax.lines))
                ax.legend(fontsize=8, frameon=False)
        row[0].set_ylabel("test loss")
    return figure


def _variant(ax: Any, row: Sequence[Point], name: str) -> None:
    method = METHODS[name]
    theirs = _ours(ax, row, "o-", _color(name), label=method.label)
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
        row[0].set_ylabel("generalization error")
    for ax in axes[-1]:
        ax.set_xlabel("N")
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
    """Median seconds per cell against N: fit, and losses over all entries."""
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
    left.set_ylabel("seconds per cell (median)")
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

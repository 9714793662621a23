"""One picture for each of the referee's questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kronfill._optional import needed as package
from kronfill.paper.referee.answers import TARGETS, Rank
from kronfill.paper.referee.complexities import ClosedForm, tightest
from kronfill.paper.referee.fits import SIDES, RefereeFit

__all__ = ["draw_complexities", "draw_ranks", "draw_samples", "draw_sides"]

COLORS = {"MC": "C0", "KMC": "C3", "IMC": "C2", "KKMCEX": "k"}
LINES = {"MC": "o-", "KMC": "s-", "IMC": "D--", "KKMCEX": "^-"}
"""KMC and IMC often lie on each other: the second is dashed, with open marks."""


def draw_complexities(rows: Sequence[ClosedForm]) -> Any:
    """Exact complexity, printed and tightest corrected form: over N and over m = u."""
    figure = _figure(12.0, 6.2)
    axes = figure.subplots(2, len(COLORS), sharey="row", squeeze=False)
    for line, sweep, x in zip(axes, ("N", "m = u"), ("N", "m"), strict=True):
        for ax, method in zip(line, COLORS, strict=True):
            of = [row for row in rows if (row.sweep, row.method) == (sweep, method)]
            printed = [row for row in of if row.form == "as printed"]
            _line(ax, x, printed, "bound", "v--", "C1", "as printed")
            if method == "KKMCEX":  # a smaller class, which depends on the split
                _line(ax, x, printed, "exact", "x", "C1", "exact, the printed class")
            for law, color in (("paper", "C3"), ("eyp", "C0"), ("sub", "C2")):
                one = [row for row in tightest(of) if row.law == law]
                _line(ax, x, one, "bound", "--", color, f"tightest corrected, signs {law!r}")
                _line(ax, x, one, "exact", "o-", color, f"exact, signs {law!r}")
            ax.set(xscale="log", yscale="log", title=f"{method}, over {sweep}", xlabel=x)
            at = sorted({getattr(row, x) for row in of})
            ax.set_xticks(at, labels=map(str, at), fontsize=8)
            ax.minorticks_off()
            ax.grid(color="0.9")
        line[0].set_ylabel("complexity, radius 1")
    _shared_legend(figure, axes)
    return figure


def _line(
    ax: Any, x: str, rows: Sequence[ClosedForm], y: str, style: str, color: str, label: str
) -> None:
    if rows:
        at = [getattr(row, x) for row in rows], [getattr(row, y) for row in rows]
        ax.plot(*at, style, color=color, markersize=4, label=label)


def draw_sides(fits: Sequence[RefereeFit]) -> Any:
    """Test loss, generalization error, norm and bound for right and wrong side information."""
    figure = _figure(12.0, 4.6)
    panels = ("test", "ge", "norm", "corrected")
    names = ("test loss", "generalization error", "norm of the fit", "corrected bound")
    for ax, column, name in zip(figure.subplots(1, 4, sharey=True), panels, names, strict=True):
        for k, method in enumerate(("KKMCEX", "KMC", "IMC")):
            row = {fit.side: fit for fit in fits if fit.method == method}
            beside = np.arange(len(SIDES)) + 0.18 * (k - 1)
            at = [getattr(row[side], column) for side in SIDES], beside
            ax.plot(*at, LINES[method][0], color=COLORS[method], markersize=5, label=method)
        mc = next(fit for fit in fits if fit.method == "MC")
        ax.axvline(getattr(mc, column), color=COLORS["MC"], label="MC (none)")
        ax.set(xscale="log", title=name, yticks=range(len(SIDES)), yticklabels=SIDES)
        ax.grid(color="0.9")
    figure.axes[0].invert_yaxis()
    _shared_legend(figure, np.array([figure.axes[:1]]))
    return figure


def draw_samples(fits: Sequence[RefereeFit]) -> Any:
    """Test loss and generalization error against m, with the losses asked for."""
    figure = _figure(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    for ax, column, name in ((left, "test", "test loss"), (right, "ge", "generalization error")):
        for method, color in COLORS.items():
            row = sorted((fit for fit in fits if fit.method == method), key=lambda fit: fit.m)
            at = [fit.m for fit in row], [getattr(fit, column) for fit in row]
            face = "none" if method == "IMC" else color
            ax.plot(
                *at, LINES[method], color=color, markersize=5, markerfacecolor=face, label=method
            )
        ax.set(xscale="log", yscale="log", xlabel="m (observations)", title=name)
        ax.set_xticks(at[0], labels=map(str, at[0]))
        ax.minorticks_off()
        ax.grid(color="0.9")
    for target in TARGETS:
        left.axhline(target, color="0.6", ls=":")
    left.set_yticks(TARGETS, labels=map(str, TARGETS), minor=True)
    left.set_ylabel("mean squared error (mean square of the truth 1)")
    left.legend(frameon=False)
    return figure


def draw_ranks(ranks: Sequence[Rank]) -> Any:
    """Kendall's tau between each bound and each loss."""
    figure = _figure(8.0, 3.8)
    ax = figure.subplots()
    names = [f"{what}: {bound} against {loss}" for what, bound, loss, *_ in ranks]
    ax.barh(range(len(ranks)), [row[3] for row in ranks], color="C0")
    ax.set(yticks=range(len(ranks)), yticklabels=names, xlim=(-1, 1), xlabel="Kendall's tau")
    ax.axvline(0.0, color="k", lw=0.8)
    ax.invert_yaxis()
    return figure


def _shared_legend(figure: Any, axes: Any) -> None:
    names: dict[str, Any] = {}
    for ax in axes.flat:
        names |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(names.values(), names.keys(), loc="outside lower center", ncols=4, frameon=False)


def _figure(width: float, height: float) -> Any:
    drawing = package("matplotlib.figure", "Drawing the figures")
    return drawing.Figure(figsize=(width, height), layout="constrained")

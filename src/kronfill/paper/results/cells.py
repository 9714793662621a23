"""What only the single cells tell: pairs of methods on the same data, bounds, cost; as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kronfill.paper.limits import Limit
from kronfill.paper.methods import METHODS
from kronfill.paper.results.numbers import markdown_table
from kronfill.paper.results.table import (
    SOLVER_COLUMNS,
    Records,
    costs,
    paired,
    ratio,
    solver_means,
)

__all__ = ["cells_text"]

RATIO_NOTE = (
    "Geometric mean over the realisations that both have, with the factor of one standard error."
)


def cells_text(records: Records, bounds: Sequence[Limit]) -> str:
    """The tables that need more than the points of the curves."""
    parts = [
        "# Figure 1: what the single cells tell",
        "Written by `kronfill reproduce fig1`.",
        "## KMC: two solvers of the same problem, on the same realisations",
        _solvers(records, "kmc-rowwise"),
        *_longer(records),
        "## KMC against KKMCEX: ratio of test losses on the same realisations",
        RATIO_NOTE,
        _against_kkmcex(records),
        "## Generalization error and its bounds",
        _bounds(bounds),
        "## Processor seconds per cell (median)",
        _costs(records),
    ]
    return "\n\n".join(parts) + "\n"


def _solvers(records: Records, slow: str) -> str:
    rows = []
    for (panel, size), pair in paired(records, slow, "kmc").items():
        lower = np.mean([b["objective"] < a["objective"] for a, b in zip(*pair, strict=True)])
        means = solver_means(pair, ".3g")
        rows.append([f"({panel})", str(size), str(len(pair[0])), *means, f"{lower:.0%}"])
    head = ("panel", "N", "realisations", *SOLVER_COLUMNS, "exact reaches a lower objective")
    return markdown_table(head, rows)


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
    return markdown_table(("panel", "N", *(METHODS[name].label for name in found)), rows)


def _ratio(pair: Any) -> str:
    if pair is None:
        return "–"
    value, error = ratio(pair, "test")
    return f"{value:.3g}" + ("" if math.isnan(error) else f" ×/÷ {error:.2f}")


def _bounds(bounds: Sequence[Limit]) -> str:
    rows = [
        [f"({x.panel})", METHODS[x.method].label, str(x.N), str(x.realizations)]
        + [f"{value:.4g}" for value in (x.ge, x.norm, x.printed, x.corrected)]
        for x in bounds
    ]
    head = (
        "panel", "method", "N", "realisations", "measured", "norm of the fit", "as printed",
        "corrected",
    )  # fmt: skip
    return markdown_table(head, rows)


def _costs(records: Records) -> str:
    rows = [
        [label, str(size), *(f"{value:.3f}" for value in times)]
        for label, size, *times in costs(records)
    ]
    return markdown_table(("method", "N", "data", "fit", "losses over all entries"), rows)

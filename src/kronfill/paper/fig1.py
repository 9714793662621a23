"""Figure 1 from end to end: run what is missing, then write table, figures and page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kronfill._atomic import Publication
from kronfill.paper.limits import limits
from kronfill.paper.methods import METHODS
from kronfill.paper.results.cells import cells_text
from kronfill.paper.results.figure import draw_bounds, draw_costs, draw_figure, draw_variants
from kronfill.paper.results.joined import png
from kronfill.paper.results.numbers import numbers
from kronfill.paper.results.page import page
from kronfill.paper.results.table import algorithms_shown, samples_csv, summarize, to_csv
from kronfill.paper.results.verdict import CurveVerdict, verdicts
from kronfill.paper.running.backends import Backend
from kronfill.paper.running.runner import RunWatcher, run_plan
from kronfill.paper.running.spec import RunPlan
from kronfill.paper.running.store import Store
from kronfill.paper.running.work import CellSettings, settings_for

__all__ = ["FigureRun", "quick_plan", "reproduce", "write_report"]


@dataclass(frozen=True)
class FigureRun:
    """What a run gives."""

    page: Path
    table: Path
    """``fig1.csv``."""
    verdicts: list[CurveVerdict]
    """One per curve of the paper."""
    failed: list[dict[str, Any]]
    """Cells that failed in every attempt."""


def quick_plan(seed: int = 0) -> RunPlan:
    """A run of about a minute: N up to 1000, a few realisations.

    Examples
    --------
    >>> from kronfill.paper.fig1 import quick_plan
    >>> quick_plan().sizes
    (100, 400, 1000)
    """
    counts = {"kkmcex": 20, "mc": 3, "mc-0.1": 3, "mc-0.1-gaussian": 3, "kmc-rowwise": 1, "kmc": 1}
    return RunPlan(sizes=(100, 400, 1000), counts=counts, seed=seed)


def reproduce(
    plan: RunPlan, out: Path, backend: Backend, watcher: RunWatcher | None = None
) -> FigureRun:
    """Run a plan, resuming what is in the folder ``out``, and write the report there."""
    settings = settings_for(plan.seed)
    store = Store(out / "store", settings)
    run_plan(plan, settings, store, backend, watcher)
    store.merge()
    return write_report(store, settings, out)


def write_report(store: Store, settings: CellSettings, out: Path) -> FigureRun:
    """Write table, figures and page of everything that is in a store to the folder ``out``.

    They are ``fig1.csv``, ``fig1-samples.csv``, ``fig1*.png``, ``fig1-numbers.md``,
    ``fig1-cells.md`` and ``fig1.html``.
    """
    records = store.records()
    points = summarize(records)
    judged = verdicts(points)
    shown = set(algorithms_shown().values())
    bounds = limits(records, settings, [k for k, m in METHODS.items() if m.label in shown])
    pictures = {
        "fig1": png(draw_figure(points)),
        "fig1-variants": png(draw_variants(points)),
        "fig1-bounds": png(draw_bounds(bounds)),
        "fig1-costs": png(draw_costs(records)),
    }
    texts = {
        "fig1.csv": to_csv(points),
        "fig1-samples.csv": samples_csv(records),
        "fig1-numbers.md": numbers(points),
        "fig1-cells.md": cells_text(records, bounds),
        "fig1.html": page(points, records, judged, bounds, settings, pictures),
    }
    contents = {name: text.encode("utf-8") for name, text in texts.items()}
    contents |= {f"{name}.png": png for name, png in pictures.items()}
    with Publication() as publication:
        for name, content in contents.items():
            with publication.open(out / name) as file:
                file.write(content)
    return FigureRun(out / "fig1.html", out / "fig1.csv", judged, store.failed())

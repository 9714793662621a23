"""Figures, page and tables of a small run with every method."""

from __future__ import annotations

import re

import pytest

from kronfill.paper.fig1 import write_report
from kronfill.paper.limits import _units, limits
from kronfill.paper.methods import METHODS
from kronfill.paper.results.figure import draw_figure
from kronfill.paper.results.page import _failures
from kronfill.paper.results.table import paired, ratio, summarize
from kronfill.paper.running.backends import Serial
from kronfill.paper.running.runner import run_plan
from kronfill.paper.running.spec import RunPlan
from kronfill.paper.running.store import Store
from kronfill.paper.running.work import CellSettings, failed_record

COUNTS = {**dict.fromkeys(METHODS, 1), "kkmcex": 2}
del COUNTS["kmc-rowwise-400"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two sizes, both panels, every method of the figure."""
    mu = {
        "a": {"kkmcex": 1e-11, "mc": 0.1, "kmc": 0.3},
        "b": {"kkmcex": 1.0, "mc": 1.0, "kmc": 3.0},
    }
    settings = CellSettings(0, 1.335, 0.45, mu)
    out = tmp_path_factory.mktemp("run")
    store = Store(out / "store", settings)
    plan = RunPlan(sizes=(34, 60), counts=COUNTS)
    assert run_plan(plan, settings, store, Serial()) == []
    return store, settings, out, write_report(store, settings, out)


def test_everything_is_written(run):
    _, _, out, report = run
    text = report.page.read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 4
    assert len(re.findall(r"<tr>", text)) > 18 + len(summarize([]))
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    for name in ("fig1.png", "fig1-variants.png", "fig1-bounds.png", "fig1-costs.png"):
        assert (out / name).stat().st_size > 10_000
    for name in ("fig1-numbers.md", "fig1-cells.md"):
        assert "| (b) | KKMCEX | 60 |" in (out / name).read_text(encoding="utf-8")
    assert report.failed == []


def test_failed_cells_stand_on_the_page(run):
    _, settings, *_ = run
    cell = next(iter(RunPlan(sizes=(77,), counts={"mc": 1}).cells()))
    text = _failures([failed_record(cell, settings, "lost <somewhere>")])
    assert "1 cells failed" in text
    assert "a-77-0-mc" in text
    assert "lost &lt;somewhere&gt;" in text
    assert _failures([]) == ""


def test_the_figure_has_a_panel_for_each_loss_with_three_methods(run):
    store, *_ = run
    figure = draw_figure(summarize(store.records()))
    assert len(figure.axes) == 6
    for ax in figure.axes:
        assert len([line for line in ax.lines if len(line.get_xdata()) == 2]) == 3
    assert figure.axes[0].get_ylabel() == "mean squared error"


def test_bounds_lie_above_what_they_bound(run):
    store, settings, *_ = run
    found = limits(store.records(), settings, ["kkmcex", "mc-0.1", "kmc-rowwise"])
    assert len(found) == 2 * 3 * 2
    assert all(x.corrected > x.ge for x in found)


def test_the_printed_bound_of_kkmcex_grows_with_n_and_the_corrected_one_does_not():
    settings = CellSettings(0, 1.335, 0.45, {})
    small, large = (_units(size, settings, {"KKMCEX"})["KKMCEX"] for size in (60, 240))
    assert large.printed > 2 * small.printed
    assert large.sub == pytest.approx(small.sub)
    assert large.eyp < 1.01 * small.eyp


def test_pairs_hold_the_same_realisations(run):
    store, *_ = run
    pairs = paired(store.records(), "kmc-rowwise", "kmc")
    assert set(pairs) == {(panel, size) for panel in "ab" for size in (34, 60)}
    for slow, exact in pairs.values():
        assert [r["spawn_key"] for r in slow] == [r["spawn_key"] for r in exact]
        assert exact[0]["objective"] <= slow[0]["objective"] * (1 + 1e-3)
    value, error = ratio(([{"x": 2.0}, {"x": 2.0}], [{"x": 1.0}, {"x": 1.0}]), "x")
    assert value == pytest.approx(2.0)
    assert error == pytest.approx(1.0)


@pytest.mark.parametrize("plan", [
    RunPlan(sizes=(34,), panels=("snr=2",), counts={"kkmcex": 1, "mc-0.1": 1}),
    RunPlan(sizes=(34,), panels=("a",), counts={"mc": 1}),
])  # fmt: skip
def test_a_part_of_the_figure_can_be_run_alone(tmp_path, run, plan):
    _, settings, *_ = run
    store = Store(tmp_path / "store", settings)
    run_plan(plan, settings, store, Serial())
    report = write_report(store, settings, tmp_path)
    assert len(report.verdicts) == 18
    assert {row["panel"] for row in store.records()} == set(plan.panels)
    assert report.table.read_text(encoding="utf-8").count("\n") == 1 + 3 * len(plan.counts)

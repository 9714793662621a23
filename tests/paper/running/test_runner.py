"""Runs: resumed, retried, the same on every backend."""

from __future__ import annotations

import itertools
from concurrent.futures import Future

import pytest

from kronfill.errors import ParameterError
from kronfill.paper.running import backends
from kronfill.paper.running.backends import Backend, Processes, Serial, backend_for
from kronfill.paper.running.runner import RunWatcher, missing_cells, run_plan
from kronfill.paper.running.spec import Cell, RunPlan, panel_of, snr_of
from kronfill.paper.running.store import Store
from kronfill.paper.running.work import failed_record, run_cell

PLAN = RunPlan(sizes=(34, 40), counts={"kkmcex": 3, "mc-0.1": 2})
TIMES = ("seconds_data", "seconds_fit", "seconds_losses")


def numbers(store):
    """Everything but the times, in a form in which NaN equals NaN."""
    return [repr({k: v for k, v in row.items() if k not in TIMES}) for row in store.records()]


class Interrupted(Backend):
    """Stops after a few cells, as Ctrl-C does."""

    def run(self, cells, settings):
        yield from itertools.islice(Serial().run(cells, settings), 4)
        raise KeyboardInterrupt


class Unreliable(Backend):
    """Every cell fails until its last attempt."""

    def __init__(self, good_after):
        self.calls = 0
        self.good_after = good_after

    def run(self, cells, settings):
        self.calls += 1
        for cell in cells:
            good = self.calls > self.good_after
            yield run_cell(cell, settings) if good else failed_record(cell, settings, "lost")


def test_an_interrupted_run_goes_on_and_ends_the_same(tmp_path, settings):
    whole, broken = Store(tmp_path / "whole", settings), Store(tmp_path / "broken", settings)
    assert run_plan(PLAN, settings, whole, Serial()) == []
    with pytest.raises(KeyboardInterrupt):
        run_plan(PLAN, settings, broken, Interrupted())
    assert len(broken.done()) == 4
    assert len(missing_cells(PLAN, broken)) == len(list(PLAN.cells())) - 4
    assert run_plan(PLAN, settings, broken, Serial()) == []
    assert numbers(whole) == numbers(broken)


def test_failed_cells_are_tried_again(tmp_path, settings):
    backend = Unreliable(good_after=2)
    store = Store(tmp_path, settings)
    assert run_plan(PLAN, settings, store, backend) == []
    assert backend.calls == 3
    assert missing_cells(PLAN, store) == []


def test_cells_that_keep_failing_are_reported_and_left_for_the_next_run(tmp_path, settings):
    seen = []

    class Listener(RunWatcher):
        def finish(self, record):
            seen.append(record["key"])

    store = Store(tmp_path, settings)
    failed = run_plan(PLAN, settings, store, Unreliable(good_after=9), Listener())
    assert len(failed) == len(store.failed()) == len(seen) == len(list(PLAN.cells()))
    assert run_plan(PLAN, settings, store, Serial()) == []
    assert store.failed() == []


def test_an_error_becomes_a_record(settings, monkeypatch):
    monkeypatch.setattr("kronfill.paper.running.work.fit", lambda *args: 1 / 0)
    record = run_cell(Cell("kkmcex", 40, "a", 0), settings)
    assert record["status"] == "failed"
    assert "ZeroDivisionError" in record["error"]


def test_methods_see_the_same_data_and_panels_do_not(settings):
    first, second = (run_cell(Cell(m, 40, "a", 1), settings) for m in ("kkmcex", "mc-0.1"))
    other = run_cell(Cell("kkmcex", 40, "b", 1), settings)
    assert first["spawn_key"] == second["spawn_key"] != other["spawn_key"]


def test_processes_give_the_same_numbers(tmp_path, settings):
    plan = RunPlan(sizes=(34,), counts={"kkmcex": 2, "mc-0.1": 1})
    here, there = Store(tmp_path / "here", settings), Store(tmp_path / "there", settings)
    run_plan(plan, settings, here, Serial())
    run_plan(plan, settings, there, Processes(2))
    assert numbers(here) == numbers(there)


def test_cells_on_the_same_data_go_to_one_worker(settings, monkeypatch):
    groups = []

    class Pool:
        def __init__(self, *args, **kwargs): ...

        def shutdown(self, **kwargs): ...

        def submit(self, job, cells, settings):
            groups.append([cell.key for cell in cells])
            future = Future()
            future.set_result([failed_record(cell, settings, "not done") for cell in cells])
            return future

    monkeypatch.setattr(backends, "ProcessPoolExecutor", Pool)
    cells = list(RunPlan(sizes=(34,), counts={"kkmcex": 2, "mc": 1}).cells())
    records = list(Processes(2).run(cells, settings))
    assert groups == [
        ["a-34-0-kkmcex", "a-34-0-mc"], ["b-34-0-kkmcex", "b-34-0-mc"],
        ["a-34-1-kkmcex"], ["b-34-1-kkmcex"],
    ]  # fmt: skip
    assert sorted(record["key"] for record in records) == sorted(cell.key for cell in cells)


def test_which_backend():
    assert backend_for(1, None) == Serial()
    assert backend_for(3, None) == Processes(3)
    assert backend_for(1, "tcp://host:8786") == backends.Dask("tcp://host:8786")
    with pytest.raises(ParameterError, match="workers"):
        Processes(0)


def test_cells_come_cheapest_first_and_once():
    counts = {"kmc-rowwise": 1, "kkmcex": 2, "mc": 3}
    cells = list(RunPlan(sizes=(2000, 100), counts=counts).cells())
    assert len({cell.key for cell in cells}) == len(cells) == 2 * 2 * 6
    assert [cell.method for cell in cells[-4:]] == ["kmc-rowwise"] * 4
    assert [cell.size for cell in cells[:20]] == [100] * 10 + [2000] * 10


def test_cheap_methods_on_the_same_data_follow_each_other():
    cells = list(RunPlan(sizes=(100,), counts={"kkmcex": 2, "mc": 2}).cells())
    assert [cell.key for cell in cells[:4]] == [
        "a-100-0-kkmcex", "a-100-0-mc", "b-100-0-kkmcex", "b-100-0-mc",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"sizes": (31,)}, "sizes"),
        ({"sizes": ()}, "sizes"),
        ({"counts": {"nothing": 1}}, "nothing"),
        ({"counts": {}}, "none"),
        ({"counts": {"mc": 0}}, "realizations"),
        ({"seed": -1}, "seed"),
    ],
)
def test_impossible_plans_are_refused(change, match):
    with pytest.raises(ParameterError, match=match):
        RunPlan(**change)


def test_panels_and_ratios():
    for snr in (float("inf"), 4.0, 2.5):
        assert snr_of(panel_of(snr)) == snr
    with pytest.raises(ParameterError, match="snr"):
        panel_of(-1.0)

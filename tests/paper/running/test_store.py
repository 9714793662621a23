"""The store: whole cells or none, resumed, never mixed."""

from __future__ import annotations

import dataclasses

import pytest

from kronfill.errors import DataError
from kronfill.paper.running.spec import Cell
from kronfill.paper.running.store import Store
from kronfill.paper.running.work import failed_record, run_cell, versions

CELL = Cell("kkmcex", 40, "a", 0)


def test_a_cell_comes_back_as_it_was(tmp_path, settings):
    record = run_cell(CELL, settings)
    Store(tmp_path, settings).put(record)
    assert Store(tmp_path, settings).records() == [pytest.approx(record, nan_ok=True)]
    assert record["seed"] == 0
    assert record["spawn_key"] == "0,97,40,0,0"
    assert record["versions"] == versions()
    assert (record["mu"], record["exponent"], record["power"]) == (1e-8, 1.35, 0.45)


def test_a_failed_cell_is_kept_but_not_done(tmp_path, settings):
    store = Store(tmp_path, settings)
    store.put(failed_record(CELL, settings, "no reason"))
    assert store.done() == set()
    assert [row["error"] for row in store.failed()] == ["no reason"]
    store.put(run_cell(CELL, settings))
    assert store.done() == {CELL.key}
    assert store.failed() == []


def test_what_a_killed_writer_leaves_behind_is_no_cell(tmp_path, settings):
    store = Store(tmp_path, settings)
    store.put(run_cell(CELL, settings))
    (tmp_path / "parts" / "a-40-1-kkmcex.parquet.77.tmp").write_bytes(b"half a file")
    again = Store(tmp_path, settings)
    assert again.done() == {CELL.key}
    again.merge()
    assert [row["key"] for row in again.records()] == [CELL.key]


def test_merging_changes_nothing(tmp_path, settings):
    store = Store(tmp_path, settings)
    for k in range(3):
        store.put(run_cell(Cell("kkmcex", 40, "b", k), settings))
    before = store.records()
    store.merge()
    assert not list(tmp_path.glob("parts/*.parquet"))
    assert store.records() == [pytest.approx(row, nan_ok=True) for row in before]
    store.merge()
    store.put(failed_record(Cell("kkmcex", 40, "b", 1), settings, "newer"))
    assert [row["status"] for row in store.records()] == ["done", "failed", "done"]


def test_a_kill_between_merging_and_removing_loses_nothing(tmp_path, settings, monkeypatch):
    store = Store(tmp_path, settings)
    store.put(run_cell(CELL, settings))
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.unlink", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.merge()
    assert (tmp_path / "cells.parquet").exists()
    assert len(list(tmp_path.glob("parts/*.parquet"))) == 1
    assert [row["key"] for row in Store(tmp_path, settings).records()] == [CELL.key]


@pytest.mark.parametrize("change", [{"seed": 1}, {"power": 0.5}, {"mu": {"a": {"kkmcex": 1.0}}}])
def test_another_run_is_refused(tmp_path, settings, change):
    Store(tmp_path, settings)
    with pytest.raises(DataError, match="another run"):
        Store(tmp_path, dataclasses.replace(settings, **change))

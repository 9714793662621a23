"""A table that is never in memory is completed in Python as one that is."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.completion import StreamedCompletion, StreamedProblem, complete_streamed
from kronfill.errors import LabelError, MemoryLimitError, ParameterError, StorageError
from tests.cli.conftest import entries, items, users, write_parts


@pytest.fixture
def big(tmp_path):
    (tmp_path / "big").mkdir()
    write_parts(entries(), tmp_path / "big")
    return str(tmp_path / "big" / "*.parquet")


def in_memory(**settings):
    frame = entries()
    names = {"row": "user", "col": "item", "value": "stars"}
    return kf.complete(frame, users(), items(), "rrmcex", **names, **settings)


@pytest.mark.parametrize("center", ["mean", None])
def test_it_is_the_completion_in_memory(big, center):
    here = in_memory(mu=0.2, center=center).details(intervals="none")
    with kf.complete(big, users(), items(), "rrmcex", mu=0.2, center=center) as done:
        there = done.details()
    assert list(there.columns) == ["row", "column", "value", "status"]
    both = here.merge(there, on=["row", "column"], suffixes=("", "_there"))
    assert len(both) == len(there) == len(here)
    assert_allclose(both["value_there"], both["value"], rtol=0, atol=1e-6)
    assert (both["status"].astype(str) == both["status_there"].astype(str)).all()


def test_entries_by_label_by_index_and_from_a_file(big, tmp_path):
    done = kf.complete(big, users(), items(), mu=0.2)
    pairs = [(users().index[3], items().index[5]), (users().index[0], items().index[0])]
    frame = pd.DataFrame(pairs, columns=["user", "item"])
    frame.to_parquet(tmp_path / "pairs.parquet", index=False)
    by_label = done.details(pairs)
    by_index = done.details((np.array([3, 0]), np.array([5, 0])))
    from_file = done.details(tmp_path / "pairs.parquet")
    assert by_label.equals(by_index)
    assert by_label.equals(from_file)
    blocks = list(done.iter_details(chunk=100))
    assert [len(block) for block in blocks] == [100] * 7 + [50]
    open_ = pd.concat(blocks)
    open_ = open_[open_["status"] != "observed"]
    assert_allclose(done.predict(open_[["row", "column"]]), open_["value"], rtol=0, atol=0)
    with pytest.raises(LabelError, match="nobody"):
        done.predict([("nobody", items().index[0])])


def test_best_columns(big):
    with kf.complete(big, users(), items(), mu=0.2) as done:
        names = users().index[:4]
        best = done.best(3, rows=names)
        whole = done.details()
        assert list(best["rank"]) == [1, 2, 3] * 4
        for name, own in best.groupby("row"):
            free = whole[(whole["row"] == name) & (whole["status"] != "observed")]
            assert_allclose(own["value"], free["value"].nlargest(3), rtol=0, atol=1e-12)
        every = done.best(1, observed=True).set_index("row")["value"]
        assert_allclose(every, whole.groupby("row")["value"].max()[every.index], atol=1e-12)


def test_new_rows_and_the_saved_model(big, tmp_path):
    done = kf.complete(big, users(), items(), mu=0.2)
    new = users().iloc[[4]].set_axis(["new"])
    wide = done.extrapolate(rows=new)
    assert wide.shape == (1, 25)
    done.save(tmp_path / "model.kf")
    again = StreamedCompletion.from_model(kf.load(tmp_path / "model.kf"))
    assert again.extrapolate(rows=new).equals(wide)
    assert "not in memory" in repr(again)
    assert list(again.details([(users().index[0], items().index[0])]).columns) == [
        "row", "column", "value"
    ]  # fmt: skip
    for ask in (lambda: again.intervals(), lambda: again.details(intervals="gaussian")):
        with pytest.raises(ParameterError, match="no intervals"):
            ask()


def test_integer_codes_and_kernels_without_labels(big, tmp_path):
    frame = entries()
    codes = frame.assign(
        user=users().index.get_indexer(frame["user"]), item=items().index.get_indexer(frame["item"])
    )
    codes.to_parquet(tmp_path / "codes.parquet", index=False)
    with kf.complete(big, users(), items(), mu=0.2) as done:
        want = done.details()["value"]
    with kf.complete(tmp_path / "codes.parquet", users(), items(), mu=0.2) as done:
        assert_allclose(done.details()["value"], want, rtol=0, atol=1e-12)
    plain = [kf.kernels.rbf(np.linspace(0, 1, n), length_scale=0.5) for n in (30, 25)]
    est = kf.KKMCEX(*plain, mu=0.2, center="mean").fit(
        codes[["user", "item"]].to_numpy(), codes["stars"]
    )
    with kf.complete(tmp_path / "codes.parquet", *plain, mu=0.2) as done:
        assert_allclose(done.predict([(4, 7), (29, 0)]), est.predict([(4, 7), (29, 0)]), atol=1e-6)


def test_the_temporary_folder_goes_with_the_completion(big, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    done = kf.complete(big, users(), items(), mu=0.2)
    assert len(os.listdir(tmp_path / "temporary")) == 1
    done.close()
    assert os.listdir(tmp_path / "temporary") == []
    done = kf.complete(big, users(), items(), mu=0.2)
    del done
    assert os.listdir(tmp_path / "temporary") == []
    with pytest.raises(MemoryLimitError):
        kf.complete(big, users(), items(), mu=0.2, solver=kf.Streamed(memory="1MB"))
    assert os.listdir(tmp_path / "temporary") == []


def test_a_work_directory_is_gone_on_with(big, tmp_path):
    solver = kf.Streamed(tol=1e-8, work_dir=tmp_path / "work")

    def complete(**settings):
        return complete_streamed(big, users(), items(), solver=solver, **settings)

    first = complete(mu=0.2).details()
    assert complete(mu=0.2).details().equals(first)
    assert not complete(mu=0.3).details().equals(first)
    with pytest.raises(ParameterError, match=r"Go on with it \(resume=True\), or use another work"):
        complete(mu=0.2, resume=False)

    def stop(iteration, residual):
        raise KeyboardInterrupt

    solver = kf.Streamed(tol=1e-8, work_dir=tmp_path / "work", callback=stop)
    with pytest.raises(KeyboardInterrupt):
        complete(mu=0.2)
    solver = kf.Streamed(tol=1e-8, work_dir=tmp_path / "work")
    with pytest.raises(ParameterError, match="other settings: mu changed since"):
        complete(mu=0.3)
    assert complete(mu=0.2).details().equals(first)


def test_a_plan_before_any_work(big, monkeypatch):
    problem = StreamedProblem.of(big, users(), items())
    plan = problem.plan(kf.Streamed(memory="4GB"))
    assert plan.lines == len(entries())
    assert plan.disk_bytes == 24 * len(entries())
    assert 0 < plan.seconds < 1
    assert 1e7 < plan.memory_bytes < 4e9
    assert "4GB allowed" in str(plan)
    assert "On the cluster at tcp://a" in str(problem.plan(kf.Distributed("tcp://a")))
    assert "at the current client" in str(problem.plan(kf.Distributed()))
    monkeypatch.setattr("kronfill.streaming.plan.DISK", (10**15, 10**15))
    with pytest.raises(StorageError, match=r"a folder with more \(work_dir=\)"):
        StreamedCompletion.of(problem)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"method": "kmc"}, "method='kkmcex' or 'rrmcex', got 'kmc'"),
        ({"unmatched": "keep"}, "unmatched='keep' needs all labels"),
        ({"solver": "pcg"}, "solver must be"),
        ({"rows": None}, r"give rows=\.\.\. too"),
        ({"center": "both"}, "center must be None"),
    ],
)
def test_what_a_table_on_disk_does_not_have(big, settings, told):
    with pytest.raises(ParameterError, match=told):
        kf.complete(big, **{"rows": users(), "cols": items()} | settings)


def test_a_solver_is_for_tables_that_are_not_in_memory():
    with pytest.raises(ParameterError, match="solver says how a table that is not in memory"):
        kf.complete(np.eye(3), solver=kf.Streamed())

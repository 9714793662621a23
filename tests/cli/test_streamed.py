"""``kronfill complete`` on tables that are not held in memory gives what it gives in memory."""

from __future__ import annotations

import importlib
import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.completion.streamed import table as streamed_table
from tests.cli.conftest import SIDES, entries, items, run, users, write_parts

WAYS = {
    "several files": ["big/0.parquet", "big/2.parquet", "big/1.parquet"],
    "folder": ["big"],
    "pattern": ["big/*.parquet"],
    "one file": ["one.parquet", "--memory", "4GB"],
}


def in_memory(*more):
    run("complete", "one.parquet", *SIDES, "--intervals", "none", "-o", "here.parquet", *more)
    return pd.read_parquet("here.parquet").sort_values(["user", "item"], ignore_index=True)


def streamed(*more, way=("big",)):
    run("complete", *way, *SIDES, "-o", "there.parquet", *more)
    return pd.read_parquet("there.parquet").sort_values(["user", "item"], ignore_index=True)


@pytest.mark.parametrize("way", WAYS)
def test_values_and_status_are_those_of_the_command_in_memory(folder, way):
    settings = ("--method", "rrmcex", "--mu", 0.2)
    here, there = in_memory(*settings), streamed(*settings, way=WAYS[way])
    assert list(there.columns) == ["user", "item", "stars", "status"]
    assert len(there) == 30 * 25
    assert there[["user", "item", "status"]].equals(here[["user", "item", "status"]])
    assert_allclose(there["stars"], here["stars"], rtol=0, atol=1e-6)
    assert there["status"].value_counts().to_dict() == {
        "observed": len(entries()), "filled": 28 * 24 - len(entries()),
        "extrapolated": 30 * 25 - 28 * 24,
    }  # fmt: skip


@pytest.mark.parametrize("center", ["mean", "none"])
def test_mu_is_chosen_as_in_memory(folder, center):
    settings = ("--method", "rrmcex", "--center", center)
    here, there = in_memory(*settings), streamed(*settings)
    assert_allclose(there["stars"], here["stars"], rtol=0, atol=1e-6)


def test_kkmcex_is_that_of_the_same_kernels_in_memory(folder):
    there = streamed("--mu", 0.3)
    frame = entries()
    kernels = [kf.kernels.rbf(side) + kf.kernels.constant(len(side)) for side in (users(), items())]
    pairs = np.column_stack(
        [users().index.get_indexer(frame["user"]), items().index.get_indexer(frame["item"])]
    )
    est = kf.KKMCEX(*kernels, mu=0.3, center="mean").fit(pairs, frame["stars"])
    open_ = there[there["status"] != "observed"]
    asked = np.column_stack(
        [users().index.get_indexer(open_["user"]), items().index.get_indexer(open_["item"])]
    )
    assert_allclose(open_["stars"], est.predict(asked), rtol=0, atol=1e-6)
    seen = there[there["status"] == "observed"].merge(frame, on=["user", "item"])
    assert len(seen) == len(frame)
    assert (seen["stars_x"] == seen["stars_y"]).all()


@pytest.mark.parametrize("kind", ["codes", "numbers", "text that looks like numbers"])
def test_what_names_rows_and_columns(folder, kind):
    """Integer codes are positions in the side files; whole numbers there are labels."""
    want = streamed("--mu", 0.2)
    row, frame = users(), entries()
    at = row.index.get_indexer(frame["user"])
    if kind == "codes":
        names = np.arange(30)
        written = row.index
    elif kind == "numbers":
        names = written = 1000 + 7 * np.arange(30)
    else:
        names = written = np.array([f"{k:03d}" for k in range(30)])
    row.set_axis(pd.Index(written, name="id")).to_csv("users.csv")
    write_parts(frame.assign(user=names[at]), folder / "big")
    told = run("complete", "big", *SIDES, "-o", "named.parquet", "--mu", 0.2).stderr
    assert ("integer codes: 0 is" in told) == (kind == "codes")
    got = pd.read_parquet("named.parquet")
    back = dict(zip(names, row.index, strict=True))
    got = got.assign(user=got["user"].map(back)).sort_values(["user", "item"], ignore_index=True)
    assert got[["user", "item", "status"]].equals(want[["user", "item", "status"]])
    assert_allclose(got["stars"], want["stars"], rtol=0, atol=1e-12)


def test_weights_and_named_columns(folder):
    frame = entries().assign(weight=np.random.default_rng(5).uniform(0.5, 2.0, len(entries())))
    frame = frame[["stars", "item", "user", "weight"]]
    write_parts(frame, folder / "big")
    frame.to_parquet("one.parquet", index=False)
    named = ("--row-column", "user", "--col-column", "item", "--value-column", "stars")
    settings = ("--method", "rrmcex", "--mu", 0.2, *named)
    here, there = in_memory(*settings), streamed(*settings)
    assert_allclose(there["stars"], here["stars"], rtol=0, atol=1e-6)
    done = run("complete", "big", *SIDES, *named, "--dry-run")
    assert "weights from 'weight'" in done.stderr


def test_graphs_and_similarities_are_kernels_too(folder):
    near = items()["size"].to_numpy()
    names = items().index
    alike = pd.DataFrame(np.exp(-4 * np.abs(near[:, None] - near)), index=names, columns=names)
    alike.to_csv("items.csv")
    ends = {"source": users().index[1:], "target": users().index[:-1]}
    chain = pd.DataFrame({**ends, "weight": np.random.default_rng(4).uniform(0.5, 2.0, 29)})
    chain.to_csv("users.csv", index=False)
    settings = ("--method", "rrmcex", "--mu", 0.2)
    here, there = in_memory(*settings), streamed(*settings)
    assert_allclose(there["stars"], here["stars"], rtol=0, atol=1e-6)


# The entries that are asked for.


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_only_the_entries_asked_for_in_their_order(folder, monkeypatch, kind):
    monkeypatch.setattr(streamed_table, "CHUNK", 7)
    whole = streamed("--mu", 0.2)
    pairs = whole.sample(40, random_state=0)[["user", "item"]]
    if kind == "csv":
        pairs.to_csv("pairs.csv", index=False)
    else:
        pairs.to_parquet("pairs.parquet", index=False, row_group_size=9)
    some = ("--pairs", f"pairs.{kind}", "-o", "some.csv")
    run("complete", "big", *SIDES, "--mu", 0.2, *some)
    got = pd.read_csv("some.csv")
    want = pairs.merge(whole, on=["user", "item"], how="left")
    named = ["user", "item", "status"]
    assert got[named].equals(want.astype({"status": str})[named])
    assert_allclose(got["stars"], want["stars"], rtol=0, atol=1e-12)


def test_no_pairs_give_a_table_without_lines(folder):
    entries()[["user", "item"]].head(0).to_parquet("pairs.parquet", index=False)
    run("complete", "big", *SIDES, "--mu", 0.2, "--pairs", "pairs.parquet", "-o", "none.csv")
    assert list(pd.read_csv("none.csv").columns) == ["user", "item", "stars", "status"]


def test_unknown_pairs_are_refused_before_the_fit(folder):
    pairs = pd.DataFrame({"user": ["u01", "nobody"], "item": ["i1", "i2"]})
    pairs.to_parquet("pairs.parquet", index=False)
    some = ("--pairs", "pairs.parquet", "-o", "some.csv", "--work-dir", "work")
    done = run("complete", "big", *SIDES, "--mu", 0.2, *some, code=2)
    assert "pairs.parquet: the row 'nobody' on line 1 is none of the 30 labels" in done.stderr
    pairs.assign(user=[1, 2]).to_parquet("pairs.parquet", index=False)
    done = run("complete", "big", *SIDES, "--mu", 0.2, *some, code=2)
    assert "the row '1' on line 0 is none of the 30 labels" in done.stderr
    pairs.to_csv("pairs.csv", index=False)
    some = ("--pairs", "pairs.csv", *some[2:])
    assert "'nobody'" in run("complete", "big", *SIDES, "--mu", 0.2, *some, code=2).stderr
    assert not (folder / "work").exists()


def test_a_large_table_is_written_only_if_asked_for(folder, monkeypatch):
    monkeypatch.setattr(
        importlib.import_module("kronfill.cli.commands.complete"), "MANY_LINES", 700
    )
    done = run("complete", "big", *SIDES, "--mu", 0.2, code=2)
    assert "The whole table has 750 entries" in done.stderr
    assert "--pairs" in done.stderr
    run("complete", "big", *SIDES, "--mu", 0.2, "-o", "x.csv", "--save", "m.kf", code=2)
    run("complete", "big", *SIDES, "--mu", 0.2, "--save", "m.kf")
    assert sorted(path.name for path in folder.glob("*-filled*")) == []
    assert kf.load("m.kf").shape_ == (30, 25)
    run("complete", "big", *SIDES, "--mu", 0.2, "--all")
    assert len(pd.read_parquet("big-filled.parquet")) == 750


# What is said.


def test_facts_as_json(folder):
    done = run("complete", "big", *SIDES, "--json", "--save", "m.kf", "--memory", "4GB")
    facts = json.loads(done.stdout)
    m = len(entries())
    assert facts["ok"]
    assert (facts["m"], facts["lines"], facts["partitions"], facts["shape"]) == (m, m, 1, [30, 25])
    assert facts["table"]["files"] == 3
    assert facts["status"] == "converged"
    assert 0 < facts["residual"] <= 1e-8
    assert facts["passes"] > facts["iterations"] > 1
    assert facts["mu"] == kf.load("m.kf").mu_
    assert facts["disk_bytes"] == 24 * m
    assert 1e7 < facts["memory_bytes"] < 4e9
    assert facts["seconds"] > 0
    assert "mu chosen on" in facts["solve"]
    assert done.stderr == ""


def test_quiet_and_what_is_said_otherwise(folder):
    done = run("complete", "big", *SIDES, "--mu", 0.2, "--quiet")
    assert done.stderr == ""
    assert "observed" in done.stdout
    told = run("complete", "big", *SIDES, "--mu", 0.2).stderr
    for part in ("streamed, never held in memory", "Memory: up to", "no intervals", "iterations"):
        assert part in told


def test_a_dry_run_reads_the_ends_of_the_files_only(folder):
    path = folder / "big" / "1.parquet"
    data = bytearray(path.read_bytes())
    data[4:200] = bytes(196)
    path.write_bytes(data)
    done = run("complete", "big", *SIDES, "--dry-run", "--memory", "2GB", "--work-dir", "work")
    assert "Dry run" in done.stdout
    assert "2GB allowed" in done.stderr
    assert "Disk: up to" in done.stderr
    assert "KKMCEX (mu = auto, center = mean) on 30 rows x 25 columns" in done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "big", "items.csv", "one.parquet", "users.csv"
    ]  # fmt: skip
    done = run("complete", "big", *SIDES, "--work-dir", "work", code=1)
    assert "1.parquet, row group 0 cannot be read" in done.stderr


def test_the_saved_model_predicts(folder):
    there = streamed("--mu", 0.2, "--save", "m.kf")
    open_ = there[there["status"] != "observed"]
    open_[["user", "item"]].to_csv("pairs.csv", index=False)
    run("predict", "m.kf", "pairs.csv", "-o", "predicted.csv")
    got = pd.read_csv("predicted.csv")
    assert list(got.columns) == ["row", "column", "value"]
    assert_allclose(got["value"], open_["stars"], rtol=0, atol=1e-12)
    users().iloc[[4]].rename(index=lambda label: "new").to_csv("new.csv")
    run("predict", "m.kf", "--rows", "new.csv", "-o", "predicted.csv")
    got = pd.read_csv("predicted.csv").set_index("column")["value"]
    like = open_[open_["user"] == users().index[4]].set_index("item")["stars"]
    assert_allclose(got.loc[like.index], like, rtol=0, atol=1e-6)
    for command in (["suggest", "m.kf"], ["bound", "m.kf", "--range", 0, 9]):
        assert "keeps no observations" in run(*command, code=2).stderr
    run("predict", "m.kf", "pairs.csv", "--intervals", "gaussian", code=2)


def test_the_saved_model_predicts_new_rows_by_similarities(folder):
    age = users()["age"].to_numpy()
    alike = np.exp(-5 * (age[:, None] - age) ** 2)
    names = users().index
    pd.DataFrame(alike, names, names).to_csv("users.csv")
    there = streamed("--mu", 0.2, "--save", "m.kf")
    pd.DataFrame(alike[[4]][:, ::-1], ["new"], names[::-1]).rename_axis("id").to_csv("new.csv")
    run("predict", "m.kf", "--rows", "new.csv", "-o", "predicted.csv")
    got = pd.read_csv("predicted.csv").set_index("column")["value"]
    like = there[(there["status"] != "observed") & (there["user"] == names[4])]
    like = like.set_index("item")["stars"]
    assert_allclose(got.loc[like.index], like, rtol=0, atol=1e-6)

"""Several files about one axis, and columns of every kind, from files to new items."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from tests.cli.conftest import run

RNG = np.random.default_rng(5)
ITEMS = [f"i{k}" for k in range(24)]
GENRES = ["Action|War", "War", "Art|War", "Art", "Action"]
FILMS = pd.DataFrame(
    {
        "title": [f"The {['dark', 'red', 'old'][k % 3]} king of {k % 7 + 20}" for k in range(24)],
        "genres": [GENRES[k % 5] for k in range(24)],
        "zip": [f"0{k % 4}123" for k in range(24)],
        "length": [float(k) if k % 5 else None for k in range(24)],
        "since": pd.date_range("2024-01-01", periods=24).strftime("%Y-%m-%d"),
    },
    index=pd.Index(ITEMS, name="film"),
)
DAYS = [str(day.date()) for day in pd.date_range("2025-01-01", periods=30)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kinds = FILMS["genres"].str.get_dummies("|").to_numpy() @ RNG.standard_normal((3, 30))
    values = kinds + np.sin(np.arange(30) * 2 * np.pi / 7) + 0.1 * RNG.standard_normal((24, 30))
    values[RNG.random(values.shape) < 0.3] = np.nan
    pd.DataFrame(values, index=FILMS.index, columns=DAYS).to_csv("table.csv")
    FILMS.to_csv("films.csv")
    edges = [(ITEMS[k], ITEMS[k + 5]) for k in range(19)]
    pd.DataFrame(edges, columns=["source", "target"]).to_csv("edges.csv", index=False)
    new = FILMS.iloc[:3].set_axis(["n1", "n2", "n3"]).rename_axis("film")
    new.loc["n2", ["length", "genres"]] = None
    new.to_csv("new.csv")
    return tmp_path


def test_what_each_column_was_taken_for_is_said(folder):
    said = run("complete", "table.csv", "--rows", "films.csv", "--dry-run").stderr
    assert "title (text)" in said
    assert "genres (3 labels, up to 2 each)" in said
    assert "zip (codes, 4 categories)" in said
    assert "length (numbers, 5 missing)" in said
    assert "Say otherwise with --as COLUMN=KIND." in said
    said = run(
        "complete", "table.csv", "--rows", "films.csv", "--as", "genres=category", "--dry-run"
    ).stderr
    assert "genres (5 categories)" in said


def test_a_fresh_process_reads_new_items_as_the_fit_did(folder):
    run("complete", "table.csv", "--rows", "films.csv", "--save", "m.kf")
    command = [sys.executable, "-m", "kronfill.cli", "predict", "m.kf", "--rows", "new.csv"]
    subprocess.run([*command, "-o", "p.csv"], check=True, capture_output=True, timeout=100)
    found = pd.read_csv("p.csv").pivot(index="row", columns="column", values="value")
    table = pd.read_csv("table.csv", index_col=0)
    films = FILMS.assign(since=pd.to_datetime(FILMS["since"]))
    done = kf.complete(table, rows=films, method="kkmcex")
    new = pd.read_csv("new.csv", index_col=0, dtype={"zip": str}, parse_dates=["since"])
    want = done.extrapolate(rows=new)
    assert_allclose(found.to_numpy(), want[found.columns].to_numpy(), rtol=1e-8)


def test_several_files_are_several_sources(folder):
    run("complete", "table.csv", "--rows", "text=films.csv", "--rows", "net=edges.csv",
        "--rows-as", "features", "--rows-as", "edges", "--save", "m.kf",
        "--as", "zip=ignore")  # fmt: skip
    done = kf.load("m.kf")
    table = pd.read_csv("table.csv", index_col=0)
    graph = nx.Graph(list(pd.read_csv("edges.csv").itertuples(index=False, name=None)))
    films = FILMS.assign(since=pd.to_datetime(FILMS["since"]))
    side = {"text": films, "net": graph}
    again = kf.complete(table, rows=side, kinds={"zip": "ignore"}, method="kkmcex")
    assert_allclose(done.predicted.to_numpy(), again.predicted.to_numpy(), rtol=1e-6)
    run("predict", "m.kf", "--rows", "text=new.csv", "-o", "p.csv")
    assert len(pd.read_csv("p.csv")) == 3 * 30
    said = run("predict", "m.kf", "--rows", "new.csv", code=2).stderr
    assert "by 2 sources, 'text' and 'net'" in said or "by 2 sources, 'text', 'net'" in said
    said = run("predict", "m.kf", "--rows", "words=new.csv", code=2).stderr
    assert "--rows NAME=FILE" in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--rows", "a=films.csv", "--rows", "a=edges.csv"), "two sources are called 'a'"),
        (("--rows", "films.csv", "--as", "genres=list"), "--as takes COLUMN=KIND"),
        (("--rows", "films.csv", "--as", "genre=text"), "no file of side information has such"),
        (("--rows", "films.csv", "--rows", "edges.csv", "--rows-as", "edges"), "say it for each"),
        (("--rows", "films.csv", "--rows-as", "table"), "--rows-as takes one of features"),
    ],
)
def test_what_is_refused(folder, options, says):
    assert says in run("complete", "table.csv", *options, code=2).stderr


def test_dates_above_the_columns_tell_something(folder):
    said = run("complete", "table.csv", "--rows", "films.csv", "-o", "f.csv").stdout
    assert "columns: dates of 30 items" in said
    assert Path("f.csv").exists()


def test_the_days_that_come_next(folder):
    run("complete", "table.csv", "--mu", "0.1", "--save", "m.kf")
    done = kf.load("m.kf")
    said = run("predict", "m.kf", "--ahead", "3", "-o", "coming.csv").stderr
    assert "forecast 4 times" in said
    coming = pd.read_csv("coming.csv", parse_dates=["column"])
    expected = done.forecast_details(3)
    assert list(coming["row"]) == list(expected["row"])
    assert_allclose(coming[["value", "lower", "upper"]], expected[["value", "lower", "upper"]])
    run("predict", "m.kf", "--ahead", "3", "--intervals", "none", "-o", "plain.csv")
    plain = pd.read_csv("plain.csv")
    assert_allclose(plain["value"].to_numpy().reshape(3, 24).T, done.forecast(3))
    assert "leave PAIRS" in run("predict", "m.kf", "t.csv", "--ahead", "3", code=2).stderr


def test_values_within_a_range_and_whole(folder):
    table = pd.read_csv("table.csv", index_col=0)
    table.round().clip(-2, 2).to_csv("stars.csv")
    said = run(
        "complete", "stars.csv", "--mu", "0.1", "--range", "-2", "2", "--round",
        "-o", "f.csv", "--save", "m.kf",
    ).stdout  # fmt: skip
    assert "kept within -2 to 2, rounded" in said
    filled = pd.read_csv("f.csv", index_col=0).to_numpy()
    assert set(np.unique(filled)) <= {-2.0, -1.0, 0.0, 1.0, 2.0}
    logs = run("complete", "table.csv", "--mu", "0.1", "--transform", "log", code=2).stderr
    assert "--transform log is for values that are not negative" in logs
    run("predict", "m.kf", "--ahead", "2", "-o", "coming.csv")
    assert pd.read_csv("coming.csv")["upper"].max() <= 2

"""Intervals on the command line: of each entry's own kind, within groups, kept with the model."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import kronfill as kf
from kronfill import cli

RUN = CliRunner()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n, l = 40, 20
    places = pd.DataFrame(
        {"x": rng.random(n), "region": np.where(np.arange(n) < 20, "north", "south")},
        index=pd.Index([f"p{i}" for i in range(n)], name="place"),
    )
    values = np.sin(4 * places["x"].to_numpy())[:, None] + 0.2 * rng.standard_normal((n, l))
    values[rng.random((n, l)) < 0.4] = np.nan
    values[0] = np.nan
    pd.DataFrame(values, index=places.index, columns=[f"d{j}" for j in range(l)]).to_csv("t.csv")
    places.to_csv("places.csv")
    return tmp_path


def run(*arguments):
    if arguments[0] in ("complete", "evaluate") and "--method" not in arguments:
        arguments = (*arguments, "--method", "kkmcex")  # this is about commands, not methods
    done = RUN.invoke(cli.app, [str(a) for a in arguments])
    assert done.exit_code == 0, done.output
    return done


def test_each_entry_has_the_interval_of_its_kind_and_the_model_keeps_it(folder):
    done = run("complete", "t.csv", "--rows", "places.csv", "--mu", 0.3, "-o", "f.csv",
               "--details", "d.csv", "--save", "m.kf")  # fmt: skip
    assert "weighted conformal from" in done.output
    assert "new row: hierarchical conformal from" in done.output
    found = pd.read_csv("d.csv")
    new = found["place"] == "p0"
    assert set(found["interval"][new]) == {"conformal, new row"}
    filled = found["status"] == "filled"
    assert set(found["interval"][filled]) == {"conformal, known row and column"}
    assert (found["upper"] > found["lower"])[found["status"] != "observed"].all()
    kept = kf.load("m.kf").intervals_for(0)
    assert kept.parts[0] is not None
    assert kept.parts[1] is not None
    pd.DataFrame({"row": ["p0", "p1"], "column": ["d1", "d1"]}).to_csv("pairs.csv", index=False)
    run("predict", "m.kf", "pairs.csv", "-o", "p.csv")
    again = pd.read_csv("p.csv").iloc[0]
    want = found[new & (found.iloc[:, 1] == "d1")].iloc[0]
    assert again["lower"] == pytest.approx(want["lower"])
    assert again["interval"] == "conformal, new row"


def test_groups(folder):
    done = run("complete", "t.csv", "--rows", "places.csv", "--mu", 0.3, "-o", "f.csv",
               "--details", "d.csv", "--by", "region")  # fmt: skip
    assert "weighted conformal" in done.output
    done = run("evaluate", "t.csv", "--rows", "places.csv", "--mu", 0.3, "--folds", 2, "--by",
               "region", "--json")  # fmt: skip
    facts = json.loads(done.stdout)
    assert [line["group"] for line in facts["coverage"]] == ["north", "south"]

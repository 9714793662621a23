"""--likelihood and --negatives."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from .conftest import run

RNG = np.random.default_rng(0)
TRUE = np.outer(RNG.standard_normal(15), RNG.standard_normal(12))


@pytest.fixture
def clicks(tmp_path):
    values = (RNG.random(TRUE.shape) < 1 / (1 + np.exp(-2 * TRUE))).astype(float)
    frame = pd.DataFrame(np.where(RNG.random(TRUE.shape) < 0.8, values, np.nan))
    frame.index.name = "user"
    frame.columns = [f"page {j}" for j in frame]
    frame.to_csv(tmp_path / "clicks.csv")
    return tmp_path / "clicks.csv"


def test_auto_says_what_it_took_values_for(clicks, tmp_path):
    out, model = tmp_path / "filled.csv", tmp_path / "model.kf"
    options = ["--method", "mc", "--rank", "1", "--likelihood", "auto"]
    done = run("complete", clicks, *options, "-o", out, "--save", model)
    assert "All values are 0 or 1" in done.stderr
    assert "probabilities of 1" in done.stdout
    filled = pd.read_csv(out, index_col=0)
    assert filled.min().min() >= 0
    assert filled.max().max() <= 1
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,page\n3,page 1\n4,page 2\n")
    told = json.loads(run("predict", model, pairs, "--json").stdout)
    for line in told["predictions"]:
        assert 0 <= line["value"] <= 1
        assert line["lower"] in (0, 1, None)


def test_the_default_takes_values_as_numbers_and_says_what_else_there_is(clicks, tmp_path):
    done = run("complete", clicks, "--method", "mc", "--rank", "1", "--dry-run")
    assert "--likelihood bernoulli predicts probabilities of 1" in done.stderr


def test_streamed_tables_are_refused(tmp_path):
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["u", "v"], "c": [0.0, 1.0]})
    frame.to_parquet(tmp_path / "long.parquet")
    options = ["--memory", "1GB", "--likelihood", "bernoulli"]
    done = run("complete", tmp_path / "long.parquet", *options, code=2)
    assert "--likelihood needs all observations in memory" in done.stderr


def test_evaluate_shows_what_is_said_of_yes_or_no(clicks):
    options = ["--method", "mc", "--rank", "1", "--mu", "2", "--likelihood", "bernoulli"]
    done = run("evaluate", clicks, *options)
    for word in ("deviance", "AUC", "recall at 10", "NDCG at 10"):
        assert word in done.stdout
    told = json.loads(run("evaluate", clicks, *options, "--json").stdout)
    assert 0 < told["ranking"]["auc"] <= 1
    assert told["scores"][0]["auc"] > 0


def test_ones_alone_are_completed_and_judged(tmp_path):
    lines = [f"u{i},p{j},1" for i, j in np.argwhere(TRUE > 0.3)]
    (tmp_path / "ones.csv").write_text("user,page,click\n" + "\n".join(lines))
    options = ["--method", "mc", "--rank", "1", "--likelihood", "auto", "--negatives", "sample"]
    done = run("evaluate", tmp_path / "ones.csv", *options, "--folds", "2")
    assert "Ones alone are recorded" in done.stderr
    assert "recall at 10" in done.stdout

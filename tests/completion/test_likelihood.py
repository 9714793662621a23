"""Completed tables of yes or no, of counts and of stars."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.completion.judging.evaluation import cross_validate
from kronfill.completion.likelihood import possible_ends, recognised
from kronfill.errors import DataError, ParameterError

RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"x": RNG.standard_normal(25)}, index=[f"r{i}" for i in range(25)])
TRUE = np.outer(ROWS["x"], RNG.standard_normal(16))


def table(values):
    made = pd.DataFrame(values, index=ROWS.index).astype(float)
    made.columns = [f"c{j}" for j in range(16)]
    made = made.mask(RNG.random(made.shape) < 0.3)
    made.iloc[2] = np.nan
    return made


TABLES = {
    "bernoulli": table(RNG.random(TRUE.shape) < 1 / (1 + np.exp(-3 * TRUE))),
    "poisson": table(RNG.poisson(np.exp(TRUE))),
    "ordinal": table(np.clip(np.round(3 + TRUE + 0.3 * RNG.standard_normal(TRUE.shape)), 1, 5)),
}


@pytest.fixture(scope="module")
def done():
    return {
        kind: kf.complete(made, ROWS, method="kkmcex", likelihood=kind, mu=0.5)
        for kind, made in TABLES.items()
    }


@pytest.mark.parametrize("kind", TABLES)
def test_values_stay_and_the_others_are_expected_values(kind, done):
    made, filled = TABLES[kind], done[kind].filled
    assert done[kind].likelihood == kind
    seen = made.notna().to_numpy()
    np.testing.assert_array_equal(filled.to_numpy()[seen], made.to_numpy()[seen])
    low, high = {"bernoulli": (0, 1), "poisson": (0, np.inf), "ordinal": (1, 5)}[kind]
    assert filled.to_numpy().min() >= low
    assert filled.to_numpy().max() <= high
    assert "expected" in repr(done[kind]) or "probabilities" in repr(done[kind])


@pytest.mark.parametrize("kind", TABLES)
def test_intervals_have_possible_values_as_ends_and_hold(kind, done):
    details = done[kind].details()
    open_ = details[details["status"] != "observed"]
    ends = open_[["lower", "upper"]].to_numpy()
    assert not np.isnan(ends).any()
    allowed = np.unique(TABLES[kind].stack()) if kind != "poisson" else np.arange(200.0)
    assert np.isin(ends, allowed).all()
    assert (ends[:, 0] <= ends[:, 1]).all()
    truth = {
        "bernoulli": RNG.random(TRUE.shape) < 1 / (1 + np.exp(-3 * TRUE)),
        "poisson": RNG.poisson(np.exp(TRUE)),
    }
    if kind in truth:  # another draw
        at = open_["row"].map(ROWS.index.get_loc), open_["column"].str[1:].astype(int)
        value = truth[kind][at]
        assert np.mean((ends[:, 0] <= value) & (value <= ends[:, 1])) > 0.8


def test_stars_have_a_probability_each(done):
    details = done["ordinal"].details()
    names = ["P(1)", "P(2)", "P(3)", "P(4)", "P(5)"]
    assert list(details.columns[-5:]) == names
    seen = details["status"] == "observed"
    assert details.loc[seen, names].isna().all(axis=None)
    share = details.loc[~seen, names].to_numpy()
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    np.testing.assert_allclose(share @ np.arange(1, 6), details.loc[~seen, "value"])


@pytest.mark.parametrize("kind", TABLES)
def test_new_rows_and_files(kind, done, tmp_path):
    new = pd.DataFrame({"x": [0.3, -2.0]}, index=["a", "b"])
    done[kind].save(tmp_path / "model.kf")
    again = kf.load(tmp_path / "model.kf")
    pd.testing.assert_frame_equal(again.extrapolate(rows=new), done[kind].extrapolate(rows=new))
    frame = pd.concat(list(again.iter_predictions(rows=new)))
    assert len(frame) == 32
    assert set(frame["status"]) == {"extrapolated"}
    known = again.details([("r3", "c1"), ("r2", "c2")])
    assert list(known.columns) == list(frame.columns)
    np.testing.assert_allclose(
        frame["value"].to_numpy().reshape(2, 16), again.extrapolate(rows=new).to_numpy()
    )


@pytest.mark.parametrize("method", ["mc", "kmc", "bayesiankmc", "rrmcex", "imc"])
def test_every_method_takes_a_likelihood(method):
    settings = {"rank": 1} if method in ("mc", "kmc", "imc") else {}
    made = kf.complete(TABLES["bernoulli"], ROWS, method=method, likelihood="bernoulli", **settings)
    assert made.filled.min().min() >= 0


def test_auto_finds_out_what_values_are():
    kinds = {
        "bernoulli": [0.0, 1.0, 1.0], "poisson": [0.0, 0.0, 7.0, 1.0], "gaussian": [1.0, 5.0, 4.0],
    }  # fmt: skip
    for kind, values in kinds.items():
        assert recognised(np.array(values))[0] == kind
    for plain in ([0.0, 0.5], [0.0, 10.0, 8.0, 9.0], [-1.0, 0.0, 4.0], [0.0, 0.0], [1.0, 1.0]):
        assert recognised(np.array(plain))[0] == "gaussian"
    made = kf.complete(TABLES["bernoulli"], method="mc", rank=1, likelihood="auto")
    assert made.likelihood == "bernoulli"
    stars = kf.complete(TABLES["ordinal"], method="mc", rank=1, likelihood="auto")
    assert stars.likelihood == "gaussian"
    plain = kf.complete(TABLES["bernoulli"], method="mc", rank=1)
    assert type(plain.model) is kf.MC  # the default takes values as numbers


def test_widths_of_groups_are_those_of_possible_values(done):
    for kind in ("bernoulli", "ordinal"):
        widths = done[kind].coverage("row")["width"]
        levels = np.unique(TABLES[kind].stack().dropna())
        assert widths.between(0, np.ptp(levels)).all()
        assert np.isin(2 * widths, np.arange(2 * np.ptp(levels) + 1)).all()  # a median of two


def test_what_was_found_on_hidden_entries_is_shown_as_lines():
    found = kf.complete(TABLES["bernoulli"], method="mc", rank=1, likelihood="bernoulli").evaluate()
    own, mean, _ = found.parts["known"].scores()
    scores = found.scores.query("question == 'entries'").set_index("method")
    assert scores["deviance"].tolist()[:2] == [own.deviance, mean.deviance]
    assert scores.index.tolist() == ["MC for yes or no", "mean", "row + column effects"]
    shown = repr(found).splitlines()
    assert len(shown) == 1 + len(found.scores) + 1
    assert f"{own.auc:.4g}" in shown[1]
    assert "recall at 10" in shown[-1]
    numbers = kf.report.evaluate(kf.complete(TABLES["poisson"], method="mc", rank=1))
    assert "deviance" not in numbers.scores
    assert "deviance" not in repr(numbers)


def test_a_question_without_an_answer_says_why():
    found = cross_validate(kf.MC(rank=1), kf.Observations([0, 1], [0, 0], [1.0, 2.0], (2, 1)))
    assert "column" in found.notes
    line = found.scores.set_index("question").loc["new columns"]
    assert line["note"] == found.notes["column"]
    assert np.isnan(line["rmse"])
    assert found.notes["column"] in repr(found)


def test_ones_alone_are_completed_without_intervals():
    ones = TABLES["bernoulli"].where(TABLES["bernoulli"] == 1)
    made = kf.complete(ones, method="mc", rank=1, likelihood="bernoulli", negatives="sample")
    details = made.details()
    assert details["lower"].isna().all()
    assert (details["status"] == "observed").sum() == ones.notna().sum().sum()
    with pytest.raises(DataError, match=r"All values are 1\. .* negatives='sample'"):
        kf.complete(ones, likelihood="auto")
    with pytest.raises(ParameterError, match="draws zeros"):
        kf.complete(ones, likelihood="poisson", negatives="sample")


def test_possible_ends_keep_every_possible_value_inside():
    est = kf.LinkedRegressor(kf.MC(rank=1), "ordinal").fit([[0, 0], [0, 1], [1, 0]], [1, 2, 5])
    low, high = np.array([0.5, 1.2, 2.5, -9.0, np.nan]), np.array([2.0, 1.8, 9.0, 0.0, np.nan])
    ends = possible_ends(est, low, high, np.array([1.5, 1.7, 3.0, 1.1, 2.0]))
    np.testing.assert_array_equal(ends[0], [1, 2, 5, 1, np.nan])
    np.testing.assert_array_equal(ends[1], [2, 2, 5, 1, np.nan])


def test_what_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="likelihood must be one of"):
        kf.complete(TABLES["bernoulli"], likelihood="binary")
    with pytest.raises(ParameterError, match="must be None or 'sample'"):
        kf.complete(TABLES["bernoulli"], negatives="all")
    with pytest.raises(ParameterError, match="in memory"):
        kf.complete(tmp_path / "*.parquet", likelihood="bernoulli", row="a", col="b", value="c")

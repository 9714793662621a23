"""What is hidden, and what is said about it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.intervals import Calibrated
from kronfill.report import evaluate, evaluation
from kronfill.report.accuracy import accuracy, score
from kronfill.report.uncertainty import Measured

from .conftest import completed


def test_hidden_entries_are_of_the_kind_they_are_listed_under(kkmcex):
    found = evaluate(kkmcex)
    obs = kkmcex.observations
    assert found.scheme == "folds"
    assert set(found.parts) == {"known", "row", "column"}
    for part in found.parts.values():
        at = obs.to_dense()[part.rows, part.cols]
        np.testing.assert_array_equal(at, part.observed)
    assert len(found.parts["known"]) == obs.m  # every row and column has entries in other folds
    pairs = np.column_stack([found.parts["row"].rows, found.parts["row"].cols])
    assert len(np.unique(pairs, axis=0)) == obs.m


def test_nothing_is_hidden_from_a_single_observation():
    done = kf.complete(np.array([[1.0, np.nan]]), method="mc", mu=1.0)
    assert evaluate(done).scheme == "none"
    assert accuracy(evaluate(done)).parts == []


def test_in_one_row_only_new_columns_can_be_predicted():
    days = pd.DataFrame({"x": np.arange(9.0)})
    done = kf.complete(np.arange(9.0)[None], cols=days, mu=0.1)
    assert set(evaluate(done).parts) == {"column"}


def test_many_observations_are_hidden_once(monkeypatch, kkmcex):
    monkeypatch.setattr(evaluation, "FOLDS_LIMIT", 10)
    found = evaluate(kkmcex, seed=0)
    assert found.scheme == "hold-out"
    train = set(zip(kkmcex.observations.rows, kkmcex.observations.cols, strict=True))
    for part in found.parts.values():
        train -= set(zip(part.rows, part.cols, strict=True))
    rows, cols = {r for r, _ in train}, {c for _, c in train}
    for kind, part in found.parts.items():
        assert {r in rows for r in part.rows} == {kind in ("known", "column")}
        assert {c in cols for c in part.cols} == {kind in ("known", "row")}


def test_widths_of_a_hold_out_are_those_of_the_intervals_of_a_completion(monkeypatch, mc):
    monkeypatch.setattr(evaluation, "FOLDS_LIMIT", 10)
    rows, cols, middle = np.array([0, 3]), np.array([1, 1]), np.array([0.5, 0.0])
    ours = Measured(mc.model, evaluate(mc)).at(rows, cols, middle, 0.8)
    theirs = Calibrated(mc.model).at(rows, cols, middle, 0.8)
    np.testing.assert_array_equal(ours, theirs)


def test_the_same_seed_gives_the_same(mc):
    first, again, other = (evaluate(mc, seed=seed).parts["known"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.predicted, again.predicted)
    assert not np.array_equal(first.rows, other.rows)


def test_progress_is_told(kkmcex):
    told = []
    evaluate(kkmcex, progress=lambda what, share: told.append((what, share)))
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] < 1


@pytest.mark.parametrize(
    ("predicted", "rmse", "mae", "r2"),
    [([1.0, 2.0, 3.0], 0.0, 0.0, 1.0), ([2.0, 2.0, 2.0], np.sqrt(2 / 3), 2 / 3, 0.0)],
)
def test_scores(predicted, rmse, mae, r2):
    found = score(np.array([1.0, 2.0, 3.0]), np.array(predicted))
    assert (found.rmse, found.mae, found.r2) == pytest.approx((rmse, mae, r2))


def test_values_without_variation_have_no_r2():
    assert score(np.ones(3), np.zeros(3)).r2 is None


def test_useless_predictions_are_told_apart_from_good_ones():
    rng = np.random.default_rng(0)
    noise = pd.DataFrame(rng.standard_normal((12, 10)))
    places = pd.DataFrame({"x": rng.random(12)})
    bad = accuracy(evaluate(kf.complete(noise, places, mu=1e-3))).parts[0]
    good = accuracy(evaluate(completed())).parts[0]
    assert good.gain > 0.5
    assert good.clear
    assert bad.gain < 0.05

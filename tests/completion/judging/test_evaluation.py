"""What is hidden, what is predicted for it, and how good that is beside two simple rules."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.completion.entries.intervals import Calibrated
from kronfill.completion.judging import evaluation
from kronfill.completion.judging.evaluation import KINDS, cross_validate, evaluate, hold_out, score
from kronfill.errors import ConvergenceWarning, ParameterError
from kronfill.report.accuracy import accuracy
from kronfill.report.html.formats import Numbers
from kronfill.report.verdicts import part_verdict
from kronfill.selection import EntryKFold, RowKFold

from ...report.conftest import completed

X = np.linspace(0, 1, 12)
KERNEL = kf.kernels.rbf(X, length_scale=0.5) + kf.kernels.constant(12)
EST = kf.KKMCEX(KERNEL, KERNEL, mu=0.01)


def observations(m=100, weights=None):
    rng = np.random.default_rng(0)
    at = rng.permutation(144)[:m]
    values = np.sin(3 * X)[:, None] + np.cos(3 * X)[None, :]
    return kf.Observations(at // 12, at % 12, values.ravel()[at], (12, 12), weights=weights)


@pytest.fixture(scope="module")
def kkmcex():
    return completed()


@pytest.fixture(scope="module")
def mc():
    return completed("mc", rank=3)


# Folds.


def test_predictions_are_those_of_the_folds():
    obs = observations()
    found = cross_validate(EST, obs, ("row",), folds=4).parts["row"]
    guess = np.full((12, 12), np.nan)
    for train, test in RowKFold(4).split(obs):
        held = obs.take(test)
        fitted = kf.KKMCEX(KERNEL, KERNEL, mu=0.01).fit(obs.take(train))
        guess[held.rows, held.cols] = fitted.predict(held)
    assert len(found) == obs.m
    assert_allclose(found.predicted, guess[found.rows, found.cols], atol=1e-12)
    gap = obs.values - guess[obs.rows, obs.cols]
    own = found.scores()[0]
    assert_allclose(own.rmse, np.sqrt(np.mean(gap**2)))
    assert_allclose(own.mae, np.mean(np.abs(gap)))
    assert_allclose(own.r2, 1 - np.sum(gap**2) / np.sum((obs.values - obs.values.mean()) ** 2))


def test_the_two_rules_know_what_the_method_knows():
    weights = np.random.default_rng(1).uniform(0.5, 2, 100)
    obs = observations(weights=weights)
    found = cross_validate(EST, obs, ("known",), folds=3).parts["known"]
    mean = np.full((12, 12), np.nan)
    for train, test in EntryKFold(3).split(obs):
        seen, held = obs.take(train), obs.take(test)
        mean[held.rows, held.cols] = np.average(seen.values, weights=seen.weights)
    assert_allclose(found.mean, mean[found.rows, found.cols])
    assert found.scores()[2].rmse < 1e-8  # the truth is additive


def test_every_kind_is_told_about():
    told = []
    found = cross_validate(EST, observations(), folds=3, progress=lambda *what: told.append(what))
    assert tuple(found.parts) == KINDS
    assert told[0] == ("entries, fold 1 of 3", 0.0)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert shares[-1] < 1


def test_entries_of_weight_zero_take_no_part():
    weights = np.ones(100)
    weights[:20] = 0
    obs = observations(weights=weights)
    found = cross_validate(EST, obs, ("known",), folds=3).parts["known"]
    same = cross_validate(EST, obs.take(np.arange(20, 100)), ("known",), folds=3).parts["known"]
    assert len(found) == 80
    assert_allclose(found.predicted, same.predicted, atol=1e-12)


def test_questions_that_cannot_be_asked_say_why():
    one_row = kf.Observations([0, 0, 0], [0, 1, 2], [1.0, 2.0, 3.0], (12, 12))
    found = cross_validate(EST, one_row, folds=3)
    assert set(found.parts) == {"column"}
    assert "Only one row" in found.notes["row"]
    assert "once it is hidden" in found.notes["known"]
    with pytest.raises(ParameterError, match="folds must be"):
        cross_validate(EST, one_row, folds=1)
    with pytest.raises(ParameterError, match="kinds must be among"):
        cross_validate(EST, one_row, ("rows",))


def test_parameters_that_cannot_be_fitted_are_no_question_of_the_data():
    with pytest.raises(ParameterError, match="mu"):
        cross_validate(kf.KKMCEX(KERNEL, KERNEL, mu=-1.0), observations())


# A completed table.


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


def test_the_ridge_weight_of_a_completed_table_is_kept(kkmcex):
    model = kkmcex.model
    assert model.mu == "auto"
    fixed = kf.KKMCEX(model.row_kernel, model.col_kernel, model.mu_, center=model.center)
    part = cross_validate(fixed, kkmcex.observations, ("known",)).parts["known"]
    np.testing.assert_array_equal(part.predicted, evaluate(kkmcex).parts["known"].predicted)


def test_nothing_is_hidden_from_a_single_observation():
    done = kf.complete(np.array([[1.0, np.nan]]), method="mc", mu=1.0)
    assert evaluate(done).scheme == "none"


def test_in_one_row_only_new_columns_can_be_predicted():
    days = pd.DataFrame({"x": np.arange(9.0)})
    done = kf.complete(np.arange(9.0)[None], method="kkmcex", cols=days, mu=0.1)
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


def test_calibrated_intervals_take_a_hold_out_that_was_made(mc):
    rows, cols, middle = np.array([0, 3]), np.array([1, 1]), np.array([0.5, 0.0])
    made, other = (hold_out(mc.model, mc.observations, seed) for seed in (0, 5))
    fresh = Calibrated(mc.model).at(rows, cols, middle, 0.8)
    np.testing.assert_array_equal(Calibrated(mc.model, made).at(rows, cols, middle, 0.8), fresh)
    assert not np.array_equal(Calibrated(mc.model, other).at(rows, cols, middle, 0.8), fresh)


def test_the_same_seed_gives_the_same(mc):
    first, again, other = (evaluate(mc, seed=seed).parts["known"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.predicted, again.predicted)
    assert not np.array_equal(first.rows, other.rows)


# Scores.


@pytest.mark.parametrize(
    ("predicted", "rmse", "mae", "r2"),
    [([1.0, 2.0, 3.0], 0.0, 0.0, 1.0), ([2.0, 2.0, 2.0], np.sqrt(2 / 3), 2 / 3, 0.0)],
)
def test_scores(predicted, rmse, mae, r2):
    found = score(np.array([1.0, 2.0, 3.0]), np.array(predicted))
    assert (found.rmse, found.mae, found.r2) == pytest.approx((rmse, mae, r2))


def test_values_without_variation_have_no_r2():
    assert score(np.ones(3), np.zeros(3)).r2 is None


# Fits that did not converge.


def unfinished():
    """A completion whose refits end long before the tolerance."""
    rough = kf.KKMCEX(KERNEL, KERNEL, mu=1e-4, solver=kf.PCG(max_iter=1))
    with pytest.warns(ConvergenceWarning):
        rough.fit(observations())
    return rough


def test_errors_of_fits_that_did_not_converge_say_so():
    with pytest.warns(ConvergenceWarning, match="new rows: 4 of 4 fits"):
        found = cross_validate(unfinished(), observations(), ("row",), folds=4)
    assert "did not converge" in found.doubts["row"]
    assert accuracy(found).parts[0].doubt == found.doubts["row"]
    assert not cross_validate(EST, observations(), ("row",), folds=4).doubts


def test_intervals_from_a_refit_that_did_not_converge_say_so():
    found = Calibrated(unfinished())
    with pytest.warns(ConvergenceWarning, match="the fit without the hidden entries"):
        found.part(0)
    assert "not to be relied on" in found.words


def test_the_report_does_not_praise_what_did_not_converge():
    with pytest.warns(ConvergenceWarning):
        found = cross_validate(unfinished(), observations(), ("row",), folds=4)
    tree = {"accuracy": {"parts": [asdict(part) for part in accuracy(found).parts]}}
    verdict = part_verdict(Numbers(tree), 0)
    assert verdict.tone == "warn"
    assert "is not sure" in verdict.text

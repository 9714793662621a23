"""Cross-validation of a method beside two baselines."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.errors import ParameterError
from kronfill.evaluation import QUESTIONS, evaluate
from kronfill.selection import RowKFold

X = np.linspace(0, 1, 12)
KERNEL = kf.kernels.rbf(X, length_scale=0.5) + kf.kernels.constant(12)
EST = kf.KKMCEX(KERNEL, KERNEL, mu=0.01)


def observations(m=100):
    rng = np.random.default_rng(0)
    at = rng.permutation(144)[:m]
    values = np.sin(3 * X)[:, None] + np.cos(3 * X)[None, :]
    return kf.Observations(at // 12, at % 12, values.ravel()[at], (12, 12))


def test_scores_are_those_of_the_folds():
    obs = observations()
    score = evaluate(EST, obs, folds=4, questions=("new rows",))[0]
    gap = np.empty(obs.m)
    for train, test in RowKFold(4).split(obs):
        held = obs.take(test)
        gap[test] = held.values - kf.KKMCEX(KERNEL, KERNEL, mu=0.01).fit(obs.take(train)).predict(
            held
        )
    assert_allclose(score.rmse, np.sqrt(np.mean(gap**2)))
    assert_allclose(score.mae, np.mean(np.abs(gap)))
    assert_allclose(score.r2, 1 - np.sum(gap**2) / np.sum((obs.values - obs.values.mean()) ** 2))
    assert score.tested == obs.m


def test_every_question_has_the_method_and_two_baselines():
    told = []
    scores = evaluate(EST, observations(), folds=3, progress=told.append)
    assert [s.question for s in scores[::3]] == list(QUESTIONS)
    assert [s.method for s in scores[:3]] == ["KKMCEX", "mean", "row + column effects"]
    assert told[0] == "entries: KKMCEX, fold 1 of 3"
    by_effects = scores[2]
    assert by_effects.rmse < 1e-8  # the truth is additive


def test_questions_that_cannot_be_asked_say_why():
    one_row = kf.Observations([0, 0, 0], [0, 1, 2], [1.0, 2.0, 3.0], (12, 12))
    scores = {s.question: s for s in evaluate(EST, one_row, folds=3) if s.method == "KKMCEX"}
    assert "folds" in scores["new rows"].note
    assert np.isnan(scores["new rows"].rmse)
    assert scores["new columns"].rmse >= 0
    with pytest.raises(ParameterError, match="folds must be"):
        evaluate(EST, one_row, folds=1)

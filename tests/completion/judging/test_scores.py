"""Scores of hidden values of every kind, against scikit-learn's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    log_loss,
    mean_poisson_deviance,
    roc_auc_score,
)

import kronfill as kf
from kronfill.completion.judging.drawn_zeros import with_drawn_zeros
from kronfill.completion.judging.evaluation import cross_validate, evaluate
from kronfill.completion.judging.scores import HiddenEntries, joined_entries, score
from kronfill.estimators.folds import Fold

RNG = np.random.default_rng(0)
TRUE = np.outer(RNG.standard_normal(30), RNG.standard_normal(20))
SEEN = RNG.random(TRUE.shape) < 0.7
LIKES = np.where(SEEN, RNG.random(TRUE.shape) < 1 / (1 + np.exp(-3 * TRUE)), np.nan)
COUNTS = np.where(SEEN, RNG.poisson(np.exp(TRUE)), np.nan)


def hidden(observed, predicted, likelihood):
    zeros = np.zeros(len(observed), int)
    same = np.full(len(observed), observed.mean())
    own = RNG.random(len(observed))
    return HiddenEntries(zeros, zeros, observed, predicted, same, same, own, likelihood)


def test_scores_are_those_of_scikit_learn():
    y, p = (RNG.random(200) < 0.4).astype(float), RNG.random(200).round(1)
    found = score(y, p, "bernoulli")
    assert found.auc == pytest.approx(roc_auc_score(y, p))
    assert found.average_precision == pytest.approx(average_precision_score(y, p))
    mean = hidden(y, p, "bernoulli").scores()[1]
    assert mean.deviance == pytest.approx(2 * log_loss(y, np.full(200, y.mean())))
    k, m = RNG.poisson(2.0, 200).astype(float), RNG.uniform(1, 3, 200)
    rule = hidden(k, m, "poisson").scores()[1]
    assert rule.deviance == pytest.approx(mean_poisson_deviance(k, np.full(200, k.mean())))
    assert hidden(k, m, "ordinal").scores()[1].deviance is None
    assert score(k, m).deviance is None


def test_entries_are_taken_and_joined_with_what_they_cost():
    part = hidden(np.array([0.0, 1.0, 1.0]), np.array([0.1, 0.7, 0.4]), "bernoulli")
    whole = joined_entries([part.take([0]), part.take([1, 2])])
    np.testing.assert_array_equal(whole.deviances, part.deviances)
    assert whole.likelihood == "bernoulli"
    np.testing.assert_array_equal(whole.losses()[0], part.deviances)
    plain = replace(part, deviances=np.empty(0), likelihood="gaussian")
    np.testing.assert_allclose(plain.losses()[0], (part.observed - part.predicted) ** 2)


@pytest.mark.parametrize(("table", "kind"), [(LIKES, "bernoulli"), (COUNTS, "poisson")])
def test_an_evaluation_has_the_deviance_of_fits_without_the_entries(table, kind):
    done = kf.complete(table, method="mc", rank=1, mu=2.0, likelihood=kind)
    found = done.evaluate()
    part = found.parts["known"]
    own = part.scores()[0]
    if kind == "bernoulli":
        assert own.deviance == pytest.approx(2 * log_loss(part.observed, part.predicted))
        assert found.ranking.rows > 10
        assert found.ranking.auc > 0.55
    else:
        expected = mean_poisson_deviance(part.observed, part.predicted)
        assert own.deviance == pytest.approx(expected)
        assert found.ranking is None


def test_numbers_have_no_ranking():
    done = kf.complete(TRUE, method="mc", rank=1, mu=0.1)
    assert evaluate(done).ranking is None


def test_ones_alone_are_judged_beside_drawn_zeros():
    ones = np.where(LIKES == 1, 1.0, np.nan)
    ones[4] = np.nan
    obs = kf.Observations.from_matrix(ones)
    est = kf.LinkedRegressor(kf.MC(TRUE.shape, rank=1, mu=2.0), negatives="sample")
    found = cross_validate(est, obs, ("known", "row"))
    for part in found.parts.values():
        zeros = part.observed == 0
        assert 0.2 < zeros.mean() < 0.6
        assert not np.isin(part.rows[zeros] * 20 + part.cols[zeros], obs.rows * 20 + obs.cols).any()
        np.testing.assert_allclose(part.mean, 0.5)
    assert found.parts["known"].scores()[0].auc > 0.5
    assert found.ranking.rows > 5


def test_a_drawn_zero_is_as_new_as_its_one():
    obs = kf.Observations([0, 1, 2, 3, 3], [0, 1, 2, 0, 4], np.ones(5), (5, 5))
    new = np.array([False, False, False, True, True])
    est = kf.LinkedRegressor(kf.MC((5, 5), rank=1), negatives="sample").fit(obs.take(~new))
    fold = with_drawn_zeros(Fold(est, obs.take(~new), obs.take(new), np.zeros(2)))
    zeros = fold.held.values == 0
    assert set(fold.held.rows[zeros]) <= {3}  # a new row
    seen = obs.take(~new).col_counts > 0
    assert (seen[fold.held.cols[zeros]] | (fold.held.cols[zeros] == 4)).all()

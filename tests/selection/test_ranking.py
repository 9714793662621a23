"""Ranking figures against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

import kronfill as kf
from kronfill.errors import DataError
from kronfill.selection.ranking import (
    average_precision,
    ndcg,
    ranking_figures,
    recall,
    row_auc,
)


@pytest.mark.parametrize("seed", range(8))
def test_as_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    scores, relevant = rng.random(30), rng.random(30) < 0.3
    relevant[0] = True
    assert average_precision(scores, relevant) == pytest.approx(
        average_precision_score(relevant, scores)
    )
    assert row_auc(scores, relevant) == pytest.approx(roc_auc_score(relevant, scores))
    for k in (1, 5, 50):
        expected = ndcg_score(relevant[None].astype(float), scores[None], k=k)
        assert ndcg(scores, relevant, k) == pytest.approx(expected)
        top = np.argsort(-scores)[:k]
        assert recall(scores, relevant, k) == relevant[top].sum() / min(k, relevant.sum())
    tied = np.round(scores, 1)
    assert row_auc(tied, relevant) == pytest.approx(roc_auc_score(relevant, tied))


def test_figures_are_means_over_rows_without_what_was_fitted_to():
    rng = np.random.default_rng(0)
    table = rng.random((7, 9)) < 0.6
    where = rng.permutation(np.argwhere(table))
    train, test = where[:20], where[20:]
    est = kf.KKMCEX(np.eye(7) + 1, np.eye(9) + 1).fit(train, np.ones(20))
    scores = est.predict_matrix()
    rows = []
    for i in np.unique(test[:, 0]):
        left = np.setdiff1d(np.arange(9), train[train[:, 0] == i, 1])
        relevant = np.isin(left, test[test[:, 0] == i, 1])
        rows.append(
            (recall(scores[i, left], relevant, 3), average_precision(scores[i, left], relevant))
        )
    found = ranking_figures(est, test, k=3)
    assert (found.recall, found.average_precision) == pytest.approx(tuple(np.mean(rows, axis=0)))
    assert found.rows == len(rows)
    zeros = np.argwhere(~table)
    both = np.vstack([test, zeros])
    y = np.repeat([1, 0], [len(test), len(zeros)])
    assert ranking_figures(est, both, y, k=3) == found


def test_nothing_to_find():
    est = kf.KKMCEX(np.eye(2), np.eye(2)).fit([[0, 0]], [1.0])
    with pytest.raises(DataError, match="nothing to be ranked"):
        ranking_figures(est, [[1, 1]], [0])

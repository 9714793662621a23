"""Sets of classes and intervals of counts: coverage, and what they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kronfill as kf
from kronfill.errors import DataError, ParameterError

N = 24
RNG = np.random.default_rng(0)
K = kf.kernels.rbf(np.linspace(0, 1, N), length_scale=0.3)
X = RNG.permutation(np.argwhere(np.ones((N, N))))
LATENT = 2 * np.sin(X[:, 0] / 4) * np.cos(X[:, 1] / 4)
LABELS = np.array(["a", "b", "c"])[np.digitize(LATENT + RNG.standard_normal(len(X)), [-1, 1])]
COUNTS = RNG.poisson(np.exp(1 + LATENT))
TRAIN, TEST = slice(0, 300), slice(300, None)


def sets(**settings):
    return kf.ConformalClassifier(kf.KKMCEXClassifier(K, K, mu=0.3), **settings)


def test_sets_cover_on_average_over_splits():
    share = []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:300], order[300:]
        model = sets(random_state=seed).fit(X[train], LABELS[train])
        inside = model.predict_set(X[test], coverage=0.8)
        share.append(inside[np.arange(len(test)), np.searchsorted(model.classes_, LABELS[test])])
    assert 0.76 < np.mean(share) < 0.86


def test_sets_grow_with_coverage():
    model = sets().fit(X[TRAIN], LABELS[TRAIN])
    small, large = (model.predict_set(X[TEST], coverage) for coverage in (0.5, 0.95))
    assert (small <= large).all()
    assert model.predict_set(X[TEST], 0.999).all()  # too few observations: nothing is left out
    held = model.scores_
    limit = held[int(np.ceil(0.95 * (len(held) + 1))) - 1]
    assert_array_equal(large, 1 - model.predict_proba(X[TEST]) <= limit)
    assert_array_equal(model.predict(X[TEST]), model.estimator_.predict(X[TEST]))


def test_counts_cover_on_average_over_splits():
    share = []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:300], order[300:]
        model = kf.ConformalCounts(kf.KKMCEXPoisson(K, K, mu=0.3), random_state=seed)
        low, high = model.fit(X[train], COUNTS[train]).predict_interval(X[test], 0.8).T
        share.append((low <= COUNTS[test]) & (COUNTS[test] <= high))
        assert (low >= 0).all()
        assert (low == np.round(low)).all()
    assert 0.77 < np.mean(share) < 0.9


def test_larger_counts_have_wider_intervals():
    model = kf.ConformalCounts(kf.KKMCEXPoisson(K, K, mu=0.3)).fit(X[TRAIN], COUNTS[TRAIN])
    low, high = model.predict_interval(X[TEST]).T
    mean = model.predict(X[TEST])
    assert np.corrcoef(high - low, np.sqrt(mean))[0, 1] > 0.9


@pytest.mark.parametrize("kind", ["classes", "counts"])
def test_saved_and_read_back(kind, tmp_path):
    if kind == "classes":
        model = sets().fit(X[TRAIN], LABELS[TRAIN])
        ask = "predict_set"
    else:
        model = kf.ConformalCounts(kf.KKMCEXPoisson(K, K)).fit(X[TRAIN], COUNTS[TRAIN])
        ask = "predict_interval"
    model.save(tmp_path / "model.kf")
    same = kf.load(tmp_path / "model.kf")
    assert_array_equal(getattr(same, ask)(X[TEST]), getattr(model, ask)(X[TEST]))
    assert_allclose(same.scores_, model.scores_)


def test_errors():
    model = sets().fit(X[X[:, 0] > 0][:200], LABELS[X[:, 0] > 0][:200])
    with pytest.raises(DataError, match="exchangeable"):
        model.predict_set([[0, 0]])
    with pytest.raises(ParameterError, match="coverage"):
        model.predict_set([[1, 0]], coverage=1.0)
    with pytest.raises(ParameterError, match="estimator must be"):
        kf.ConformalClassifier(kf.KKMCEX(K, K)).fit(X, LABELS)
    with pytest.raises(ParameterError, match="calibration"):
        sets(calibration=1.0).fit(X, LABELS)

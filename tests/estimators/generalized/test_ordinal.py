"""Ordered ratings: KKMCEX with a probability of each level."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kronfill as kf
from kronfill.errors import DataError, ParameterError

N = 20
RNG = np.random.default_rng(0)
SIDE = np.linspace(0, 1, N)
K = kf.kernels.rbf(SIDE, length_scale=0.3)
X = RNG.permutation(np.argwhere(np.ones((N, N))))
NOISY = 3 + 1.5 * np.sin(X[:, 0] / 3) * np.cos(X[:, 1] / 4) + 0.6 * RNG.standard_normal(len(X))
STARS = np.clip(np.round(NOISY), 1, 5)
TRAIN, TEST = slice(0, 250), slice(250, None)


def fitted(**settings):
    return kf.KKMCEXOrdinal(K, K, **settings).fit(X[TRAIN], STARS[TRAIN])


def test_predictions_are_those_of_kkmcex():
    plain = kf.KKMCEX(K, K, center="mean").fit(X[TRAIN], STARS[TRAIN])
    assert_array_equal(fitted().predict_matrix(), plain.predict_matrix())


def test_probabilities_are_better_than_shares():
    est = fitted()
    share = est.predict_proba(X[TEST])
    assert_allclose(share.sum(axis=1), 1.0)
    at = np.searchsorted(est.levels_, STARS[TEST])
    own = np.log(share[np.arange(len(at)), at]).mean()
    constant = np.bincount(np.searchsorted(est.levels_, STARS[TRAIN])) / 250
    assert own > np.log(constant[at]).mean() + 0.2
    for k in range(3):  # calibrated: stars up to k are as frequent as they were said to be
        said, seen = share[:, : k + 1].sum(axis=1).mean(), np.mean(STARS[TEST] <= k + 1)
        assert said == pytest.approx(seen, abs=0.1)


def test_other_numbers_for_the_levels_change_no_probability():
    """Whatever the stars are called, as long as they are evenly spaced."""
    other = kf.KKMCEXOrdinal(K, K).fit(X[TRAIN], 10 * STARS[TRAIN] - 7)
    assert_allclose(other.predict_proba(X[TEST]), fitted().predict_proba(X[TEST]), atol=1e-7)


def test_order_changes_nothing_but_the_folds():
    est = kf.KKMCEXOrdinal(K, K).fit(X[TRAIN][::-1], STARS[TRAIN][::-1])
    assert_allclose(est.predict_proba(X[TEST]), fitted().predict_proba(X[TEST]), atol=0.05)


def test_new_rows():
    est = fitted()
    assert_allclose(
        est.extrapolate_proba(rows=SIDE[[3]])[0, 5], est.predict_proba([[3, 5]])[0], atol=1e-9
    )


def test_saved_and_read_back(tmp_path):
    est = fitted()
    est.save(tmp_path / "model.kf")
    assert_array_equal(
        kf.load(tmp_path / "model.kf").predict_proba(X[TEST]), est.predict_proba(X[TEST])
    )


def test_errors():
    with pytest.raises(DataError, match="distinct levels"):
        kf.KKMCEXOrdinal(K, K).fit(X[TRAIN], NOISY[TRAIN])
    with pytest.raises(DataError, match="distinct levels"):
        kf.KKMCEXOrdinal(K, K).fit(X[TRAIN], np.ones(250))
    with pytest.raises(ParameterError, match="one target"):
        kf.KKMCEXOrdinal(K, K).fit(X[TRAIN], np.column_stack([STARS[TRAIN]] * 2))

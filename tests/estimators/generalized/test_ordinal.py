"""Ordered ratings: KKMCEX with a probability of each level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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


def test_of_new_rows_less_is_known():
    est = fitted()
    known, new = est.predict_proba([[3, 5]])[0], est.extrapolate_proba(rows=SIDE[[3]])[0, 5]
    assert new.max() < known.max()
    assert_allclose(new.sum(), 1.0)
    assert est.deviance_["new row"] > est.deviance_["known"]


@pytest.mark.parametrize("axis", [0, 1])
def test_where_nothing_is_known_of_new_items_the_shares_are_said(axis):
    kernels = [K, K]
    kernels[axis] = kf.kernels.identity(N)
    old = X[:, axis] < 15
    train = old & (np.arange(len(X)) % 2 == 0)
    est = kf.KKMCEXOrdinal(*kernels).fit(X[train], STARS[train])
    code = np.searchsorted(est.levels_, STARS[~old])
    said = -np.log(est.predict_proba(X[~old])[np.arange(len(code)), code])
    shares = np.bincount(np.searchsorted(est.levels_, STARS[train])) / train.sum()
    assert said.mean() <= -np.log(shares[code]).mean() + 0.05


def test_more_ratings_are_a_fit_to_all():
    est = kf.KKMCEXOrdinal(K, K).partial_fit(X[:150], STARS[:150])
    est.partial_fit(X[150:250], STARS[150:250])
    assert_allclose(est.predict_matrix(), fitted().predict_matrix(), atol=1e-8)
    assert_allclose(est.predict_proba(X[TEST]), fitted().predict_proba(X[TEST]), atol=1e-6)
    est.revise(X[:1], [6 - STARS[0]]).revise(X[:1], STARS[:1])
    assert_allclose(est.predict_proba(X[TEST]), fitted().predict_proba(X[TEST]), atol=1e-6)


def test_an_unknown_level_is_refused_and_changes_nothing():
    est = fitted()
    before = est.predict_proba(X[TEST])
    for change in (est.partial_fit, est.revise):
        where = X[[300]] if change == est.partial_fit else X[[0]]
        with pytest.raises(DataError, match=r"The rating 6 at entry .* is none of the levels"):
            change(where, [6])
    assert_array_equal(est.predict_proba(X[TEST]), before)


@settings(deadline=None, max_examples=5)
@given(st.permutations(list(range(N))), st.permutations(list(range(N))))
def test_permuted_rows_and_columns_permute_the_probabilities(rows, cols):
    """The links are learned from the same entries, in the same order."""
    row, col = (kf.kernels.rbf(SIDE[list(one)], length_scale=0.3) for one in (rows, cols))
    moved = np.column_stack([np.argsort(rows)[X[:, 0]], np.argsort(cols)[X[:, 1]]])
    est = kf.KKMCEXOrdinal(row, col).fit(moved[TRAIN], STARS[TRAIN])
    assert_allclose(est.predict(moved[TEST]), fitted().predict(X[TEST]), atol=1e-7)
    # Which rows and columns are hidden together depends on their numbers, the links of known ones
    # on the entries alone.
    assert_allclose(est.predict_proba(moved[TEST]), fitted().predict_proba(X[TEST]), atol=1e-6)


def test_an_entry_without_weight_is_absent():
    weights = np.ones(250)
    weights[:50] = 0.0
    with_them = kf.KKMCEXOrdinal(K, K).fit(X[TRAIN], STARS[TRAIN], weights)
    without = kf.KKMCEXOrdinal(K, K).fit(X[50:250], STARS[50:250])
    assert_allclose(with_them.predict_matrix(), without.predict_matrix(), atol=1e-9)
    assert_allclose(with_them.predict_proba(X[TEST]), without.predict_proba(X[TEST]), atol=1e-6)


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

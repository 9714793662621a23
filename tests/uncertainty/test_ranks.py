"""Weighted quantiles: coverage by enumeration of all that could have been asked about."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kronfill.uncertainty.ranks import effective_number, misjudged, plus_ends, threshold

sizes = st.integers(0, 2**32 - 1)
levels = st.sampled_from([0.5, 0.75, 0.8, 0.9, 0.95])


def enumerated(scores, weights, level):
    """Probability that the entry asked about is inside, each being it as its weight says."""
    order = np.argsort(scores)
    scores, weights = scores[order], weights[order]
    inside = [
        scores[k] <= threshold(np.delete(scores, k), np.delete(weights, k), weights[k], level)
        for k in range(len(scores))
    ]
    return float(weights @ inside / weights.sum())


@settings(max_examples=60, deadline=None)
@given(seed=sizes, n=st.integers(1, 12), level=levels)
def test_weighted_coverage_is_at_least_as_asked_and_not_much_more(seed, n, level):
    rng = np.random.default_rng(seed)
    scores, odds = rng.exponential(size=n), rng.lognormal(sigma=1.0, size=n)
    found = enumerated(scores, odds, level)
    assert level - 1e-9 <= found <= level + odds.max() / odds.sum() + 1e-9


@settings(max_examples=60, deadline=None)
@given(seed=sizes, rows=st.integers(1, 8), level=levels)
def test_a_new_row_is_covered_if_each_row_counts_once(seed, rows, level):
    """Every row could have been the new one, and within it every entry the one asked about."""
    rng = np.random.default_rng(seed)
    entries = [rng.exponential(size=rng.integers(1, 6)) * rng.exponential() for _ in range(rows)]
    covered = []
    for new in range(rows):
        others = [part for k, part in enumerate(entries) if k != new] or [np.empty(0)]
        scores = np.concatenate(others)
        weights = np.concatenate([np.full(len(part), 1 / max(len(part), 1)) for part in others])
        order = np.argsort(scores)
        t = threshold(scores[order], weights[order], 1.0, level)
        covered.append(np.mean(entries[new] <= t))
    assert np.mean(covered) >= level - 1e-9


def test_equal_weights_give_the_kth_smallest():
    scores = np.sort(np.random.default_rng(0).random(37))
    for level in (0.5, 0.8, 0.9, 0.95):
        k = int(np.ceil(round(38 * level, 9)))
        assert threshold(scores, np.ones(37), 1.0, level) == scores[k - 1]
    assert threshold(scores, np.ones(37), 1.0, 0.99) == np.inf
    assert threshold(np.empty(0), np.empty(0), 1.0, 0.5) == np.inf


def test_plus_ends_equal_a_search():
    rng = np.random.default_rng(1)
    centre, half, weights = rng.random((5, 9)), rng.random(9), rng.random(9)
    low, high = plus_ends(centre - half, centre + half, weights, 0.3, 0.7)
    whole = weights.sum() + 0.3
    for t in range(5):
        ends = np.append(centre[t] + half, np.inf)
        enough = [e for e in ends if weights[centre[t] + half <= e].sum() >= 0.7 * whole]
        assert high[t] == min(enough, default=np.inf)
        downs = centre[t] - half
        enough = [e for e in downs if weights[downs >= e].sum() >= 0.7 * whole]
        assert low[t] == max(enough, default=-np.inf)
    assert np.isinf(plus_ends(centre, centre, weights, 100.0, 0.7)[1]).all()


def test_the_worst_odds_within_a_factor_are_covered():
    """By enumeration: weights that are wrong by up to the factor, the worst way round."""
    rng = np.random.default_rng(2)
    scores, guess = np.sort(rng.random(40)), rng.lognormal(size=40)
    for factor in (1.0, 1.3, 2.0):
        level = misjudged(0.8, factor)
        for cut in range(40):
            true = guess * np.where(np.arange(40) < cut, 1 / factor, factor)
            inside = [
                scores[k] <= threshold(np.delete(scores, k), np.delete(guess, k), guess[k], level)
                for k in range(40)
            ]
            assert true @ inside / true.sum() >= 0.8 - 1e-9


def test_effective_number():
    assert effective_number(np.full(8, 3.0)) == pytest.approx(8)
    assert effective_number(np.array([1.0, 0.0])) == 1
    assert effective_number(np.empty(0)) == 0
    assert_allclose(misjudged(0.9, 1.0), 0.9)

"""Links: what they say, and that they are the likeliest ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import poisson

from kronfill.likelihoods.links import EDGE, Link, learned_link, moved_link

RNG = np.random.default_rng(0)
F = RNG.standard_normal(300)
COUNTS = RNG.poisson(np.exp(0.5 + 0.8 * F)).astype(float)
STARS = np.clip(np.round(3 + F + 0.5 * RNG.standard_normal(300)), 1, 5)
YES = (RNG.random(300) < 1 / (1 + np.exp(-2 * F))).astype(float)
W = RNG.uniform(0.5, 2.0, 300)


@pytest.mark.parametrize(
    ("values", "levels"), [(YES, [0.0, 1.0]), (STARS, [1.0, 2.0, 3.0, 4.0, 5.0])]
)
def test_mean_and_std_are_those_of_the_probabilities(values, levels):
    link = learned_link(values, W, F, np.array(levels), (values, F))
    share = link.shares(F)
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    np.testing.assert_allclose(link.mean(F), share @ link.levels)
    square = share @ link.levels**2 - link.mean(F) ** 2
    np.testing.assert_allclose(link.std(F), np.sqrt(square), atol=1e-7)
    at = np.searchsorted(link.levels, values)
    np.testing.assert_allclose(link.losses(values, F), -np.log(share[np.arange(300), at]))


def test_counts_have_the_likelihood_of_poisson():
    link = learned_link(COUNTS, W, F, np.empty(0), (COUNTS, F))
    mean = link.mean(F)
    np.testing.assert_allclose(link.std(F) ** 2, mean)
    gap = link.losses(COUNTS, F) + poisson(mean).logpmf(COUNTS)
    factorials = poisson(1.0).logpmf(COUNTS) + 1.0  # what does not depend on the mean
    np.testing.assert_allclose(gap, factorials, atol=1e-9)


def test_a_learned_link_of_counts_is_the_likeliest_line():
    link = learned_link(COUNTS, W, F, np.empty(0), (COUNTS, F))

    def loss(at):
        return float(W @ (np.exp(at[0] + at[1] * F) - COUNTS * (at[0] + at[1] * F)))

    best = minimize(loss, [0.0, 0.0], method="BFGS")
    assert float(W @ link.losses(COUNTS, F)) <= best.fun + 1e-3
    np.testing.assert_allclose([-link.cuts[0], link.slope], best.x, atol=0.02)


def test_log_odds_of_shares_go_on_beyond_the_edges():
    link = Link(1.0, np.zeros(1), np.array([0.0, 1.0]), odds=True)
    f = np.linspace(-0.5, 1.5, 500)
    scaled = link.scaled(f)
    assert (np.diff(scaled) > 0).all()
    inside = (f > EDGE) & (f < 1 - EDGE)
    np.testing.assert_allclose(link.mean(f[inside]), f[inside])


def test_few_entries_hardly_move_a_link_and_many_do():
    link = learned_link(YES, W, F, np.array([0.0, 1.0]), (YES, F))
    opposite = 1.0 - YES
    nothing = moved_link(link, np.empty(0), np.empty(0), np.empty(0))
    assert nothing.slope == link.slope
    np.testing.assert_array_equal(nothing.cuts, link.cuts)
    moved = moved_link(link, opposite, W, F)
    assert moved.slope == 0.0  # the order is never turned round
    np.testing.assert_allclose(moved.mean(F), np.average(opposite, weights=W), atol=0.03)


@pytest.mark.parametrize("levels", [np.array([0.0, 1.0]), np.empty(0)])
def test_values_that_are_told_apart_without_an_error_have_a_finite_link(levels):
    f = np.array([-2.0, -1.0, 1.0, 2.0])
    y = (f > 0).astype(float)
    link = learned_link(y, np.ones(4), f, levels, (y, f))
    assert np.isfinite(link.slope)
    assert link.slope > 0
    assert np.isfinite(link.mean(np.array([-50.0, 50.0]))).all()


def test_all_counts_zero_have_a_small_mean():
    y, f = np.zeros(20), np.linspace(-1, 1, 20)
    link = learned_link(y, np.ones(20), f, np.empty(0), (y, f))
    assert 0 < link.mean(f).max() < 0.3


def test_a_level_that_was_not_hidden_has_a_place():
    levels = np.array([1.0, 2.0, 3.0])
    y, f = np.array([1.0, 1.0, 3.0, 3.0]), np.array([-1.0, -0.5, 0.5, 1.0])
    whole = (np.append(y, 2.0), np.append(f, 0.0))
    link = learned_link(y, np.ones(4), f, levels, whole)
    assert (link.shares(np.zeros(1)) > 0).all()


def test_cuts_of_another_kind_widen_to_the_shares_where_f_says_nothing():
    levels = np.arange(1.0, 6.0)
    link = learned_link(STARS, W, 5 * F, levels, (STARS, 5 * F))
    assert moved_link(link, np.empty(0), np.empty(0), np.empty(0)) is link
    shuffled = RNG.permutation(STARS)
    moved = moved_link(link, shuffled, np.ones(300), 5 * F)
    share = np.bincount(np.searchsorted(levels, STARS)) / 300
    best = -share @ np.log(share)
    assert link.losses(shuffled, 5 * F).mean() > best + 0.5  # as sure as of known entries
    assert moved.losses(shuffled, 5 * F).mean() < best + 0.03
    np.testing.assert_allclose(moved_link(link, STARS, W, 5 * F).cuts, link.cuts, atol=0.5)

"""Mask models: stationary points of what they maximise, uniform masks, odd shapes, kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

import kronfill as kf
from kronfill.errors import ParameterError
from kronfill.masks import KINDS, apart_p_value, fit_mask
from kronfill.masks.effects import fit_effects, thinned_score


def drawn(n=60, l=45, spread=1.0, seed=0):
    rng = np.random.default_rng(seed)
    logits = -0.5 + spread * rng.standard_normal(n)[:, None] + 0.5 * rng.standard_normal(l)
    return rng.random((n, l)) < expit(logits), expit(logits)


def observations(mask):
    rows, cols = np.nonzero(mask)
    return kf.Observations(rows, cols, np.zeros(len(rows)), mask.shape)


def everywhere(model, shape):
    i, j = np.indices(shape).reshape(2, -1)
    return model.probability(i, j).reshape(shape)


def test_effects_and_their_product_are_a_stationary_point_of_the_likelihood():
    """Over all entries: the score of the level is 0, those of the factors are what they moved by.

    The factors of both effects are 1 beforehand, that of their product 0, with a variance of 1. For
    effects as they are given, x times those before, the score of x is x (x - 1).
    """
    mask, _ = drawn()
    found = fit_effects(*np.nonzero(mask), mask.shape)
    gap = mask - everywhere(found, mask.shape)
    assert abs(gap.sum()) < 1e-3
    score = np.array([gap.sum(axis=1) @ found.row, gap.sum(axis=0) @ found.col])
    x = 0.5 + np.sqrt(0.25 + score)
    product = np.sum(gap * np.outer(found.row, found.col))
    assert_allclose(product, found.interaction * x.prod() ** 2, atol=1e-3)


def test_rows_of_equal_count_have_equal_effects():
    mask, _ = drawn()
    found = fit_effects(*np.nonzero(mask), mask.shape)
    for axis, effect in ((1, found.row), (0, found.col)):
        _, first, label = np.unique(mask.sum(axis=axis), return_index=True, return_inverse=True)
        assert_allclose(effect, effect[first][label])
        assert (np.diff(effect[first]) > 0).all()


def test_a_gap_in_a_block_is_seen_by_the_product_of_row_and_column_effects():
    """Effects alone would say that the block has p = 0.15, and another corner 0.5."""
    inside = np.outer(np.arange(300) < 150, np.arange(240) < 120)
    p = np.where(inside, 0.08, 0.4)
    mask = np.random.default_rng(0).random(p.shape) < p
    found = fit_effects(*np.nonzero(mask), mask.shape)
    guess = everywhere(found, mask.shape)
    assert found.interaction < -1
    assert abs(guess[inside].mean() - 0.08) < 0.03
    assert abs(guess[150:, 120:].mean() - 0.4) < 0.03


def test_the_score_of_a_thinned_mask_is_the_derivative_of_its_likelihood():
    logits, seen, trials, q = np.linspace(-3, 3, 7), np.arange(7.0), np.full(7, 9.0), 0.7

    def likelihood(eta):
        p = q * expit(eta)
        return seen * np.log(p) + (trials - seen) * np.log1p(-p)

    score, information = thinned_score(logits, seen, trials, q)
    assert_allclose(
        score, (likelihood(logits + 1e-5) - likelihood(logits - 1e-5)) / 2e-5, rtol=1e-7, atol=1e-9
    )
    mean_seen = trials * q * expit(logits)
    ends = [thinned_score(logits + h, mean_seen, trials, q)[0] for h in (-1e-5, 1e-5)]
    assert_allclose(information, (ends[0] - ends[1]) / 2e-5, rtol=1e-6)


@pytest.mark.parametrize("kind", ["effects", "rank one", "kernel"])
def test_probabilities_are_those_of_the_whole_mask_though_a_part_is_seen(kind):
    mask, p = drawn(240, 180, 0.8)
    part = mask & (np.random.default_rng(1).random(mask.shape) < 0.6)
    kernels = (kf.kernels.rbf(np.arange(240.0), length_scale=20.0), None)
    found = fit_mask(kind, observations(part), 0.6, kernels)
    guess = everywhere(found, mask.shape)
    assert abs(guess.mean() - p.mean()) < 0.02
    assert np.corrcoef(guess.ravel(), p.ravel())[0, 1] > 0.9
    assert 0.03 < found.deviance_explained < 0.5
    assert np.all((guess > 0) & (guess < 1))


@pytest.mark.parametrize("kind", ["effects", "rank one", "kernel"])
def test_a_uniform_mask_is_found_to_be_one(kind):
    mask = np.random.default_rng(3).random((150, 100)) < 0.3
    kernel = kf.kernels.rbf(np.arange(150.0), length_scale=20.0)
    found = fit_mask(kind, observations(mask), 1.0, (kernel, None))
    guess = everywhere(found, mask.shape)
    assert np.abs(guess - mask.mean()).max() < 0.03
    assert found.deviance_explained < 0.002


def test_side_information_tells_what_no_row_and_no_column_does():
    x = np.linspace(0, 1, 80)
    p = np.where(np.not_equal.outer(x > 0.5, x > 0.5), 0.6, 0.1)
    mask = np.random.default_rng(0).random(p.shape) < p
    kernel = kf.kernels.rbf(x, length_scale=0.3)
    by_effects = everywhere(fit_mask("effects", observations(mask)), p.shape)
    by_kernel = everywhere(fit_mask("kernel", observations(mask), 1.0, (kernel, kernel)), p.shape)
    assert np.abs(by_kernel - p).mean() < np.abs(by_effects - p).mean() / 3


@pytest.mark.parametrize("kind", ["effects", "rank one", "kernel"])
@pytest.mark.parametrize(
    "mask",
    [
        np.ones((1, 5), bool),
        np.ones((4, 1), bool),
        np.eye(6, 4, dtype=bool),
        np.ones((3, 3), bool),
        np.eye(1, 1, dtype=bool),
    ],
)
def test_odd_masks(kind, mask):
    kernels = tuple(kf.kernels.constant(n) for n in mask.shape)
    found = fit_mask(kind, observations(mask), 0.8, kernels)
    odds = found.odds(*np.indices(mask.shape).reshape(2, -1))
    assert np.isfinite(odds).all()
    assert (odds > 0).all()
    assert 0 <= found.deviance_explained <= 1


def test_names():
    mask = observations(np.eye(3, dtype=bool))
    assert fit_mask("uniform", mask) is None
    assert KINDS[0] == "uniform"
    with pytest.raises(ParameterError, match="mask must be one of"):
        fit_mask("even", mask)
    with pytest.raises(ParameterError, match="needs side information"):
        fit_mask("kernel", mask)


@pytest.mark.parametrize(("size", "longest", "lines"), [(8, 1, 100), (30, 28, 40), (200, 60, 50)])
def test_lines_that_draw_by_themselves_are_rejected_at_the_stated_level(size, longest, lines):
    rng, found = np.random.default_rng(0), []
    for _ in range(1000):
        own = [rng.permutation(size)[: rng.integers(1, longest + 1)] for _ in range(lines)]
        label = np.repeat(np.arange(lines), [len(part) for part in own])
        found.append(apart_p_value(label, np.concatenate(own), size))
    assert 0.06 < np.mean(np.array(found) < 0.1) < 0.13
    assert np.mean(np.array(found) < 0.001) <= 0.006


def test_few_entries_are_judged_by_a_bound_that_holds():
    """Two lines of one entry in 100 places share it with probability 0.01."""
    assert apart_p_value(np.array([0, 1]), np.array([7, 7]), 100) == pytest.approx(0.01, rel=0.02)
    assert apart_p_value(np.array([0, 0]), np.array([3, 4]), 5) == 1.0  # one line
    full = np.divmod(np.arange(20), 5)
    assert apart_p_value(*full, 5) == 1.0


def test_places_that_avoid_each_other_are_told_as_well():
    lines = np.arange(200)
    assert apart_p_value(lines, lines % 20, 20) < 1e-6

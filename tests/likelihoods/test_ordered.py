"""Slope and cuts of ordered levels against a general minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from kronfill.likelihoods.families import Ordinal
from kronfill.likelihoods.ordered import ordered_link


@pytest.mark.parametrize("levels", [2, 3, 6])
@pytest.mark.parametrize("seed", [0, 1])
def test_against_a_general_minimiser(levels, seed):
    rng = np.random.default_rng(seed)
    f, weights = rng.standard_normal(300), rng.uniform(0.5, 2, 300)
    noisy = 1.5 * f + rng.logistic(size=300)
    y = np.searchsorted(np.quantile(noisy, np.arange(1, levels) / levels), noisy).astype(float)
    slope, cuts = ordered_link(y, weights, f, levels)

    def loss(x):
        ends = np.cumsum(np.concatenate([x[1:2], np.exp(x[2:])]))
        return weights @ Ordinal(ends).losses(y, x[0] * f)

    found = minimize(loss, np.concatenate([[1.0, -1.0], np.zeros(levels - 2)]), tol=1e-12)
    expected = np.cumsum(np.concatenate([found.x[1:2], np.exp(found.x[2:])]))
    assert_allclose(slope, found.x[0], atol=1e-3)
    assert_allclose(cuts, expected, atol=1e-3)
    assert weights @ Ordinal(cuts).losses(y, slope * f) <= found.fun + 1e-9


def test_a_constant_says_nothing():
    y = np.array([0.0, 1.0, 1.0, 2.0])
    slope, cuts = ordered_link(y, np.ones(4), np.zeros(4), 3)
    assert_allclose(Ordinal(cuts).probabilities(slope * np.zeros(1)), [[0.25, 0.5, 0.25]])

"""Bounds from a sample without replacement: coverage over all samples of small populations."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kronfill.bounds.holdout import empirical_bernstein, kl_hoeffding, rest_mean, serfling

RULES = {
    "Serfling": serfling,
    "Hoeffding": lambda x, n, b, d: kl_hoeffding(x, b, d),
    "empirical Bernstein": lambda x, n, b, d: empirical_bernstein(x, b, d),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("delta", [0.4, 0.2, 0.05])
def test_coverage_over_all_samples(rule, delta):
    rng = np.random.default_rng(0)
    populations = [np.r_[np.zeros(12 - k), np.full(k, 2.0)] for k in range(1, 12)]
    populations += [2 * rng.beta(0.3, 1.0, 12) for _ in range(3)]
    worst = 0.0
    for losses in populations:
        for v in (3, 6, 9):
            found = [
                RULES[rule](losses[list(take)], 12, 2.0, delta)
                for take in combinations(range(12), v)
            ]
            failed = np.mean(np.array(found) < losses.mean() - 1e-12)
            assert failed <= delta, (v, failed)
            worst = max(worst, failed / delta)
    if rule != "empirical Bernstein":  # at such sizes it says nothing
        assert worst > 0.2


def test_each_rule_is_best_somewhere():
    rng = np.random.default_rng(1)
    cases = {
        "Serfling": (rng.choice([0.0, 1.0], 4000), 8000),
        "Hoeffding": (np.r_[np.zeros(195), np.full(5, 0.5)], 10**6),
        "empirical Bernstein": (0.4 + 0.01 * rng.random(5000), 10**6),
    }
    for best, (losses, population) in cases.items():
        found = {name: rule(losses, population, 1.0, 0.05) for name, rule in RULES.items()}
        assert min(found, key=found.get) == best
        assert all(losses.mean() < value for value in found.values())


def test_the_rest_of_the_population():
    losses = np.array([0.0, 1.0, 1.0])
    # if the mean of all 10 is at most 0.5, the other 7 add up to at most 3
    assert_allclose(rest_mean(0.5, losses, 10), 3 / 7)


def test_extreme_samples():
    assert kl_hoeffding(np.ones(5), 1.0, 0.05) == 1.0
    assert_allclose(kl_hoeffding(np.zeros(100), 1.0, 0.05), 1 - 0.05 ** (1 / 100), rtol=1e-9)
    assert empirical_bernstein(np.array([0.5]), 1.0, 0.05) > 0.5

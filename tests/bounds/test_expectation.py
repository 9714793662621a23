"""The expectation and the concentration step, exact over all splits of tiny problems."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from kronfill.bounds import Sizes


def all_splits(n, m):
    """Split vectors g of all splits: 1/u on test entries, -1/m on training entries."""
    out = []
    for train in combinations(range(n), m):
        g = np.full(n, 1.0 / (n - m))
        g[list(train)] = -1.0 / m
        out.append(g)
    return np.array(out)


def gaps(members, m):
    """Largest gap in the class for every split."""
    return (all_splits(members.shape[1], m) @ members.T).max(axis=1)


def complexities(members, table):
    suprema = (table.patterns @ members.T).max(axis=1)
    return {law: table.expectation(suprema, law) for law in ("paper", "eyp", "sub")}


def random_class(rng, n):
    size = int(rng.integers(2, 9))
    if rng.random() < 0.5:
        return rng.integers(0, 2, size=(size, n)).astype(float)
    return rng.random((size, n))


def additive(sizes):
    """Second term of Theorem A2 for a loss of range 1."""
    return 0.5 * sizes.q * sizes.mean_deviation


def test_constants_equal_their_definitions():
    for m, u in [(1, 1), (1, 5), (7, 3), (40, 11), (300, 6000)]:
        sizes, n = Sizes(m, u), m + u
        outcomes = np.arange(n + 1)
        exact = np.abs(outcomes - m) @ binom.pmf(outcomes, n, m / n)
        assert_allclose(sizes.mean_deviation, exact, rtol=1e-9)
        assert sizes.mean_deviation <= np.sqrt(m * u / n)
        sums = [k**2 * np.sum(1.0 / np.arange(k, n, dtype=float) ** 2) for k in (m, u)]
        assert_allclose(sizes.v, min(sums), rtol=1e-9)
        assert sizes.v <= sizes.s * m * u / n * (1 + 1e-12)
        assert additive(sizes) <= 0.5 * np.sqrt(sizes.q)


def test_theorems_a_and_a2_bound_the_expected_gap_and_a_is_attained(sign_table):
    rng = np.random.default_rng(0)
    worst = {"A": 0.0, "A2": 0.0, "EYP": 0.0}
    for n, m in [(2, 1), (3, 1), (4, 1), (4, 2), (5, 2), (5, 4), (6, 2), (6, 3), (8, 2), (8, 4)]:
        table, sizes = sign_table(n, m), Sizes(m, n - m)
        for _ in range(30):
            members = random_class(rng, n)
            expected = gaps(members, m).mean()
            found = complexities(members, table)
            bounds = {
                "A": found["sub"],
                "A2": found["eyp"] + additive(sizes),
                "EYP": found["eyp"] + 5.05 * sizes.q * np.sqrt(sizes.k),
            }
            for name, bound in bounds.items():
                assert expected <= bound + 1e-12, (name, n, m)
                worst[name] = max(worst[name], expected / bound if bound > 1e-12 else 0.0)
    assert worst["A"] > 0.99
    assert worst["A2"] > 0.6
    assert worst["EYP"] < 0.3


def test_balanced_splits_need_no_additive_term_under_the_papers_law(sign_table):
    rng = np.random.default_rng(1)
    largest = 0.0
    for n in (2, 4, 6, 8):
        table = sign_table(n, n // 2)
        for _ in range(30):
            members = random_class(rng, n)
            found = complexities(members, table)
            assert found["sub"] <= found["paper"] + 1e-12
            expected = gaps(members, n // 2).mean()
            assert expected <= found["paper"] + 1e-12
            largest = max(largest, expected / max(found["paper"], 1e-12))
    assert largest > 0.5


def test_the_law_of_the_cited_theorem_needs_an_additive_term(sign_table):
    """n = 4, m = 1: the expected gap is 1.213 times the complexity."""
    members = np.array([[1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1]], dtype=float)
    found = complexities(members, sign_table(4, 1))
    expected = gaps(members, 1).mean()
    assert_allclose(expected / found["eyp"], 1.213, atol=5e-4)
    assert expected <= found["eyp"] + additive(Sizes(1, 3))


@pytest.mark.parametrize("delta", [0.3, 0.1, 0.05, 0.02])
def test_the_deviation_is_exceeded_with_probability_at_most_delta(delta):
    rng = np.random.default_rng(2)
    worst, worst_short = 0.0, 0.0
    for n, m in [(6, 2), (8, 4), (10, 3), (12, 6)]:
        sizes = Sizes(m, n - m)
        for _ in range(20):
            found = gaps(random_class(rng, n), m)
            excess = found - found.mean()
            worst = max(worst, np.mean(excess >= sizes.deviation(delta)) / delta)
            worst_short = max(worst_short, np.mean(excess >= 0.55 * sizes.deviation(delta)) / delta)
    assert worst <= 1.0
    assert worst_short > 1.0  # a deviation of little more than half would be wrong

"""The test of uniform sampling: exact moments, level and power."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.bounds import sampling_test
from kronfill.bounds.sampling import _unlike, holdout_p_value
from kronfill.masks.uniformity import _moments


@pytest.mark.parametrize(("shape", "m"), [((3, 4), 5), ((2, 5), 7), ((4, 3), 2), ((5, 2), 9)])
def test_moments_equal_those_over_all_masks(shape, m):
    spreads = []
    for chosen in combinations(range(shape[0] * shape[1]), m):
        counts = np.bincount(np.array(chosen) // shape[1], minlength=shape[0])
        spreads.append(np.sum((counts - m / shape[0]) ** 2))
    assert_allclose(
        _moments(*shape, m), (np.mean(spreads), np.var(spreads)), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize(("shape", "m"), [((30, 30), 450), ((200, 40), 300), ((12, 300), 2000)])
def test_uniform_masks_are_rejected_at_the_stated_level(shape, m):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(1500):
        chosen = np.divmod(rng.permutation(shape[0] * shape[1])[:m], shape[1])
        found.append(sampling_test(chosen, shape=shape).p_value)
    assert np.mean(np.array(found) < 0.1) < 0.13
    assert np.mean(np.array(found) < 0.1) > 0.04
    assert np.mean(np.array(found) < 0.001) <= 0.005


def test_masks_that_are_too_uneven_or_too_even_are_rejected():
    rng = np.random.default_rng(1)
    uneven = rng.random((60, 50)) < np.linspace(0.1, 0.6, 60)[:, None]
    found = sampling_test(np.nonzero(uneven), shape=(60, 50))
    assert not found.compatible
    assert found.row_p < 1e-6 < found.col_p
    assert "NOT compatible" in str(found)
    even = np.argsort(rng.random((60, 50)), axis=1) < 15  # as many in every row
    found = sampling_test(np.nonzero(even), shape=(60, 50))
    assert not found.compatible
    assert found.row_p < 1e-6


def test_masks_whose_counts_cannot_vary_pass():
    everything = kf.Observations.from_matrix(np.ones((3, 4)))
    assert sampling_test(everything).p_value == 1.0
    assert sampling_test(([0], [0]), shape=(1, 5)).compatible
    with pytest.raises(kf.errors.ParameterError, match="alpha"):
        sampling_test(everything, alpha=2.0)


@pytest.mark.parametrize(
    ("shape", "m"), [((10, 10**5), 3 * 10**5), ((100, 10**7), 10**8), ((10**5, 10**5), 10**9)]
)
def test_moments_of_large_tables_keep_their_digits(shape, m):
    items, width = shape
    share = m / (items * width)
    # Counts of one row have this variance; about normal, their squares have twice its square.
    one = m / items * (1 - share)
    mean, variance = _moments(items, width, m)
    assert_allclose(mean, (items - 1) * one, rtol=1e-4)
    assert_allclose(variance, 2 * (items - 1) * one**2, rtol=1e-2)


def test_uneven_rows_of_a_wide_table_are_rejected():
    rng = np.random.default_rng(2)
    rows = np.repeat(np.arange(4), [9000, 9000, 9000, 15000])
    cols = np.concatenate([rng.permutation(100_000)[:count] for count in np.bincount(rows)])
    assert not sampling_test((rows, cols), shape=(4, 100_000)).compatible
    assert not sampling_test((cols, rows), shape=(100_000, 4)).compatible


# Hold-outs

TOTALS = [(3, 2, 4), (5, 5), (1, 1, 1, 1, 3), (6,), (9, 1), (2, 2, 2, 2), (12, 3, 1)]


def chances(total, v):
    """Every vector of counts of v entries drawn from lines of these lengths, with its chance."""
    grid = np.indices([t + 1 for t in total]).reshape(len(total), -1).T
    for held in grid[grid.sum(axis=1) == v]:
        ways = np.prod([comb(t, h) for t, h in zip(total, held, strict=True)])
        yield held, ways / comb(sum(total), v)


@pytest.mark.parametrize("total", TOTALS, ids=str)
def test_no_counts_are_called_less_likely_than_they_are(total):
    for v in range(1, sum(total)):
        found = [(*_unlike(held, np.array(total)), p) for held, p in chances(total, v)]
        one, together, chance = np.array(found).T
        assert_allclose(chance.sum(), 1.0)
        assert chance @ np.exp(-together) <= 1 + 1e-12  # Markov does the rest
        for level in np.exp(one):
            assert chance[np.exp(one) <= level * (1 + 1e-12)].sum() <= level * (1 + 1e-9)


DESIGNS = {
    "even": (np.full(30, 15), 90),
    "tiny hold-out": (np.full(30, 15), 5),
    "one entry": (np.full(30, 15), 1),
    "all but one": (np.full(30, 15), 449),
    "one entry in each row": (np.ones(300, int), 60),
    "sparse": (np.random.default_rng(0).integers(1, 4, 400), 80),
    "a few long rows": (np.r_[np.ones(200, int), np.full(20, 100)], 300),
    "as popularity goes": (1 + 1000 // np.arange(1, 200), 500),
    "one row": (np.array([450]), 90),
    "two rows": (np.array([449, 1]), 90),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_random_holdouts_are_refused_no_more_often_than_said(design):
    total, v = DESIGNS[design]
    draws = np.random.default_rng(3).multivariate_hypergeometric(total, v, size=1000)
    found = np.array([_unlike(held, total) for held in draws])
    for level in (0.3, 0.1, 0.01):
        assert np.all(np.mean(found <= np.log(level), axis=0) <= level)


def entries(pairs, shape):
    return kf.Observations(*np.asarray(pairs).T, np.zeros(len(pairs)), shape)


def refused(observed, held, shape):
    return holdout_p_value(entries(observed[~held], shape), entries(observed[held], shape)) < 1e-6


@pytest.mark.parametrize("shape", [(60, 50), (2000, 3), (1, 900), (900, 1), (2, 400)])
@pytest.mark.parametrize("share", [0.002, 0.2, 0.9])
def test_only_holdouts_that_are_not_random_are_refused(shape, share):
    rng = np.random.default_rng(4)
    observed = rng.permutation(np.argwhere(rng.random(shape) < 0.4))
    count = max(1, round(share * len(observed)))
    for _ in range(50):
        held = np.zeros(len(observed), dtype=bool)
        held[rng.permutation(len(observed))[:count]] = True
        assert not refused(observed, held, shape)


def test_holdouts_that_are_not_random_are_refused():
    rng = np.random.default_rng(5)
    shape = (60, 50)
    observed = rng.permutation(np.argwhere(rng.random(shape) < 0.4))
    rows, cols = observed.T
    chance = rng.random(len(observed))
    ways = {
        "ten rows": rows < 10,
        "one column": cols == 7,
        "a block": (rows < 30) & (cols < 25),
        "the first lines of a sorted table": np.argsort(np.lexsort((cols, rows))) < 100,
        "nine entries of a row": (rows == 3) & (np.cumsum(rows == 3) <= 9),
        "random, and a row": (chance < 0.2) | (rows == 3),
        "random, but not of this row": (chance < 0.8) & (rows != 3),
        "one half of the rows more often": chance < np.where(rows % 2, 0.1, 0.4),
        "later columns more often": chance < 0.5 * cols / 50,
    }
    for way, held in ways.items():
        assert refused(observed, held, shape), way
    sparse = rng.permutation(np.argwhere(rng.random((800, 50)) < 0.06))
    assert refused(sparse, sparse[:, 0] % 5 == 0, (800, 50))  # rows of three

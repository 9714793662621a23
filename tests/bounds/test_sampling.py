"""The test of uniform sampling: exact moments, level and power."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.bounds import sampling_test
from kronfill.bounds.sampling import _moments


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

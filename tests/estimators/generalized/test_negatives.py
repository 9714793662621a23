"""Ones without recorded zeros."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import kronfill as kf
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.generalized.negatives import with_sampled_zeros

GROUPS = kf.kernels.precomputed(np.kron(np.eye(3), np.ones((8, 8))) + 0.1 * np.eye(24))
ONES = np.array([(i, j) for i in range(24) for j in range(24) if i // 8 == j // 8])
ONES = np.random.default_rng(0).permutation(ONES)


@pytest.mark.parametrize("density", [0.01, 0.3, 0.6, 0.95])
def test_zeros_are_distinct_entries_that_are_no_ones(density):
    rng = np.random.default_rng(1)
    rows, cols = np.nonzero(rng.random((40, 30)) < density)
    ones = kf.Observations(rows, cols, np.ones(len(rows)), (40, 30))
    both = with_sampled_zeros(ones, 0)  # Observations refuses an entry that is there twice
    assert both.m - ones.m == min(ones.m, 1200 - ones.m)
    assert_array_equal(both.values, np.repeat([1.0, 0.0], [ones.m, both.m - ones.m]))
    assert both == with_sampled_zeros(ones, 0)


def test_zeros_are_spread_evenly():
    ones = kf.Observations([0], [0], [1.0], (20, 20))
    draws = [with_sampled_zeros(ones, seed) for seed in range(2000)]
    rows = np.bincount([one.rows[1] for one in draws], minlength=20)
    assert rows.min() > 60
    assert rows.max() < 145


def test_groups_are_found():
    est = kf.KKMCEXClassifier(GROUPS, GROUPS, negatives="sample").fit(ONES[:60])
    assert_array_equal(est.classes_, [0, 1])
    share = est.predict_matrix()
    inside = np.kron(np.eye(3), np.ones((8, 8))).astype(bool)
    assert share[inside].min() > share[~inside].max()
    figures = kf.selection.ranking_figures(est, ONES[60:], k=5)
    assert figures.recall == figures.auc == 1.0


def test_no_table_arises():
    """A table of 10^14 entries."""
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, 10**7, (2, 50))
    both = with_sampled_zeros(kf.Observations(rows, cols, np.ones(50), (10**7, 10**7)), 0)
    assert both.m == 100


def test_errors():
    est = kf.KKMCEXClassifier(GROUPS, GROUPS, negatives="sample")
    with pytest.raises(DataError, match="ones alone"):
        est.fit(ONES, np.arange(len(ONES)) % 2)
    with pytest.raises(ParameterError, match="partial_fit"):
        est.partial_fit(ONES)
    with pytest.raises(ParameterError, match="negatives must be"):
        kf.KKMCEXClassifier(GROUPS, GROUPS, negatives="all").fit(ONES)
    full = np.argwhere(np.ones((2, 2)))
    with pytest.raises(DataError, match="Every entry"):
        kf.KKMCEXClassifier(negatives="sample").fit(full)

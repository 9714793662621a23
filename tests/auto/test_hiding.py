"""What is hidden looks like what is missing; what is learned from is as dense and as close."""

import numpy as np
import pytest

import kronfill as kf
from kronfill.auto.hiding import hidden_entries, hidden_items, part_to_learn_from, spared
from kronfill.auto.plan import Plan, planned
from kronfill.auto.sources import AxisParts

PLAN = Plan(hidden=0.1, folds=2)


def observations(seen):
    rows, cols = np.nonzero(seen)
    return kf.Observations(rows, cols, np.arange(float(len(rows))), seen.shape)


@pytest.mark.parametrize("axis", [0, 1])
def test_ends_of_curves_are_hidden_where_ends_are_missing(axis):
    rng = np.random.default_rng(0)
    cut = np.where(rng.random(80) < 0.5, rng.integers(1, 30, 80), 30)
    seen = np.arange(30) < cut[:, None]
    obs = observations(seen if axis == 0 else seen.T)
    for hidden in hidden_entries(obs, PLAN, np.random.default_rng(1)):
        assert 0.05 * obs.m < hidden.sum() < 0.2 * obs.m
        item, place = (obs.rows, obs.cols) if axis == 0 else (obs.cols, obs.rows)
        for row in np.unique(item[hidden]):
            here = item == row
            assert place[here & hidden].min() > place[here & ~hidden].max()


def test_entries_are_hidden_at_random_where_they_are_missing_at_random():
    rng = np.random.default_rng(0)
    obs = observations(rng.random((60, 50)) < 0.5)
    first, second = hidden_entries(obs, PLAN, np.random.default_rng(1))
    assert first.sum() == second.sum() == round(0.1 * obs.m)
    assert not (first & second).any()
    assert np.unique(obs.rows[first]).size > 45


def test_no_fold_hides_nothing_or_all_of_a_tiny_table():
    rng = np.random.default_rng(0)
    for _ in range(200):
        seen = rng.random(rng.integers(2, 6, 2)) < rng.random()
        if seen.sum() > 1:
            obs = kf.Observations(*np.nonzero(seen), rng.random(int(seen.sum())), seen.shape)
            plan = planned(obs.shape, obs.m, 2)
            for hidden in hidden_entries(obs, plan, np.random.default_rng(0)):
                assert 0 < hidden.sum() < obs.m


def test_neighbours_are_learned_from_together():
    rng = np.random.default_rng(0)
    obs = observations(rng.random((400, 10)) < 0.9)
    x = rng.permutation(400).astype(float)
    axes = (AxisParts.of(kf.kernels.rbf(x), "row_sources"), AxisParts(10))
    hidden = hidden_items(obs, axes, rng)[0]
    kept, (rows, cols) = part_to_learn_from(obs, hidden, axes, Plan(entries=900), rng)
    assert 900 <= len(kept) < 1000
    assert len(cols) == 10
    nearest = np.diff(np.sort(x[rows]))
    assert np.median(nearest) == 1  # a quarter of all at random would be about 4 apart
    assert np.isin(obs.rows, rows).sum() == len(kept)


def test_whole_rows_are_spared_where_rows_are_hidden():
    rng = np.random.default_rng(0)
    obs = observations(np.ones((20, 12), bool))
    hidden = np.isin(obs.rows, np.arange(8))
    out = spared(obs, hidden, rng)
    assert np.unique(obs.rows[out]).size == 2
    assert out.sum() == 24
    entries = rng.random(obs.m) < 0.5
    assert spared(obs, entries, rng).sum() == entries.sum() // 4

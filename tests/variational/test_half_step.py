"""The compiled half-step against one that takes item by item with dense matrices."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kronfill.core.grouping import Grouped
from kronfill.variational import rows as module
from kronfill.variational.rows import ONE, ZERO, half_step, packed_size, second_moments
from tests.oracles import variational as oracle


def problem(n, others, d, m, weighted, seed):
    """Random moments of the other axis, observations, and a prior."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((others, d + 1))
    half = rng.standard_normal((others, d + 1, d + 1)) / (d + 1)
    moments = means[:, :, None] * means[:, None, :] + half @ half.transpose(0, 2, 1)
    at = rng.choice(n * others, size=min(m, n * others), replace=False)
    rows, cols = np.divmod(at, others)
    values = rng.standard_normal(len(at)) + 1.0
    weights = rng.uniform(0.2, 3.0, len(at)) if weighted else None
    low, high = np.tril_indices(d + 1)
    packed = np.ascontiguousarray(moments[:, low, high])
    prior = rng.uniform(0.5, 2.0, d), rng.standard_normal((n, d))
    return means, moments, packed, rows, cols, values, weights, prior


def stepped(means, packed, rows, cols, values, weights, prior, tau=1.7):
    grouped = Grouped.by(rows, cols, len(prior[1]), weights)
    return half_step(means, packed, grouped, grouped.gather(values), tau, *prior)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 7), st.integers(1, 6), st.integers(0, 4), st.integers(1, 30), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_item_by_item(n, others, d, m, weighted, seed):
    means, moments, packed, rows, cols, values, weights, prior = problem(
        n, others, d, m, weighted, seed
    )
    step = stepped(means, packed, rows, cols, values, weights, prior)
    each = np.ones(len(values)) if weights is None else weights
    mean, covariance, squares, residual = oracle.half_step(
        means, moments, rows, cols, values, each, 1.7, *prior
    )
    assert_allclose(step.mean, mean, atol=1e-10)
    assert_allclose(oracle.unpacked(step.covariance, d), covariance, atol=1e-10)
    assert_allclose(step.log_det, np.linalg.slogdet(covariance)[1], atol=1e-9)
    assert_allclose([step.squares, step.residual], [squares, residual], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_tiles_and_groups_change_nothing_but_rounding(weighted, monkeypatch):
    means, _, packed, rows, cols, values, weights, prior = problem(40, 30, 3, 600, weighted, 1)
    whole = stepped(means, packed, rows, cols, values, weights, prior)
    monkeypatch.setattr(module, "TILE_BYTES", 7 * packed[:1].nbytes)
    monkeypatch.setattr(module, "GROUP_BYTES", 11 * packed[:1].nbytes)
    tiled = stepped(means, packed, rows, cols, values, weights, prior)
    assert_allclose(tiled.mean, whole.mean, atol=1e-12)
    assert_allclose(tiled.covariance, whole.covariance, atol=1e-12)
    assert_allclose([tiled.squares, tiled.residual], [whole.squares, whole.residual], rtol=1e-11)


def test_the_same_bits_on_any_number_of_threads():
    means, _, packed, rows, cols, values, weights, prior = problem(300, 50, 4, 5000, True, 2)
    before = numba.get_num_threads()
    steps = []
    try:
        for threads in {1, numba.config.NUMBA_NUM_THREADS}:
            numba.set_num_threads(threads)
            steps.append(stepped(means, packed, rows, cols, values, weights, prior))
    finally:
        numba.set_num_threads(before)
    for name in ("mean", "covariance", "log_det"):
        assert_array_equal(getattr(steps[0], name), getattr(steps[-1], name))
    assert (steps[0].squares, steps[0].residual) == (steps[-1].squares, steps[-1].residual)


def test_a_weight_of_three_is_three_observations():
    means, _, packed, rows, cols, values, _, prior = problem(5, 6, 2, 20, False, 3)
    times = np.random.default_rng(0).integers(1, 4, len(values))
    weighted = stepped(means, packed, rows, cols, values, times.astype(float), prior)
    again = np.repeat(np.arange(len(values)), times)
    repeated = stepped(means, packed, rows[again], cols[again], values[again], None, prior)
    assert_allclose(weighted.mean, repeated.mean, atol=1e-12)
    assert_allclose(weighted.covariance, repeated.covariance, atol=1e-12)
    assert_allclose(weighted.squares, repeated.squares)


def test_an_item_without_observations_keeps_its_prior():
    means, _, packed, rows, cols, values, _, prior = problem(4, 6, 2, 20, False, 4)
    keep = rows != 2
    step = stepped(means, packed, rows[keep], cols[keep], values[keep], None, prior)
    assert_allclose(step.mean[2], prior[1][2])
    assert_allclose(oracle.unpacked(step.covariance, 2)[2], np.diag(1 / prior[0]), atol=1e-15)


@pytest.mark.parametrize("source", [[0, 1, 2], [0, 1, ONE, 2], [0, 1, ONE, ZERO], [ZERO], [2]])
def test_second_moments_are_outer_products_and_covariances(source):
    rng = np.random.default_rng(0)
    mean, half = rng.standard_normal((5, 3)), rng.standard_normal((5, 3, 3))
    covariance = half @ half.transpose(0, 2, 1)
    low, high = np.tril_indices(3)
    means, moments = second_moments(mean, covariance[:, low, high], np.array(source))
    constant = np.column_stack([mean, np.zeros(5), np.ones(5)])  # ZERO is -2, ONE is -1
    padded = np.zeros((5, 5, 5))
    padded[:, :3, :3] = covariance
    wanted = constant[:, source]
    assert_array_equal(means, wanted)
    assert moments.shape == (5, packed_size(len(source)))
    second = wanted[:, :, None] * wanted[:, None, :] + padded[np.ix_(range(5), source, source)]
    assert_allclose(oracle.unpacked(moments, len(source)), second)

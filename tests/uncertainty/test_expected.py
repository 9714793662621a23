"""Variances from the numbers of observations alone: where they are exact, and their limits."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.ridge.identity_system import FactorPlusIdentity
from kronfill.ridge.problem import Mask, Sampled
from kronfill.uncertainty.expected import expected_variance

N, L = 9, 7
EVERY = np.argwhere(np.ones((N, L)))
PARTS = [(0.0, 0.0), (0.2, 0.0), (0.0, 0.2), (0.2, 0.3), (None, 0.3), (None, None)]


def kernel(n, part):
    if part is None:
        return kf.kernels.identity(n)
    smooth = kf.kernels.rbf(np.linspace(0, 1, n), 0.4)
    return smooth + part * kf.kernels.identity(n) if part else smooth


def case(parts, X):
    row, col = kernel(N, parts[0]), kernel(L, parts[1])
    sampled = Sampled(Mask(*X.T, (N, L)), np.zeros(len(X)))
    return row, col, (FactorPlusIdentity.of(row), FactorPlusIdentity.of(col), sampled)


@pytest.mark.parametrize("parts", PARTS)
def test_far_from_any_data_it_is_the_prior(parts):
    row, col, split = case(parts, EVERY[:1])
    got = expected_variance(*split, 1e9, *EVERY.T)
    assert_allclose(got, np.outer(row.diagonal(), col.diagonal()).ravel(), rtol=1e-8)


@pytest.mark.parametrize("parts", PARTS[:3])
def test_with_every_entry_observed_it_is_the_variance(parts):
    row, col, split = case(parts, EVERY)
    got = expected_variance(*split, 0.5, *EVERY.T)
    k = np.kron(row.to_array(), col.to_array())
    wanted = k - k @ np.linalg.solve(k + 0.5 * np.eye(N * L), k)
    assert_allclose(got, np.diag(wanted), atol=1e-9)


@pytest.mark.parametrize("parts", PARTS)
def test_it_is_close_for_a_random_mask_and_falls_with_more_data(parts):
    rng = np.random.default_rng(0)
    X = rng.permutation(EVERY)
    row, col, split = case(parts, X[:30])
    k = np.kron(row.to_array(), col.to_array())
    at = X[:30, 0] * L + X[:30, 1]
    wanted = k - k[:, at] @ np.linalg.solve(k[np.ix_(at, at)] + 0.5 * np.eye(30), k[at])
    left = np.setdiff1d(np.arange(N * L), at)
    got = expected_variance(*split, 0.5, *EVERY[left].T)
    assert got.sum() == pytest.approx(np.diag(wanted)[left].sum(), rel=0.35)
    fewer = case(parts, X[:10])[2]
    assert got.sum() <= expected_variance(*fewer, 0.5, *EVERY[left].T).sum() + 1e-12

"""The check of given kernels, and their repair."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kronfill.core.psd import check_symmetric_psd, nearest_psd
from kronfill.errors import NonFiniteError, NotPSDError, NotSymmetricError, ShapeError


def random_psd(n, rank, seed=0, size=1.0):
    x = size * np.random.default_rng(seed).normal(size=(n, rank))
    return x @ x.T


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 99), st.sampled_from([1e-8, 1, 1e6]))
def test_every_gram_matrix_passes(n, rank, seed, size):
    K = random_psd(n, rank, seed, size)
    checked = check_symmetric_psd(K)
    assert_allclose(checked, K, rtol=1e-14, atol=1e-15 * np.abs(K).max())
    assert_array_equal(checked, checked.T)


@pytest.mark.parametrize("K", [np.zeros((3, 3)), np.ones((600, 600)), np.eye(1), [[0.0]]])
def test_singular_matrices_pass(K):
    assert_array_equal(check_symmetric_psd(K), K)


def test_the_copy_is_read_only_and_the_original_untouched():
    K = random_psd(5, 5)
    before = K.copy()
    checked = check_symmetric_psd(K)
    assert not checked.flags.writeable
    assert checked.flags.c_contiguous
    assert_array_equal(K, before)
    assert not np.shares_memory(checked, K)


@pytest.mark.parametrize("n", [3, 700])
def test_the_worst_asymmetric_pair_is_named(n):
    K = np.eye(n)
    K[1, 0] += 1e-4
    K[n - 1, 1] += 0.25
    with pytest.raises(NotSymmetricError, match=rf"entry \({n - 1}, 1\) .* difference of 0.25"):
        check_symmetric_psd(K)


def test_asymmetry_at_rounding_level_is_averaged():
    K = np.array([[1.0, 0.5], [0.5 + 1e-12, 1.0]])
    checked = check_symmetric_psd(K)
    assert checked[0, 1] == checked[1, 0] == pytest.approx(0.5)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", [(0, 1), (650, 3), (3, 650)])
def test_non_finite(value, where):
    K = np.eye(700)
    K[where] = value
    with pytest.raises(NonFiniteError, match=rf"gram has .* at row {where[0]}, column {where[1]}"):
        check_symmetric_psd(K, "gram")


@pytest.mark.parametrize("lowest", [-1.0, -1e-3, -1e-9])
def test_indefinite_is_refused_with_its_eigenvalue(lowest):
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.normal(size=(20, 20)))
    K = (Q * np.r_[lowest, np.linspace(0.1, 1, 19)]) @ Q.T
    with pytest.raises(NotPSDError, match=r"nearest_psd\(K\)") as caught:
        check_symmetric_psd(K)
    assert caught.value.smallest_eigenvalue == pytest.approx(lowest, rel=1e-4)
    repaired = nearest_psd(K)
    check_symmetric_psd(repaired)
    assert np.linalg.norm(repaired - K) == pytest.approx(-lowest, rel=1e-4)


def test_zero_diagonal_with_entries_is_indefinite():
    with pytest.raises(NotPSDError):
        check_symmetric_psd([[0.0, 1e-3], [1e-3, 0.0]])


@pytest.mark.parametrize("shape", [(2, 3), (4,), (0, 0), (2, 2, 2)])
def test_shape(shape):
    with pytest.raises(ShapeError, match=r"square matrix|no items"):
        check_symmetric_psd(np.ones(shape))


def test_memory_is_one_copy():
    n = 1200
    K = np.eye(n)
    tracemalloc.start()
    check_symmetric_psd(K)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.2 * K.nbytes


def test_nearest_psd_leaves_kernels_alone():
    K = random_psd(30, 10)
    assert_allclose(nearest_psd(K), K, atol=1e-12)
    with pytest.raises(NonFiniteError):
        nearest_psd([[np.nan]])

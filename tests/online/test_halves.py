"""A symmetric matrix in two halves of single precision, against the whole one."""

from __future__ import annotations

from itertools import pairwise

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kronfill.online.halves import IN_CACHE, Halves, Whole, symmetric


def matrix(size, seed=0):
    a = np.random.default_rng(seed).standard_normal((size, size))
    return a + a.T


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 33, 101])
@pytest.mark.parametrize("count", [1, 2, 20])
@pytest.mark.parametrize("kind", [Halves, Whole])
def test_products(size, count, kind):
    a = matrix(size)
    vectors = np.random.default_rng(1).standard_normal((count, size))
    kept = kind(np.tril(a))
    scale = np.abs(vectors @ a).max() + np.abs(a).max()
    assert_allclose(kept.exact(vectors), vectors @ a, atol=1e-13 * scale)
    assert_allclose(kept.rough(vectors), vectors @ a, atol=1e-6 * scale)


def test_the_error_of_a_rough_product_is_known():
    a = matrix(300) * np.logspace(0, -6, 300) * np.logspace(0, -6, 300)[:, None]
    kept = Halves(a)
    for seed in range(5):
        vector = np.random.default_rng(seed).standard_normal(300) * np.logspace(0, 3, 300)
        wrong = np.linalg.norm(kept.rough(vector[None])[0] - a @ vector)
        assert 0.1 * kept.error(vector) < wrong < 1.5 * kept.error(vector)


@pytest.mark.parametrize("kind", [Halves, Whole])
@pytest.mark.parametrize("cuts", [[0, 37], [0, 10, 11, 30, 37]])
def test_changes_slab_by_slab(kind, cuts):
    a, change = matrix(37, 1), matrix(37, 2)
    kept = kind(a.copy())
    for first, last in pairwise(cuts):
        kept.add(first, change[first:last, :last])
    new = a + change
    vectors = np.eye(37)[:5]
    assert_allclose(kept.exact(vectors), new[:5], atol=1e-13)
    if kind is Halves:
        once = Halves(new)
        assert_allclose(kept.error(vectors[3]), once.error(vectors[3]), rtol=1e-12)


def test_the_same_bits_for_any_number_of_threads():
    a = matrix(150)
    vectors = np.random.default_rng(1).standard_normal((2, 150))
    before = numba.get_num_threads()
    found = []
    try:
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            kept = Halves(a)
            kept.add(0, matrix(150, 3))
            found.append((kept.rough(vectors), kept.exact(vectors), kept.error(vectors[0])))
    finally:
        numba.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert_array_equal(one, two)


def test_small_matrices_are_kept_whole():
    assert isinstance(symmetric(np.eye(IN_CACHE - 1)), Whole)
    assert isinstance(symmetric(np.eye(IN_CACHE)), Halves)

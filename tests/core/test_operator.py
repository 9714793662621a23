"""The sampled-Kronecker operator against dense algebra; adjoint; the same bits on any threads."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kronfill.core.grouping import Grouped
from kronfill.core.loops.rowwise_ridge import ridge_rows
from kronfill.core.operator import (
    SampledKronecker,
    gram_products,
    pair_products,
    row_grams,
)
from kronfill.core.threads import one_blas_thread, one_thread


def build(n, l, a, b, m, seed, weighted=False):
    rng = np.random.default_rng(seed)
    p, q = rng.standard_normal((n, a)), rng.standard_normal((l, b))
    rows, cols = np.divmod(rng.choice(n * l, size=m, replace=False), l)
    weights = rng.random(m) if weighted else None
    return p, q, rows, cols, weights


sizes = st.tuples(
    st.integers(1, 300), st.integers(1, 9), st.integers(1, 7), st.integers(1, 7), st.integers(0, 99)
)


@settings(max_examples=30, deadline=None)
@given(size=sizes, share=st.floats(0.01, 1), weighted=st.booleans())
def test_against_dense(size, share, weighted):
    n, l, a, b, seed = size
    m = max(1, int(share * n * l))
    p, q, rows, cols, weights = build(n, l, a, b, m, seed, weighted)
    grouped = Grouped.by(rows, cols, n, weights)
    op = SampledKronecker(p, q, grouped)
    x = np.random.default_rng(seed).standard_normal((a, b))
    d = np.random.default_rng(seed + 1).standard_normal(m)
    dense = p @ x @ q.T
    order = grouped.order
    assert_allclose(op.sample(x), dense[rows, cols][order], atol=1e-12)
    spread = np.zeros((n, l))
    spread[rows[order], cols[order]] = d
    scattered = op.scatter(d)
    assert_allclose(scattered, p.T @ spread @ q, atol=1e-11)
    assert_allclose(op @ x.ravel(), op.sample(x))
    assert_allclose(op.H @ d, scattered.ravel())
    # Adjoint: <sample(x), d> = <x, scatter(d)>.
    assert op.sample(x) @ d == pytest.approx(np.vdot(x, scattered), abs=1e-10)
    mask = np.zeros((n, l))
    mask[rows, cols] = 1.0 if weights is None else weights
    assert_allclose(op.normal(x), p.T @ (mask * dense) @ q, atol=1e-10)


def test_same_bits_for_any_number_of_threads():
    p, q, rows, cols, weights = build(3000, 200, 23, 11, 50_000, 0, weighted=True)
    grouped = Grouped.by(rows, cols, 3000, weights)
    op = SampledKronecker(p, q, grouped)
    x = np.random.default_rng(0).standard_normal((23, 11))
    before = numba.get_num_threads()
    results = []
    try:
        for threads in {1, before}:
            numba.set_num_threads(threads)
            with one_blas_thread():
                half = ridge_rows(q, grouped, weights[grouped.order], 0.1)
                results.append((op.normal(x), op.sample(x), op.scatter(op.sample(x)), half))
    finally:
        numba.set_num_threads(before)
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            assert_array_equal(one, two)


def test_grouping_sorts_by_outer_then_inner_item():
    outer, inner = np.array([2, 0, 2, 1, 0]), np.array([5, 4, 3, 2, 1])
    grouped = Grouped.by(outer, inner, 4)
    assert_array_equal(grouped.order, [4, 1, 3, 2, 0])
    assert_array_equal(grouped.indptr, [0, 2, 3, 5, 5])
    assert_array_equal(grouped.inner, [1, 4, 2, 3, 5])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ridge_rows_against_normal_equations(weighted, dtype):
    n, l, p = 7, 600, 4
    _, h, rows, cols, weights = build(n, l, 1, p, 2500, 3, weighted)
    rows[rows == 5] = 4  # an empty row; repeated entries do not matter here
    y = np.random.default_rng(1).standard_normal(len(rows))
    grouped = Grouped.by(rows, cols, n, None if weights is None else weights.astype(dtype))
    got = ridge_rows(h.astype(dtype), grouped, y[grouped.order].astype(dtype), 0.3)
    assert got.dtype == dtype
    for i in range(n):
        mine = rows == i
        w = np.ones(mine.sum()) if weights is None else weights[mine]
        hi = h[cols[mine]]
        expected = np.linalg.solve(hi.T @ (w[:, None] * hi) + 0.3 * np.eye(p), hi.T @ (w * y[mine]))
        assert_allclose(got[i], expected, atol=1e-11 if dtype is np.float64 else 1e-4)
    assert not got[5].any()


def test_row_grams_with_empty_rows():
    rows, cols = np.array([0, 0, 3]), np.array([1, 0, 1])
    q = np.array([[1.0, 2.0], [3.0, 4.0]])
    grouped = Grouped.by(rows, cols, 4, np.array([1.0, 2.0, 3.0]))
    grams = row_grams(q, grouped.indptr, grouped.inner, grouped.weights)
    for i in range(4):
        v = q[cols[rows == i]]
        weights = np.array([1.0, 2.0, 3.0])[rows == i]
        assert_allclose(grams[i], v.T @ (weights[:, None] * v))


def test_with_and_without_grams(monkeypatch):
    """Many observations per item switch to Gram matrices; the product is the same."""
    p, q, rows, cols, weights = build(20, 300, 6, 5, 4000, 1, weighted=True)
    grouped = Grouped.by(rows, cols, 20, weights)
    x = np.random.default_rng(0).standard_normal((6, 5))
    with_grams = SampledKronecker(p, q, grouped)
    monkeypatch.setattr("kronfill.core.operator.GRAM_RANK", 0)
    without = SampledKronecker(p, q, grouped)
    assert with_grams._grams is not None
    assert without._grams is None
    assert_allclose(with_grams.normal(x), without.normal(x), rtol=1e-12)


def test_pair_products():
    rng = np.random.default_rng(0)
    a, b = rng.random((5, 3)), rng.random((6, 3))
    r, c = rng.integers(0, 5, 20), rng.integers(0, 6, 20)
    assert_allclose(pair_products(a, b, r, c), (a @ b.T)[r, c])


def test_thread_limits_come_back():
    from threadpoolctl import threadpool_info

    def state():
        blas = [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]
        return blas, numba.get_num_threads()

    before = state()
    with one_blas_thread(), one_thread():
        assert set(state()[0]) == {1}
        assert state()[1] == 1
    assert state() == before
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert state() == before


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 2), (300, 40, 5)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_with_gram_matrices(shape, dtype):
    n, a, b = shape
    rng = np.random.default_rng(0)
    p, x = rng.standard_normal((n, a)).astype(dtype), rng.standard_normal((a, b)).astype(dtype)
    grams = rng.standard_normal((n, b, b)).astype(dtype)
    grams = grams + grams.transpose(0, 2, 1)
    found = gram_products(p, x, grams)
    wanted = p.T @ np.einsum("ijk,ik->ij", grams, p @ x)
    assert found.dtype == dtype
    assert_allclose(found, wanted, rtol=0, atol=50 * np.finfo(dtype).eps * np.abs(wanted).max())
    with one_thread():
        assert_array_equal(gram_products(p, x, grams), found)

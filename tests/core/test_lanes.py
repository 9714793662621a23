"""Rows by whole cache lines against the obvious sums."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kronfill.core.loops.lanes import (
    add_1,
    add_4,
    add_8,
    dots_1,
    dots_4,
    dots_8,
    lined,
    prefetch,
    width,
)


@numba.njit
def dots(t, q, inner, k):
    return dots_8(t, q, inner, k), dots_4(t, q, inner, k), dots_1(t, q, inner, k)


@numba.njit
def adds(g8, g4, g1, q, inner, k, v):
    add_8(g8, q, inner, k, v)
    add_4(g4, q, inner, k, v[:4])
    add_1(g1, q, inner, k, v[:1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("columns", [1, 7, 8, 16, 17, 65])
def test_against_sums_row_by_row(dtype, kind, columns):
    rng = np.random.default_rng(columns)
    q = rng.standard_normal((20, columns))
    table = lined(q, dtype)
    t = np.zeros(table.shape[1], dtype)
    t[:columns] = rng.standard_normal(columns)
    inner = rng.integers(0, 20, 11).astype(kind)
    near = 1e-13 if dtype is np.float64 else 1e-5
    for found in dots(t, table, inner, 3):
        expected = q[inner[3 : 3 + len(found)]] @ t[:columns].astype(float)
        assert_allclose(found, expected, atol=near * columns)
    v = rng.standard_normal(8).astype(dtype)
    sums = [np.ones(table.shape[1], dtype) for _ in range(3)]
    adds(*sums, table, inner, 3, tuple(v))
    for g, count in zip(sums, (8, 4, 1), strict=True):
        expected = 1 + v[:count].astype(float) @ q[inner[3 : 3 + count]]
        assert_allclose(g[:columns], expected, atol=near * columns)
        assert_array_equal(g[columns:], 1)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(0, 40),
    dtype=st.sampled_from([np.float64, np.float32]),
    shift=st.integers(0, 8),
    flipped=st.booleans(),
)
def test_rows_begin_at_a_line(rows, columns, dtype, shift, flipped):
    raw = np.arange(rows * columns + shift, dtype=float)[shift:]
    table = raw.reshape(columns, rows).T if flipped else raw.reshape(rows, columns)
    out = lined(table, dtype)
    assert out.shape == (rows, width(columns, dtype))
    assert out.shape[1] * out.itemsize % 64 == 0
    assert out.shape[1] > 0
    assert out.ctypes.data % 64 == 0
    assert out.flags.c_contiguous
    assert_array_equal(out[:, :columns], table)
    assert not out[:, columns:].any()
    assert lined(out, dtype) is out


def test_what_is_asked_for_need_not_exist():
    @numba.njit
    def ask(array):
        for k in (0, 3, 10**6):
            prefetch(array, k)
        return array[0]

    assert ask(np.arange(4, dtype=np.int32)) == 0

"""A kernel cut to a thin factor."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.kernels.thin import thin

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.random(40), "y": RNG.random(40)}, index=[f"i{k}" for k in range(40)])
NEW = pd.DataFrame({"x": RNG.random(3), "y": RNG.random(3)})


@pytest.mark.parametrize("rank", [1, 7, 40])
def test_it_is_the_product_of_its_factor(rank):
    cut = thin(kf.kernels.rbf(FRAME), rank)
    array = cut.to_array()
    phi = cut.factor().phi
    assert phi.shape[1] <= rank
    assert_allclose(phi @ phi.T, array, atol=1e-12)
    assert_allclose(cut.diagonal([3, 5]), array[[3, 5], [3, 5]])
    assert_allclose(cut.apply(np.eye(40)), array, atol=1e-12)
    assert_allclose(cut.take([5, 2]).to_array(), array[np.ix_([5, 2], [5, 2])])
    assert cut.take([5, 2]).labels == ("i5", "i2")
    assert np.linalg.eigvalsh(array)[0] > -1e-12


def test_all_columns_give_the_kernel_back():
    whole = kf.kernels.rbf(FRAME)
    cut = thin(whole, 40)
    assert_allclose(cut.to_array(), whole.to_array(), atol=1e-10)
    assert_allclose(cut.cross(NEW), whole.cross(NEW), atol=1e-6)


def test_new_items_fit_the_factor():
    cut = thin(kf.kernels.rbf(FRAME), 7)
    phi_new = cut.factor_new(cut.factor(), NEW)
    assert_allclose(phi_new @ cut.factor().phi.T, cut.cross(NEW), atol=1e-12)
    assert_allclose(cut.new_diagonal(NEW), np.sum(phi_new**2, axis=1))
    # A known item described anew is where it was.
    again = cut.cross(FRAME.iloc[[4]])
    assert_allclose(again, cut.block([4], None), atol=1e-8)


def test_a_fit_with_it_equals_the_fit_with_its_matrix():
    cut = thin(kf.kernels.rbf(FRAME), 5)
    n = cut.n
    parts = cut + kf.kernels.constant(n) + 0.1 * kf.kernels.identity(n)
    X = RNG.permutation(np.argwhere(np.ones((n, n))))[:700]
    y = RNG.standard_normal(700)
    solver = kf.PCG(tol=1e-12)
    fast = kf.KKMCEX(parts, parts, mu=0.5, solver=solver).fit(X, y)
    slow = kf.KKMCEX(parts.to_array(), parts.to_array(), mu=0.5, solver=kf.Cholesky()).fit(X, y)
    assert_allclose(fast.predict_matrix(), slow.predict_matrix(), atol=1e-8)
    assert fast.extrapolate(rows=NEW).shape == (3, n)

"""Sums, products, multiples."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from kronfill import kernels as kk
from kronfill.errors import (
    IndexRangeError,
    KernelError,
    LabelError,
    MemoryLimitError,
    ParameterError,
    ShapeError,
)

X = np.random.default_rng(0).normal(size=(6, 2))
RBF, LINEAR, GIVEN = kk.rbf(X, 1.0), kk.linear(X), kk.precomputed(X @ X.T)


def test_sums_and_products_are_flat():
    assert (RBF + (LINEAR + RBF)).parts == (RBF, LINEAR, RBF)
    assert (RBF * LINEAR * RBF).parts == (RBF, LINEAR, RBF)
    assert repr((RBF + LINEAR) * 2 * RBF) == (
        "2 * (RBF(n=6, length_scale=1) + Linear(n=6, features=2)) * RBF(n=6, length_scale=1)"
    )
    assert (2 * (3 * RBF)).scale == 6.0


def test_distributive_law():
    left, right = (RBF + LINEAR) * GIVEN, RBF * GIVEN + LINEAR * GIVEN
    assert_allclose(left.to_array(), right.to_array())


def test_numpy_numbers_scale_and_arrays_do_not():
    assert_allclose((np.float64(0.5) * RBF).to_array(), 0.5 * RBF.to_array())
    for wrong in (np.ones((6, 6)), "x", None):
        with pytest.raises(TypeError):
            wrong * RBF
        with pytest.raises(TypeError):
            RBF + wrong
    with pytest.raises(TypeError):
        1 + RBF


@pytest.mark.parametrize("scale", [0, -1.0, np.inf, np.nan])
def test_scale_must_be_positive(scale):
    with pytest.raises(ParameterError, match="positive finite number"):
        scale * RBF


def test_parts_reach_their_kernels():
    new = np.ones((2, 2))
    kernel = RBF + 2.0 * GIVEN + kk.identity(6)
    parts = kk.Parts(new, (new @ X.T, [2.0, 2.0]), 2)
    assert_allclose(kernel.cross(parts), RBF.cross(new) + 2 * new @ X.T)
    assert_allclose(kernel.new_diagonal(parts), 1 + 2 * 2 + 1)
    assert_allclose((3.0 * kernel).cross(parts), 3 * kernel.cross(parts))
    assert pickle.loads(pickle.dumps(kk.Parts(1, "a"))) == kk.Parts(1, "a")
    assert repr(kk.Parts(1, "a")) == "Parts(1, 'a')"
    with pytest.raises(KernelError, match=r"Parts has 2 descriptions .* 3 parts"):
        kernel.cross(kk.Parts(new, new))
    with pytest.raises(ShapeError, match="2 and 1 new items"):
        kernel.cross(kk.Parts(new, np.ones((1, 6)), 2))


def test_identity_takes_what_the_other_part_was_given():
    new = np.ones((2, 2))
    assert_allclose((RBF + kk.identity(6)).cross(new), RBF.cross(new))
    pair = (new @ X.T, [2.0, 2.0])
    assert_allclose((GIVEN + kk.identity(6)).new_diagonal(pair), 3.0)


def test_sizes_and_labels_must_agree():
    with pytest.raises(KernelError, match=r"different numbers of items .* \[6, 5\]"):
        RBF + kk.identity(5)
    one, other = kk.identity(["a", "b"]), kk.identity(["a", "c"])
    assert (one + kk.identity(2)).labels == ("a", "b")
    with pytest.raises(LabelError, match="item 1 is 'b' in one and 'c' in the other"):
        one + other


def test_normalized_refuses_items_without_similarity():
    kernel = kk.linear([[0.0], [1.0], [0.0]])
    with pytest.raises(KernelError, match=r"2 items have no similarity .*items 0, 2"):
        kernel.normalized()
    with pytest.raises(KernelError, match="new items 0"):
        kk.linear([[2.0], [1.0]]).normalized().cross([[0.0]])


def test_explicit_factors_stay_explicit():
    factor = (4.0 * LINEAR).factor()
    assert factor.pivots is None
    assert_allclose(factor.phi, 2 * X)
    with pytest.raises(KernelError, match="no explicit factor"):
        RBF.factor_new(factor, X)
    with pytest.raises(KernelError, match="1 items but the kernel 6"):
        RBF.factor_new(kk.identity(1).factor(), X)


def test_bad_positions():
    with pytest.raises(IndexRangeError, match="a mask is turned into positions"):
        RBF.block(np.ones(6, dtype=bool))
    with pytest.raises(IndexRangeError, match=r"a mask must have shape \(6,\)"):
        RBF[np.ones(5, dtype=bool), :]
    with pytest.raises(IndexRangeError, match="rows has -1 at place 1"):
        RBF.block([0, -1])


def test_bad_limits_of_a_factor():
    for kernel in (RBF, LINEAR, kk.identity(6)):
        with pytest.raises(ParameterError, match="rtol must be at least 0 and below 1, got 5"):
            kernel.factor(rtol=5)
        with pytest.raises(ParameterError, match="max_rank must be a positive integer"):
            kernel.factor(max_rank=0)


def test_what_does_not_fit_is_refused_before_work():
    with pytest.raises(MemoryLimitError, match="smaller blocks, or for a low-rank factor"):
        kk.rbf(np.zeros(3_000_000), 1.0).to_array()
    with pytest.raises(MemoryLimitError, match="row_kernel as a dense matrix needs"):
        kk.as_kernel(sparse.eye_array(3_000_000))


def test_nothing_heavy_at_import():
    heavy = ("sklearn", "pandas", "networkx", "polars", "pyarrow", "matplotlib")
    code = f"import sys, kronfill.kernels; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

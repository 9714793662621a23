"""Given kernels, identity, and what may stand for a kernel."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from numpy.testing import assert_array_equal
from scipy import sparse

from kronfill import kernels as kk
from kronfill.errors import (
    FeatureError,
    KernelError,
    LabelError,
    NonFiniteError,
    NotPSDError,
    NotSymmetricError,
    ShapeError,
)

K = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 1.0]])
NAMES = ["a", "b", "c"]


@pytest.mark.parametrize("given", [K, K.tolist(), sparse.csr_array(K), np.asfortranarray(K)])
def test_matrices_of_all_kinds(given):
    kernel = kk.as_kernel(given)
    assert_array_equal(kernel.to_array(), K)
    assert kernel.labels is None
    assert kk.as_kernel(kernel) is kernel


def test_keeps_a_copy():
    matrix = K.copy()
    kernel = kk.precomputed(matrix)
    matrix[0, 0] = -5
    assert kernel[0, 0] == 2.0
    with pytest.raises(ValueError, match="read-only"):
        kernel.to_array()[0, 0] = 1.0


def test_frame_keeps_labels_and_is_reordered():
    frame = pd.DataFrame(K, index=NAMES, columns=NAMES)[["c", "a", "b"]]
    kernel = kk.precomputed(frame)
    assert kernel.labels == ("a", "b", "c")
    assert_array_equal(kernel.to_array(), K)
    assert kk.precomputed(K, labels=NAMES).labels == ("a", "b", "c")


def test_bad_frames():
    with pytest.raises(LabelError, match=r"'[az]' is only in one"):
        kk.precomputed(pd.DataFrame(K, index=NAMES, columns=["z", "b", "c"]))
    with pytest.raises(LabelError, match="label 'a' twice"):
        kk.precomputed(pd.DataFrame(K, index=["a", "a", "c"], columns=NAMES))
    with pytest.raises(LabelError, match=r"frame.to_numpy\(\)"):
        kk.precomputed(pl.DataFrame(K, schema=NAMES))
    with pytest.raises(FeatureError, match="numbers only"):
        kk.precomputed(pd.DataFrame([["x"]]))


BAD = {
    "shape": (np.ones((2, 3)), ShapeError, "col_kernel must be a square matrix"),
    "wide": (
        sparse.csr_array((2, 10**12)),
        ShapeError,
        r"square matrix, got shape \(2, 1000000000",
    ),
    "vector": ([1.0, 2.0], ShapeError, "col_kernel must be a square matrix"),
    "words": ([["a"]], ShapeError, "matrix of numbers"),
    "complex": (np.array([[1j]]), ShapeError, "not complex128"),
    "nan": ([[np.nan]], NonFiniteError, "col_kernel has nan at row 0, column 0"),
    "asymmetric": ([[1, 0.5], [0, 1]], NotSymmetricError, "col_kernel is not symmetric"),
    "indefinite": ([[1, 2], [2, 1]], NotPSDError, "col_kernel .* smallest eigenvalue is -1 "),
    "text": ("rbf", KernelError, "col_kernel must be a kernel .* got str"),
    "number": (3, KernelError, "got int"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_a_kernel(name):
    obj, error, text = BAD[name]
    with pytest.raises(error, match=text):
        kk.as_kernel(obj, "col_kernel")


def test_new_items_of_a_given_kernel():
    kernel = kk.precomputed(K)
    cross = [[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]
    assert_array_equal(kernel.cross(cross, [2]), [[3.0], [1.0]])
    assert_array_equal(kernel.cross(sparse.csr_array(cross)), cross)
    assert_array_equal(kernel.cross((cross, [5.0, 6.0])), cross)
    assert_array_equal(kernel.new_diagonal((cross, [5.0, 6.0])), [5.0, 6.0])
    with pytest.raises(KernelError, match=r"the pair \(similarities, diagonal\)"):
        kernel.new_diagonal(cross)
    with pytest.raises(ShapeError, match=r"shape \(k, 3\); got shape \(1, 2\)"):
        kernel.cross([[1.0, 2.0]])
    with pytest.raises(NonFiniteError, match=r"finite, got nan at \(0, 1\)"):
        kernel.cross([[1.0, np.nan, 0.0]])
    with pytest.raises(ShapeError, match="2 numbers that are not negative"):
        kernel.new_diagonal((cross, [1.0]))
    with pytest.raises(KernelError, match="must be numbers, got list"):
        kernel.cross([["a", "b", "c"]])


def test_identity():
    kernel = kk.identity(3)
    assert_array_equal(kernel.block([0, 2], [2, 0]), [[0, 1], [1, 0]])
    for two in (2, ["x", "y"], np.ones((2, 3)), sparse.eye_array(2), (np.ones((2, 3)), [1, 1])):
        assert_array_equal(kernel.cross(two), np.zeros((2, 3)))
        assert_array_equal(kernel.new_diagonal(two), np.ones(2))
    assert kk.identity(pd.Index(NAMES)).labels == ("a", "b", "c")
    assert_array_equal(kernel.factor().pivots, [0, 1, 2])
    with pytest.raises(KernelError, match="number of items or something with a length"):
        kernel.cross(None)


@pytest.mark.parametrize("n", [0, "abc", 2.5, []])
def test_bad_identity(n):
    with pytest.raises(KernelError, match=r"number of items or a sequence|at least one item"):
        kk.identity(n)


def test_bad_labels():
    with pytest.raises(LabelError, match="'a' appears twice"):
        kk.identity(["a", "a"])
    with pytest.raises(LabelError, match="2 labels for 3 items"):
        kk.precomputed(K, labels=["a", "b"])
    for missing in ([None, "b", "c"], np.ma.array([1, 2, 3], mask=[0, 0, 1]), [0.0, 1.0, np.nan]):
        with pytest.raises(LabelError, match=r"label of item \d is missing"):
            kk.identity(missing)
        with pytest.raises(LabelError, match=r"label of item \d is missing"):
            kk.precomputed(K, labels=missing)


@pytest.mark.parametrize("make", [kk.rbf, kk.linear, kk.precomputed, kk.diffusion, kk.nearest_psd])
def test_coordinates_of_xarray_are_not_dropped(make):
    K = xr.DataArray(np.eye(3), dims=("item", "other"))
    bare = make(K)
    named = K.assign_coords(item=NAMES)
    with pytest.raises(LabelError, match=r"coordinates 'item'.*to_pandas\(\).*to_numpy\(\)"):
        make(named)
    assert_array_equal(np.asarray(make(named.to_numpy())), np.asarray(bare))

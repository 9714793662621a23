"""Feature tables and the kernels built from them."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.metrics.pairwise import polynomial_kernel

from kronfill import kernels as kk
from kronfill.core.psd import check_symmetric_psd
from kronfill.errors import (
    DataError,
    FeatureError,
    KronfillWarning,
    NonFiniteError,
    ParameterError,
    ShapeError,
)
from kronfill.kernels import FeatureTable

X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.random.default_rng(1).normal(size=(5, 3))
COUNTS = np.random.default_rng(2).poisson(1.0, size=(15, 8)).astype(float)


# The formulas, against scikit-learn or written out.


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_is_that_of_scikit_learn(nu):
    kernel = kk.matern(X, length_scale=0.8, nu=nu)
    assert_allclose(kernel.cross(Y), Matern(0.8, nu=nu)(Y, X), rtol=1e-12)


@pytest.mark.parametrize("scale", [0.8, [0.5, 1.0, 2.0]])
def test_rbf_is_that_of_scikit_learn(scale):
    assert_allclose(kk.rbf(X, scale).cross(Y), RBF(scale)(Y, X), rtol=1e-11)


def test_linear_and_polynomial():
    assert_allclose(kk.linear(X).cross(Y), Y @ X.T)
    kernel = kk.polynomial(X)
    assert kernel.gamma == pytest.approx(1 / 3)
    assert_allclose(kernel.cross(Y), polynomial_kernel(Y, X))


def test_periodic_formula():
    period, scale = np.array([1.0, 2.0, 0.7]), np.array([1.0, 0.5, 3.0])
    gap = Y[:, None] - X[None]
    expected = np.exp(-2 * np.sum((np.sin(np.pi * gap / period) / scale) ** 2, axis=2))
    kernel = kk.periodic(X, period, scale)
    assert_allclose(kernel.cross(Y), expected, rtol=1e-10)
    assert_allclose(kernel.cross(Y + 4 * period), kernel.cross(Y), rtol=1e-10)


def test_tanimoto_formula():
    low = np.minimum(COUNTS[:, None], COUNTS[None]).sum(2)
    high = np.maximum(COUNTS[:, None], COUNTS[None]).sum(2)
    assert_allclose(kk.tanimoto(COUNTS).to_array(), low / high)
    bits = COUNTS > 0
    jaccard = (bits[:, None] & bits[None]).sum(2) / (bits[:, None] | bits[None]).sum(2)
    assert_allclose(kk.tanimoto(bits).to_array(), jaccard)


def test_tanimoto_of_bits_with_counts():
    bits = (COUNTS > 0).astype(float)
    both = kk.tanimoto(np.vstack([bits, COUNTS])).to_array()
    assert_allclose(kk.tanimoto(bits).cross(COUNTS), both[15:, :15])


@pytest.mark.parametrize("build", [kk.rbf, kk.matern, kk.linear, kk.polynomial, kk.tanimoto])
def test_sparse_is_dense(build):
    dense, thin = build(COUNTS), build(sparse.coo_array(COUNTS))
    assert_allclose(thin.to_array(), dense.to_array(), atol=1e-7 if build is kk.matern else 1e-12)
    assert_allclose(thin.cross(COUNTS[:3]), dense.cross(sparse.csr_matrix(COUNTS[:3])), atol=1e-7)


def test_far_from_the_origin_nothing_is_lost():
    assert_allclose(kk.rbf(X + 1e6, 1.0).to_array(), kk.rbf(X, 1.0).to_array(), atol=1e-8)


@settings(max_examples=40, deadline=None)
@given(
    hnp.arrays(
        float,
        st.tuples(st.integers(1, 8), st.integers(1, 3)),
        elements=st.floats(-50, 50, allow_subnormal=False),
    )
)
def test_always_psd(x):
    for kernel in (
        kk.rbf(x),
        kk.matern(x),
        kk.periodic(x, 7.0),
        kk.polynomial(x, degree=2),
        kk.tanimoto(np.abs(x)),
    ):
        K = check_symmetric_psd(kernel.to_array())
        factor = kernel.factor()
        assert_allclose(factor.phi @ factor.phi.T, K, atol=1e-12 * max(np.trace(K), 1e-300))


# The length scale.


def test_median_heuristic():
    from scipy.spatial.distance import pdist

    assert kk.rbf(X).length_scale == pytest.approx(np.median(pdist(X)))
    many = np.random.default_rng(3).normal(size=(3000, 2))
    assert kk.rbf(many).length_scale == kk.rbf(many).length_scale
    assert kk.rbf(many).length_scale == pytest.approx(np.median(pdist(many)), rel=0.05)


@pytest.mark.parametrize("x", [[[2.0, 1.0]], np.ones((6, 2)), sparse.csr_array(np.ones((6, 2)))])
def test_median_of_items_that_coincide(x):
    assert kk.rbf(x).length_scale == 1.0


def test_median_ignores_copies():
    x = np.repeat([[0.0], [3.0]], 10, axis=0)
    assert kk.rbf(x).length_scale == 3.0


# Data frames.


def test_frame_encoding(frame):
    table = FeatureTable.from_data(frame)
    assert table.labels == tuple(frame.index)
    # 3 standardised columns (2 numbers, 1 date), 1 flag, 3 towns, 2 kinds
    assert table.values.shape == (30, 9)
    assert_allclose(table.values[:, :3].mean(axis=0), 0, atol=1e-12)
    assert_allclose(table.values[:, :3].std(axis=0), 1)
    assert_array_equal(table.values[:, 3], frame["open"])
    assert_array_equal(table.values[:, 4:].sum(axis=1), 2)
    assert "n=30" in repr(table)


def test_unseen_category_shares_nothing(frame):
    new = frame.iloc[:2].copy()
    new["town"] = ["Paris", new["town"].iloc[1]]
    encoded = FeatureTable.from_data(frame).encode(new)
    assert_array_equal(encoded[0, 4:7], 0)
    assert encoded[1, 4:7].sum() == 1


def test_frame_columns_are_matched_by_name(frame):
    kernel = kk.rbf(frame)
    shuffled = frame[list(frame.columns[::-1])].assign(extra=1.0)
    assert_allclose(kernel.cross(shuffled), kernel.to_array(), atol=1e-12)
    assert kernel.cross(frame.iloc[:0]).shape == (0, 30)


def test_number_column_names():
    frame = pd.DataFrame({1: [1.0, 2.0, 4.0], 0: ["a", "b", "a"], "z": [True, False, True]})
    kernel = kk.linear(frame)
    assert_allclose(kernel.cross(frame), kernel.to_array())
    assert kernel.labels is None  # the default index is no labels


def test_polars_is_pandas(frame):
    plain = frame.reset_index(drop=True)
    plain["kind"] = plain["kind"].astype(str)
    table = pl.DataFrame({name: plain[name].tolist() for name in plain})
    table = table.with_columns(pl.col("since").cast(pl.Date), pl.col("town").cast(pl.Categorical))
    kernel = kk.rbf(table)
    assert_allclose(kernel.to_array(), kk.rbf(plain).to_array(), atol=1e-12)
    assert_allclose(kernel.cross(table[:3]), kernel.to_array()[:3], atol=1e-12)


def test_python_objects_in_polars_are_refused():
    table = pl.DataFrame({"a": [0.0, 1.0], "b": pl.Series([object()] * 2, dtype=pl.Object)})
    with pytest.raises(DataError, match="Column 'b' holds Python objects"):
        kk.rbf(table)


def test_objects_are_looked_into():
    frame = pd.DataFrame(
        {
            "day": [datetime.date(2020, 1, 1), datetime.date(2020, 1, 3)],
            "stamp": pd.to_datetime(["2020-01-01T12:00+02:00", "2020-01-02T12:00+02:00"]),
            "span": pd.to_timedelta([1, 2], unit="D"),
            "flag": np.array([True, False], dtype=object),
            "nullable": pd.array([1, 3], dtype="Int64"),
        }
    )
    table = FeatureTable.from_data(frame, scale=False)
    start = (pd.Timestamp("2020-01-01") - pd.Timestamp(0)).days
    expected = [[1, 1, start, start + 10 / 24, 1], [2, 3, start + 2, start + 1 + 10 / 24, 0]]
    assert_allclose(table.values, expected)


def test_wide_categories_stay_sparse():
    frame = pd.DataFrame({"id": [f"k{i}" for i in range(400)] * 2, "x": np.arange(800.0)})
    table = FeatureTable.from_data(frame)
    assert sparse.issparse(table.values)
    assert table.nbytes < 400 * 800
    kernel = kk.linear(frame)
    assert_allclose(kernel.cross(frame.iloc[:3]), kernel.to_array()[:3], atol=1e-12)
    assert kernel.cross(frame.iloc[:0]).shape == (0, 800)


def test_names_as_categories_are_warned_of():
    frame = pd.DataFrame(
        {"opened": [f"2020-01-{i:02}" for i in range(1, 31)], "x": np.arange(30.0)}
    )
    with pytest.warns(KronfillWarning, match="'opened' has 30 different texts.*to_datetime"):
        FeatureTable.from_data(frame)


def test_tanimoto_and_periodic_take_numbers_as_they_are():
    frame = pd.DataFrame({"a": [1, 2, 0], "b": [True, False, True]})
    assert_allclose(kk.tanimoto(frame).to_array(), kk.tanimoto(frame.to_numpy(float)).to_array())
    hours = pd.DataFrame({"h": [0.0, 24.0, 12.0]})
    assert kk.periodic(hours, 24.0)[0, 1] == pytest.approx(1.0)


def test_arrays_are_copied():
    x = X.copy()
    kernel = kk.linear(x)
    before = kernel.to_array().copy()
    x[:] = 0
    assert_array_equal(kernel.to_array(), before)
    assert x.flags.writeable


# What is refused, and what the error says.

BAD_FRAMES = {
    "missing": ({"a": [1.0, np.nan]}, FeatureError, "Column 'a' has 1 missing value, at 1;"),
    "none": ({"a": ["x", None]}, FeatureError, "fill what is missing"),
    "infinite": ({"a": [1.0, np.inf]}, NonFiniteError, "Column 'a' is infinite at item 1"),
    "mixed": ({"a": ["x", 3]}, FeatureError, "Column 'a' holds mixed-integer values"),
    "empty": ({}, FeatureError, "at least one item and one column"),
}


@pytest.mark.parametrize("name", BAD_FRAMES)
def test_bad_frames(name):
    columns, error, text = BAD_FRAMES[name]
    with pytest.raises(error, match=text):
        kk.rbf(pd.DataFrame(columns))


BAD_ARRAYS = {
    "nan": ([[1.0], [np.nan]], FeatureError, r"Feature 0 is missing \(NaN\) at item 1"),
    "inf": ([[1.0, np.inf]], NonFiniteError, "Feature 1 is inf at item 0"),
    "sparse": (sparse.csr_array([[0, 1.0], [0, np.nan]]), FeatureError, "Feature 1 .* at item 1"),
    "words": ([["a"], ["b"]], FeatureError, "must be numbers"),
    "complex": (np.array([[1j]]), FeatureError, "real numbers are needed, not complex128"),
    "dates": (np.array(["2020-01-01"], dtype="M8[D]"), FeatureError, "in a data frame"),
    "cube": (np.zeros((2, 2, 2)), ShapeError, "two-dimensional"),
    "empty": (np.zeros((0, 2)), FeatureError, "at least one item"),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_bad_arrays(name):
    x, error, text = BAD_ARRAYS[name]
    with pytest.raises(error, match=text):
        kk.linear(x)


def test_bad_new_items(frame):
    kernel, by_name = kk.rbf(X), kk.rbf(frame)
    with pytest.raises(FeatureError, match="have 2 features, but the known ones 3"):
        kernel.cross(Y[:, :2])
    with pytest.raises(ShapeError, match=r"np.reshape\(x, \(1, -1\)\)"):
        kernel.cross([1.0, 2.0, 3.0])
    with pytest.raises(FeatureError, match="built from an array"):
        kernel.cross(frame)
    with pytest.raises(FeatureError, match=r"lack the columns \['town'\]"):
        by_name.cross(frame.drop(columns="town"))
    with pytest.raises(FeatureError, match="with the columns 'size', 'rooms'"):
        by_name.cross(Y)
    with pytest.raises(FeatureError, match="'town' of the new items is of kind 'number'"):
        by_name.cross(frame.assign(town=1.0))
    twice = frame.rename(columns={"rooms": "size"})
    with pytest.raises(FeatureError, match="more than one column called 'size'"):
        kk.rbf(twice)


BAD_PARAMETERS = {
    "word": (lambda: kk.rbf(X, "mean"), "'median' or positive"),
    "zero": (lambda: kk.rbf(X, 0.0), "positive number or 3 of them"),
    "count": (lambda: kk.rbf(X, [1.0, 2.0]), r"of shape \(2,\)"),
    "none": (lambda: kk.matern(X, None), "positive number"),
    "nu": (lambda: kk.matern(X, nu=1.0), "0.5, 1.5 or 2.5"),
    "period": (lambda: kk.periodic(X, -1.0), "period must be a positive"),
    "degree": (lambda: kk.polynomial(X, degree=0), "degree must be a positive integer"),
    "gamma": (
        lambda: kk.polynomial(X, gamma=-1.0),
        "gamma must be a finite number above 0, got -1.0",
    ),
    "text": (lambda: kk.polynomial(X, degree="a"), "positive integer, got 'a'"),
    "coef0": (lambda: kk.polynomial(X, coef0=-1.0), "coef0 must be a finite number at least 0"),
}


@pytest.mark.parametrize("name", BAD_PARAMETERS)
def test_bad_parameters(name):
    build, text = BAD_PARAMETERS[name]
    with pytest.raises(ParameterError, match=text):
        build()


def test_unsuitable_features(frame):
    with pytest.raises(FeatureError, match="counts and 0/1 features, got -1"):
        kk.tanimoto([[1.0, -1.0]])
    with pytest.raises(FeatureError, match="Column 'since' is of kind 'date'"):
        kk.tanimoto(frame[["size", "since"]])
    with pytest.raises(FeatureError, match="Column 'town' is of kind 'category'"):
        kk.periodic(frame, 1.0)
    with pytest.raises(FeatureError, match="dense features"):
        kk.periodic(sparse.eye_array(3), 1.0)

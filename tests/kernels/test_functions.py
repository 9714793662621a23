"""Kernels of a user's own function: as good as the kernel that it computes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

import kronfill as kf
from kronfill.errors import (
    KernelError,
    LabelError,
    NonFiniteError,
    NotPSDError,
    NotSymmetricError,
    ParameterError,
    ShapeError,
)

RNG = np.random.default_rng(0)
POINTS, NEW = RNG.normal(size=(40, 3)), RNG.normal(size=(4, 3))
WORDS = ["kernel", "colonel", "matrix", "metric", "factor"]


def gauss(a, b):
    return math.exp(-0.5 * np.sum((a - b) ** 2) / 1.5**2)


def gausses(A, B):
    return rbf_kernel(A, B, gamma=0.5 / 1.5**2)


def shared(a, b):
    return len(set(a) & set(b))


def counted(function):
    calls = []

    def counting(a, b):
        calls.append((a, b))
        return function(a, b)

    return counting, calls


@pytest.mark.parametrize(("function", "vectorized"), [(gauss, False), (gausses, True)])
def test_it_is_the_kernel_that_the_function_computes(function, vectorized):
    own = kf.kernels.from_function(function, POINTS, vectorized=vectorized)
    rbf = kf.kernels.rbf(POINTS, 1.5)
    assert_allclose(own.to_array(), rbf.to_array(), atol=1e-14)
    assert_allclose(own.cross(NEW, [3, 1]), rbf.cross(NEW, [3, 1]), atol=1e-14)
    assert_allclose(own.new_diagonal(NEW), np.ones(4))
    cols, X = kf.kernels.identity(6), np.argwhere(RNG.random((40, 6)) < 0.6)
    y = POINTS[X[:, 0], 0] + X[:, 1]
    ours, theirs = (kf.KKMCEX(k, cols, mu=0.1).fit(X, y) for k in (own, rbf))
    assert_allclose(ours.predict_matrix(), theirs.predict_matrix(), atol=1e-9)
    assert_allclose(ours.extrapolate(rows=NEW), theirs.extrapolate(rows=NEW), atol=1e-9)
    assert_allclose(ours.extrapolate_std(rows=NEW), theirs.extrapolate_std(rows=NEW), atol=1e-6)


@pytest.mark.parametrize(("function", "vectorized"), [(gauss, False), (gausses, True)])
def test_many_items_are_factored_without_all_pairs(function, vectorized, monkeypatch):
    monkeypatch.setattr("kronfill.kernels.functions._FEW", 10)
    monkeypatch.setattr("kronfill.kernels.functions._MANY", 10)
    line = np.linspace(0.0, 1.0, 500)[:, None]
    function, calls = counted(function)
    kernel = kf.kernels.from_function(function, line, vectorized=vectorized)
    assert sum(np.size(a) * np.size(b) for a, b in calls) == 100
    calls.clear()
    factor = kernel.factor(1e-10)
    assert factor.rank < 12
    pairs = sum(np.size(a) * np.size(b) for a, b in calls)
    assert pairs < 500 * 500 / 2
    assert_allclose(factor.phi @ factor.phi.T, kf.kernels.rbf(line, 1.5).to_array(), atol=1e-7)
    assert_allclose(kernel.diagonal([3, 499]), 1.0)
    assert kernel.nbytes == line.nbytes
    assert_allclose(kernel.take([5, 2]).block(), kernel.block([5, 2], [5, 2]))


def test_few_items_are_evaluated_once():
    function, calls = counted(shared)
    kernel = kf.kernels.from_function(function, WORDS)
    assert len(calls) == 25
    assert_array_equal(kernel.to_array(), [[shared(a, b) for b in WORDS] for a in WORDS])
    kernel.diagonal()
    kernel.factor()
    kernel.take([2, 1]).to_array()
    assert len(calls) == 25


def test_items_of_any_kind():
    words = kf.kernels.from_function(shared, WORDS)
    assert_array_equal(words.cross(["lemon"]), [[shared("lemon", word) for word in WORDS]])
    series = kf.kernels.from_function(shared, pd.Series(WORDS, index=list("abcde")))
    assert series.labels == tuple("abcde")
    assert_array_equal(series.cross(pd.Series(["lemon"])), words.cross(["lemon"]))
    frame = pd.DataFrame({"x": [1.0, 2.0], "town": ["Oslo", "Rome"]}, index=["a", "b"])
    towns = kf.kernels.from_function(lambda a, b: a.x * b.x * (a.town == b.town), frame)
    assert towns.labels == ("a", "b")
    assert_array_equal(towns.to_array(), [[1.0, 0.0], [0.0, 4.0]])
    new = pd.DataFrame({"town": ["Rome"], "more": [0], "x": [3.0]})
    assert_array_equal(towns.cross(new), [[0.0, 6.0]])
    numbers = kf.kernels.from_function(min, np.array([1, 2, 3]))
    assert_array_equal(numbers.cross([2, 5]), [[1, 2, 2], [1, 2, 3]])
    rows = kf.kernels.from_function(lambda a, b: (a @ b.T).sum(), sparse.csr_array(POINTS))
    assert_allclose(rows.cross(NEW), NEW @ POINTS.T)


def test_a_copy_of_the_items_is_kept():
    items = POINTS.copy()
    kernel = kf.kernels.from_function(gauss, items, labels=range(40))
    before = kernel.cross(NEW)
    items[:] = 0.0
    assert_array_equal(kernel.cross(NEW), before)
    assert kernel.labels == tuple(range(40))


def test_algebra():
    words = kf.kernels.from_function(shared, WORDS)
    both = 0.5 * words + kf.kernels.identity(5)
    assert repr(both) == "0.5 * FunctionKernel(n=5, function='shared') + Identity(n=5)"
    assert_allclose(words.normalized().diagonal(), 1.0)


def test_a_completed_table_takes_new_items():
    table = pd.DataFrame(RNG.normal(size=(5, 4)), index=WORDS)
    table.iloc[2, 1] = np.nan
    words = kf.kernels.from_function(shared, WORDS, labels=WORDS)
    done = kf.complete(table, method="kkmcex", rows=words, mu=1.0)
    assert done.extrapolate(rows=["lemon", "tricks"]).shape == (2, 4)


@pytest.mark.parametrize(
    ("error", "match", "function", "items", "options"),
    [
        (ParameterError, "something to call", 3.0, WORDS, {}),
        (ParameterError, "True or False", shared, WORDS, {"vectorized": "yes"}),
        (KernelError, "items is empty", shared, [], {}),
        (KernelError, "list of one", shared, "kernel", {}),
        (KernelError, "got set", shared, {"kernel"}, {}),
        (LabelError, "Got 2 labels for 5 items", shared, WORDS, {"labels": ["a", "b"]}),
        (NotPSDError, "The kernel of <lambda> is not", lambda a, b: -1.0, WORDS, {}),
        (NotSymmetricError, "is not symmetric", lambda a, b: len(a), WORDS, {}),
        (NonFiniteError, "must be finite, got nan", lambda a, b: np.nan, WORDS, {}),
        (KernelError, "must be numbers, got list", lambda a, b: "x", WORDS, {}),
        (ShapeError, "must return one number", lambda a, b: [1.0, 2.0], WORDS, {}),
        (ShapeError, r"shape \(5, 5\) for 5 and 5 items", lambda a, b: 1.0, WORDS,
         {"vectorized": True}),
        (NonFiniteError, "items must be finite", gauss, np.array([[np.nan]]), {}),
        (ShapeError, "single value", gauss, np.array(3.0), {}),
    ],
)  # fmt: skip
def test_what_is_no_kernel_is_refused(error, match, function, items, options):
    with pytest.raises(error, match=match):
        kf.kernels.from_function(function, items, **options)


def test_many_items_are_checked_by_some():
    distance = lambda a, b: abs(a - b)  # noqa: E731
    with pytest.raises(NotPSDError, match="200 of its 250 items"):
        kf.kernels.from_function(distance, np.arange(250.0))


@pytest.mark.parametrize(
    ("items", "new", "match"),
    [
        (POINTS, NEW[:, :2], r"shape \(k, 3\); got shape \(4, 2\)"),
        (np.arange(3.0), NEW, r"shape \(k,\); got shape"),
        (sparse.csr_array(POINTS), NEW[:, :2], r"shape \(k, 3\)"),
        (pd.DataFrame({"x": [1.0]}), pd.DataFrame({"y": [1.0]}), "columns of the known ones, 'x'"),
        (pd.DataFrame({"x": [1.0]}), [[1.0]], "columns of the known ones, 'x'"),
        (WORDS, "kernel", "list of one"),
        (WORDS, pd.DataFrame({"y": [1.0]}), "got DataFrame"),
    ],
)
def test_new_items_must_have_the_form_of_the_known_ones(items, new, match):
    kernel = kf.kernels.from_function(lambda a, b: 1.0, items)
    with pytest.raises((KernelError, ShapeError), match=match):
        kernel.cross(new)

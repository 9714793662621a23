"""Observations: what goes in comes out, in every form, and nobody can change it."""

from __future__ import annotations

import copy
import pickle

import hypothesis.strategies as st
import joblib
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from sklearn.base import clone

from kronfill.data import Observations
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    EmptyDataError,
    IndexRangeError,
    LabelError,
    NonFiniteError,
    ShapeError,
)

law = settings(max_examples=60, deadline=None)
finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@st.composite
def observations(draw: st.DrawFn) -> Observations:
    """Any observations of a small matrix, 1 x L and N x 1 included, in any order."""
    n_rows, n_cols = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    codes = draw(
        st.lists(st.integers(0, n_rows * n_cols - 1), min_size=1, max_size=25, unique=True)
    )
    m = len(codes)
    values = draw(st.lists(finite, min_size=m, max_size=m))
    weights = draw(st.none() | st.lists(st.floats(0.5, 9.0), min_size=m, max_size=m))
    named = draw(st.booleans())
    return Observations(
        [k // n_cols for k in codes],
        [k % n_cols for k in codes],
        values,
        (n_rows, n_cols),
        weights=weights,
        row_labels=[f"r{k}" for k in range(n_rows)] if named else None,
        col_labels=[f"c{k}" for k in range(n_cols)] if named else None,
    )


def unweighted_row_major(obs: Observations) -> Observations:
    order = np.lexsort((obs.cols, obs.rows))
    return Observations(obs.rows[order], obs.cols[order], obs.values[order], obs.shape)


MATRIX_FORMS = {
    "dense": lambda obs: obs.to_dense(),
    "fortran": lambda obs: np.asfortranarray(obs.to_dense()),
    "lists": lambda obs: obs.to_dense().tolist(),
    "objects": lambda obs: np.where(np.isnan(obs.to_dense()), None, obs.to_dense()),
    "masked": lambda obs: np.ma.masked_invalid(obs.to_dense()),
    "csr_array": lambda obs: obs.to_sparse(),
    "coo_matrix": lambda obs: scipy.sparse.coo_matrix(obs.to_sparse()),
    "lil_array": lambda obs: obs.to_sparse().tolil(),
}


@law
@given(observations(), st.sampled_from(sorted(MATRIX_FORMS)))
def test_every_matrix_form_gives_the_entries_back(obs, form):
    back = Observations.from_matrix(MATRIX_FORMS[form](obs))
    assert unweighted_row_major(back) == unweighted_row_major(obs)


@law
@given(observations())
def test_counts_describe_the_dense_matrix(obs):
    seen = ~np.isnan(obs.to_dense())
    assert obs.m == len(obs) == seen.sum()
    assert np.array_equal(obs.row_counts, seen.sum(axis=1))
    assert np.array_equal(obs.col_counts, seen.sum(axis=0))
    assert np.array_equal(obs.cold_rows, np.flatnonzero(~seen.any(axis=1)))
    assert np.array_equal(obs.cold_cols, np.flatnonzero(~seen.any(axis=0)))
    assert obs.density == seen.mean()
    assert obs.is_complete == seen.all()
    assert np.array_equal(obs.X, np.column_stack((obs.rows, obs.cols)))


@law
@given(observations())
def test_copies_are_equal_and_as_immutable(obs):
    again = pickle.loads(pickle.dumps(obs))
    assert again == obs
    assert again is not obs
    for twin in (copy.copy(obs), copy.deepcopy(obs), clone(obs, safe=False)):
        assert twin is obs
    for held in (obs, again):
        for array in (held.rows, held.cols, held.values, held.row_counts, held.weights):
            assert array is None or not array.flags.writeable
        with pytest.raises(AttributeError, match="immutable"):
            held.values = np.zeros(3)
        with pytest.raises(AttributeError, match="immutable"):
            del held._entries


@law
@given(observations(), st.randoms(use_true_random=False))
def test_take_of_a_permutation_is_undone_by_its_inverse(obs, random):
    order = list(range(obs.m))
    random.shuffle(order)
    assert obs.take(order).take(np.argsort(order)) == obs
    mask = np.zeros(obs.m, dtype=bool)
    mask[order[0]] = True
    one = obs.take(mask)
    assert one.m == 1
    assert one.values[0] == obs.values[order[0]]
    assert one == obs.take(slice(order[0], order[0] + 1))
    assert (one.shape, one.row_labels) == (obs.shape, obs.row_labels)


def test_dtypes_do_not_depend_on_the_input():
    for index in (np.int8, np.uint64, np.float32, np.intp):
        for number in (bool, np.int16, np.float32, object):
            obs = Observations(np.array([1, 0], index), [0, 0], np.array([1, 0], number), (2, 1))
            assert obs.rows.dtype == np.intp
            assert obs.values.dtype == np.float64
            assert obs.values.tolist() == [1.0, 0.0]


def test_later_writes_by_the_caller_change_nothing():
    base = np.arange(4.0)
    view = base[:2]
    view.flags.writeable = False
    obs = Observations([0, 1], [0, 0], view, (2, 1))
    base[:] = 7
    assert obs.values.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("source", ["owner", "bytes", "memmap"])
def test_read_only_arrays_are_shared(source, tmp_path):
    values = np.arange(2.0)
    if source == "owner":
        values.flags.writeable = False
    elif source == "bytes":
        values = np.frombuffer(values.tobytes())
    else:
        np.save(tmp_path / "values.npy", values)
        values = np.load(tmp_path / "values.npy", mmap_mode="r")
    assert np.shares_memory(Observations([0, 1], [0, 0], values, (2, 1)).values, values)


def test_indices_are_never_shared(tmp_path):
    """A file that is mapped read-only can still change, and compiled code trusts an index."""
    np.save(tmp_path / "rows.npy", np.arange(4))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    cols = np.zeros(4, dtype=np.intp)
    cols.flags.writeable = False
    obs = Observations(rows, cols, np.arange(4.0), (4, 1))
    np.load(tmp_path / "rows.npy", mmap_mode="r+")[:] = 2**40
    cols.flags.writeable = True
    cols[:] = -7
    assert rows[0] == 2**40
    assert obs.X.tolist() == [[0, 0], [1, 0], [2, 0], [3, 0]]


def test_indices_are_not_shared_with_a_pickle_that_is_mapped(tmp_path):
    rows = np.arange(3000)
    joblib.dump(Observations(rows, 0 * rows, 1.0 * rows, (3000, 1)), tmp_path / "obs.joblib")
    back = joblib.load(tmp_path / "obs.joblib", mmap_mode="r")
    assert back.rows.base is None
    assert back.cols.base is None
    assert not back.rows.flags.writeable


@pytest.mark.parametrize("value", [2**32, 2**32 + 1, -(2**32), 2**63, 2.0**33, np.inf])
def test_no_index_wraps_around_when_it_is_made_smaller(value, monkeypatch):
    monkeypatch.setattr("kronfill.data.arrays._MANY", 1)
    assert Observations([1, 0], [0, 0], [1.0, 2.0], (2, 1)).rows.dtype == np.int32
    with pytest.raises(IndexRangeError, match="at position 1"):
        Observations(np.array([0, value]), [0, 0], [1.0, 2.0], (2, 1))


def test_with_values_and_fill():
    obs = Observations([1, 0], [0, 1], [3.0, 4.0], (2, 2), weights=[1, 2])
    new = obs.with_values([5, 6])
    assert new.to_dense(fill=-1.0).tolist() == [[-1, 6], [5, -1]]
    assert np.array_equal(new.weights, obs.weights)
    assert new != obs
    assert obs != "something else"
    with pytest.raises(ShapeError, match="values has 1"):
        obs.with_values([1.0])
    with pytest.raises(NonFiniteError, match="nan at position 1"):
        obs.with_values([1.0, np.nan])


def test_labels_lead_to_indices():
    obs = Observations([0], [1], [2.0], (1, 2), row_labels=["a"], col_labels=["x", "y"])
    assert obs.row_index(["a", "a"]).tolist() == [0, 0]
    assert obs.col_index(["y"]).tolist() == [1]
    with pytest.raises(LabelError, match=r"Unknown column label 'z'"):
        obs.col_index(["z"])
    with pytest.raises(LabelError, match="The rows have no labels"):
        Observations([0], [0], [1.0], (1, 1)).row_index(["a"])


def test_repr_is_two_lines():
    obs = Observations([0], [1], [2.0], (1, 2), weights=[1.0], row_labels=["a"])
    assert repr(obs) == (
        "Observations(1 x 2, m=1, density=0.5, values from 2 to 2,\n"
        "             0 cold rows, 1 cold column, row labels, weighted)"
    )


GOOD = {"rows": [0, 1, 1], "cols": [0, 0, 1], "values": [1.0, 2.0, 3.0], "shape": (2, 3)}
BAD = [
    ({"values": [1.0, np.nan, np.inf]}, NonFiniteError, r"1 \(row 1, column 0\), inf"),
    ({"values": np.ma.array([1.0, 2, 3], mask=[0, 1, 0])}, NonFiniteError, "masked at position 1"),
    ({"values": ["a", "b", "c"]}, DataError, "values must be real numbers, got dtype"),
    ({"values": [1.0, 2.0, 3j]}, DataError, "got dtype complex128"),
    ({"values": np.array([1.0, "x", 3], object)}, DataError, "got objects that are not"),
    ({"values": [[1.0], [2.0], [3.0]]}, ShapeError, r"array of shape \(3, 1\)"),
    ({"values": [[1.0], [2.0, 3.0]]}, ShapeError, "nested sequences of different lengths"),
    ({"values": [1.0, 2.0]}, ShapeError, "rows has 3, cols has 3, values has 2"),
    ({"rows": [0, 1, 2]}, IndexRangeError, r"\[0, 1\], counted from 0, got 2 at position 2"),
    ({"cols": [0, -1, 1]}, IndexRangeError, r"cols .* got -1 at position 1; is the shape right"),
    ({"cols": [9, 9, 9]}, IndexRangeError, "position 2; is"),
    ({"rows": [0, 0.5, 1]}, IndexRangeError, "got 0.5 at position 1"),
    ({"rows": [0, np.nan, 1]}, IndexRangeError, "got nan at position 1"),
    ({"rows": [0, np.inf, 1]}, IndexRangeError, "got inf at position 1"),
    ({"rows": ["a", "b", "c"]}, IndexRangeError, "for labels use from_long"),
    ({"rows": [True, False, True]}, IndexRangeError, "got bool"),
    ({"cols": [0, 2, 2]}, DuplicateEntryError, r"\(row 1, column 2\) at positions 1 and 2"),
    ({"rows": [], "cols": [], "values": []}, EmptyDataError, "no observation"),
    ({"shape": (0, 3)}, EmptyDataError, "matrix without entries"),
    ({"shape": (-1, 3)}, ShapeError, r"got \(-1, 3\)"),
    ({"shape": (2.5, 3)}, ShapeError, r"two positive integers .* got \(2.5, 3\)"),
    ({"shape": (2, 3, 4)}, ShapeError, "two positive integers"),
    ({"shape": 6}, ShapeError, "two positive integers"),
    ({"shape": (2**40, 2**40)}, ShapeError, "below 2\\^63"),
    ({"weights": [1, -1, -2]}, DataError, "not be negative, got -1.0 at position 1, -2.0"),
    ({"weights": [1, np.nan, 1]}, NonFiniteError, "weights must be finite, got nan at position 1"),
    ({"weights": [0, 0, 0]}, DataError, "All 3 weights are zero"),
    ({"weights": [1]}, ShapeError, "weights has 1"),
    ({"row_labels": ["a"]}, LabelError, "Got 1 row labels for 2 rows"),
    ({"row_labels": ["a", "a"]}, LabelError, r"'a' \(positions 0 and 1\)"),
    ({"col_labels": ["a", None, "b"]}, LabelError, r"Missing column label at position 1 \(None\)"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "error", "text"), BAD)
def test_bad_input_is_named(change, error, text):
    with pytest.raises(error, match=text):
        Observations(**(GOOD | change))


def test_offenders_are_named_by_label_and_counted():
    labels = {"row_labels": ["ann", "bob"], "col_labels": ["x", "y", "z"]}
    with pytest.raises(NonFiniteError, match=r"\(row 1 'bob', column 0 'x'\)"):
        Observations(**(GOOD | labels | {"values": [1.0, np.nan, 2.0]}))
    with pytest.raises(DuplicateEntryError, match=r"\(row 0 'ann', column 0 'x'\) at positions"):
        Observations(**(GOOD | labels | {"rows": [0, 0, 1]}))
    with pytest.raises(IndexRangeError, match=r"\.\.\. \(9 in all\)"):
        Observations([5] * 9, [0] * 9, [1.0] * 9, (2, 2))


@pytest.mark.parametrize("n_cols", [10, 10**9])
def test_repeats_are_found_by_bitmap_and_by_sorting(n_cols):
    rng = np.random.default_rng(0)
    codes = rng.permutation(100)
    rows, cols = np.divmod(codes, 10)
    assert Observations(rows, cols, codes, (10, n_cols)).m == 100
    rows[17], cols[17] = rows[80], cols[80]
    with pytest.raises(DuplicateEntryError, match="at positions 17 and 80"):
        Observations(rows, cols, codes, (10, n_cols))


def test_other_weights_and_a_larger_matrix():
    obs = Observations([0, 1], [1, 0], [1.0, 2.0], (2, 2), row_labels=["a", "b"])
    heavy = obs.with_weights([1.0, 3.0])
    assert heavy.weights.tolist() == [1.0, 3.0]
    assert heavy.rows is obs.rows
    with pytest.raises(DataError, match="must not be negative"):
        obs.with_weights([1.0, -1.0])
    larger = heavy.within((3, 2), ["a", "b", "c"], None)
    assert (larger.shape, larger.row_labels) == ((3, 2), ("a", "b", "c"))
    assert larger.weights is heavy.weights
    assert larger != heavy


TAKES = [
    ([0, 0], DuplicateEntryError, "distinct"),
    ([3], IndexRangeError, r"in \[0, 2\]"),
    ([-1], IndexRangeError, "got -1 to -1"),
    ([0.0], IndexRangeError, "got float64"),
    ([True], ShapeError, r"one entry per observation \(3\), got 1"),
    ([[0]], ShapeError, "one-dimensional"),
    ([], EmptyDataError, "No observation was chosen"),
    ([False] * 3, EmptyDataError, "no observation"),
    ([1], DataError, "All 1 weights are zero"),
]


@pytest.mark.parametrize(("index", "error", "text"), TAKES)
def test_take_refuses(index, error, text):
    with pytest.raises(error, match=text):
        Observations(**GOOD, weights=[1, 0, 1]).take(index)

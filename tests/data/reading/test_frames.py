"""Tables and matrices of every make give the same observations."""

from __future__ import annotations

import builtins
import sys
from decimal import Decimal

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xarray as xr
from hypothesis import given, settings

import kronfill as kf
from kronfill.data import Observations
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    EmptyDataError,
    KronfillWarning,
    LabelError,
    MissingDependencyError,
    NonFiniteError,
    ParameterError,
    ShapeError,
)

law = settings(max_examples=40, deadline=None)


class Interchange:
    """A table that offers nothing but the dataframe interchange protocol."""

    def __init__(self, columns):
        self._table = pa.table(columns)

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self._table.__dataframe__(nan_as_null, allow_copy)


class Stream:
    """A table that offers nothing but an Arrow stream."""

    def __init__(self, columns):
        self._table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


MAKES = [pd.DataFrame, pl.DataFrame, pa.table, Interchange, Stream]
makes = st.sampled_from(MAKES)
lines = st.lists(
    st.tuples(st.sampled_from("dbca"), st.integers(0, 3), st.integers(-9, 9), st.integers(1, 5)),
    min_size=1,
    max_size=20,
)


def columns(data):
    return dict(
        zip(("who", "what", "score", "trust"), map(list, zip(*data, strict=True)), strict=True)
    )


def as_dict(obs):
    names = zip(*(obs.to_frame()[c] for c in ("row", "col")), strict=True)
    weights = [None] * obs.m if obs.weights is None else obs.weights
    return dict(zip(names, zip(obs.values, weights, strict=True), strict=True))


@law
@given(lines, st.randoms(use_true_random=False))
def test_all_makes_agree_and_order_is_kept(data, random):
    data = list({line[:2]: line for line in data}.values())
    read = [Observations.from_long(make(columns(data))) for make in MAKES]
    assert all(obs == read[0] for obs in read)
    assert read[0].values.tolist() == [line[2] for line in data]
    assert read[0].row_labels == tuple(sorted({line[0] for line in data}))
    assert read[0].col_labels == tuple(sorted({line[1] for line in data}))
    shuffled = random.sample(data, len(data))
    again = Observations.from_long(pd.DataFrame(columns(shuffled)))
    assert again == read[0].take([data.index(line) for line in shuffled])


@law
@given(lines, makes, st.sampled_from([None, "trust"]))
def test_mean_of_duplicates_is_that_of_a_groupby(data, make, weight):
    obs = Observations.from_long(make(columns(data)), weight=weight, duplicates="mean")
    groups = {}
    for who, what, score, trust in data:
        groups.setdefault((who, what), []).append((score, trust if weight else 1))
    expected = {
        key: (sum(s * w for s, w in group) / sum(w for _, w in group), sum(w for _, w in group))
        for key, group in groups.items()
    }
    found = as_dict(obs)
    assert list(found) == list(groups)  # in order of first appearance
    for key, pair in expected.items():
        assert found[key] == pytest.approx(pair, abs=1e-12)


@law
@given(lines, makes)
def test_frame_round_trip(data, make):
    table = make(columns(data))
    obs = Observations.from_long(table, weight="trust", duplicates="mean")
    back = Observations.from_long(
        obs.to_frame(), weight="weight", row_labels=obs.row_labels, col_labels=obs.col_labels
    )
    assert back == obs


def test_duplicates_without_weight_keep_their_plain_mean():
    table = pd.DataFrame({"r": [0, 0, 1], "c": [0, 0, 0], "v": [1.0, 3.0, 5.0], "w": [0, 0, 2]})
    obs = Observations.from_long(table, weight="w", duplicates="mean")
    assert obs.values.tolist() == [2.0, 5.0]
    assert obs.weights.tolist() == [0.0, 2.0]


def test_given_labels_fix_set_and_order():
    table = pl.DataFrame({"v": [1.5], "a": ["x"], "b": ["q"]})
    obs = Observations.from_long(table, "a", "b", "v", row_labels=["z", "x"], col_labels=["q"])
    assert obs.shape == (2, 1)
    assert obs.rows.tolist() == [1]
    assert obs.row_labels == ("z", "x")


def test_labels_that_cannot_be_sorted_keep_their_order():
    table = pd.DataFrame({"r": ["b", 1, "a"], "c": [0, 0, 0], "v": [1, 2, 3]})
    assert Observations.from_long(table).row_labels == ("b", 1, "a")


def test_categories_and_dates_read_alike():
    days = pd.date_range("2020-01-01", periods=3)
    names, values = ["u", "v", "u"], [1, 2, 3]
    pandas = pd.DataFrame({"c": pd.Categorical(names, ["w", "v", "u"]), "d": days, "v": values})
    polars = pl.DataFrame({"c": names, "d": list(days.to_pydatetime()), "v": values})
    chunks = [pa.chunked_array([pa.array([x]).dictionary_encode() for x in names]), days, values]
    tables = [
        polars,
        polars.with_columns(pl.col("c").cast(pl.Categorical)),
        polars.with_columns(pl.col("c").cast(pl.Enum(["w", "v", "u"]))),
        pa.table(dict(zip("cdv", chunks, strict=True))),
        pa.table(pandas),
    ]
    for table in tables:
        assert Observations.from_long(table) == Observations.from_long(pandas)


def test_python_objects_in_polars_are_refused():
    table = pl.DataFrame({"r": [0], "c": pl.Series([object()], dtype=pl.Object), "v": [1.0]})
    with pytest.raises(DataError, match="Column 'c' holds Python objects"):
        Observations.from_long(table)


def test_a_missing_category_is_a_missing_label():
    with pytest.raises(LabelError, match="'c' has no row label at line 1"):
        Observations.from_long(
            pl.DataFrame({"c": pl.Series(["u", None], dtype=pl.Categorical), "d": [1, 2], "v": 1.0})
        )


VALUES = {
    "float": [1.0, 0.0],
    "bool": [True, False],
    "decimal": [Decimal(1), Decimal(0)],
    "Int64": pd.array([1, 0], dtype="Int64"),
    "boolean": pd.array([True, False], dtype="boolean"),
    "object": pd.Series([1, 0.0], dtype=object),
    "arrow": pd.Series([1, 0], dtype="int32[pyarrow]"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_numbers_of_every_kind(kind):
    table = pd.DataFrame({"r": [0, 1], "c": [0, 0], "v": VALUES[kind]})
    for make in (table, pa.table(table)):
        assert Observations.from_long(make).values.tolist() == [1.0, 0.0]
    wide = pd.DataFrame({"v": VALUES[kind], "w": [2, 3]})
    assert Observations.from_matrix(wide).to_dense().tolist() == [[1, 2], [0, 3]]


LONG = {"r": ["a", "b"], "c": [1, 2], "v": [1.0, 2.0]}
BAD_LONG = [
    ({"v": [1.0, None]}, {}, NonFiniteError, r"no value at line 1 \(row 1 'b', column 1 2\)"),
    ({"v": [1.0, np.inf]}, {}, NonFiniteError, r"inf at position 1 \(row 1 'b', column 1 2\)"),
    ({"v": ["x", "y"]}, {}, DataError, "Column 'v' must hold numbers, got"),
    ({"r": ["a", None]}, {}, LabelError, "'r' has no row label at line 1"),
    ({"c": [np.nan, 1.0]}, {}, LabelError, "'c' has no column label at line 0"),
    ({"r": ["a", "a"], "c": [1, 1]}, {}, DuplicateEntryError, "duplicates='mean'"),
    ({"w": [1.0, -1.0]}, {"weight": "w"}, DataError, "negative, got -1.0 at position 1"),
    ({"w": [1.0, None]}, {"weight": "w"}, NonFiniteError, "weights must be finite, got nan"),
    ({}, {"row_labels": ["a", "c"]}, LabelError, "Unknown row label 'b'"),
    ({}, {"value": "score"}, ParameterError, "value='score': .* no such column; it"),
    ({}, {"row": "v"}, ParameterError, "Three columns"),
    ({}, {"duplicates": "sum"}, ParameterError, "'error' or 'mean', got 'sum'"),
    ({"r": [["a"], ["b"]]}, {}, LabelError, "Column 'r' cannot hold row labels"),
    ({"r": [], "c": [], "v": []}, {}, EmptyDataError, "no lines"),
]  # fmt: skip


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize(("change", "options", "error", "text"), BAD_LONG)
def test_bad_long_tables_are_named(make, change, options, error, text):
    with pytest.raises(error, match=text):
        Observations.from_long(make(LONG | change), **options)


def test_what_is_no_table():
    with pytest.raises(DataError, match="Cannot read a list as a table"):
        Observations.from_long([(0, 0, 1.0)])
    with pytest.raises(ParameterError, match="Three columns"):
        Observations.from_long(pd.DataFrame({"r": [1], "v": [2]}))
    twice = pd.DataFrame([[0, 0, 1.0]], columns=["r", "r", "v"])
    with pytest.raises(ParameterError, match="more than one such column"):
        Observations.from_long(twice, row="r")
    assert Observations.from_long(twice).m == 1


@pytest.mark.parametrize(("module", "table"), [("pandas", None), ("pyarrow", pl.DataFrame(LONG))])
def test_missing_packages_are_asked_for(monkeypatch, module, table):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == module:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    obs = Observations([0], [0], [1.0], (1, 1))
    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        MissingDependencyError, match=rf"needs {module}: pip install 'kronfill\[tab"
    ):
        obs.to_frame() if table is None else Observations.from_long(table)


def test_wide_frames_bring_their_labels():
    frame = pd.DataFrame(
        {"x": pd.array([1, None], dtype="Int64"), "y": [np.nan, 2.5]}, index=["a", "b"]
    )
    obs = Observations.from_matrix(frame)
    assert as_dict(obs) == {("a", "x"): (1.0, None), ("b", "y"): (2.5, None)}
    for make in (pl.DataFrame, pa.table):
        other = make({"x": [1, None], "y": [None, 2.5]})
        assert Observations.from_matrix(other, row_labels=["a", "b"]) == obs
    with pytest.raises(LabelError, match="already names its rows"):
        Observations.from_matrix(frame, row_labels=["c", "d"])


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok"])
def test_stored_zeros_are_observed(form):
    pairs = ([0, 1], [1, 0])
    stored = scipy.sparse.coo_array(([0.0, 2.0], pairs), shape=(2, 2)).tocsr().asformat(form)
    if form in ("lil", "dok"):  # these formats cannot hold a zero
        stored[0, 1] = 3.0
    assert Observations.from_matrix(stored).m == 2


@pytest.mark.parametrize("form", ["bsr", "dia"])
def test_padding_zeros_are_missing(form):
    dense = np.diag([1.0, 2.0, 3.0, 4.0])
    dense[0, 1] = 5.0
    obs = Observations.from_matrix(scipy.sparse.csr_array(dense).asformat(form))
    assert np.array_equal(obs.to_dense(fill=0.0), dense)
    assert obs.m == 5


def test_repeats_in_a_sparse_matrix():
    coo = scipy.sparse.coo_array(([1.0, 3.0, 5.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    with pytest.raises(DuplicateEntryError, match=r"\(row 0, column 1\) at positions 0 and 1"):
        Observations.from_matrix(coo)
    obs = Observations.from_matrix(coo, duplicates="mean")
    assert obs.values.tolist() == [2.0, 5.0]
    assert obs.weights.tolist() == [2.0, 1.0]


def test_masked_entries_may_hold_anything():
    masked = np.ma.array([[np.nan, 1.0], [np.inf, 0.0]], mask=[[1, 0], [1, 0]])
    assert Observations.from_matrix(masked).cols.tolist() == [1, 1]
    integers = np.ma.array([[1, 2]], mask=[[0, 1]])
    assert Observations.from_matrix(integers).values.tolist() == [1.0]
    objects = np.ma.array([[1, "?"]], mask=[[0, 1]], dtype=object)
    assert Observations.from_matrix(objects).values.tolist() == [1.0]


STATIONS = ["oslo", "rome", "bern"]
DAYS = pd.date_range("2024-01-01", periods=2)
RAIN = [[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]]


def test_coordinates_of_xarray_are_labels():
    array = xr.DataArray(RAIN, dims=("place", "day"), coords={"place": STATIONS, "day": DAYS})
    frame = pd.DataFrame(RAIN, index=STATIONS, columns=DAYS)
    obs = Observations.from_matrix(array)
    assert obs == Observations.from_matrix(frame)
    assert obs.row_labels == tuple(STATIONS)
    part = Observations.from_matrix(array.drop_vars("day"), col_labels=["a", "b"])
    assert (part.row_labels, part.col_labels) == (tuple(STATIONS), ("a", "b"))
    with pytest.raises(LabelError, match="already names its rows"):
        Observations.from_matrix(array, row_labels=STATIONS)
    bare = Observations.from_matrix(array.drop_vars(["place", "day"]))
    assert bare == Observations.from_matrix(np.array(RAIN))


def test_coordinates_that_label_nothing_are_told():
    height = ("place", [23.0, 21.0, 540.0])
    array = xr.DataArray(
        RAIN, dims=("place", "day"), coords={"place": STATIONS, "height": height, "run": 7}
    )
    with pytest.warns(KronfillWarning, match="The coordinates 'height' .* are not used"):
        obs = Observations.from_matrix(array)
    assert obs.row_labels == tuple(STATIONS)
    with pytest.warns(KronfillWarning, match="'height'"):
        Observations.from_matrix(array.drop_vars("place"))


def test_a_dataset_is_not_one_matrix():
    dataset = xr.Dataset({"rain": (("place", "day"), RAIN)})
    with pytest.raises(ShapeError, match="got Dataset"):
        Observations.from_matrix(dataset)


BROKEN = {
    "csr": lambda: _with(scipy.sparse.csr_array(np.eye(3)), "indices", [0, 1, 10**6]),
    "csc": lambda: _with(scipy.sparse.csc_array(np.eye(3)), "indptr", [0, 1, 2, 10**6]),
    "bsr": lambda: _with(scipy.sparse.bsr_array(np.eye(3)), "indices", [0, 1, -(10**6)]),
    "coo": lambda: _with(scipy.sparse.coo_array(np.eye(3)), "row", [0, 1, 10**6]),
    "lil": lambda: _with(scipy.sparse.lil_array(np.eye(3)), "rows", [[0], [1], [10**6]]),
}


def _with(matrix, name, indices):
    """A matrix whose indices were changed after it was made."""
    stored = getattr(matrix, name)
    for k, index in enumerate(indices):
        stored[k] = index
    return matrix


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize(
    "enter",
    [Observations.from_matrix, kf.kernels.linear, kf.kernels.precomputed, kf.kernels.diffusion],
)
def test_indices_of_a_sparse_matrix_are_looked_at(kind, enter):
    with pytest.raises(DataError, match="indices do not fit together"):
        enter(BROKEN[kind]())


sparse_nan = scipy.sparse.coo_array(([np.nan], ([0], [1])), shape=(2, 2))
BAD_MATRICES = [
    ([[1.0, np.inf]], NonFiniteError, r"inf at position 1 \(row 0, column 1\)"),
    (np.ma.array([[1.0, np.nan]], mask=[[1, 0]]), NonFiniteError, r"nan .*\(row 0, column 1\)"),
    (sparse_nan, NonFiniteError, r"nan at position 0 \(row 0, column 1\)"),
    (scipy.sparse.coo_array((2, 2)), EmptyDataError, "no observation"),
    (scipy.sparse.coo_array([1.0, 2.0]), ShapeError, "two dimensions"),
    ([[np.nan, np.nan]], EmptyDataError, "All 2 entries are missing"),
    (pd.DataFrame({"a": [np.nan]}), EmptyDataError, "All 1 entries are missing"),
    (np.zeros((0, 3)), EmptyDataError, "without entries"),
    ([1.0, 2.0], ShapeError, r"two dimensions, got an array of shape \(2,\)"),
    ([[1.0], [2.0, 3.0]], ShapeError, "differ in length"),
    ([["a"]], DataError, "must be real numbers"),
    (np.array([["a"]], object), DataError, "must hold real numbers"),
    ([[1j]], DataError, "complex"),
    (pd.DataFrame({"a": [1.0], "b": ["x"]}), DataError, "Column 'b' must hold numbers"),
    (pd.DataFrame({"a": [1.0], "b": pd.to_datetime(["2020"])}), DataError, "Column 'b'"),
    (pl.DataFrame({"a": [1.0], "b": ["x"]}), DataError, "Column 'b' must hold numbers"),
    (pd.DataFrame([[1.0], [2.0]], index=["a", "a"]), LabelError, "'a' .positions 0 and 1"),
]


@pytest.mark.parametrize(("matrix", "error", "text"), BAD_MATRICES)
def test_bad_matrices_are_named(matrix, error, text):
    with pytest.raises(error, match=text):
        Observations.from_matrix(matrix)
    with pytest.raises(ParameterError, match="duplicates must be"):
        Observations.from_matrix(matrix, duplicates="first")

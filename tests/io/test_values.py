"""Values in a model file: the index of a completed table, labels of any type."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import kronfill as kf

from .samples import frame, saved

# Completed tables.

INDEXES = {
    "text": pd.Index([f"r{i}" for i in range(5)], name="place"),
    "objects": pd.Index([f"r{i}" for i in range(5)], dtype=object),
    "whole": pd.Index([3, 1, 4, 15, 9], dtype="int32"),
    "range": pd.RangeIndex(10, 15),
    "floats": pd.Index([0.5, 1.5, 2.0, 7.25, -1.0]),
    "days": pd.date_range("2026-03-01", periods=5, name="day"),
    "hours": pd.date_range("2026-03-29", periods=5, freq="h", tz="Europe/Oslo"),
    "irregular": pd.DatetimeIndex(["2026-01-01", "2026-01-02", "2026-02-01", "2027-01-01", "2030"]),
    "months": pd.period_range("2026-01", periods=5, freq="M"),
    "categories": pd.CategoricalIndex(list("edcba"), ordered=True),
    "levels": pd.MultiIndex.from_product([["a"], pd.date_range("2026", periods=5)], names=["k", 3]),
    "tuples": pd.Index([("a", i) for i in range(5)], tupleize_cols=False),
    "mixed": pd.Index([1, "a", 2.5, datetime.date(2026, 1, 1), ("x", 1)], tupleize_cols=False),
}


def table(index, columns=INDEXES["days"]):
    data = np.add.outer(np.arange(5.0), np.arange(5.0) ** 2)
    data[[0, 2, 3], [1, 2, 4]] = np.nan
    return pd.DataFrame(data, index=index, columns=columns)


@pytest.mark.filterwarnings("ignore::kronfill.errors.KronfillWarning")
@pytest.mark.parametrize("index", INDEXES)
def test_a_completion_keeps_its_index_and_columns(index, tmp_path):
    done = kf.complete(table(INDEXES[index]), method="kkmcex", mu=0.1)
    back = saved(done, tmp_path)
    for name in ("filled", "predicted", "status"):
        pd.testing.assert_frame_equal(getattr(back, name), getattr(done, name), check_exact=True)
    assert repr(back) == repr(done)
    labels = done.observations.row_labels, done.observations.col_labels
    assert back.observations.row_labels == labels[0]
    assert [type(one) for one in back.observations.row_labels] == [type(one) for one in labels[0]]
    pairs = list(zip(*labels, strict=True))
    assert_array_equal(back.predict(pairs), done.predict(pairs))


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "imc", "mc"])
def test_a_completion_with_features_and_new_rows(method, tmp_path):
    places = frame(8).set_index(pd.Index([f"r{i}" for i in range(8)]))
    side = {} if method == "mc" else {"rows": places}
    done = kf.complete(table(INDEXES["text"]), method=method, mu=0.1, rank=2, **side)
    back = saved(done, tmp_path)
    pd.testing.assert_frame_equal(back.filled, done.filled, check_exact=True)
    assert back.filled.shape == ((5 if method == "mc" else 8), 5)
    if method not in ("mc", "imc"):
        new = frame(2, 1)
        after, before = back.extrapolate(rows=new), done.extrapolate(rows=new)
        pd.testing.assert_frame_equal(after, before, check_exact=True)
    if method == "kkmcex":
        ranges = {"value_range": (0.0, 30.0)}
        assert back.certificate(**ranges).value == done.certificate(**ranges).value
    pd.testing.assert_frame_equal(back.best(2), done.best(2), check_exact=True)


def test_a_completion_of_a_list_has_no_index_of_its_own(tmp_path):
    done = kf.complete([[1.0, 2.0], [2.0, None]], method="mc", rank=1, mu=0.1)
    pd.testing.assert_frame_equal(saved(done, tmp_path).filled, done.filled)


# Labels and other values.

texts = st.text(max_size=8)
dates = st.datetimes(timezones=st.sampled_from([None, datetime.UTC]))
simple = st.one_of(
    texts,
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.binary(max_size=4),
    st.dates(),
    dates,
    st.timedeltas(),
    st.just(pd.Timestamp("2026-03-01T00:00:00.000000001")),
    st.just(np.datetime64("2026-03", "M")),
)
one_type = [texts, st.integers(), st.floats(allow_nan=False), st.dates(), st.datetimes()]
label_lists = st.one_of(
    *(st.lists(kind, min_size=1, max_size=40, unique=True) for kind in one_type),
    st.lists(st.tuples(texts, st.integers(), st.dates()), min_size=1, max_size=40, unique=True),
    st.lists(st.one_of(simple, st.tuples(simple, simple)), min_size=1, max_size=6, unique=True),
)


@settings(max_examples=60, deadline=None)
@given(labels=label_lists)
def test_labels_come_back_equal_and_of_the_same_type(labels, tmp_path_factory):
    obs = kf.Observations([0], [0], [1.0], (len(labels), 1), row_labels=labels)
    est = kf.MC(rank=1).fit(obs)
    back = saved(est, tmp_path_factory.mktemp("labels")).observations_
    assert back.row_labels == tuple(labels)
    assert [type(one) for one in back.row_labels] == [type(one) for one in labels]
    assert_array_equal(back.row_index(labels), np.arange(len(labels)))


def test_labels_that_are_used_twice_are_stored_and_read_once(tmp_path):
    names = [f"a rather long name {i}" for i in range(3000)]
    kernel = kf.kernels.identity(names)
    obs = kf.Observations([0], [0], [1.0], (3000, 1), row_labels=names)
    est = kf.KKMCEX(kernel + 0.5 * kernel).fit(obs)
    back = saved(est, tmp_path)
    assert (tmp_path / "model.kf").stat().st_size < 200_000
    assert back.row_kernel.labels is back.row_kernel.parts[0].labels
    assert back.row_kernel.labels == tuple(names)

"""Labels: positions and back, whatever the labels are."""

from __future__ import annotations

import copy
import datetime
import pickle

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from kronfill.data import Labels
from kronfill.errors import LabelError

hashable = st.text() | st.integers() | st.dates() | st.tuples(st.integers(), st.text())


@settings(deadline=None)
@given(st.lists(hashable, unique=True, min_size=1), st.data())
def test_index_is_the_inverse_of_getitem(values, data):
    labels = Labels(values)
    wanted = data.draw(st.lists(st.sampled_from(values)))
    assert [labels[k] for k in labels.index(wanted)] == wanted
    assert labels.values == tuple(labels) == tuple(values)
    assert values[0] in labels
    assert pickle.loads(pickle.dumps(labels)) == copy.deepcopy(labels) == labels
    assert hash(labels) == hash(copy.deepcopy(labels))


DATES = pd.date_range("2019-04-15", periods=3)
DATE_FORMS = [DATES, list(DATES), DATES.to_numpy(), DATES.to_numpy().astype("datetime64[D]")]


@pytest.mark.parametrize("known", DATE_FORMS)
@pytest.mark.parametrize("asked", [*DATE_FORMS, DATES.to_pydatetime()])
def test_dates_of_every_kind_match(known, asked):
    assert Labels(known).index(asked).tolist() == [0, 1, 2]


def test_nanoseconds_are_not_rounded_away():
    labels = np.array([0, 1], dtype="datetime64[ns]")
    assert len(Labels(labels)) == 2
    assert all(isinstance(item, datetime.datetime) for item in Labels(labels[:1]))


@pytest.mark.parametrize("kind", [list, np.array, pd.Index, pd.Series, tuple])
def test_containers_agree(kind):
    assert Labels(kind(["a", "b"])) == Labels(["a", "b"])
    assert Labels(kind([3, 1])).index([1]).tolist() == [1]


def test_unknown_labels_are_named_with_the_closest():
    labels = Labels(["Lisbon", "Berlin", "Paris", "Rome"], axis="city")
    with pytest.raises(LabelError, match=r"Unknown city label 'Pariss' \(did you mean 'Paris'\?\)"):
        labels.index(["Rome", "Pariss"])
    with pytest.raises(LabelError, match=r"0, 1, 2, \.\.\. \(5 in all\); .* \(4 in all\)"):
        labels.index([0, 1, 2, 3, 4, 4])


BAD = [
    (["a", "b", "a", "c", "c"], r"'a' \(positions 0 and 2\), 'c' \(positions 3 and 4\)"),
    ([1.0, np.nan], r"Missing row label at position 1 \(nan\)"),
    ([pd.NA, 1], "Missing row label at position 0"),
    (DATES.insert(1, pd.NaT), "Missing row label at position 1"),
    (np.array(["NaT"], dtype="datetime64[D]"), "Missing row label at position 0"),
    ([[1], [2]], "hashable"),
    ("abc", "pass a list"),
    (np.zeros((2, 2)), r"one-dimensional, got an array of shape \(2, 2\)"),
]


@pytest.mark.parametrize(("values", "text"), BAD)
def test_bad_labels(values, text):
    with pytest.raises(LabelError, match=text):
        Labels(values)


def test_bad_questions():
    with pytest.raises(LabelError, match="hashable"):
        Labels(["a"]).index([["a"]])
    with pytest.raises(AttributeError, match="immutable"):
        Labels(["a"]).extra = 1
    assert repr(Labels(range(9))) == "Labels([0, 1, 2, ... (9 in all)])"

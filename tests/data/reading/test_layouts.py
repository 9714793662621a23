"""A table of columns that could be wide or long is not taken as either in silence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import kronfill as kf
from kronfill.data.reading.layouts import are_labels, entry_columns, hang_together, is_like_value
from kronfill.errors import DataError, KronfillError, ParameterError

RATINGS = pd.DataFrame(
    {"user": [1, 1, 2, 3], "movie": [10, 20, 10, 30], "rating": [5.0, 3.0, 4.0, 2.0]}
)
MC = {"method": "mc", "rank": 1, "mu": 1.0}

LONG = {
    "as it is": RATINGS,
    "shuffled": RATINGS.iloc[[3, 0, 2, 1]],
    "whole ratings": RATINGS.astype(int),
    "labels as floats": RATINGS.astype(float),
    "nullable": RATINGS.astype("Int64"),
    "with a time": RATINGS.assign(when=[964.5, 981.25, 703.5, 649.0]),
    "value first": RATINGS[["rating", "user", "movie"]],
    "a value missing": RATINGS.assign(rating=[5.0, np.nan, 4.0, 2.0]),
    "an entry twice": pd.concat([RATINGS] * 5 + [RATINGS.iloc[:0]]).assign(
        user=np.repeat(np.arange(5), 4), movie=[*np.tile(np.arange(4), 4), 1, 2, 3, 3]
    ).reset_index(drop=True),
    "polars": pl.DataFrame(RATINGS.to_dict("list")),
    "stacked": RATINGS.set_index(["user", "movie"]),
}  # fmt: skip


OTHER_NAMES = {"user": "a", "movie": "b", "rating": "c"}
FAULTY = {"a value missing": "has no value", "an entry twice": "may be observed once"}


@pytest.mark.parametrize("case", LONG)
def test_a_long_table_is_not_taken_as_a_wide_one(case):
    """Where the names of its columns do not tell."""
    table = LONG[case]
    if case == "polars":
        table = table.rename(OTHER_NAMES)
    elif case != "stacked":
        table = table.rename(columns=OTHER_NAMES)
    with pytest.raises(DataError, match=r"As a long one.*As a wide one.*row=.*from_matrix"):
        kf.complete(table, **MC)


@pytest.mark.parametrize("case", sorted(set(LONG) - set(FAULTY) - {"with a time", "stacked"}))
def test_a_long_table_is_known_by_the_names_of_its_columns(case):
    named = kf.complete(LONG[case], row="user", col="movie", value="rating", **MC)
    pd.testing.assert_frame_equal(kf.complete(LONG[case], **MC).filled, named.filled)


@pytest.mark.parametrize("case", FAULTY)
def test_a_long_table_with_a_fault_is_refused(case):
    with pytest.raises(DataError, match=FAULTY[case]):
        kf.complete(LONG[case], **MC)


@pytest.mark.parametrize("make", [lambda t: t, lambda t: pl.DataFrame(t.to_dict("list"))])
def test_both_readings_can_be_asked_for(make):
    table = make(RATINGS)
    long = kf.complete(table, row="user", col="movie", value="rating", **MC)
    pivoted = RATINGS.pivot(index="user", columns="movie", values="rating")
    expected = kf.complete(pivoted, **MC).filled
    np.testing.assert_array_equal(long.filled, expected)
    assert list(long.filled.index) == [1, 2, 3]
    assert list(long.filled.columns) == [10, 20, 30]
    wide = kf.complete(kf.Observations.from_matrix(table), **MC)
    assert list(wide.filled.columns) == ["user", "movie", "rating"]


def test_labels_that_are_text_point_to_the_same_words():
    named = RATINGS.assign(user=["ann", "ann", "bob", "cid"])
    with pytest.raises(DataError, match=r"row=, col= and value= name its columns"):
        kf.complete(named.rename(columns=OTHER_NAMES), **MC)
    done = kf.complete(named, row="user", col="movie", value="rating", **MC)
    assert list(done.filled.index) == ["ann", "bob", "cid"]


def test_all_three_columns_are_named():
    with pytest.raises(ParameterError, match="col= and value= are missing"):
        kf.complete(RATINGS, row="user")
    with pytest.raises(KronfillError, match="'film': the table has no such column"):
        kf.complete(RATINGS, row="user", col="film", value="rating")


GAPS = pd.DataFrame({"mon": [10, 12, np.nan], "tue": [11, np.nan, 9], "wed": [1.0, 1.0, 1.0]})
WIDE = {
    "gaps": GAPS,
    "fractions": GAPS.fillna(0.5),
    "row labels": RATINGS.set_axis(list("abcd"), axis=0),
    "a name for the index": RATINGS.rename_axis("place"),
    "numbers as columns": RATINGS.set_axis(range(3), axis=1),
    "two columns": RATINGS[["user", "rating"]],
    "many columns": pd.DataFrame(np.arange(28) % 5, columns=["a"]).join(
        pd.DataFrame({f"c{j}": np.arange(28) for j in range(6)})
    ),
    "nothing repeats": pd.DataFrame({"a": [1, 2, 3], "b": [5, 4, 6], "c": [7, 9, 8]}),
    "pairs repeat": pd.DataFrame({"a": [1, 1, 1, 2], "b": [1, 1, 1, 1], "c": [1, 1, 1, 1]}),
}


@pytest.mark.parametrize("case", WIDE)
def test_a_wide_table_is_taken_as_one(case):
    assert kf.complete(WIDE[case], **MC).filled.shape == WIDE[case].shape


def test_what_could_be_labels():
    assert are_labels(np.array([1.0, -2.0, 1e15]))
    assert not are_labels(np.array([1.0, 2.5]))
    assert not are_labels(np.array([1.0, np.nan]))
    whole = [np.array([0.5, 1.0]), np.array([3.0, 3.0]), np.array([1.0, 2.0])]
    assert entry_columns(whole) == (1, 2)
    assert entry_columns(whole[::2]) is None


def test_how_often_labels_of_entries_repeat():
    assert hang_together(100_836, 610, 9724)
    assert not hang_together(50, 49, 2)
    assert not hang_together(50, 25, 50)
    assert hang_together(3, 2, 2, numbered=True)
    assert not hang_together(3, 2, 2)


@pytest.mark.parametrize("text", ["3,000", "1.234.567", "3,5", "-0.5", "$3", "12 %", "1e-3", "-"])
def test_texts_that_were_meant_as_values(text):
    assert is_like_value(text)


@pytest.mark.parametrize("text", ["2024-01-31", "31.12.2024", "12:30", "102a", "Q1", "x", "n.a."])
def test_texts_that_were_not(text):
    assert not is_like_value(text)

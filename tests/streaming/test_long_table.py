"""Long tables are read piece by piece, from any position on, and checked."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kronfill.errors import DataError, IndexRangeError, LabelError, ParameterError
from kronfill.streaming.columns import Columns, TableAxis
from kronfill.streaming.long_table import ParquetTable, is_long_table

AXES = (TableAxis("row", 50), TableAxis("column", 50))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lines")
    frame = pd.DataFrame({"i": np.arange(45) % 7, "j": np.arange(45), "y": np.arange(45.0)})
    frame.iloc[:20].to_parquet(folder / "a.parquet", row_group_size=6, index=False)
    frame.iloc[20:].to_parquet(folder / "b.parquet", row_group_size=9, index=False)
    return ParquetTable(folder)


def columns_of(batches):
    return [int(j) for batch, _ in batches for j in batch.cols]


@given(size=st.integers(1, 20), again=st.integers(1, 20), stop=st.integers(0, 30))
@settings(max_examples=30, deadline=None)
def test_reading_goes_on_from_any_position(table, size, again, stop):
    first = list(table.batches(AXES, size))
    assert columns_of(first) == list(range(45))
    stop = min(stop, len(first) - 1)
    rest = table.batches(AXES, again, first[stop][1])
    assert columns_of(first[: stop + 1]) + columns_of(rest) == list(range(45))


def test_columns_are_the_first_three_or_named():
    assert Columns.of(["a", "b", "c", "d"]).names == ["a", "b", "c"]
    assert Columns.of(["v", "w", "a", "b"], "v", "w").names == ["a", "b", "v", "w"]
    with pytest.raises(DataError, match="needs a row, a column and a value"):
        Columns.of(["a", "b"])
    with pytest.raises(ParameterError, match="no column 'z'"):
        Columns.of(["a", "b", "c"], "z")


def test_codes_are_whole_numbers():
    with pytest.raises(IndexRangeError, match=r"rows must be integers .* got double"):
        AXES[0].codes(pa.array([0.0, 1.0]), "here", 0)
    with pytest.raises(LabelError, match="row is missing on line 12"):
        AXES[0].codes(pa.array([1, 2, None]), "here", 10)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_codes_are_not_shared_with_the_table(kind):
    given = np.array([1, 0, 1], dtype=kind)
    codes = AXES[0].codes(pa.array(given), "here", 0)
    assert not np.shares_memory(codes, given)
    given[:] = 10**6
    assert codes.tolist() == [1, 0, 1]


def test_text_labels_leave_integers_as_codes():
    axis = TableAxis("row", 2, ("x", "y"))
    assert axis.codes(pa.array([1, 0]), "here", 0).tolist() == [1, 0]
    assert axis.codes(pa.array(["y", "x"]), "here", 0).tolist() == [1, 0]
    with pytest.raises(LabelError, match="cannot be compared"):
        TableAxis("row", 2, (10, 20)).codes(pa.array(["y"]), "here", 0)
    with pytest.raises(LabelError, match="of several kinds"):
        TableAxis("row", 2, ("x", 3)).codes(pa.array(["x"]), "here", 0)


def test_values_that_are_no_numbers_are_refused():
    told = pa.table({"i": [0], "j": [0], "y": ["much"]})
    with pytest.raises(DataError, match="here: values must be numbers, got string"):
        Columns("i", "j", "y").decode(told, AXES, "here")


def test_single_precision_is_kept_where_it_loses_nothing(tmp_path):
    frame = pd.DataFrame({"i": [0], "j": [1], "y": np.array([0.5], np.float32)})
    frame.to_parquet(tmp_path / "a.parquet")
    assert ParquetTable(tmp_path).single
    frame.astype({"y": float}).to_parquet(tmp_path / "b.parquet")
    assert not ParquetTable(tmp_path).single


def test_what_is_a_long_table(table):
    assert is_long_table("a.parquet")
    assert is_long_table(table)
    assert not is_long_table(np.zeros((2, 2)))
    assert not is_long_table(pd.DataFrame({"i": [0]}))

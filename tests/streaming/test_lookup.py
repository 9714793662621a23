"""Entries are found in the partitions if and only if they were observed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kronfill.streaming.columns import TableAxis
from kronfill.streaming.long_table import ParquetTable
from kronfill.streaming.storage.lookup import find_entries
from kronfill.streaming.storage.sorting import prepare


def looked_up(folder, frame, shape, by, batch):
    frame.to_parquet(folder / "a.parquet", index=False)
    axes = (TableAxis("row", shape[0]), TableAxis("column", shape[1]))
    (folder / "work").mkdir()
    parts = prepare(ParquetTable(folder / "a.parquet"), axes, by, folder / "work", batch)
    rows, cols = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    order = np.random.default_rng(0).permutation(len(rows))
    return (rows[order], cols[order]), find_entries(parts, rows[order], cols[order]), parts


@given(
    shape=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    seed=st.integers(0, 99), share=st.floats(0.01, 1.0), by=st.integers(0, 1),
    batch=st.integers(1, 40), single=st.booleans(),
)  # fmt: skip
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_entry_is_told_right(tmp_path_factory, shape, seed, share, by, batch, single):
    rng = np.random.default_rng(seed)
    table = np.where(rng.random(shape) < share, rng.standard_normal(shape), np.nan)
    table[0, 0] = 1.5
    table = table.astype(np.float32 if single else np.float64)
    i, j = np.nonzero(~np.isnan(table))
    frame = pd.DataFrame({"i": i, "j": j, "y": table[i, j]}).sample(frac=1.0, random_state=seed)
    (rows, cols), (seen, values), parts = looked_up(
        tmp_path_factory.mktemp("t"), frame, shape, by, batch
    )
    assert parts.single == single
    assert np.array_equal(seen, ~np.isnan(table[rows, cols]))
    assert np.array_equal(values, table[rows, cols].astype(float), equal_nan=True)


@pytest.mark.parametrize("by", [0, 1])
def test_nothing_asked_for(tmp_path, by):
    frame = pd.DataFrame({"i": [0, 1], "j": [1, 0], "y": [1.0, 2.0]})
    _, _, parts = looked_up(tmp_path, frame, (2, 2), by, 1)
    assert len(parts) == 2
    seen, values = find_entries(parts, np.empty(0, np.intp), np.empty(0, np.intp))
    assert len(seen) == len(values) == 0

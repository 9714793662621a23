"""Some lines of a long table, the same ones however it is stored."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kronfill.streaming.columns import TableAxis
from kronfill.streaming.long_table import ParquetTable
from kronfill.streaming.samples import sample_lines

AXES = (TableAxis("row", 60), TableAxis("column", 50))


def lines(seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    i, j = np.nonzero(rng.random((60, 50)) < share)
    return pd.DataFrame({"i": i, "j": j, "y": 100.0 * i + j, "w": rng.uniform(1, 2, len(i))})


def table(frame, folder, files=1, group=10**6, weight=None):
    folder.mkdir(exist_ok=True)
    for k, at in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[at].to_parquet(folder / f"{k}.parquet", row_group_size=group, index=False)
    return ParquetTable(folder, weight=weight)


@given(
    seed=st.integers(0, 99), files=st.integers(1, 3), group=st.integers(1, 400),
    most=st.integers(1, 400),
)  # fmt: skip
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_sample_depends_on_the_observations_alone(tmp_path_factory, seed, files, group, most):
    frame = lines(share=0.2)
    plain = sample_lines(table(frame, tmp_path_factory.mktemp("a")), AXES, most)
    mixed = frame.sample(frac=1.0, random_state=seed)
    other = sample_lines(table(mixed, tmp_path_factory.mktemp("b"), files, group), AXES, most)
    assert len(plain.values) == min(most, len(frame))
    for one, two in zip(plain[:3], other[:3], strict=True):
        assert np.array_equal(one, two)
    assert np.array_equal(plain.values, 100.0 * plain.rows + plain.cols)


def test_lines_are_drawn_evenly(tmp_path):
    frame = lines(share=0.9)
    sample = sample_lines(table(frame, tmp_path), AXES, 1200)
    share = 1200 / len(frame)
    expected = share * frame.groupby("i").size().to_numpy()
    counts = np.bincount(sample.rows, minlength=60)
    spread = (counts - expected) / np.sqrt(expected * (1 - share))
    assert np.abs(spread).max() < 4.5
    assert 0.6 < spread.std() < 1.4


def test_weights_come_along(tmp_path):
    frame = lines()
    sample = sample_lines(table(frame, tmp_path, weight="w"), AXES, 70)
    known = frame.set_index(["i", "j"])["w"]
    pairs = list(zip(sample.rows, sample.cols, strict=True))
    assert np.array_equal(sample.weights, known.loc[pairs].to_numpy())


def test_a_very_long_table_is_not_read_to_its_end(tmp_path):
    frame = lines()
    whole = table(frame, tmp_path, files=1, group=100)
    seen = []
    sample = sample_lines(whole, AXES, 40, enough=300, notice=lambda k, n: seen.append(k))
    assert len(sample.values) == 40
    assert seen == [0, 1, 2, whole.pieces]
    again = sample_lines(whole, AXES, 40, enough=300)
    assert np.array_equal(sample.values, again.values)


@pytest.mark.parametrize("count", [0, 1])
def test_hardly_any_lines(tmp_path, count):
    sample = sample_lines(table(lines().head(count), tmp_path), AXES, 10)
    assert len(sample.values) == count

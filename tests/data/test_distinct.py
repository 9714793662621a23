"""The two ways to find repeated entries agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kronfill as kf
from kronfill.data import arrays, entries
from kronfill.data.distinct import are_distinct
from kronfill.errors import DuplicateEntryError


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=30),
    st.sampled_from([np.int32, np.int64]),
)
def test_agrees_with_a_set(pairs, kind):
    rows, cols = (np.array(part, kind) for part in zip(*pairs, strict=True))
    assert are_distinct(rows, cols, (5, 7)) == (len(set(pairs)) == len(pairs))


@pytest.fixture
def many(monkeypatch):
    """Small tables are treated as large ones."""
    monkeypatch.setattr(arrays, "_MANY", 1)
    monkeypatch.setattr(entries, "_MANY", 1)


@pytest.mark.usefixtures("many")
def test_repeats_are_named():
    with pytest.raises(DuplicateEntryError, match=r"\(row 1, column 0\) at positions 0 and 2"):
        kf.Observations([1, 0, 1], [0, 0, 0], [1.0, 2.0, 3.0], (2, 2))


def test_narrow_indices_change_nothing(many):
    rng = np.random.default_rng(0)
    X = np.argwhere(rng.random((30, 20)) < 0.4)
    y = rng.random(len(X))
    k, l = kf.kernels.rbf(rng.random((30, 2))), kf.kernels.rbf(rng.random((20, 2)))
    narrow = kf.Observations(X[:, 0], X[:, 1], y, (30, 20))
    assert narrow.rows.dtype == np.int32
    for center in (None, "both"):
        for est in (kf.KKMCEX(k, l, center=center), kf.KMC(k, l, rank=2, center=center)):
            first = est.fit(X, y).predict_matrix()
            second = est.fit(narrow).predict_matrix()
            assert np.array_equal(first, second)
    assert narrow.to_sparse().sum() == pytest.approx(y.sum())

"""Means over blocks, from factors, against the whole table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import kronfill as kf
from kronfill.estimators.fitted.identity_part import IdentityForm
from kronfill.report import blocks
from kronfill.report.blocks import block_of, edges, filled_means, observed_share, predicted_means

from .conftest import completed


def slow_means(table, rows, cols):
    return np.array(
        [
            [table[a:b, c:d].mean() for c, d in itertools.pairwise(cols)]
            for a, b in itertools.pairwise(rows)
        ]
    )


@pytest.mark.parametrize(("size", "count"), [(1, 1), (7, 3), (10, 10), (100, 7)])
def test_edges_cover_everything_evenly(size, count):
    at = edges(size, count)
    assert at[0] == 0
    assert at[-1] == size
    assert set(np.diff(at)) <= {size // count, -(-size // count)}
    assert block_of(np.arange(size), at).tolist() == np.repeat(range(count), np.diff(at)).tolist()


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "imc", "mc"])
@pytest.mark.parametrize("center", ["mean", "both"])
@pytest.mark.parametrize("chunk", [blocks.CHUNK_FLOATS, 10])
def test_means_are_those_of_the_table(method, center, chunk, monkeypatch):
    monkeypatch.setattr(blocks, "CHUNK_FLOATS", chunk)
    done = completed(method, center=center, mu=1.0, rank=2)
    rows, cols = edges(18, 5), edges(8, 3)
    np.testing.assert_allclose(
        predicted_means(done.model, rows, cols),
        slow_means(done.predicted.to_numpy(), rows, cols),
        atol=1e-10,
    )
    np.testing.assert_allclose(
        filled_means(done.model, done.observations, rows, cols),
        slow_means(done.filled.to_numpy(), rows, cols),
        atol=1e-10,
    )
    seen = (done.status == "observed").to_numpy().astype(float)
    np.testing.assert_allclose(
        observed_share(done.observations, rows, cols), slow_means(seen, rows, cols), atol=1e-12
    )


def test_kernels_with_an_identity_part():
    """Many observations: the fitted form is then split into a smooth part and a part of its own."""
    rng = np.random.default_rng(0)
    smooth = kf.kernels.rbf(np.linspace(0, 1, 70), length_scale=0.5)
    kernel = smooth + 0.1 * kf.kernels.identity(70)
    X = np.argwhere(rng.random((70, 70)) < 0.7)
    model = kf.KKMCEX(kernel, kernel, mu=0.1, center="mean").fit(X, rng.random(len(X)))
    rows, cols = edges(70, 9), edges(70, 4)
    assert isinstance(model._model, IdentityForm)
    np.testing.assert_allclose(
        predicted_means(model, rows, cols), slow_means(model.predict_matrix(), rows, cols)
    )

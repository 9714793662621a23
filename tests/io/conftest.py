"""A small model and its file."""

from __future__ import annotations

import pytest

import kronfill as kf

from .samples import COLS, L, N, X, Y, frame


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small model, its file and its predictions."""
    row = kf.kernels.rbf(frame(N)) + 0.1 * kf.kernels.identity(N)
    obs = kf.Observations(*X.T, Y, (N, L), row_labels=[f"r{i}" for i in range(N)])
    est = kf.KKMCEX(row, kf.kernels.rbf(COLS), mu=0.1, center="mean").fit(obs)
    path = tmp_path_factory.mktemp("small") / "model.kf"
    est.save(path)
    return est, path.read_bytes(), est.predict_matrix()

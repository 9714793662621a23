"""mu="auto" for a table that is not in memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.errors import EmptyDataError, ParameterError
from kronfill.estimators import longtables
from kronfill.streaming.long_table import ParquetTable
from kronfill.streaming.watching import Watcher


def problem(shape=(40, 30), share=0.5, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    row, col = (kf.kernels.rbf(rng.random((n, 2)), length_scale=0.5) for n in shape)
    truth = np.sin(np.arange(shape[0]) / 6)[:, None] * np.cos(np.arange(shape[1]) / 5)
    i, j = np.nonzero(rng.random(shape) < share)
    y = 3 + truth[i, j] + noise * rng.standard_normal(len(i))
    frame = pd.DataFrame({"i": i, "j": j, "y": y, "w": rng.uniform(0.5, 2.0, len(i))})
    return row, col, frame


@pytest.mark.parametrize("center", [None, "mean"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", [kf.KKMCEX, kf.RRMCEX])
def test_of_few_lines_all_are_used_and_mu_is_that_of_the_fit_in_memory(
    tmp_path, method, weighted, center
):
    row, col, frame = problem()
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    weight = "w" if weighted else None
    there = method(row, col, mu="auto", center=center, solver=kf.Streamed(tol=1e-12))
    there.fit(tmp_path, sample_weight=weight)
    here = method(row, col, mu="auto", center=center)
    here.fit(frame[["i", "j"]].to_numpy(), frame["y"], frame["w"] if weighted else None)
    assert there.mu_ == pytest.approx(here.mu_, rel=1e-9)
    assert there.solution_.reason.endswith(f"; mu chosen on {len(frame)} lines")
    np.testing.assert_allclose(there.predict_matrix(), here.predict_matrix(), atol=1e-7)


def test_a_sample_tells_about_the_same_mu(tmp_path, monkeypatch):
    row, col, frame = problem((120, 90), share=0.6)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    whole = kf.KKMCEX(row, col, mu="auto", center="mean").fit(tmp_path)
    monkeypatch.setattr(longtables, "SAMPLE", 1500)
    part = kf.KKMCEX(row, col, mu="auto", center="mean").fit(tmp_path)
    assert part.solution_.reason.endswith("; mu chosen on 1,500 lines")
    assert 1 / 30 < part.mu_ / whole.mu_ < 30
    again = kf.KKMCEX(row, col, mu="auto", center="mean").fit(tmp_path)
    assert again.mu_ == part.mu_


def test_what_cannot_be_fitted_is_refused_before_the_table_is_read(tmp_path):
    row, col, _ = problem()
    pd.DataFrame({"i": [0], "j": [0], "y": [np.nan]}).to_parquet(tmp_path / "a.parquet")
    for center in ("rows", "cols", "both"):
        with pytest.raises(ParameterError, match="center must be None"):
            kf.KKMCEX(row, col, mu="auto", center=center).fit(tmp_path)


def test_a_table_without_lines(tmp_path):
    row, col, frame = problem()
    frame.head(0).to_parquet(tmp_path / "a.parquet", index=False)
    with pytest.raises(EmptyDataError, match="no line with an observation"):
        kf.KKMCEX(row, col, mu="auto").fit(tmp_path)


class Noted(Watcher):
    def __init__(self):
        self.stages, self.passes, self.residuals = [], [], []

    def preparing(self, what, done, total):
        self.stages.append(what)

    def passing(self, number, done, total):
        self.passes.append((number, done, total))

    def iterated(self, iteration, residual):
        self.residuals.append(residual)


def test_a_watcher_is_told_about_every_pass(tmp_path):
    row, col, frame = problem()
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    noted = Noted()
    est = kf.KKMCEX(row, col, mu="auto", solver=kf.Streamed().watched(noted)).fit(tmp_path)
    assert list(dict.fromkeys(noted.stages)) == [
        "row groups looked at to choose mu", "row groups read", "partitions written"
    ]  # fmt: skip
    numbers = [number for number, _, _ in noted.passes]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > len(noted.residuals) == est.n_iter_
    assert noted.residuals[-1] <= 1e-6


def test_columns_may_be_named(tmp_path):
    row, col, frame = problem()
    frame[["w", "y", "j", "i"]].to_parquet(tmp_path / "a.parquet", index=False)
    named = ParquetTable(tmp_path, value="y", row="i", col="j")
    plain = kf.KKMCEX(row, col, mu=0.1).fit(named)
    here = kf.KKMCEX(row, col, mu=0.1).fit(frame[["i", "j"]].to_numpy(), frame["y"])
    np.testing.assert_allclose(plain.predict_matrix(), here.predict_matrix(), atol=1e-5)
    assert named.lines == len(frame)
    assert (named.kind("i"), named.kind("y")) == ("integer", "number")

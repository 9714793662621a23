"""A fit on a Dask cluster of real processes is the fit in memory, whatever happens to workers."""

from __future__ import annotations

import os
import signal

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.errors import DuplicateEntryError, NonFiniteError, ParameterError, StorageError
from kronfill.solvers import Distributed

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
distributed = pytest.importorskip("distributed", reason="needs Dask")
dd = pytest.importorskip("dask.dataframe", reason="needs Dask")

SHAPE = (300, 200)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    row = kf.kernels.rbf(rng.random((SHAPE[0], 2)), length_scale=0.4)
    col = kf.kernels.rbf(rng.random((SHAPE[1], 2)), length_scale=0.5)
    i, j = np.nonzero(rng.random(SHAPE) < 0.3)
    frame = pd.DataFrame({"i": i, "j": j, "y": rng.standard_normal(len(i))})
    frame["w"] = rng.uniform(0.5, 2.0, len(i))
    return row, col, frame.sample(frac=1.0, random_state=0, ignore_index=True)


@pytest.fixture(scope="module")
def client():
    with workers(2) as made, distributed.Client(made) as client:
        yield client


def workers(count):
    return distributed.LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
    )


def in_memory(problem, weighted=False, **parameters):
    row, col, frame = problem
    est = kf.KKMCEX(row, col, mu=0.1, solver=kf.PCG(tol=1e-12), **parameters)
    weights = frame["w"] if weighted else None
    return est.fit(frame[["i", "j"]].to_numpy(), frame["y"], sample_weight=weights)


def same(est, other):
    scale = np.abs(other.predict_matrix()).max()
    return np.abs(est.predict_matrix() - other.predict_matrix()).max() <= 1e-8 * scale


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [None, "mean"])
def test_a_dask_frame_gives_the_fit_in_memory(problem, client, weighted, center):
    row, col, frame = problem
    lines = dd.from_pandas(frame, npartitions=5)
    est = kf.KKMCEX(row, col, mu=0.1, center=center, solver=Distributed(client, tol=1e-12))
    est.fit(lines, sample_weight="w" if weighted else None)
    assert est.solution_.solver == "Distributed"
    assert same(est, in_memory(problem, weighted, center=center))


def test_parquet_by_address(problem, client, tmp_path):
    row, col, frame = problem
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=4000)
    solver = Distributed(client.scheduler.address, tol=1e-12)
    est = kf.KKMCEX(row, col, mu=0.1, solver=solver).fit(tmp_path)
    assert same(est, in_memory(problem))


def test_a_current_client_is_used(problem, client):
    row, col, frame = problem
    lines = dd.from_pandas(frame, npartitions=3)
    est = kf.RRMCEX(row, col, row_rank=9, col_rank=8, mu=0.1).fit(lines)
    assert est.solution_.solver == "Distributed"
    assert est.coef_.shape == (9, 8)


def test_a_dask_frame_may_be_streamed(problem, client):
    row, col, frame = problem
    lines = dd.from_pandas(frame, npartitions=3)
    est = kf.KKMCEX(row, col, mu=0.1, solver=kf.solvers.Streamed(tol=1e-12)).fit(lines)
    assert est.solution_.solver == "Streamed"
    assert same(est, in_memory(problem))


def test_predictions_come_back_as_a_dask_series(problem, client):
    frame = problem[2]
    est = in_memory(problem)
    pairs = dd.from_pandas(frame[["i", "j"]].iloc[::7], npartitions=4)
    found = est.predict(pairs)
    assert isinstance(found, dd.Series)
    assert found.npartitions == 4
    computed = found.compute()
    assert computed.index.equals(frame.iloc[::7].index)
    here = est.predict(frame[["i", "j"]].iloc[::7].to_numpy())
    np.testing.assert_allclose(computed, here, rtol=0, atol=1e-13)


def test_labels(problem, client):
    _, col, frame = problem
    rng = np.random.default_rng(5)
    names = np.array([f"row {k}" for k in range(SHAPE[0])])
    labelled = kf.kernels.rbf(pd.DataFrame({"x": rng.random(SHAPE[0])}, index=names), 0.3)
    lines = dd.from_pandas(frame.assign(i=names[frame["i"]]), npartitions=4)
    est = kf.KKMCEX(labelled, col, mu=0.1, solver=Distributed(client, tol=1e-12)).fit(lines)
    assert same(est, in_memory((labelled, col, frame)))
    pairs = lines[["i", "j"]]
    np.testing.assert_allclose(est.predict(pairs), est.predict(frame[["i", "j"]].to_numpy()))


def test_bad_lines_are_named(problem, client):
    row, col, frame = problem
    est = kf.KKMCEX(row, col, mu=0.1, solver=Distributed(client))
    half = -(-len(frame) // 2)
    missing = frame.copy()
    missing.loc[half + 3, "y"] = np.nan
    with pytest.raises(NonFiniteError, match=r"partition 1 of the Dask DataFrame: .* on line 3"):
        est.fit(dd.from_pandas(missing, npartitions=2))
    twice = pd.concat([frame, frame.iloc[[4]]], ignore_index=True)
    i, j = frame.loc[4, ["i", "j"]].astype(int)
    told = rf"row {i}, column {j} occurs more than once: partition 0 .*; partition 3 of the Dask"
    with pytest.raises(DuplicateEntryError, match=told):
        est.fit(dd.from_pandas(twice, npartitions=4))


def test_a_scheduler_that_is_not_there(problem):
    row, col, frame = problem
    lines = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ParameterError, match="client must be"):
        kf.KKMCEX(row, col, mu=0.1, solver=Distributed(17)).fit(lines)
    with pytest.raises(StorageError, match="No Dask scheduler answers"):
        kf.KKMCEX(row, col, mu=0.1, solver=Distributed("nothing://here")).fit(lines)


def test_the_bits_are_the_same_for_any_number_of_workers(problem):
    row, col, frame = problem
    made = []
    for count in (1, 2, 3):
        with workers(count) as cluster, distributed.Client(cluster) as client:
            est = kf.KKMCEX(row, col, mu=0.1, solver=Distributed(client, tol=1e-10))
            made.append(est.fit(dd.from_pandas(frame, npartitions=6)).predict_matrix())
    assert np.array_equal(made[0], made[1])
    assert np.array_equal(made[0], made[2])


@pytest.mark.parametrize("victims", [1, 2])
def test_killed_workers_cost_time_and_not_the_result(problem, victims, tmp_path):
    """Two of two workers take every copy of what was sent to them with them."""
    row, col, frame = problem
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=3000)
    killed = []
    with workers(2) as cluster, distributed.Client(cluster) as client:

        def kill(iteration, residual):
            if iteration in (2, 5):
                for pid in list(client.run(os.getpid).values())[:victims]:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)

        solver = Distributed(client, tol=1e-12, callback=kill)
        est = kf.KKMCEX(row, col, mu=0.1, solver=solver).fit(tmp_path)
        assert not set(killed) & set(client.run(os.getpid).values())
        clean = kf.KKMCEX(row, col, mu=0.1, solver=Distributed(client, tol=1e-12)).fit(tmp_path)
    assert len(killed) == 2 * victims
    assert np.array_equal(est.predict_matrix(), clean.predict_matrix())
    assert same(est, in_memory(problem))


def test_a_fit_that_was_stopped_goes_on(problem, client, tmp_path):
    row, col, frame = problem
    lines = dd.from_pandas(frame, npartitions=3)
    iterations = []

    def stop(iteration, residual):
        if iteration == 4:
            raise KeyboardInterrupt

    def fit(**settings):
        solver = Distributed(client, tol=1e-12, checkpoint=0.0, work_dir=tmp_path, **settings)
        return kf.KKMCEX(row, col, mu=0.1, solver=solver).fit(lines).predict_matrix()

    clean = fit()
    with pytest.raises(KeyboardInterrupt):
        fit(callback=stop)
    assert len(list((tmp_path / "products").iterdir())) == 5
    assert np.array_equal(fit(callback=lambda k, r: iterations.append(k)), clean)
    assert not (tmp_path / "products").exists()

"""A Dask cluster that loses a worker during the run loses no cell."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from kronfill.paper.running.backends import Dask, Serial
from kronfill.paper.running.runner import run_plan
from kronfill.paper.running.spec import RunPlan
from kronfill.paper.running.store import Store
from kronfill.paper.running.work import settings_for

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
distributed = pytest.importorskip("distributed", reason="needs Dask")

PLAN = RunPlan(sizes=(40, 100), counts={"kkmcex": 40, "mc-0.1": 10})
TIMES = ("seconds_data", "seconds_fit", "seconds_losses")


def numbers(store):
    return [repr({k: v for k, v in row.items() if k not in TIMES}) for row in store.records()]


def test_a_killed_worker_loses_nothing(tmp_path):
    settings = settings_for(0)
    here, there = Store(tmp_path / "here", settings), Store(tmp_path / "there", settings)
    run_plan(PLAN, settings, here, Serial())
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        victim = next(iter(client.run(os.getpid).values()))
        killer = threading.Thread(target=kill_when_begun, args=(victim, there, len(here.done())))
        killer.start()
        failed = run_plan(PLAN, settings, there, Dask(cluster.scheduler_address))
        killer.join()
        assert victim not in client.run(os.getpid).values()
    assert failed == []
    assert numbers(there) == numbers(here)


def kill_when_begun(pid, store, total):
    """Kill a worker once some cells are there and many are not."""
    while not 10 <= len(list(store.path.glob("parts/*.parquet"))) < total - 10:
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)

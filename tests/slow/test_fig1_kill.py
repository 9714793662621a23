"""A run that is killed at any moment resumes and ends with the same bits."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kronfill.paper.running.backends import Processes, Serial
from kronfill.paper.running.runner import RunWatcher, run_plan
from kronfill.paper.running.spec import RunPlan
from kronfill.paper.running.store import Store
from kronfill.paper.running.work import settings_for

pytestmark = pytest.mark.slow

ARGUMENTS = ["reproduce", "fig1", "--sizes", "40,100", "--realizations", "25", "--methods"]
METHODS = "kkmcex,mc-0.1"
CELLS = 2 * 2 * 25 * 2
TIMES = ("seconds_data", "seconds_fit", "seconds_losses")


def command(out: Path, workers: int) -> list[str]:
    tail = [METHODS, "--workers", str(workers), "--out", str(out)]
    return [sys.executable, "-m", "kronfill.cli", *ARGUMENTS, *tail]


def stored(out: Path) -> int:
    return len(list(out.glob("store/parts/*.parquet")))


def numbers(out: Path) -> list[str]:
    rows = Store(out / "store", settings_for(0)).records()
    return [repr({k: v for k, v in row.items() if k not in TIMES}) for row in rows]


def kill_half_way(out: Path, workers: int) -> None:
    """Start a run and kill it, with its workers, once half of the cells are there."""
    process = subprocess.Popen(command(out, workers), start_new_session=True,
                               stdout=subprocess.DEVNULL)  # fmt: skip
    deadline = time.monotonic() + 300
    while stored(out) < CELLS // 2:
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline, "the run is too slow to be killed half-way"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_and_resumed_is_bit_identical(tmp_path, workers):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(whole, 1), check=True, stdout=subprocess.DEVNULL)
    kill_half_way(broken, workers)
    assert CELLS // 2 <= stored(broken) < CELLS
    subprocess.run(command(broken, workers), check=True, stdout=subprocess.DEVNULL)
    assert numbers(broken) == numbers(whole)
    assert len(numbers(whole)) == CELLS
    assert (broken / "fig1.csv").read_bytes() == (whole / "fig1.csv").read_bytes()


def test_control_c_leaves_the_store_whole(tmp_path):
    process = subprocess.Popen(command(tmp_path, 2), start_new_session=True,
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
    while stored(tmp_path) < 10:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "goes on from here" in printed
    rows = Store(tmp_path / "store", settings_for(0)).records()
    assert 10 <= len(rows) < CELLS
    assert {row["status"] for row in rows} == {"done"}


class KillsAWorker(RunWatcher):
    """Kills one of the worker processes once ten cells are done."""

    count = 0

    def finish(self, record):
        self.count += 1
        if self.count == 10:
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)


def test_a_killed_worker_process_loses_nothing(tmp_path):
    settings = settings_for(0)
    plan = RunPlan(sizes=(40,), counts={"kkmcex": 30})
    here, there = Store(tmp_path / "here", settings), Store(tmp_path / "there", settings)
    run_plan(plan, settings, here, Serial())
    watcher = KillsAWorker()
    assert run_plan(plan, settings, there, Processes(2), watcher) == []
    assert watcher.count == 60
    assert there.done() == here.done()
    assert there.failed() == []

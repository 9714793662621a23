"""A streamed fit that is killed at any moment resumes and ends with the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.slow
KILLS = 20

FIT = """
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import kronfill as kf
from kronfill.solvers import Streamed

folder, work = map(Path, sys.argv[1:3])


@dataclass(frozen=True)
class InBatches(Streamed):
    def _batch(self, shape, ranks, weighted):
        return 5000


rng = np.random.default_rng(0)
row, col = (kf.kernels.rbf(rng.random((n, 2)), length_scale=0.4) for n in (400, 500))
solver = InBatches(work_dir=work, tol=1e-10, checkpoint=0.0)
est = kf.KKMCEX(row, col, mu=0.01, solver=solver)
(work / "begun").touch()
est.fit(folder)
np.save(work / "found.npy", est.predict_matrix())
"""


def start(folder: Path, work: Path) -> subprocess.Popen[bytes]:
    """Begin a fit; it has loaded everything when this returns."""
    work.mkdir(exist_ok=True)
    (work / "begun").unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-c", FIT, str(folder), str(work)])
    while not (work / "begun").exists():
        assert process.poll() is None, "the fit ended before it began"
        time.sleep(0.005)
    return process


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Parquet files, the answer, and how long it takes."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(1)
    i, j = np.nonzero(rng.random((400, 500)) < 0.6)
    frame = pd.DataFrame({"i": i, "j": j, "y": rng.standard_normal(len(i))})
    frame = frame.sample(frac=1.0, random_state=0)
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), 6)):
        frame.iloc[rows].to_parquet(folder / f"{k}.parquet", row_group_size=4000, index=False)
    work = tmp_path_factory.mktemp("clean")
    start(folder, work).wait()  # loads what is compiled
    for path in work.rglob("*"):
        path.unlink() if path.is_file() else None
    process, begun = start(folder, work), time.monotonic()
    assert process.wait() == 0
    return folder, np.load(work / "found.npy"), time.monotonic() - begun


def test_twenty_kills_change_nothing(table, tmp_path):
    folder, answer, seconds = table
    rng = np.random.default_rng(2)
    kills, stages = 0, set()
    for attempt in range(10 * KILLS):
        work = tmp_path / f"work-{attempt}"
        while kills < KILLS:
            process = start(folder, work)
            time.sleep(float(rng.uniform(0.0, 0.6 * seconds)))
            if process.poll() is not None:  # done before it could be killed
                break
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            kills += 1
            stages.add(stage(work))
        assert start(folder, work).wait() == 0
        assert np.array_equal(np.load(work / "found.npy"), answer)
        if kills == KILLS:
            break
    assert kills == KILLS
    assert {"sorting", "iterating"} <= stages


def stage(work: Path) -> str:
    """What a fit was doing when it was killed."""
    if list(work.glob("products/*")):
        return "iterating"
    return "sorting" if list(work.glob("by-*/*")) else "starting"


def test_work_is_not_repeated(table, tmp_path):
    """What was finished before a kill is found again: fits of half the time get through."""
    folder, answer, seconds = table
    for _ in range(40):
        process = start(folder, tmp_path)
        try:
            assert process.wait(timeout=max(0.3, 0.4 * seconds)) == 0
            break
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    assert np.array_equal(np.load(tmp_path / "found.npy"), answer)

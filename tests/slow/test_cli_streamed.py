"""The command line on long tables: killed and resumed, on a cluster, watched on a terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
SHAPE = (400, 300)
COMMAND = [sys.executable, "-m", "kronfill.cli", "complete"]
SIDES = ["--rows", "users.csv", "--cols", "items.csv", "--method", "rrmcex"]
KILLS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Parquet files in many row groups, side files, and the answer of the command in memory."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    sides = []
    for name, size in zip(("users", "items"), SHAPE, strict=True):
        side = pd.DataFrame(rng.random((size, 2)), columns=["x", "y"])
        side.rename_axis("id").to_csv(folder / f"{name}.csv")
        sides.append(side.to_numpy())
    i, j = np.nonzero(rng.random(SHAPE) < 0.5)
    y = np.sin(6 * sides[0][i, 0]) * np.cos(5 * sides[1][j, 1]) + 0.2 * rng.standard_normal(len(i))
    frame = pd.DataFrame({"user": i, "item": j, "stars": y}).sample(frac=1.0, random_state=0)
    frame.to_parquet(folder / "one.parquet", index=False)
    (folder / "big").mkdir()
    for k, at in enumerate(np.array_split(np.arange(len(frame)), 5)):
        part = frame.iloc[at]
        part.to_parquet(folder / "big" / f"{k}.parquet", row_group_size=1000, index=False)
    command = [*COMMAND, "one.parquet", *SIDES, "--mu", "0.1", "--intervals", "none", "-q"]
    subprocess.run([*command, "-o", "here.parquet"], cwd=folder, check=True)
    return folder


def values(path):
    return pd.read_parquet(path).sort_values(["user", "item"], ignore_index=True)


def killed(command, folder, wait):
    """Start a command and kill it so many seconds after it began to sort; False if it was done."""
    lock = folder / "work" / "lock"
    lock.unlink(missing_ok=True)
    process = subprocess.Popen(command, cwd=folder)
    while not lock.exists() and process.poll() is None:
        time.sleep(0.002)
    time.sleep(wait)
    if process.poll() is not None:
        assert process.returncode == 0
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return True


def test_a_killed_command_resumes_to_the_same_answer(folder):
    clean = [*COMMAND, "big", *SIDES, "-q", "-o", "clean.parquet"]
    subprocess.run(clean, cwd=folder, check=True)
    command = [*clean[:-1], "out.parquet", "--work-dir", "work", "--resume"]
    kills = 0
    for wait in np.linspace(0.0, 0.15, KILLS):
        kills += killed(command, folder, float(wait))
    assert kills > 0
    assert list((folder / "work").glob("by-*/journal.json"))
    subprocess.run(command, cwd=folder, check=True)
    there = values(folder / "out.parquet")
    assert there.equals(values(folder / "clean.parquet"))


DYING = """
import os, signal, sys

rename, left, end = os.replace, int(sys.argv.pop(1)), sys.argv.pop(1)


def dying(source, target):
    global left
    left -= str(target).endswith(end)
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)


os.replace = dying
from kronfill.cli import main

main()
"""


@pytest.mark.parametrize(
    ("count", "end"),
    [(1, "journal.json"), (1, ".values"), (0, "manifest.json"), (1, "fit.json"), (0, ".parquet")],
)
def test_no_file_of_a_killed_command_stays_behind(folder, tmp_path, count, end):
    """Killed when a file is written and not yet in its place, inside the folder or beside it."""
    files = {name: str(folder / name) for name in ("big", "users.csv", "items.csv")}
    arguments = [
        "complete", files["big"], "--rows", files["users.csv"], "--cols", files["items.csv"],
        "--method", "rrmcex", "--mu", "0.1", "-q", "-o", "out.parquet", "--save", "model.kf",
        "--work-dir", "work", "--resume",
    ]  # fmt: skip
    command = [sys.executable, "-c", DYING, str(count), end, *arguments]
    done = subprocess.run(command, cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert list(tmp_path.rglob("*.part"))
    assert not (tmp_path / "out.parquet").exists()
    subprocess.run([sys.executable, "-m", "kronfill.cli", *arguments], cwd=tmp_path, check=True)
    assert not list(tmp_path.rglob("*.part"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.kf", "out.parquet", "work"]


def test_partitions_of_a_killed_command_serve_the_next(folder):
    command = [*COMMAND, "big", *SIDES, "-q", "--mu", "0.1", "-o", "again.parquet"]
    subprocess.run([*command, "--work-dir", "work", "--resume"], cwd=folder, check=True)
    here, there = values(folder / "here.parquet"), values(folder / "again.parquet")
    assert there["status"].equals(here["status"])
    np.testing.assert_allclose(there["stars"], here["stars"], rtol=0, atol=1e-6)


def test_on_a_cluster_by_address(folder, tmp_path):
    distributed = pytest.importorskip("distributed", reason="needs Dask")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        where = ["--scheduler", cluster.scheduler_address, "--memory", "4GB", "--work-dir"]
        done = subprocess.run(
            [*COMMAND, "big", *SIDES, "--mu", "0.1", *where, str(tmp_path / "work"), "--resume",
             "-o", "cluster.parquet", "--save", "cluster.kf"],
            cwd=folder, check=True, capture_output=True, text=True,
        )  # fmt: skip
    assert "no status" in done.stderr
    assert "blocks on the cluster" in done.stderr
    here, there = values(folder / "here.parquet"), values(folder / "cluster.parquet")
    assert list(there.columns) == ["user", "item", "stars"]
    open_ = here["status"] != "observed"
    np.testing.assert_allclose(there["stars"][open_], here["stars"][open_], rtol=0, atol=1e-6)


def test_no_scheduler(folder):
    done = subprocess.run(
        [*COMMAND, "big", *SIDES, "--mu", "0.1", "--scheduler", "nothing://here"],
        cwd=folder, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert "No Dask scheduler answers at 'nothing://here'" in done.stderr


def test_progress_on_a_terminal(folder):
    """What a user sees while it runs: the number of the pass, partitions, the residual."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "big", *SIDES, "--mu", "0.1", "-o", "shown.parquet"],
        cwd=folder, stderr=terminal, stdout=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"},
    )  # fmt: skip
    os.close(terminal)
    seen = b""
    while True:
        try:
            data = os.read(screen, 65536)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(screen)
    assert process.wait() == 0
    shown = rb"Fitting RRMCEX to [0-9,]+ lines: pass [0-9]+, 0 of 1 partitions, residual [0-9.e-]+"
    assert re.search(shown, seen)

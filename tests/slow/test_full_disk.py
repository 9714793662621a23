"""A file system that is really full: an error, nothing lost, and the same answer with more room."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import kronfill as kf
from kronfill import cli
from kronfill.errors import StorageError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="file systems of Linux"),
]
N, M = 600, 120_000


def mount(where, size, *more):
    options = ",".join([*more, f"size={size}"])
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(where)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    where = tmp_path / "disk"
    where.mkdir()
    if os.geteuid() != 0 or not mount(where, "4k"):
        pytest.skip("may not mount a file system here")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    i, j = np.divmod(rng.choice(N * N, M, replace=False), N)
    path = tmp_path_factory.mktemp("table") / "t.parquet"
    pd.DataFrame({"i": i, "j": j, "y": np.sin(i / 90) * np.cos(j / 70)}).to_parquet(path)
    return path


def fitted(table, work):
    k = kf.kernels.rbf(np.linspace(0, 1, N), length_scale=0.2)
    solver = kf.Streamed(work_dir=work, checkpoint=0.0, tol=1e-10)
    return kf.KKMCEX(k, k, mu=0.1, solver=solver).fit(table).predict_matrix()


def test_every_size_too_small_is_an_error_and_room_is_all_it_takes(table, small_disk, tmp_path):
    wanted = fitted(table, tmp_path / "elsewhere")
    work, told = small_disk / "work", []
    for size in (8, 40, 200, 600, 1000, 1400, 1600, 1800, 2000, 2200, 2600, 3000, 3400, 3800):
        assert mount(small_disk, f"{size}k", "remount")
        try:
            got = fitted(table, work)
            break
        except StorageError as error:
            told.append(str(error))
        assert not list(small_disk.rglob("*.part"))
    assert len(told) >= 4
    assert all("full" in message for message in told)
    assert np.array_equal(got, wanted)


OUTPUTS = {
    "csv": ("out.csv", "out-details.csv", "report.html", "model.kf"),
    "parquet": ("out.parquet", "out-details.parquet", "report.html", "model.kf"),
    "xlsx": ("out.xlsx", "out-details.xlsx", "report.html", "model.kf"),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_all_outputs_of_a_command_or_none(small_disk, tmp_path, kind):
    """Sizes at which one output after the other is the first that does not fit."""
    rng = np.random.default_rng(0)
    values = rng.random((60, 40)).round(3)
    values[rng.random(values.shape) < 0.3] = np.nan
    pd.DataFrame(values).add_prefix("c").rename_axis("id").to_csv(tmp_path / "t.csv")
    names, sizes = OUTPUTS[kind], (8, 16, 32, 64, 128, 160, 200, 240, 280, 320, 400, 600, 1000)
    for name in names:
        (small_disk / name).write_bytes(b"")
    failed = []
    for size in sizes:
        assert mount(small_disk, f"{size}k", "remount")
        done = CliRunner().invoke(
            cli.app,
            ["complete", str(tmp_path / "t.csv"), "--method", "mc", "--mu", "1", "--rank", "2",
             "-o", str(small_disk / names[0]), "--report", str(small_disk / "report.html"),
             "--save", str(small_disk / "model.kf")],
        )  # fmt: skip
        assert {path.name for path in small_disk.iterdir()} == set(names)
        empty = [not (small_disk / name).stat().st_size for name in names]
        if done.exit_code == 0:
            break
        assert done.exit_code == 1, done.stderr
        assert all(empty)
        failed.append(done.stderr.splitlines()[-1])
    assert not any(empty)
    assert len(failed) >= 3
    assert all("the disk is full" in line for line in failed)
    assert len({line.split(" cannot")[0] for line in failed}) >= 2

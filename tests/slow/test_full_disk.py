"""A file system that is really full: an error, nothing lost, and the same answer with more room."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
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
    assert len(told) >= 4
    assert all("full" in message for message in told)
    assert np.array_equal(got, wanted)

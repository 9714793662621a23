"""The same streamed command gives the same files, whatever the process holds beside."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow
SIZE, M = 3000, 4_000_000

COMPLETE = """
import sys

import numpy as np

ballast = np.ones(int(sys.argv.pop(1)) // 8)
from kronfill.cli import main

main()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    for name in ("users", "items"):
        side = pd.DataFrame(rng.random((SIZE, 1)), columns=["x"])
        side.rename_axis("id").to_csv(folder / f"{name}.csv")
    codes = np.sort(rng.choice(SIZE * SIZE, M, replace=False))
    rows, cols = np.divmod(rng.permutation(codes), SIZE)
    table = pa.table({"user": rows, "item": cols, "stars": rng.standard_normal(M)})
    (folder / "big").mkdir()
    pq.write_table(table, folder / "big" / "t.parquet", row_group_size=500_000)
    table.select(["user", "item"]).slice(0, 10_000).to_pandas().to_csv(
        folder / "pairs.csv", index=False
    )
    return folder


def complete(folder, name, ballast, memory):
    done = subprocess.run(
        [sys.executable, "-c", COMPLETE, str(ballast), "complete", "big", "--rows",
         "users.csv", "--cols", "items.csv", "--mu", "0.1", "--pairs", "pairs.csv",
         "-o", f"{name}.csv", "--save", f"{name}.kf", *memory],
        cwd=folder, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr, [(folder / f"{name}.{end}").read_bytes() for end in ("csv", "kf")]


@pytest.mark.parametrize("memory", [(), ("--memory", "700MB")])
def test_ballast_changes_nothing(folder, memory):
    told, light = complete(folder, "light", 0, memory)
    assert complete(folder, "heavy", 60_000_000, memory)[1] == light
    assert ("in 1 partitions" in told) == (memory == ())

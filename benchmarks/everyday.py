"""The command line on a large table: ``python -m benchmarks.everyday``.

A million observations of a 20,000 x 5,000 table in a Parquet file, feature tables of both axes, a
million pairs to predict, a model and a report to write: seconds and peak memory of the command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.peers import keep

ROWS, COLS, M, PAIRS = 20_000, 5_000, 1_000_000, 1_000_000


def write_tables(folder: Path) -> None:
    """Ratings that depend on the features, on rows and columns of their own, and on chance."""
    rng = np.random.default_rng(0)
    kinds = np.array(["red", "green", "blue", "grey"])
    sides = []
    for name, count in (("user", ROWS), ("item", COLS)):
        z = rng.standard_normal((count, 4))
        frame = pd.DataFrame(z, columns=[f"x{k}" for k in range(4)])
        frame["kind"] = kinds[rng.integers(4, size=count)]
        frame.insert(0, name, [f"{name}{k}" for k in range(count)])
        frame.to_parquet(folder / f"{name}s.parquet")
        sides.append((z, frame[name].to_numpy()))
    (zw, rows), (zh, cols) = sides
    codes = rng.choice(ROWS * COLS, size=M + PAIRS, replace=False)
    i, j = np.divmod(codes, COLS)
    smooth = np.sin(zw[i, 0]) * np.cos(zh[j, 1]) + 0.3 * zw[i, 1] * zh[j, 0]
    own = 0.2 * rng.standard_normal(ROWS)[i] + 0.2 * rng.standard_normal(COLS)[j]
    value = 3 + smooth + own + 0.3 * rng.standard_normal(len(codes))
    frame = pd.DataFrame({"user": rows[i], "item": cols[j], "rating": value})
    frame[:M].to_parquet(folder / "ratings.parquet")
    frame[M:].reset_index(drop=True).to_parquet(folder / "held-out.parquet")
    frame.loc[M:, ["user", "item"]].to_parquet(folder / "pairs.parquet")


def command(folder: Path) -> list[str]:
    names = {
        "--rows": "users.parquet", "--cols": "items.parquet", "--pairs": "pairs.parquet",
        "-o": "filled.parquet", "--report": "report.html", "--save": "model.kf",
    }  # fmt: skip
    options = [part for name, file in names.items() for part in (name, str(folder / file))]
    start = [sys.executable, "-m", "kronfill.cli", "complete", str(folder / "ratings.parquet")]
    return [*start, *options]


def measure(folder: Path) -> dict:
    """Run the command as a child."""
    begun = time.perf_counter()
    child = subprocess.Popen(command(folder))
    _, status, used = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begun
    if status:
        raise SystemExit(f"The command ended with status {status}.")
    filled = pd.read_parquet(folder / "filled.parquet")
    truth = pd.read_parquet(folder / "held-out.parquet")["rating"]
    error = filled["rating"] - truth
    inside = truth.between(filled["lower"], filled["upper"])
    return {
        "observations": M, "pairs": len(filled), "shape": [ROWS, COLS],
        "seconds": round(seconds, 1), "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_gb": round(used.ru_maxrss * 1024 / 1e9, 2),
        "rmse": round(float(np.sqrt(np.mean(error**2))), 4),
        "covered": round(float(inside.mean()), 4),
    }  # fmt: skip


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        write_tables(Path(name))
        results = measure(Path(name))
    keep("everyday", results)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

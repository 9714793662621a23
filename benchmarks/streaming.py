"""In memory, streamed from disk and on Dask, side by side, for any number of observations.

    python -m benchmarks.streaming 1e6 1e7 1e8 3e8 --folder FOLDER

writes the Parquet files (once), runs each way in a process of its own and prints a table. Time is
from Parquet files to the fitted estimator. ``--ways streamed`` leaves the others out. Where the
table has two numbers, they are for passes in double and in single precision.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import clock, kernels
from benchmarks.problems import MU, THIN, Problem

FILE, GROUP = 4_000_000, 1_000_000
RESULTS = Path(__file__).parent / "results" / "streaming.json"
WAYS = ("memory", "streamed", "dask1", "dask2")


def problem_for(m: int) -> Problem:
    """Ranks near 60 x 60; 100,000 rows and columns from 10^8 observations on."""
    size = 3000 if m <= 10**6 else 10_000 if m <= 10**7 else 100_000
    return Problem(m, size, THIN)


def write(problem: Problem, folder: Path) -> None:
    """The observations of a problem, in random order, a file at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if (folder / "_complete").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, problem.m, FILE)):
        row, col = problem.cells(slice(first, min(first + FILE, problem.m)))
        y = problem.smooth(row, col)
        y += 0.1 * np.random.default_rng([2, number]).standard_normal(len(y))
        columns = {"row": row.astype(np.int32), "col": col.astype(np.int32), "y": y}
        pq.write_table(
            pa.table(columns), folder / f"{number:05d}.parquet", row_group_size=GROUP,
            use_dictionary=False, compression="none",
        )  # fmt: skip
    (folder / "_complete").touch()


def fit(problem: Problem, source, solver, values=None):
    import kronfill as kf

    return kf.KKMCEX(*kernels.make(problem), mu=MU, solver=solver).fit(source, values)


class Ticks:
    """When each iteration ended, in seconds from the start."""

    def __init__(self) -> None:
        self.begun, self.times = time.perf_counter(), []

    def __call__(self, iteration: int, residual: float) -> None:
        self.times.append(time.perf_counter() - self.begun)

    def summary(self) -> dict:
        """Seconds before the first pass, and of a pass."""
        passes = median(np.diff(self.times))
        return {"before_s": self.times[0] - passes, "pass_s": passes}


def result_of(est, ticks: Ticks) -> dict:
    entries = np.random.default_rng(5).integers(0, est.shape_[0], (1000, 2))
    return {
        "seconds": time.perf_counter() - ticks.begun, "iterations": est.n_iter_,
        "residual": est.solution_.residual, "checksum": float(est.predict(entries).sum()),
    } | ticks.summary()  # fmt: skip


def in_memory(problem: Problem, folder: Path, work: Path) -> dict:
    import pyarrow.parquet as pq

    import kronfill as kf

    ticks = Ticks()
    files = sorted(folder.glob("*.parquet"))
    rows, cols, values = (
        np.concatenate([pq.read_table(f, columns=[c]).column(c).to_numpy() for f in files])
        for c in ("row", "col", "y")
    )
    seen = kf.Observations(rows, cols, values, (problem.size, problem.size))
    est = fit(problem, seen, kf.PCG(callback=ticks))
    return result_of(est, ticks) | {"peak_gb": clock.peak()}


def streamed(problem: Problem, folder: Path, work: Path) -> dict:
    from kronfill.solvers import Streamed

    shutil.rmtree(work, ignore_errors=True)
    memory = "2.8GB"
    ticks = Ticks()
    with clocked() as passes:
        est = fit(problem, folder, Streamed(callback=ticks, work_dir=work, memory=memory))
    found = result_of(est, ticks) | {"peak_gb": clock.peak()}
    found["passes"] = [len(times) for times in passes]
    found["pass_s"] = typical(passes)
    files = sorted(work.rglob("*.inner"))
    found["bytes_per_pass"] = sum(path.stat().st_size for path in files)
    found["disk_gb_s"] = disk_speed(files)
    with clocked(lambda: evict(files)) as passes:
        fit(problem, folder, Streamed(work_dir=work, memory=memory))
    found["cold_pass_s"] = typical(passes)
    return found


@contextlib.contextmanager
def clocked(before=lambda: None):
    """Seconds of the passes in double and in single precision; ``before`` each of them."""
    from kronfill.streaming.streamed import StreamedSums

    plain, passes = StreamedSums.normal, ([], [])

    def normal(self, x, single=False):
        before()
        begun = time.perf_counter()
        found = plain(self, x, single)
        passes[single].append(time.perf_counter() - begun)
        return found

    StreamedSums.normal = normal
    try:
        yield passes
    finally:
        StreamedSums.normal = plain


def typical(passes) -> list[float]:
    return [median(times) for times in passes if times]


def on_dask(workers: int):
    def run(problem: Problem, folder: Path, work: Path) -> dict:
        import distributed

        from kronfill.solvers import Distributed

        with (
            distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            warm = problem_for(10**4)
            write(warm, work / "warm")
            fit(warm, work / "warm", Distributed(client))
            ticks = Ticks()
            est = fit(problem, folder, Distributed(client, callback=ticks))
            peaks = client.run(clock.peak)
            return result_of(est, ticks) | {"peak_gb": max(peaks.values())}

    return run


RUNS = {"memory": in_memory, "streamed": streamed, "dask1": on_dask(1), "dask2": on_dask(2)}


def evict(files: list[Path]) -> None:
    """Drop files from the page cache."""
    for path in files:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_speed(files: list[Path]) -> float:
    """GB/s of reading files that are not in the page cache, one after the other."""
    os.sync()
    evict(files)
    size, begun, buffer = 0, time.perf_counter(), bytearray(1 << 23)
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while read := file.readinto(buffer):
                size += read
    return size / (time.perf_counter() - begun) / 1e9


def warm_up(folder: Path) -> None:
    """Load what is compiled."""
    import kronfill as kf

    small = problem_for(10**4)
    write(small, folder / "warm")
    fit(small, folder / "warm", kf.solvers.Streamed())
    pairs, values = small.data()
    fit(small, pairs, kf.PCG(), values)


def child(way: str, m: int, folder: Path) -> None:
    warm_up(folder)
    clock.forget_peak()
    work = folder / f"work-{way}-{m}"
    found = RUNS[way](problem_for(m), folder / str(m), work)
    shutil.rmtree(work, ignore_errors=True)
    print(json.dumps({"way": way, "m": m} | found))


def cell(numbers: float | list[float], digits: int) -> str:
    """One number, or those for double and single precision."""
    several = numbers if isinstance(numbers, list) else [numbers]
    return " / ".join(f"{number:.{digits}f}" for number in several)


def result_from(way: str, m: int, done: subprocess.CompletedProcess) -> dict:
    """What a child last_words_of last; failures are results too."""
    with contextlib.suppress(IndexError, ValueError):
        return json.loads(done.stdout.splitlines()[-1])
    last = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    last = last.removeprefix("kronfill.errors.MemoryLimitError: ")
    return {"way": way, "m": m, "failed": last}


def table(rows: list[dict]) -> str:
    head = ("m", "way", "seconds", "before", "iterations", "a pass, s", "from disk, s", "GB/s",
            "disk GB/s", "peak GB")  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['m']:,} | {row['way']} | {row['failed']} |" + " |" * 7)
            continue
        cold, disk = row.get("cold_pass_s", []), row.get("disk_gb_s")
        rates = [row["bytes_per_pass"] / seconds / 1e9 for seconds in cold]
        lines.append(
            f"| {row['m']:,} | {row['way']} | {row['seconds']:.1f} | {row['before_s']:.1f} | "
            f"{row['iterations']} | {cell(row['pass_s'], 3)} | {cell(cold, 3)} | "
            f"{cell(rates, 2)} | {'' if not disk else f'{disk:.2f}'} | {row['peak_gb']:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sizes", nargs="+", type=lambda text: int(float(text)))
    parser.add_argument("--folder", type=Path, required=True, help="20 bytes per observation")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.ways[0], options.sizes[0], options.folder)
        return
    kept = json.loads(options.out.read_text()) if options.out.exists() else []
    rows = {(row["m"], row["way"]): row for row in kept}
    for m in options.sizes:
        write(problem_for(m), options.folder / str(m))
        for way in options.ways:
            command = [sys.executable, "-m", "benchmarks.streaming", str(m), "--child",
                       "--folder", str(options.folder), "--ways", way]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            rows[m, way] = result_from(way, m, done)
            ordered = [rows[key] for key in sorted(rows, key=lambda k: (k[0], WAYS.index(k[1])))]
            options.out.write_text(json.dumps(ordered, indent=1))
            print(table([rows[m, way]]).splitlines()[-1], flush=True)
    print(table(ordered))


if __name__ == "__main__":
    main()

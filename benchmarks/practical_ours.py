"""kronfill on one table of ``practical``, as a child process: one part of the measurement."""

from __future__ import annotations

import json
import re
import sys
import time
import warnings

import numpy as np

from benchmarks import clock
from benchmarks.practical_data import read
from benchmarks.practical_problems import CONSTANT, IDENTITY

MUS = (1.0, 0.1, 0.01)


def sides(table: dict) -> list:
    """What is known about both axes, as a user of ``complete`` would give it."""
    import pandas as pd

    return [
        pd.DataFrame(table[f"{name}_side"]).add_prefix("x")
        if table[f"{name}_kind"] == "features"
        else table[f"{name}_side"]
        for name in ("row", "col")
    ]


def kernels(table: dict) -> list:
    """Kernels with a constant and an identity part, as ``complete`` makes them."""
    import kronfill as kf

    found = []
    for side, n in zip(sides(table), table["shape"], strict=True):
        base = (
            kf.kernels.precomputed(side) if isinstance(side, np.ndarray) else kf.kernels.rbf(side)
        )
        parts = CONSTANT * kf.kernels.constant(n) + IDENTITY * kf.kernels.identity(n)
        found.append(base + parts)
    return found


def rmse(predicted: np.ndarray, table: dict) -> float:
    return float(np.sqrt(np.mean((predicted - table["y_test"]) ** 2)))


def fixed(table: dict) -> dict:
    """KKMCEX at several ridge weights: seconds, what was expected, iterations."""
    import kronfill as kf

    both, y = kernels(table), table["y"]
    rows = []
    kf.KKMCEX(*both, mu=1.0).fit(table["train"], y)  # compile or load first
    for mu in MUS:
        est = kf.KKMCEX(*both, mu=mu)
        found, _ = clock.measured(lambda est=est: est.fit(table["train"], y - y.mean()), repeats=1)
        done = est.solution_
        expected = re.search(rf"{done.solver} (\S+) s", done.reason)
        rows.append({
            "mu": mu, "seconds": found["seconds"], "peak_gb": found["peak_gb"],
            "solver": done.solver, "iterations": done.iterations, "residual": done.residual,
            "expected": float(expected[1]) if expected else None,
            "rmse": rmse(est.predict(table["test"]) + y.mean(), table),
        })  # fmt: skip
    return {"fits": rows}


def observations(table: dict):
    import kronfill as kf

    rows, cols = table["train"].T
    return kf.Observations(rows, cols, table["y"], table["shape"])


def completed(table: dict, method: str) -> dict:
    """``complete`` with everything chosen."""
    import kronfill as kf

    warm_up()
    begun = time.perf_counter()
    done = kf.complete(observations(table), *sides(table), method=method)
    seconds = time.perf_counter() - begun
    mu = getattr(done.model, "mu_", None)
    return {
        "seconds": seconds, "rmse": rmse(done.model.predict(table["test"]), table),
        "mu": None if mu is None else float(np.max(mu)), "peak_gb": clock.peak(),
        "method": type(done.model).__name__,
    }  # fmt: skip


def evaluated(table: dict) -> dict:
    """``evaluate`` of a completed table."""
    import kronfill as kf
    from kronfill.report import evaluate

    done = kf.complete(observations(table), *sides(table), method="kkmcex")
    begun = time.perf_counter()
    evaluate(done)
    return {"seconds": time.perf_counter() - begun}


def warm_up() -> None:
    """Load compiled code on a small table."""
    import kronfill as kf

    rng = np.random.default_rng(0)
    values = np.where(rng.random((60, 40)) < 0.8, rng.random((60, 40)), np.nan)
    kf.complete(values, np.eye(60), np.eye(40), method="kkmcex")


PARTS = {
    "fixed": fixed,
    "complete": lambda table: completed(table, "kkmcex"),
    "kmc": lambda table: completed(table, "kmc"),
    "evaluate": evaluated,
}


def main() -> None:
    warnings.simplefilter("ignore")
    print(json.dumps(PARTS[sys.argv[1]](read(sys.argv[2]))))


if __name__ == "__main__":
    main()

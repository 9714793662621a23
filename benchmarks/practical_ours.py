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
KNOWN = "entries"
"""The question about hidden entries of known rows and columns."""


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

    job = lambda: kf.complete(observations(table), *sides(table), method=method)  # noqa: E731
    done, seconds = timed(job, method)
    mu = getattr(done.model, "mu_", None)
    return {
        "seconds": seconds, "rmse": rmse(done.model.predict(table["test"]), table),
        "mu": None if mu is None else float(np.max(mu)), "peak_gb": clock.peak(),
        "method": type(done.model).__name__,
    }  # fmt: skip


def evaluated(table: dict) -> dict:
    """What ``kronfill evaluate`` and ``done.evaluate()`` do with the default method."""
    from kronfill.completion.judging.comparison import compare_methods

    problem = asked(table, "auto")
    found, seconds = timed(
        lambda: compare_methods(problem.compared(), problem.observations), "auto"
    )
    errors = {line["method"]: line["rmse"] for line in found.lines() if line["question"] == KNOWN}
    return {"seconds": seconds, "known": errors, "peak_gb": clock.peak()}


def folds(table: dict) -> dict:
    """What ``kronfill evaluate --method kkmcex`` does: folds of all kinds, everything chosen."""
    from kronfill.completion.judging.evaluation import cross_validate

    problem = asked(table, "kkmcex")
    found, seconds = timed(lambda: cross_validate(problem.prepared(), problem.observations))
    own = found.parts["known"].scores()[0].rmse
    return {"seconds": seconds, "known": {"KKMCEX": own}, "peak_gb": clock.peak()}


def tuned(table: dict) -> dict:
    """The weights of three parts of each kernel learned, then KKMCEX."""
    import kronfill as kf
    from kronfill.selection import KernelTuner

    families = [list(kernel.parts) for kernel in kernels(table)]
    tuner = KernelTuner(kf.KKMCEX(center="mean"), rows=families[0], cols=families[1])
    est, seconds = timed(lambda: tuner.fit(table["train"], table["y"]))
    return {
        "seconds": seconds, "rmse": rmse(est.predict(table["test"]), table),
        "steps": est.n_iter_, "mu": est.mu_, "peak_gb": clock.peak(),
    }  # fmt: skip


def asked(table: dict, method: str):
    """The problem that ``complete`` and ``kronfill evaluate`` make of a table."""
    from kronfill.completion.problem import CompletionProblem

    return CompletionProblem.of(observations(table), *sides(table), method)


def timed(job, method: str = "kkmcex") -> tuple:
    """What a job returns, and its seconds, once the compiled code of a method is loaded."""
    warm_up(method)
    begun = time.perf_counter()
    return job(), time.perf_counter() - begun


def warm_up(method: str) -> None:
    """Load compiled code on a small table."""
    import kronfill as kf

    rng = np.random.default_rng(0)
    values = np.where(rng.random((60, 40)) < 0.8, rng.random((60, 40)), np.nan)
    kf.complete(values, np.eye(60), np.eye(40), method=method)


def compiled(table: dict) -> dict:
    """Compile what has not been yet, and keep it: no part of any measurement."""
    for method in ("kkmcex", "kmc", "auto"):
        completed(table, method)
    return {}


PARTS = {
    "compiled": compiled,
    "fixed": fixed,
    "complete": lambda table: completed(table, "kkmcex"),
    "kmc": lambda table: completed(table, "kmc"),
    "default": lambda table: completed(table, "auto"),
    "evaluate": evaluated,
    "folds": folds,
    "tuner": tuned,
}


def main() -> None:
    warnings.simplefilter("ignore")
    print(json.dumps(PARTS[sys.argv[1]](read(sys.argv[2]))))


if __name__ == "__main__":
    main()

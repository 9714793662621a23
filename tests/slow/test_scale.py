"""Sizes at which a dense system is out of the question, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def measure(**problem):
    """Fit in a child process; ``benchmarks.scale`` checks the residual with the exact kernels."""
    spec = json.dumps({"repeats": 1, **problem})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", spec],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.parametrize("zipf", [False, True], ids=["uniform", "zipf"])
def test_a_million_observations(zipf):
    got = measure(m=1_000_000, size=3000, scales=[0.7, 0.2], zipf=zipf)
    assert got["solver"] == "PCG"
    assert got["true_residual"] <= 1e-6
    assert got["beyond_input_gb"] < 1.0
    assert got["iterations"] <= 30


def test_zipf_masks_take_at_most_twice_the_iterations():
    even, uneven = (
        measure(m=300_000, size=2000, scales=[0.2, 0.2], zipf=zipf)["iterations"]
        for zipf in (False, True)
    )
    assert uneven <= 2 * even


def test_ten_million_observations_in_little_memory():
    got = measure(m=10_000_000, size=10_000, scales=[0.7, 0.7])
    assert got["true_residual"] <= 1e-6
    assert got["beyond_input_gb"] < 1.2


def test_predictions_do_not_depend_on_threads(tmp_path):
    """The same seed gives the same bits with one thread and with two, in fresh processes."""
    script = (
        "import sys, numpy as np, kronfill as kf\n"
        "rng = np.random.default_rng(0)\n"
        "k = [kf.kernels.rbf(rng.random((n, 2)), length_scale=0.3) for n in (400, 300)]\n"
        "X = np.argwhere(rng.random((400, 300)) < 0.2)\n"
        "y = rng.standard_normal(len(X))\n"
        "est = kf.KKMCEX(*k, mu=0.1, solver=kf.PCG()).fit(X, y)\n"
        "mc = kf.MC((400, 300), rank=5, mu=1.0, solver=kf.ALS(start='gaussian')).fit(X, y)\n"
        "np.save(sys.argv[1], np.concatenate([est.dual_coef_, mc.W_.ravel()]))\n"
    )
    results = []
    for threads in ("1", "2"):
        out = tmp_path / f"{threads}.npy"
        env = {**os.environ, "NUMBA_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": "1"}
        subprocess.run([sys.executable, "-c", script, str(out)], check=True, env=env)
        results.append(out.read_bytes())
    assert results[0] == results[1]

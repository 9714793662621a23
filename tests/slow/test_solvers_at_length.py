"""Solvers against dense solves on random problems of some size; interrupts; memory of a child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kronfill.ridge.problem import fitted_at
from kronfill.ridge.solution import Status
from kronfill.solvers.auto import Auto
from kronfill.solvers.dense import Cholesky
from kronfill.solvers.dual_pcg import DualPCG
from kronfill.solvers.pcg import PCG

from ..oracles.dense import Case

pytestmark = pytest.mark.slow
SOLVERS = (PCG(tol=1e-10), PCG(tol=1e-10, dtype="float32"), DualPCG(tol=1e-10), Auto(tol=1e-10))


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would take many minutes
)
@given(
    shape=st.tuples(st.integers(1, 150), st.integers(1, 150)),
    ranks=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    m=st.integers(1, 5000),
    kind=st.sampled_from([None, None, "mean", "rows", "cols", "both"]),
    weighted=st.booleans(),
    ridges=st.tuples(st.sampled_from([0.0, 0.1, 2.0]), st.sampled_from([0.0, 0.1, 2.0])),
    log_mu=st.floats(-2, 2),
    seed=st.integers(0, 10_000),
)
def test_predictions_equal_dense_solves(shape, ranks, m, kind, weighted, ridges, log_mu, seed):
    m = min(m, shape[0] * shape[1])
    problem = Case(shape, ranks, m, kind, weighted, 10**log_mu, seed, ridges).build()
    expected = fitted_at(problem, Cholesky().solve(problem).dual)
    scale = np.abs(problem.sampled.values).max()
    for solver in SOLVERS:
        result = solver.solve(problem)
        told = result.solution
        if told.status in (Status.MAX_ITERATIONS, Status.STALLED):  # hard ones may, and say so
            assert not isinstance(solver, Auto)
            assert told.residual > 1e-10
            continue
        assert_allclose(fitted_at(problem, result.dual), expected, rtol=0, atol=1e-8 * scale)


INTERRUPTED = """
    import sys, numpy as np, kronfill as kf
    from threadpoolctl import threadpool_info
    rng = np.random.default_rng(0)
    k = kf.kernels.rbf(rng.random((2000, 2)), length_scale=0.1)
    X = np.argwhere(rng.random((2000, 2000)) < 0.05)
    y = rng.standard_normal(len(X))
    kf.KKMCEX(k, k, mu=1.0, solver=kf.PCG(tol=0.5)).fit(X, y)
    threads = [pool["num_threads"] for pool in threadpool_info()]
    def started(iteration, residual):
        if iteration == 2:
            print("started", flush=True)
    try:
        solver = kf.PCG(tol=1e-14, max_iter=100_000, callback=started)
        kf.KKMCEX(k, k, mu=1e-9, solver=solver).fit(X, y)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    est = kf.KKMCEX(k, k, mu=1.0).fit(X[:5000], y[:5000])
    assert est.solution_.converged
    assert [pool["num_threads"] for pool in threadpool_info()] == threads
    print("healthy", flush=True)
"""


def test_interrupt_leaves_the_process_healthy():
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    time.sleep(0.5)
    os.kill(child.pid, signal.SIGINT)
    out, _ = child.communicate(timeout=120)
    assert out == "interrupted\nhealthy\n"
    assert child.returncode == 0


PEAK = """
    import resource, numpy as np, kronfill as kf
    rng = np.random.default_rng(0)
    N, m = 5000, 3_000_000
    k = [kf.kernels.rbf(rng.random((N, 2)), length_scale=0.7) for _ in range(2)]
    X = np.column_stack(np.divmod(rng.choice(N * N, m, replace=False), N))
    y = rng.standard_normal(m)
    kf.KKMCEX(*k, mu=0.1).fit(X[:20_000], y[:20_000])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    est = kf.KKMCEX(*k, mu=0.1).fit(X, y)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((after - before) * 1024 / m)
"""


def test_bytes_for_each_observation():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PEAK)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 120  # the input has 24, the generator of the problem more

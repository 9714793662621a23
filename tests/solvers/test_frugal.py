"""Nothing of the size of the data times a rank, nor of the whole matrix, is ever allocated."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import kronfill as kf
from kronfill.core.grouping import Grouped
from kronfill.core.loops.tables import SparseTables
from kronfill.core.operator import SampledKronecker

N, L, M, A, B = 4000, 3000, 200_000, 20, 40


@pytest.fixture(scope="module")
def entries():
    rng = np.random.default_rng(0)
    return np.divmod(rng.choice(N * L, M, replace=False), L)


def allocated(job):
    """Most bytes allocated at a time, and how many blocks were left."""
    job()  # compiled, buffers made
    tracemalloc.start()
    before = len(tracemalloc.take_snapshot().traces)
    tracemalloc.reset_peak()
    job()
    peak = tracemalloc.get_traced_memory()[1]
    left = len(tracemalloc.take_snapshot().traces) - before
    tracemalloc.stop()
    return peak, left


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_operator(entries, dtype):
    rows, cols = entries
    rng = np.random.default_rng(1)
    p, q = rng.standard_normal((N, A)), rng.standard_normal((L, B))
    operator = SampledKronecker(p, q, Grouped.by(rows, cols, N), dtype)
    x, d = rng.standard_normal((A, B)), rng.standard_normal(M)
    for job, bound in (
        (lambda: operator.normal(x), 100 * 8 * A * B),
        (lambda: operator.scatter(d), 100 * 8 * A * B + 8 * M),
        (lambda: operator.sample(x), 100 * 8 * A * B + 2 * 8 * M),
    ):
        peak, left = allocated(job)
        assert peak < bound
        assert left < 50


def test_tables(entries):
    rows, cols = entries
    tables = SparseTables(Grouped.by(rows, cols, N), Grouped.by(cols, rows, L))
    rng = np.random.default_rng(1)
    left, right = rng.standard_normal((N, A)), rng.standard_normal((L, A))
    v = tables.products(left, right)
    for job in (lambda: tables.products(left, right), lambda: tables.sums(right, v, 0)):
        assert allocated(job)[0] < 3 * 8 * max(M, N * A)


def test_fit(entries):
    rng = np.random.default_rng(1)
    k, l = (kf.kernels.rbf(rng.random((n, 2)), length_scale=1.0) for n in (N, L))
    X, y = np.column_stack(entries), rng.standard_normal(M)
    peak, _ = allocated(lambda: kf.KKMCEX(k, l, mu=0.1).fit(X, y))
    factors = 8 * (N + L) * 64
    assert peak < 100 * M + 8 * factors  # N x L alone would be 480 bytes for each observation

"""Products with the kernel over the observed entries against the kernel itself."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.errors import MemoryLimitError
from kronfill.kernels.graphs import nodes as graphs
from kronfill.ridge import dual_operator as dualoperator
from kronfill.ridge.dual_operator import DualOperator
from kronfill.ridge.problem import Mask, RidgeProblem, Sampled
from kronfill.solvers.dual_pcg import DualPCG

SHAPE = (23, 17)


def kernel_of(kind, n, rng):
    if kind == "thin":
        return kf.kernels.linear(rng.standard_normal((n, 2)))
    if kind == "dense":
        return kf.kernels.matern(rng.random((n, 2)), length_scale=0.3, nu=0.5)
    if kind == "identity":
        return kf.kernels.rbf(rng.random((n, 2))) + 0.3 * kf.kernels.identity(n)
    chain = sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])
    return kf.kernels.diffusion(sp.csr_array(chain), t=1.5)


@pytest.fixture(autouse=True)
def large_graphs(monkeypatch):
    monkeypatch.setattr(graphs, "_DENSE_UP_TO", 4)


def problem(row, col, m, seed=0):
    rng = np.random.default_rng(seed)
    kernels = kernel_of(row, SHAPE[0], rng), kernel_of(col, SHAPE[1], rng)
    rows, cols = np.divmod(rng.choice(SHAPE[0] * SHAPE[1], m, replace=False), SHAPE[1])
    return RidgeProblem(*kernels, Sampled(Mask(rows, cols, SHAPE), rng.standard_normal(m)), 0.2)


def dense_kernel(given):
    rows, cols = given.sampled.rows, given.sampled.cols
    left, right = given.row_kernel.block(), given.col_kernel.block()
    return left[np.ix_(rows, rows)] * right[np.ix_(cols, cols)]


PAIRS = [
    (row, col)
    for row in ("thin", "dense", "identity", "graph")
    for col in ("thin", "dense", "identity", "graph")
    if (row, col) != ("graph", "graph")
]


@pytest.mark.parametrize(("row", "col"), PAIRS)
@pytest.mark.parametrize("m", [1, 40, 300])
def test_products_and_parts(row, col, m):
    given = problem(row, col, m)
    kbar = dense_kernel(given)
    operator = DualOperator(given.row_kernel, given.col_kernel, given.sampled.mask)
    d = np.random.default_rng(1).standard_normal(m)
    assert_allclose(operator @ d, kbar @ d, atol=1e-10)
    assert_allclose(operator.T @ d, kbar @ d, atol=1e-10)
    some = np.arange(m)[:: max(1, m // 7)]
    assert_allclose(operator.entries(some), kbar[:, some], atol=1e-10)
    assert_allclose(operator.corner(some[:2], some), kbar[np.ix_(some[:2], some)], atol=1e-10)
    if "graph" not in (row, col):
        assert_allclose(operator.diagonal(), np.diagonal(kbar), atol=1e-12)


@pytest.mark.parametrize(("row", "col"), PAIRS)
def test_solves_with_every_pair(row, col):
    given = problem(row, col, 200)
    expected = np.linalg.solve(dense_kernel(given) + 0.2 * np.eye(200), given.sampled.values)
    result = DualPCG(tol=1e-12).solve(given)
    assert result.solution.converged
    assert_allclose(result.dual, expected, atol=1e-9)


def test_grid_and_single_entries_agree(monkeypatch):
    given = problem("dense", "dense", 200)
    operator = DualOperator(given.row_kernel, given.col_kernel, given.sampled.mask)
    d = given.sampled.values
    by_grid = operator @ d
    monkeypatch.setattr(dualoperator, "DENSE_SHARE", 2.0)
    assert_allclose(operator @ d, by_grid, rtol=1e-12)


def test_two_large_graphs_are_refused():
    given = problem("graph", "graph", 50)
    with pytest.raises(MemoryLimitError, match="RRMCEX"):
        DualOperator(given.row_kernel, given.col_kernel, given.sampled.mask)


def test_one_thread_gives_the_same_bits():
    import numba

    given = problem("dense", "dense", 300)
    operator = DualOperator(given.row_kernel, given.col_kernel, given.sampled.mask)
    several = operator @ given.sampled.values
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        assert np.array_equal(operator @ given.sampled.values, several)
    finally:
        numba.set_num_threads(before)

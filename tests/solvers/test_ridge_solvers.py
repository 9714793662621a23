"""Every solver of the ridge problem against dense Kronecker algebra, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.errors import MemoryLimitError, ParameterError
from kronfill.ridge.problem import RidgeProblem, dual_residual, fitted_at
from kronfill.ridge.solution import Status
from kronfill.solvers.auto import Auto, as_solver
from kronfill.solvers.dense import Cholesky, GridEigen
from kronfill.solvers.dual_pcg import DualPCG
from kronfill.solvers.pcg import PCG
from kronfill.solvers.primal import PrimalDirect

from ..oracles.dense import Case, dense_solution

SOLVERS = {
    "cholesky": Cholesky(),
    "primal": PrimalDirect(),
    "pcg": PCG(tol=1e-12),
    "dual pcg": DualPCG(tol=1e-12),
    "auto": Auto(),
}
CASES = {
    "plain": Case((7, 5), (7, 5), 18),
    "singular kernels": Case((7, 5), (2, 3), 20),
    "wide": Case((3, 11), (3, 4), 17),
    "one row": Case((1, 9), (1, 4), 5),
    "one column": Case((8, 1), (3, 1), 6),
    "one observation": Case((4, 4), (4, 4), 1),
    "one entry": Case((1, 1), (1, 1), 1),
    "complete": Case((4, 3), (4, 3), 12),
    "weights": Case((6, 8), (4, 4), 25, weighted=True),
    **{
        f"{kind}{', weights' if weighted else ''}": Case(
            (9, 7), (9, 3), 30, kind=kind, weighted=weighted
        )
        for kind in ("mean", "rows", "cols", "both")
        for weighted in (False, True)
    },
    "effects of cold rows": Case((20, 4), (3, 4), 12, kind="both"),
    "effects of one row": Case((1, 6), (1, 3), 4, kind="both"),
    "effects of one observed row": Case((5, 1), (2, 1), 1, kind="rows"),
    **{
        f"identity {ridges}{', weights' if weighted else ''}{', ' + kind if kind else ''}": Case(
            (9, 7), (3, 2), 30, kind=kind, weighted=weighted, ridges=ridges
        )
        for ridges in ((0.5, 0.2), (0.3, 0.0), (0.0, 0.4))
        for weighted, kind in ((False, None), (True, None), (False, "mean"), (True, "both"))
    },
    "rows unknown": Case((6, 5), (0, 3), 20, ridges=(1.0, 0.0)),
    "both unknown": Case((6, 5), (0, 0), 20, ridges=(1.0, 2.0)),
    "identity of one row": Case((1, 9), (1, 2), 5, ridges=(0.5, 0.5)),
    "identity, one observation": Case((4, 3), (2, 2), 1, ridges=(0.5, 0.5)),
    "long effects": Case((3, 25), (3, 5), 40, kind="both"),
}


@pytest.fixture(params=CASES, ids=str)
def problem(request):
    return CASES[request.param].build()


@pytest.fixture(params=SOLVERS, ids=str)
def solver(request):
    return SOLVERS[request.param]


def effects_matrix(result, shape):
    if result.effects is None:
        return np.zeros(shape)
    return result.effects.outer(result.effects.row, result.effects.col)


def test_equals_dense_kronecker_algebra(solver, problem):
    result = solver.solve(problem)
    dual, function, effects = dense_solution(problem)
    size = np.abs(problem.sampled.values).max()  # d is of the size of y / mu at most
    assert_allclose(result.dual, dual, rtol=0, atol=1e-10 * size / problem.mu)
    if result.primal is not None:
        p = result.primal
        got = p.row.phi @ p.core @ p.col.phi.T
        assert_allclose(got, function, rtol=0, atol=1e-10 * size)
    assert_allclose(effects_matrix(result, problem.sampled.shape), effects, atol=1e-8)


@pytest.mark.parametrize(
    "solver",
    [PCG(tol=1e-11, dtype="float32"), DualPCG(tol=1e-12, rank=2)],
    ids=["single", "rank 2"],
)
@pytest.mark.parametrize(
    "name", ["plain", "weights", "both, weights", "identity (0.5, 0.2)", "one observation"]
)
def test_variants_equal_dense_kronecker_algebra(solver, name):
    problem = CASES[name].build()
    result = solver.solve(problem)
    size = np.abs(problem.sampled.values).max()
    assert_allclose(result.dual, dense_solution(problem)[0], rtol=0, atol=1e-9 * size / problem.mu)


def test_reports_a_small_measured_residual(solver, problem):
    solution = solver.solve(problem).solution
    assert solution.converged
    assert solution.residual <= 1e-10
    assert solution.status in (Status.EXACT, Status.CONVERGED)


def test_stationarity(solver, problem):
    """mu d = w (y - Z beta - f) and Z^T d = 0 at the optimum."""
    s = problem.sampled
    result = solver.solve(problem)
    rest = s.values - fitted_at(problem, result.dual)
    if result.effects is not None:
        rest -= result.effects.at(s.rows, s.cols)
        moment = s.effects.matrix().T @ result.dual
        assert_allclose(moment, 0, atol=1e-9)
    weights = 1.0 if s.weights is None else s.weights
    assert_allclose(problem.mu * result.dual, weights * rest, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    ranks=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    share=st.floats(0.05, 1.0),
    kind=st.sampled_from([None, "mean", "rows", "cols", "both"]),
    weighted=st.booleans(),
    log_mu=st.floats(-3, 2),
    seed=st.integers(0, 10_000),
)
def test_solvers_agree(shape, ranks, share, kind, weighted, log_mu, seed):
    m = max(1, round(share * shape[0] * shape[1]))
    problem = Case(shape, ranks, m, kind, weighted, 10**log_mu, seed).build()
    reference = Cholesky().solve(problem)
    fitted = fitted_at(problem, reference.dual)
    scale = np.abs(problem.sampled.values).max()
    for solver in (PrimalDirect(), PCG(tol=1e-10)):
        result = solver.solve(problem)
        assert_allclose(fitted_at(problem, result.dual), fitted, atol=1e-7 * scale)


def test_grid_equals_cholesky():
    for kind in (None, "mean", "both"):
        problem = Case((6, 4), (6, 4), 24, kind=kind).build()
        expected = Cholesky().solve(problem)
        got = GridEigen().solve(problem)
        assert_allclose(got.dual, expected.dual, atol=1e-11)
        assert got.solution.solver == "GridEigen"


def test_grid_refuses_missing_entries_and_weights():
    with pytest.raises(ParameterError, match="every entry observed"):
        GridEigen().solve(Case((6, 4), (6, 4), 20).build())
    with pytest.raises(ParameterError, match="with weights"):
        GridEigen().solve(Case((6, 4), (6, 4), 24, weighted=True).build())


@pytest.mark.parametrize("solver", [Cholesky(), GridEigen(), PrimalDirect()])
@pytest.mark.parametrize("mu", [1e-12, 1e-18, 1e-40])
def test_singular_kernel_with_tiny_mu_neither_crashes_nor_lies(solver, mu):
    """Kernels of rank one: the limit is the projection on constants, and the status says so."""
    base = Case((6, 4), (1, 1), 24).build()
    problem = RidgeProblem(base.row_kernel, base.col_kernel, base.sampled, mu)
    result = solver.solve(problem)
    shape = np.outer(base.row_kernel.phi[:, 0], base.col_kernel.phi[:, 0])
    v = shape[base.sampled.rows, base.sampled.cols]
    expected = v * (v @ base.sampled.values) / (v @ v)
    if result.primal is None:
        fitted = fitted_at(problem, result.dual)
    else:
        p = result.primal
        fitted = (p.row.phi @ p.core @ p.col.phi.T)[base.sampled.rows, base.sampled.cols]
    assert_allclose(fitted, expected, atol=1e-7)
    if result.solution.status is Status.RANK_DEFICIENT:
        assert result.solution.rank == 1
    else:
        assert result.solution.residual <= 1e-8


def test_auto_says_why():
    grid = Auto().solve(Case((6, 4), (6, 4), 24).build()).solution
    assert grid.solver == "GridEigen"
    assert "GridEigen" in grid.reason
    assert "18 observations" in Auto().solve(CASES["plain"].build()).solution.reason
    large = Auto().solve(Case((60, 50), (4, 3), 2000).build())
    assert "m = 2000 and ranks 4 x 3" in large.solution.reason
    assert large.solution.solver == "PrimalDirect"


def test_pcg_stops_and_says_so():
    problem = Case((60, 50), (60, 50), 1500, mu=1e-4).build()
    stopped = PCG(tol=1e-12, max_iter=3).solve(problem).solution
    assert stopped.status is Status.MAX_ITERATIONS
    assert stopped.iterations == 3
    assert stopped.residual == pytest.approx(
        dual_residual(problem, PCG(tol=1e-12, max_iter=3).solve(problem).dual), rel=1e-6
    )
    late = PCG(tol=1e-12, time_limit=1e-9).solve(problem).solution
    assert late.status is Status.TIME_LIMIT
    seen = []
    PCG(tol=1e-3, callback=lambda k, r: seen.append((k, r))).solve(problem)
    assert [k for k, _ in seen] == list(range(1, len(seen) + 1))


def test_pcg_measured_residual_is_the_true_one():
    problem = Case((40, 30), (12, 9), 600, mu=1e-3, weighted=True, kind="both").build()
    result = PCG(tol=1e-5).solve(problem)
    true = dual_residual(problem, result.dual)
    assert true <= 1e-5
    assert result.solution.residual == pytest.approx(true, rel=1e-3, abs=1e-9)


def test_zero_values_give_zero():
    base = CASES["plain"].build()
    sampled = type(base.sampled)(base.sampled.mask, np.zeros(base.sampled.m))
    for solver in SOLVERS.values():
        result = solver.solve(RidgeProblem(base.row_kernel, base.col_kernel, sampled, 1.0))
        assert not result.dual.any()


@pytest.mark.parametrize("bad", [{"tol": 0}, {"tol": 2.0}, {"max_iter": 0}, {"time_limit": 0}])
def test_pcg_refuses_bad_settings(bad):
    with pytest.raises(ParameterError, match="PCG"):
        PCG(**bad)


def test_what_does_not_fit_is_refused_with_the_number_and_an_alternative(monkeypatch):
    monkeypatch.setattr("kronfill.core.memory.available_memory", lambda: 1000)
    with pytest.raises(
        MemoryLimitError, match=r"18 observed entries needs .* kB, 1 kB are available.*PCG"
    ):
        Cholesky().solve(CASES["plain"].build())


def test_pcg_refuses_what_does_not_fit_before_it_starts(monkeypatch):
    monkeypatch.setattr("kronfill.core.memory.available_memory", lambda: 3_000)
    with pytest.raises(MemoryLimitError, match=r"PCG for 18 observations and ranks .* needs"):
        PCG().solve(CASES["plain"].build())


def test_unknown_solver():
    with pytest.raises(ParameterError, match="got 'magic'"):
        as_solver("magic")


@pytest.mark.parametrize("center", [None, "both"])
def test_a_complete_grid_with_a_singular_kernel_and_an_ordinary_mu_is_exact(center):
    points = np.random.default_rng(0).random((120, 2))
    kernel = kf.kernels.rbf(points, length_scale=0.7)  # largest eigenvalue 100, rank 60
    pairs = np.argwhere(np.ones((120, 120)))
    y = np.random.default_rng(1).standard_normal(len(pairs))
    grid = kf.KKMCEX(kernel, kernel, mu=0.1, center=center, solver=kf.GridEigen()).fit(pairs, y)
    assert grid.solution_.status.name == "EXACT"
    assert grid.solution_.residual < 1e-11
    by_pcg = kf.KKMCEX(kernel, kernel, mu=0.1, center=center, solver=kf.PCG(tol=1e-10))
    expected = by_pcg.fit(pairs, y).predict_matrix()
    np.testing.assert_allclose(grid.predict_matrix(), expected, atol=1e-8)

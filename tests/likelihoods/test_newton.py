"""Newton steps on weighted ridge solves against dense Newton in plain NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.errors import DataError, ParameterError
from kronfill.likelihoods.families import Bernoulli, Poisson
from kronfill.likelihoods.newton import Newton
from kronfill.likelihoods.posed import PosedLikelihood
from kronfill.ridge.problem import RidgeProblem, Sampled
from kronfill.ridge.solution import Status
from kronfill.solvers.auto import as_solver

N, L = 9, 7
RNG = np.random.default_rng(5)
ROW, COL = RNG.standard_normal((N, 2)), RNG.standard_normal((L, 2))
MASK = RNG.random((N, L)) < 0.7
MASK[3] = MASK[:, 2] = False
X = RNG.permutation(np.argwhere(MASK))
LATENT = np.sin(ROW[X[:, 0], 0]) + COL[X[:, 1], 0] * ROW[X[:, 0], 1]
LABELS = (RNG.random(len(X)) < 1 / (1 + np.exp(-2 * LATENT))).astype(float)
COUNTS = RNG.poisson(np.exp(0.8 * LATENT + 1)).astype(float)
WEIGHTS = RNG.uniform(0.3, 3.0, len(X))
OFFSET = RNG.uniform(-0.5, 0.5, len(X))


def kernels(identity=0.0):
    row, col = kf.kernels.rbf(ROW, length_scale=1.5), kf.kernels.rbf(COL, length_scale=1.5)
    if identity:
        return row + identity * kf.kernels.identity(N), col + identity * kf.kernels.identity(L)
    return row, col


def posed(family, y, identity=0.0, center=None, weights=WEIGHTS, offset=OFFSET):
    sampled = Sampled.of(*X.T, y, (N, L), weights, center)
    return PosedLikelihood(RidgeProblem(*kernels(identity), sampled, 1.0), family, offset)


def never_rises(history):
    return all(now <= before + 1e-13 * abs(before) for before, now in pairwise(history))


def dense_newton(problem, mu, steps=100):
    """Minimise over d (f = Kbar d) and the effects by plain Newton with halved steps."""
    s, family = problem.sampled, problem.likelihood
    row, col = (k.to_array() for k in (problem.problem.row_kernel, problem.problem.col_kernel))
    entry = row[np.ix_(s.rows, s.rows)] * col[np.ix_(s.cols, s.cols)]
    z = np.zeros((s.m, 0)) if s.effects is None else s.effects.matrix().toarray()
    features = np.hstack([np.linalg.cholesky(entry + 1e-13 * np.eye(s.m)), z])
    penalty = np.diag([mu] * s.m + [0.0] * z.shape[1])
    w = s.weights_or_ones
    x = np.zeros(features.shape[1])

    def objective(x):
        losses = family.losses(s.values, problem.known + features @ x)
        return w @ losses + 0.5 * x @ penalty @ x

    for _ in range(steps):
        g, h = family.derivatives(s.values, problem.known + features @ x)
        gradient = features.T @ (w * g) + penalty @ x
        step = np.linalg.lstsq(
            features.T @ ((w * h)[:, None] * features) + penalty, gradient, rcond=None
        )[0]
        t = 1.0
        while t > 1e-10 and objective(x - t * step) > objective(x):
            t /= 2
        x = x - t * step
    return problem.known + features @ x, objective(x)


@pytest.mark.parametrize("center", [None, "mean", "rows", "both"])
@pytest.mark.parametrize("mu", [3.0, 0.01])
def test_against_dense_newton_for_counts(center, mu):
    problem = posed(Poisson(), COUNTS + (center is not None), center=center)
    newton = Newton(problem, as_solver("auto"))
    at, solution = newton.solve(mu)
    eta, value = dense_newton(problem, mu)
    assert solution.status is Status.CONVERGED
    assert_allclose(newton.eta(at), eta, atol=1e-6)
    assert_allclose(at.objective, value, rtol=1e-9)


@pytest.mark.parametrize("identity", [0.0, 0.3])
@pytest.mark.parametrize(
    "solver", ["auto", kf.PCG(tol=1e-9), kf.DualPCG(tol=1e-9), kf.Cholesky(), kf.PrimalDirect()]
)
@pytest.mark.parametrize("center", [None, "mean"])
def test_every_solver_finds_the_same_minimum(solver, identity, center):
    problem = posed(Bernoulli(), LABELS, identity, center)
    newton = Newton(problem, as_solver(solver))
    at, solution = newton.solve(0.1)
    eta, value = dense_newton(problem, 0.1)
    assert solution.converged
    assert_allclose(newton.eta(at), eta, atol=1e-6)
    assert_allclose(at.objective, value, rtol=1e-9)
    assert never_rises(solution.history)
    rows, cols = np.array([3, 0, 8]), np.array([2, 2, 0])
    result = newton.result(at, solution)
    assert_allclose(result.dual, at.dual)
    full = newton.elsewhere(at, *X.T)
    assert_allclose(full, newton.eta(at) - OFFSET, atol=1e-9)
    assert np.isfinite(newton.elsewhere(at, rows, cols)).all()


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_the_objective_never_rises_even_from_far_away(size):
    """From a start at which a full step overshoots by far."""
    problem = posed(Poisson(), COUNTS * size, offset=None, weights=None)
    newton = Newton(problem, as_solver("auto"))
    there, _ = newton.solve(0.01)
    far = newton.solve(1e6)[0]
    at, solution = newton.solve(0.01, far)
    assert never_rises(solution.history)
    assert_allclose(at.objective, there.objective, rtol=1e-9)


def test_a_warm_start_at_the_solution_takes_no_step():
    newton = Newton(posed(Bernoulli(), LABELS, center="mean"), as_solver("auto"))
    at, _ = newton.solve(0.5)
    again, solution = newton.solve(0.5, at)
    assert solution.iterations <= 1
    assert_allclose(again.dual, at.dual, atol=1e-9)


def test_separable_labels_have_a_finite_answer():
    newton = Newton(posed(Bernoulli(), (LATENT > 0).astype(float), offset=None), as_solver("auto"))
    at, solution = newton.solve(1e-6)
    assert solution.converged
    assert np.isfinite(at.dual).all()


@pytest.mark.parametrize("center", ["mean", "rows", "cols", "both"])
def test_an_effect_without_a_finite_value_is_refused(center):
    zeros = np.zeros(len(X))
    with pytest.raises(DataError, match="would be infinite"):
        Newton(posed(Poisson(), zeros, center=center), as_solver("auto"))
    with pytest.raises(DataError, match="would be infinite"):
        Newton(posed(Bernoulli(), zeros + 1.0, center=center), as_solver("auto"))


def test_hidden_separation_of_two_way_effects_is_refused():
    """Two blocks with both labels everywhere; what lies between them has ones only."""
    table = np.array([[0, 1, 1, 1], [1, 0, 1, 1], [-1, -1, 0, 1], [-1, -1, 1, 0]])
    row, col = np.nonzero(table >= 0)
    sampled = Sampled.of(row, col, table[row, col].astype(float), (4, 4), None, "both")
    zero = kf.kernels.precomputed(np.zeros((4, 4)))
    problem = PosedLikelihood(RidgeProblem(zero, zero, sampled, 1.0), Bernoulli())
    with pytest.raises(DataError, match="no finite best value"):
        Newton(problem, as_solver("auto")).solve(1.0)


def test_a_solver_for_complete_tables_is_refused():
    with pytest.raises(ParameterError, match="GridEigen"):
        Newton(posed(Bernoulli(), LABELS), kf.GridEigen()).solve(1.0)


def test_larger_problems_in_factors(monkeypatch):
    """PCG at a loose tolerance for each step; the gradient is measured in the end."""
    rng = np.random.default_rng(0)
    row, col = (kf.kernels.rbf(rng.random((n, 2)), length_scale=0.7) for n in (90, 80))
    monkeypatch.setattr("kronfill.solvers.auto._least", lambda table: ("PCG", "as asked"))
    where = np.argwhere(rng.random((90, 80)) < 0.5)
    latent = 3 * np.sin(where[:, 0] / 9) * np.cos(where[:, 1] / 7)
    y = (rng.random(len(where)) < 1 / (1 + np.exp(-latent))).astype(float)
    sampled = Sampled.of(*where.T, y, (90, 80))
    problem = PosedLikelihood(RidgeProblem(row, col, sampled, 1.0), Bernoulli())
    found = []
    for solver in (kf.PCG(tol=1e-8), kf.PrimalDirect(), kf.Auto(tol=1e-8)):
        newton = Newton(problem, solver)
        at, solution = newton.solve(0.1)
        assert solution.converged
        assert never_rises(solution.history)
        found.append(newton.eta(at))
    assert_allclose(found[0], found[1], atol=1e-5)
    assert_allclose(found[2], found[1], atol=1e-5)

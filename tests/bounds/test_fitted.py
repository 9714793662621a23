"""Norms of fitted models: several ways to the same number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import kronfill as kf
from kronfill.bounds.fitted import mean_square
from kronfill.errors import ParameterError

B = kf.bounds


def psd(rng, n, rank):
    x = rng.normal(size=(n, rank))
    return x @ x.T / rank


def observed(rng, shape, m):
    rows, cols = np.divmod(rng.permutation(shape[0] * shape[1])[:m], shape[1])
    return kf.Observations(rows, cols, rng.uniform(-1, 1, m), shape)


@pytest.mark.parametrize("ranks", [(8, 6), (3, 3)])
def test_equations_4_5_and_6_give_one_matrix_and_one_norm(ranks):
    rng = np.random.default_rng(0)
    row, col = psd(rng, 8, ranks[0]), psd(rng, 6, ranks[1])
    obs, mu = observed(rng, (8, 6), 20), 0.1
    est = kf.KKMCEX(row, col, mu=mu).fit(obs)
    whole = np.kron(col, row)  # column-major vec
    take = obs.cols * 8 + obs.rows
    # Equation (4): over all N L coefficients, by its normal equations
    s = np.zeros((20, 48))
    s[np.arange(20), take] = 1
    d = np.linalg.lstsq(whole @ s.T @ s @ whole + mu * whole, whole @ s.T @ obs.values, rcond=1e-13)
    first = (whole @ d[0]).reshape(6, 8).T
    # Equation (5), which is a solution of (6) too
    kbar = whole[np.ix_(take, take)]
    dual = np.linalg.solve(kbar + mu * np.eye(20), obs.values)
    second = (whole[:, take] @ dual).reshape(6, 8).T
    sparse = np.zeros((8, 6))
    sparse[obs.rows, obs.cols] = dual
    assert_allclose(first, second, atol=1e-9)
    assert_allclose(second, row @ sparse @ col, atol=1e-12)
    assert_allclose(est.predict_matrix(), second, atol=1e-11)
    fitted = est.predict(obs)
    square = B.RKHSBall(row, col, 1.0).norm_of(est) ** 2
    assert_allclose(square, dual @ kbar @ dual, rtol=1e-9)
    assert_allclose(square, (obs.values - fitted) @ fitted / mu, rtol=1e-9)
    assert square <= obs.values @ obs.values / (4 * mu)


@pytest.mark.parametrize("size", [1e4, 1e8, 1e9])
def test_the_norm_of_a_large_dual_vector_is_not_lost_in_rounding(size):
    """At a small mu it is the residual over mu, and nearly all of d^T Kbar d is cancelled."""
    rng = np.random.default_rng(3)
    features = np.c_[np.ones(30), np.linspace(0, 1, 30)]
    kernel, obs = kf.kernels.linear(features), observed(rng, (30, 30), 450)
    est = kf.KKMCEX(kernel, kernel, mu=1.0, solver=kf.Cholesky()).fit(obs)
    norm, mean = B.RKHSBall(kernel, kernel, 1.0).norm_of(est), mean_square(est)
    # What is orthogonal to all products of features changes the dual vector, not the function.
    products = np.einsum("ka,kb->kab", features[obs.rows], features[obs.cols]).reshape(450, 4)
    basis = np.linalg.qr(products)[0]
    silent = rng.standard_normal(450)
    for _ in range(2):
        silent -= basis @ (basis.T @ silent)
    core = est._model.core.copy()
    core[obs.rows, obs.cols] += size * silent
    est._model = replace(est._model, core=core)
    assert_allclose(B.RKHSBall(kernel, kernel, 1.0).norm_of(est), norm, rtol=1e-4)
    assert_allclose(mean_square(est), mean, rtol=1e-4)


@pytest.mark.parametrize("solver", [kf.Cholesky(), kf.PrimalDirect(), kf.PCG(tol=1e-12)])
def test_the_norm_does_not_depend_on_the_solver(solver, smooth):
    problem = smooth()
    train, _ = problem.split(300, seed=1)
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.1, solver=solver).fit(train)
    ball = B.RKHSBall(problem.kernel, problem.kernel, 1.0)
    assert_allclose(ball.norm_of(est) ** 2, est.dual_coef_ @ est.predict(train), rtol=1e-6)


def test_the_norm_of_rrmcex_is_that_of_its_coefficients(smooth):
    problem = smooth()
    train, _ = problem.split(300, seed=1)
    est = kf.RRMCEX(problem.kernel, problem.kernel, row_rank=4, col_rank=5, mu=0.1).fit(train)
    ball = B.RKHSBall(problem.kernel, problem.kernel, 1.0)
    assert_allclose(ball.norm_of(est), np.linalg.norm(est.coef_), rtol=1e-10)


@pytest.mark.parametrize("kind", ["full", "wide", "deficient"])
def test_kmc_and_imc_are_one_method_with_one_norm(kind):
    """No rank condition on the features is needed."""
    rng = np.random.default_rng(1)
    width = {"full": (5, 4), "wide": (15, 13), "deficient": (5, 4)}[kind]
    a, b = rng.normal(size=(12, width[0])), rng.normal(size=(10, width[1]))
    if kind == "deficient":
        a[:, -1], b[:, -1] = a[:, 0], b[:, 1]
    obs = observed(rng, (12, 10), 60)
    settings = {"rank": 3, "mu": 0.5, "solver": kf.ALS(sweeps=800, tol=1e-15)}
    kmc = kf.KMC(a @ a.T, b @ b.T, **settings).fit(obs)
    imc = kf.IMC(a, b, **settings).fit(obs)
    assert_allclose(kmc.predict_matrix(), imc.predict_matrix(), atol=5e-7)
    fitted = imc.predict(obs)
    square = (obs.values - fitted) @ fitted / 0.5
    ball = B.IMCBall(a, b, 1.0, 1.0)
    assert_allclose(np.linalg.norm(imc.row_coef_) ** 2, square, rtol=1e-7)
    assert_allclose(np.linalg.norm(imc.col_coef_) ** 2, square, rtol=1e-7)
    assert_allclose(ball.norm_of(imc), square, rtol=1e-7)
    assert_allclose(ball.norm_of(kmc), square, rtol=1e-7)
    penalties = B.KMCBall(a @ a.T, b @ b.T, 1.0).norm_of(kmc)
    assert_allclose(penalties, 2 * square, rtol=1e-7)
    assert B.RKHSBall(a @ a.T, b @ b.T, 1.0).norm_of(imc) <= ball.norm_of(imc) * (1 + 1e-12)
    core = imc.row_coef_ @ imc.col_coef_.T
    assert_allclose(ball.norm_of(imc), np.linalg.norm(core, "nuc"), rtol=1e-9)


def test_the_norm_of_mc_is_the_nuclear_norm_without_effects():
    rng = np.random.default_rng(2)
    obs = observed(rng, (9, 7), 40)
    for center in (None, "both"):
        est = kf.MC(rank=3, mu=0.1, center=center).fit(obs)
        found = B.NuclearBall((9, 7), 1.0).norm_of(est)
        assert_allclose(found, np.linalg.norm(est.W_ @ est.H_.T, "nuc"), rtol=1e-9)


def test_a_model_of_another_kind_is_refused(smooth):
    problem = smooth()
    train, _ = problem.split(50, seed=1)
    est = kf.KKMCEX(problem.kernel, problem.kernel, mu=1.0, solver=kf.Cholesky()).fit(train)
    with pytest.raises(ParameterError, match="judge it in the RKHSBall"):
        B.NuclearBall((30, 30), 1.0).norm_of(est)
    with pytest.raises(ParameterError, match="must be a fitted MC, KMC"):
        B.NuclearBall((30, 30), 1.0).norm_of(np.eye(3))


@pytest.mark.parametrize("seed", [0, 1])
def test_suprema_are_found_by_numerical_maximisation(seed):
    """The class is searched over its own parameters, with its own constraint."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(5, 3)), rng.normal(size=(4, 2))
    sigma = rng.choice([-1.0, 0.0, 1.0], size=(5, 4))
    row, col = a @ a.T, b @ b.T
    obs = np.divmod(rng.permutation(20)[:6], 4)

    def imc(x):
        left, right = x[:6].reshape(3, 2), x[6:].reshape(2, 2)
        left = left * np.sqrt(2.0) / np.linalg.norm(left)
        right = right * np.sqrt(3.0) / np.linalg.norm(right)
        return float(np.sum(sigma * (a @ left @ right.T @ b.T)))

    def kmc(x):
        left, right = x[:10].reshape(5, 2), x[10:].reshape(4, 2)
        size = np.trace(left.T @ row @ left) + np.trace(right.T @ col @ right)
        return float(np.sum(sigma * (row @ left @ right.T @ col)) * 1.7 / size)

    def ball(x):
        d = x.reshape(5, 4)
        norm = np.sqrt(np.sum(d * (row @ d @ col)))
        return float(np.sum(sigma * (row @ d @ col)) * 0.9 / norm)

    def span(x):
        d = np.zeros((5, 4))
        d[obs] = x
        return ball(d.ravel())

    cases = [
        (imc, 10, B.IMCBall(a, b, 2.0, 3.0)),
        (kmc, 18, B.KMCBall(row, col, 1.7)),
        (ball, 20, B.RKHSBall(row, col, 0.9)),
        (span, 6, B.TrainingSpan(row, col, 0.9, obs)),
    ]
    for function, size, hypothesis in cases:
        best = max(
            -minimize(lambda x, f=function: -f(x), rng.normal(size=size), tol=1e-13).fun
            for _ in range(6)
        )
        exact = hypothesis.supremum(sigma)
        assert best <= exact * (1 + 1e-9)
        assert_allclose(best, exact, rtol=1e-7)


@pytest.mark.parametrize("r", [0.01, 0.05, 0.2, 50.0])
def test_the_ball_cut_to_a_size_is_searched_too(r):
    """Maximise sum sigma F over norm at most b and mean of F^2 over the matrix at most r."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(5, 3)), rng.normal(size=(4, 2))
    sigma = rng.choice([-1.0, 0.0, 1.0], size=(5, 4))
    slope = (a.T @ sigma @ b).ravel()
    gram = np.kron(a.T @ a, b.T @ b)
    limits = (
        {"type": "ineq", "fun": lambda x: 0.81 - x @ x, "jac": lambda x: -2 * x},
        {"type": "ineq", "fun": lambda x: r - x @ gram @ x / 20, "jac": lambda x: -gram @ x / 10},
    )
    found = minimize(
        lambda x: -slope @ x, 0.01 * slope, jac=lambda x: -slope, constraints=limits,
        method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    local = B.LocalBall(B.RKHSBall(a @ a.T, b @ b.T, 0.9), r)
    assert_allclose(local.supremum(sigma), -found.fun, rtol=1e-5)


def test_the_fitted_size_is_that_of_the_matrix(smooth):
    problem = smooth()
    train, _ = problem.split(300, seed=1)
    for solver in (kf.Cholesky(), kf.PrimalDirect()):
        est = kf.KKMCEX(problem.kernel, problem.kernel, mu=0.1, solver=solver).fit(train)
        assert_allclose(mean_square(est), np.mean(est.predict_matrix() ** 2), rtol=1e-9)
    centred = kf.KMC(problem.kernel, problem.kernel, rank=3, mu=0.1, center="both").fit(train)
    assert_allclose(mean_square(centred), np.mean((centred.W_ @ centred.H_.T) ** 2), rtol=1e-9)

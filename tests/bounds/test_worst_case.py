"""Worst case in the class: for a linear loss the supremum over the ball is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf

B = kf.bounds
SPLITS = 3000


def suprema(kernel, m, seed):
    """sup over the unit ball of sum g F = ||Psi^T g|| for random splits."""
    phi = kernel.factor().phi
    n = len(phi)
    entries = n * n
    rng = np.random.default_rng(seed)
    out = np.empty(SPLITS)
    for t in range(SPLITS):
        g = np.full(entries, 1.0 / (entries - m))
        g[rng.permutation(entries)[:m]] = -1.0 / m
        out[t] = np.linalg.norm(phi.T @ g.reshape(n, n) @ phi)
    return out


@pytest.mark.parametrize(
    ("m", "law", "known"),
    [(200, "sub", (0.0973, 0.141, 0.141, 0.2)), (40, "eyp", (0.162, 0.316, 0.236, 0.556))],
)
def test_the_complexity_is_within_a_factor_of_the_worst_member(m, law, known):
    kernel = kf.kernels.rbf(np.linspace(0, 1, 20), length_scale=0.1)
    split = B.Split.of(np.divmod(np.arange(m), 20), shape=(20, 20))
    ball = B.RKHSBall(kernel, kernel, 1.0)
    found = suprema(kernel, m, seed=0)
    values = {law: ball.complexity(split, law).value for law in ("sub", "eyp", "paper")}
    assert_allclose(list(values.values()), known[1:], rtol=5e-3)
    assert_allclose(found.mean(), known[0], rtol=0.02)
    sizes = split.sizes
    # Exactly: E ||Psi^T g||^2 = q / (n - 1) (Tr K - 1^T K 1 / n)
    whole = kernel.to_array().sum() ** 2 / 400
    assert_allclose(np.mean(found**2), sizes.q / 399 * (400 - whole), rtol=0.02)
    # What is left of slack is the factor sqrt(2) of symmetrisation.
    assert 0.65 < found.mean() / values[law] < 0.72
    assert found.mean() <= min(values["sub"], values["eyp"] + sizes.q * sizes.mean_deviation)
    assert found.mean() / values["paper"] < 0.5


def test_the_whole_bound_holds_at_its_level_and_is_not_vacuous():
    kernel = kf.kernels.rbf(np.linspace(0, 1, 20), length_scale=0.2)
    split = B.Split.of(np.divmod(np.arange(200), 20), shape=(20, 20))
    ball = B.RKHSBall(kernel, kernel, 1.0)
    # |F| <= 1 on the unit ball, so on it the absolute loss for values of 1 is linear: 1 - F
    bound = B.theorem_a(ball, split, B.Absolute(clip=(-1, 1)), delta=0.05)
    found = suprema(kernel, 200, seed=1)
    assert np.quantile(found, 0.95) <= bound.value
    assert bound.value < 4 * np.quantile(found, 0.95)
    assert_allclose(bound.value, 0.387, atol=0.004)
    cited = B.theorem_1(ball, split, B.Absolute(clip=(-1, 1))).corrected
    assert cited.value > 2 * bound.value


def test_theorem_b_holds_for_the_worst_function_of_every_norm():
    """The supremum over the ball of the gap of the square loss is a trust-region problem."""
    rng = np.random.default_rng(3)
    kernel = kf.kernels.rbf(np.linspace(0, 1, 12), length_scale=0.3)
    phi = kernel.factor().phi
    psi = np.einsum("ia,jb->ijab", phi, phi).reshape(144, -1)
    values = np.clip(psi @ rng.normal(size=psi.shape[1]) * 0.5, -1, 1)
    ratios = {b: [] for b in (0.3, 5.0, 100.0)}
    for _ in range(25):
        order = rng.permutation(144)
        train = order[:60]
        split = B.Split.of(np.divmod(train, 12), shape=(12, 12))
        g = np.full(144, 1.0 / 84)
        g[train] = -1.0 / 60
        quad, lin = psi.T @ (g[:, None] * psi), -psi.T @ (g * values)
        for b, found in ratios.items():
            exact = float(g @ values**2) + largest_on_sphere(quad, lin, b)
            bound = B.theorem_b(B.RKHSBall(kernel, kernel, b), split, value_max=1.0)
            assert exact <= bound.value
            assert_allclose(bound.value, sum(bound.terms.values()))
            found.append(exact / bound.value)
        top = np.linalg.eigvalsh(quad)[-1]
        assert_allclose(bound.terms["curvature"], 1e4 * max(top, 0), rtol=1e-6)
    assert np.mean(ratios[100.0]) > 0.8  # the curvature term is exact
    assert np.mean(ratios[5.0]) > 0.2


def largest_on_sphere(quad, lin, b):
    """Maximum of x^T Q x + 2 l^T x over ||x|| <= b, by the secular equation."""
    lam, vec = np.linalg.eigh(quad)
    coef = vec.T @ lin
    low = max(lam[-1], 0.0)

    def norm(shift):
        return np.linalg.norm(coef / (shift - lam))

    high = low + np.linalg.norm(lin) / b + 1e-12
    step = low + 1e-14 * max(1.0, abs(high))
    for _ in range(200):
        middle = 0.5 * (step + high)
        step, high = (middle, high) if norm(middle) > b else (step, middle)
    x = coef / (high - lam)
    return float(lam @ x**2 + 2 * coef @ x)


@pytest.mark.parametrize("excluded", [0, 9])
def test_lambda_of_a_grid_equals_the_dense_one(excluded):
    rng = np.random.default_rng(4)
    row, col = rng.normal(size=(14, 6)), rng.normal(size=(11, 5))
    flat = rng.permutation(154)
    train, left, test = flat[:40], flat[40 : 40 + excluded], flat[40 + excluded :]
    grid = B.Split.of(np.divmod(train, 11), shape=(14, 11), without=np.divmod(left, 11))
    listed = B.Split.of(np.divmod(train, 11), np.divmod(test, 11), shape=(14, 11))
    psi = np.einsum("ia,jb->ijab", row, col).reshape(154, -1)
    g = np.zeros(154)
    g[train], g[test] = -1 / 40, 1 / len(test)
    exact = np.linalg.eigvalsh(psi.T @ (g[:, None] * psi))[-1]
    ball = B.RKHSBall(row @ row.T, col @ col.T, 1.0)
    for split in (grid, listed):
        found = B.theorem_b(ball, split, 1.0).terms["curvature"]
        assert_allclose(found, exact, rtol=1e-9)

"""The loop of conjugate gradients against dense solves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kronfill.errors import ConvergenceWarning
from kronfill.ridge.system import NormalMap
from kronfill.solvers.cg import conjugate_gradients
from kronfill.uncertainty.iterative import solve_many


def system(n, seed=0):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((n, n))
    return half @ half.T + 0.5 * np.eye(n), rng


def until(tol):
    def leave(which, descent, sound):
        return ~sound | (descent.energy() <= tol**2 * descent.initial)

    return leave


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 12), count=st.integers(1, 5), seed=st.integers(0, 99))
def test_every_right_hand_side_is_solved(n, count, seed):
    a, rng = system(n, seed)
    rhs = rng.standard_normal((count, n))
    rhs[0] = 0.0  # nothing to do: it leaves at once
    precondition = 1 / np.diag(a)
    x = conjugate_gradients(lambda p: p @ a, lambda r: r * precondition, rhs.copy(), until(1e-12))
    assert_allclose(x, np.linalg.solve(a, rhs.T).T, atol=1e-8)


def test_together_is_the_same_as_one_by_one():
    a, rng = system(9)
    rhs = np.linalg.eigh(a)[1][:4] * rng.standard_normal((4, 1))  # of very different difficulty
    rhs[0] = a[0]
    rhs = rhs.reshape(4, 3, 3)

    def times(p):
        return (p.reshape(-1, 9) @ a).reshape(p.shape)

    together = conjugate_gradients(times, np.copy, rhs.copy(), until(1e-10))
    alone = [conjugate_gradients(times, np.copy, one[None].copy(), until(1e-10)) for one in rhs]
    assert_allclose(together, np.concatenate(alone), atol=1e-9)


def test_the_error_falls_with_every_step():
    a, rng = system(15)
    b = rng.standard_normal((1, 15))
    truth = np.linalg.solve(a, b[0])
    errors = [truth @ a @ truth]

    def leave(which, descent, sound):
        gap = truth - descent.x[0]
        errors.append(gap @ a @ gap)
        return np.array([len(errors) > 12])

    conjugate_gradients(lambda p: p @ a, np.copy, b.copy(), leave)
    assert np.all(np.diff(errors) < 0)


def test_a_direction_without_curvature_is_not_sound():
    seen = []

    def leave(which, descent, sound):
        seen.append(sound.copy())
        return ~sound

    x = conjugate_gradients(lambda p: -p, np.copy, np.ones((2, 3)), leave)
    assert_array_equal(x, 0.0)
    assert not np.any(seen)


class Dense(NormalMap):
    """A matrix without a preconditioner."""

    def __init__(self, matrix):
        self.matrix = matrix

    def normal(self, x):
        return x @ self.matrix

    def precondition(self, r, mu):
        return r / mu

    def expected_norm(self, r):
        return np.linalg.norm(r, axis=1)


def test_solve_many_says_what_it_did_not_reach():
    a, rng = system(30)
    rhs = rng.standard_normal((3, 30))
    kept = rhs.copy()
    x = solve_many(Dense(a), 0.1, rhs, tol=1e-12)
    assert_allclose(x, np.linalg.solve(a + 0.1 * np.eye(30), rhs.T).T, atol=1e-8)
    assert_array_equal(rhs, kept)
    with pytest.warns(ConvergenceWarning, match="3 of 3 solves for a variance did not reach"):
        solve_many(Dense(a), 0.1, rhs, tol=1e-12, max_iter=3)

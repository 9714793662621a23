"""The paper's solver of KMC: the same iterates as the plain algorithm, whatever is saved."""

from __future__ import annotations

from dataclasses import replace

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kronfill.core.loops.passes import FAST
from kronfill.core.loops.rowwise_ridge import CHUNK, augmented_gram, cholesky_solve
from kronfill.ridge.problem import Mask, Sampled
from kronfill.solvers.alternating import alternate
from kronfill.solvers.row_wise import (
    BLOCK,
    RowWise,
    RowWiseAlternation,
    _Penalty,
    inverse_kernel,
)

MU = 0.05


@numba.njit(fastmath=FAST)
def blocked_sweep(w, h, inverse, indptr, inner, weights, values, mu):
    """The sweep without anything beside it; each sum in the order that the solver keeps to."""
    n, p = w.shape
    buffer = np.empty((CHUNK, p + 1))
    g, part = np.empty((p + 1, p + 1)), np.empty((p + 1, p + 1))
    pulls, before = np.empty((BLOCK, p)), np.empty((BLOCK, p))
    for first in range(0, n, BLOCK):
        last = min(first + BLOCK, n)
        np.dot(inverse[first:last], w, pulls[: last - first])
        before[: last - first] = w[first:last]
        for i in range(first, last):
            pull = pulls[i - first]
            for other in range(first, i):
                k = inverse[i, other]
                for a in range(p):
                    pull[a] += k * (w[other, a] - before[other - first, a])
            for a in range(p):
                pull[a] -= inverse[i, i] * w[i, a]
            if indptr[i] == indptr[i + 1]:
                for a in range(p):
                    w[i, a] = -pull[a] / inverse[i, i]
                continue
            span = (indptr[i], indptr[i + 1])
            augmented_gram(h, values, inner, weights, span, buffer, part, g)
            for a in range(p):
                g[a, a] += mu * inverse[i, i]
                g[p, a] -= mu * pull[a]
            cholesky_solve(g, p)
            for a in range(p):
                w[i, a] = g[p, a]


def blocked(problem, w, h):
    """W and H after a sweep by :func:`blocked_sweep`."""
    s = problem.sampled
    w, h = w.copy(), h.copy()
    turns = (
        (w, h, problem.inverses[0], s.mask.by_rows),
        (h, w, problem.inverses[1], s.mask.by_cols),
    )
    for moving, fixed, inverse, to in turns:
        values = s.values[to.order]
        blocked_sweep(moving, fixed, inverse, to.indptr, to.inner, to.weights, values, problem.mu)
    return w, h


def obvious(problem, w, h):
    """W and H after a sweep, by the formula: one dense system per row."""
    s = problem.sampled
    weights = np.ones(s.m) if s.weights is None else s.weights
    w, h = w.copy(), h.copy()
    for moving, fixed, inverse, mine, theirs in (
        (w, h, problem.inverses[0], s.rows, s.cols),
        (h, w, problem.inverses[1], s.cols, s.rows),
    ):
        for i in range(len(moving)):
            at = np.flatnonzero(mine == i)
            seen = fixed[theirs[at]]
            gram = seen.T @ (weights[at, None] * seen) + problem.mu * inverse[i, i] * np.eye(
                w.shape[1]
            )
            pull = np.delete(inverse[i], i) @ np.delete(moving, i, axis=0)
            moving[i] = np.linalg.solve(
                gram, seen.T @ (weights[at] * s.values[at]) - problem.mu * pull
            )
    return w, h


def objective(problem, w, h):
    s = problem.sampled
    rest = s.values - np.sum(w[s.rows] * h[s.cols], axis=1)
    loss = np.sum(rest**2 * (1.0 if s.weights is None else s.weights))
    penalty = sum(np.sum(f * (k @ f)) for f, k in zip((w, h), problem.inverses, strict=True))
    return loss + problem.mu * penalty


def make(shape, rank, m, *, weighted=False, seed=0):
    """A problem with smooth kernels, and where to start."""
    rng = np.random.default_rng(seed)
    inverses = []
    for size in shape:
        gap = np.subtract.outer(np.arange(size), np.arange(size))
        inverses.append(inverse_kernel(np.exp(-np.abs(gap) / 5.0), "row_kernel"))
    rows, cols = np.divmod(rng.choice(shape[0] * shape[1], size=m, replace=False), shape[1])
    weights = rng.uniform(0.2, 3.0, m) if weighted else None
    sampled = Sampled(Mask(rows, cols, shape, weights), rng.standard_normal(m), None)
    problem = RowWiseAlternation(tuple(inverses), sampled, MU, rng.random((shape[0], rank)))
    return problem, rng.random((shape[1], rank))


SHAPES = [
    ((1, 1), 1, 1),
    ((1, 6), 2, 4),
    ((7, 3), 3, 1),
    ((BLOCK, BLOCK + 1), 3, 200),
    ((2 * BLOCK + 9, 40), 30, 900),
    ((400, 100), 30, 300),  # most rows are empty
]


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize(("shape", "rank", "m"), SHAPES)
def test_iterates_are_those_of_the_plain_sweep_bit_for_bit(shape, rank, m, weighted):
    problem, h = make(shape, rank, m, weighted=weighted)
    w = problem.first_w
    state = problem.begin(h, None)
    for _ in range(12):
        w, h = blocked(problem, w, h)
        assert_array_equal(state.w, w)
        assert_array_equal(state.h, h)
        assert state.objective == pytest.approx(objective(problem, w, h), rel=1e-12, abs=0)
        state = problem.sweep(state, state.h)


@pytest.mark.parametrize(("shape", "rank", "m"), SHAPES[:5])
def test_a_sweep_is_the_formula_row_by_row(shape, rank, m):
    problem, h = make(shape, rank, m, weighted=True, seed=1)
    w, expected = problem.first_w, problem.begin(h, None)
    w, h = obvious(problem, w, h)
    assert_allclose(expected.w, w, rtol=1e-9, atol=1e-9)
    assert_allclose(expected.h, h, rtol=1e-9, atol=1e-9)


def test_the_objective_keeps_its_digits_while_it_falls_by_many_orders():
    """Penalties that shrink a millionfold are not what is left of large numbers."""
    problem, h = make((60, 50), 4, 500)
    values = problem.sampled.values * 1e-7
    problem = replace(problem, sampled=replace(problem.sampled, values=values), mu=10.0)
    state, solution = alternate(problem, h, None, RowWise(sweeps=300, tol=0.0))
    assert solution.history[-1] < 1e-8 * solution.history[0]
    assert state.objective == pytest.approx(objective(problem, state.w, state.h), rel=1e-11, abs=0)


def test_a_sweep_from_another_point_has_the_objective_of_that_point():
    problem, h = make((30, 20), 3, 100)
    state = problem.begin(h, None)
    moved = problem.sweep(state, state.h + 1.0)
    assert moved.objective == pytest.approx(objective(problem, moved.w, moved.h), rel=1e-12, abs=0)


def test_the_penalty_is_summed_up_only_where_digits_are_at_stake(monkeypatch):
    problem, h = make((100, 100), 5, 300)
    sums = []
    of = _Penalty.of.__func__
    monkeypatch.setattr(
        _Penalty, "of", classmethod(lambda cls, *given: sums.append(1) or of(cls, *given))
    )
    alternate(problem, h, None, RowWise(sweeps=50, tol=0.0))
    assert 2 <= len(sums) <= 6

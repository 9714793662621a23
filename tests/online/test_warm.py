"""Conjugate gradients from the last solution, against a solve from nothing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.online.growing_dual import NewItem
from kronfill.online.warm import WarmStart
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.problem import Mask, RidgeProblem, Sampled
from kronfill.solvers.pcg import PCG

N, L = 14, 11
RNG = np.random.default_rng(0)
POINTS = RNG.standard_normal((N + 1, 2)), RNG.standard_normal((L + 1, 2))
ENTRIES = RNG.permutation(np.argwhere(RNG.random((N, L)) < 0.6))
VALUES, WEIGHTS = RNG.standard_normal(len(ENTRIES)) + 1, RNG.uniform(0.5, 2.0, len(ENTRIES))
SETTINGS = PCG(tol=1e-11)


def kernels(identity, sizes=(N, L)):
    made = []
    for points, size in zip(POINTS, sizes, strict=True):
        kernel = kf.kernels.rbf(points[:size], length_scale=1.5)
        made.append(kernel + identity * kf.kernels.identity(size) if identity else kernel)
    return tuple(made)


def sampled(part, center, shape=(N, L), more=((), (), ())):
    rows, cols = (np.append(ENTRIES[part, k], more[k]).astype(int) for k in (0, 1))
    values = np.append(VALUES[part], more[2])
    weights = np.append(WEIGHTS[part], np.ones(len(more[2])))
    design = None if center is None else EffectsDesign(rows, cols, shape, center, weights)
    return Sampled(Mask(rows, cols, shape, weights), values, design)


@pytest.mark.parametrize("identity", [0.0, 0.3])
@pytest.mark.parametrize("center", [None, "mean", "both"])
def test_what_comes_and_goes(identity, center):
    made = kernels(identity)
    warm = WarmStart(made, SETTINGS)
    first, more = slice(0, 50), slice(50, len(ENTRIES))
    warm.solve(sampled(first, center), 0.2, None)
    whole = sampled(slice(None), center)
    grown = warm.solve(whole, 0.2, (sampled(more, None), 1))
    cold = SETTINGS.solve(RidgeProblem(*made, sampled(slice(None), center), 0.2))
    assert_allclose(grown.dual, cold.dual, atol=1e-8)
    for found, wanted in zip(whole.mask.counts, cold_counts(), strict=True):
        assert_allclose(found, wanted, atol=1e-12)
    again = warm.solve(sampled(slice(None), center), 0.2, (sampled(slice(0, 0), None), 1))
    assert again.solution.iterations <= 2 < cold.solution.iterations
    shrunk = warm.solve(sampled(first, center), 0.2, (sampled(more, None), -1))
    cold = SETTINGS.solve(RidgeProblem(*made, sampled(first, center), 0.2))
    assert_allclose(shrunk.dual, cold.dual, atol=1e-8)


def cold_counts():
    return tuple(
        np.bincount(ENTRIES[:, k], WEIGHTS, minlength=size) for k, size in ((0, N), (1, L))
    )


@pytest.mark.parametrize("identity", [0.0, 0.3])
@pytest.mark.parametrize("center", [None, "mean", "rows", "cols", "both"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("solved", [False, True])
def test_a_new_item(identity, center, axis, solved):
    made = kernels(identity)
    warm = WarmStart(made, SETTINGS)
    data = sampled(slice(None), center)
    if solved:
        warm.solve(data, 0.2, None)
    point = POINTS[axis][-1:]
    cross, own = made[axis].cross(point)[0], 1.0 + identity
    index, values = np.array([1, 5, 6]), np.array([1.0, 2.0, -1.0])
    item = NewItem(axis, cross, own, index, values, np.ones(3))
    found = warm.with_item(made, data, 0.2, item)
    sizes = (N + (axis == 0), L + (axis == 1))
    larger = kernels(identity, sizes)
    new = np.full(3, (N, L)[axis])
    more = (new, index, values) if axis == 0 else (index, new, values)
    s = sampled(slice(None), center, sizes, more)
    est = kf.KKMCEX(*larger, mu=0.2, center=center, solver=kf.Cholesky())
    table = est.fit(np.column_stack([s.rows, s.cols]), s.values, s.weights).predict_matrix()
    assert_allclose(found, table[-1] if axis == 0 else table[:, -1], atol=1e-7)

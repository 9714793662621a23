"""Split kernels along a path of mu, against dense kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.criteria.path import ProblemAlongMu
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.identity_system import weights_with_identity
from kronfill.ridge.problem import Mask, RidgeProblem, Sampled
from kronfill.solvers.pcg import PCG

PARTS = [(0.0, 0.0), (0.3, 0.0), (0.0, 0.2), (0.3, 0.2)]


def kernel(n, part):
    smooth = kf.kernels.rbf(np.linspace(0, 1, n), 0.4)
    return smooth + part * kf.kernels.identity(n) if part else smooth


def problem(parts=(0.0, 0.0), weighted=False, kind=None, m=30):
    rng = np.random.default_rng(0)
    rows, cols = rng.permutation(np.argwhere(np.ones((8, 7))))[:m].T
    weights = rng.uniform(0.5, 2, m) if weighted else None
    mask = Mask(rows, cols, (8, 7), weights)
    design = None if kind is None else EffectsDesign(rows, cols, (8, 7), kind, weights)
    sampled = Sampled(mask, rng.standard_normal(m), design)
    return RidgeProblem(kernel(8, parts[0]), kernel(7, parts[1]), sampled, 1.0)


@pytest.mark.parametrize("parts", [*PARTS, (None, 0.2), (None, None)])
def test_products_elsewhere_are_those_of_the_kernels(parts):
    p = problem()
    row, col = (
        kf.kernels.identity(n) if part is None else kernel(n, part)
        for n, part in zip((8, 7), parts, strict=True)
    )
    path = ProblemAlongMu.of(RidgeProblem(row, col, p.sampled, 1.0))
    d = np.random.default_rng(1).standard_normal(p.sampled.m)
    table = p.sampled.sparse(d).toarray()
    wanted = row.to_array() @ table @ col.to_array() - path.entry_identity * table
    every = np.argwhere(np.ones((8, 7)))
    got = path.elsewhere(d, *every.T)
    assert_allclose(got, wanted.ravel(), atol=1e-10)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [None, "mean"])
def test_systems_along_mu_solve_the_dense_problem(parts, weighted, kind):
    p = problem(parts, weighted, kind)
    s = p.sampled
    path = ProblemAlongMu.of(p)
    system = path.systems(s.values)
    kbar = (
        p.row_kernel.to_array()[np.ix_(s.rows, s.rows)]
        * p.col_kernel.to_array()[np.ix_(s.cols, s.cols)]
    )
    start = None
    for mu in (3.0, 0.3):
        solved = PCG(tol=1e-10).solve_system(system(mu), mu, start)
        start = solved.core
        inverse = np.linalg.inv(kbar + mu * np.diag(1 / s.root_weights**2))
        if kind == "mean":
            ones = inverse.sum(axis=1)
            inverse -= np.outer(ones, ones) / ones.sum()
        assert_allclose(solved.dual, inverse @ s.values, atol=1e-7)
        assert path.unknowns == start.size
    once = not weighted or 0.0 in parts
    assert (system(1.0) is system(2.0)) == once


def test_folded_weights_stand_for_the_same_noise():
    weights = np.array([0.5, 1.0, 2.0])
    assert_allclose(1.3 / weights_with_identity(weights, 1.0, 0.3), 1.0 / weights + 0.3)
    assert weights_with_identity(weights, 1.0, 0.0) is weights
    assert weights_with_identity(None, 1.0, 0.3) is None


def test_a_rest_of_full_rank_is_not_split():
    from kronfill.ridge.identity_system import SMALL_AXIS, FactorPlusIdentity

    n = SMALL_AXIS + 1
    rough = kf.kernels.matern(np.linspace(0, 9, n), length_scale=0.1, nu=0.5)
    whole = FactorPlusIdentity.of(rough + 0.1 * kf.kernels.identity(n))
    assert whole.identity == 0.0
    phi = whole.factor.phi
    np.testing.assert_allclose(phi @ phi.T, rough.block() + 0.1 * np.eye(n), atol=1e-10)
    smooth = kf.kernels.rbf(np.linspace(0, 1, n), length_scale=1.0)
    assert FactorPlusIdentity.of(smooth + 0.1 * kf.kernels.identity(n)).identity == 0.1

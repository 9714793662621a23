"""One class for S + mu I: solved with, whitened with, by Cholesky or by eigenvalues."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kronfill.ridge.factorised import (
    CholeskyFactor,
    EigenFactor,
    SolvedSystem,
    above_rounding,
    factorised,
)

MU = 0.3


def semidefinite(n=7, rank=4, seed=0):
    half = np.random.default_rng(seed).standard_normal((n, rank))
    return half @ half.T


def made(kind, s):
    if kind == "eigenvalues":
        return EigenFactor.of(s, MU)
    order = "F" if kind == "column-major" else "C"
    triangle = np.array(s, order=order)
    triangle[np.triu_indices(len(s), 1)] = np.nan  # only the lower triangle is read
    return CholeskyFactor.of(triangle, MU)


@pytest.mark.parametrize("kind", ["row-major", "column-major", "eigenvalues"])
@pytest.mark.parametrize("columns", [(), (3,)])
def test_all_forms_are_those_of_the_same_matrix(kind, columns):
    s = semidefinite()
    a, b = s + MU * np.eye(7), np.random.default_rng(1).standard_normal((7, *columns))
    factor = made(kind, s)
    assert_allclose(factor.solve(b), np.linalg.solve(a, b), atol=1e-12)
    assert_allclose(factor.whiten_adjoint(factor.whiten(b)), np.linalg.solve(a, b), atol=1e-12)
    white = factor.whiten(np.eye(7))
    assert_allclose(white.T @ white, np.linalg.inv(a), atol=1e-12)
    assert_allclose(factor.whiten_adjoint(np.eye(7)), white.T, atol=1e-12)
    assert factor.logdet == pytest.approx(np.linalg.slogdet(a)[1])
    assert factor.rank == 7


@pytest.mark.parametrize("order", ["C", "F"])
def test_nothing_is_changed_unless_asked_for(order):
    s = np.array(semidefinite(), order=order)
    before = s.copy()
    kept = CholeskyFactor.of(s, MU)
    assert_array_equal(s, before)
    assert_array_equal(CholeskyFactor.of(s, MU, overwrite=True).triangle, kept.triangle)
    inverse = np.linalg.inv(before + MU * np.eye(7))
    assert_allclose(np.tril(kept.into_inverse()), np.tril(inverse), atol=1e-12)


def test_a_singular_matrix_is_solved_in_its_range():
    s = semidefinite()
    assert CholeskyFactor.of(-s) is None
    factor = factorised(s, 1e-20, noise=1e-12, margin=1.0)
    assert isinstance(factor, EigenFactor)
    assert factor.rank == 4
    b = s @ np.ones(7)
    assert_allclose(factor.solve(b), np.linalg.pinv(s) @ b, atol=1e-10)


def test_whitening_keeps_what_a_solution_leaves_out():
    factor = EigenFactor.of(np.diag([1.0, -1e-17]), 1e-18)
    assert factor.rank == 1
    assert_allclose(factor.solve(np.array([1.0, 1.0])), [1.0, 0.0])
    assert_allclose(np.sort(np.abs(factor.whiten(np.eye(2))).max(axis=0)), [1.0, 1e9])


def test_without_unknowns_there_is_nothing_to_solve():
    factor = factorised(np.zeros((0, 0)), MU)
    assert factor.rank == 0
    assert factor.solve(np.zeros(0)).shape == (0,)
    assert factor.logdet == 0.0


def test_all_directions_are_kept_where_mu_is_well_above_rounding():
    values = np.array([0.0, 1e-18, 1.0])
    assert above_rounding(values, 1.0, 3).all()
    assert_array_equal(above_rounding(values, 1e-12, 3), [False, False, True])
    assert above_rounding(values, 1e-12, 3, noise=1e-13, margin=1.0).all()


def test_a_system_knows_what_it_is_of(monkeypatch):
    factor = CholeskyFactor.of(semidefinite(), MU)
    phi = np.ones((3, 2))
    dual, primal = SolvedSystem.if_small(factor), SolvedSystem.if_small(factor, phi, phi, "mean")
    assert dual.dual is factor
    assert dual.in_factors(phi, phi, None) is None
    assert primal.dual is None
    assert primal.in_factors(phi.copy(), phi, "mean") is factor
    assert primal.in_factors(phi, phi, None) is None
    assert primal.in_factors(2 * phi, phi, "mean") is None
    monkeypatch.setattr("kronfill.ridge.factorised.KEPT_BYTES", 100)
    assert SolvedSystem.if_small(factor) is None

"""Criteria of a ridge problem against refits, dense hat matrices and dense Gaussian densities."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

import kronfill as kf
from kronfill.criteria.exact import (
    CRITERIA_WORK,
    best_mu,
    criteria,
    exact_form,
    leave_group_out,
    leave_one_out,
    leave_one_out_by,
    mean_diagonal,
)
from kronfill.criteria.reduction import DualForm, PrimalForm, Tridiagonal
from kronfill.criteria.stochastic import estimate_criteria
from kronfill.errors import ConvergenceWarning
from kronfill.ridge.problem import RidgeProblem

from ..oracles.dense import Case, dense_solution

KINDS = (None, "mean", "rows", "cols", "both")
MUS = np.array([3.0, 0.7, 0.05])


def refit(problem, mu, keep):
    """The estimator itself, on a part of the observations."""
    s = problem.sampled.take(keep)
    kind = None if s.effects is None else s.effects.kind
    est = kf.KKMCEX(
        problem.row_kernel.block(), problem.col_kernel.block(), mu=mu, center=kind,
        solver=kf.Cholesky(),
    )  # fmt: skip
    return est.fit(np.column_stack([s.rows, s.cols]), s.values, sample_weight=s.weights)


def refit_residuals(problem, groups, mu):
    s = problem.sampled
    out = np.empty(s.m)
    for g in np.unique(groups):
        held = groups == g
        est = refit(problem, mu, ~held)
        out[held] = (s.values - est.predict(np.column_stack([s.rows, s.cols])))[held]
    return out


def forms(problem):
    return DualForm.of(problem), PrimalForm.of(
        problem.row_kernel.phi, problem.col_kernel.phi, problem.sampled
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [(4, 4), (7, 6)])
def test_leave_one_out_equals_refits(kind, weighted, ranks):
    problem = Case((7, 6), ranks, 30, kind=kind, weighted=weighted).build()
    s = problem.sampled
    wanted = np.array([refit_residuals(problem, np.arange(s.m), mu) for mu in MUS])
    for form in forms(problem):
        got = criteria(form, MUS).residuals
        alone = np.isnan(got[0])
        assert_allclose(got[:, ~alone], wanted[:, ~alone], atol=1e-8)
        for i in np.flatnonzero(alone):  # only entries that alone determine an effect
            others = np.arange(s.m) != i
            assert not (np.isin(s.rows[i], s.rows[others]) and np.isin(s.cols[i], s.cols[others]))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ranks", [(4, 4), (7, 6)])
def test_the_factor_of_a_fit_gives_the_same_residuals(kind, weighted, ranks):
    problem = Case((7, 6), ranks, 30, kind=kind, weighted=weighted).build()
    factor = kf.Cholesky().solve(problem).system.dual
    wanted = leave_one_out(problem, np.array([problem.mu]))[0]
    assert_allclose(leave_one_out_by(factor, problem.sampled), wanted, atol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", ["rows", "cols"])
@pytest.mark.parametrize("m", [13, 30])
def test_leave_row_and_column_out_equal_refits(kind, weighted, axis, m):
    # With 13 entries of a 7 x 6 matrix some rows and columns have a single entry, so that leaving
    # a row out takes columns along and cuts the mask into pieces.
    problem = Case((7, 6), (5, 5), m, kind=kind, weighted=weighted, seed=3).build()
    groups = getattr(problem.sampled, axis)
    wanted = np.array([refit_residuals(problem, groups, mu) for mu in MUS])
    assert_allclose(leave_group_out(problem, groups, MUS), wanted, atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    share=st.floats(0.1, 1.0),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 99),
)
def test_any_groups_of_any_mask_equal_refits(shape, share, kind, seed):
    m = max(2, round(share * shape[0] * shape[1]))
    if m > shape[0] * shape[1]:
        return
    problem = Case(shape, (2, 3), m, kind=kind, seed=seed).build()
    groups = np.random.default_rng(seed).integers(0, 3, m)
    if len(np.unique(groups)) == 1:
        assert np.isnan(leave_group_out(problem, groups, MUS)).all()
        return
    got = leave_group_out(problem, groups, MUS[1:2])[0]
    assert_allclose(got, refit_residuals(problem, groups, MUS[1]), atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_gcv_equals_the_hat_matrix_of_refits(kind, weighted):
    problem = Case((6, 5), (3, 4), 22, kind=kind, weighted=weighted).build()
    s = problem.sampled
    X, everything = np.column_stack([s.rows, s.cols]), np.ones(s.m, dtype=bool)
    wanted = []
    for mu in MUS:
        est = refit(problem, mu, everything)
        fitted = est.predict(X)
        trace = sum(
            est.fit(X, np.eye(s.m)[i], sample_weight=s.weights).predict(X)[i] for i in range(s.m)
        )
        w = np.ones(s.m) if s.weights is None else s.weights
        error = np.sum(w * (s.values - fitted) ** 2) / w.sum()
        wanted.append(error / (1 - trace / s.m) ** 2)
    for form in forms(problem):
        assert_allclose(criteria(form, MUS).gcv, wanted, rtol=1e-8)


def kbar(problem):
    s = problem.sampled
    row, col = problem.row_kernel.block(), problem.col_kernel.block()
    return row[np.ix_(s.rows, s.rows)] * col[np.ix_(s.cols, s.cols)]


@pytest.mark.parametrize("weighted", [False, True])
def test_marginal_likelihood_is_the_gaussian_density(weighted):
    problem = Case((6, 5), (3, 4), 22, weighted=weighted).build()
    s = problem.sampled
    w = np.ones(s.m) if s.weights is None else s.weights
    wanted = []
    for mu in MUS:
        cov = kbar(problem) + mu * np.diag(1 / w)
        variance = s.values @ np.linalg.solve(cov, s.values) / s.m
        wanted.append(scipy.stats.multivariate_normal(cov=variance * cov).logpdf(s.values))
    for form in forms(problem):
        assert_allclose(criteria(form, MUS).lml, wanted, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_restricted_likelihood_is_the_density_of_contrasts(kind):
    problem = Case((6, 5), (3, 4), 22, kind=kind).build()
    s = problem.sampled
    z = s.effects.matrix().toarray()
    contrasts = scipy.linalg.null_space(z.T)
    y = contrasts.T @ s.values
    wanted = []
    for mu in MUS:
        cov = contrasts.T @ (kbar(problem) + mu * np.eye(s.m)) @ contrasts
        variance = y @ np.linalg.solve(cov, y) / len(y)
        wanted.append(scipy.stats.multivariate_normal(cov=variance * cov).logpdf(y))
    for form in forms(problem):
        assert_allclose(criteria(form, MUS).lml, wanted, rtol=1e-9)


class Table(SklearnKernel):
    """A given matrix as a kernel of scikit-learn, over positions."""

    def __init__(self, matrix):
        self.matrix = matrix

    def __call__(self, X, Y=None, eval_gradient=False):
        other = X if Y is None else Y
        return self.matrix[np.ix_(X[:, 0].astype(int), other[:, 0].astype(int))]

    def diag(self, X):
        return np.diagonal(self.matrix)[X[:, 0].astype(int)]

    def is_stationary(self):
        return False


def test_marginal_likelihood_is_that_of_scikit_learn():
    problem = Case((6, 5), (3, 4), 22).build()
    s, mu = problem.sampled, MUS[1]
    variance = s.values @ np.linalg.solve(kbar(problem) + mu * np.eye(s.m), s.values) / s.m
    peer = GaussianProcessRegressor(
        Table(variance * kbar(problem)), alpha=variance * mu, optimizer=None
    ).fit(np.arange(s.m)[:, None], s.values)
    got = criteria(DualForm.of(problem), MUS).lml[1]
    assert got == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_observation(kind):
    problem = Case((1, 1), (1, 1), 1, kind=kind).build()
    got = criteria(DualForm.of(problem), MUS)
    if kind is None:
        assert_allclose(got.residuals[:, 0], problem.sampled.values[0])
    else:
        assert np.isnan(got.residuals).all()
        assert np.isnan(got.loo).all()
    assert best_mu(problem) > 0


@pytest.mark.parametrize("shape", [(1, 9), (9, 1), (2, 1)])
@pytest.mark.parametrize("kind", [None, "mean"])
def test_an_axis_with_a_single_item(shape, kind):
    problem = Case(shape, (1, 1), shape[0] * shape[1], kind=kind).build()
    groups = np.arange(problem.sampled.m)
    wanted = refit_residuals(problem, groups, MUS[0])
    for form in forms(problem):
        assert_allclose(criteria(form, MUS[:1]).residuals[0], wanted, atol=1e-8)


@pytest.mark.parametrize("size", [1, 2, 3, 40])
def test_the_tridiagonal_form_is_the_matrix(size):
    factor = np.random.default_rng(size).standard_normal((size, max(1, size - 1)))
    matrix = factor @ factor.T
    form = Tridiagonal.of(matrix.copy())
    t = np.diag(form.diagonal) + np.diag(form.beside, 1) + np.diag(form.beside, -1)
    assert_allclose(form.turn @ t @ form.turn.T, matrix, atol=1e-12 * size)
    assert_allclose(form.turn.T @ form.turn, np.eye(size), atol=1e-12)
    rows = np.random.default_rng(1).standard_normal((5, size))
    shifted = form.shifted(MUS)
    inverses = [np.linalg.inv(t + mu * np.eye(size)) for mu in MUS]
    wanted = np.array([np.einsum("ij,jk,ik->i", rows, a, rows) for a in inverses]).T
    assert_allclose(shifted.quadratic(rows), wanted, rtol=1e-9)
    assert_allclose(shifted.solve(rows[0]), np.array([a @ rows[0] for a in inverses]).T, rtol=1e-8)
    assert_allclose(shifted.solve_many(rows.T, 1), inverses[1] @ rows.T, rtol=1e-8)
    wanted_det = [np.linalg.slogdet(t + mu * np.eye(size))[1] for mu in MUS]
    assert_allclose(shifted.logdet, wanted_det, rtol=1e-9, atol=1e-12)


def test_the_form_follows_the_ranks():
    thin = Case((40, 40), (3, 3), 400, kind="rows").build()
    full = Case((40, 40), (40, 40), 400, kind="rows").build()
    assert isinstance(exact_form(thin, CRITERIA_WORK), PrimalForm)
    assert isinstance(exact_form(full, CRITERIA_WORK), DualForm)
    assert exact_form(full, 1e6) is None


def test_mu_auto_has_the_least_leave_one_out_error():
    problem = Case((20, 15), (4, 4), 120, kind="mean").build()
    fine = mean_diagonal(problem) * np.logspace(2, -6, 1000)
    errors = np.nanmean(leave_one_out(problem, np.append(fine, best_mu(problem))) ** 2, axis=1)
    assert errors[-1] <= (1 + 1e-4) * errors.min()


def test_residuals_of_the_dense_solution():
    """(M y)_i / M_ii by the dense oracle, at a mu far below the kernel's size."""
    problem = Case((8, 8), (8, 8), 40, mu=1e-5).build()
    s = problem.sampled
    m = np.linalg.inv(kbar(problem) + 1e-5 * np.eye(s.m))
    dual, _, _ = dense_solution(problem)
    assert_allclose(
        leave_one_out(problem, np.array([1e-5]))[0], dual / np.diag(m), rtol=1e-6, atol=1e-6
    )


def test_an_identity_part_is_known_to_have_full_rank(monkeypatch):
    """No factor is looked for that cannot be thin."""
    case = Case((30, 30), (30, 30), 400).build()
    full = case.row_kernel.block() + np.eye(30)
    kernel = kf.kernels.precomputed(full) + kf.kernels.identity(30)
    problem = RidgeProblem(kernel, kernel, case.sampled, 1.0)
    monkeypatch.setattr(type(kernel), "factor", None)
    assert isinstance(exact_form(problem, np.inf), DualForm)


def test_criteria_of_solves_that_did_not_converge_are_left_out(monkeypatch):
    problem = Case((30, 30), (30, 30), 400).build()
    mus = np.array([1e6, 1e5, 1e-6])
    monkeypatch.setattr("kronfill.criteria.stochastic.SOLVER", kf.PCG(tol=1e-6, max_iter=5))
    with pytest.warns(ConvergenceWarning, match="mu = 1e-06: their solves"):
        found = estimate_criteria(problem, mus, samples=4, probes=2)
    for name in ("loo", "gcv", "lml"):
        assert np.isfinite(found.values[name][0])
        assert np.isnan(found.values[name][2])

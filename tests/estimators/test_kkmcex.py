"""KKMCEX: equations (4), (5) and (6), and what the closed form allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.criteria.exact import leave_one_out
from kronfill.errors import IllConditionedWarning, ParameterError
from kronfill.solvers.dense import Cholesky

from ..oracles.dense import Case


def factors(n, l, a, b, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, a)), rng.standard_normal((l, b))


def problem(n, l, a, b, m, seed):
    kw, kh = (f @ f.T for f in factors(n, l, a, b, seed))
    rng = np.random.default_rng(seed + 1)
    rows, cols = np.divmod(rng.choice(n * l, size=m, replace=False), l)
    return kw, kh, np.column_stack([rows, cols]), rng.standard_normal(m)


def ridge(design, root, y, mu):
    """argmin ||y - design d||^2 + mu ||root d||^2 as one least-squares problem (SVD)."""
    stacked = np.vstack([design, np.sqrt(mu) * root])
    target = np.concatenate([y, np.zeros(len(root))])
    return np.linalg.lstsq(stacked, target, rcond=1e-13)[0]


@settings(max_examples=30, deadline=None)
@given(
    size=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    ranks=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    share=st.floats(0.05, 1.0),
    mu=st.floats(0.05, 10),
    seed=st.integers(0, 999),
)
def test_equations_4_5_and_6_agree(size, ranks, share, mu, seed):
    n, l = size
    m = max(1, round(share * n * l))
    kw, kh, X, y = problem(n, l, *ranks, m, seed)
    kf_full = np.kron(kh, kw)
    s = np.zeros((m, n * l))
    s[np.arange(m), X[:, 1] * n + X[:, 0]] = 1.0
    kbar = s @ kf_full @ s.T
    # d^T K_f d = ||(Phi_h (x) Phi_w)^T d||^2
    phi_w, phi_h = factors(n, l, *ranks, seed)
    root = np.kron(phi_h, phi_w).T
    four = ridge(s @ kf_full, root, y, mu)  # over R^NL
    five = s.T @ np.linalg.solve(kbar + mu * np.eye(m), y)  # closed form
    six = s.T @ ridge(kbar, root @ s.T, y, mu)  # over R^m
    est = kf.KKMCEX(kw, kh, mu=mu).fit(X, y)
    ours = est.predict_matrix().ravel(order="F")
    size_f = max(1.0, float(np.abs(ours).max()))
    assert_allclose(kf_full @ five, ours, atol=1e-10 * size_f)
    assert_allclose(kf_full @ four, ours, atol=1e-10 * size_f)
    assert_allclose(kf_full @ six, ours, atol=1e-10 * size_f)
    assert_allclose(est.dual_coef_, np.linalg.solve(kbar + mu * np.eye(m), y), atol=1e-9 / mu)


@pytest.mark.parametrize("center", [None, "both"])
def test_solvers_give_the_same_estimator(center):
    kw, kh, X, y = problem(9, 7, 4, 3, 40, 0)
    fits = [
        kf.KKMCEX(kw, kh, mu=0.3, center=center, solver=solver).fit(X, y)
        for solver in ("auto", kf.Cholesky(), kf.PrimalDirect(), kf.PCG(tol=1e-12))
    ]
    for other in fits[1:]:
        assert_allclose(other.predict_matrix(), fits[0].predict_matrix(), atol=1e-9)
        assert_allclose(other.dual_coef_, fits[0].dual_coef_, atol=1e-8)


def test_complete_matrix_takes_the_eigenvectors():
    kw, kh, X, y = problem(8, 6, 8, 6, 48, 0)
    grid = kf.KKMCEX(kw, kh, mu=0.1).fit(X, y)
    assert grid.solution_.solver == "GridEigen"
    dense = kf.KKMCEX(kw, kh, mu=0.1, solver=kf.Cholesky()).fit(X, y)
    assert_allclose(grid.predict_matrix(), dense.predict_matrix(), atol=1e-10)


def test_tiny_mu_with_a_singular_kernel_warns_and_predicts_the_limit():
    kw, kh, X, y = problem(8, 6, 2, 2, 30, 0)
    with pytest.warns(IllConditionedWarning, match="singular to working precision"):
        est = kf.KKMCEX(kw, kh, mu=1e-17).fit(X, y)
    limit = kf.KKMCEX(kw, kh, mu=1e-7).fit(X, y)
    assert_allclose(est.predict_matrix(), limit.predict_matrix(), atol=1e-6)
    assert est.solution_.rank == 4


def test_noise_free_data_of_the_space_are_interpolated():
    kw, kh, X, _ = problem(12, 10, 3, 3, 60, 1)
    truth = kw @ np.random.default_rng(0).standard_normal((12, 10)) @ kh
    est = kf.KKMCEX(kw, kh, mu=1e-8).fit(X, truth[X[:, 0], X[:, 1]])
    assert_allclose(est.predict_matrix(), truth, atol=1e-6 * np.abs(truth).max())


def test_weight_zero_has_no_dual_coefficient():
    kw, kh, X, y = problem(5, 5, 5, 5, 10, 0)
    w = np.ones(10)
    w[3] = 0
    est = kf.KKMCEX(kw, kh).fit(X, y, sample_weight=w)
    assert est.dual_coef_.shape == (10,)
    assert est.dual_coef_[3] == 0


def test_bad_solver_and_center():
    kw, kh, X, y = problem(3, 3, 3, 3, 4, 0)
    with pytest.raises(ParameterError, match="solver must be"):
        kf.KKMCEX(kw, kh, solver=kf.ALS()).fit(X, y)
    with pytest.raises(ParameterError, match="center must be"):
        kf.KKMCEX(kw, kh, center="everything").fit(X, y)


@pytest.mark.parametrize("kind", [None, "mean", "rows", "both"])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_equals_refits(kind, weighted):
    case = Case((7, 6), (4, 4), 30, kind=kind, weighted=weighted, mu=0.7)
    full = case.build()
    got = leave_one_out(full, np.array([0.7]))[0]
    s = full.sampled
    for i in range(s.m):
        keep = np.arange(s.m) != i
        w = None if s.weights is None else s.weights[keep]
        est = kf.KKMCEX(
            full.row_kernel.block(), full.col_kernel.block(), mu=0.7, center=kind,
            solver=Cholesky(),
        )  # fmt: skip
        est.fit(np.column_stack([s.rows, s.cols])[keep], s.values[keep], sample_weight=w)
        gap = s.values[i] - est.predict([[s.rows[i], s.cols[i]]])[0]
        if np.isnan(got[i]):  # it alone determines an effect
            left = s.rows[keep] == s.rows[i], s.cols[keep] == s.cols[i]
            assert not all(side.any() for side in left)
        else:
            assert got[i] == pytest.approx(gap, abs=1e-8)

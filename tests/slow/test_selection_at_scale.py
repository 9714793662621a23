"""Criteria at m = 50,000 against refits and exact values, and variances by solves at that size."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.criteria.exact import criteria, exact_form
from kronfill.criteria.reduction import PrimalForm
from kronfill.criteria.stochastic import estimate_criteria
from kronfill.selection import leave_out, mu_path
from kronfill.selection.path import ridge_problem

pytestmark = pytest.mark.slow

SIZE, M = 500, 50_000


def data(length_scale, identity):
    rng = np.random.default_rng(0)
    place = np.sort(rng.random(SIZE))
    kernel = kf.kernels.rbf(place, length_scale)
    if identity:
        kernel = kernel + identity * kf.kernels.identity(SIZE)
    X = np.column_stack(np.divmod(rng.choice(SIZE**2, size=M, replace=False), SIZE))
    y = np.sin(9 * place[X[:, 0]]) * np.cos(7 * place[X[:, 1]]) + 0.3 * rng.standard_normal(M)
    return kernel, X, y, rng.uniform(0.5, 2.0, M)


@pytest.mark.parametrize("center", [None, "mean", "both"])
def test_estimates_are_within_their_errors_of_the_exact_criteria(center):
    """With thin factors the exact criteria of 50,000 observations are at hand."""
    kernel, X, y, weights = data(0.5, 0.0)
    problem = ridge_problem(kf.KKMCEX(kernel, kernel, center=center), X, y, weights)[1]
    mus = np.array([10.0, 0.1])
    reduced = exact_form(problem, np.inf)
    assert isinstance(reduced, PrimalForm)
    exact = criteria(reduced, mus)
    got = estimate_criteria(problem, mus)
    assert_allclose(got.residuals, exact.residuals[:, got.entries], atol=1e-5)
    for name in ("loo", "gcv", "lml"):
        gap = np.abs(got.values[name] - getattr(exact, name))
        assert (gap <= 4 * got.errors[name] + 1e-6 * np.abs(getattr(exact, name))).all()


@pytest.mark.parametrize("center", [None, "mean"])
def test_what_is_left_out_equals_refits(center):
    """With identity parts nothing is thin: entries, rows and columns by solves."""
    kernel, X, y, weights = data(0.1, 0.1)
    est = kf.KKMCEX(kernel, kernel, mu=1.0, center=center, solver=kf.PCG(tol=1e-9))
    obs = kf.Observations(*X.T, y, (SIZE, SIZE), weights=weights)
    groups = {"entry": np.arange(M), "row": X[:, 0], "column": X[:, 1]}
    for by, group in groups.items():
        got = leave_out(est, obs, by=by, items=[7, 300])
        for item in (7, 300):
            held = group == item
            est.fit(obs.take(~held))
            assert_allclose(got[held], y[held] - est.predict(X[held]), atol=1e-5)
        assert np.isnan(got).sum() == M - np.isin(group, [7, 300]).sum()


def test_the_error_of_rows_left_out_has_an_honest_standard_error():
    kernel, X, y, _ = data(0.1, 0.1)
    est = kf.KKMCEX(kernel, kernel, center="mean")
    path = mu_path(est, X, y, mus=[1.0], criterion="row")
    assert path.method == "stochastic"
    problem = ridge_problem(est, X, y)[1]
    more = estimate_criteria(problem, path.mus, ["row"], lines=100, random_state=1)
    gap = abs(path.criteria["row"][0] - more.values["row"][0])
    assert gap <= 4 * np.hypot(path.errors["row"][0], more.errors["row"][0])


@pytest.mark.parametrize("center", [None, "mean"])
def test_variances_are_those_of_a_fit_to_the_neighbourhood_at_least(center):
    """More observations never make it less sure: bounds from parts that dense algebra can do."""
    kernel, X, y, _ = data(0.1, 0.1)
    est = kf.KKMCEX(kernel, kernel, mu=1.0, center=center).fit(X, y)
    ask = np.array([[3, 4], [250, 10], X[0]])
    variance = est.predict_std(ask) ** 2 / est.signal_variance_
    for k, (i, j) in enumerate(ask):
        near = (np.abs(X[:, 0] - i) < 40) & (np.abs(X[:, 1] - j) < 40)
        part = kf.KKMCEX(kernel, kernel, mu=1.0, center=center).fit(X[near], y[near])
        wider = part.predict_std(ask[k : k + 1])[0] ** 2 / part.signal_variance_
        assert variance[k] <= wider * (1 + 1e-8)
        assert variance[k] >= 0.5 * wider  # what lies far away adds little

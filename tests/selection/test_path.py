"""Paths of mu: exact ones against refits, estimates against exact ones."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.criteria.exact import criteria, leave_group_out
from kronfill.criteria.reduction import DualForm
from kronfill.criteria.stochastic import estimate_criteria, leave_one_out_at
from kronfill.errors import EmptyDataError, ParameterError
from kronfill.selection import EntryKFold, mu_path
from kronfill.selection.path import ridge_problem

MUS = np.array([1.0, 0.1, 0.01])


def data(n=14, l=11, share=0.5, noise=0.2, seed=0):
    rng = np.random.default_rng(seed)
    row, col = np.linspace(0, 1, n), np.linspace(0, 1, l)
    X = np.argwhere(rng.random((n, l)) < share)
    y = np.sin(5 * row[X[:, 0]]) * np.cos(4 * col[X[:, 1]]) + noise * rng.standard_normal(len(X))
    return kf.kernels.rbf(row, 0.3), kf.kernels.rbf(col, 0.3), X, y


def refitted(estimator, X, y, groups, mu, weights=None):
    out = np.empty(len(y))
    for g in np.unique(groups):
        held = groups == g
        w = None if weights is None else weights[~held]
        est = type(estimator)(**{**estimator.get_params(deep=False), "mu": mu})
        out[held] = y[held] - est.fit(X[~held], y[~held], sample_weight=w).predict(X[held])
    return out


@pytest.mark.parametrize("center", [None, "mean", "both"])
@pytest.mark.parametrize("method", [kf.KKMCEX, kf.RRMCEX])
def test_exact_paths_equal_refits(method, center):
    row, col, X, y = data()
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y))
    solver = kf.Cholesky() if method is kf.KKMCEX else kf.PrimalDirect()  # refits to 1e-8
    est = method(row, col, center=center, solver=solver)
    path = mu_path(
        est, X, y, mus=MUS[::-1], sample_weight=weights, criterion=("loo", "gcv", "lml", "row")
    )
    assert path.method == "exact"
    assert_allclose(path.mus, MUS)
    for k, mu in enumerate(MUS):
        wanted = refitted(est, X, y, np.arange(len(y)), mu, weights)
        usable = ~np.isnan(path.residuals[k])
        assert usable.sum() > 0.9 * len(y)
        assert_allclose(path.residuals[k, usable], wanted[usable], atol=1e-8)
        error = np.average(wanted[usable] ** 2, weights=weights[usable])
        assert path.criteria["loo"][k] == pytest.approx(error, abs=1e-8)
        by_row = refitted(est, X, y, X[:, 0], mu, weights)
        error = np.average(by_row**2, weights=weights)
        assert path.criteria["row"][k] == pytest.approx(error, abs=1e-8)
    assert not path.errors["loo"].any()
    assert path.best["lml"] == MUS[np.argmax(path.criteria["lml"])]
    assert path.mu == path.best["loo"] == MUS[np.argmin(path.criteria["loo"])]


def test_nothing_known_of_an_axis_and_a_single_item():
    row, _, X, y = data()
    path = mu_path(kf.KKMCEX(row, None, center="cols"), X, y)
    assert np.isfinite(path.criteria["loo"]).all()
    one = X[:, 1] == 0
    single = mu_path(kf.KKMCEX(row, np.ones((1, 1)), center="mean"), X[one], y[one], mus=MUS)
    wanted = refitted(
        kf.KKMCEX(row, np.ones((1, 1)), center="mean"), X[one], y[one], np.arange(one.sum()), 0.1
    )
    assert_allclose(single.residuals[1], wanted, atol=1e-8)


@pytest.mark.parametrize("identity", [0.0, pytest.param(0.2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("center", [None, pytest.param("both", marks=pytest.mark.slow)])
def test_estimates_agree_with_exact_paths_within_their_errors(center, identity):
    row, col, X, y = data(30, 25, 0.6)
    if identity:
        row = row + identity * kf.kernels.identity(30)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if center == "mean" else None
    problem = ridge_problem(kf.KKMCEX(row, col, center=center), X, y, weights)[1]
    exact = criteria(DualForm.of(problem), MUS)
    got = estimate_criteria(problem, MUS, samples=100, probes=30)
    assert_allclose(got.residuals, exact.residuals[:, got.entries], rtol=1e-3, atol=1e-4)
    for name in ("loo", "gcv", "lml"):
        gap = np.abs(got.values[name] - getattr(exact, name))
        assert (gap <= 4 * got.errors[name]).all()
        size = len(y) if name == "lml" else getattr(exact, name)
        assert (got.errors[name] < 0.1 * size).all()
    again = estimate_criteria(problem, MUS, samples=100, probes=30)
    assert_allclose(again.values["loo"], got.values["loo"], rtol=0, atol=0)


def test_residuals_at_chosen_entries():
    row, col, X, y = data(30, 25, 0.6)
    est = kf.KKMCEX(row, col, center="mean")
    entries = np.array([0, 7, 100])
    got = leave_one_out_at(ridge_problem(est, X, y)[1], entries, MUS)
    for k, mu in enumerate(MUS):
        for t, i in enumerate(entries):
            keep = np.arange(len(y)) != i
            fitted = kf.KKMCEX(row, col, mu=mu, center="mean").fit(X[keep], y[keep])
            assert got[k, t] == pytest.approx(y[i] - fitted.predict(X[[i]])[0], abs=1e-4)


def test_large_problems_are_estimated(monkeypatch):
    row, col, X, y = data(30, 25, 0.6)
    monkeypatch.setattr("kronfill.selection.path.EXACT_WORK", 1e5)
    est = kf.KKMCEX(row, col, center="mean")
    path = mu_path(est, X, y, mus=MUS)
    assert path.method == "stochastic"
    assert (path.errors["loo"] > 0).all()
    assert path.residuals.shape == (3, len(path.entries))


@pytest.mark.parametrize("identity", [0.0, 0.2])
@pytest.mark.parametrize("name", ["row", "column"])
def test_rows_and_columns_left_out_are_estimated_from_some(name, identity):
    row, col, X, y = data(24, 20, 0.6)
    row = row + identity * kf.kernels.identity(24) if identity else row
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y))
    problem = ridge_problem(kf.KKMCEX(row, col, center="mean"), X, y, weights)[1]
    groups = X[:, 0] if name == "row" else X[:, 1]
    left = leave_group_out(problem, groups, MUS)
    wanted = left**2 @ weights / weights.sum()
    every = estimate_criteria(problem, MUS, [name], lines=24)
    assert_allclose(every.values[name], wanted, rtol=1e-4)
    assert not every.errors[name].any()
    some = estimate_criteria(problem, MUS, [name], lines=12)
    assert (some.errors[name] > 0).all()
    assert (np.abs(some.values[name] - wanted) <= 4 * some.errors[name]).all()


@pytest.mark.parametrize("method", ["MC", "KMC", "IMC"])
def test_factorised_methods_are_cross_validated(method):
    row, col, X, y = data(20, 15, 0.7, noise=0.02)
    est = {
        "MC": kf.MC(shape=(20, 15), rank=2),
        "KMC": kf.KMC(row, col, rank=2),
        "IMC": kf.IMC(
            np.vander(np.linspace(-1, 1, 20), 5), np.vander(np.linspace(-1, 1, 15), 5), 2
        ),
    }[method]
    path = mu_path(est, X, y, cv=EntryKFold(3))
    assert path.method == "cross-validation"
    assert list(path.criteria) == ["cv"]
    best = path.criteria["cv"].min()
    assert best < 0.1 * y.var()
    assert path.criteria["cv"].max() > 1.2 * best
    assert (path.errors["cv"] > 0).all()
    again = mu_path(est, X, y, cv=EntryKFold(3), mus=[path.mu])
    assert again.mu == path.mu


def test_bad_input_is_refused():
    row, col, X, y = data()
    with pytest.raises(ParameterError, match="criterion must be"):
        mu_path(kf.KKMCEX(row, col), X, y, criterion="aic")
    with pytest.raises(ParameterError, match="'cv' is for MC"):
        mu_path(kf.KKMCEX(row, col), X, y, criterion="cv")
    with pytest.raises(ParameterError, match="positive"):
        mu_path(kf.KKMCEX(row, col), X, y, mus=[1.0, -1.0])
    with pytest.raises(ParameterError, match="one of kronfill's"):
        mu_path(object(), X, y)
    alone = mu_path(kf.KKMCEX(center="rows"), [[0, 0], [1, 1]], [1.0, 2.0])
    with pytest.raises(EmptyDataError, match="alone determines"):
        _ = alone.mu


def test_the_estimator_is_left_alone():
    row, col, X, y = data()
    est = kf.KKMCEX(row, col, mu=3.0)
    mu_path(est, X, y)
    assert vars(est) == {
        "row_kernel": row, "col_kernel": col, "mu": 3.0, "center": None, "solver": "auto",
    }  # fmt: skip


def test_drawing():
    plt = pytest.importorskip("matplotlib.pyplot")
    row, col, X, y = data()
    ax = mu_path(kf.KKMCEX(row, col), X, y).plot()
    assert ax.get_xscale() == "log"
    assert len(ax.get_legend().get_texts()) == 2
    plt.close(ax.figure)


def test_whoever_asks_is_told_how_far_a_path_is(monkeypatch):
    rng = np.random.default_rng(0)
    k = kf.kernels.rbf(np.linspace(0, 1, 12), 0.3)
    X = np.argwhere(rng.random((12, 12)) < 0.6)
    y = rng.standard_normal(len(X))
    told = []
    mu_path(kf.MC(rank=2), X, y, mus=[3.0, 1.0], progress=lambda *what: told.append(what))
    assert [what for what in told if what[0] == "values of mu"] == [
        ("values of mu", 0, 2), ("values of mu", 1, 2)
    ]  # fmt: skip
    told.clear()
    monkeypatch.setattr("kronfill.selection.path.EXACT_WORK", 0.0)
    mu_path(kf.KKMCEX(k, k), X, y, mus=[1.0], progress=lambda *what: told.append(what))
    assert told

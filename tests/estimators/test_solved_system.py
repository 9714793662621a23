"""What a direct solver has factorised serves the variances and updates of the fit."""

import gc
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kronfill as kf
from kronfill.core import memory
from kronfill.core.memory import Kept
from kronfill.ridge import factorised

COLUMNS = 8
CENTERS = [None, "mean", "rows", "both"]


@pytest.fixture
def made(monkeypatch):
    """Sizes of the systems that were factorised, as LAPACK is called; without those of effects."""
    sizes = []
    lapack = factorised.lapack

    def dpotrf(a, **settings):
        if len(a) != COLUMNS:  # two-way effects are solved for by the shorter axis
            sizes.append(len(a))
        return lapack.dpotrf(a, **settings)

    monkeypatch.setattr(factorised, "lapack", SimpleNamespace(dpotrf=dpotrf, dpotri=lapack.dpotri))
    return sizes


def problem(m=40, n=9, l=COLUMNS, seed=0):
    """Kernels, entries that leave the last row cold, values, weights of which one is zero."""
    rng = np.random.default_rng(seed)
    kw = kf.kernels.rbf(rng.random((n, 2)), length_scale=0.3)
    kh = kf.kernels.rbf(rng.random((l, 2)), length_scale=0.3)
    at = rng.choice((n - 1) * l, m, replace=False)
    X = np.column_stack([at // l, at % l])
    w = rng.uniform(0.3, 2.0, m)
    w[3] = 0.0
    return kw, kh, X, rng.standard_normal(m) + 1.0, w


def everything(est):
    return np.argwhere(np.ones(est.shape_))


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", ["auto", kf.Cholesky()])
def test_standard_deviations_do_not_factorise_again(made, center, weighted, solver):
    kw, kh, X, y, w = problem()
    est = kf.KKMCEX(kw, kh, mu=0.1, center=center, solver=solver)
    est.fit(X, y, sample_weight=w if weighted else None)
    assert made == [40 - weighted]
    ours = est.predict_std(everything(est))
    assert made == [40 - weighted]
    copy = pickle.loads(pickle.dumps(est))  # has to make it again
    assert_array_equal(copy.predict_std(everything(est)), ours)
    assert made == [40 - weighted] * 2


def test_thin_kernels_use_the_system_of_the_fit_too(made, monkeypatch):
    monkeypatch.setattr("kronfill.estimators.gaussian_process.posterior.SMALL_SYSTEM", 0)
    _, _, X, y, _ = problem()
    k, l = (kf.kernels.linear(np.random.default_rng(1).random((n, 2))) for n in (9, 8))
    every = np.argwhere(np.ones((9, 8)))
    dual = kf.KKMCEX(k, l, mu=0.1, solver=kf.Cholesky()).fit(X, y).predict_std(every)
    assert made == [40]
    primal = kf.KKMCEX(k, l, mu=0.1, solver=kf.PrimalDirect()).fit(X, y).predict_std(every)
    assert made == [40, 4]
    assert_allclose(primal, dual, rtol=1e-9)


@pytest.mark.parametrize("center", CENTERS)
def test_reduced_rank_uses_the_normal_equations_of_the_fit(made, center, monkeypatch):
    monkeypatch.setattr("kronfill.estimators.gaussian_process.posterior.SMALL_SYSTEM", 0)
    kw, kh, X, y, w = problem()
    est = kf.RRMCEX(kw, kh, 3, 2, mu=0.1, center=center).fit(X, y, sample_weight=w)
    before = len(made)
    ours = est.predict_std(X)
    assert len(made) == before
    copy = pickle.loads(pickle.dumps(est))
    assert_array_equal(copy.predict_std(X), ours)
    assert len(made) == before + 1
    est.set_params(center="mean" if center is None else None)  # another system: made anew
    est._kept_process = None
    est.predict_std(X)
    assert len(made) == before + 2


def test_an_update_begins_with_the_factor_of_the_fit(made):
    kw, kh, X, y, _ = problem()
    est = kf.KKMCEX(kw, kh, mu=0.1, center="mean", solver=kf.Cholesky()).fit(X[:-1], y[:-1])
    est.partial_fit(X[-1:], y[-1:])
    assert made == [39, 1]
    whole = kf.KKMCEX(kw, kh, mu=0.1, center="mean", solver=kf.Cholesky()).fit(X, y)
    assert_allclose(est.dual_coef_, whole.dual_coef_, rtol=1e-9)
    assert_allclose(est.predict_std(X), whole.predict_std(X), rtol=1e-9)


def test_a_singular_system_is_kept_by_its_eigenvalues(made):
    k, l = (kf.kernels.linear(np.ones((n, 1))) for n in (9, 8))
    _, _, X, y, _ = problem()
    with pytest.warns(kf.errors.IllConditionedWarning):
        est = kf.KKMCEX(k, l, mu=1e-18, solver=kf.Cholesky()).fit(X, y)
    ours, count = est.predict_std(X), len(made)
    copy = pickle.loads(pickle.dumps(est))
    assert_array_equal(copy.predict_std(X), ours)
    assert count == 1
    assert np.all(ours**2 <= 1e-6 * est.signal_variance_)


def test_another_fit_lets_go_of_the_former_system():
    kw, kh, X, y, _ = problem()
    est = kf.KKMCEX(kw, kh, mu=0.1, solver=kf.Cholesky()).fit(X, y)
    assert est._solved_system().value.factor.rank == 40
    est.set_params(solver=kf.PCG()).fit(X, y)
    assert est._solved_system() is None
    targets = kf.KKMCEX(kw, kh, mu=0.1).fit(X, y).fit(X, np.column_stack([y, y]))
    assert targets._solved_system() is None


def test_what_is_kept_has_a_limit(monkeypatch):
    monkeypatch.setattr(memory, "KEPT_BYTES", 100)
    first, second = Kept("first", 60), Kept("second", 40)
    assert (first.value, second.value) == ("first", "second")
    third = Kept("third", 50)
    assert (first.value, second.value, third.value) == (None, "second", "third")
    del second, third
    gc.collect()
    fourth, large = Kept("fourth", 100), Kept("large", 101)
    assert (fourth.value, large.value) == ("fourth", None)


def test_a_system_that_was_let_go_is_made_again(made):
    kw, kh, X, y, _ = problem()
    est = kf.KKMCEX(kw, kh, mu=0.1, solver=kf.Cholesky()).fit(X, y)
    copy = pickle.loads(pickle.dumps(est))
    est._solved_system().value = None
    assert_array_equal(est.predict_std(X), copy.predict_std(X))
    assert made == [40] * 3

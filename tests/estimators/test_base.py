"""What every method stands on: an abstract base, and fits that are published as a whole."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kronfill as kf
from kronfill.errors import NonFiniteError
from kronfill.estimators.base import KernelRegressor, MatrixRegressor
from kronfill.estimators.factorised import FactorisedRegressor
from kronfill.estimators.folds import left_out
from kronfill.estimators.gaussian_process.regressor import GaussianProcessRegressor
from kronfill.estimators.updates import dual

METHODS = (kf.KKMCEX, kf.RRMCEX, kf.KMC, kf.IMC, kf.MC)


@pytest.mark.parametrize(
    "kind", [MatrixRegressor, KernelRegressor, FactorisedRegressor, GaussianProcessRegressor]
)
def test_bases_cannot_be_made(kind):
    with pytest.raises(TypeError, match="abstract"):
        kind()


@pytest.mark.parametrize("method", METHODS)
def test_few_classes_stand_behind_a_method(method):
    own = [kind for kind in method.__mro__ if kind.__module__.startswith("kronfill.")]
    assert len(own) <= 5
    assert "fit" in vars(method)


def kernel(n, length):
    return kf.kernels.rbf(np.linspace(0, 1, n), length_scale=length)


def problem(m=30):
    rng = np.random.default_rng(0)
    X = rng.permutation(np.argwhere(np.ones((8, 6))))[:m]
    return X, rng.standard_normal(m)


@pytest.mark.parametrize("method", [kf.KKMCEX, kf.RRMCEX, kf.KMC])
def test_a_fit_that_is_refused_leaves_the_last_one_whole(method):
    X, y = problem()
    est = method(kernel(8, 0.5), kernel(6, 0.3)).fit(X, y)
    before, state = est.predict_matrix(), dict(vars(est))
    est.set_params(row_kernel=kernel(8, 0.1))
    with pytest.raises(NonFiniteError):
        est.fit(X, np.full(len(y), np.nan))
    assert_array_equal(est.predict_matrix(), before)
    assert_array_equal(est.extrapolate(rows=[[0.5]]), est.extrapolate(rows=[[0.5]]))
    assert {name: vars(est)[name] for name in state if name != "row_kernel"} == {
        name: state[name] for name in state if name != "row_kernel"
    }
    if isinstance(est, GaussianProcessRegressor):
        twin = method(kernel(8, 0.5), kernel(6, 0.3)).fit(X, y)
        assert_array_equal(est.predict_std(X), twin.predict_std(X))


def test_observations_go_after_a_solve_that_carried_nothing_along(monkeypatch):
    """A factorisation that was not carried along is not taken up again."""
    X, y = problem()
    est = kf.KKMCEX(kernel(8, 0.5), kernel(6, 0.3), mu=0.1).fit(X[:10], y[:10])
    est.partial_fit(X[10:12], y[10:12])
    monkeypatch.setattr(dual, "DENSE_UPDATES", 12)
    est.partial_fit(X[12:20], y[12:20])
    est.forget(X[8:20])
    alone = kf.KKMCEX(kernel(8, 0.5), kernel(6, 0.3), mu=0.1).fit(X[:8], y[:8])
    assert_allclose(est.predict_matrix(), alone.predict_matrix(), atol=1e-8)


def test_every_part_is_predicted_by_a_fit_to_the_others():
    X, y = problem()
    obs = kf.Observations(*X.T, y, (8, 6))
    halves = np.arange(obs.m) % 2 == 0
    method = kf.KKMCEX(kernel(8, 0.5), kernel(6, 0.3))
    for fold, held in zip(
        left_out(lambda part: kf.KKMCEX(**method.get_params()).fit(part), obs, [(halves, ~halves)]),
        [~halves],
        strict=True,
    ):
        wanted = method.fit(X[~held], y[~held]).predict(X[held])
        assert_array_equal(fold.predicted, wanted)
        assert_array_equal(fold.gap, y[held] - wanted)

"""Counts over entries, against scikit-learn on the features of the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import PoissonRegressor

import kronfill as kf
from kronfill.errors import DataError, ShapeError

N, L = 12, 8
RNG = np.random.default_rng(3)
ROW, COL = RNG.standard_normal((N, 3)), RNG.standard_normal((L, 2))
MASK = RNG.random((N, L)) < 0.6
MASK[5] = MASK[:, 4] = False
X = RNG.permutation(np.argwhere(MASK))
FEATURES = np.einsum("ka,kb->kab", ROW[X[:, 0]], COL[X[:, 1]]).reshape(len(X), -1)
EXPOSURE = RNG.uniform(0.2, 4.0, len(X))
Y = RNG.poisson(EXPOSURE * np.exp(0.5 + 0.3 * FEATURES @ RNG.standard_normal(6)))
WEIGHTS = RNG.uniform(0.2, 3.0, len(X))


def linear(**settings):
    return kf.KKMCEXPoisson(kf.kernels.linear(ROW), kf.kernels.linear(COL), **settings)


def smooth(**settings):
    kernels = (kf.kernels.rbf(one, length_scale=2.0) for one in (ROW, COL))
    return kf.KKMCEXPoisson(*kernels, **{"mu": 0.3, **settings})


def by_sklearn(mu, weights, **settings):
    alpha = mu / weights.sum()  # its loss is a mean
    return PoissonRegressor(
        alpha=alpha, tol=1e-12, max_iter=10_000, solver="newton-cholesky", **settings
    )


@pytest.mark.parametrize("mu", [5.0, 0.1, 1e-3])
@pytest.mark.parametrize("center", [None, "mean"])
def test_as_scikit_learn(mu, center):
    est = linear(mu=mu, center=center).fit(X, Y, WEIGHTS)
    other = by_sklearn(mu, WEIGHTS, fit_intercept=center is not None).fit(FEATURES, Y, WEIGHTS)
    assert_allclose(est.predict(X), other.predict(FEATURES), rtol=1e-6)
    assert est.score(X, Y, WEIGHTS) == pytest.approx(other.score(FEATURES, Y, WEIGHTS))


@pytest.mark.parametrize("center", [None, "mean"])
def test_exposure_is_a_weight_on_rates(center):
    """y ~ e exp(eta) is the same as the rate y / e with weight e."""
    est = linear(mu=0.5, center=center).fit(X, Y, WEIGHTS, exposure=EXPOSURE)
    weights = WEIGHTS * EXPOSURE
    other = by_sklearn(0.5, weights, fit_intercept=center is not None)
    other.fit(FEATURES, Y / EXPOSURE, weights)
    assert_allclose(est.predict(X), other.predict(FEATURES), rtol=1e-6)
    expected = other.predict(FEATURES) * EXPOSURE
    assert_allclose(est.predict(X, exposure=EXPOSURE), expected, rtol=1e-6)
    own = est.score(X, Y, WEIGHTS, exposure=EXPOSURE)
    assert own == pytest.approx(other.score(FEATURES, Y / EXPOSURE, weights))


def test_means_everywhere():
    est = smooth(center="mean").fit(X, Y)
    pairs = np.argwhere(np.ones((N, L)))
    assert_allclose(est.predict_matrix().ravel(), est.predict(pairs))
    assert_allclose(est.extrapolate(ROW[[5]], COL[[4]])[0, 0], est.predict([[5, 4]])[0])
    assert (est.predict_matrix() > 0).all()
    assert est.predict_std(pairs).shape == (N * L,)


def test_weights_are_repetitions_and_zero_is_absence():
    doubled = smooth(mu=0.6).fit(X, Y, np.full(len(X), 2.0))
    assert_allclose(doubled.predict_matrix(), smooth().fit(X, Y).predict_matrix(), rtol=1e-6)
    weights = np.ones(len(X))
    weights[::3] = 0.0
    dropped = smooth().fit(X, Y, weights, exposure=EXPOSURE)
    used = weights > 0
    absent = smooth().fit(X[used], Y[used], exposure=EXPOSURE[used])
    assert_allclose(dropped.predict_matrix(), absent.predict_matrix(), rtol=1e-6)
    assert_allclose(dropped.predict_std(X), absent.predict_std(X), rtol=1e-6)
    assert (dropped.dual_coef_[~used] == 0).all()


@pytest.mark.parametrize("center", [None, "mean"])
def test_partial_fit_is_a_fit_to_all(center):
    est = smooth(center=center).partial_fit(X[:30], Y[:30], exposure=EXPOSURE[:30])
    cold = smooth(center=center).fit(X, Y, exposure=EXPOSURE)
    est.partial_fit(X[30:], Y[30:], exposure=EXPOSURE[30:])
    assert_allclose(est.predict_matrix(), cold.predict_matrix(), rtol=1e-6)


def test_all_zeros_have_a_finite_answer():
    est = smooth().fit(X, np.zeros(len(X)))
    assert est.solution_.converged
    assert np.isfinite(est.predict_matrix()).all()
    assert np.isnan(est.score(X, np.zeros(len(X))))
    with pytest.raises(DataError, match="no count above 0"):
        smooth(center="mean").fit(X, np.zeros(len(X)))


def test_large_counts():
    est = smooth(mu=0.01).fit(X, Y * 1e5)
    assert est.solution_.converged
    assert est.score(X, Y * 1e5) > 0.9


def test_errors():
    with pytest.raises(DataError, match="negative"):
        smooth().fit(X, -1.0 - Y)
    with pytest.raises(ShapeError, match="exposure"):
        smooth().fit(X, Y, exposure=EXPOSURE[1:])
    with pytest.raises(DataError, match="not positive"):
        smooth().fit(X, Y, exposure=np.zeros(len(X)))


@pytest.mark.parametrize("exposure", [None, EXPOSURE])
def test_saved_and_read_back(exposure, tmp_path):
    est = smooth(center="mean").fit(X, Y, exposure=exposure)
    est.save(tmp_path / "model.kf")
    same = kf.load(tmp_path / "model.kf")
    assert_array_equal(same.predict_matrix(), est.predict_matrix())
    assert_array_equal(same.predict_std(X), est.predict_std(X))
    one, two = (e.partial_fit([[5, 4]], [3]) for e in (est, same))
    assert_array_equal(one.predict_matrix(), two.predict_matrix())

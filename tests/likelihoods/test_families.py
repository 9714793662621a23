"""Each likelihood against its textbook formula and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import trapezoid
from scipy.special import expit

from kronfill.likelihoods.averages import mean_sigmoid
from kronfill.likelihoods.families import Bernoulli, Ordinal, Poisson

ETA = np.array([-3.0, -0.4, 0.0, 0.7, 2.5])
CUTS = np.array([-1.5, 0.2, 1.0])
CASES = {
    "bernoulli": (Bernoulli(), np.array([0.0, 1.0, 1.0, 0.0, 1.0])),
    "poisson": (Poisson(), np.array([0.0, 1.0, 7.0, 2.0, 13.0])),
    "ordinal": (Ordinal(CUTS), np.array([0.0, 1.0, 3.0, 2.0, 3.0])),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def test_derivatives_are_those_of_the_losses(case):
    family, y = case
    step = 1e-5
    up, down = family.losses(y, ETA + step), family.losses(y, ETA - step)
    first, second = family.derivatives(y, ETA)
    assert_allclose(first, (up - down) / (2 * step), atol=1e-8)
    higher, lower = family.derivatives(y, ETA + step)[0], family.derivatives(y, ETA - step)[0]
    assert_allclose(second, (higher - lower) / (2 * step), atol=1e-8)


@pytest.mark.parametrize("far", [1.0, 30.0, 400.0])
def test_parts_are_losses_and_derivatives(case, far):
    family, y = case
    far = far if isinstance(family, Bernoulli) else 1.0
    found = family.parts(y, far * ETA)
    expected = (family.losses(y, far * ETA), *family.derivatives(y, far * ETA))
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-300)


def test_losses_are_negative_log_likelihoods():
    family, y = CASES["bernoulli"]
    assert_allclose(family.losses(y, ETA), -stats.bernoulli.logpmf(y, expit(ETA)))
    family, y = CASES["poisson"]
    by_scipy = -stats.poisson.logpmf(y, np.exp(ETA))
    at_zero = -stats.poisson.logpmf(y, 1.0)
    assert_allclose(family.losses(y, ETA) - family.losses(y, 0 * ETA), by_scipy - at_zero)
    family, y = CASES["ordinal"]
    shares = family.probabilities(ETA)
    assert_allclose(shares.sum(axis=1), 1.0)
    assert_allclose(family.losses(y, ETA), -np.log(shares[np.arange(5), y.astype(int)]))
    assert_allclose(family.mean(ETA), shares @ np.arange(4))


def test_deviance_is_zero_at_best():
    y = np.array([1.0, 4.0])
    assert_allclose(Poisson().deviance(y, np.log(y)), 0.0, atol=1e-14)
    assert_allclose(
        Bernoulli().deviance(np.array([1.0, 0.0]), np.array([40.0, -40.0])), 0, atol=1e-15
    )


def test_extreme_latent_numbers_stay_finite():
    far = np.array([-800.0, 800.0])
    for y in (0.0, 1.0):
        values = np.full(2, y)
        assert np.isfinite(Bernoulli().losses(values, far)).all()
        slope, curve = Bernoulli().derivatives(values, far)
        assert np.isfinite(slope).all()
        assert (curve >= 0).all()
    assert np.isfinite(Ordinal(CUTS).losses(np.array([1.0, 1.0]), far)).all()


def test_mean_sigmoid_is_the_integral():
    x = np.linspace(-60, 60, 400001)
    for mean, std in ((0.3, 0.5), (-2.0, 3.0), (4.0, 6.0)):
        density = stats.norm.pdf(x, mean, std)
        expected = trapezoid(expit(x) * density, x)
        assert_allclose(mean_sigmoid(np.array([mean]), np.array([std]))[0], expected, atol=2e-4)
    assert_allclose(mean_sigmoid(np.array([1.0]), np.array([0.0])), expit(1.0))

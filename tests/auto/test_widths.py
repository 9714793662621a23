"""Standard deviations brought to the errors on hidden entries."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import kronfill as kf
from kronfill.auto.members import MixChoice
from kronfill.auto.widths import POWERS, fitted_width, latent_variances


def drawn(power, seed=0, n=4000):
    rng = np.random.default_rng(seed)
    total = np.exp(2 * rng.standard_normal(n))
    return np.sqrt(3.0 * total**power) * rng.standard_normal(n), total


@pytest.mark.parametrize("power", [0.3, 1.0, 1.5])
def test_size_and_power_are_those_of_the_likelihood(power):
    gap, total = drawn(power)
    weights = np.random.default_rng(1).random(len(gap)) + 0.5
    root, found = fitted_width(gap, total, weights, 10**9)

    def cost(x):
        logs = x[0] + x[1] * np.log(total)
        return np.average(logs + gap**2 / np.exp(logs), weights=weights)

    best = minimize(cost, [0.0, 1.0], tol=1e-10).x
    assert abs(found - best[1]) <= POWERS[1] - POWERS[0]
    at_found = minimize(lambda x: cost([x[0], found]), [0.0], tol=1e-10).x[0]
    np.testing.assert_allclose(root**2, np.exp(at_found), rtol=1e-5)
    assert abs(found - power) < 0.1


def test_few_errors_keep_the_power_near_one():
    gap, total = drawn(0.3, n=12)
    assert abs(fitted_width(gap, total, np.ones(12), 1)[1] - 1) < 0.4
    gap, total = drawn(0.3)
    assert fitted_width(gap, total, np.ones(len(gap)), len(gap))[1] < 0.4


def test_entries_without_any_error_have_a_least_width():
    assert fitted_width(np.zeros(5), np.ones(5), np.ones(5), 5) == (1e-3, 1.0)


def test_noise_and_latent_variance_add_up_to_the_whole():
    _, total = drawn(0.5, n=20)
    spread, power = np.array([2.0, 3.0, 1.0, 1.0]), np.array([0.5, 0.7, 1.0, 1.0])
    noise = 0.5 * float(total.min())
    kinds = np.zeros(20, np.intp)
    latent = latent_variances(total - noise, noise, kinds, spread, power)
    np.testing.assert_allclose(latent + 4.0 * noise**0.5, 4.0 * total**0.5)
    assert (latent > 0).all()


def test_choices_of_earlier_versions_have_no_power():
    X = np.argwhere(np.random.default_rng(0).random((20, 15)) < 0.6)
    y = np.sin(X[:, 0]) + X[:, 1] / 10 + 0.1 * np.random.default_rng(1).standard_normal(len(X))
    old = replace(kf.AutoMC().fit(X, y).choice_, power=None)
    est = kf.AutoMC(choice=old).fit(X, y)
    low_rank = est.members_["low rank"]
    factor = old.spread[0]
    np.testing.assert_allclose(est.predict_std(X), factor * low_rank.predict_std(X))
    np.testing.assert_allclose(est.noise_variance_, factor**2 * low_rank.noise_variance_)
    assert MixChoice().power is None


def test_errors_that_do_not_grow_as_the_low_rank_part_says_are_met():
    rng = np.random.default_rng(3)
    F = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 40))
    noise = np.where(np.arange(80) % 2, 0.1, 1.0)[:, None] * rng.standard_normal(F.shape)
    seen = rng.random(F.shape) < 0.5
    X, asked = np.argwhere(seen), np.argwhere(~seen)
    values = F + noise
    est = kf.AutoMC().fit(X, values[seen])
    z = (est.predict(asked) - values[~seen]) / np.sqrt(
        est.predict_std(asked) ** 2 + est.noise_variance_
    )
    assert 0.9 < np.sqrt(np.mean(z**2)) < 1.15

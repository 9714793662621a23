"""How the constants were chosen."""

from __future__ import annotations

import numpy as np
import pytest

import kronfill as kf
from kronfill.paper import calibrate, tune
from kronfill.paper.constants import load_constants
from kronfill.paper.losses import KernelSum, measure
from kronfill.paper.published import SIZES, paper_values
from kronfill.paper.synthetic import Draw


def test_the_shortcut_of_the_calibration_is_a_fit_of_kkmcex():
    """One factorisation for several F, against the estimator and the losses of the figure."""
    size, exponent = 60, 1.3
    rng = np.random.default_rng(0)
    codes = np.sort(rng.choice(size**2, 200, replace=False))
    rows, cols = np.divmod(codes, size)
    coefficients = rng.standard_normal((2, 2, size, 30))
    found = calibrate._losses(rows, cols, coefficients, exponent)
    kernel = calibrate.paper_kernel(size, exponent)
    for parts, value in zip(coefficients, found, strict=True):
        left, right = kernel.times(parts[0]), kernel.times(parts[1])
        left /= np.sqrt(np.mean((left @ right.T) ** 2))
        made = Draw(kernel, left, right, codes, 0.0, rng)
        fitted = kf.KKMCEX(kernel, kernel, mu=calibrate.INTERPOLATION).fit(made.observations)
        prediction = KernelSum(kernel, rows, cols, fitted.dual_coef_)
        assert value == pytest.approx(measure(made, prediction).test, rel=1e-8)


def test_the_profile_finds_what_the_curve_was_made_with():
    """Losses that are exact multiples of a curve give back the multiple."""
    rng = np.random.default_rng(0)
    shape = np.linspace(1.0, 2.0, len(SIZES))[:, None] * np.exp(-np.array(calibrate.EXPONENTS))
    noise = 1.0 + 0.01 * rng.standard_normal((len(SIZES), 50, 1, 1))
    losses = np.broadcast_to(shape[:, None, :, None] * noise, (len(SIZES), 50, 5, 2))
    target = 0.3 * losses.mean(axis=(1, 3))[:, 2]
    row = next(r for r in calibrate.profile(losses, target) if r["exponent"] == 1.35)
    assert row["power"] == pytest.approx(0.3, rel=1e-6)
    assert row["chi2"] < 1e-6


def test_the_constants_are_on_the_one_curve_they_were_fitted_to():
    data = load_constants()["data"]
    assert data["chi2"] < 16.9  # the 95% quantile for 11 sizes less 2 constants
    assert set(paper_values("a", "KKMCEX", "test")) == set(SIZES)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [([[3.0, 2.0, 1.0]], 10.0), ([[1.0, 1.0, 1.0]], 0.1), ([[1.01, 1.0005, 1.0]], 1.0)],
)
def test_the_smallest_weight_that_is_as_good_as_the_best(errors, expected):
    assert tune.choose(np.array([0.1, 1.0, 10.0]), np.array(errors)) == expected


def test_cross_validation_scores_what_it_held_out():
    """Interpolation has no error on the entries it was given, and one on the others."""
    errors = tune.cross_validate(tune.MuTrial("kkmcex", 40, 2), "a", np.array([1e-9, 1e3]))
    assert errors.shape == (2, 2)
    assert (errors[:, 0] < errors[:, 1]).all()
    assert (errors[:, 0] > 1e-6).all()

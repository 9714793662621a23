"""Numbers that cannot be fitted to."""

from __future__ import annotations

import numpy as np
import pytest

import kronfill as kf
from kronfill.errors import DataError

X = np.argwhere(np.ones((3, 2)))
METHODS = {
    "kkmcex": kf.KKMCEX(np.eye(3), None),
    "rrmcex": kf.RRMCEX(np.eye(3), None, row_rank=2),
    "kmc": kf.KMC(np.eye(3), None, rank=1),
    "imc": kf.IMC(np.eye(3), None, rank=1),
    "mc": kf.MC(rank=1),
}


@pytest.mark.parametrize("center", [None, "mean", "both"])
@pytest.mark.parametrize("name", METHODS)
def test_numbers_whose_squares_overflow_are_refused(name, center):
    est = METHODS[name].set_params(center=center)
    y, heavy = np.arange(6.0), np.ones(6)
    y[4], heavy[3] = -1e308, 1e300
    with pytest.raises(
        DataError, match=r"values must be at most 1e\+100 .* -1e\+308 at position 4"
    ):
        est.fit(X, y)
    with pytest.raises(
        DataError, match=r"weights must be at most 1e\+100, got 1e\+300 at position 3"
    ):
        est.fit(X, np.arange(6.0), sample_weight=heavy)


def test_of_several_targets_all_are_looked_at():
    y = np.ones((6, 2))
    y[2, 1] = 1e101
    with pytest.raises(DataError, match=r"values must be at most"):
        METHODS["kkmcex"].fit(X, y)


@pytest.mark.filterwarnings("ignore::kronfill.errors.ConvergenceWarning")
@pytest.mark.parametrize("name", METHODS)
def test_large_numbers_are_fitted_to(name):
    """Predictions scale with the values (and with mu for the factorised methods)."""
    scale = 1e60
    est = METHODS[name].set_params(center="mean")
    plain = est.set_params(mu=1e-3).fit(X, np.arange(6.0)).predict(X)
    factor = scale if name in ("kmc", "imc", "mc") else 1.0
    large = est.set_params(mu=1e-3 * factor).fit(X, scale * np.arange(6.0)).predict(X)
    np.testing.assert_allclose(large / scale, plain, atol=1e-6)

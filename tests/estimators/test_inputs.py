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


@pytest.mark.parametrize("center", [None, "mean", "both"])
@pytest.mark.parametrize("name", METHODS)
def test_numbers_whose_squares_vanish_are_refused(name, center):
    est = METHODS[name].set_params(center=center)
    with pytest.raises(DataError, match=r"values must be at least 1e-100 in size, got 5e-150"):
        est.fit(X, 1e-150 * np.arange(6.0))
    with pytest.raises(DataError, match=r"weights must be at least 1e-100, got 1e-120"):
        est.fit(X, np.arange(6.0), sample_weight=np.full(6, 1e-120))


@pytest.mark.parametrize("name", METHODS)
def test_zeros_and_single_small_numbers_are_fitted_to(name):
    est = METHODS[name].set_params(center=None)
    assert not est.fit(X, np.zeros(6)).predict(X).any()
    assert np.isfinite(est.fit(X, [1.0, 1e-150, 0.0, 2.0, 1e-300, 3.0]).predict(X)).all()


def test_of_several_targets_none_may_vanish():
    y = np.ones((6, 2))
    y[:, 1] = 1e-150
    with pytest.raises(DataError, match="values must be at least"):
        METHODS["kkmcex"].fit(X, y)


def test_what_arrives_later_is_looked_at():
    for name in ("kkmcex", "rrmcex"):
        est = METHODS[name].set_params(center=None).fit(X[:3], np.arange(3.0))
        with pytest.raises(DataError, match="values must be at most"):
            est.partial_fit(X[3:], [1.0, 1e200, 2.0])
        with pytest.raises(DataError, match="values must be at most"):
            est.fold_in((np.zeros(3), 1.0) if name == "kkmcex" else np.zeros((1, 3)), [0], [1e200])
    est = METHODS["kkmcex"].fit(X, np.arange(6.0))
    with pytest.raises(DataError, match="values must be at least"):
        est.revise(X, 1e-150 * np.arange(6.0))
    with pytest.raises(DataError, match="values must be at most"):
        est.revise(X[:1], [1e200])
    with pytest.raises(DataError, match="values must be at most"):
        METHODS["rrmcex"].partial_fit(X[3:], np.ones(3)).revise(X[3:4], [1e200], [1.0])


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


@pytest.mark.parametrize("est", [kf.AutoMC(), kf.BayesianKMC(rank=1)])
@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_numbers_whose_fourth_powers_are_lost_are_refused_by_variational_bayes(est, scale):
    with pytest.raises(DataError, match=r"between 1e-50 and 1e\+50 in size, got 5e[+-]\d+"):
        est.fit(X, scale * np.arange(6.0))

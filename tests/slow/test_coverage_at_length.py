"""Coverage of conformal intervals over two hundred splits of real data."""

from __future__ import annotations

import numpy as np
import pytest

import kronfill as kf
from kronfill.estimators.conformal import ConformalRegressor

pytestmark = pytest.mark.slow

SPLITS = 200


def trips():
    """Bicycle trips of 60 stations on 50 days, with kernels of both."""
    bixi = kf.datasets.load_bixi()
    table = np.log1p(bixi.trips.to_numpy()[:60, :50])
    place = kf.kernels.rbf(bixi.stations.to_numpy()[:60, :2], length_scale=0.01)
    days = kf.kernels.rbf(np.arange(50.0), length_scale=3.0)
    return table, place + 0.3 * kf.kernels.identity(60), days


# The entries are drawn uniformly; in one draw of a thousand the test of that says otherwise.
@pytest.mark.filterwarnings("ignore:The observed entries are no uniform sample")
@pytest.mark.parametrize("coverage", [0.8, 0.9])
@pytest.mark.parametrize("method", ["KKMCEX", "RRMCEX", "MC"])
def test_split_intervals_cover_as_promised(method, coverage):
    table, stations, days = trips()
    est = {
        "KKMCEX": kf.KKMCEX(stations, days, 0.1, "mean"),
        "RRMCEX": kf.RRMCEX(stations, days, 20, 10, 0.1, "mean"),
        "MC": kf.MC(shape=(60, 50), rank=2, mu=1.0),
    }[method]
    X = np.argwhere(np.isfinite(table))
    y = table[X[:, 0], X[:, 1]]
    shares = []
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:600], order[600:]
        model = ConformalRegressor(est, calibration=0.25, random_state=seed)
        model.fit(kf.Observations(*X[train].T, y[train], (60, 50)))
        fitted = model.estimator_.observations_
        warm = (fitted.row_counts[X[test, 0]] > 0) & (fitted.col_counts[X[test, 1]] > 0)
        low, high = model.predict_interval(X[test][warm], coverage=coverage).T
        shares.append(np.mean((low <= y[test][warm]) & (y[test][warm] <= high)))
    error = np.std(shares, ddof=1) / np.sqrt(SPLITS)
    assert np.mean(shares) >= coverage - 2 * error
    assert np.mean(shares) <= coverage + 0.02

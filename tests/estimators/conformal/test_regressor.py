"""Intervals: exact leave-one-out, what the ranks say, coverage, and what is refused."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_validate

import kronfill as kf
from kronfill.errors import DataError, IndexRangeError, ParameterError
from kronfill.estimators.conformal import ConformalRegressor
from kronfill.estimators.conformal import regressor as conformal

N, L = 8, 7
RNG = np.random.default_rng(0)
FEATURES = RNG.random((N, 2)), RNG.random((L, 1))
KW = kf.kernels.rbf(FEATURES[0], length_scale=0.5)
KH = kf.kernels.rbf(FEATURES[1], length_scale=0.3)
METHODS = {
    "MC": kf.MC(shape=(N, L), rank=2, mu=0.5),
    "KMC": kf.KMC(KW, KH, rank=2, mu=0.1),
    "IMC": kf.IMC(FEATURES[0], FEATURES[1], rank=1, mu=0.1),
    "KKMCEX": kf.KKMCEX(KW, KH, mu=0.2),
    "RRMCEX": kf.RRMCEX(KW, KH, 3, 2, mu=0.2),
}


def data(m=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.permutation(np.argwhere(np.ones((N, L))))[:m]
    y = 3.0 + np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.3 * rng.standard_normal(m)
    return X, y, rng.uniform(0.5, 2.0, m)


def brute_plus(est, X, y, w, at, coverage):
    """Jackknife+ by refits."""
    m = len(y)
    low, high = [], []
    for i in range(m):
        keep = np.arange(m) != i
        obs = kf.Observations(*X[keep].T, y[keep], (N, L), weights=None if w is None else w[keep])
        one = clone(est).fit(obs)
        error = abs(y[i] - one.predict(X[i : i + 1])[0])
        low.append(one.predict(at) - error)
        high.append(one.predict(at) + error)
    k = int(np.ceil((m + 1) * coverage))
    return np.sort(low, axis=0)[m - k], np.sort(high, axis=0)[k - 1]


@pytest.mark.parametrize("center", [None, "mean", "both"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["KKMCEX", "RRMCEX"])
def test_jackknife_plus_equals_refits(name, center, weighted):
    X, y, w = data()
    w = w if weighted else None
    est = clone(METHODS[name]).set_params(center=center)
    at = np.argwhere(np.ones((N, L)))
    model = ConformalRegressor(est, method="jackknife+").fit(X, y, sample_weight=w)
    ours = model.predict_interval(at, coverage=0.8)
    assert_allclose(ours, np.column_stack(brute_plus(est, X, y, w, at, 0.8)), atol=1e-8)
    assert_allclose(model.predict(at), est.fit(X, y, sample_weight=w).predict(at))


@pytest.mark.parametrize("name", METHODS)
def test_cross_validation_plus_equals_its_definition(name, monkeypatch):
    monkeypatch.setattr(conformal, "EXACT_LIMIT", 0)
    X, y, _ = data()
    at = np.argwhere(np.ones((N, L)))[::5]
    model = ConformalRegressor(METHODS[name], method="jackknife+", folds=4).fit(X, y)
    label = np.random.default_rng(0).permutation(40) % 4
    low, high = np.empty((40, len(at))), np.empty((40, len(at)))
    for k in range(4):
        one = clone(METHODS[name])
        one.fit(kf.Observations(*X[label != k].T, y[label != k], (N, L)))
        error = np.abs(y[label == k] - one.predict(X[label == k]))[:, None]
        low[label == k], high[label == k] = one.predict(at) - error, one.predict(at) + error
    rank = int(np.ceil(41 * 0.9))
    wanted = np.column_stack([np.sort(low, axis=0)[40 - rank], np.sort(high, axis=0)[rank - 1]])
    assert_allclose(model.predict_interval(at), wanted, atol=1e-12)


@pytest.mark.parametrize("name", METHODS)
def test_split_takes_the_width_from_the_errors_on_the_rest(name):
    X, y, _ = data()
    model = ConformalRegressor(METHODS[name], calibration=0.3, random_state=5).fit(X, y)
    held = np.random.default_rng(5).choice(40, size=12, replace=False)
    assert_array_equal(np.sort(model.scores_), model.scores_)
    errors = np.abs(y[held] - model.predict(X[held]))
    assert_allclose(model.scores_, np.sort(errors))
    low, high = model.predict_interval(X[:3], coverage=0.7).T
    width = model.scores_[int(np.ceil(13 * 0.7)) - 1]
    assert_allclose(low, model.predict(X[:3]) - width)
    assert_allclose(high, model.predict(X[:3]) + width)


@pytest.mark.parametrize("method", ["split", "jackknife+"])
def test_wider_for_more_coverage_and_without_end_for_too_much(method):
    X, y, _ = data()
    model = ConformalRegressor(METHODS["KKMCEX"], method=method).fit(X, y)
    widths = [np.ptp(model.predict_interval(X, coverage=c), axis=1) for c in (0.5, 0.7, 0.8)]
    assert np.all(np.diff(widths, axis=0) >= 0)
    assert np.all(np.isinf(model.predict_interval(X, coverage=0.99)))


@pytest.mark.parametrize("method", ["split", "jackknife+"])
@pytest.mark.parametrize("name", METHODS)
def test_cold_rows_and_columns_are_refused(name, method):
    X, y, _ = data(56)
    keep = (X[:, 0] != 7) & (X[:, 1] != 6)
    obs = kf.Observations(*X[keep].T, y[keep], (N, L))
    model = ConformalRegressor(METHODS[name], method=method, folds=3).fit(obs)
    with pytest.raises(DataError, match=r"1 of 2 entries .* \(7, 0\), whose row .* exchangeable"):
        model.predict_interval([[0, 0], [7, 0]])
    with pytest.raises(DataError, match=r"\(0, 6\), whose column"):
        model.predict_interval([[0, 6]])
    with pytest.raises(IndexRangeError):
        model.predict_interval([[8, 0]])
    assert model.predict([[7, 6]]).shape == (1,)
    assert model.predict_interval([[0, 0]]).shape == (1, 2)


@pytest.mark.filterwarnings("ignore:The observed entries are no uniform")
def test_split_refuses_what_its_fitted_part_has_not_seen():
    X, y, _ = data(56)
    only = (X[:, 0] != 7) | (X[:, 1] == 0)  # row 7 has a single observation
    X, y = X[only], y[only]
    alone = int(np.flatnonzero(X[:, 0] == 7)[0])
    for seed in range(50):
        held = np.random.default_rng(seed).choice(len(y), size=round(0.2 * len(y)), replace=False)
        if alone in held:
            break
    model = ConformalRegressor(METHODS["KKMCEX"], random_state=seed).fit(X, y)
    assert len(model.scores_) == len(held) - 1
    with pytest.raises(DataError, match="in the part that was fitted to"):
        model.predict_interval([[7, 0]])


@pytest.mark.filterwarnings("ignore:The observed entries are no uniform")
def test_an_entry_that_alone_tells_an_effect_makes_no_promise():
    X, y, _ = data(56)
    only = (X[:, 0] != 7) | (X[:, 1] == 0)
    X, y = X[only], y[only]
    est = clone(METHODS["KKMCEX"]).set_params(center="rows")
    model = ConformalRegressor(est, method="jackknife+").fit(X, y)
    assert np.isinf(model.scores_).sum() == 1
    assert np.all(np.isfinite(model.predict_interval([[0, 0]], coverage=0.8)))


@pytest.mark.parametrize("method", ["split", "jackknife+"])
@pytest.mark.parametrize("flip", [False, True])
def test_in_a_single_row_cold_columns_are_like_the_others(method, flip):
    x = np.linspace(0, 1, 200)
    rng = np.random.default_rng(0)
    X = np.column_stack([np.zeros(200, dtype=int), rng.permutation(200)])
    y = np.sin(6 * x[X[:, 1]]) + 0.2 * rng.standard_normal(200)
    sides = [None, kf.kernels.rbf(x, length_scale=0.2)]
    shape = (1, 200)
    if flip:
        X, sides, shape = X[:, ::-1], sides[::-1], (200, 1)
    est = kf.KKMCEX(*sides, mu=0.1, center="mean")
    model = ConformalRegressor(est, method=method, calibration=0.5)
    model.fit(kf.Observations(*X[:120].T, y[:120], shape))
    low, high = model.predict_interval(X[120:], coverage=0.8).T
    assert np.all(high - low < 1.0)
    # 80 entries: four standard errors of a share are 0.18
    assert abs(np.mean((low <= y[120:]) & (y[120:] <= high)) - 0.8) < 0.18


@pytest.mark.parametrize("method", ["split", pytest.param("jackknife+", marks=pytest.mark.slow)])
def test_coverage_on_bicycle_trips(method):
    """A small version of studies/conformal_coverage.py."""
    bixi = kf.datasets.load_bixi()
    trips = np.log1p(bixi.trips.to_numpy()[:60, :50])
    X = np.argwhere(np.isfinite(trips))
    y = trips[X[:, 0], X[:, 1]]
    place = kf.kernels.rbf(bixi.stations.to_numpy()[:60, :2], length_scale=0.01)
    stations = place + 0.3 * kf.kernels.identity(60)
    est = kf.KKMCEX(stations, kf.kernels.rbf(np.arange(50.0), length_scale=3.0), 0.1, "mean")
    shares = []
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:400], order[400:]
        model = ConformalRegressor(est, method=method, calibration=0.3, random_state=seed)
        model.fit(kf.Observations(*X[train].T, y[train], (60, 50)))
        fitted = model.estimator_.observations_
        warm = (fitted.row_counts[X[test, 0]] > 0) & (fitted.col_counts[X[test, 1]] > 0)
        low, high = model.predict_interval(X[test][warm], coverage=0.9).T
        shares.append(np.mean((low <= y[test][warm]) & (y[test][warm] <= high)))
    error = np.std(shares, ddof=1) / np.sqrt(len(shares))
    assert np.mean(shares) >= 0.9 - 2 * error
    assert np.mean(shares) <= 0.9 + 0.02


@pytest.mark.parametrize("method", ["split", "jackknife+", "folds"])
def test_pickles_and_clones_answer_the_same(method, monkeypatch, tmp_path):
    if method == "folds":
        monkeypatch.setattr(conformal, "EXACT_LIMIT", 0)
    X, y, _ = data()
    est = ConformalRegressor(METHODS["KKMCEX"], "split" if method == "split" else "jackknife+")
    model = est.fit(X, y)
    wanted = model.predict_interval(X, coverage=0.8)
    joblib.dump(model, tmp_path / "model")
    for copied in (joblib.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(copied.predict_interval(X, coverage=0.8), wanted)
        assert copied.estimator_ is copied._bounds.model
    fresh = clone(model)
    with pytest.raises(NotFittedError):
        fresh.predict_interval(X)
    assert_array_equal(fresh.fit(X, y).predict_interval(X, coverage=0.8), wanted)
    obs = kf.Observations(*X.T, y, (N, L))
    assert model.score(obs) == model.score(X, y) == r2_score(y, model.predict(X))


def test_a_pickle_leaves_the_factorisation_out():
    X, y, _ = data(50)
    model = ConformalRegressor(METHODS["KKMCEX"], "jackknife+").fit(X, y)
    before = len(pickle.dumps(model))
    model.predict_interval(X)
    assert len(pickle.dumps(model)) == before


def covered(model, X, y):
    low, high = model.predict_interval(X, coverage=0.8).T
    return float(np.mean((low <= y) & (y <= high)))


def test_in_scikit_learns_tools_with_several_processes():
    X, y, _ = data(56)
    model = ConformalRegressor(METHODS["KKMCEX"], "jackknife+")
    one, two = (
        cross_validate(model, X, y, cv=4, scoring=covered, n_jobs=jobs, return_estimator=True)
        for jobs in (None, 2)
    )
    assert_array_equal(one["test_score"], two["test_score"])
    assert_array_equal(one["estimator"][0].scores_, two["estimator"][0].scores_)
    search = GridSearchCV(model, {"estimator__mu": [1e-3, 0.1, 100.0]}, cv=4).fit(X, y)
    assert search.best_estimator_.estimator_.mu_ == search.best_params_["estimator__mu"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"method": "magic"}, "method must be one of"),
        ({"calibration": 1.0}, "calibration must lie"),
        ({"folds": 1}, "folds must be"),
        ({"estimator": Ridge()}, "estimator must be one of"),
        ({"random_state": -1}, "random_state must be"),
        ({"random_state": "now", "method": "jackknife+"}, "random_state must be"),
    ],
)
def test_bad_settings(settings, text):
    X, y, _ = data()
    with pytest.raises(ParameterError, match=text):
        ConformalRegressor(**{"estimator": METHODS["MC"], **settings}).fit(X, y)


def test_bad_input():
    X, y, _ = data()
    with pytest.raises(DataError, match="at least 2 observations"):
        ConformalRegressor(METHODS["MC"]).fit(X[:1], y[:1])
    model = ConformalRegressor(METHODS["KKMCEX"]).fit(X, y)
    for bad in (0, 1.0, "much", True):
        with pytest.raises(ParameterError, match="coverage must lie"):
            model.predict_interval(X, coverage=bad)

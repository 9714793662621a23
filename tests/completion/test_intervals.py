"""Intervals of completed tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import kronfill as kf
from kronfill.completion.intervals import (
    WORK,
    Calibrated,
    Gaussian,
    NoIntervals,
    intervals_for,
    std_work,
)
from kronfill.errors import ParameterError


def data(n=40, l=30, share=0.4, seed=0):
    """A smooth table with noise 0.3, of which a part is observed; its truth; and both axes."""
    rng = np.random.default_rng(seed)
    x, t = rng.random(n), rng.random(l)
    truth = 3 * np.sin(4 * x)[:, None] * np.cos(3 * t)[None, :]
    noisy = truth + 0.3 * rng.standard_normal(truth.shape)
    seen = rng.random(truth.shape) < share
    seen[: n // 8] = False
    seen[:, : l // 8] = False
    return noisy, seen, pd.DataFrame({"x": x}), pd.DataFrame({"t": t})


def test_gaussian_is_std_with_noise():
    noisy, seen, rows, cols = data()
    done = kf.complete(np.where(seen, noisy, np.nan), rows, cols)
    found = done.details(level=0.8, intervals="gaussian")
    open_ = found["status"] != "observed"
    at = (found["row"].to_numpy(), found["column"].to_numpy())
    std = np.sqrt(done.model.predict_std(np.column_stack(at)) ** 2 + done.model.noise_variance_)
    assert_allclose(found["std"][open_], std[open_])
    half = norm.ppf(0.9) * std
    assert_allclose((found["upper"] - found["value"])[open_], half[open_])
    assert_allclose((found["value"] - found["lower"])[open_], half[open_])
    assert found.loc[~open_, ["lower", "upper", "std"]].isna().all(axis=None)
    assert_allclose(done.intervals(level=0.8), found[["lower", "upper"]])


@pytest.mark.parametrize("method", ["kkmcex", "kmc"])
@pytest.mark.parametrize("kind", ["gaussian", "calibrated"])
def test_they_contain_about_as_many_as_they_should(method, kind):
    """Known and cold entries each, on average over five tables."""
    if (method, kind) == ("kmc", "gaussian"):
        return
    inside = {"filled": [], "extrapolated": []}
    for seed in range(5):
        noisy, seen, rows, cols = data(60, 50, seed=seed)
        done = kf.complete(np.where(seen, noisy, np.nan), rows, cols, method=method, rank=3)
        found = done.details(level=0.9, intervals=kind)
        hit = (found["lower"] <= noisy.ravel()) & (noisy.ravel() <= found["upper"])
        for status, rates in inside.items():
            rates.append(hit[found["status"] == status].mean())
    assert abs(np.mean(inside["filled"]) - 0.9) < 0.04
    assert 0.7 < np.mean(inside["extrapolated"]) <= 1.0


def test_which_kind_is_taken():
    noisy, seen, rows, cols = data()
    table = np.where(seen, noisy, np.nan)
    done = kf.complete(table, rows, cols)
    assert isinstance(intervals_for(done.model, 1200), Gaussian)
    too_many = int(WORK / done.observations.m**2) + 1
    assert std_work(done.model, too_many) > WORK
    assert isinstance(intervals_for(done.model, too_many), Calibrated)
    assert isinstance(intervals_for(done.model, 1, "none"), NoIntervals)
    mc = kf.complete(table, method="mc", rank=2)
    assert isinstance(intervals_for(mc.model, 1), Calibrated)
    with pytest.raises(ParameterError, match="no standard deviation"):
        intervals_for(mc.model, 1, "gaussian")
    with pytest.raises(ParameterError, match="intervals must be one of"):
        done.details(intervals="wide")
    for level in (0, 1, 90, True, "much"):
        with pytest.raises(ParameterError, match="level must lie"):
            done.details(level=level)


def test_too_little_data_gives_none():
    with pytest.warns(kf.errors.KronfillWarning):
        one = kf.complete(np.array([[1.0, np.nan], [np.nan, np.nan]]))
    assert one.details()[["lower", "upper", "std"]].isna().all(axis=None)
    few = kf.complete(np.array([[1.0, np.nan], [2.0, 3.0]]), method="mc", rank=1, mu=1.0)
    assert few.details()["lower"].isna().all()


def test_calibrated_widths_are_quantiles_of_hidden_errors():
    noisy, seen, rows, cols = data(80, 60)
    model = kf.complete(np.where(seen, noisy, np.nan), rows, cols, mu=0.1).model
    made = Calibrated(model)
    again = Calibrated(model)
    for kind in range(4):
        assert_allclose(made._errors[kind], again._errors[kind])
        errors = made._errors[kind]
        k = int(np.ceil(0.9 * (len(errors) + 1)))
        middle = np.zeros((1, 1))
        cold_row = int(np.flatnonzero(model.observations_.row_counts == 0)[0])
        cold_col = int(np.flatnonzero(model.observations_.col_counts == 0)[0])
        warm = (
            int(np.argmax(model.observations_.row_counts)),
            int(np.argmax(model.observations_.col_counts)),
        )
        row = np.array([cold_row if kind & 1 else warm[0]])
        col = np.array([cold_col if kind & 2 else warm[1]])
        low, high, std = made.at(row, col, middle[0], 0.9)
        assert high[0] == -low[0] == np.sort(errors)[k - 1]
        assert np.isnan(std[0])
    assert np.isnan(made.at(row, col, middle[0], 0.999999)[0][0])


def test_blocks_are_the_same_as_the_whole():
    noisy, seen, rows, cols = data(12, 11)
    done = kf.complete(np.where(seen, noisy, np.nan), rows, cols, mu=0.1)
    whole = done.details()
    parts = pd.concat(done.iter_details(chunk=7), ignore_index=True)
    pd.testing.assert_frame_equal(parts, whole)
    assert_allclose(whole["value"], done.filled.to_numpy().ravel())
    assert list(whole["status"]) == list(done.status.to_numpy().ravel())
    assert len(done.details([])) == 0


def test_intervals_are_as_wide_as_the_errors_where_whole_sensors_and_stretches_are_missing():
    rng = np.random.default_rng(4)
    n, l = 120, 200
    place, hour = rng.random((n, 2)), np.arange(l)
    truth = 10 + 5 * place[:, :1] + (3 + 2 * place[:, 1:]) * np.sin(hour / 4)
    table = truth + 0.4 * rng.standard_normal((n, l))
    for row, start in enumerate(rng.integers(0, l - 50, n)):
        table[row, start : start + 50] = np.nan
    table[7] = np.nan
    clock = pd.DataFrame({"hour": hour % 24, "day": hour // 24, "number": hour})
    places = pd.DataFrame(place, columns=["x", "y"])
    done = kf.complete(pd.DataFrame(table), rows=places, cols=clock, mu=1e-4)
    details = done.details(intervals="calibrated")
    hidden = details[details["status"] != "observed"]
    widths = (hidden["upper"] - hidden["lower"]).to_numpy()
    error = hidden["value"].to_numpy() - truth[np.isnan(table)]
    assert np.nanmax(widths) < 20 * np.sqrt(np.mean(error**2))

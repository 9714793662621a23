"""Forecasts: the dates that come next, what is predicted there, and how far off it is."""

import datetime

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import kronfill as kf
from kronfill.completion.answers.forecasts import next_dates, rolled_errors
from kronfill.data.reading.column_kinds import as_days


def rhythm(n=4, days=70, noise=0.1, seed=0):
    """Rows with levels of their own and the same week."""
    rng = np.random.default_rng(seed)
    when = pd.date_range("2026-03-02", periods=days)
    week = np.array([0, 1, 2, 1, 0, -2, -3.0])[when.day_of_week]
    values = 10 + rng.normal(0, 2, (n, 1)) + week + rng.normal(0, noise, (n, days))
    return pd.DataFrame(values, [f"r{k}" for k in range(n)], when)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["2024-01-31", "2024-02-29", "2024-03-31"], ["2024-04-30", "2024-05-31"]),
        (["2024-01-05", "2024-02-05", "2024-04-05"], ["2024-05-05", "2024-06-05"]),
        ([f"2024-01-{k:02d}" for k in (1, 2, 3, 4, 5, 8, 9, 12)], ["2024-01-15", "2024-01-16"]),
        (["2024-01-02T00:00", "2024-01-01T12:00"], ["2024-01-02T12:00", "2024-01-03T00:00"]),
        (["2024-01-01", "2024-01-02", "2024-01-04", "2024-01-05"], ["2024-01-06", "2024-01-07"]),
    ],
)
def test_dates_go_on_at_their_usual_distance_as_they_are_written(labels, expected):
    assert list(next_dates(labels, 2)) == expected


def test_dates_stay_what_they_are():
    days = [datetime.date(2024, 2, 27 + k) for k in range(3)]
    assert list(next_dates(days, 1)) == [datetime.date(2024, 3, 1)]
    zone = pd.date_range("2024-03-30", periods=3, tz="Europe/Berlin", name="when")
    coming = next_dates(zone, 2)
    assert coming.name == "when"
    assert coming.tz == zone.tz
    assert coming[0] == zone[-1] + pd.DateOffset(days=1)


def test_a_forecast_is_what_extrapolation_says_at_those_dates():
    table = rhythm()
    done = kf.complete(table.iloc[:, :56], method="kkmcex", mu=0.1)
    coming = done.forecast(14)
    assert list(coming.columns) == list(table.columns[56:])
    pd.testing.assert_frame_equal(coming, done.extrapolate(cols=coming.columns))
    assert np.sqrt(np.mean((coming - table.iloc[:, 56:]) ** 2)) < 0.5


def test_where_rows_are_dates_rows_come_next():
    table = rhythm()
    wide = kf.complete(table, method="kkmcex", mu=0.1)
    tall = kf.complete(table.T, method="kkmcex", mu=0.1)
    np.testing.assert_allclose(tall.forecast(3), wide.forecast(3).T, atol=1e-6)
    one, other = tall.forecast_details(3), wide.forecast_details(3)
    np.testing.assert_allclose(one["upper"], other["upper"], atol=1e-6)
    assert list(one["row"]) == list(other["column"])


def test_dates_beside_other_features_are_enough():
    table = rhythm()
    busy = pd.DataFrame({"fair": np.arange(70) % 9 == 0}, index=table.columns)
    done = kf.complete(table, cols=busy, method="kkmcex", mu=0.1)
    found = done.forecast(2)
    assert found.shape == (4, 2)
    assert np.isfinite(found.to_numpy()).all()


def test_rolled_errors_are_those_of_refits_before_each_date():
    table = rhythm(days=60).mask(np.random.default_rng(1).random((4, 60)) < 0.2)
    table.iloc[3] = np.nan
    done = kf.complete(table, method="kkmcex", mu=0.1)
    days = as_days(list(table.columns))
    found = rolled_errors(done.model, done.observations, 1, days, 10)
    gaps = []
    for cut in (50, 40, 30):
        before = table.copy()
        before.iloc[:, cut:] = np.nan
        model = clone(done.model).fit(kf.Observations.from_matrix(before))
        block = table.iloc[:3, cut : cut + 10] - model.predict_matrix()[:3, cut : cut + 10]
        gaps.append(block.to_numpy()[block.notna()])
    assert found.origins == 3
    assert np.isnan(found.rows[3])
    assert len(found.scores) == sum(map(len, gaps))


def test_intervals_of_forecasts_grow_and_hold():
    rng = np.random.default_rng(1)
    steps = rng.normal(0, 1, (20, 140)).cumsum(axis=1)
    table = pd.DataFrame(steps, columns=pd.date_range("2025-01-01", periods=140))
    done = kf.complete(table.iloc[:, :120], method="kkmcex", mu=0.1)
    found = done.forecast_details(20)
    width = (found["upper"] - found["lower"]).to_numpy().reshape(20, 20)
    assert (np.diff(width, axis=1) > 0).all()
    truth = table.iloc[:, 120:].to_numpy().ravel()
    inside = (found["lower"] <= truth) & (truth <= found["upper"])
    assert inside.mean() > 0.8
    assert set(found["status"]) == {"extrapolated"}


def test_no_dates_no_forecast():
    done = kf.complete(np.add.outer(np.arange(6.0), np.arange(5.0)), method="kkmcex", mu=0.1,
                       rows=pd.DataFrame({"x": np.arange(6.0)}))  # fmt: skip
    with pytest.raises(kf.errors.ParameterError, match="no dates to carry on"):
        done.forecast(3)
    dated = kf.complete(rhythm(), method="kkmcex", mu=0.1)
    with pytest.raises(kf.errors.ParameterError, match="periods"):
        dated.forecast(0)


def test_questions_by_label_are_those_of_the_method():
    table = rhythm(days=30)
    table.iloc[1, 4] = np.nan
    done = kf.complete(table, method="kkmcex", mu=0.1)
    label = ("r1", table.columns[4])
    assert done.explain(*label).prediction == pytest.approx(done.predict([label])[0])
    assert done.std().loc[label] == pytest.approx(done.std([label])[0])
    assert done.suggest(1).iloc[0][["row", "column"]].tolist() == list(label)
    blind = kf.complete(table, method="mc", rank=1, mu=1.0)
    with pytest.raises(kf.errors.ParameterError, match="standard deviation"):
        blind.std()

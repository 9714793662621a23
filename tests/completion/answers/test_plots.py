"""Pictures of a completed table show what they say."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.report import evaluate

mpl.use("Agg")


@pytest.fixture(scope="module")
def done():
    rng = np.random.default_rng(0)
    places = pd.DataFrame({"x": np.linspace(0, 1, 14)}, [f"p{k}" for k in range(14)])
    days = pd.date_range("2026-01-05", periods=30)
    values = 3 * places["x"].to_numpy()[:, None] + np.sin(np.arange(30) * 2 * np.pi / 7)
    table = pd.DataFrame(values + 0.1 * rng.standard_normal((14, 30)), places.index, days)
    table = table.mask(rng.random(table.shape) < 0.2).iloc[:12]
    table.iloc[3, 10:20] = np.nan
    return kf.complete(table, rows=places, method="kkmcex", mu=0.1)


@pytest.fixture(autouse=True)
def closed():
    yield
    mpl.pyplot.close("all")


def test_the_table_tells_observed_filled_and_extrapolated_apart(done):
    ax = done.plot()
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["observed", "filled", "extrapolated"]
    shades = np.asarray(ax.images[0].get_array())
    status = done.status.to_numpy()
    # What was not observed has no colour as deep as the scale's.
    assert shades[status != "observed"].min() >= 0.55
    assert shades[status == "observed"].min() < 0.4
    (hatched,) = [patch for patch in ax.patches if patch.get_hatch()]
    assert hatched.get_bbox().get_points()[:, 1].tolist() == [11.5, 13.5]


def test_errors_are_those_of_the_evaluation(done):
    ax = done.plot("errors")
    found = evaluate(done).parts
    drawn = {line.get_label().split(":")[0]: line for line in ax.lines[:-1]}
    assert list(drawn) == ["missing entries", "new rows", "new columns"]
    np.testing.assert_allclose(drawn["new rows"].get_ydata(), found["row"].predicted)


def test_one_row_has_its_points_line_and_band(done):
    ax = done.plot("row", row="p3", periods=5)
    line, points = ax.lines[0], ax.lines[1]
    seen = (done.status.loc["p3"] == "observed").sum()
    assert len(points.get_ydata()) == seen
    assert np.isfinite(line.get_ydata()).sum() == 30 - seen + 5
    coming = done.forecast_details(5)
    own = coming[coming["row"] == "p3"]
    np.testing.assert_allclose(line.get_ydata()[-5:], own["value"])
    assert ax.collections


def test_what_cannot_be_drawn_is_said(done):
    with pytest.raises(kf.errors.ParameterError, match="kind must be one of"):
        done.plot("pie")
    with pytest.raises(kf.errors.ParameterError, match="kind='row'"):
        done.plot("table", row="p3")
    with pytest.raises(kf.errors.ParameterError, match="does not weigh sources"):
        done.plot("sources")


def test_only_what_is_to_be_asked_is_listed(done):
    names = dir(done)
    assert {"filled", "forecast", "plot", "explain", "std", "model"} <= set(names)
    assert not any(name.startswith("_") for name in names)
    assert "intervals_for" not in names
    assert set(names) <= {*dir(type(done)), *vars(done)}

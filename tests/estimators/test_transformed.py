"""Values on another scale: the way there and back, what is chosen, and what is kept."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import kronfill as kf
from kronfill.estimators.choices import kept
from kronfill.estimators.transformed import TransformedRegressor, ValueScale
from kronfill.estimators.transformed.form import Limits, UndoneForm

RANGE = (1.0, 5.0)
KINDS = ("none", "log", "sqrt", "ranks", "range")
NO_LIMITS = Limits(None, False)


class Itself:
    """A fitted form that says what it is given."""

    shape = (1, 1)


def skewed(seed=0, size=(40, 30), noise=0.3):
    rng = np.random.default_rng(seed)
    low_rank = rng.standard_normal((size[0], 2)) @ rng.standard_normal((2, size[1]))
    truth = np.exp(1.0 + 0.7 * low_rank)
    values = truth * np.exp(noise * rng.standard_normal(size))
    return truth * np.exp(noise**2 / 2), np.where(rng.random(size) < 0.6, values, np.nan)


@pytest.mark.parametrize("kind", KINDS)
@given(
    values=hnp.arrays(
        float, st.integers(1, 20), elements=st.floats(1.0, 5.0, allow_subnormal=False)
    )
)
def test_there_and_back(kind, values):
    scale = ValueScale.of(kind, values, RANGE)
    there = scale.forward(values)
    np.testing.assert_allclose(scale.inverse(there), values, rtol=1e-9)
    assert (np.diff(there[np.argsort(values)]) >= 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_way_back_is_the_mean_over_errors(kind):
    rng = np.random.default_rng(1)
    values = np.exp(0.4 * rng.standard_normal(500)).clip(1, 5)
    scale = ValueScale.of(kind, values, RANGE)
    places = scale.forward(np.linspace(1, 5, 200))
    errors = 0.3 * rng.standard_normal(40)
    form = UndoneForm(Itself(), scale, (errors,) * 4, NO_LIMITS, np.ones(1, bool), np.ones(1, bool))
    slow = np.array([scale.inverse(z + errors).mean() for z in places])
    if kind == "none":
        slow = places
    fast = form.undone(places, np.zeros(len(places), int))
    np.testing.assert_allclose(fast, slow, rtol=2e-4)
    np.testing.assert_array_equal(form.undone(places[7:8], np.zeros(1, int)), fast[7:8])


def test_a_logarithm_is_found_and_undone_without_bias():
    truth, seen = skewed()
    obs = kf.Observations.from_matrix(seen)
    model = TransformedRegressor(kf.MC(rank=2, mu=1.0, center="mean")).fit(obs)
    plain = kf.MC(rank=2, mu=1.0, center="mean").fit(obs)
    assert model.scale_.kind == "log"
    assert set(model.trials_) == {"none", "log", "sqrt", "ranks"}
    hidden = np.isnan(seen)
    error, before = (
        np.sqrt(np.mean((one.predict_matrix() - truth)[hidden] ** 2)) for one in (model, plain)
    )
    assert error < 0.8 * before
    left = model.predict_matrix()[hidden]
    assert abs(left.mean() / truth[hidden].mean() - 1) < 0.1
    pairs = np.argwhere(hidden)
    np.testing.assert_array_equal(model.predict(pairs), left)


def test_each_kind_of_entry_has_errors_of_its_own():
    """Of a small table, too: of a new row nothing is known, of a new column its rows are."""
    rng = np.random.default_rng(0)
    logs = 2 * rng.standard_normal((14, 1)) + 0.1 * rng.standard_normal((14, 12))
    obs = kf.Observations.from_matrix(np.exp(logs))
    known, row, col, both = (
        TransformedRegressor(kf.MC(rank=1, mu=1.0, center="both"), "log").fit(obs).errors_
    )
    assert known.std() < 0.2 * row.std()
    assert col.std() < 0.2 * row.std()
    assert both.std() > 0.5 * row.std()


def test_values_that_are_not_skewed_stay_as_they_are():
    rng = np.random.default_rng(0)
    obs = kf.Observations.from_matrix(5 + rng.standard_normal((12, 9)))
    method = kf.MC(rank=1, mu=1.0)
    model = TransformedRegressor(method).fit(obs)
    assert model.scale_.kind == "none"
    assert model.trials_ == {}
    np.testing.assert_array_equal(model.predict_matrix(), method.fit(obs).predict_matrix())


def test_what_was_chosen_is_kept():
    _, seen = skewed(1)
    obs = kf.Observations.from_matrix(seen)
    model = TransformedRegressor(kf.KKMCEX(mu="auto", center="both"), "sqrt").fit(obs)
    again = kept(model)
    assert again.estimator.mu == model.estimator_.mu_
    assert again.scale.kind == "sqrt"
    np.testing.assert_allclose(again.fit(obs).predict_matrix(), model.predict_matrix())


@pytest.mark.parametrize("transform", ["auto", "log", None])
def test_everything_stays_within_the_range(transform, tmp_path):
    rng = np.random.default_rng(3)
    like = 3 + 1.6 * rng.standard_normal((30, 2)) @ rng.standard_normal((2, 25))
    stars = np.clip(np.round(like + 0.5 * rng.standard_normal(like.shape)), 1, 5)
    table = pd.DataFrame(np.where(rng.random(stars.shape) < 0.5, stars, np.nan))
    users = pd.DataFrame({"x": like[:, 0]})
    done = kf.complete(
        table, users, method="kkmcex", mu=1.0, value_range=(1, 5), transform=transform, round=True
    )
    found = done.details(intervals="calibrated")
    numbers = found[["value", "lower", "upper"]].to_numpy()
    assert np.nanmin(numbers) >= 1
    assert np.nanmax(numbers) <= 5
    assert (found["value"] == found["value"].round()).all()
    new = done.extrapolate(rows=pd.DataFrame({"x": [-50.0, 50.0]}))
    assert new.to_numpy().min() >= 1
    assert new.to_numpy().max() <= 5
    best = done.best(3, rows=[0])
    order = pd.Series(done.model.ranking_matrix([0])[0])
    left = order[table.loc[0].isna()].sort_values(ascending=False).index[:3]
    assert list(best["column"]) == list(left)
    done.save(tmp_path / "m.kf")
    again = kf.load(tmp_path / "m.kf")
    np.testing.assert_array_equal(again.filled, done.filled)
    upper = again.details(intervals="calibrated")["upper"]  # from one more fit, so up to rounding
    np.testing.assert_allclose(upper, found["upper"], rtol=1e-12)
    assert "kept within 1 to 5, rounded" in repr(done)


def test_intervals_are_those_of_the_scale_told_in_units():
    _, seen = skewed(2)
    table = pd.DataFrame(seen)
    done = kf.complete(table, method="mc", rank=2, mu=1.0, transform="log")
    logs = kf.complete(np.log(table), method="mc", rank=2, mu=1.0)
    one, other = done.details(), logs.details()
    free = (one["status"] == "filled").to_numpy()
    wide = np.exp(other["upper"][free].to_numpy())
    value = one["value"][free].to_numpy()
    np.testing.assert_allclose(one["upper"][free], np.maximum(wide, value))
    assert (one["lower"][free] > 0).all()


def test_what_values_cannot_be_is_refused():
    table = pd.DataFrame([[-1.0, 2.0], [3.0, np.nan]])
    with pytest.raises(kf.errors.ParameterError, match="not negative"):
        kf.complete(table, method="mc", rank=1, mu=1.0, transform="log")
    with pytest.raises(kf.errors.ParameterError, match="transform must be one of"):
        kf.complete(table, transform="cube")
    with pytest.raises(kf.errors.DataError, match="outside of value_range"):
        kf.complete(table, method="mc", rank=1, mu=1.0, value_range=(0, 5))
    with pytest.raises(kf.errors.ParameterError, match="two numbers"):
        kf.complete(table, value_range=(5, 1))

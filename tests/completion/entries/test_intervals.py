"""Intervals of completed tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

import kronfill as kf
from kronfill.completion.entries.intervals import (
    ENOUGH,
    NAMES,
    Calibrated,
    Gaussian,
    NoIntervals,
    intervals_for,
)
from kronfill.completion.judging.evaluation import evaluate
from kronfill.errors import KronfillWarning, ParameterError
from kronfill.estimators.conformal.scales import ConstantScale, StdScale


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
    done = kf.complete(np.where(seen, noisy, np.nan), rows, cols, method="kkmcex")
    found = done.details(level=0.8, intervals="gaussian")
    open_ = found["status"] != "observed"
    at = (found["row"].to_numpy(), found["column"].to_numpy())
    std = np.sqrt(done.model.predict_std(np.column_stack(at)) ** 2 + done.model.noise_variance_)
    assert_allclose(found["std"][open_], std[open_])
    half = norm.ppf(0.9) * std
    assert_allclose((found["upper"] - found["value"])[open_], half[open_])
    assert_allclose((found["value"] - found["lower"])[open_], half[open_])
    assert found.loc[~open_, ["lower", "upper", "std"]].isna().all(axis=None)
    assert_allclose(done.intervals(level=0.8, method="gaussian"), found[["lower", "upper"]])
    assert set(found["interval"].dropna()) == {"gaussian"}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kkmcex", "kmc"])
@pytest.mark.parametrize("kind", ["gaussian", "calibrated"])
def test_they_contain_about_as_many_as_they_should(method, kind):
    """Known and cold entries each, on average over five tables."""
    if (method, kind) == ("kmc", "gaussian"):
        return
    inside = {"filled": [], "extrapolated": []}
    for seed in range(3 if method == "kmc" else 5):
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
    done = kf.complete(table, rows, cols, method="kkmcex")
    assert done.observations.m > ENOUGH
    assert isinstance(intervals_for(done.model, 1200), Calibrated)
    few = kf.complete(table[:, :15], rows, cols[:15], method="kkmcex")
    assert few.observations.m < ENOUGH
    assert isinstance(intervals_for(few.model, 600), Gaussian)
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
        one = kf.complete(np.array([[1.0, np.nan], [np.nan, np.nan]]), method="kkmcex")
    assert one.details()[["lower", "upper", "std"]].isna().all(axis=None)
    few = kf.complete(np.array([[1.0, np.nan], [2.0, 3.0]]), method="mc", rank=1, mu=1.0)
    assert few.details()["lower"].isna().all()


def test_calibrated_intervals_are_those_of_their_kind():
    """Known: weighted conformal; new rows and columns: each hidden one counts once."""
    noisy, seen, rows, cols = data(80, 60)
    done = kf.complete(np.where(seen, noisy, np.nan), rows, cols, method="kkmcex", mu=0.1)
    found = done.details(level=0.9, intervals="calibrated")
    made = done.intervals_for(0, "calibrated")
    at = (found["row"].to_numpy(), found["column"].to_numpy())
    kinds = made.kinds(*at)
    for kind, name in enumerate(NAMES):
        part = made.part(kind)
        mine = (kinds == kind) & (found["status"] != "observed").to_numpy()
        assert set(found["interval"][mine]) == {f"conformal, {name}"}
        low, high = part.at(np.column_stack(at)[mine], 0.9)
        value = found["value"][mine]
        assert_allclose(found["lower"][mine], np.minimum(low, value))
        assert_allclose(found["upper"][mine], np.maximum(high, value))
        assert name in made.words
    known, new_row, new_col, both = made.parts
    assert known.mask.kind == "kernel"
    assert new_row.weights.sum() == pytest.approx(20)
    assert new_col.weights.sum() == pytest.approx(20)
    assert len(both.scores) <= 20
    new = pd.DataFrame({"x": [0.3, 0.4]}, index=["a", "b"])
    told = pd.concat(done.iter_predictions(rows=new, intervals="calibrated"))
    assert set(told["interval"]) == {f"conformal, {NAMES[1]}", f"conformal, {NAMES[3]}"}
    low, high = new_row.outside(new, None, 0.9)
    a = told[told["row"] == "a"]
    mine = (a["interval"] == f"conformal, {NAMES[1]}").to_numpy()
    assert (mine == (done.observations.col_counts > 0)).all()
    assert_allclose(a["upper"][mine], np.maximum(high[0], a["value"])[mine])


def popular(seed, n=80, l=50):
    """Rows by popularity, the unpopular ones noisier; a fifth of the rows was never seen."""
    rng = np.random.default_rng(seed)
    x, t, popularity = rng.random(n), rng.random(l), rng.standard_normal(n)
    truth = 3 * np.sin(4 * x)[:, None] * np.cos(3 * t)[None, :]
    noisy = truth + (0.4 * np.exp(-0.6 * popularity))[:, None] * rng.standard_normal((n, l))
    seen = rng.random((n, l)) < 1 / (1 + np.exp(0.8 - 1.3 * popularity))[:, None]
    seen[: n // 5] = False
    return noisy, seen, pd.DataFrame({"x": x}), pd.DataFrame({"t": t})


def test_the_default_holds_on_uneven_masks_and_for_new_rows():
    hits = {"gaussian": [], "auto": []}
    for seed in range(3):
        noisy, seen, rows, cols = popular(seed)
        done = kf.complete(np.where(seen, noisy, np.nan), rows, cols, method="kkmcex", mu=0.3)
        for kind, found in hits.items():
            told = done.details(intervals=kind)
            inside = (told["lower"] <= noisy.ravel()) & (noisy.ravel() <= told["upper"])
            status = told["status"].to_numpy()
            found.append([inside[status == name].mean() for name in ("filled", "extrapolated")])
    gaussian, auto = (np.mean(found, axis=0) for found in hits.values())
    assert gaussian[0] < 0.87
    assert abs(auto[0] - 0.9) < 0.03
    assert auto[1] > 0.86


def test_the_default_chooses_anew_without_what_is_hidden_where_there_is_little(monkeypatch):
    noisy, seen, rows, _ = data(25, 20, share=0.6)
    table = np.where(seen, noisy, np.nan)
    done = kf.complete(table, rows, transform=None)
    anew = done.intervals_for(0, "calibrated").part(0).model
    assert anew.choice is None
    assert anew.observations_.m < done.model.observations_.m
    del done._calibrated
    monkeypatch.setattr("kronfill.completion.entries.intervals.FEW_TO_CHOOSE_FROM", 10)
    as_chosen = done.intervals_for(0, "calibrated").part(0).model
    assert as_chosen.choice is done.model.choice_


def test_new_rows_have_the_width_of_their_group():
    """Rows of the south are three times as noisy; so are its hidden rows, and its new ones."""
    rng = np.random.default_rng(0)
    south = np.arange(120) % 2 == 1
    values = rng.standard_normal((120, 15)) * np.where(south, 3.0, 1.0)[:, None]
    seen = np.where(rng.random(values.shape) < 0.7, values, np.nan)
    seen[:20] = np.nan
    region = pd.Series(np.where(south, "south", "north"))
    done = kf.complete(seen, method="mc", rank=1, mu=100.0)
    found = done.details([(k, 0) for k in range(20)], by=region, level=0.8)
    assert set(found["interval"]) == {"conformal, new row"}
    width = (found["upper"] - found["lower"]).to_numpy()
    assert 2 < width[1] / width[0] < 4.5
    assert_allclose(width[::2], width[0])
    assert "each within its group" in found.attrs["intervals"]
    alone = done.details([(0, 0)], by="row", level=0.8)  # a group of its own: by all hidden rows
    assert np.isfinite(alone["upper"][0])


def test_whether_the_mask_is_even_is_told():
    rng = np.random.default_rng(0)
    values = np.add.outer(rng.random(40), rng.random(30)) + 0.1 * rng.standard_normal((40, 30))
    share = np.linspace(0.1, 0.9, 40)[:, None]
    for p, said in ((0.5, "no sign against an even mask"), (share, "the mask is uneven, p = ")):
        seen = np.where(rng.random(values.shape) < p, values, np.nan)
        done = kf.complete(seen, method="mc", rank=1, mu=1.0)
        found = done.details()
        assert set(found["interval"].dropna()) == {"conformal, known row and column"}
        assert said in done.intervals_for(0).words
        assert found.attrs["intervals"] == done.intervals_for(0).words


def test_the_mask_of_a_method_without_kernels_follows_rows_and_columns(tmp_path):
    noisy, seen, rows, cols = data()
    done = kf.complete(np.where(seen, noisy, np.nan), rows, cols, method="mc", rank=1, mu=1.0)
    want = done.details()
    part = done.intervals_for(0).part(0)
    assert part.mask.kind == "kernel"
    done.save(tmp_path / "model.kf")
    same = kf.load(tmp_path / "model.kf")
    pd.testing.assert_frame_equal(same.details(), want)
    del same._calibrated  # made anew
    pd.testing.assert_frame_equal(same.details(), want)
    bare = kf.complete(np.where(seen, noisy, np.nan), method="mc", rank=1, mu=1.0)
    bare.details()
    assert bare.intervals_for(0).part(0).mask.kind == "effects"


def test_intervals_on_another_scale_tell_what_they_rest_on():
    noisy, seen, rows, cols = data(40, 30)
    table = np.where(seen, noisy, np.nan)
    done = kf.complete(table, rows, cols, method="kkmcex", mu=0.1, value_range=(-20, 20))
    told = done.details().attrs["intervals"]
    for words in (*NAMES, "weighted conformal from", "hierarchical conformal from"):
        assert words in told
    assert "wrong by up to a factor of 1.5, 90% might be 80%" in told


def test_weights_that_say_nothing_are_warned_of(monkeypatch):
    rng = np.random.default_rng(0)
    seen = np.where(rng.random((40, 30)) < np.linspace(0.1, 0.9, 40)[:, None], 1.0, np.nan)
    done = kf.complete(seen + rng.random(seen.shape), method="mc", rank=1, mu=1.0)
    pair = [tuple(np.argwhere(np.isnan(seen))[-1])]
    done.details(pair)  # no warning
    monkeypatch.setattr("kronfill.completion.entries.intervals.FEW_EFFECTIVE", 1e6)
    with pytest.warns(KronfillWarning, match="not to be relied on: the mask is so uneven"):
        kf.complete(seen + rng.random(seen.shape), method="mc", rank=1, mu=1.0).details(pair)


def test_coverage_by_groups_and_intervals_within_them():
    rng = np.random.default_rng(1)
    n, l = 40, 60
    region = np.where(np.arange(n) < 20, "calm", "loud")
    noise = np.where(region == "calm", 0.1, 1.0)
    values = rng.random(n)[:, None] + noise[:, None] * rng.standard_normal((n, l))
    seen = rng.random((n, l)) < 0.5
    places = pd.DataFrame({"region": region, "x": rng.random(n)}, index=[f"p{i}" for i in range(n)])
    table = pd.DataFrame(np.where(seen, values, np.nan), index=places.index)
    done = kf.complete(table, places, method="kkmcex", mu=1.0)
    by_name, by_series = done.coverage(by="region"), done.coverage(by=places["region"])
    pd.testing.assert_frame_equal(by_name, by_series)
    assert list(by_name["group"]) == ["calm", "loud"]
    assert by_name["entries"].sum() == len(done.intervals_for(0, "calibrated").part(0).scores)
    assert len(done.coverage(by="row")) <= n
    assert len(done.coverage(by="column")) <= l
    assert len(done.coverage()) == 4
    found = evaluate(done, by="region").coverage
    assert [one.group for one in found] == ["calm", "loud"]
    told = done.details(by="region")
    hit = ((told["lower"] <= values.ravel()) & (values.ravel() <= told["upper"])).to_numpy()
    hidden = (told["status"] == "filled").to_numpy()
    for name in ("calm", "loud"):
        mine = hidden & np.repeat(region == name, l)
        assert abs(hit[mine].mean() - 0.9) < 0.06
    with pytest.raises(ParameterError, match="by must be 'row'"):
        done.coverage(by="climate")
    with pytest.raises(ParameterError, match="by is for calibrated"):
        done.details(by="region", intervals="gaussian")


def test_what_was_calibrated_is_saved(tmp_path):
    noisy, seen, rows, cols = data(30, 25)
    done = kf.complete(np.where(seen, noisy, np.nan), rows, cols, method="kkmcex", mu=0.1)
    want = done.details()
    done.save(tmp_path / "model.kf")
    same = kf.load(tmp_path / "model.kf")
    kept = same.intervals_for(0, "calibrated")
    assert all(part is not None for part in kept.parts)
    assert kept.words == done.intervals_for(0, "calibrated").words
    pd.testing.assert_frame_equal(same.details(), want)


def test_what_was_calibrated_for_few_entries_is_not_used_for_too_many():
    noisy, seen, rows, cols = data()
    done = kf.complete(np.where(seen, noisy, np.nan), rows, cols, method="kkmcex", mu=0.1)
    few = done.intervals_for(10)
    assert done.intervals_for(1000) is few
    many = done.intervals_for(2**40)
    assert many is not few
    assert isinstance(few.part(0).scale.base, StdScale)
    assert isinstance(many.part(0).scale.base, ConstantScale)
    assert done.intervals_for(10) is many


def test_few_rows_are_left_out_in_turn():
    rng = np.random.default_rng(0)
    table = np.add.outer(rng.random(12), rng.random(40)) + 0.1 * rng.standard_normal((12, 40))
    table[0] = np.nan
    done = kf.complete(table, pd.DataFrame({"x": rng.random(12)}), method="kkmcex", mu=0.5)
    found = done.details()
    new = found[found["row"] == 0]
    assert np.isfinite(new["upper"]).all()
    words = done.intervals_for(0).words
    assert "jackknife+ over 11 rows (infinite above 91.67%), guaranteed 1 - 2 (1 - level)" in words
    assert np.isinf(done.details(level=0.93)["upper"][new.index]).all()


def test_it_is_said_where_too_few_rows_leave_an_interval_infinite():
    noisy, seen, rows, _ = data(40, 20, share=0.8)
    done = kf.complete(np.where(seen, noisy, np.nan), rows, method="kkmcex", mu=0.1)
    at = [(0, 10)]  # of 35 known rows 17 are hidden
    assert "from 17 hidden rows (infinite above 94.44%)" in done.details(at).attrs["intervals"]
    widths = [np.ptp(done.details(at, level=level)[["lower", "upper"]]) for level in (0.94, 0.95)]
    assert np.isfinite(widths[0])
    assert np.isinf(widths[1])


def test_blocks_are_the_same_as_the_whole():
    noisy, seen, rows, cols = data(12, 11)
    done = kf.complete(np.where(seen, noisy, np.nan), rows, cols, method="kkmcex", mu=0.1)
    whole = done.details()
    parts = pd.concat(done.iter_details(chunk=7), ignore_index=True)
    pd.testing.assert_frame_equal(parts, whole)
    assert_allclose(whole["value"], done.filled.to_numpy().ravel())
    assert list(whole["status"]) == list(done.status.to_numpy().ravel())
    assert len(done.details([])) == 0


@pytest.mark.slow
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
    done = kf.complete(pd.DataFrame(table), method="kkmcex", rows=places, cols=clock, mu=1e-4)
    details = done.details(intervals="calibrated")
    hidden = details[details["status"] != "observed"]
    widths = (hidden["upper"] - hidden["lower"]).to_numpy()
    error = hidden["value"].to_numpy() - truth[np.isnan(table)]
    assert np.nanmax(widths) < 20 * np.sqrt(np.mean(error**2))

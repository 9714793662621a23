"""Uneven masks, scales, groups, new rows and columns: laws on tiny problems, small simulations."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone

import kronfill as kf
from kronfill.errors import DataError, KronfillWarning, ParameterError
from kronfill.estimators.conformal.calibration import held_items, items_in_turn
from kronfill.estimators.conformal.scales import (
    ConstantScale,
    FactorScale,
    learned_scale,
    model_scale,
)


def uneven(seed, n=80, l=60, noise=0.6):
    """A smooth table whose unpopular rows are noisier; who is observed; the two kernels."""
    rng = np.random.default_rng(seed)
    x, t, popularity = np.sort(rng.random(n)), np.sort(rng.random(l)), rng.standard_normal(n)
    truth = 2 * np.sin(5 * x)[:, None] * np.cos(4 * t)
    spread = 0.3 * np.exp(-noise * popularity)
    values = truth + spread[:, None] * rng.standard_normal((n, l))
    seen = rng.random((n, l)) < expit(-0.8 + 1.3 * popularity)[:, None]
    row = kf.kernels.rbf(x, length_scale=0.3) + 0.2 * kf.kernels.identity(n)
    return values, seen, row, kf.kernels.rbf(t, length_scale=0.3)


def observed(values, seen):
    rows, cols = np.nonzero(seen)
    return kf.Observations(rows, cols, values[seen], values.shape)


def inside(model, values, seen, coverage=0.9):
    """Share of the missing entries inside: of all, and of rows with few observations."""
    fitted = model.estimator_.observations_
    warm = (fitted.row_counts > 0)[:, None] & (fitted.col_counts > 0)
    at = np.argwhere(~seen & warm)
    low, high = model.predict_interval(at, coverage).T
    truth = values[tuple(at.T)]
    hit = (low <= truth) & (truth <= high)
    few = fitted.row_counts[at[:, 0]] <= np.quantile(fitted.row_counts, 0.25)
    return hit.mean(), hit[few].mean()


@pytest.mark.parametrize("method", ["KKMCEX", "MC"])
def test_uneven_masks_with_uneven_noise_are_covered_by_weights_and_not_without(method):
    found = {"plain": [], "weighted": [], "scaled": []}
    settings = {
        "plain": {},
        "weighted": {"mask": "effects"},
        "scaled": {"mask": "rank one", "scores": "auto"},
    }
    for seed in range(6):
        values, seen, row, col = uneven(seed)
        est = {
            "KKMCEX": kf.KKMCEX(row, col, mu=0.3, center="mean"),
            "MC": kf.MC(values.shape, rank=2, mu=1.0, center="both"),
        }[method]
        for name, more in settings.items():
            model = kf.ConformalRegressor(est, calibration=0.3, random_state=seed, **more)
            told = pytest.warns(KronfillWarning, match="no uniform sample")
            with told if name == "plain" else nullcontext():
                model.fit(observed(values, seen))
            found[name].append(inside(model, values, seen))
    plain, weighted, scaled = (np.mean(found[name], axis=0) for name in settings)
    assert plain[0] < 0.8
    assert plain[1] < 0.6
    assert abs(weighted[0] - 0.9) < 0.03
    assert abs(scaled[0] - 0.9) < 0.03
    assert scaled[1] > 0.85


def test_the_mask_of_a_method_without_kernels_follows_what_is_known():
    """A gap in a block with larger errors, which effects of rows and columns tell in part only."""
    found = {"kernel": [], "effects": []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x, t = rng.random(50), rng.random(40)
        gap = (x < 0.5)[:, None] != (t < 0.5)  # rows and columns have equal counts on average
        values = np.where(gap, 3.0, 0.3) * rng.standard_normal((50, 40))
        seen = rng.random((50, 40)) < np.where(gap, 0.1, 0.6)
        pair = tuple(kf.kernels.rbf(z, length_scale=0.3) for z in (x, t))
        est = kf.MC((50, 40), rank=1, mu=100.0)
        for name, kernels in (("kernel", pair), ("effects", None)):
            model = kf.ConformalRegressor(est, mask=name, mask_kernels=kernels, calibration=0.3)
            found[name].append(inside(model.fit(observed(values, seen)), values, seen)[0])
    assert abs(np.mean(found["kernel"]) - 0.9) < 0.03
    assert np.mean(found["effects"]) < 0.8


def test_kernels_of_a_mask_are_those_of_the_method_by_default(tmp_path):
    values, seen, row, col = uneven(0, 30, 25)
    obs, est = observed(values, seen), kf.KKMCEX(row, col, mu=0.3)
    own = kf.ConformalRegressor(est, mask="kernel", calibration=0.1).fit(obs)
    fitted = own.estimator_.observations_
    at = np.argwhere((fitted.row_counts > 0)[:, None] & (fitted.col_counts > 0))
    given = kf.ConformalRegressor(est, mask="kernel", calibration=0.1, mask_kernels=(row, col))
    given.fit(obs)
    assert_array_equal(own.predict_interval(at), given.predict_interval(at))
    given.save(tmp_path / "m.kf")
    assert_array_equal(kf.load(tmp_path / "m.kf").predict_interval(at), given.predict_interval(at))
    for bad, text in (
        ({"mask": "effects", "mask_kernels": (row, col)}, "is what mask='kernel' follows"),
        ({"mask": "kernel", "mask_kernels": row}, "must be a pair"),
        ({"mask": "kernel", "mask_kernels": (col, row)}, "must know each of 30 rows"),
        ({"mask": "kernel", "mask_kernels": (None, None)}, "needs side information"),
    ):
        with pytest.raises(ParameterError, match=text):
            kf.ConformalRegressor(kf.MC(rank=1), **bad).fit(obs)


def test_weighted_intervals_are_their_definition():
    values, seen, row, col = uneven(0, 30, 25)
    obs = observed(values, seen)
    model = kf.ConformalRegressor(
        kf.KKMCEX(row, col, mu=0.3), mask="effects", scores="normalised", random_state=3
    ).fit(obs)
    held = np.zeros(obs.m, bool)
    held[np.random.default_rng(3).choice(obs.m, round(0.2 * obs.m), replace=False)] = True
    part, rest = obs.take(~held), obs.take(held)
    est = kf.KKMCEX(row, col, mu=0.3).fit(part)
    warm = (part.row_counts[rest.rows] > 0) & (part.col_counts[rest.cols] > 0)
    rest = rest.take(warm)

    def std(pairs):
        return np.sqrt(est.predict_std(pairs) ** 2 + est.noise_variance_)

    pairs = np.column_stack([rest.rows, rest.cols])
    scores = np.abs(rest.values - est.predict(pairs)) / std(pairs)
    odds = kf.masks.fit_mask("effects", part, part.m / obs.m)
    weights = odds.odds(rest.rows, rest.cols)
    at = np.argwhere((part.row_counts > 0)[:, None] & (part.col_counts > 0))[::7]
    low, high = model.predict_interval(at, 0.8).T
    for k, (i, j) in enumerate(at):
        own = odds.odds(np.array([i]), np.array([j]))[0]
        share = [weights[scores <= s].sum() / (weights.sum() + own) for s in scores]
        enough = [s for s, c in zip(scores, share, strict=True) if c >= 0.8]
        width = min(enough, default=np.inf) * std(at[k : k + 1])[0]
        assert_allclose((high - low)[k] / 2, width)
    assert_allclose((low + high) / 2, est.predict(at))
    assert model.effective_calibration_ < len(model.scores_)
    assert model.mask_.deviance_explained > 0.05


def test_misjudged_odds_widen():
    values, seen, row, col = uneven(1, 40, 30)
    model = kf.ConformalRegressor(kf.KKMCEX(row, col, mu=0.3), mask="effects")
    model.fit(observed(values, seen))
    fitted = model.estimator_.observations_
    at = np.argwhere((fitted.row_counts > 0)[:, None] & (fitted.col_counts > 0))
    plain, wide = (model.predict_interval(at, 0.8, misjudged=g) for g in (1.0, 1.5))
    assert np.mean(wide[:, 1] - wide[:, 0]) > 1.1 * np.mean(plain[:, 1] - plain[:, 0])
    assert model.worst_coverage(0.9, 1.5) == pytest.approx(0.8)
    with pytest.raises(ParameterError, match="misjudged must be a factor"):
        model.predict_interval(at, 0.8, misjudged=0.5)


def test_a_warning_where_weights_are_too_uneven():
    rng = np.random.default_rng(0)
    seen = rng.random((12, 200)) < 0.01
    seen[:2] = rng.random((2, 200)) < 0.99
    values = rng.standard_normal(seen.shape)
    model = kf.ConformalRegressor(kf.MC(seen.shape, rank=1, mu=1.0), mask="effects")
    with pytest.warns(KronfillWarning, match="so uneven"):
        model.fit(observed(values, seen))


def test_widths_follow_the_errors_of_groups():
    """By enumeration over groups: each has the coverage of its own errors."""
    rng = np.random.default_rng(0)
    n, l = 40, 50
    noise = np.where(np.arange(n) < 20, 0.1, 1.0)
    values = noise[:, None] * rng.standard_normal((n, l))
    seen = rng.random((n, l)) < 0.5
    region = np.where(np.arange(n) < 20, "calm", "loud")
    est = kf.MC((n, l), rank=1, mu=100.0)
    plain = kf.ConformalRegressor(est, calibration=0.5).fit(observed(values, seen))
    grouped = kf.ConformalRegressor(est, calibration=0.5, groups=(region, None))
    grouped.fit(observed(values, seen))
    at = np.argwhere(~seen)
    truth = values[~seen]
    for model, gap in ((plain, 0.1), (grouped, 0.0)):
        low, high = model.predict_interval(at).T
        hit = (low <= truth) & (truth <= high)
        calm = region[at[:, 0]] == "calm"
        assert abs(hit[calm].mean() - 0.9 - gap) < 0.03
        assert abs(hit[~calm].mean() - 0.9 + gap) < 0.03
    for bad in ("rows", (region[:-1], None), 3):
        with pytest.raises(ParameterError, match="groups must"):
            kf.ConformalRegressor(est, groups=bad).fit(observed(values, seen))


# New rows and columns.


def described(seed=0, n=9, l=6):
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    values = np.sin(4 * x)[:, None] + 0.3 * rng.standard_normal((n, l))
    seen = rng.random((n, l)) < 0.8
    seen[np.arange(n), rng.integers(0, l, n)] = True
    seen[rng.integers(0, n, l), np.arange(l)] = True
    kernel = kf.kernels.rbf(x, length_scale=0.3) + kf.kernels.constant(n)
    return values, seen, kf.KKMCEX(kernel, None, mu=0.3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("level", [0.6, 0.8])
def test_jackknife_plus_over_rows_covers_whichever_row_is_new(seed, level):
    """Averaged over all rows that could have been the new one: at least 1 - 2 alpha, exactly."""
    values, seen, est = described(seed)
    covered = []
    for new in range(len(values)):
        rest = seen.copy()
        rest[new] = False
        found = items_in_turn(clone(est), observed(values, rest), 0)
        cols = np.flatnonzero(seen[new] & rest.any(axis=0))
        low, high = found.at(np.column_stack([np.full(len(cols), new), cols]), level)
        truth = values[new, cols]
        covered.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(covered) >= 1 - 2 * (1 - level)


def test_jackknife_plus_over_rows_is_its_definition():
    values, seen, est = described(5)
    obs = observed(values, seen)
    found = items_in_turn(clone(est), obs, 0)
    at = np.array([[0, 1], [3, 2]])
    low, high = found.at(at, 0.7)
    ends, weights = [], []
    for row in range(len(values)):
        mine = obs.rows == row
        one = clone(est).fit(obs.take(~mine))

        def std(pairs, one=one):
            return np.sqrt(one.predict_std(pairs) ** 2 + one.noise_variance_)

        pairs = np.column_stack([obs.rows[mine], obs.cols[mine]])
        scores = np.abs(obs.values[mine] - one.predict(pairs)) / std(pairs)
        for score in scores:
            ends.append(one.predict(at) + score * std(at))
            weights.append(1 / len(scores))
    ends, weights = np.array(ends), np.array(weights)
    for t in range(2):
        order = np.argsort(ends[:, t])
        enough = np.cumsum(weights[order]) >= 0.7 * (weights.sum() + 1) - 1e-9
        assert_allclose(high[t], ends[order][enough][0, t])
    assert (low < high).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_splitting_rows_counts_each_once(axis):
    values, seen, _ = described(1, 30, 24)
    if axis:
        values, seen = values.T, seen.T
    est = kf.KKMCEX(None, None, mu=0.5, center="mean")
    found = held_items(est, observed(values, seen), axis, scores="absolute", seed=4)
    fitted = found.model.observations_
    left = np.flatnonzero((fitted.row_counts, fitted.col_counts)[axis] == 0)
    assert len(left) == 15
    assert found.weights.sum() == pytest.approx(15)
    # 15 rows: 16 x 0.9 = 14.4 of them suffice, 16 x 0.95 = 15.2 do not.
    pair = np.array([[left[0], 0]]) if axis == 0 else np.array([[0, left[0]]])
    assert np.isfinite(found.at(pair, 0.9)).all()
    assert np.isinf(found.at(pair, 0.95)).all()


def test_new_rows_and_columns_are_covered_and_known_entries_as_before():
    hits = {"split": [], "jackknife+": []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x, t = rng.random(45), rng.random(40)
        level = 0.5 * rng.standard_normal(45)[:, None] + 0.5 * rng.standard_normal(40)
        values = np.sin(4 * x)[:, None] + np.cos(4 * t) + level
        values += 0.2 * rng.standard_normal(values.shape)
        seen = rng.random(values.shape) < 0.5
        seen[:10] = False
        seen[:, :8] = False
        kernels = [
            kf.kernels.rbf(z, length_scale=0.3)
            + kf.kernels.constant(len(z))
            + 0.2 * kf.kernels.identity(len(z))
            for z in (x, t)
        ]
        est = kf.KKMCEX(*kernels, mu=0.1, center="mean")
        for way, found in hits.items():
            if way == "jackknife+" and seed > 1:
                continue
            model = kf.ConformalRegressor(est, new=way).fit(observed(values, seen))
            at = np.argwhere(~seen)
            low, high = model.predict_interval(at, 0.8).T
            truth = values[~seen]
            hit = (low <= truth) & (truth <= high)
            kind = (at[:, 0] < 10) + 2 * (at[:, 1] < 8)
            found.append([hit[kind == k].mean() for k in range(4)])
    split = np.mean(hits["split"], axis=0)
    assert abs(split[0] - 0.8) < 0.03
    assert (split[1:] > 0.72).all()
    assert (np.mean(hits["jackknife+"], axis=0) > 0.6).all()


def test_too_few_rows_have_no_interval_and_it_is_said():
    obs = kf.Observations([0, 0, 0, 0], [0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0], (2, 5))
    model = kf.ConformalRegressor(kf.KKMCEX(None, None, center="mean"), new="split").fit(obs)
    with pytest.raises(DataError, match="need 2 rows at least, there is 1 row"):
        model.predict_interval([[1, 0]])


def test_options_are_for_split():
    est = kf.MC(rank=1)
    for bad in ({"mask": "effects"}, {"scores": "auto"}, {"groups": "row"}):
        with pytest.raises(ParameterError, match="are for method='split'"):
            kf.ConformalRegressor(est, "jackknife+", **bad).fit([[0, 0], [1, 1]], [1.0, 2.0])
    for bad, text in (
        ({"mask": "even"}, "mask must be one of"),
        ({"scores": "wide"}, "scores must be one of"),
        ({"new": "yes"}, "new must be one of"),
    ):
        with pytest.raises(ParameterError, match=text):
            kf.ConformalRegressor(est, **bad).fit([[0, 0], [1, 1]], [1.0, 2.0])


# Scales.


def test_the_scale_of_factors_is_that_of_two_ridge_regressions():
    rng = np.random.default_rng(0)
    seen = rng.random((9, 7)) < 0.6
    model = kf.MC((9, 7), rank=2, mu=0.7).fit(observed(rng.standard_normal((9, 7)), seen))
    scale = model_scale(model)
    assert isinstance(scale, FactorScale)
    at = np.argwhere(np.ones((9, 7)))
    for (i, j), found in zip(at, scale.at(*at.T), strict=True):
        H, W = model.H_[seen[i]], model.W_[seen[:, j]]
        h, w = model.H_[j], model.W_[i]
        slow = 1 + h @ np.linalg.solve(H.T @ H + 0.7 * np.eye(2), h)
        slow += w @ np.linalg.solve(W.T @ W + 0.7 * np.eye(2), w)
        assert found == pytest.approx(np.sqrt(slow))


def test_a_scale_is_learned_only_where_errors_differ():
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(np.arange(3000), 50)
    counts = np.full(60, 50), np.full(50, 60)
    errors = rng.standard_normal(3000)
    flat = learned_scale(ConstantScale(), rows, cols, errors, counts).at(rows, cols)
    assert flat.max() / flat.min() < 1.3
    loud = learned_scale(ConstantScale(), rows, cols, errors * (1 + rows), counts).at(rows, cols)
    assert np.corrcoef(np.log(loud), np.log(1 + rows))[0, 1] > 0.95


@pytest.mark.parametrize(
    "settings",
    [
        {"mask": "effects", "scores": "auto"},
        {"mask": "rank one", "scores": "normalised", "groups": "column"},
        {"mask": "kernel", "new": "split"},
        {"new": "jackknife+", "scores": "auto"},
    ],
)
@pytest.mark.parametrize("method", ["KKMCEX", "MC"])
def test_a_saved_model_says_the_same(settings, method, tmp_path):
    values, seen, row, col = uneven(2, 12, 10)
    est = {"KKMCEX": kf.KKMCEX(row, col, mu=0.3), "MC": kf.MC((12, 10), rank=2)}[method]
    if method == "MC" and settings.get("mask") == "kernel":
        settings = settings | {"mask": "effects"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KronfillWarning)
        model = kf.ConformalRegressor(est, **settings).fit(observed(values, seen))
    model.save(tmp_path / "model.kf")
    same = kf.load(tmp_path / "model.kf")
    fitted = model.estimator_.observations_
    at = np.argwhere((fitted.row_counts > 0)[:, None] & (fitted.col_counts > 0))
    if "new" in settings:
        at = np.argwhere(np.ones((12, 10)))
    assert_array_equal(same.predict_interval(at, 0.6), model.predict_interval(at, 0.6))
    assert same.effective_calibration_ == model.effective_calibration_
    assert same.get_params(deep=False).keys() == model.get_params(deep=False).keys()

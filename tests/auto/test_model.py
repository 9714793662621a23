"""AutoMC: never far from the best member, odd shapes, plans, files, what it refuses."""

import numba
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import kronfill as kf
from kronfill.auto import model as model_module
from kronfill.auto.members import MixChoice
from kronfill.auto.plan import Plan, planned
from kronfill.errors import ParameterError

NOISE = 0.3


def problem(kind, seed=0, shape=(50, 40), m=900):
    """Observations, kernels of what is known, and the truth at all other entries."""
    rng = np.random.default_rng(seed)
    n, l = shape
    points = rng.random((n, 2)), rng.random((l, 2))
    row, col = (kf.kernels.rbf(p, 0.4).to_array() for p in points)
    roots = [np.linalg.cholesky(k + 1e-8 * np.eye(len(k))) for k in (row, col)]
    smooth = roots[0] @ rng.standard_normal((n, l)) @ roots[1].T
    low = rng.standard_normal((n, 3)) @ rng.standard_normal((3, l)) / np.sqrt(3)
    truth = {
        "kernel": smooth, "low rank": low, "both": (smooth + low) / np.sqrt(2),
        "effects": rng.standard_normal((n, 1)) + rng.standard_normal(l), "cold": smooth,
        "nothing": np.zeros(shape),
    }[kind]  # fmt: skip
    if kind == "misleading":
        row = row[np.ix_(order := rng.permutation(n), order)]
    cells = np.arange(n * l)
    if kind == "cold":
        cells = cells[cells // l >= 10]
    seen = rng.choice(cells, m, replace=False)
    rows, cols = np.divmod(seen, l)
    obs = kf.Observations(rows, cols, truth[rows, cols] + NOISE * rng.standard_normal(m), shape)
    rest = np.setdiff1d(np.arange(n * l), seen)
    rest = rest[rest // l < 10] if kind == "cold" else rest
    return obs, {"places": row}, {"things": col}, np.divmod(rest, l), truth


def error(model, entries, truth):
    gap = model.predict(np.column_stack(entries)) - truth[entries]
    return float(np.sqrt(np.mean(gap**2)))


@pytest.mark.parametrize(
    "kind",
    [
        "both",
        *(
            pytest.param(k, marks=pytest.mark.slow)
            for k in ("kernel", "low rank", "effects", "cold")
        ),
    ],
)
def test_it_is_as_good_as_the_best_member_and_better_than_simple_methods(kind):
    obs, rows, cols, entries, truth = problem(kind)
    est = kf.AutoMC(rows, cols).fit(obs)
    got = error(est, entries, truth)
    plain = [k["places" if "places" in k else "things"] for k in (rows, cols)]
    usual = [k + 1 + 0.1 * np.eye(len(k)) for k in plain]
    others = {
        "KKMCEX": kf.KKMCEX(*usual, mu="auto", center="mean"),
        "MC": kf.MC(rank=6, mu="auto", center="both"),
        "effects": kf.MC(rank=1, mu=1e9, center="both"),
    }
    best = min(error(other.fit(obs), entries, truth) for other in others.values())
    members = min(error(member, entries, truth) for member in est.members_.values())
    assert got < 1.02 * best
    assert got < 1.1 * members
    if kind == "both":
        assert got < 0.9 * best


def test_noise_is_left_alone():
    obs, rows, cols, entries, truth = problem("nothing")
    assert error(kf.AutoMC(rows, cols).fit(obs), entries, truth) < 0.2 * NOISE


def test_rows_that_mislead_cost_next_to_nothing():
    obs, rows, _, entries, truth = problem("low rank")
    order = np.random.default_rng(5).permutation(50)
    shuffled = {"places": rows["places"][np.ix_(order, order)]}
    with_them = error(kf.AutoMC(shuffled).fit(obs), entries, truth)
    without = error(kf.AutoMC().fit(obs), entries, truth)
    assert with_them < 1.03 * without


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1.0]]),
        np.array([[1.0, 2.0]]),
        np.array([[3.0], [np.nan], [3.0]]),
        np.arange(12.0).reshape(1, 12),
        np.arange(12.0).reshape(12, 1),
        np.ones((5, 4)),
        np.where(np.eye(6) > 0, 1.0, np.nan),
    ],
    ids=lambda t: f"{t.shape[0]} x {t.shape[1]}",
)
def test_tables_of_any_shape(table):
    obs = kf.Observations.from_matrix(table)
    kernel = kf.kernels.rbf(np.arange(float(len(table))), 2.0)
    for sources in (None, kernel):
        est = kf.AutoMC(sources).fit(obs)
        got = est.predict_matrix()
        assert got.shape == table.shape
        assert np.isfinite(got).all()
        assert np.isfinite(est.predict_std(np.argwhere(np.ones(table.shape)))).all()
        assert est.noise_variance_ > 0
        assert got.min() >= np.nanmin(table) - 1
        assert got.max() <= np.nanmax(table) + 1


@pytest.fixture(scope="module")
def fitted():
    obs, rows, cols, _, _ = problem("both", m=900, shape=(40, 30))
    return kf.AutoMC(rows, cols).fit(obs), obs


def test_same_seed_same_result_and_plans_can_be_given_back(fitted):
    est, obs = fitted
    again = clone(est).fit(obs)
    assert_array_equal(again.predict_matrix(), est.predict_matrix())
    planned_ = clone(est).set_params(plan=est.plan_).fit(obs)
    assert_array_equal(planned_.predict_matrix(), est.predict_matrix())
    assert planned_.plan_ == est.plan_


def test_the_same_bits_on_any_number_of_threads(fitted):
    est, obs = fitted
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with threadpool_limits(1):
            alone = clone(est).fit(obs)
    finally:
        numba.set_num_threads(threads)
    assert_array_equal(alone.predict_matrix(), est.predict_matrix())
    assert_array_equal(alone.predict_std(obs), est.predict_std(obs))


def test_a_plan_of_another_table_is_costed_for_this_one(fitted):
    _, obs = fitted
    plan = kf.AutoMC(plan=Plan(rank=5, steps=0)).planned_for(obs)
    assert plan.seconds > 0
    assert plan.bytes > 0
    assert (plan.rank, plan.steps) == (5, 0)


def test_what_was_chosen_can_be_kept(fitted):
    est, obs = fitted
    kept = clone(est).set_params(choice=est.choice_).fit(obs)
    assert_array_equal(kept.predict_matrix(), est.predict_matrix())
    assert kept.weights_ == est.weights_


def test_what_it_says_about_its_choice(fitted):
    est, _ = fitted
    assert set(est.members_) == set(est.shares_)
    assert_allclose(sum(est.shares_.values()), 1)
    assert set(est.weights_["both"]["rows"]) == {
        "places", "places, by profile", "latent factors", "constant", "identity",
    }  # fmt: skip
    assert est.hidden_error_["mix"] <= 1.001 * min(est.hidden_error_.values())


def test_files(fitted, tmp_path):
    est, obs = fitted
    est.save(tmp_path / "model.kf")
    back = kf.load(tmp_path / "model.kf")
    assert_array_equal(back.predict_matrix(), est.predict_matrix())
    assert_array_equal(back.predict_std(obs), est.predict_std(obs))
    new = est.row_sources["places"][:2]
    assert_array_equal(back.extrapolate(rows=new), est.extrapolate(rows=new))
    new = (new, np.ones(2))
    assert_array_equal(back.extrapolate_std(rows=new), est.extrapolate_std(rows=new))
    assert back.weights_ == est.weights_


def test_explain_adds_up_and_suggest_suggests(fitted):
    est, _ = fitted
    found = est.explain(3, 4, top=5)
    assert found.prediction == pytest.approx(est.predict([[3, 4]])[0])
    assert found.mean + found.contributions.sum() + found.rest == pytest.approx(found.prediction)
    assert len(est.suggest(2)) == 2


def test_a_mix_without_kernels_explains_by_a_ridge_regression():
    rng = np.random.default_rng(0)
    table = np.where(rng.random((12, 9)) < 0.7, rng.random((12, 1)) + rng.random(9), np.nan)
    obs = kf.Observations.from_matrix(table)
    est = kf.AutoMC(choice=MixChoice()).fit(obs)  # low rank alone
    assert list(est.members_) == ["low rank"]
    found = est.explain(3, 4, top=3)
    assert found.prediction == pytest.approx(est.predict([[3, 4]])[0])
    assert found.mean + found.contributions.sum() + found.rest == pytest.approx(found.prediction)
    of_its_row_or_column = (found.rows == 3) | (found.cols == 4)
    assert of_its_row_or_column[np.argmax(np.abs(found.contributions))]
    assert len(est.suggest(2)) == 2
    doubled = obs.with_values(2 * obs.values)
    again = est.fit(doubled).explain(3, 4, top=3)  # of the new fit, not of what was asked before
    assert_allclose(again.values, 2 * found.values)


def test_intervals_by_its_own_deviations(fitted):
    obs, rows, cols, entries, truth = problem("both", seed=3)
    est = kf.AutoMC(rows, cols).fit(obs)
    X = np.column_stack(entries)
    std = np.sqrt(est.predict_std(X) ** 2 + est.noise_variance_)
    noisy = truth[entries] + NOISE * np.random.default_rng(0).standard_normal(len(X))
    inside = np.abs(est.predict(X) - noisy) < 1.645 * std
    assert 0.84 < inside.mean() < 0.97


def test_a_budget_becomes_a_plan_beforehand():
    free, tight = (planned((2000, 1500), 300_000, 3, budget=b) for b in (None, 150.0))
    assert tight.seconds < free.seconds
    assert tight.steps < free.steps
    assert tight.seconds <= 150
    with pytest.raises(ParameterError, match=r"budget=5\.0 is too little: .* about 1\d\d s"):
        planned((2000, 1500), 300_000, 3, budget=5.0)
    with pytest.raises(ParameterError, match="positive number of seconds"):
        planned((10, 10), 50, 2, budget=0)
    obs, rows, cols, _, _ = problem("both", m=900, shape=(40, 30))
    est = kf.AutoMC(rows, cols, plan=Plan(rank=5, steps=0)).fit(obs)
    assert est.weights_["side information"]["cols"]["constant"] == 1.0


def test_ctrl_c_keeps_the_best_so_far_on_request(monkeypatch):
    obs, rows, cols, entries, truth = problem("low rank")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(model_module, "fitted_members", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kf.AutoMC(rows, cols).fit(obs)
    est = kf.AutoMC(rows, cols, on_interrupt="keep").fit(obs)
    assert error(est, entries, truth) < 0.3


def test_refusals(fitted):
    est, obs = fitted
    with pytest.raises(AttributeError, match="cannot be updated with partial_fit"):
        est.partial_fit(obs)
    assert not hasattr(est, "partial_fit")
    for bad, said in (
        ({"plan": 3}, "plan must be"), ({"choice": 3}, "choice must be"),
        ({"rank": 0}, "rank must be"), ({"on_interrupt": "x"}, "'raise' or 'keep'"),
        ({"plan": Plan(), "budget": 3.0}, "either budget or plan"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=said):
            kf.AutoMC(**bad).fit(obs)


def test_it_is_the_default_of_complete():
    rng = np.random.default_rng(0)
    places = pd.DataFrame({"x": rng.random(30)}, index=[f"p{i}" for i in range(30)])
    values = np.sin(5 * places.x.to_numpy())[:, None] * rng.standard_normal(12)
    table = pd.DataFrame(values, index=places.index).mask(rng.random((30, 12)) < 0.4)
    done = kf.complete(table, places)
    assert type(done.model).__name__ == "AutoMC"
    assert np.abs(done.predicted.to_numpy() - values).mean() < 0.1
    for name in ("mu", "rank", "center"):
        with pytest.raises(ParameterError, match=f"chooses {name} itself"):
            kf.complete(table, places, **{name: 1})

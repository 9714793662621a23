"""Suggestions: greedy steps against refits, costs, candidates, effects."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import kronfill as kf
from kronfill.errors import DataError, DuplicateEntryError, ParameterError, ShapeError
from kronfill.estimators.gaussian_process import posterior as reading_module
from kronfill.estimators.gaussian_process import suggest as suggest_module
from kronfill.estimators.gaussian_process.regressor import gaussian_process

N, L = 6, 5
RNG = np.random.default_rng(0)
KW = kf.kernels.rbf(RNG.random((N, 2)), length_scale=0.5)
KH = kf.kernels.rbf(RNG.random((L, 1)), length_scale=0.3)


def data(m=10, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.permutation(np.argwhere(np.ones((N, L))))[:m]
    return X, rng.standard_normal(m) + 2.0, rng.uniform(0.3, 2.0, m)


def fitted(est, X, y, w=None):
    return est.fit(kf.Observations(*X.T, y, (N, L), weights=w))


def free_entries(X):
    observed = set(map(tuple, X))
    return np.array([e for e in np.argwhere(np.ones((N, L))) if tuple(e) not in observed])


def total_variance(est, X, w, targets):
    """Sum of the variances for s^2 = 1 when these entries are observed, by a refit."""
    y = np.random.default_rng(9).standard_normal(len(X))
    again = fitted(type(est)(**est.get_params()), X, y, w)
    return np.sum(again.predict_std(targets) ** 2) / again.signal_variance_


@pytest.mark.parametrize("center", [None, "mean", "cols"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("priced", [False, True])
@pytest.mark.parametrize("kind", ["KKMCEX", "RRMCEX", "one kernel"])
def test_every_step_takes_most_off_the_total_variance(kind, center, weighted, priced):
    X, y, w = data()
    w = w if weighted else None
    est = {
        "KKMCEX": kf.KKMCEX(KW, KH, mu=0.2, center=center),
        "RRMCEX": kf.RRMCEX(KW, KH, 3, 2, mu=0.2, center=center),
        "one kernel": kf.KKMCEX(KW, None, mu=0.2, center=center),
    }[kind]
    fitted(est, X, y, w)
    targets = free_entries(X)
    cost = np.random.default_rng(1).uniform(1.0, 3.0, (N, L)) if priced else None
    chosen = est.suggest(3, cost=cost)
    start = total_variance(est, X, w, targets)
    for k, entry in enumerate(np.asarray(chosen)):
        now = total_variance(est, X, w, targets)
        wider = np.append(w, 1.0) if weighted else None
        gains = {
            tuple(c): now - total_variance(est, np.vstack([X, c]), wider, targets)
            for c in free_entries(X)
        }
        price = {c: 1.0 if cost is None else cost[c] for c in gains}
        best = max(gains[c] / price[c] for c in gains)
        ours = gains[tuple(entry)]
        assert ours / price[tuple(entry)] == pytest.approx(best, rel=1e-8)
        assert chosen.reduction[k] == pytest.approx(ours / start, rel=1e-8)
        assert chosen.cost[k] == price[tuple(entry)]
        y = np.append(y, 0.0)
        X, w = np.vstack([X, entry]), wider


@pytest.mark.parametrize("limits", [(0, 10**6), (0, 0)], ids=["direct", "iterative"])
def test_other_routes_choose_the_same(limits, monkeypatch):
    X, y, _ = data(14)
    cut = kf.RRMCEX(KW, KH, 3, 2, mu=0.2, center="mean")
    wanted = fitted(cut, X, y).suggest(4)
    monkeypatch.setattr(reading_module, "SMALL_SYSTEM", limits[0])
    monkeypatch.setattr(reading_module, "DENSE_POSTERIOR", limits[1])
    ours = fitted(cut, X, y).suggest(4)
    assert_array_equal(np.asarray(ours), np.asarray(wanted))
    assert_allclose(ours.std, wanted.std, rtol=1e-7)
    assert_allclose(ours.reduction, wanted.reduction, rtol=1e-7)


@pytest.mark.parametrize("center", [None, "both"])
def test_the_same_is_chosen_by_solves_with_identity_parts(center, monkeypatch):
    X, y, _ = data(14)
    row, col = (k + 0.2 * kf.kernels.identity(k.n) for k in (KW, KH))
    est = kf.KKMCEX(row, col, mu=0.2, center=center)
    wanted = fitted(est, X, y).suggest(4)
    monkeypatch.setattr(reading_module, "SMALL_SYSTEM", 0)
    monkeypatch.setattr(reading_module, "DENSE_POSTERIOR", 0)
    by_solves = fitted(est, X, y)
    assert gaussian_process(by_solves).by_solves
    ours = by_solves.suggest(4)
    assert_array_equal(np.asarray(ours), np.asarray(wanted))
    assert_allclose(ours.std, wanted.std, rtol=1e-7)
    assert_allclose(ours.reduction, wanted.reduction, rtol=1e-7)


def test_std_is_that_of_the_entry_given_those_before():
    X, y, _ = data()
    est = fitted(kf.KKMCEX(KW, KH, mu=0.2), X, y)
    chosen = est.suggest(2)
    assert chosen.std[0] == pytest.approx(est.predict_std(np.asarray(chosen)[:1])[0])
    more = fitted(
        kf.KKMCEX(KW, KH, mu=0.2), np.vstack([X, np.asarray(chosen)[:1]]), np.append(y, 1)
    )
    ratio = np.sqrt(est.signal_variance_ / more.signal_variance_)
    assert chosen.std[1] == pytest.approx(ratio * more.predict_std(np.asarray(chosen)[1:])[0])


def test_candidates_and_costs_are_respected():
    X, y, _ = data()
    est = fitted(kf.KKMCEX(KW, KH, mu=0.2), X, y)
    pool = free_entries(X)[::3]
    for method in ("variance", "leverage"):
        chosen = np.asarray(est.suggest(3, candidates=pool, method=method))
        assert set(map(tuple, chosen)) <= set(map(tuple, pool))
        assert len({tuple(c) for c in chosen}) == 3
    everything = est.suggest(len(pool), candidates=pool)
    assert set(map(tuple, np.asarray(everything))) == set(map(tuple, pool))
    dear = np.ones(len(pool))
    first = est.suggest(1, candidates=pool).rows[0], est.suggest(1, candidates=pool).cols[0]
    dear[[tuple(c) == first for c in pool]] = 1e6
    other = np.asarray(est.suggest(1, candidates=pool, cost=dear))[0]
    assert tuple(other) != first


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), m=st.integers(1, 20), n=st.integers(1, 6), mu=st.floats(0.05, 5))
def test_reductions_add_up_to_what_a_refit_finds(seed, m, n, mu):
    X, y, _ = data(m, seed)
    est = fitted(kf.KKMCEX(KW, KH, mu=mu), X, y)
    targets = free_entries(X)
    chosen = est.suggest(n)
    start = total_variance(est, X, None, targets)
    end = total_variance(est, np.vstack([X, np.asarray(chosen)]), None, targets)
    assert chosen.reduction.sum() == pytest.approx(1 - end / start, abs=1e-8)
    assert np.all(chosen.reduction >= 0)


@pytest.mark.parametrize("center", ["rows", "cols", "both"])
def test_unknown_effects_come_first(center):
    X = np.array([[i, j] for i in range(4) for j in range(3)])
    X = np.delete(X, 5, axis=0)
    est = fitted(kf.KKMCEX(KW, KH, mu=0.2, center=center), X, np.arange(len(X), dtype=float))
    cold = {"rows": 2, "cols": 2, "both": 3}[center]  # joining a cold row to a cold column is one
    chosen = est.suggest(6)
    infinite = np.isinf(chosen.std)
    assert infinite[: infinite.sum()].all()
    assert cold <= infinite.sum() <= cold + 1
    X = np.vstack([X, np.asarray(chosen)[infinite]])
    after = fitted(kf.KKMCEX(KW, KH, mu=0.2, center=center), X, np.arange(len(X), dtype=float))
    assert np.all(np.isfinite(after.predict_std(np.argwhere(np.ones((N, L))))))


def test_effects_that_stay_unknown():
    X = np.array([[i, j] for i in range(4) for j in range(L)])
    est = fitted(kf.KKMCEX(KW, KH, center="rows"), X, np.arange(len(X), dtype=float))
    assert_array_equal(np.isinf(est.suggest(3, candidates=[[4, 0], [4, 1], [5, 0]]).std), [1, 1, 0])


def test_leverage_prefers_rows_that_were_seldom_seen():
    X = np.array([[i, j] for i in range(4) for j in range(L)])
    y = np.arange(len(X), dtype=float)
    far = kf.kernels.rbf(np.array([0.0, 0.1, 0.2, 0.3, 0.15, 9.0]), length_scale=1.0)
    est = fitted(kf.KKMCEX(far, KH, mu=0.5), X, y)
    draws = np.concatenate(
        [est.suggest(2, method="leverage", random_state=seed).rows for seed in range(200)]
    )
    assert np.mean(draws == 5) > 0.6  # row 4 is like rows that are known, row 5 like none
    shown = est.suggest(2, method="leverage", random_state=1)
    assert shown.reduction is None
    again = est.suggest(2, method="leverage", random_state=1)
    assert_array_equal(np.asarray(shown), np.asarray(again))


def test_large_tables_are_looked_at_in_part(monkeypatch):
    monkeypatch.setattr(suggest_module, "CANDIDATES", 8)
    monkeypatch.setattr(suggest_module, "TARGETS", 5)
    X, y, _ = data()
    est = fitted(kf.KKMCEX(KW, KH, mu=0.2), X, y)
    chosen = np.asarray(est.suggest(4))
    assert set(map(tuple, chosen)) <= set(map(tuple, free_entries(X)))
    assert_array_equal(chosen, np.asarray(est.suggest(4)))
    assert len(est.suggest(12)) == 12
    monkeypatch.setattr(suggest_module, "SOLVED_CANDIDATES", 3)
    monkeypatch.setattr(reading_module, "SMALL_SYSTEM", 0)
    monkeypatch.setattr(reading_module, "DENSE_POSTERIOR", 0)
    fewer = fitted(kf.KKMCEX(KW, KH, mu=0.2), X, y)
    looked_at = {tuple(np.asarray(fewer.suggest(3))[k]) for k in range(3)}
    assert {tuple(np.asarray(fewer.suggest(1))[0])} <= looked_at


def test_labels_frame_and_text():
    table = pd.DataFrame(
        [[1.0, 2.0], [np.nan, 4.0], [np.nan, np.nan]], index=["a", "b", "c"], columns=["x", "y"]
    )
    kernel = kf.kernels.rbf([[0.0], [1.0], [5.0]], length_scale=1.0)
    est = kf.KKMCEX(kernel, None, mu=0.5).fit(kf.Observations.from_matrix(table))
    shown = est.suggest(3)
    frame = shown.to_frame()
    assert list(frame.columns) == ["row", "col", "std", "reduction", "cost"]
    assert set(frame.row) == {"b", "c"}
    assert repr(shown).startswith("3 entries to measure next\n  (c, x)  std ")
    assert "reduction" not in est.suggest(1, method="leverage").to_frame()


@pytest.mark.parametrize("shape", [(1, 4), (4, 1)])
def test_an_axis_with_a_single_item(shape):
    X = np.argwhere(np.ones(shape))[:1]
    est = kf.KKMCEX(None, None, center="mean").fit(kf.Observations(*X.T, [1.0], shape))
    assert len(est.suggest(3)) == 3


def test_bad_input():
    X, y, _ = data()
    est = fitted(kf.KKMCEX(KW, KH, mu=0.2), X, y)
    free = free_entries(X)
    with pytest.raises(ParameterError, match="only 20 candidates"):
        est.suggest(21)
    with pytest.raises(DataError, match="observed already"):
        est.suggest(1, candidates=X[:1])
    with pytest.raises(DuplicateEntryError, match="more than once"):
        est.suggest(1, candidates=free[[0, 0]])
    with pytest.raises(ParameterError, match="method must be"):
        est.suggest(1, method="magic")
    with pytest.raises(ShapeError, match=r"shape \(20,\)"):
        est.suggest(1, cost=[1.0, 2.0])
    with pytest.raises(ParameterError, match="positive and finite"):
        est.suggest(1, cost=np.zeros(20))
    with pytest.raises(ParameterError, match="n must be"):
        est.suggest(0)

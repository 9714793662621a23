"""The bound on the evidence: what it is, that it is one, and that nothing lowers it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

import kronfill as kf
from kronfill.errors import ParameterError
from kronfill.ridge.solution import Status
from kronfill.variational.factors import (
    GroupedEntries,
    PosteriorFactors,
    Variational,
    fitted_factors,
    starting_factors,
)
from kronfill.variational.prior import Smoothness
from tests.oracles.variational import evidence_bound

ROUNDING = 1e-9


def smooth(n, kind, rng):
    """Phi of nothing, of a kernel of low rank, or of one of full rank."""
    if kind == "nothing":
        return np.zeros((n, 0))
    if kind == "thin":
        return rng.standard_normal((n, min(n, 2)))
    x = np.linspace(0, 3, n)
    return np.linalg.cholesky(np.exp(-((x[:, None] - x) ** 2)) + 1e-6 * np.eye(n))


def start(shape, rank, m, kinds, effects, weighted, seed, with_mean=True):
    rng = np.random.default_rng(seed)
    n, l = shape
    rows, cols = np.divmod(rng.choice(n * l, size=min(m, n * l), replace=False), l)
    values = rng.standard_normal(n)[rows] * rng.standard_normal(l)[cols] + 2.0
    values += rng.choice([0.0, 0.3, 3.0]) * rng.standard_normal(len(rows))
    weights = rng.uniform(0.2, 3.0, len(rows)) if weighted else None
    entries = GroupedEntries.of(rows, cols, values, shape, weights, with_mean=with_mean)
    bases = tuple(Smoothness.of(smooth(k, kind, rng)) for k, kind in zip(shape, kinds, strict=True))
    table, each = np.full(shape, np.nan), np.ones(shape)
    table[rows, cols] = values
    each[rows, cols] = 1.0 if weights is None else weights
    return entries, starting_factors(entries, bases, rng.standard_normal((l, rank)), effects), (
        table, each,
    )  # fmt: skip


KINDS = st.tuples(*[st.sampled_from(["nothing", "thin", "full"])] * 2)
EFFECTS = st.tuples(st.booleans(), st.booleans())


@settings(max_examples=30, deadline=None)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 7)), st.integers(0, 3), st.integers(1, 60), KINDS,
    EFFECTS, st.booleans(), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_no_sweep_lowers_the_bound(shape, rank, m, kinds, effects, weighted, with_mean, seed):
    entries, now, (table, weights) = start(
        shape, rank, m, kinds, effects, weighted, seed, with_mean
    )
    before = -np.inf
    for _ in range(30):
        now = now.swept(entries, with_mean)
        assert now.bound >= before - ROUNDING * (abs(before) + 1 if np.isfinite(before) else 1)
        before = now.bound
    assert np.isfinite(now.bound)
    written_out = evidence_bound(table, weights, now)
    assert now.bound == pytest.approx(written_out, rel=1e-6, abs=1e-5)


def test_the_bound_is_the_evidence_where_the_posterior_factorises():
    """Row effects alone: rows are independent, so that nothing is approximated."""
    entries, now, (table, _) = start((6, 5), 0, 20, ("nothing",) * 2, (True, False), False, 0)
    for _ in range(500):
        now = now.swept(entries, True)
    exact = 0.0
    for row in table:
        values = row[~np.isnan(row)]
        covariance = np.eye(len(values)) / now.tau + now.row.prior.own[0]
        exact += multivariate_normal.logpdf(values, np.full(len(values), now.mean), covariance)
    assert now.bound == pytest.approx(exact, abs=1e-6)


def test_the_bound_is_below_the_evidence_of_both_effects():
    entries, now, (table, _) = start((6, 5), 0, 22, ("full", "thin"), (True, True), False, 1)
    for _ in range(50):
        now = now.swept(entries, True)
    rows, cols = np.nonzero(~np.isnan(table))
    row, col = (
        axis.prior.smooth[0] * axis.prior.smoothness.phi @ axis.prior.smoothness.phi.T
        + axis.prior.own[0] * np.eye(len(axis.mean))
        for axis in (now.row, now.col)
    )
    covariance = row[np.ix_(rows, rows)] + col[np.ix_(cols, cols)] + np.eye(len(rows)) / now.tau
    exact = multivariate_normal.logpdf(
        table[rows, cols], np.full(len(rows), now.mean), covariance, allow_singular=True
    )
    assert exact - 10 < now.bound <= exact


def run(seed, rank=6, **settings):
    entries, first, _ = start((30, 20), rank, 400, ("nothing",) * 2, (True, True), False, seed)
    return entries, fitted_factors(entries, first, with_mean=True, settings=Variational(**settings))


@pytest.mark.parametrize("seed", range(3))
def test_a_factor_goes_only_if_the_bound_does_not_fall(seed, monkeypatch):
    ranks, bounds = [], []
    sweep = PosteriorFactors.swept

    def watched(self, entries, with_mean):
        found = sweep(self, entries, with_mean)
        ranks.append(found.rank)
        bounds.append(found.bound)
        return found

    monkeypatch.setattr(PosteriorFactors, "swept", watched)
    _, (found, history, status) = run(seed)
    assert status is Status.CONVERGED
    assert found.rank < 6
    assert np.diff(history).min() >= 0
    assert found.bound == history[-1] == max(bounds)


def test_a_removal_that_would_lower_the_bound_is_not_made(monkeypatch):
    entries, first, _ = start((30, 20), 2, 400, ("nothing",) * 2, (True, True), False, 0)
    good = fitted_factors(entries, first, with_mean=True, settings=Variational())[0]
    assert good.rank == 1
    tried = []

    def everything(self, entries):
        none = np.zeros(self.rank, dtype=bool)
        tried.append(self.rank)
        return PosteriorFactors(self.row.kept(none), self.col.kept(none), self.mean, self.tau)

    monkeypatch.setattr(PosteriorFactors, "without_negligible", everything)
    again = fitted_factors(entries, good, with_mean=True, settings=Variational())[0]
    assert tried
    assert again.rank == 1
    assert again.bound >= good.bound - ROUNDING


def test_noise_that_vanishes_stops_at_its_least_variance():
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(np.arange(80), 8)
    values = rng.standard_normal(10)[rows] * rng.standard_normal(8)[cols]
    entries = GroupedEntries.of(rows, cols, values, (10, 8))
    none = Smoothness.of(np.zeros((10, 0))), Smoothness.of(np.zeros((8, 0)))
    first = starting_factors(entries, none, rng.standard_normal((8, 2)), (True, True))
    found, history, _ = fitted_factors(
        entries, first, with_mean=True, settings=Variational(sweeps=500)
    )
    assert np.diff(history).min() >= 0
    assert np.isfinite(found.bound)
    assert found.tau <= entries.largest_tau


def test_limits_of_sweeps_and_time():
    assert len(run(0, sweeps=3)[1][1]) == 3
    assert run(0, sweeps=3, tol=0.0)[1][2] is Status.MAX_ITERATIONS
    assert run(0, time_limit=1e-9)[1][2] is Status.TIME_LIMIT
    calls = []
    _, (_, history, _) = run(0, sweeps=5, callback=lambda k, bound: calls.append((k, bound)))
    assert calls == list(enumerate(history[:-1], 1))


@pytest.mark.parametrize("bad", [{"sweeps": 0}, {"tol": -1.0}, {"time_limit": 0.0}])
def test_settings_are_checked(bad):
    with pytest.raises(ParameterError, match="Variational: sweeps must be"):
        Variational(**bad)


def test_factors_that_settled_on_noise_alone_go():
    rng = np.random.default_rng(1)
    X = np.argwhere(rng.random((150, 120)) < 0.25)
    y = rng.standard_normal(150)[X[:, 0]] + rng.standard_normal(120)[X[:, 1]]
    y += 0.3 * rng.standard_normal(len(X))
    est = kf.BayesianKMC().fit(X, y)
    assert est.rank_ == 0
    assert (np.diff(est.solution_.history) >= 0).all()


def test_weak_factors_beside_a_strong_one_stay():
    rng = np.random.default_rng(1)
    X = np.argwhere(rng.random((60, 40)) < 0.9)
    sizes = np.array([3.0, 0.35])
    F = (rng.standard_normal((60, 2)) * sizes) @ rng.standard_normal((2, 40))
    est = kf.BayesianKMC().fit(X, F[X[:, 0], X[:, 1]] + rng.standard_normal(len(X)))
    assert est.rank_ >= 2

"""Errors on held-out entries along mu, against fits of each mu by a dense factorisation."""

from dataclasses import replace

import numpy as np
import pytest

import kronfill as kf
from kronfill.criteria import held_out
from kronfill.criteria.exact import best_mu, mean_diagonal, search_mu
from kronfill.criteria.held_out import DualHeldOut, FactorHeldOut, held_out_part
from kronfill.criteria.path import ProblemAlongMu
from kronfill.criteria.search import Trial, least_error
from kronfill.ridge.dual_operator import DualOperator
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.problem import Mask, RidgeProblem, Sampled
from kronfill.ridge.solution import Status
from kronfill.solvers.full_scale import Modes


def build(parts=(0.1, 0.1), weighted=False, kind="mean", shape=(20, 18), seed=5, noise=0.5):
    rng = np.random.default_rng(seed)
    places = [np.sort(rng.random(n)) for n in shape]
    row, col = (
        kf.kernels.identity(len(place))
        if part is None
        else kf.kernels.rbf(place, 0.3) + part * kf.kernels.identity(len(place))
        if part
        else kf.kernels.rbf(place, 0.3)
        for part, place in zip(parts, places, strict=True)
    )
    X = np.argwhere(rng.random(shape) < 0.7)
    signal = np.sin(5 * places[0][X[:, 0]]) * np.cos(4 * places[1][X[:, 1]])
    y = 3 + signal + noise * rng.standard_normal(len(X))
    weights = rng.uniform(0.5, 2, len(y)) if weighted else None
    design = None if kind is None else EffectsDesign(*X.T, shape, kind, weights)
    return RidgeProblem(row, col, Sampled(Mask(*X.T, shape, weights), y, design), 1.0)


def refit_error(problem, hidden, mu):
    """Mean square error of the hidden entries by a dense fit to the others."""
    s = problem.sampled
    train, test = s.take(~hidden), s.take(hidden)
    est = kf.KKMCEX(
        problem.row_kernel, problem.col_kernel, mu=mu, center=s.kind, solver=kf.Cholesky()
    )
    est.fit(np.column_stack([train.rows, train.cols]), train.values, train.weights)
    gap = test.values - est.predict(np.column_stack([test.rows, test.cols]))
    return float(np.average(gap**2, weights=test.weights))


@pytest.mark.parametrize("parts", [(0.0, 0.0), (0.2, 0.0), (0.2, 0.1), (None, 0.1)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", [None, "mean", "both"])
def test_both_ways_give_the_error_of_a_refit(parts, weighted, kind):
    problem = build(parts, weighted, kind)
    hidden = held_out_part(problem.sampled.m)
    ways = (DualHeldOut(problem, hidden), FactorHeldOut(ProblemAlongMu.of(problem), hidden))
    for mu in (10.0, 0.3, 1.0):  # down and up again: warm starts both ways
        wanted = refit_error(problem, hidden, mu)
        for way in ways:
            trial = way(mu)
            assert trial.sound
            assert trial.error == pytest.approx(wanted, rel=3e-3)


def test_a_settled_solve_says_what_has_settled():
    problem = build(noise=1.0)
    way = DualHeldOut(problem, held_out_part(problem.sampled.m))
    records = [way(mu).solution for mu in (1.0, 0.1, 0.01)]
    settled = [one for one in records if one.status is Status.SETTLED]
    assert settled
    for one in settled:
        assert one.settled
        assert not one.converged
        assert one.criterion == held_out.CRITERION
        assert 0 <= one.change <= 1e-3
        assert one.residual > 1e-6


@pytest.mark.parametrize("parts", [(0.0, 0.0), (0.2, 0.1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_for_many_observations_mu_has_the_least_error_of_all(parts, weighted, monkeypatch):
    problem = build(parts, weighted)
    monkeypatch.setattr("kronfill.criteria.exact.CRITERIA_WORK", 0.0)
    hidden = held_out_part(problem.sampled.m)
    fine = mean_diagonal(problem) * np.logspace(2, -4, 40)
    least = min(refit_error(problem, hidden, mu) for mu in fine)
    assert refit_error(problem, hidden, best_mu(problem)) <= 1.01 * least
    assert search_mu(problem).criterion == held_out.CRITERION


def test_kernels_of_full_rank_go_through_the_dual_system(monkeypatch):
    """The unknowns of a search are never more than the observations, nor the factors' own."""
    rng = np.random.default_rng(0)
    k = np.cov(rng.standard_normal((400, 900)))
    rows, cols = rng.integers(400, size=(2, 900))
    mask = Mask(*np.unique(np.column_stack([rows, cols]), axis=0).T, (400, 400))
    problem = RidgeProblem(
        kf.kernels.precomputed(k), kf.kernels.precomputed(k),
        Sampled(mask, rng.standard_normal(len(mask.rows))), 1.0,
    )  # fmt: skip
    monkeypatch.setattr("kronfill.criteria.exact.CRITERIA_WORK", 0.0)
    monkeypatch.setattr(held_out, "FactorHeldOut", None)
    assert search_mu(problem).mu > 0


@pytest.mark.parametrize("m", [2, 3, 10, 2500, 50_000])
def test_what_is_hidden_is_always_the_same_and_never_all(m):
    hidden = held_out_part(m)
    assert np.array_equal(hidden, held_out_part(m))
    assert 1 <= hidden.sum() <= max(1, m / 2)
    assert hidden.sum() >= min(m // 3, 1000)


def test_a_preconditioner_serves_its_neighbours(monkeypatch):
    problem = build(noise=1.0)
    made = []
    original = kf.DualPCG.system

    def counted(self, *arguments):
        made.append(arguments[-1])
        return original(self, *arguments)

    monkeypatch.setattr(kf.DualPCG, "system", counted)
    way = DualHeldOut(problem, held_out_part(problem.sampled.m))
    found = least_error(way, 1.0, "test")
    assert len(made) <= 0.6 * len(found.trials)


def test_the_trial_of_a_fit_is_a_trial():
    X = np.argwhere(np.ones((5, 4)))
    est = kf.KKMCEX(mu="auto", center="mean").fit(X, np.arange(20.0) % 7)
    assert all(isinstance(one, Trial) for one in est.mu_search_.trials)
    assert est.solution_.converged
    assert not hasattr(est.set_params(mu=1.0).fit(X, np.arange(20.0)), "mu_search_")


def test_what_does_not_depend_on_mu_is_made_once_for_search_and_fit(monkeypatch):
    made = []
    original = Modes.__init__

    def counted(self, *arguments):
        made.append(arguments)
        original(self, *arguments)

    monkeypatch.setattr(Modes, "__init__", counted)
    monkeypatch.setattr("kronfill.criteria.exact.CRITERIA_WORK", 0.0)
    problem = build((None, 0.1), noise=1.0)
    X = np.column_stack([problem.sampled.rows, problem.sampled.cols])
    kernels = [kf.kernels.precomputed(k.block()) for k in (problem.row_kernel, problem.col_kernel)]
    est = kf.KKMCEX(*kernels, mu="auto", center="mean", solver=kf.DualPCG())
    est.fit(X, problem.sampled.values)
    assert est.mu_search_.criterion == held_out.CRITERION
    assert len(made) == 1
    dense = kf.KKMCEX(*kernels, mu=est.mu_, center="mean", solver=kf.Cholesky())
    dense.fit(X, problem.sampled.values)
    np.testing.assert_allclose(est.predict_matrix(), dense.predict_matrix(), atol=1e-5)


def test_another_mask_shares_nothing():
    problem = build()
    operator = DualOperator.of(problem)
    assert DualOperator.of(problem.with_mu(2.0)) is operator
    other = replace(problem, sampled=problem.sampled.take(problem.sampled.rows > 2))
    assert DualOperator.of(other).shape != operator.shape


def test_hidden_entries_do_not_spoil_the_preconditioner():
    """It is made with all of them: 26 iterations when this was written, 71 if they had weight."""
    problem = build(weighted=True, noise=1.0, shape=(40, 30))
    way = DualHeldOut(problem, held_out_part(problem.sampled.m))
    assert sum(way(mu).solution.iterations for mu in (1.0, 0.1, 0.01)) <= 40

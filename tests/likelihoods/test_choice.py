"""mu="auto": approximate leave-one-out against refits, held-out deviance where m is large."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.likelihoods import choice
from kronfill.likelihoods.choice import best_mu, left_out_latents, mean_deviance
from kronfill.likelihoods.families import Bernoulli, Poisson
from kronfill.likelihoods.newton import Newton
from kronfill.likelihoods.posed import PosedLikelihood
from kronfill.ridge.problem import RidgeProblem, Sampled
from kronfill.solvers.auto import as_solver


def problem(seed, family, center=None):
    rng = np.random.default_rng(seed)
    n, l = 8, 7
    row, col = rng.standard_normal((n, 2)), rng.standard_normal((l, 2))
    where = np.argwhere(rng.random((n, l)) < 0.7)
    latent = 2 * np.sin(row[where[:, 0], 0]) * col[where[:, 1], 0] + 0.5
    if isinstance(family, Bernoulli):
        y = (rng.random(len(where)) < 1 / (1 + np.exp(-latent))).astype(float)
    else:
        y = rng.poisson(np.exp(latent)).astype(float)
    weights = rng.uniform(0.5, 2.0, len(where))
    sampled = Sampled.of(*where.T, y, (n, l), weights, center)
    kernels = (kf.kernels.rbf(side, length_scale=1.5) for side in (row, col))
    return PosedLikelihood(RidgeProblem(*kernels, sampled, 1.0), family)


def refitted(posed, mu):
    """eta of each entry from a fit to the others."""
    out = np.empty(posed.sampled.m)
    for k in range(posed.sampled.m):
        keep = np.arange(posed.sampled.m) != k
        newton = Newton(posed.take(keep), as_solver("auto"))
        at, _ = newton.solve(mu)
        s = posed.sampled
        out[k] = newton.elsewhere(at, s.rows[[k]], s.cols[[k]])[0]
    return out


@pytest.mark.parametrize("family", [Bernoulli(), Poisson()])
@pytest.mark.parametrize("seed", range(5))
def test_deviance_is_within_one_percent_of_refits(family, seed):
    """Ten problems, each at the mu that is chosen and, in turn, with and without a mean."""
    posed = problem(seed, family, "mean" if seed % 2 else None)
    mu = best_mu([posed], as_solver("auto"))
    newton = Newton(posed, as_solver("auto"))
    at, _ = newton.solve(mu)
    nearly = mean_deviance(posed.sampled, family, left_out_latents(posed, newton.eta(at), mu))
    exactly = mean_deviance(posed.sampled, family, refitted(posed, mu))
    assert nearly == pytest.approx(exactly, rel=0.01)


def test_the_choice_is_about_the_best():
    posed = problem(11, Bernoulli())
    mus = (0.1, 3.0)
    deviances = [mean_deviance(posed.sampled, Bernoulli(), refitted(posed, mu)) for mu in mus]
    chosen = best_mu([posed], as_solver("auto"))
    own = mean_deviance(posed.sampled, Bernoulli(), refitted(posed, chosen))
    assert own < 1.01 * min(deviances)


def test_many_observations_need_no_further_steps(monkeypatch):
    """The formula by itself, and with the steps: what single entries change is little."""
    posed = problem(4, Bernoulli(), "mean")
    newton = Newton(posed, as_solver("auto"))
    at, _ = newton.solve(1.0)
    with_steps = left_out_latents(posed, newton.eta(at), 1.0)
    monkeypatch.setattr(choice, "FEW", 0)
    formula = left_out_latents(posed, newton.eta(at), 1.0)
    assert_allclose(formula, with_steps, atol=0.3)
    monkeypatch.setattr(choice, "FEW", 600)
    monkeypatch.setattr(choice, "STEPS", 1)
    assert_allclose(left_out_latents(posed, newton.eta(at), 1.0), formula, atol=1e-7)


def test_held_out_entries_choose_where_there_are_many(monkeypatch):
    """The same path with a tenth held out; entries that bound an effect are not among them."""
    monkeypatch.setattr(choice, "LEAVING_WORK", 0.0)
    monkeypatch.setattr(choice, "FEW", 0)
    posed = problem(3, Poisson(), "rows")
    s = posed.sampled
    y = s.values.copy()
    first = np.unique(s.rows, return_index=True)[1]
    y[:] = 0.0
    y[first] = 2.0  # one count in each row: holding it out would leave nothing but zeros
    sampled = Sampled.of(s.rows, s.cols, y, s.shape, None, "rows")
    posed = PosedLikelihood(
        RidgeProblem(posed.problem.row_kernel, posed.problem.col_kernel, sampled, 1.0), Poisson()
    )
    held = choice.held_out([posed])
    assert held.any()
    assert not held[first].any()
    assert best_mu([posed], as_solver("auto")) > 0


def test_estimators_take_auto():
    rng = np.random.default_rng(0)
    where = np.argwhere(rng.random((12, 9)) < 0.7)
    latent = 2 * np.sin(where[:, 0] / 2)
    labels = rng.random(len(where)) < 1 / (1 + np.exp(-latent))
    kernels = kf.kernels.rbf(np.arange(12.0), 2.0), kf.kernels.rbf(np.arange(9.0), 2.0)
    est = kf.KKMCEXClassifier(*kernels, mu="auto").fit(where, labels)
    same = kf.KKMCEXClassifier(*kernels, mu=est.mu_).fit(where, labels)
    assert_allclose(est.predict_matrix(), same.predict_matrix(), atol=1e-9)
    three = rng.integers(0, 3, len(where))
    assert kf.KKMCEXClassifier(*kernels, mu="auto").fit(where, three).mu_ > 0
    counts = rng.poisson(np.exp(latent))
    assert kf.KKMCEXPoisson(*kernels, mu="auto", center="mean").fit(where, counts).mu_ > 0

"""The mu with the least deviance on values that were left out.

At the minimum of the penalised likelihood the fit is that of a weighted ridge problem with working
responses eta - g/h. Its leave-one-out residuals, of which there is a formula, give the latent
number of an entry that is left out up to the change of the other curvatures: approximate
leave-one-out (K. Rahnama Rad, A. Maleki, "A scalable estimate of the out-of-sample prediction error
via approximate leave-one-out cross-validation", 2020). Where observations are few, that change
counts: further steps of Newton's method with the same curvatures follow, for all entries at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from kronfill._types import Flags, Floats
from kronfill.core.limits import CRITERIA_WORK
from kronfill.criteria.exact import DETERMINED, exact_form, mean_diagonal
from kronfill.criteria.reduction import effects_basis
from kronfill.criteria.search import Trial, least_error
from kronfill.likelihoods.families import Likelihood
from kronfill.likelihoods.newton import Iterate, Newton, curvature
from kronfill.likelihoods.posed import PosedLikelihood
from kronfill.ridge.factorised import factorised
from kronfill.ridge.problem import RidgeProblem, RidgeSolver, Sampled
from kronfill.solvers.dense import entry_kernel

__all__ = ["best_mu", "left_out_latents"]

LEAVING_WORK = CRITERIA_WORK / 25
"""Multiplications that leaving single entries out may take for one mu: m = 1000."""
FEW = 600
"""Up to so many observations single ones change the curvatures of the others."""
STEPS = 5
HELD = 0.1


def left_out_latents(posed: PosedLikelihood, eta: Floats, mu: float) -> Floats:
    """eta of each entry when it is left out, nearly; NaN for one that alone tells an effect."""
    s, loss = posed.sampled, posed.likelihood
    h = curvature(s, loss, eta)
    g = s.weights_or_ones * loss.derivatives(s.values, eta)[0]
    response = eta - posed.known - g / h
    weighted = Sampled.of(s.rows, s.cols, response, s.shape, h, s.kind)
    if s.m <= FEW:
        return _by_steps(posed, weighted, eta, mu)
    reduced = exact_form(replace(posed.problem, sampled=weighted), LEAVING_WORK)
    assert reduced is not None  # the caller has looked
    diagonal, applied = reduced.parts(np.array([mu]))
    usable = reduced.free > DETERMINED
    residual = applied[0] / np.where(usable, diagonal[0] * reduced.root, np.nan)
    return np.asarray(posed.known + response - residual)


def _by_steps(posed: PosedLikelihood, weighted: Sampled, eta: Floats, mu: float) -> Floats:
    """The same with the change of the curvatures, by some steps for all entries at once.

    Column k of D and E has the dual vector and the latent numbers of the fit without entry k. With
    h = s^2 and M = A^-1 - A^-1 Z~ (Z~^T A^-1 Z~)^-1 Z~^T A^-1, A = S Kbar S + mu I, a step is
    d' = s o M (c e_k - r / s), where r = g + mu d is what is left of the gradient and c makes
    d_k = 0; the latent numbers move by (s_k c e_k - r - mu d') / h.
    """
    s, loss, w = posed.sampled, posed.likelihood, posed.sampled.weights_or_ones
    h, root = weighted.weights_or_ones, weighted.root_weights
    inverse, free = _projected_inverse(replace(posed.problem, sampled=weighted), mu)
    diagonal = np.where(free, np.diagonal(inverse), np.nan)
    dual = np.tile((-w * loss.derivatives(s.values, eta)[0] / mu)[:, None], s.m)
    latents = np.tile(eta[:, None], s.m)
    rest, size = np.zeros((s.m, s.m)), np.full(s.m, np.inf)
    for step in range(STEPS):
        moved = inverse @ (rest / root[:, None])
        gap = np.diagonal(moved) - np.diagonal(dual) / root  # what z_k has to make up for
        c = gap / diagonal
        change = root[:, None] * (inverse * c - moved)
        shift = -rest - mu * change
        shift[np.diag_indices(s.m)] += root * c
        further = latents + shift / h[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            slope = loss.derivatives(s.values[:, None] + np.zeros_like(further), further)[0]
        left = w[:, None] * slope + mu * (dual + change)
        np.fill_diagonal(left, 0.0)
        now = np.linalg.norm(left, axis=0)
        better = (now < size) | (step == 0)
        for old, new in ((latents, further), (dual, dual + change), (rest, left)):
            old[:, better] = new[:, better]
        size = np.where(better, now, size)
        if not (better & (now > 0)).any():
            break
    return np.where(free, np.diagonal(latents), np.nan)


def _projected_inverse(problem: RidgeProblem, mu: float) -> tuple[Floats, Flags]:
    """M, and the entries that do not tell an effect alone."""
    s = problem.sampled
    effects = effects_basis(s)
    white = factorised(entry_kernel(problem), mu).whiten(np.eye(s.m))
    basis = np.linalg.qr(white @ effects)[0]
    inside = basis.T @ white
    free = np.einsum("ij,ij->i", effects, effects) < 1 - DETERMINED
    return white.T @ white - inside.T @ inside, free


def best_mu(problems: Sequence[PosedLikelihood], solver: RidgeSolver) -> float:
    """The mu with the least deviance of left-out values, in all problems together."""
    first = problems[0]
    scale = 0.25 * mean_diagonal(first.problem)
    error: Callable[[float], tuple[float, bool]]
    few = first.sampled.m <= FEW
    if few or exact_form(first.problem, LEAVING_WORK) is not None:
        error = _LeavingOut(problems, solver)
    else:
        error = _HeldOut(problems, solver)

    def ask(mu: float) -> Trial:
        value, converged = error(mu)
        return Trial(mu, value if converged else np.inf)

    return least_error(ask, scale, "deviance of values left out").mu


class _LeavingOut:
    """Deviance of single entries left out, for one mu after the other, each from the last."""

    def __init__(self, problems: Sequence[PosedLikelihood], solver: RidgeSolver) -> None:
        self._newtons = [Newton(one, solver.quiet()) for one in problems]
        self._last: list[Iterate | None] = [None] * len(problems)

    def __call__(self, mu: float) -> tuple[float, bool]:
        total, fine = 0.0, True
        for k, newton in enumerate(self._newtons):
            self._last[k], solution = newton.solve(mu, self._last[k])
            at = self._last[k]
            assert at is not None
            latents = left_out_latents(newton.posed, newton.eta(at), mu)
            total += mean_deviance(newton.posed.sampled, newton.likelihood, latents)
            fine &= solution.converged
        return total, fine


class _HeldOut:
    """The same for a tenth of the entries that is held out for good."""

    def __init__(self, problems: Sequence[PosedLikelihood], solver: RidgeSolver) -> None:
        held = held_out(problems)
        self._newtons = [Newton(one.take(~held), solver.quiet()) for one in problems]
        self._tests = [one.take(held) for one in problems]
        self._last: list[Iterate | None] = [None] * len(problems)

    def __call__(self, mu: float) -> tuple[float, bool]:
        total, fine = 0.0, True
        for k, (newton, test) in enumerate(zip(self._newtons, self._tests, strict=True)):
            self._last[k], solution = newton.solve(mu, self._last[k])
            at, s = self._last[k], test.sampled
            assert at is not None
            latents = test.known + newton.elsewhere(at, s.rows, s.cols)
            total += mean_deviance(s, test.likelihood, latents)
            fine &= solution.converged
        return total, fine


def mean_deviance(s: Sampled, likelihood: Likelihood, latents: Floats) -> float:
    """Weighted mean deviance over the entries that have a latent number."""
    known = ~np.isnan(latents)
    weights = s.weights_or_ones[known]
    if not len(weights):
        return np.inf
    deviance = likelihood.deviance(s.values[known], latents[known])
    return float(weights @ deviance / weights.sum())


def held_out(problems: Sequence[PosedLikelihood]) -> Flags:
    """Which entries are held out, the same for the same entries; none that bounds an effect."""
    m = problems[0].sampled.m
    held = np.zeros(m, dtype=bool)
    held[np.random.default_rng(0).choice(m, size=max(1, round(HELD * m)), replace=False)] = True
    for posed in problems:
        for index, size in posed.effect_sides().values():
            for wanted, _ in posed.likelihood.bounding(posed.sampled.values):
                left = np.bincount(index, wanted & ~held, minlength=size)
                held &= left[index] > 0
    return held

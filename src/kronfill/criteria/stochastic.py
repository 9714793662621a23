"""The criteria of :mod:`kronfill.criteria.exact` where m is too large for a dense reduction.

M y is one solve for each mu. What else is needed of M is estimated, with its standard error:

* tr M by Hutchinson's estimator: the mean of z^T M z over random signs z.
* Leave-one-out by *sampled entries*: M_ii is exact for q entries drawn without replacement, one
  solve each. The mean of r_i^2 over all entries is that of r_i'^2, with the mean of M_ii in place
  of M_ii, plus the mean of r_i^2 - r_i'^2 over the sample: a difference estimator.
* log det A by stochastic Lanczos quadrature.
* Leave-row-out and leave-column-out by *sampled rows (columns)*: each is left out as a whole and
  the others are solved for, from the solution for all.

All right-hand sides go through the iterative solver together, each mu from the solution of the one
before.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg

from kronfill._types import Flags, Floats, Index
from kronfill.criteria.exact import DETERMINED, likelihood
from kronfill.criteria.path import ProblemAlongMu
from kronfill.errors import ConvergenceWarning
from kronfill.ridge.free_effects import FreeEffects
from kronfill.ridge.identity_system import IdentitySystem
from kronfill.ridge.problem import CoreResult, RidgeProblem, Sampled
from kronfill.ridge.solution import Solution
from kronfill.solvers.pcg import PCG

__all__ = ["Estimates", "estimate_criteria", "leave_group_out_at", "leave_one_out_at"]


BATCH_FLOATS = 20_000_000
"""Unknowns of the right-hand sides that are solved for together."""
LANCZOS = 60
SOLVER = PCG(tol=1e-6)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Criteria along a grid of mu, each with its standard error.

    Attributes
    ----------
    entries : ndarray of shape (q,)
        Positions of the sampled observations; none if leave-one-out was not asked for.
    residuals : ndarray of shape (k, q)
        Their leave-one-out residuals.
    values, errors : dict of str to ndarray of shape (k,)
        "loo", "gcv" and "lml" as in :class:`~kronfill.criteria.exact.Criteria`, "row" and
        "column" the mean square error of those left out, as far as asked for; their standard
        errors. NaN for a mu at which a solve did not converge.
    """

    entries: Index
    residuals: Floats
    values: dict[str, Floats]
    errors: dict[str, Floats]


def estimate_criteria(
    problem: RidgeProblem,
    mus: Floats,
    names: Sequence[str] = ("loo", "gcv", "lml"),
    *,
    samples: int = 64,
    probes: int = 8,
    lines: int = 16,
    random_state: int = 0,
) -> Estimates:
    """Estimate criteria for each mu (largest first is the fastest order)."""
    s, rng = problem.sampled, np.random.default_rng(random_state)
    solves = _Solves(ProblemAlongMu.of(problem), mus)
    dual = solves.duals(s.values[:, None])[:, :, 0]
    signs = rng.choice([-1.0, 1.0], size=(s.m, probes))
    pool = np.flatnonzero(np.abs(dual[0]) > DETERMINED * np.abs(dual[0]).max())
    entries, residuals = pool[:0], np.empty((len(mus), 0))
    values, errors = {}, {}
    if "loo" in names:
        entries = np.sort(rng.choice(pool, size=min(samples, len(pool)), replace=False))
        diagonal = solves.diagonal(entries)
        residuals = dual[:, entries] / diagonal
        values["loo"], errors["loo"] = _difference(s, dual, diagonal, pool, entries)
    if "gcv" in names:
        values["gcv"], errors["gcv"] = _cross_validation(s, solves, dual, signs)
    if "lml" in names:
        logdet, error = _log_determinant(solves, signs)
        freedom = s.m - _effects_rank(s)
        constant = float(np.log(s.root_weights).sum())
        values["lml"] = likelihood(dual @ s.values, logdet, freedom) + constant
        errors["lml"] = 0.5 * error
    for name, groups in (("row", s.rows), ("column", s.cols)):
        if name in names:
            values[name], errors[name] = _lines_left_out(solves, groups, lines, rng)
    trusted = solves.trusted()
    for table in (values, errors):
        table.update({name: np.where(trusted, one, np.nan) for name, one in table.items()})
    residuals[~trusted] = np.nan
    return Estimates(entries, residuals, values, errors)


def leave_one_out_at(problem: RidgeProblem, entries: Index, mus: Floats) -> Floats:
    """Leave-one-out residuals of some entries by one solve each, shape (mus, entries)."""
    solves = _Solves(ProblemAlongMu.of(problem), mus)
    dual = solves.duals(problem.sampled.values[:, None])[:, entries, 0]
    residuals = dual / solves.diagonal(entries)
    return np.where(solves.trusted()[:, None], residuals, np.nan)


def leave_group_out_at(problem: RidgeProblem, groups: Index, chosen: Index, mus: Floats) -> Floats:
    """Residuals of chosen groups, each left out as a whole: (mus, m), NaN for all other entries.

    One solve for each group and mu, from the solution for all observations.
    """
    solves = _Solves(ProblemAlongMu.of(problem), mus)
    residuals = _without(solves, groups, chosen)
    return np.where(solves.trusted()[:, None], residuals, np.nan)


def _without(solves: _Solves, groups: Index, chosen: Index) -> Floats:
    path, s = solves.path, solves.sampled
    before = solves.whole()
    out = np.full((len(solves.mus), s.m), np.nan)
    for group in chosen:
        left_out = groups == group
        if left_out.all():
            continue
        rest = replace(path, sampled=s.take(~left_out))
        system = rest.systems(rest.sampled.values)
        rows, cols = s.rows[left_out], s.cols[left_out]
        for k, mu in enumerate(map(float, solves.mus)):
            now, whole = system(mu), before[k]
            # Without the group the bases of the identity system are others: x is made from d.
            if isinstance(now, IdentitySystem):
                start = now.from_dual(whole.dual[~left_out])
            else:
                start = whole.core
            solved = solves.checked(k, [SOLVER.solve_system(now, mu, start)])[0]
            fitted = rest.elsewhere(solved.dual, rows, cols)
            if solved.effects is not None:
                fitted += solved.effects.at(rows, cols)
            out[k, left_out] = s.values[left_out] - fitted
    return out


def _lines_left_out(
    solves: _Solves, groups: Index, count: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Mean square error of rows (columns) left out, from some of them: a ratio of sums."""
    items, s = np.unique(groups), solves.sampled
    chosen = np.sort(rng.choice(items, size=min(count, len(items)), replace=False))
    residuals = _without(solves, groups, chosen)
    weights = s.root_weights**2
    squares = np.array([(weights * residuals**2)[:, groups == g].sum(axis=1) for g in chosen])
    sizes = np.array([weights[groups == g].sum() for g in chosen])
    ratio = squares.sum(axis=0) / sizes.sum()
    gaps = (squares - np.outer(sizes, ratio)) / sizes.mean()
    _, error = _mean_error(gaps.T)
    return ratio, error * np.sqrt(1 - len(chosen) / len(items))


@dataclass(frozen=True, eq=False)
class _Solves:
    """The iterative solver for many right-hand sides along a path of mu."""

    path: ProblemAlongMu
    mus: Floats
    failed: dict[int, list[Solution]] = field(default_factory=dict)
    """Solves that did not converge, by the position of mu."""

    @property
    def sampled(self) -> Sampled:
        """The observed entries."""
        return self.path.sampled

    @property
    def _batch(self) -> int:
        return int(max(1, BATCH_FLOATS // max(1, self.path.unknowns, self.sampled.m)))

    def whole(self) -> list[CoreResult]:
        """The solution for the observed values, for each mu."""
        system = self.path.systems(self.sampled.values)
        out: list[CoreResult] = []
        for mu in map(float, self.mus):
            start = out[-1].core if out else None
            out.append(SOLVER.solve_system(system(mu), mu, start))
            self.checked(len(out) - 1, out[-1:])
        return out

    def checked(self, k: int, results: list[CoreResult]) -> list[CoreResult]:
        """Note where a solve for the k-th mu did not converge."""
        self.failed.setdefault(k, []).extend(
            one.solution for one in results if not one.solution.converged
        )
        return results

    def trusted(self) -> Flags:
        """For which values of mu every solve has converged; a warning names the others."""
        bad = [k for k, solutions in self.failed.items() if solutions]
        if bad:
            worst = max((s for k in bad for s in self.failed[k]), key=lambda s: s.residual)
            message = (
                f"Criteria are left out for mu = {', '.join(f'{self.mus[k]:.3g}' for k in bad)}: "
                f"their solves did not converge (relative residual up to {worst.residual:.1e}). "
                "Use larger values of mu."
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=4)
        return np.isin(np.arange(len(self.mus)), bad, invert=True)

    def duals(self, targets: Floats) -> Floats:
        """The dual vectors of each target, shape (mus, m, targets)."""
        out = np.empty((len(self.mus), *targets.shape))
        starts: list[Floats] | None = None
        system = self.path.systems(np.ascontiguousarray(targets))
        for k, mu in enumerate(map(float, self.mus)):
            solved = self.checked(k, SOLVER.solve_all(system(mu), mu, starts))
            starts = [one.core for one in solved]
            for t, one in enumerate(solved):
                out[k, :, t] = one.dual
        return out

    def quadratic(self, left: Floats, targets: Floats) -> Floats:
        """left_t^T dual_t for each target, shape (mus, targets)."""
        out = np.empty((len(self.mus), targets.shape[1]))
        for start in range(0, targets.shape[1], self._batch):
            part = slice(start, start + self._batch)
            out[:, part] = np.einsum("mt,kmt->kt", left[:, part], self.duals(targets[:, part]))
        return out

    def diagonal(self, entries: Index) -> Floats:
        """s_i M_ii s_i of these entries, shape (mus, entries)."""
        units = np.zeros((self.sampled.m, len(entries)))
        units[entries, np.arange(len(entries))] = 1.0
        return self.quadratic(units, units)


def _mean_error(draws: Floats) -> tuple[Floats, Floats]:
    """Mean over the last axis and its standard error."""
    count = draws.shape[-1]
    spread = draws.std(axis=-1, ddof=1) if count > 1 else np.full(draws.shape[:-1], np.inf)
    return draws.mean(axis=-1), spread / np.sqrt(count)


def _difference(
    s: Sampled, dual: Floats, diagonal: Floats, pool: Index, entries: Index
) -> tuple[Floats, Floats]:
    """Mean square leave-one-out residual over the pool from the sampled entries."""
    weights = s.root_weights**2
    level = (diagonal / weights[entries]).mean(axis=1)[:, None]  # of M_ii
    rough = weights * (dual / (weights * level)) ** 2
    gap = weights[entries] * (dual[:, entries] / diagonal) ** 2 - rough[:, entries]
    correction, error = _mean_error(gap)
    error = error * np.sqrt(1 - len(entries) / len(pool))
    total = weights[pool].sum()
    size = len(pool) / total
    return rough[:, pool].sum(axis=1) / total + size * correction, size * error


def _cross_validation(
    s: Sampled, solves: _Solves, dual: Floats, signs: Floats
) -> tuple[Floats, Floats]:
    """GCV with Hutchinson's estimate of tr M."""
    root = s.root_weights
    # In the solver's terms d = s o M (s o v): with v = z / s, z^T M z = z^T d / s.
    turned = signs / root[:, None]
    trace, error = _mean_error(solves.quadratic(turned, turned))
    size = ((dual / root) ** 2).sum(axis=1)
    gcv = s.m * size / trace**2 / np.mean(root**2)
    return gcv, 2 * gcv * error / trace


def _effects_rank(s: Sampled) -> int:
    """Rank of the effects' design."""
    return 0 if s.effects is None else FreeEffects.of(s.effects).rank


def _project(s: Sampled, v: Floats) -> Floats:
    """P v: what the effects cannot take up, in the coordinates of y~ = s o y."""
    if s.effects is None:
        return v
    root = s.root_weights
    return np.column_stack([root * s.effects.remove(column / root) for column in v.T])


def _log_determinant(solves: _Solves, signs: Floats) -> tuple[Floats, Floats]:
    """log det(A) on the complement of the effects, and its standard error.

    Lanczos from P z gives nodes and weights of a Gauss quadrature for z^T P log(A) P z. Half as
    many steps give another one: the distance between the two is counted as an error too.
    """
    s, mus = solves.sampled, solves.mus
    freedom = s.m - _effects_rank(s)
    fine, coarse = np.empty((2, len(mus), signs.shape[1]))
    for t, start in enumerate(_project(s, signs).T):
        diagonal, beside = _lanczos(solves, start, min(LANCZOS, s.m))
        for out, steps in ((fine, len(diagonal)), (coarse, (len(diagonal) + 1) // 2)):
            nodes, vectors = scipy.linalg.eigh_tridiagonal(diagonal[:steps], beside[: steps - 1])
            levels = np.log(np.maximum(nodes, 0.0)[None, :] + mus[:, None])
            out[:, t] = freedom * (levels @ vectors[0] ** 2)  # trace over P = m - r
    mean, error = _mean_error(fine)
    return mean, np.hypot(error, np.abs(mean - coarse.mean(axis=1)))


def _lanczos(solves: _Solves, start: Floats, steps: int) -> tuple[Floats, Floats]:
    """Diagonal and off-diagonal of P diag(s) Kbar diag(s) P in the Krylov space of ``start``."""
    s = solves.sampled
    root = s.root_weights
    basis = [start / np.linalg.norm(start)]
    diagonal: list[float] = []
    beside: list[float] = []
    while True:
        v = root * basis[-1]
        image = root * (solves.path.elsewhere(v, s.rows, s.cols) + solves.path.entry_identity * v)
        image = _project(s, image[:, None])[:, 0]
        diagonal.append(float(basis[-1] @ image))
        known = np.array(basis)
        for _ in range(2):  # orthogonal to all before, to working precision
            image = image - known.T @ (known @ image)
        length = float(np.linalg.norm(image))
        if len(diagonal) == steps or length <= 1e-12 * max(map(abs, diagonal)):
            return np.array(diagonal), np.array(beside)
        beside.append(length)
        basis.append(image / length)

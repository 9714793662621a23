"""The criteria of :mod:`kronfill.linalg.criteria` where m is too large for a dense reduction.

M y is one solve for each mu. What else is needed of M is estimated, and the standard error told:

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

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from kronfill.linalg.criteria import DETERMINED, likelihood, part
from kronfill.linalg.free_effects import FreeEffects
from kronfill.linalg.pcg import PCG
from kronfill.linalg.ridge import RidgeProblem, Sampled
from kronfill.linalg.splitpath import SplitPath

__all__ = ["Estimates", "estimate_criteria", "leave_group_out_at", "leave_one_out_at"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

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
        "loo", "gcv" and "lml" as in :class:`~kronfill.linalg.criteria.Criteria`, "row" and
        "column" the mean square error of those left out, as far as asked for; their standard
        errors.
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
    solves = _Solves(SplitPath.of(problem), mus)
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
    return Estimates(entries, residuals, values, errors)


def leave_one_out_at(problem: RidgeProblem, entries: Index, mus: Floats) -> Floats:
    """Leave-one-out residuals of some entries by one solve each, shape (mus, entries)."""
    solves = _Solves(SplitPath.of(problem), mus)
    dual = solves.duals(problem.sampled.values[:, None])[:, entries, 0]
    return np.asarray(dual / solves.diagonal(entries))


def leave_group_out_at(problem: RidgeProblem, groups: Index, chosen: Index, mus: Floats) -> Floats:
    """Residuals of chosen groups, each left out as a whole: (mus, m), NaN for all other entries.

    One solve for each group and mu, from the solution for all observations.
    """
    return _without(_Solves(SplitPath.of(problem), mus), groups, chosen)


def _without(solves: _Solves, groups: Index, chosen: Index) -> Floats:
    path, s = solves.path, solves.sampled
    starts = solves.cores()
    out = np.full((len(solves.mus), s.m), np.nan)
    for group in chosen:
        held = groups == group
        if held.all():
            continue
        rest = replace(path, sampled=part(s, ~held))
        system = rest.systems(rest.sampled.values)
        rows, cols = s.rows[held], s.cols[held]
        for k, mu in enumerate(map(float, solves.mus)):
            solved = SOLVER.solve_system(system(mu), mu, starts[k])
            fitted = rest.elsewhere(solved.dual, rows, cols)
            if solved.effects is not None:
                fitted += solved.effects.at(rows, cols)
            out[k, held] = s.values[held] - fitted
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

    path: SplitPath
    mus: Floats

    @property
    def sampled(self) -> Sampled:
        """The observed entries."""
        return self.path.sampled

    @property
    def _batch(self) -> int:
        return int(max(1, BATCH_FLOATS // max(1, self.path.unknowns, self.sampled.m)))

    def cores(self) -> list[Floats]:
        """The solution for the observed values, for each mu."""
        system = self.path.systems(self.sampled.values)
        out: list[Floats] = []
        for mu in map(float, self.mus):
            start = out[-1] if out else None
            out.append(SOLVER.solve_system(system(mu), mu, start).core)
        return out

    def duals(self, targets: Floats) -> Floats:
        """The dual vectors of each target, shape (mus, m, targets)."""
        out = np.empty((len(self.mus), *targets.shape))
        starts: list[Floats] | None = None
        system = self.path.systems(np.ascontiguousarray(targets))
        for k, mu in enumerate(map(float, self.mus)):
            solved = SOLVER.solve_all(system(mu), mu, starts)
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
        image = root * (solves.path.elsewhere(v, s.rows, s.cols) + solves.path.fold * v)
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

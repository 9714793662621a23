"""The criteria of :mod:`kronfill.linalg.criteria` where m is too large for a dense reduction.

M y is one solve for each mu. What else is needed of M is estimated, and the standard error told:

* tr M by Hutchinson's estimator: the mean of z^T M z over random signs z.
* Leave-one-out by *sampled entries*: M_ii is exact for q entries drawn without replacement, one
  solve each. The mean of r_i^2 over all entries is that of r_i'^2, with the mean of M_ii in place
  of M_ii, plus the mean of r_i^2 - r_i'^2 over the sample: a difference estimator.
* log det A by stochastic Lanczos quadrature.

All right-hand sides go through the iterative solver together, each mu from the solution of the one
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from kronfill.linalg.criteria import DETERMINED, likelihood
from kronfill.linalg.free_effects import FreeEffects
from kronfill.linalg.operator import pair_products
from kronfill.linalg.pcg import PCG, FactorSystem
from kronfill.linalg.ridge import RidgeProblem, Sampled
from kronfill.linalg.spiked import SpikedSystem, Split
from kronfill.linalg.system import System

__all__ = ["Estimates", "estimate_criteria", "leave_one_out_at"]

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
        "loo", "gcv" and "lml" as in :class:`~kronfill.linalg.criteria.Criteria`, as far as asked
        for, and their standard errors.
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
    random_state: int = 0,
) -> Estimates:
    """Estimate criteria for each mu (largest first is the fastest order)."""
    s, rng = problem.sampled, np.random.default_rng(random_state)
    solves = _Solves.of(problem, mus)
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
    return Estimates(entries, residuals, values, errors)


def leave_one_out_at(problem: RidgeProblem, entries: Index, mus: Floats) -> Floats:
    """Leave-one-out residuals of some entries by one solve each, shape (mus, entries)."""
    solves = _Solves.of(problem, mus)
    dual = solves.duals(problem.sampled.values[:, None])[:, entries, 0]
    return np.asarray(dual / solves.diagonal(entries))


@dataclass(frozen=True, eq=False)
class _Solves:
    """The iterative solver for many right-hand sides along a path of mu."""

    row: Split
    col: Split
    sampled: Sampled
    mus: Floats

    @classmethod
    def of(cls, problem: RidgeProblem, mus: Floats) -> _Solves:
        row, col = Split.of(problem.row_kernel), Split.of(problem.col_kernel)
        return cls(row, col, problem.sampled, mus)

    @property
    def _batch(self) -> int:
        n, l = self.sampled.shape
        a, b = self.row.factor.phi.shape[1], self.col.factor.phi.shape[1]
        spikes = n * b + l * a if self.row.ridge or self.col.ridge else 0
        return int(max(1, BATCH_FLOATS // max(1, a * b + spikes, self.sampled.m)))

    def _systems(self, targets: Floats) -> list[System]:
        """One system per mu; without an identity part they are the same one."""
        sampled = replace(self.sampled, values=targets)
        if self.row.ridge or self.col.ridge:
            return [SpikedSystem.of(self.row, self.col, sampled, float(mu)) for mu in self.mus]
        plain = FactorSystem.of(self.row.factor.phi, self.col.factor.phi, sampled)
        return [plain] * len(self.mus)

    def duals(self, targets: Floats) -> Floats:
        """The dual vectors of each target, shape (mus, m, targets)."""
        out = np.empty((len(self.mus), *targets.shape))
        starts: list[Floats] | None = None
        for k, system in enumerate(self._systems(np.ascontiguousarray(targets))):
            solved = SOLVER.solve_all(system, float(self.mus[k]), starts)
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
        image = root * _kernel_product(solves, root * basis[-1])
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


def _kernel_product(solves: _Solves, v: Floats) -> Floats:
    """Kbar v with K = Phi Phi^T + e I on either axis: four terms, each a pass over the entries."""
    s = solves.sampled
    p, q = solves.row.factor.phi, solves.col.factor.phi
    table = s.sparse(v)
    by_row, by_col = table @ q, table.T @ p
    out = pair_products(p @ (p.T @ by_row), q, s.rows, s.cols)
    if solves.row.ridge:
        out += solves.row.ridge * pair_products(by_row, q, s.rows, s.cols)
    if solves.col.ridge:
        out += solves.col.ridge * pair_products(p, by_col, s.rows, s.cols)
    return out + (solves.row.ridge * solves.col.ridge) * v

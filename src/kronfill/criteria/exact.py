"""Exact criteria of a ridge problem for a whole grid of mu, and the mu they choose.

With M as in :mod:`kronfill.criteria.reduction` (effects are unknowns of the same solve, weights
enter through s = sqrt(w)) the residual of entry i when it is left out is

    r_i = (M y~)_i / (s_i M_ii),

that of a group G of entries left out together is M_GG^-1 (M y~)_G / s_G, generalised
cross-validation needs ||M y~|| and tr M, and the marginal likelihood y~^T M y~ and a determinant:
one reduction serves every mu.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from kronfill._types import Floats, Index
from kronfill.core.limits import CRITERIA_WORK, FACTOR_RTOL, SMALL_CRITERIA
from kronfill.criteria.held_out import held_out_search
from kronfill.criteria.reduction import (
    DualForm,
    PrimalForm,
    Reduced,
    Shifted,
    effects_basis,
)
from kronfill.criteria.search import Search, Trial
from kronfill.ridge.factorised import Factorised
from kronfill.ridge.problem import RidgeProblem, Sampled

__all__ = [
    "Criteria",
    "best_mu",
    "criteria",
    "exact_form",
    "group_residuals",
    "leave_group_out",
    "leave_one_out",
    "leave_one_out_by",
    "mean_diagonal",
    "mu_grid",
    "search_mu",
]


FINER = 17
"""Values of mu between the neighbours of the best one, these two included."""
DETERMINED = 1e-10
"""A share of freedom below this is none: the effects have taken it all."""


@dataclass(frozen=True, eq=False)
class Criteria:
    """Criteria along a grid of mu.

    Attributes
    ----------
    residuals : ndarray of shape (k, m)
        Leave-one-out residuals; NaN for an entry that alone determines an effect.
    loo : ndarray of shape (k,)
        Their (weighted) mean square.
    gcv : ndarray of shape (k,)
        Generalised cross-validation, in the units of ``loo``.
    lml : ndarray of shape (k,)
        Log marginal likelihood, the variance of the signal at its best value.
    """

    residuals: Floats
    loo: Floats
    gcv: Floats
    lml: Floats


def criteria(reduced: Reduced, mus: Floats) -> Criteria:
    """All criteria for each mu.

    Notes
    -----
    GCV is m ||M y~||^2 / (tr M)^2 over the mean weight. The marginal likelihood is that of
    y ~ N(Z beta, v (Kbar + mu W^-1)) with v = y~^T M y~ / (m - r); with effects it is the
    restricted one, the density of what is orthogonal to them.
    """
    diagonal, applied = reduced.parts(mus)
    weights = reduced.root**2
    residuals = _loo_residuals(reduced, diagonal, applied)
    mean_weight = float(weights.mean())
    with np.errstate(divide="ignore", invalid="ignore"):
        gcv = len(weights) * (applied**2).sum(axis=1) / diagonal.sum(axis=1) ** 2 / mean_weight
    return Criteria(residuals, mean_square(residuals, weights), gcv, log_likelihood(reduced, mus))


def _loo_residuals(reduced: Reduced, diagonal: Floats, applied: Floats) -> Floats:
    usable = reduced.free > DETERMINED
    scale = np.where(usable, diagonal * reduced.root, np.nan)
    return np.asarray(applied / scale)


def mean_square(residuals: Floats, weights: Floats) -> Floats:
    """Weighted mean square of each row over the entries that have a residual; NaN if none has."""
    usable = ~np.isnan(residuals[0])
    if not usable.any():
        return np.full(len(residuals), np.nan)
    w = weights[usable]
    return np.asarray(residuals[:, usable] ** 2 @ w / w.sum())


def log_likelihood(reduced: Reduced, mus: Floats) -> Floats:
    """Log marginal likelihood for each mu, see :func:`criteria`."""
    energy, logdet = reduced.energy(mus)
    return likelihood(energy, logdet, reduced.freedom) + float(np.log(reduced.root).sum())


def likelihood(energy: Floats, logdet: Floats, freedom: int) -> Floats:
    """Log density at the best variance, energy / freedom."""
    if freedom == 0:
        return np.zeros_like(logdet)
    variance = np.maximum(energy, np.finfo(float).tiny) / freedom
    return np.asarray(-0.5 * (freedom * (np.log(2 * np.pi * variance) + 1) + logdet))


def leave_one_out(problem: RidgeProblem, mus: Floats) -> Floats:
    """Leave-one-out residuals y_i - f^(-i)(r_i, c_i), one row per value of mu.

    An entry that alone determines an effect has no leave-one-out residual: NaN.
    """
    reduced = DualForm.of(problem)
    return _loo_residuals(reduced, *reduced.parts(np.asarray(mus, dtype=float)))


def leave_one_out_by(factor: Factorised, sampled: Sampled) -> Floats:
    """Leave-one-out residuals for the mu of a dual system that is factorised already.

    With R^T R = A^-1 and Q an orthonormal basis of range(R Z~), M = R^T (I - Q Q^T) R.
    """
    effects = effects_basis(sampled)
    white = factor.whiten(np.eye(sampled.m))
    basis = np.linalg.qr(white @ effects)[0]
    inside = basis.T @ white
    target = white @ (sampled.root_weights * sampled.values)
    applied = white.T @ (target - basis @ (basis.T @ target))
    diagonal = np.einsum("ij,ij->j", white, white) - np.einsum("ij,ij->j", inside, inside)
    usable = np.einsum("ij,ij->i", effects, effects) < 1 - DETERMINED
    return np.asarray(applied / np.where(usable, diagonal * sampled.root_weights, np.nan))


def leave_group_out(problem: RidgeProblem, groups: NDArray[np.int_], mus: Floats) -> Floats:
    """Residuals of each group of entries when it is left out as a whole, one row per mu.

    Parameters
    ----------
    problem : RidgeProblem
        Its mu is not used.
    groups : ndarray of shape (m,)
        Group of each observation: ``sampled.rows`` for leave-row-out, ``sampled.cols`` for
        leave-column-out.
    mus : ndarray of shape (k,)
        Values of mu.

    Returns
    -------
    ndarray of shape (k, m)
        NaN if a group is all there is.

    Notes
    -----
    Leaving G out is fitting one free number delta_g per entry of G, so that
    M_GG delta = (M y~)_G. An effect that G alone determines leaves M_GG singular in its direction;
    the fit to the others then has no such effect, and what an entry of a cold row gets are the
    effects that are left, in their smallest form (:mod:`kronfill.ridge.effects`).
    """
    return group_residuals(DualForm.of(problem), problem.sampled, groups, mus)


def group_residuals(reduced: DualForm, s: Sampled, groups: NDArray[np.int_], mus: Floats) -> Floats:
    """:func:`leave_group_out` of a reduced problem."""
    values = np.asarray(mus, dtype=float)
    shifted = reduced.form.shifted(values)
    solved = shifted.solve(reduced.moments)  # (T + mu)^-1 B^T y~
    out = np.full((len(values), s.m), np.nan)
    order = np.argsort(groups, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(groups[order])) + 1):
        if len(members) < s.m:
            group = _Group.of(reduced, s, np.sort(members))
            for t in range(len(values)):
                out[t, group.members] = group.residuals(shifted, solved[:, t], t)
    return out


@dataclass(frozen=True, eq=False)
class _Group:
    """Entries that are left out together."""

    reduced: DualForm
    sampled: Sampled
    members: Index
    seen: Floats
    """Orthonormal directions of the group in which its residuals are determined."""

    @classmethod
    def of(cls, reduced: DualForm, sampled: Sampled, members: Index) -> _Group:
        taken = reduced.effects[members]
        lam, vec = np.linalg.eigh(np.eye(len(members)) - taken @ taken.T)
        return cls(reduced, sampled, members, vec[:, lam > DETERMINED])

    def residuals(self, shifted: Shifted, solved: Floats, at: int) -> Floats:
        """Residuals for the mu at position ``at``."""
        rows = self.reduced.basis[self.members]
        inner = self.seen.T @ rows
        block = inner @ shifted.solve_many(inner.T, at)  # M_GG in the determined directions
        delta = self.seen @ scipy.linalg.solve(block, inner @ solved, assume_a="pos")
        lost = self.seen.shape[1] < len(self.members)
        changed = self._effects_change(shifted, solved, delta, at) if lost else 0.0
        return np.asarray(delta / self.reduced.root[self.members] + changed)

    def _effects_change(self, shifted: Shifted, solved: Floats, delta: Floats, at: int) -> Floats:
        """Effects at G of the fit in which delta stands for the left-out values, less those left.

        With y' = y~ - I_G delta that fit has Z~ beta = Q_1 (Q_1^T y' - Q_1^T K M y').
        """
        r, s = self.reduced, self.sampled
        moved = solved - shifted.solve_many((r.basis[self.members].T @ delta)[:, None], at)[:, 0]
        target = r.root * s.values
        target[self.members] -= delta
        coef = r.effects.T @ target - r.coupling @ (r.form.turn @ moved)
        fitted = (r.effects @ coef) / r.root
        keep = np.ones(s.m, dtype=bool)
        keep[self.members] = False
        left = s.take(keep).effects
        if left is None:
            return np.zeros(len(self.members))
        smallest = left.fit(fitted[keep])
        return fitted[self.members] - smallest.at(s.rows[self.members], s.cols[self.members])


# Which exact form, if any.


def exact_form(problem: RidgeProblem, work: float) -> Reduced | None:
    """The cheaper exact form of the problem, or None if both need more than ``work``."""
    m = problem.sampled.m
    dual = 4.0 * m**3
    if m > SMALL_CRITERIA:
        factors = _thin_factors(problem, min(dual, work))
        if factors is not None:
            return PrimalForm.of(*factors, problem.sampled)
    return DualForm.of(problem) if dual <= work else None


def _thin_factors(problem: RidgeProblem, work: float) -> tuple[Floats, Floats] | None:
    """Factors of both kernels if the primal form needs less than ``work``, else None."""
    m = problem.sampled.m
    limit = 1
    while limit < m and primal_work(m, limit + 1) < work:
        limit = min(m, int(limit * 1.1) + 1)
    kernels = (problem.row_kernel, problem.col_kernel)
    if np.prod([kernel.n for kernel in kernels if kernel.split()[1]]) > limit:
        return None  # an identity part makes the rank full: no need to look for a factor
    row = problem.row_kernel.factor(rtol=FACTOR_RTOL, max_rank=limit + 1).phi
    if row.shape[1] > limit:
        return None
    col_limit = limit // max(1, row.shape[1])
    col = problem.col_kernel.factor(rtol=FACTOR_RTOL, max_rank=col_limit + 1).phi
    return None if col.shape[1] > col_limit else (row, col)


def primal_work(m: int, unknowns: int) -> float:
    """Multiplications of the primal form."""
    return 2.0 * m * unknowns**2 + 4.0 * float(unknowns) ** 3


# The choice that mu="auto" makes.


def mu_grid(scale: float, size: int = 40) -> Floats:
    """Values of mu worth trying, largest first: from 100 down to 1e-6 times ``scale``."""
    return scale * np.logspace(2, -6, size)


def mean_diagonal(problem: RidgeProblem) -> float:
    """Mean diagonal of Kbar, the natural unit of mu."""
    s = problem.sampled
    row, col = problem.row_kernel.diagonal(), problem.col_kernel.diagonal()
    mean = float(np.mean(row[s.rows] * col[s.cols]))
    return mean if mean > 0 else 1.0


def best_mu(problem: RidgeProblem) -> float:
    """The mu with the smallest leave-one-out error, or hold-out error where m is large."""
    return search_mu(problem).mu


def search_mu(problem: RidgeProblem) -> Search:
    """Look for the mu with the smallest leave-one-out error, or hold-out error where m is large.

    An exact criterion costs next to nothing for a further mu: a grid, then a finer one around the
    best of it.
    """
    scale = mean_diagonal(problem)
    reduced = exact_form(problem, CRITERIA_WORK)
    if reduced is None:
        return held_out_search(problem, scale)
    trials: list[Trial] = []
    mus = mu_grid(scale)
    for _ in range(2):
        residuals = _loo_residuals(reduced, *reduced.parts(mus))
        errors = mean_square(residuals, reduced.root**2)
        if np.isnan(errors).all():
            return Search(scale, (), "leave-one-out")
        trials += [Trial(*pair) for pair in zip(map(float, mus), map(float, errors), strict=True)]
        best = int(np.nanargmin(errors))
        mus = np.geomspace(mus[max(best - 1, 0)], mus[min(best + 1, len(mus) - 1)], FINER)[1:-1]
    return Search(min(trials, key=lambda one: one.error).mu, tuple(trials), "leave-one-out")

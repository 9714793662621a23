"""The dual system (Kbar + mu I) d = y while observations come and go, by Cholesky factorisation.

As in :mod:`kronfill.solvers.dense` the symmetric form is used, s = sqrt(w), and the effects follow
from Z~^T A^-1 Z~ with Z~ = diag(s) Z: the factor carries L^-1 [s o y, Z~] along, so that an
observation more or less costs m^2 multiplications where a fit costs m^3 / 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from kronfill._types import Floats, Index
from kronfill.online.growing import Extension, GrowingCholesky
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.factorised import CholeskyFactor, Factorised
from kronfill.ridge.problem import KernelLike, RidgeProblem, RidgeResult, Sampled
from kronfill.ridge.solution import Solution, Status
from kronfill.solvers.dense import TRUST, entry_kernel, probed_residual

__all__ = ["GrowingDual", "NewItem"]


PROBES = 64
"""Entries at which the residual is measured."""
FEWEST = 64
"""Up to this many observations at a time are added or removed one after the other; more, as well,
while they are less than a quarter of all."""


@dataclass(frozen=True, eq=False)
class NewItem:
    """A new row or column with some observations.

    Attributes
    ----------
    axis : int
        0 for a row, 1 for a column.
    cross : ndarray of shape (n,)
        Similarity with the items of its axis.
    own : float
        Similarity with itself.
    index, values, weights : ndarray of shape (k,)
        The items of the other axis at which it was observed, and the observations.
    """

    axis: int
    cross: Floats
    own: float
    index: Index
    values: Floats
    weights: Floats

    def joined(self, sampled: Sampled) -> Sampled:
        """The observations with the new ones at their end."""
        n, l = sampled.shape
        last = np.full(len(self.index), (n, l)[self.axis])
        pairs = (last, self.index) if self.axis == 0 else (self.index, last)
        weights = None
        if sampled.weights is not None or (self.weights != 1).any():
            weights = np.concatenate([sampled.root_weights**2, self.weights])
        return Sampled.of(
            np.concatenate([sampled.rows, pairs[0]]),
            np.concatenate([sampled.cols, pairs[1]]),
            np.concatenate([sampled.values, self.values]),
            (n + (self.axis == 0), l + (self.axis == 1)),
            weights,
            sampled.kind,
        )

    def predicted(self, sampled: Sampled, dual: Floats, other: KernelLike) -> Floats:
        """f at all entries of the new item: sum_k d_k k(new, r_k) K(., c_k)."""
        m = sampled.m
        along, across = (sampled.rows, sampled.cols)[:: 1 if self.axis == 0 else -1]
        shares = np.zeros(other.n)
        shares += np.bincount(across, dual[:m] * self.cross[along], minlength=other.n)
        shares += np.bincount(self.index, self.own * dual[m:], minlength=other.n)
        return other.apply(shares)

    def total(self, fitted: Floats, effects: AdditiveEffects | None) -> Floats:
        """Prediction for the item from f and the effects, of which its own is the last one."""
        if effects is None:
            return fitted
        if self.axis == 0:
            return np.asarray(fitted + effects.mean + effects.row[-1] + effects.col)
        return np.asarray(fitted + effects.mean + effects.col[-1] + effects.row)


class GrowingDual:
    """A factorisation of diag(s) Kbar diag(s) + mu I for the observations of the moment."""

    def __init__(self, problem: RidgeProblem, factor: GrowingCholesky) -> None:
        self._kernels = (problem.row_kernel, problem.col_kernel)
        self._mu = problem.mu
        self._factor = factor
        self.kind = problem.sampled.kind

    @classmethod
    def of(cls, problem: RidgeProblem, factor: Factorised | None = None) -> GrowingDual | None:
        """From the factor of a fit, or of a new one; None where rounding does not let it."""
        factor = factor or CholeskyFactor.of(entry_kernel(problem), problem.mu, overwrite=True)
        if not isinstance(factor, CholeskyFactor):
            return None
        return cls(problem, GrowingCholesky(factor.triangle, _targets(problem.sampled)))

    def append(self, sampled: Sampled) -> bool:
        """Take in those of ``sampled`` that are new, at its end; False where that is not worth it.

        Or where rounding does not let it: a new factorisation is needed then.
        """
        old, new = np.arange(self._factor.m), np.arange(self._factor.m, sampled.m)
        if _many(len(new), len(old)):
            return False
        corner = self._block(sampled, new, new)
        corner[np.diag_indices_from(corner)] += self._mu
        border = self._block(sampled, new, old)
        added = self._factor.extension(border, corner, _targets(sampled)[new])
        if added is None:
            return False
        self._factor.append(added)
        return True

    def remove(self, positions: Index) -> bool:
        """Take out observations by position; False where that is not worth it."""
        if _many(len(positions), self._factor.m):
            return False
        for position in np.sort(positions)[::-1]:
            self._factor.delete(int(position))
        return True

    def revise(self, sampled: Sampled) -> bool:
        """Take over other values for the same entries."""
        self._factor.replace(0, sampled.root_weights * sampled.values)
        return True

    def result(self, sampled: Sampled) -> RidgeResult | None:
        """Solution for the observations of the moment; None where it cannot be trusted."""
        solved, normal = self._factor.solved, self._factor.normal
        effects, rest = None, solved[:, 0]
        if sampled.effects is not None:
            effects = sampled.effects.solve_normal(normal[1:, 1:], normal[1:, 0])
            rest = rest - solved[:, 1:] @ _coefficients(effects, sampled.effects.kind)
        z = self._factor.adjoint(rest)
        residual = probed_residual(
            sampled,
            z,
            effects,
            self._mu,
            lambda z, some: self._block(sampled, some, np.arange(sampled.m)) @ z,
            PROBES,
        )
        if not residual <= TRUST:
            return None
        reason = "the factorisation was carried along"
        solution = Solution(Status.EXACT, "Cholesky", reason, residual=residual)
        return RidgeResult(sampled.root_weights * z, effects, solution)

    def with_item(self, sampled: Sampled, item: NewItem) -> Floats | None:
        """Prediction for a new item, from the bordered system; None where rounding spoils it."""
        root, other = np.sqrt(item.weights), self._kernels[1 - item.axis]
        along, across = (sampled.rows, sampled.cols)[:: 1 if item.axis == 0 else -1]
        corner = item.own * other.block(item.index, item.index) * np.outer(root, root)
        corner[np.diag_indices_from(corner)] += self._mu
        seen, at = np.unique(across, return_inverse=True)
        border = other.block(item.index, seen)[:, at] * np.outer(
            root, sampled.root_weights * item.cross[along]
        )
        kind = self.kind
        own_effect = kind == "both" or (kind, item.axis) in (("rows", 0), ("cols", 1))
        targets = np.zeros((len(root), self._factor.solved.shape[1]))
        targets[:, 0] = root * item.values
        if kind is not None:
            targets[:, 1] = root
        if kind == "both" or (kind, item.axis) in (("rows", 1), ("cols", 0)):
            first = 2 + (sampled.shape[0] if (kind, item.axis) == ("both", 0) else 0)
            targets[np.arange(len(root)), first + item.index] = root
        added = self._factor.extension(border, corner, targets)
        if added is None:
            return None
        dual, effects = self._extended(sampled, item, added, own_effect)
        return item.total(item.predicted(sampled, dual, other), effects)

    def _extended(
        self, sampled: Sampled, item: NewItem, added: Extension, own_effect: bool
    ) -> tuple[Floats, AdditiveEffects | None]:
        """Dual vector and effects of the bordered system."""
        solved = np.vstack([self._factor.solved, added.solved])
        root = np.concatenate([sampled.root_weights, np.sqrt(item.weights)])
        if self.kind is None:
            return root * self._factor.adjoint(solved[:, 0], added), None
        design = item.joined(sampled).effects
        assert design is not None  # there are effects
        z = solved[:, 1:]
        if own_effect:  # one column more, after those of the item's axis
            own = np.zeros(len(root))
            own[self._factor.m :] = scipy.linalg.solve_triangular(
                added.corner, np.sqrt(item.weights), lower=True, check_finite=False
            )
            end = 1 + sampled.shape[0] if item.axis == 0 else z.shape[1]
            z = np.insert(z, end, own, axis=1)
        effects = design.solve_normal(z.T @ z, z.T @ solved[:, 0])
        rest = solved[:, 0] - z @ _coefficients(effects, self.kind)
        return root * self._factor.adjoint(rest, added), effects

    def _block(self, s: Sampled, some: Index, others: Index) -> Floats:
        """diag(s) Kbar diag(s) between two sets of observations."""
        out = np.outer(s.root_weights[some], s.root_weights[others])
        for kernel, items in zip(self._kernels, (s.rows, s.cols), strict=True):
            left, at = np.unique(items[some], return_inverse=True)
            right, at_right = np.unique(items[others], return_inverse=True)
            out *= kernel.block(left, right)[np.ix_(at, at_right)]
        return out


def _many(changed: int, all_of_them: int) -> bool:
    return changed > max(FEWEST, all_of_them // 4)


def _targets(s: Sampled) -> Floats:
    """[s o y, diag(s) Z]."""
    y = s.values[:, None]
    whole = y if s.effects is None else np.hstack([y, s.effects.matrix().toarray()])
    return np.asarray(s.root_weights[:, None] * whole)


def _coefficients(effects: AdditiveEffects, kind: str) -> Floats:
    """The effects as coefficients of the columns of Z."""
    parts = [np.array([effects.mean])]
    parts += [effects.row] if kind in ("rows", "both") else []
    parts += [effects.col] if kind in ("cols", "both") else []
    return np.concatenate(parts)

"""One ridge problem for many values of mu: kernels factored once, systems made once where they can.

An identity part of a kernel is taken off, K = Phi Phi^T + e I, so that the unknowns are no more
than the factors have. Where both kernels have one and observations have weights, the weights change
with mu (:mod:`kronfill.ridge.identity_system`), and each mu has its own system.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kronfill._types import Floats, Index
from kronfill.core.operator import pair_products
from kronfill.ridge.factor_system import FactorSystem
from kronfill.ridge.identity_system import FactorPlusIdentity, IdentitySystem
from kronfill.ridge.problem import RidgeProblem, Sampled

__all__ = ["ProblemAlongMu"]


@dataclass(frozen=True, eq=False)
class ProblemAlongMu:
    """Two factored kernels, their identity parts, and the observed entries."""

    row: FactorPlusIdentity
    col: FactorPlusIdentity
    sampled: Sampled

    @classmethod
    def of(cls, problem: RidgeProblem) -> ProblemAlongMu:
        """Factor both kernels; the mu of the problem is not used."""
        return cls(
            FactorPlusIdentity.of(problem.row_kernel),
            FactorPlusIdentity.of(problem.col_kernel),
            problem.sampled,
        )

    @property
    def entry_identity(self) -> float:
        """e_w e_h, which belongs to mu."""
        return self.row.identity * self.col.identity

    @property
    def has_identity(self) -> bool:
        """Whether a kernel has an identity part."""
        return self.row.identity > 0 or self.col.identity > 0

    @property
    def unknowns(self) -> int:
        """Number of unknowns of a system."""
        n, l = self.sampled.shape
        a, b = self.row.rank, self.col.rank
        return a * b + (n * b + a * l if self.has_identity else 0)

    @cached_property
    def _axes(self) -> Any:
        """Bases of both axes, where they do not depend on mu."""
        return IdentitySystem.of(self.row, self.col, self.sampled, 1.0).axes

    def systems(self, values: Floats) -> Callable[[float], FactorSystem | IdentitySystem]:
        """From mu to its system, if these values had been observed: (m,) or (m, targets)."""
        sampled = replace(self.sampled, values=values)
        if not self.has_identity:
            plain = FactorSystem.of(self.row.factor.phi, self.col.factor.phi, sampled)
            return lambda mu: plain
        if sampled.weights is None or self.entry_identity == 0:
            fixed = IdentitySystem(self._axes, sampled, sampled.weights)
            return lambda mu: fixed
        return lambda mu: IdentitySystem.of(self.row, self.col, sampled, mu)

    def elsewhere(self, dual: Floats, rows: Index, cols: Index) -> Floats:
        """sum_k d_k K_w[i, r_k] K_h[j, c_k] less e_w e_h d at an observed entry."""
        p, q = self.row.factor.phi, self.col.factor.phi
        table = self.sampled.sparse(dual)
        by_row = table @ q
        out = pair_products(p @ (p.T @ by_row) + self.row.identity * by_row, q, rows, cols)
        if self.col.identity:
            out += self.col.identity * pair_products(p, table.T @ p, rows, cols)
        return out

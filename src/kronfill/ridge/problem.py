"""The one problem behind every method, and what its solution looks like.

    minimise over f and beta   sum_k w_k (y_k - (Z beta)_k - f(r_k, c_k))^2 + mu ||f||^2

with f in the reproducing kernel Hilbert space of K_h (x) K_w (eqs. 4 to 6 of the paper) and
unpenalised additive effects ``Z beta``. By the representer theorem f = sum_k d_k K_w[., r_k]
K_h[., c_k], and at the optimum

    mu d_k = w_k (y_k - (Z beta)_k - f(r_k, c_k)),     Z^T d = 0.

KKMCEX is this problem; RRMCEX is it with truncated kernels; each half-step of KMC and IMC is it
with one kernel replaced by H H^T.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from kronfill._types import Flags, Floats, Index
from kronfill.core.grouping import Grouped, totals
from kronfill.core.limits import FACTOR_RTOL, SUMMED_FLOATS
from kronfill.ridge.effects import AdditiveEffects, Center, EffectsDesign
from kronfill.ridge.factorised import SolvedSystem
from kronfill.ridge.solution import Solution

__all__ = [
    "CoreResult",
    "FactorLike",
    "FactorPlusIdentityLike",
    "KernelLike",
    "Mask",
    "Primal",
    "RidgeProblem",
    "RidgeResult",
    "RidgeSolver",
    "Sampled",
    "targets",
]


class FactorLike(Protocol):
    """A factor Phi with K = Phi Phi^T."""

    @property
    def phi(self) -> Floats:
        """The factor, items x rank."""


class FactorPlusIdentityLike(Protocol):
    """K = factor.phi factor.phi^T + identity I."""

    @property
    def factor(self) -> FactorLike:
        """The factor."""

    @property
    def identity(self) -> float:
        """Multiple of the identity."""


class KernelLike(Protocol):
    """What the solvers ask of a kernel."""

    @property
    def n(self) -> int:
        """Number of items."""

    def diagonal(self) -> Floats:
        """Diagonal of K."""

    def block(self, rows: Index | None = None, cols: Index | None = None) -> Floats:
        """K[rows, cols]."""

    def factor(self, rtol: float = FACTOR_RTOL, max_rank: int | None = None) -> FactorLike:
        """Low-rank factor."""

    @property
    def by_products(self) -> bool:
        """Whether products with vectors are cheap and single entries are not."""

    def apply(self, V: Floats) -> Floats:
        """K V."""

    def take(self, items: Index) -> KernelLike:
        """The kernel of some items."""

    @property
    def known_rank(self) -> int | None:
        """Bound of the rank, where it is known without any work."""

    def split(self) -> tuple[KernelLike | None, float]:
        """K = (a kernel, None for nothing) + (a number) times the identity."""


@dataclass(frozen=True, eq=False)
class Mask:
    """Which entries are observed, with what weight; groupings are made once, on first use."""

    rows: Index
    cols: Index
    shape: tuple[int, int]
    weights: Floats | None = None

    @cached_property
    def by_rows(self) -> Grouped:
        """The observations grouped by row."""
        return Grouped.by(self.rows, self.cols, self.shape[0], self.weights)

    @cached_property
    def by_cols(self) -> Grouped:
        """The observations grouped by column."""
        return Grouped.by(self.cols, self.rows, self.shape[1], self.weights)

    @cached_property
    def counts(self) -> tuple[Floats, Floats]:
        """Total weight of each row and of each column."""
        return (
            totals(self.rows, self.weights, self.shape[0]),
            totals(self.cols, self.weights, self.shape[1]),
        )

    def observed(self) -> tuple[tuple[Index, Index], tuple[Index, Index]]:
        """Rows that have an observation and the place of each observation among them; columns."""
        rows, at_r = np.unique(self.rows, return_inverse=True)
        cols, at_c = np.unique(self.cols, return_inverse=True)
        return (rows, at_r), (cols, at_c)

    @cached_property
    def transposed(self) -> Mask:
        """Rows and columns exchanged, sharing the groupings."""
        return _Transposed(self)

    def reweighted(self, weights: Floats) -> Mask:
        """The same entries with other weights, sharing the groupings that were made."""
        twin = Mask(self.rows, self.cols, self.shape, weights)
        for name in ("by_rows", "by_cols"):
            made: Grouped | None = vars(self).get(name)
            if made is not None:
                vars(twin)[name] = replace(made, weights=weights[made.order])
        return twin


class _Transposed(Mask):
    def __init__(self, mask: Mask) -> None:
        super().__init__(mask.cols, mask.rows, mask.shape[::-1], mask.weights)
        self.__dict__["_mask"] = mask

    by_rows = property(lambda self: self.__dict__["_mask"].by_cols)
    by_cols = property(lambda self: self.__dict__["_mask"].by_rows)
    transposed = property(lambda self: self.__dict__["_mask"])


@dataclass(frozen=True, eq=False)
class Sampled:
    """Observed entries with their values, and the design of the effects."""

    mask: Mask
    values: Floats
    effects: EffectsDesign | None = None

    @classmethod
    def of(
        cls,
        rows: Index,
        cols: Index,
        values: Floats,
        shape: tuple[int, int],
        weights: Floats | None = None,
        kind: Center | None = None,
    ) -> Sampled:
        """Observations with effects of this kind."""
        design = None if kind is None else EffectsDesign(rows, cols, shape, kind, weights)
        return cls(Mask(rows, cols, shape, weights), values, design)

    def take(self, keep: Flags) -> Sampled:
        """Some of the observations, with effects of the same kind."""
        weights = None if self.weights is None else self.weights[keep]
        rows, cols, values = self.rows[keep], self.cols[keep], self.values[keep]
        return Sampled.of(rows, cols, values, self.shape, weights, self.kind)

    def reweighted(self, weights: Floats | None) -> Sampled:
        """The same observations with other weights."""
        if weights is self.weights:
            return self
        return Sampled.of(self.rows, self.cols, self.values, self.shape, weights, self.kind)

    @property
    def kind(self) -> Center | None:
        """Which effects there are."""
        return None if self.effects is None else self.effects.kind

    @property
    def rows(self) -> Index:
        """Row of each observation."""
        return self.mask.rows

    @property
    def cols(self) -> Index:
        """Column of each observation."""
        return self.mask.cols

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the matrix."""
        return self.mask.shape

    @property
    def weights(self) -> Floats | None:
        """Weight of each observation."""
        return self.mask.weights

    @property
    def m(self) -> int:
        """Number of observed entries."""
        return len(self.values)

    @property
    def is_complete(self) -> bool:
        """Whether every entry is observed, all with the same weight."""
        return self.m == self.shape[0] * self.shape[1] and self.weights is None

    @property
    def weights_or_ones(self) -> Floats:
        """Weight of each observation, 1 where none were given."""
        return np.ones(self.m) if self.weights is None else self.weights

    @property
    def root_weights(self) -> Floats:
        """Square roots of the weights."""
        return np.ones(self.m) if self.weights is None else np.sqrt(self.weights)

    def sparse(self, values: Floats) -> sp.csr_array:
        """N x L sparse matrix with ``values`` at the observed entries."""
        return sp.csr_array((values, (self.rows, self.cols)), shape=self.shape)


@dataclass(frozen=True, eq=False)
class RidgeProblem:
    """Kernels, observed entries and mu."""

    row_kernel: KernelLike
    col_kernel: KernelLike
    sampled: Sampled
    mu: float
    made: dict[type, Any] = field(default_factory=dict, init=False, repr=False)
    """What is made once of kernels and mask, for whatever mu, by its class."""

    def with_mu(self, mu: float) -> RidgeProblem:
        """The same with another mu, sharing what was made."""
        twin = replace(self, mu=mu)
        vars(twin)["made"] = self.made
        return twin


@dataclass(frozen=True, eq=False)
class Primal:
    """f in factor space: ``row.phi[i] @ core @ col.phi[j]``."""

    row: FactorLike
    core: Floats
    col: FactorLike


@dataclass(frozen=True, eq=False)
class CoreResult:
    """Solution in factor space for factors that the caller holds: X, d, effects, record."""

    core: Floats
    dual: Floats
    effects: AdditiveEffects | None
    solution: Solution
    system: SolvedSystem | None = None

    def over(self, row: FactorLike, col: FactorLike) -> RidgeResult:
        """Join the factors to the result."""
        primal = Primal(row, self.core, col)
        return RidgeResult(self.dual, self.effects, self.solution, primal, system=self.system)


@dataclass(frozen=True, eq=False)
class RidgeResult:
    """Solution of a :class:`RidgeProblem`.

    Attributes
    ----------
    dual : ndarray of shape (m,)
        d of equation (5), in the order of the observations.
    effects : AdditiveEffects or None
        The additive part.
    solution : Solution
        How the solve went.
    primal : Primal or None
        The same function in factor space, where the solver worked there.
    with_identity : pair or None
        Factors and identity parts of the kernels, where one of them has an identity part and the
        solver has taken it off.
    system : SolvedSystem or None
        The system as a direct solver has factorised it, if that is small enough to be kept.
    """

    dual: Floats
    effects: AdditiveEffects | None
    solution: Solution
    primal: Primal | None = None
    with_identity: tuple[FactorPlusIdentityLike, FactorPlusIdentityLike] | None = None
    system: SolvedSystem | None = None


class RidgeSolver(ABC):
    """A way to solve a :class:`RidgeProblem`; immutable, its settings are its fields."""

    def solve(self, problem: RidgeProblem) -> RidgeResult:
        """Solve a problem of one target."""
        return self.solve_targets(problem)[0]

    @abstractmethod
    def solve_targets(self, problem: RidgeProblem) -> list[RidgeResult]:
        """Solve for each column of values of shape (m, t), or for the one target."""

    def quiet(self) -> RidgeSolver:
        """The same solver, for a solve of which nobody is told."""
        return self


def targets(problem: RidgeProblem) -> list[RidgeProblem]:
    """One problem for each column of values."""
    s = problem.sampled
    if s.values.ndim == 1:
        return [problem]
    columns = np.ascontiguousarray(s.values.T)
    return [replace(problem, sampled=replace(s, values=y)) for y in columns]


def dual_residual(problem: RidgeProblem, dual: Floats, fitted: Floats | None = None) -> float:
    """Measured ``||Kbar d + mu W^-1 d + Z beta - y|| / ||y||`` (weighted), for the best beta.

    ``fitted`` is Kbar d where there is a faster way to it.
    """
    s = problem.sampled
    weights = 1.0 if s.weights is None else s.weights
    fitted = fitted_at(problem, dual) if fitted is None else fitted
    gap = s.values - fitted - problem.mu * dual / weights
    if s.effects is not None:
        gap = s.effects.remove(gap)
    norm, size = (float(np.linalg.norm(s.root_weights * v)) for v in (gap, s.values))
    return norm / size if size > 0 else norm


def fitted_at(
    problem: RidgeProblem,
    dual: Floats,
    rows: Index | None = None,
    cols: Index | None = None,
    chunk: int = SUMMED_FLOATS,
) -> Floats:
    """f at index pairs, by default at the observed entries (``Kbar d``), without a large kernel.

    Costs m (number of distinct rows asked for): F[R, C] = K_w[R, :] D K_h[:, C], gathered at the
    entries.
    """
    s = problem.sampled
    (items_r, at_r), (items_c, at_c) = s.mask.observed()
    d = sp.csr_array((dual, (at_r, at_c)), shape=(len(items_r), len(items_c)))
    if rows is None or cols is None:
        rows, cols = s.rows, s.cols
    asked_r, from_r = np.unique(rows, return_inverse=True)
    asked_c, from_c = np.unique(cols, return_inverse=True)
    left = problem.row_kernel.block(asked_r, items_r) @ d  # R x C
    right = problem.col_kernel.block(asked_c, items_c)
    out = np.empty(len(rows))
    step = max(1, chunk // max(1, len(items_c)))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        out[part] = np.einsum("ij,ij->i", left[from_r[part]], right[from_c[part]])
    return out

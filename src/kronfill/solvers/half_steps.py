"""The half-steps: exact ridge regressions for one factor with the other one fixed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_HALF_STEP, FACTOR_RTOL
from kronfill.core.loops.rowwise_ridge import ridge_rows
from kronfill.core.operator import pair_products
from kronfill.ridge.effects import AdditiveEffects, EffectsDesign
from kronfill.ridge.problem import FactorLike, Mask, RidgeProblem, Sampled
from kronfill.solvers.alternating import Alternation, State
from kronfill.solvers.dense import Cholesky
from kronfill.solvers.pcg import PCG, FactorSystem, Rotated
from kronfill.solvers.primal import solve_primal

__all__ = ["FactorAlternation", "FactorKernel", "RowAlternation"]


HALF_STEP = PCG(tol=1e-8, max_iter=300)


@dataclass(frozen=True, eq=False)
class RowAlternation(Alternation):
    """Base MC, equation (1): rows decouple into systems of the size of the rank."""

    sampled: Sampled
    mu: float

    def begin(self, values: Floats, effects: AdditiveEffects | None) -> State:
        """See :class:`~kronfill.solvers.alternating.Alternation`."""
        s = self.sampled
        y = s.values if effects is None else s.values - effects.at(s.rows, s.cols)
        by_rows, by_cols = s.mask.by_rows, s.mask.by_cols
        w = ridge_rows(values, by_rows, y[by_rows.order], self.mu)
        h = ridge_rows(w, by_cols, y[by_cols.order], self.mu)
        rest = s.values - pair_products(w, h, s.rows, s.cols)
        return _finish(s, self.mu, w, h, rest)

    def sweep(self, state: State, h: Floats) -> State:
        """See :class:`~kronfill.solvers.alternating.Alternation`."""
        return self.begin(h, state.effects)


def _finish(s: Sampled, mu: float, w: Floats, h: Floats, rest: Floats) -> State:
    """Refit the effects to what W and H leave, ``rest``, and take the objective."""
    effects = None
    if s.effects is not None:
        effects = s.effects.fit(rest)
        rest = rest - effects.at(s.rows, s.cols)
    w, h = _balanced(w, h)
    return State(w, h, effects, _objective(rest, s.weights, mu, w, h))


def _balanced(w: Floats, h: Floats) -> tuple[Floats, Floats]:
    """Factors with the same product and W^T W = H^T H, which makes the penalty smallest.

    W M and H M^-1 with M symmetric positive: with W = Q R and X = R_w R_h^T = U diag(s) V^T it is
    M^2 = R_w^-1 U diag(s) U^T R_w^-T. Alternation would get there too, but slowly when mu is small;
    M tends to the identity, so that extrapolation along the last step stays meaningful. It acts on
    the directions t in which neither factor vanishes and is the identity on the others.
    """
    t = _present(w.T @ w)
    t = t @ _present(t.T @ (h.T @ h) @ t)
    if t.shape[1] == 0:
        return w, h
    r_w, r_h = (np.asarray(np.linalg.qr(factor @ t, mode="r")) for factor in (w, h))
    if len(r_w) < t.shape[1] or len(r_h) < t.shape[1]:
        return w, h
    u, s, _ = np.linalg.svd(r_w @ r_h.T)
    # M^2 = B B^T with B = R_w^-1 U sqrt(s) = A diag(g) C^T, hence M = A diag(g) A^T.
    axes, g, _ = np.linalg.svd(scipy.linalg.solve_triangular(r_w, u * np.sqrt(s)))
    if g[-1] <= 1e-12 * g[0]:
        return w, h
    axes = t @ axes
    return w + (w @ axes * (g - 1)) @ axes.T, h + (h @ axes * (1 / g - 1)) @ axes.T


def _present(gram: Floats) -> Floats:
    """Eigenvectors of a Gram matrix whose eigenvalues stand above rounding."""
    lam, vec = np.linalg.eigh(gram)
    top = float(lam.max(initial=np.finfo(float).tiny))
    return np.asarray(vec[:, lam > 1e-14 * top])


def _objective(rest: Floats, weights: Floats | None, mu: float, w: Floats, h: Floats) -> float:
    loss = rest @ rest if weights is None else (weights * rest) @ rest
    return float(loss + mu * (np.vdot(w, w) + np.vdot(h, h)))


@dataclass(frozen=True, eq=False)
class FactorAlternation(Alternation):
    """KMC and IMC in factor space, equation (2): W = P A_w, H = Q A_h.

    With H fixed, A_w solves the ridge problem of KKMCEX whose column kernel is H H^T. It is solved
    through the observed entries (m unknowns), or in factor space (a p unknowns) when that is
    smaller; by conjugate gradients from the present A_w when both are large.
    """

    p: Floats
    q: Floats
    sampled: Sampled
    mu: float

    def begin(self, values: Floats, effects: AdditiveEffects | None) -> State:
        """See :class:`~kronfill.solvers.alternating.Alternation`."""
        return self._sweep(values, (None, None), effects)

    def sweep(self, state: State, h: Floats) -> State:
        """See :class:`~kronfill.solvers.alternating.Alternation`."""
        return self._sweep(self.q @ h, (state.w, h), state.effects)

    def _sweep(
        self,
        values: Floats,
        near: tuple[Floats | None, Floats | None],
        effects: AdditiveEffects | None,
    ) -> State:
        s = self.sampled
        y = s.values if effects is None else s.values - effects.at(s.rows, s.cols)
        w = self._rows.solve(values, y, self.mu, near[0])
        factor = self.p @ w
        h = self._cols.solve(factor, y, self.mu, near[1])
        rest = s.values - pair_products(factor, self.q @ h, s.rows, s.cols)
        return _finish(s, self.mu, w, h, rest)

    @cached_property
    def _rows(self) -> _Side:
        return _Side(self.p, self.sampled.mask, self._mean(self.sampled.mask))

    @cached_property
    def _cols(self) -> _Side:
        mask = self.sampled.mask.transposed
        return _Side(self.q, mask, self._mean(mask))

    def _mean(self, mask: Mask) -> EffectsDesign | None:
        design = self.sampled.effects
        if design is None or design.kind != "mean":
            return None
        return EffectsDesign(mask.rows, mask.cols, mask.shape, "mean", mask.weights)


@dataclass(frozen=True, eq=False)
class FactorKernel:
    """A kernel for the solvers, given by a factor."""

    phi: Floats

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.phi)

    def diagonal(self) -> Floats:
        """Diagonal of K."""
        return np.asarray(np.einsum("ij,ij->i", self.phi, self.phi))

    def block(self, rows: Index | None = None, cols: Index | None = None) -> Floats:
        """K[rows, cols]."""
        left, right = (self.phi if at is None else self.phi[at] for at in (rows, cols))
        return np.asarray(left @ right.T)

    def factor(self, rtol: float = FACTOR_RTOL, max_rank: int | None = None) -> FactorLike:
        """The factor itself."""
        return self

    @property
    def by_products(self) -> bool:
        """Entries are as cheap as products."""
        return False

    def apply(self, V: Floats) -> Floats:
        """K V."""
        return np.asarray(self.phi @ (self.phi.T @ V))

    def take(self, items: Index) -> FactorKernel:
        """The kernel of some items."""
        return FactorKernel(self.phi[items])

    @property
    def known_rank(self) -> int | None:
        """Columns of the factor."""
        return int(self.phi.shape[1])

    def split(self) -> tuple[FactorKernel | None, float]:
        """No identity part is known of."""
        return self, 0.0


@dataclass(frozen=True, eq=False)
class _KeptFactorKernel(FactorKernel):
    """The same for half-steps, which ask for the block of the observed items again and again."""

    items: Index

    def block(self, rows: Index | None = None, cols: Index | None = None) -> Floats:
        """K[rows, cols]."""
        observed = rows is not None and rows is cols and np.array_equal(rows, self.items)
        return self._observed if observed else super().block(rows, cols)

    @cached_property
    def _observed(self) -> Floats:
        return super().block(self.items, self.items)


@dataclass(frozen=True, eq=False)
class _Side:
    """Half-steps for the coefficients of one axis, ``phi`` being its factor."""

    phi: Floats
    mask: Mask
    mean: EffectsDesign | None
    """A free mean is solved for along with the coefficients; other effects take turns."""

    def solve(self, other: Floats, y: Floats, mu: float, near: Floats | None) -> Floats:
        """Coefficients given the other factor; ``near`` is a guess for the iterative solver."""
        unknowns = self.phi.shape[1] * other.shape[1]
        sampled = Sampled(self.mask, y, self.mean)
        if min(len(y), unknowns) > DENSE_HALF_STEP:
            turned = Rotated.of(other, self.mask.counts[1])
            system = FactorSystem(self._rotated, turned, sampled)
            return HALF_STEP.solve_system(system, mu, near).core
        if unknowns <= len(y):
            return solve_primal(self.phi, other, sampled, mu).core
        # a = (K_w[r, r] o (H H^T)[c, c] + mu I)^-1 y, W = K_w[:, r] diag(a) H[c]
        dual = Cholesky().solve(RidgeProblem(self._kernel, FactorKernel(other), sampled, mu)).dual
        return np.asarray(self.phi.T @ (sampled.sparse(dual) @ other))

    @cached_property
    def _kernel(self) -> FactorKernel:
        return _KeptFactorKernel(self.phi, np.unique(self.mask.rows))

    @cached_property
    def _rotated(self) -> Rotated:
        return Rotated.of(self.phi, self.mask.counts[0])

"""The half-steps: exact ridge regressions for one factor with the other one fixed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_HALF_STEP, FACTOR_RTOL
from kronfill.core.loops.rowwise_ridge import ridge_rows
from kronfill.core.operator import gram_products, pair_products, row_grams
from kronfill.core.products import matmul, transposed_matmul
from kronfill.ridge.effects import AdditiveEffects, EffectsDesign
from kronfill.ridge.problem import FactorLike, Mask, RidgeProblem, Sampled
from kronfill.solvers.alternating import Alternation, State
from kronfill.solvers.dense import Cholesky
from kronfill.solvers.pcg import PCG, FactorSystem, Rotated
from kronfill.solvers.primal import solve_primal

__all__ = ["FactorAlternation", "FactorKernel", "FactorPair", "RowAlternation"]


HALF_STEP = PCG(tol=1e-8, max_iter=300)
FIRST_STEPS, ROUGH_STEPS = 20, 6
"""Iterations of a rough half-step, which goes on from the present coefficients, and the next one
from it; the first one has nothing to go on from."""
EXACT_STEPS, EXACT = 300, 1e-8
"""Most iterations of an exact one, and the share of the gradient at zero that it may leave."""
GRAM_FLOATS = 1 << 26
"""Most floats of the Gram matrices of all items."""
ROUGH_FROM = 300
"""Up to this many unknowns a dense factorisation is no slower than a few rough steps."""


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

    def sweep(self, state: State, h: Floats, rough: bool = False) -> State:
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

    factors: FactorPair
    sampled: Sampled
    mu: float

    def begin(self, values: Floats, effects: AdditiveEffects | None) -> State:
        """See :class:`~kronfill.solvers.alternating.Alternation`."""
        return self._sweep(values, (None, None), effects, rough=self.may_be_rough(values.shape[1]))

    def sweep(self, state: State, h: Floats, rough: bool = False) -> State:
        """See :class:`~kronfill.solvers.alternating.Alternation`."""
        return self._sweep(self.factors.q @ h, (state.w, h), state.effects, rough=rough)

    def may_be_rough(self, rank: int) -> bool:
        """See :class:`~kronfill.solvers.alternating.Alternation`."""
        widest = max(self.factors.p.shape[1], self.factors.q.shape[1])
        return bool(min(self.sampled.m, rank * widest) > ROUGH_FROM)

    def _sweep(
        self,
        values: Floats,
        near: tuple[Floats | None, Floats | None],
        effects: AdditiveEffects | None,
        *,
        rough: bool,
    ) -> State:
        s, (p, q) = self.sampled, (self.factors.p, self.factors.q)
        y = s.values if effects is None else s.values - effects.at(s.rows, s.cols)
        w = self._rows.solve(values, y, self.mu, near[0], rough)
        factor = p @ w
        h = self._cols.solve(factor, y, self.mu, near[1], rough)
        rest = s.values - pair_products(factor, q @ h, s.rows, s.cols)
        return _finish(s, self.mu, w, h, rest)

    @cached_property
    def _rows(self) -> _Side:
        mask = self.sampled.mask
        return _Side(self.factors, 0, mask, self._mean(mask))

    @cached_property
    def _cols(self) -> _Side:
        mask = self.sampled.mask.transposed
        return _Side(self.factors, 1, mask, self._mean(mask))

    def _mean(self, mask: Mask) -> EffectsDesign | None:
        design = self.sampled.effects
        if design is None or design.kind != "mean":
            return None
        return EffectsDesign(mask.rows, mask.cols, mask.shape, "mean", mask.weights)


@dataclass(frozen=True, eq=False)
class FactorPair:
    """P and Q, and what is made of them once: for every mu, and every part of the observations.

    Attributes
    ----------
    p, q : ndarray of shape (N, a) and (L, b)
        The factors of rows and columns.
    mask : Mask
        All observations.
    """

    p: Floats
    q: Floats
    mask: Mask

    @cached_property
    def rotated(self) -> tuple[Rotated, Rotated]:
        """Both in the basis that suits the mask."""
        return Rotated.of(self.p, self.mask.counts[0]), Rotated.of(self.q, self.mask.counts[1])

    @cached_property
    def single(self) -> tuple[tuple[Floats, Floats], ...]:
        """Both rotated factors with their rotations, in single precision."""
        return tuple(
            (one.phi.astype(np.float32, order="C"), one.turn.astype(np.float32, order="C"))
            for one in self.rotated
        )


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
    """Half-steps for the coefficients of one axis: 0 for rows, 1 for columns."""

    factors: FactorPair
    axis: int
    mask: Mask
    mean: EffectsDesign | None
    """A free mean is solved for along with the coefficients; other effects take turns."""

    @property
    def phi(self) -> Floats:
        """The factor."""
        return self.factors.q if self.axis else self.factors.p

    def solve(
        self, other: Floats, y: Floats, mu: float, near: Floats | None, rough: bool
    ) -> Floats:
        """Coefficients given the other factor; ``near`` is a guess for the iterative solver."""
        unknowns = self.phi.shape[1] * other.shape[1]
        sampled = Sampled(self.mask, y, self.mean)
        if min(len(y), unknowns) > (ROUGH_FROM if rough else DENSE_HALF_STEP):
            turned = Rotated.of(other, self.mask.counts[1])
            if len(self.phi) * other.shape[1] ** 2 <= GRAM_FLOATS:
                steps = (FIRST_STEPS if near is None else ROUGH_STEPS) if rough else EXACT_STEPS
                return self._descended(turned, y, mu, near, steps, rough)
            system = FactorSystem(self.factors.rotated[self.axis], turned, sampled)
            return HALF_STEP.solve_system(system, mu, near).core
        if unknowns <= len(y):
            return solve_primal(self.phi, other, sampled, mu).core
        # a = (K_w[r, r] o (H H^T)[c, c] + mu I)^-1 y, W = K_w[:, r] diag(a) H[c]
        dual = Cholesky().solve(RidgeProblem(self._kernel, FactorKernel(other), sampled, mu)).dual
        return np.asarray(self.phi.T @ (sampled.sparse(dual) @ other))

    @cached_property
    def _kernel(self) -> FactorKernel:
        return _KeptFactorKernel(self.phi, np.unique(self.mask.rows))

    def _descended(
        self, other: Rotated, y: Floats, mu: float, near: Floats | None, steps: int, single: bool
    ) -> Floats:
        """Conjugate gradients in the rotated coordinates X, by products of matrices.

        With G_i = sum_k w_k h_k^T h_k over the observations of item i, the normal equations are
        P^T [G_i (P X)_i]_i + mu X = P^T [sum_k w_k y_k h_k]_i, less what a free mean takes up.
        Rough steps are made in single precision, unless the numbers are too large or too small.
        """
        axis, group, mu = self.factors.rotated[self.axis], self.mask.by_rows, float(mu)
        w = group.weights if len(group.weights) else np.ones(len(y))
        total = float(w.sum())
        p, turn, h = axis.phi, axis.turn, np.ascontiguousarray(other.phi)
        if single and _ordinary(p, h, w, y, np.array([mu])):
            (p, turn), h = self.factors.single[self.axis], h.astype(np.float32)
        grams = row_grams(h, group.indptr, group.inner, group.weights)
        shape = (len(p), len(h))
        given = (w * y[group.order]).astype(h.dtype)
        rhs = transposed_matmul(p, sp.csr_array((given, group.inner, group.indptr), shape) @ h)
        ones = None
        if self.mean is not None:
            table = sp.csr_array((w.astype(h.dtype), group.inner, group.indptr), shape)
            ones = transposed_matmul(p, table @ h)
            rhs -= (float(w @ y[group.order]) / total) * ones

        def times(x: Floats) -> Floats:
            out = gram_products(p, x, grams) + mu * x
            if ones is not None:
                out -= (float(np.vdot(ones, x)) / total) * ones
            return out

        inverse = 1.0 / (np.outer(axis.diagonal, other.diagonal) / total + mu)
        inverse = inverse.astype(h.dtype)
        x = np.zeros_like(rhs)
        r = rhs
        if near is not None:
            x = transposed_matmul(turn, (near @ other.turn).astype(h.dtype))
            r = rhs - times(x)
        goal = EXACT * float(np.linalg.norm(rhs))
        direction, last = np.zeros_like(r), np.inf
        for _ in range(steps):
            if float(np.linalg.norm(r)) <= goal:
                break
            turned = inverse * r
            energy = float(np.vdot(r, turned))
            direction = turned + (energy / last) * direction
            image = times(direction)
            curvature = float(np.vdot(direction, image))
            if not curvature > 0:
                break
            x = x + (energy / curvature) * direction
            r = r - (energy / curvature) * image
            last = energy
        return np.asarray(matmul(turn, x).astype(float) @ other.turn.T)


def _ordinary(*arrays: Floats) -> bool:
    """Whether products of these numbers are far from the ends of single precision."""
    sizes = np.array([np.abs(one).max(initial=0.0) for one in arrays])
    return bool((sizes > 1e-4).all() and (sizes < 1e4).all())

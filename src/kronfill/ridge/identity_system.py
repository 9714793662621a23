"""The ridge problem for kernels with an identity part, K = Phi Phi^T + e I on either axis.

On distinct entries e_w e_h I (x) I is e_w e_h times the identity: it belongs to mu. What is left of
K_h (x) K_w has, in orthonormal bases U of the ranges of the factors, the eigenvalues
(lambda_w + e_w)(lambda_h + e_h) - e_w e_h, which differ from zero on three orthogonal blocks:

    X    U_w x U_h                      (lambda_w + e_w)(lambda_h + e_h) - e_w e_h
    Y    complement of U_w x U_h        e_w lambda_h
    Z    U_w x complement of U_h        lambda_w e_h

so that f = (U_w (s_X o X) + Y s_Y) U_h^T + U_w (s_Z Z) with U_w^T Y = 0 and Z U_h = 0. No basis of
a complement is needed: a projection keeps Y and Z there. The preconditioner of X is that of two
factors with the eigenvalues lambda + e; those of Y and Z are diagonal, one number per item and
mode, from the counts of the item and the rate at which the mode is sampled.

The bases are those of the observed items: in a basis that is orthonormal over all items the blocks
are far from orthogonal over the observed ones, and where whole rows are absent the preconditioner
would be no good. Who needs coordinates of all items takes the preconditioner of the observed ones
along (:class:`ObservedPreconditioner`).

Where the other axis has free effects, a constant vector may be subtracted from a factor: that
changes f by what these effects take up, and no penalty. With the weighted mean subtracted, what the
effects take up is hardly left in the factors, and the preconditioner fits again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from kronfill._types import Floats
from kronfill.core.grouping import totals
from kronfill.core.limits import FACTOR_RTOL
from kronfill.core.loops.tables import SparseTables
from kronfill.core.low_rank import LowRankFactor
from kronfill.core.products import matmul, transposed_matmul
from kronfill.ridge.problem import CoreResult, FactorLike, KernelLike, Sampled
from kronfill.ridge.solution import Solution
from kronfill.ridge.system import NormalMap, System, grouped_design, grouped_targets, inner

__all__ = [
    "EigenAxis",
    "FactorPlusIdentity",
    "IdentitySystem",
    "ObservedPreconditioner",
    "axes_of",
    "weights_with_identity",
]

SMALL_AXIS = 100
"""Up to this many items it does not matter which way is taken."""
NEGLIGIBLE = 1e-3
"""Share of mu below which an eigenvalue counts for nothing in a preconditioner."""


@dataclass(frozen=True, eq=False)
class FactorPlusIdentity:
    """K = factor.phi factor.phi^T + identity I."""

    factor: FactorLike
    identity: float

    @classmethod
    def of(
        cls, kernel: KernelLike, rtol: float = FACTOR_RTOL, max_rank: int | None = None
    ) -> FactorPlusIdentity:
        """Take the identity part off a kernel and factor the rest.

        Where the rest has full rank itself there is nothing to gain: the kernel is kept whole.
        """
        smooth, identity = kernel.split()
        if smooth is None:
            nothing = LowRankFactor(np.zeros((kernel.n, 0)), np.zeros(0, np.intp), 0.0)
            return cls(nothing, identity)
        factor = smooth.factor(rtol=rtol, max_rank=max_rank)
        if identity and kernel.n > SMALL_AXIS and factor.phi.shape[1] == kernel.n:
            return cls(kernel.factor(rtol=rtol, max_rank=max_rank), 0.0)
        return cls(factor, identity)


@dataclass(frozen=True, eq=False)
class EigenAxis:
    """One axis: orthonormal basis, eigenvalues, and what the sampling makes of them."""

    basis: Floats
    lam: Floats
    identity: float
    counts: Floats
    turn: Floats
    rates: Floats
    """Eigenvectors and eigenvalues of sqrt(lam + e) U^T diag(counts) U sqrt(lam + e)."""

    @classmethod
    def of(cls, split: FactorPlusIdentity, counts: Floats, *, centred: bool = False) -> EigenAxis:
        """The axis of a kernel with these numbers of observations, less the mean if centred."""
        phi = split.factor.phi
        if centred:
            phi = phi - (counts @ phi) / counts.sum()
        return cls._of_factor(phi, split.identity, counts)

    @classmethod
    def _of_factor(cls, phi: Floats, identity: float, counts: Floats) -> EigenAxis:
        q, r = scipy.linalg.qr(phi, mode="economic", check_finite=False)
        u, s, _ = scipy.linalg.svd(r, check_finite=False)
        basis = np.ascontiguousarray(q @ u[:, : len(s)])
        lam = s**2
        scaled = basis * np.sqrt(lam + identity)
        rates, turn = scipy.linalg.eigh(scaled.T @ (counts[:, None] * scaled), check_finite=False)
        return cls(basis, lam, identity, counts, turn, np.maximum(rates, 0.0))

    @cached_property
    def observed(self) -> EigenAxis:
        """The same for the observed items alone: rows of the basis that belong to others are 0."""
        there = self.counts > 0
        if there.all():
            return self
        among = EigenAxis._of_factor(
            (self.basis * np.sqrt(self.lam))[there], self.identity, self.counts[there]
        )
        basis = np.zeros((len(there), among.basis.shape[1]))
        basis[there] = among.basis
        return replace(among, basis=basis, counts=self.counts)

    @property
    def seen(self) -> Floats:
        """How much of each mode is sampled, sum_i counts_i U_i^2."""
        return np.asarray(self.counts @ self.basis**2)

    def cast(self, dtype: type) -> tuple[Floats, Floats]:
        """Basis and rotation in one precision."""
        return self.basis.astype(dtype), self.turn.astype(dtype)


class _Coordinates:
    """The coordinates [X, Y, Z] of functions in the bases of two axes, in one precision."""

    def __init__(self, row: EigenAxis, col: EigenAxis, dtype: type) -> None:
        (self.uw, self._vw), (self.uh, self._vh) = row.cast(dtype), col.cast(dtype)
        total = row.counts.sum()
        both = (
            np.outer(row.lam + row.identity, col.lam + col.identity) - row.identity * col.identity
        )
        roots = (
            np.sqrt(np.maximum(both, 0.0)),
            np.sqrt(row.identity * col.lam),
            np.sqrt(row.lam * col.identity)[:, None],
        )
        expected = (
            np.outer(row.rates, col.rates) / total,
            np.outer(row.counts, col.seen * roots[1] ** 2 / total),
            np.outer(row.seen * roots[2][:, 0] ** 2 / total, col.counts),
        )
        self.roots: tuple[Floats, ...] = tuple(part.astype(dtype) for part in roots)
        """Square roots of the eigenvalues, of shapes that multiply X, Y and Z."""
        self.expected: tuple[Floats, ...] = tuple(part.astype(dtype) for part in expected)
        """What the sampling is expected to make of each block."""
        self._inverse: tuple[float, tuple[Floats, ...]] = (-1.0, ())
        self.ends = np.cumsum([part.size for part in expected])

    def of(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Views of X, Y and Z in a vector."""
        first, second, _ = self.ends
        shapes = [part.shape for part in self.expected]
        pieces = (x[:first], x[first:second], x[second:])
        a, b, c = (piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True))
        return a, b, c

    def gather(self, by_row: Floats, by_col: Floats, scale: tuple[Floats, ...]) -> Floats:
        """Coordinates of f, times ``scale``, from f U_h and f^T U_w (both overwritten)."""
        out = np.empty(self.ends[-1], by_row.dtype)
        a, b, c = self.of(out)
        along = transposed_matmul(self.uw, by_row)
        np.multiply(scale[0], along, out=a)
        by_row -= matmul(self.uw, along)
        np.multiply(by_row, scale[1], out=b)
        by_col -= matmul(self.uh, along.T)
        np.multiply(by_col.T, scale[2], out=c)
        return out

    def tables(self, x: Floats, scale: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        """T and G with f = T U_h^T + U_w G^T the function of the coordinates ``scale`` x."""
        a, b, c = self.of(x)
        return b * scale[1] + matmul(self.uw, scale[0] * a), (c * scale[2]).T

    def precondition(self, r: Floats, mu: float) -> Floats:
        """(expected + mu)^-1 r, one vector."""
        if self._inverse[0] != mu:
            inverse = tuple(1 / (part + part.dtype.type(mu)) for part in self.expected)
            self._inverse = (mu, inverse)
        ix, iy, iz = self._inverse[1]
        out = np.empty_like(r)
        (a, b, c), (x, y, z) = self.of(r), self.of(out)
        x[:] = self._vw @ ((self._vw.T @ a @ self._vh) * ix) @ self._vh.T
        np.multiply(b, iy, out=y)
        np.multiply(c, iz, out=z)
        return self.within(out)

    def within(self, x: Floats) -> Floats:
        """X, and of Y and Z what lies in the complements; x is changed."""
        _, y, z = self.of(x)
        y -= matmul(self.uw, transposed_matmul(self.uw, y))
        z -= matmul(self.uh, (z @ self.uh).T).T
        return x

    def expected_square(self, r: Floats) -> float:
        """Estimate of ||Psi r||^2."""
        a, b, c = self.of(r)
        turned = self._vw.T @ a @ self._vh
        parts = zip((turned, b, c), self.expected, strict=True)
        return sum(float(np.vdot(part * part, rate)) for part, rate in parts)


class ObservedPreconditioner:
    """The preconditioner of the observed items for coordinates in the bases of all items.

    With O the map from coordinates of a function to those that it has at the observed items, in
    their bases, O O^T = 1, and P_o the preconditioner there, it is O^T P_o O + (1 - O^T O) / mu.
    """

    def __init__(self, axes: tuple[EigenAxis, EigenAxis], mu: float) -> None:
        row, col = axes
        self._mu = mu
        self._everything = row.observed is row and col.observed is col
        self._all = _Coordinates(row, col, np.float64)
        self._some = _Coordinates(row.observed, col.observed, np.float64)
        there_w, there_h = row.counts[:, None] > 0, col.counts[:, None] > 0
        self._there = there_w, there_h
        self._bases = self._all.uw * there_w, self._all.uh * there_h
        self._crossing = (
            transposed_matmul(self._bases[0], self._some.uw),
            transposed_matmul(self._bases[1], self._some.uh),
        )
        self._scale = tuple(_inverse(root, mu) for root in self._some.roots)

    def precondition(self, r: Floats) -> Floats:
        """(r + O^T (mu P_o - 1) O r) / mu, one vector."""
        if self._everything:
            return self._all.precondition(r, self._mu)
        among = self._forward(r)
        among = self._mu * self._some.precondition(among, self._mu) - among
        return self._all.within((r + self._back(among)) / self._mu)

    def _forward(self, x: Floats) -> Floats:
        """O x."""
        t, g = self._all.tables(x, self._all.roots)
        t, g = t * self._there[0], g * self._there[1]
        (base_w, base_h), (cross_w, cross_h) = self._bases, self._crossing
        by_row = matmul(t, cross_h) + matmul(base_w, transposed_matmul(g, self._some.uh))
        by_col = matmul(g, cross_w) + matmul(base_h, transposed_matmul(t, self._some.uw))
        return self._some.gather(by_row, by_col, self._scale)

    def _back(self, x: Floats) -> Floats:
        """O^T x."""
        t, g = self._some.tables(x, self._scale)
        cross_w, cross_h = self._crossing
        by_row = matmul(t, cross_h.T) + matmul(self._some.uw, transposed_matmul(g, self._all.uh))
        by_col = matmul(g, cross_w.T) + matmul(self._some.uh, transposed_matmul(t, self._all.uw))
        return self._all.gather(by_row, by_col, self._all.roots)


def _inverse(root: Floats, mu: float) -> Floats:
    """1 / root; 0 for what lies so far below mu that it needs no preconditioner."""
    return np.divide(1, root, out=np.zeros_like(root), where=root**2 > NEGLIGIBLE * mu)


class _IdentityMap(NormalMap):
    """Psi^T M Psi on vectors [X, Y, Z], in one precision."""

    def __init__(self, system: IdentitySystem, dtype: type) -> None:
        self._system = system
        row, col = system.axes
        blocks = self._blocks = _Coordinates(row, col, dtype)
        weights = np.empty(0) if system.weights is None else system.weights
        self._weights: Floats = weights.astype(dtype)
        # [T, U_w] and [U_h, G]: one product of two rows is the value of an entry.
        n, b = blocks.expected[1].shape
        a, l = blocks.expected[2].shape
        self._left = np.hstack([np.empty((n, b), dtype), blocks.uw])
        self._right = np.hstack([blocks.uh, np.empty((l, a), dtype)])

    def _fill(self, x: Floats) -> None:
        """Write the tables that belong to x."""
        blocks = self._blocks
        a, b, c = blocks.of(x)
        sx, sy, sz = blocks.roots
        width = len(sy)
        np.multiply(b, sy, out=self._left[:, :width])
        self._left[:, :width] += matmul(blocks.uw, sx * a)
        np.multiply(c.T, sz.T, out=self._right[:, width:])

    def sample(self, x: Floats) -> Floats:
        """Psi x, observations in the order of the rows."""
        self._fill(x)
        return self._system.tables.products(self._left, self._right)

    def scatter(self, v: Floats, by_row: Floats | None = None) -> Floats:
        """Psi^T v; ``by_row`` are the sums over rows, where they are known."""
        tables, blocks = self._system.tables, self._blocks
        if by_row is None:
            by_row = tables.sums(blocks.uh, v, 0)
        return blocks.gather(by_row, tables.sums(blocks.uw, v, 1), blocks.roots)

    def normal(self, x: Floats) -> Floats:
        return np.stack([self._normal(one) for one in x])

    def _normal(self, x: Floats) -> Floats:
        system = self._system
        if system.design is not None:
            return self.scatter(system.freed(self.sample(x)))
        self._fill(x)
        width = len(self._blocks.roots[1])
        v, by_row = system.tables.products_sums(self._left, self._right, width, self._weights)
        return self.scatter(v, by_row)

    def precondition(self, r: Floats, mu: float) -> Floats:
        return np.stack([self._blocks.precondition(one, mu) for one in r])

    def within(self, x: Floats) -> Floats:
        """X, and of Y and Z what lies in the complements; x is changed."""
        for one in x:
            self._blocks.within(one)
        return x

    def expected_norm(self, r: Floats) -> Floats:
        return np.array([self._blocks.expected_square(one) for one in r]) ** 0.5


class IdentitySystem(System):
    """The system for two kernels of which at least one has an identity part."""

    def __init__(
        self,
        axes: tuple[EigenAxis, EigenAxis],
        sampled: Sampled,
        weights: Floats | None,
        moved: tuple[FactorPlusIdentity, FactorPlusIdentity] | None = None,
    ) -> None:
        s, mask = sampled, sampled.mask
        self._moved = moved
        """The kernels, if the axes are those of centred factors."""
        self.axes = axes
        self.tables = SparseTables(mask.by_rows, mask.by_cols)
        self._grouped = mask.by_rows
        self._y = grouped_targets(s, mask.by_rows)
        self._given = None if s.weights is None else self._grouped.gather(s.weights)
        self.weights = None if weights is None else self._grouped.gather(weights)
        self.design = grouped_design(s, mask.by_rows, self.weights)
        self.shift = axes[0].identity * axes[1].identity
        self._map = _IdentityMap(self, np.float64)
        size = self._y if self._given is None else self._y * self._given
        self.norm_y = np.sqrt(inner(self._y, size))

    @classmethod
    def of(
        cls,
        row: FactorPlusIdentity,
        col: FactorPlusIdentity,
        sampled: Sampled,
        mu: float,
        *,
        centred: bool = False,
    ) -> IdentitySystem:
        """Make the system, with centred factors where the effects allow it; weights bring in mu."""
        weights, axes = axes_of(row, col, sampled, mu, centred=centred)
        kind = sampled.kind if centred else None
        moved = (row, col) if kind in ("rows", "cols", "both") else None
        return cls((axes[0].observed, axes[1].observed), sampled, weights, moved)

    def freed(self, v: Floats) -> Floats:
        """M v: weighted, less what the effects take up."""
        rest = v if self.design is None else self.design.remove(v)
        return rest if self.weights is None else rest * self.weights

    def within(self, x: Floats) -> Floats:
        """See :class:`System`."""
        return self._map.within(x)

    def rhs(self) -> Floats:
        """See :class:`System`."""
        return np.stack([self._map.scatter(self.freed(y)) for y in self._y])

    def normal(self, x: Floats) -> Floats:
        """See :class:`NormalMap`."""
        return self._map.normal(x)

    def precondition(self, r: Floats, mu: float) -> Floats:
        """See :class:`NormalMap`."""
        return self._map.precondition(r, mu)

    def expected_norm(self, r: Floats) -> Floats:
        """See :class:`NormalMap`."""
        return self._map.expected_norm(r)

    def single(self) -> NormalMap:
        """See :class:`System`."""
        return _IdentityMap(self, np.float32)

    def dual_norm(self, r: Floats) -> Floats:
        """See :class:`System`."""
        norms = []
        for one in r:
            v = self._map.sample(one)
            v = v if self.design is None else self.design.remove(v)
            norms.append(np.sqrt(float(v @ (v if self._given is None else v * self._given))))
        return np.array(norms)

    def start(self, core: Floats) -> Floats:
        """See :class:`System`: the coefficients are x itself."""
        return core

    def from_dual(self, dual: Floats) -> Floats:
        """x = Psi^T d, for a dual vector in the caller's order."""
        return self._map.scatter(self._grouped.gather(dual))

    def result(self, x: Floats, mu: float, target: int, solution: Solution) -> CoreResult:
        """See :class:`System`: d = W' (y - Z beta - Psi x) / mu' in the caller's order."""
        rest = self._y[target] - self._map.sample(x)
        effects = None
        if self.design is not None:
            effects = self.design.fit(rest)
            rest -= effects.at(self.design.rows, self.design.cols)
        dual = rest / mu if self.weights is None else rest * self.weights / mu
        if self.design is not None and self._moved is not None:
            effects = self.design.fit(self._y[target] - self._kernel_times(dual, *self._moved))
        return CoreResult(x, self._grouped.restore(dual), effects, solution)

    def _kernel_times(
        self, dual: Floats, row: FactorPlusIdentity, col: FactorPlusIdentity
    ) -> Floats:
        """What the kernels as they were given make of a dual vector, less e_w e_h d.

        y less this is Z beta + mu' d / w', of which the effects take beta alone: Z^T d = 0.
        """
        pw, ph = row.factor.phi, col.factor.phi
        by_row, by_col = self.tables.sums(ph, dual, 0), self.tables.sums(pw, dual, 1)
        left = np.hstack([pw @ (pw.T @ by_row) + row.identity * by_row, pw])
        right = np.hstack([ph, col.identity * by_col])
        return self.tables.products(left, right)


def axes_of(
    row: FactorPlusIdentity,
    col: FactorPlusIdentity,
    sampled: Sampled,
    mu: float,
    *,
    centred: bool = False,
) -> tuple[Floats | None, tuple[EigenAxis, EigenAxis]]:
    """Weights of the observations and both axes, absent items included.

    The noise of an entry is mu / w + e_w e_h: with mu' = mu + e_w e_h its weight becomes
    mu' / (mu / w + e_w e_h), which is 1 where there are no weights.
    """
    weights = weights_with_identity(sampled.weights, mu, row.identity * col.identity)
    n, l = sampled.shape
    counts = totals(sampled.rows, weights, n), totals(sampled.cols, weights, l)
    kind = sampled.kind if centred else None
    return weights, (
        EigenAxis.of(row, counts[0], centred=kind in ("cols", "both")),
        EigenAxis.of(col, counts[1], centred=kind in ("rows", "both")),
    )


def weights_with_identity(weights: Floats | None, mu: float, alone: float) -> Floats | None:
    """Weights that with mu + alone stand for the noise mu / w + alone of each observation."""
    if weights is None or alone == 0:
        return weights
    return np.asarray((mu + alone) / (mu / weights + alone))

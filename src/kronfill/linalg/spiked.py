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

Where the other axis has free effects, a constant vector may be subtracted from a factor: that
changes f by what these effects take up, and no penalty. With the weighted mean subtracted, what the
effects take up is hardly left in the factors, and the preconditioner fits again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from kronfill.linalg.grouping import totals
from kronfill.linalg.lowrank import LowRankFactor
from kronfill.linalg.products import matmul, transposed_matmul
from kronfill.linalg.ridge import CoreResult, FactorLike, KernelLike, Sampled
from kronfill.linalg.solution import Solution, Status
from kronfill.linalg.system import NormalMap, System, grouped_design, grouped_targets, inner
from kronfill.linalg.tables import SparseTables

__all__ = ["SpikedSystem", "Split"]

Floats = NDArray[np.float64]
FEW = 100
"""Up to this many items it does not matter which way is taken."""


@dataclass(frozen=True, eq=False)
class Split:
    """K = factor.phi factor.phi^T + ridge I."""

    factor: FactorLike
    ridge: float

    @classmethod
    def of(cls, kernel: KernelLike, rtol: float = 1e-13, max_rank: int | None = None) -> Split:
        """Take the identity part off a kernel and factor the rest.

        Where the rest has full rank itself there is nothing to gain: the kernel is kept whole.
        """
        smooth, ridge = kernel.split()
        if smooth is None:
            nothing = LowRankFactor(np.zeros((kernel.n, 0)), np.zeros(0, np.intp), 0.0)
            return cls(nothing, ridge)
        factor = smooth.factor(rtol=rtol, max_rank=max_rank)
        if ridge and kernel.n > FEW and factor.phi.shape[1] == kernel.n:
            return cls(kernel.factor(rtol=rtol, max_rank=max_rank), 0.0)
        return cls(factor, ridge)


@dataclass(frozen=True, eq=False)
class _Axis:
    """One axis: orthonormal basis, eigenvalues, and what the sampling makes of them."""

    basis: Floats
    lam: Floats
    ridge: float
    counts: Floats
    turn: Floats
    rates: Floats
    """Eigenvectors and eigenvalues of sqrt(lam + e) U^T diag(counts) U sqrt(lam + e)."""

    @classmethod
    def of(cls, split: Split, counts: Floats, *, centred: bool = False) -> _Axis:
        phi = split.factor.phi
        if centred:
            phi = phi - (counts @ phi) / counts.sum()
        q, r = scipy.linalg.qr(phi, mode="economic", check_finite=False)
        u, s, _ = scipy.linalg.svd(r, check_finite=False)
        basis = np.ascontiguousarray(q @ u[:, : len(s)])
        lam = s**2
        scaled = basis * np.sqrt(lam + split.ridge)
        rates, turn = scipy.linalg.eigh(scaled.T @ (counts[:, None] * scaled), check_finite=False)
        return cls(basis, lam, split.ridge, counts, turn, np.maximum(rates, 0.0))

    @property
    def seen(self) -> Floats:
        """How much of each mode is sampled, sum_i counts_i U_i^2."""
        return np.asarray(self.counts @ self.basis**2)

    def cast(self, dtype: type) -> tuple[Floats, Floats]:
        """Basis and rotation in one precision."""
        return self.basis.astype(dtype), self.turn.astype(dtype)


class _SpikedMap(NormalMap):
    """Psi^T M Psi on vectors [X, Y, Z], in one precision."""

    def __init__(self, system: SpikedSystem, dtype: type) -> None:
        self._system = system
        row, col = system.axes
        (self._uw, self._vw), (self._uh, self._vh) = row.cast(dtype), col.cast(dtype)
        total = row.counts.sum()
        both = np.outer(row.lam + row.ridge, col.lam + col.ridge) - row.ridge * col.ridge
        roots = (
            np.sqrt(np.maximum(both, 0.0)),
            np.sqrt(row.ridge * col.lam),
            np.sqrt(row.lam * col.ridge),
        )
        expected = (
            np.outer(row.rates, col.rates) / total,
            np.outer(row.counts, col.seen * roots[1] ** 2 / total),
            np.outer(row.seen * roots[2] ** 2 / total, col.counts),
        )
        self._roots: tuple[Floats, ...] = tuple(part.astype(dtype) for part in roots)
        self._expected: tuple[Floats, ...] = tuple(part.astype(dtype) for part in expected)
        self._inverse: tuple[float, tuple[Floats, ...]] = (-1.0, ())
        self._ends = np.cumsum([part.size for part in expected])
        weights = np.empty(0) if system.weights is None else system.weights
        self._weights: Floats = weights.astype(dtype)
        # [T, U_w] and [U_h, G]: one product of two rows is the value of an entry.
        self._left = np.hstack([np.empty_like(self._uw, shape=expected[1].shape), self._uw])
        self._right = np.hstack([self._uh, np.empty_like(self._uh, shape=expected[2].T.shape)])

    def blocks(self, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Views of X, Y and Z in a vector."""
        first, second, _ = self._ends
        shapes = [part.shape for part in self._expected]
        pieces = (x[:first], x[first:second], x[second:])
        a, b, c = (piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True))
        return a, b, c

    def _fill(self, x: Floats) -> None:
        """Write the tables that belong to x."""
        a, b, c = self.blocks(x)
        sx, sy, sz = self._roots
        width = len(sy)
        np.multiply(b, sy, out=self._left[:, :width])
        self._left[:, :width] += matmul(self._uw, sx * a)
        np.multiply(c.T, sz, out=self._right[:, width:])

    def sample(self, x: Floats) -> Floats:
        """Psi x, observations in the order of the rows."""
        self._fill(x)
        return self._system.tables.products(self._left, self._right)

    def scatter(self, v: Floats, by_row: Floats | None = None) -> Floats:
        """Psi^T v; ``by_row`` are the sums over rows, where they are known."""
        tables, (sx, sy, sz) = self._system.tables, self._roots
        if by_row is None:
            by_row = tables.sums(self._uh, v, 0)
        by_col = tables.sums(self._uw, v, 1)
        out = np.empty(self._ends[-1], by_row.dtype)
        a, b, c = self.blocks(out)
        along = transposed_matmul(self._uw, by_row)
        np.multiply(sx, along, out=a)
        by_row -= matmul(self._uw, along)
        np.multiply(by_row, sy, out=b)
        by_col -= matmul(self._uh, along.T)
        np.multiply(by_col.T, sz[:, None], out=c)
        return out

    def normal(self, x: Floats) -> Floats:
        return np.stack([self._normal(one) for one in x])

    def _normal(self, x: Floats) -> Floats:
        system = self._system
        if system.design is not None:
            return self.scatter(system.freed(self.sample(x)))
        self._fill(x)
        width = len(self._roots[1])
        v, by_row = system.tables.products_sums(self._left, self._right, width, self._weights)
        return self.scatter(v, by_row)

    def precondition(self, r: Floats, mu: float) -> Floats:
        if self._inverse[0] != mu:
            inverse = tuple(1 / (part + part.dtype.type(mu)) for part in self._expected)
            self._inverse = (mu, inverse)
        ix, iy, iz = self._inverse[1]
        out = np.empty_like(r)
        for given, result in zip(r, out, strict=True):
            a, b, c = self.blocks(given)
            x, y, z = self.blocks(result)
            x[:] = self._vw @ ((self._vw.T @ a @ self._vh) * ix) @ self._vh.T
            np.multiply(b, iy, out=y)
            np.multiply(c, iz, out=z)
        return self.within(out)

    def within(self, x: Floats) -> Floats:
        """X, and of Y and Z what lies in the complements; x is changed."""
        for one in x:
            _, y, z = self.blocks(one)
            y -= matmul(self._uw, transposed_matmul(self._uw, y))
            z -= matmul(self._uh, (z @ self._uh).T).T
        return x

    def expected_norm(self, r: Floats) -> Floats:
        squares = []
        for one in r:
            a, b, c = self.blocks(one)
            turned = self._vw.T @ a @ self._vh
            parts = zip((turned, b, c), self._expected, strict=True)
            squares.append(sum(float(np.vdot(part * part, rate)) for part, rate in parts))
        return np.asarray(np.sqrt(np.array(squares)))


class SpikedSystem(System):
    """The system for two kernels of which at least one has an identity part."""

    def __init__(
        self,
        axes: tuple[_Axis, _Axis],
        sampled: Sampled,
        weights: Floats | None,
        moved: tuple[Split, Split] | None = None,
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
        self.shift = axes[0].ridge * axes[1].ridge
        self._map = _SpikedMap(self, np.float64)
        size = self._y if self._given is None else self._y * self._given
        self.norm_y = np.sqrt(inner(self._y, size))

    @classmethod
    def of(
        cls, row: Split, col: Split, sampled: Sampled, mu: float, *, centred: bool = False
    ) -> SpikedSystem:
        """Make the system, with centred factors where the effects allow it; weights bring in mu.

        The noise of an entry is mu / w + e_w e_h: with mu' = mu + e_w e_h its weight becomes
        mu' / (mu / w + e_w e_h), which is 1 where there are no weights.
        """
        fold = row.ridge * col.ridge
        weights = sampled.weights
        if weights is not None and fold > 0:
            weights = (mu + fold) / (mu / weights + fold)
        n, l = sampled.shape
        counts = (
            totals(sampled.rows, weights, n),
            totals(sampled.cols, weights, l),
        )
        kind = None if sampled.effects is None or not centred else sampled.effects.kind
        axes = (
            _Axis.of(row, counts[0], centred=kind in ("cols", "both")),
            _Axis.of(col, counts[1], centred=kind in ("rows", "both")),
        )
        moved = (row, col) if kind in ("rows", "cols", "both") else None
        return cls(axes, sampled, weights, moved)

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
        return _SpikedMap(self, np.float32)

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

    def result(self, x: Floats, mu: float, target: int) -> CoreResult:
        """See :class:`System`: d = W' (y - Z beta - Psi x) / mu' in the caller's order."""
        rest = self._y[target] - self._map.sample(x)
        effects = None
        if self.design is not None:
            effects = self.design.fit(rest)
            rest -= effects.at(self.design.rows, self.design.cols)
        dual = rest / mu if self.weights is None else rest * self.weights / mu
        if self.design is not None and self._moved is not None:
            effects = self.design.fit(self._y[target] - self._kernel_times(dual, *self._moved))
        given = self._grouped.restore(dual)
        return CoreResult(x, given, effects, Solution(Status.CONVERGED, "PCG"))

    def _kernel_times(self, dual: Floats, row: Split, col: Split) -> Floats:
        """What the kernels as they were given make of a dual vector, less e_w e_h d.

        y less this is Z beta + mu' d / w', of which the effects take beta alone: Z^T d = 0.
        """
        pw, ph = row.factor.phi, col.factor.phi
        by_row, by_col = self.tables.sums(ph, dual, 0), self.tables.sums(pw, dual, 1)
        left = np.hstack([pw @ (pw.T @ by_row) + row.ridge * by_row, pw])
        right = np.hstack([ph, col.ridge * by_col])
        return self.tables.products(left, right)

"""The ridge problem for kernels with an identity part, K = Phi Phi^T + e I on either axis.

On distinct entries e_w e_h I (x) I is e_w e_h times the identity: it belongs to mu. The rest of the
kernel over entries has the coordinates of :mod:`kronfill.ridge.identity_coordinates`.

The bases are those of the observed items: in a basis that is orthonormal over all items the blocks
are far from orthogonal over the observed ones, and where whole rows are absent the preconditioner
would be no good. Who needs coordinates of all items takes the preconditioner of the observed ones
along (:class:`~kronfill.ridge.identity_coordinates.ObservedPreconditioner`).

Where the other axis has free effects, a constant vector may be subtracted from a factor: that
changes f by what these effects take up, and no penalty. With the weighted mean subtracted, what the
effects take up is hardly left in the factors, and the preconditioner fits again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kronfill._types import Floats
from kronfill.core.grouping import totals
from kronfill.core.limits import FACTOR_RTOL
from kronfill.core.loops.tables import SparseTables
from kronfill.core.low_rank import LowRankFactor
from kronfill.core.products import matmul
from kronfill.ridge.identity_coordinates import Coordinates, EigenAxis
from kronfill.ridge.problem import CoreResult, FactorLike, KernelLike, Sampled
from kronfill.ridge.solution import Solution
from kronfill.ridge.system import MappedSystem, NormalMap, grouped_design, grouped_targets, inner

__all__ = [
    "FactorPlusIdentity",
    "IdentitySystem",
    "axes_of",
    "weights_with_identity",
]

SMALL_AXIS = 100
"""Up to this many items it does not matter which way is taken."""


@dataclass(frozen=True, eq=False)
class FactorPlusIdentity:
    """K = factor.phi factor.phi^T + identity I."""

    factor: FactorLike
    identity: float

    @property
    def rank(self) -> int:
        """Columns of the factor."""
        return int(self.factor.phi.shape[1])

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


class _IdentityMap(NormalMap):
    """Psi^T M Psi on vectors [X, Y, Z], in one precision."""

    def __init__(self, system: IdentitySystem, dtype: type) -> None:
        self._system = system
        row, col = system.axes
        blocks = self._blocks = Coordinates(row, col, dtype)
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


class IdentitySystem(MappedSystem):
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
        self._original_weights = None if s.weights is None else self._grouped.gather(s.weights)
        self.weights = None if weights is None else self._grouped.gather(weights)
        self.design = grouped_design(s, mask.by_rows, self.weights)
        self.shift = axes[0].identity * axes[1].identity
        self.double: _IdentityMap = _IdentityMap(self, np.float64)
        size = self._y if self._original_weights is None else self._y * self._original_weights
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
        return self.double.within(x)

    def rhs(self) -> Floats:
        """See :class:`System`."""
        return np.stack([self.double.scatter(self.freed(y)) for y in self._y])

    def single(self) -> NormalMap:
        """See :class:`System`."""
        return _IdentityMap(self, np.float32)

    def dual_norm(self, r: Floats) -> Floats:
        """See :class:`System`."""
        norms = []
        for one in r:
            v = self.double.sample(one)
            v = v if self.design is None else self.design.remove(v)
            norms.append(
                np.sqrt(
                    float(v @ (v if self._original_weights is None else v * self._original_weights))
                )
            )
        return np.array(norms)

    def start(self, core: Floats) -> Floats:
        """See :class:`System`: the coefficients are x itself."""
        return core

    def from_dual(self, dual: Floats) -> Floats:
        """x = Psi^T d, for a dual vector in the caller's order."""
        return self.double.scatter(self._grouped.gather(dual))

    def result(self, x: Floats, mu: float, target: int, solution: Solution) -> CoreResult:
        """See :class:`System`: d = W' (y - Z beta - Psi x) / mu' in the caller's order."""
        rest = self._y[target] - self.double.sample(x)
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


def weights_with_identity(
    weights: Floats | None, mu: float, entry_identity: float
) -> Floats | None:
    """Weights that with mu + e stand for the noise mu / w + e of each observation, e = e_w e_h."""
    if weights is None or entry_identity == 0:
        return weights
    return np.asarray((mu + entry_identity) / (mu / weights + entry_identity))

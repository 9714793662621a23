"""The ridge problem in the space of two low-rank factors.

Each factor is rotated so that Phi^T diag(counts) Phi is diagonal; then Psi^T W Psi is nearly

    S0 = outer(s_w, s_h) / total weight,

exactly so in the mean over masks with these row and column counts, and S0 + mu is a diagonal
preconditioner that knows the sampling.

With R = Psi^T W (y - Psi x) - mu x the primal residual and d = W (y - Psi x) / mu, the dual
residual is Psi R / mu (times sqrt(w)); its size is estimated by sqrt(<R o R, S0>).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsyrk

from kronfill._types import Floats, Index
from kronfill.core.operator import SampledKronecker
from kronfill.core.products import gram, matmul
from kronfill.core.threads import WIDE, one_blas_thread
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.problem import CoreResult, Sampled
from kronfill.ridge.solution import Solution
from kronfill.ridge.system import MappedSystem, NormalMap, grouped_design, grouped_targets, inner

__all__ = ["FactorSystem", "Rotated"]


@dataclass(frozen=True, eq=False)
class Rotated:
    """A factor in the basis in which phi^T diag(counts) phi is diagonal."""

    phi: Floats
    """The rotated factor, phi @ turn, less ``shift``."""
    turn: Floats
    """The rotation."""
    diagonal: Floats
    """The diagonal."""
    shift: Floats
    """What was taken off each row of phi @ turn."""

    @classmethod
    def of(cls, phi: Floats, counts: Floats, *, centred: bool = False) -> Rotated:
        """Rotate ``phi`` for these counts.

        Where the other axis has free effects, subtracting a constant vector from ``phi`` changes
        nothing but these effects: p_i X (q_j - s)^T differs from p_i X q_j^T by a function of i.
        The weighted mean is taken, so that what the effects take up is gone from the factor.
        """
        shift = (counts @ phi) / counts.sum() if centred else np.zeros(phi.shape[1])
        moved = phi - shift if centred else phi
        if phi.shape[1] == 0:
            return cls(phi, np.empty((0, 0)), shift, shift)
        narrow = phi.shape[1] < WIDE
        with one_blas_thread(narrow):
            # A narrow factor is cut into blocks of rows, a wide one left to the threads of BLAS.
            if narrow:
                product = gram(moved, counts)
            else:
                product = dsyrk(1.0, (np.sqrt(counts)[:, None] * moved).T)
            lam, turn = scipy.linalg.eigh(  # of the upper triangle
                product, lower=False, driver="evd", overwrite_a=True, check_finite=False
            )
            turned = matmul(moved, turn) if narrow else moved @ turn
            return cls(turned, turn, np.maximum(lam, 0.0), shift @ turn)


class _FactorMap(NormalMap):
    """Psi^T M Psi in the rotated basis, in one precision."""

    def __init__(self, operator: SampledKronecker, expected: Floats, system: FactorSystem) -> None:
        self._operator = operator
        self._expected = expected
        self._system = system

    def normal(self, x: Floats) -> Floats:
        design = self._system.design
        if design is None:
            return self._operator.normal(x)
        if design.kind == "mean":  # M = W - w w^T / sum(w): a correction of rank one
            ones = self._system.ones
            along = inner(np.broadcast_to(ones, x.shape), x) / self._system.total
            return self._operator.normal(x) - along[:, None, None] * ones
        return np.stack([self._freed(one, design) for one in x])

    def _freed(self, x: Floats, design: EffectsDesign) -> Floats:
        v = design.remove(self._operator.sample(x))
        return self._operator.scatter(self._system.weighted(v))

    def precondition(self, r: Floats, mu: float) -> Floats:
        return r / (self._expected + r.dtype.type(mu))

    def expected_norm(self, r: Floats) -> Floats:
        return np.sqrt(inner(r * r, np.broadcast_to(self._expected, r.shape)))


class FactorSystem(MappedSystem):
    """Psi^T W Psi in the rotated basis, for one set of observed entries and two factors."""

    def __init__(self, row: Rotated, col: Rotated, sampled: Sampled) -> None:
        s = sampled
        self._sides = (row, col)
        self.total = float(s.mask.counts[0].sum())
        self._flipped = row.phi.shape[1] < col.phi.shape[1]
        expected = np.outer(row.diagonal, col.diagonal) / self.total
        self._expected = np.ascontiguousarray(expected.T if self._flipped else expected)
        outer, inner_ = (col, row) if self._flipped else (row, col)
        self._factors = (outer.phi, inner_.phi)
        self._grouped = s.mask.by_cols if self._flipped else s.mask.by_rows
        self._operator = SampledKronecker(outer.phi, inner_.phi, self._grouped)
        self.double = _FactorMap(self._operator, self._expected, self)
        self._y = grouped_targets(s, self._grouped)
        self.design = grouped_design(
            s, self._grouped, None if s.weights is None else self._grouped.weights
        )
        self.norm_y = np.sqrt(inner(self._y, self.weighted(self._y)))

    @classmethod
    def of(cls, row_phi: Floats, col_phi: Floats, sampled: Sampled) -> FactorSystem:
        """Rotate both factors for this mask."""
        kind = sampled.kind
        count_r, count_c = sampled.mask.counts
        row = Rotated.of(row_phi, count_r, centred=kind in ("cols", "both"))
        col = Rotated.of(col_phi, count_c, centred=kind in ("rows", "both"))
        return cls(row, col, sampled)

    def single(self) -> NormalMap:
        """See :class:`System`."""
        operator = SampledKronecker(*self._factors, self._grouped, np.float32)
        return _FactorMap(operator, self._expected.astype(np.float32), self)

    def weighted(self, v: Floats) -> Floats:
        """W v."""
        return v * self._grouped.weights if len(self._grouped.weights) else v

    @cached_property
    def ones(self) -> Floats:
        """Psi^T W 1."""
        return self._operator.scatter(self.weighted(np.ones(self._operator.m)))

    def rhs(self) -> Floats:
        """See :class:`System`."""
        ys = self._y if self.design is None else (self.design.remove(y) for y in self._y)
        return np.stack([self._operator.scatter(self.weighted(y)) for y in ys])

    def dual_norm(self, r: Floats) -> Floats:
        """See :class:`System`."""
        return np.sqrt(np.maximum(0.0, inner(r, self.normal(r))))

    def start(self, core: Floats) -> Floats:
        """See :class:`System`."""
        row, col = self._sides
        turned = row.turn.T @ core @ col.turn
        return np.ascontiguousarray(turned.T if self._flipped else turned)

    def _core(self, x: Floats) -> Floats:
        row, col = self._sides
        core = x.T if self._flipped else x
        return np.asarray(row.turn @ core @ col.turn.T)

    def _shifted(self, x: Floats, rows: Index, cols: Index) -> Floats:
        """What the shifts of the factors left out of Psi x: functions of row or column alone."""
        row, col = self._sides
        core = x.T if self._flipped else x
        by_row = row.phi @ (core @ col.shift)
        by_col = col.phi @ (core.T @ row.shift)
        return np.asarray(by_row[rows] + by_col[cols] + row.shift @ core @ col.shift)

    def result(self, x: Floats, mu: float, target: int, solution: Solution) -> CoreResult:
        """See :class:`System`: d = W (y - Z beta - Psi x) / mu in the caller's order."""
        rest = self._operator.sample(x)
        np.subtract(self._y[target], rest, out=rest)
        effects = None
        if self.design is not None:
            rows, cols = self.design.rows, self.design.cols
            rest -= self._shifted(x, rows, cols)
            effects = self.design.fit(rest)
            rest -= effects.at(rows, cols)
        rest /= mu
        dual = self._grouped.restore(self.weighted(rest))
        return CoreResult(self._core(x), dual, effects, solution)

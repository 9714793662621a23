"""Posterior covariances for kernels with an identity part, K = Phi Phi^T + e I on either axis.

With e = e_w e_h the latent value of an entry is f = psi^T x + z^T beta + o, where psi and x are
in the basis of :mod:`kronfill.ridge.identity_coordinates` and o ~ N(0, e) is what the entry has to
itself. An observation has noise mu' / w' in all, mu' = mu + e, and given h = psi^T x + z^T beta
an observed value y tells of its entry's own part: f has mean c h + (1 - c) y and variance e c,
with c = 1 - e w' / mu' (1 for an entry that is not observed). Hence, for s^2 = 1,

    var f = e c + c^2 mu' (u^T S^-1 u + z^T E^-1 z),

S = Psi^T M' Psi + mu' I, E = Z^T W' Z and u = psi - Psi^T W' Z E^-1 z. Two entries share c c' times
the covariance of h. A new item has no identity part with the known ones: its similarities lie in
the range of the factor.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from kronfill._types import Floats, Index
from kronfill.core.operator import pair_products
from kronfill.ridge.identity_coordinates import EigenAxis, ObservedPreconditioner
from kronfill.ridge.identity_system import (
    FactorPlusIdentity,
    IdentitySystem,
    axes_of,
    weights_with_identity,
)
from kronfill.ridge.problem import CoreResult, Sampled
from kronfill.solvers.pcg import PCG
from kronfill.uncertainty.iterative import TOL, solve_many
from kronfill.uncertainty.posterior import Posterior
from kronfill.uncertainty.queries import QueriedItems, Queries

__all__ = ["IdentityPosterior"]


ARRAYS = 8
"""Vectors that one right-hand side takes in conjugate gradients."""


class _OfAllItems(IdentitySystem):
    """The system in the bases of all items, with the preconditioner of the observed ones."""

    def __init__(
        self, axes: tuple[EigenAxis, EigenAxis], sampled: Sampled, weights: Floats | None, mu: float
    ) -> None:
        super().__init__(axes, sampled, weights)
        self._observed = ObservedPreconditioner(axes, mu)

    def precondition(self, r: Floats, mu: float) -> Floats:
        """See :class:`NormalMap`; mu is that of the preconditioner."""
        return np.stack([self._observed.precondition(one) for one in r])


class _IdentityAxis:
    """One axis of the basis: U, its eigenvalues Lambda, the identity part e."""

    def __init__(self, basis: Floats, lam: Floats, identity: float) -> None:
        self.basis, self.identity = basis, identity
        self.root = np.sqrt(lam)

    def items(self, side: QueriedItems, at: Index) -> tuple[Floats, Floats]:
        """U_i, and Lambda^(-1/2) U^T k with k the smooth similarities to the known items.

        U_i is zero for a new item, which has no identity part with any known one.
        """
        part, back = np.unique(at, return_inverse=True)
        index = side.index[part]
        rows = np.where(index[:, None] >= 0, self.basis[index], 0.0)
        inside = rows * self.root
        new = np.flatnonzero(index < 0)
        if len(new):
            cross = side.cross(part[new], np.arange(len(self.basis)))
            inside[new] = (cross @ self.basis) / _nonzero(self.root)
        return rows[back], inside[back]

    def outside(self, index: Index, rows: Floats) -> Floats:
        """sqrt(e) (delta_i - U U_i), one row per item; zero for a new one."""
        out = -(rows @ self.basis.T)
        known = np.flatnonzero(index >= 0)
        out[known, index[known]] += 1.0
        return np.asarray(np.sqrt(self.identity) * out)


class IdentityPosterior(Posterior):
    """By conjugate gradients on the identity system: nothing is larger than the factors."""

    def __init__(
        self, row: FactorPlusIdentity, col: FactorPlusIdentity, sampled: Sampled, mu: float
    ) -> None:
        self.entry_identity = row.identity * col.identity
        self.whole = mu + self.entry_identity
        self.original = sampled
        weights = weights_with_identity(sampled.weights, mu, self.entry_identity)
        super().__init__(sampled.reweighted(weights), mu)
        _, axes = axes_of(row, col, sampled, mu)
        self._observed = axes[0].observed, axes[1].observed
        self._system = _OfAllItems(axes, sampled, weights, self.whole)
        self._row, self._col = (_IdentityAxis(axis.basis, axis.lam, axis.identity) for axis in axes)
        (n, l), a, b = sampled.shape, len(self._row.root), len(self._col.root)
        self._shapes = ((a, b), (n, b), (a, l))
        self.size = a * b + n * b + a * l
        self._width = ARRAYS * max(1, self.size)

    def fit(self, values: Floats, solver: PCG) -> CoreResult:
        """The solution if these values had been observed: x = Psi^T d in the bases of all items."""
        sampled = replace(self.original, values=values)
        system = IdentitySystem(self._observed, sampled, self.sampled.weights)
        solved = solver.solve_system(system, self.mu)
        return replace(solved, core=self._system.from_dual(solved.dual))

    def draw(self, rng: np.random.Generator) -> Floats:
        """x from its prior, a standard normal on the space of the unknowns."""
        drawn: Floats = self._system.within(rng.standard_normal((1, self.size)))[0]
        return drawn

    # Coordinates.

    @cached_property
    def _both(self) -> Floats:
        """Square roots of the eigenvalues on U_w x U_h."""
        row, col = self._row, self._col
        lam_w, lam_h = row.root[:, None] ** 2, col.root**2
        return np.asarray(np.sqrt(lam_w * lam_h + lam_w * col.identity + row.identity * lam_h))

    def _psi(self, targets: Queries) -> Floats:
        """psi of each entry, blocks X, Y and Z one after the other."""
        row, col = self._row, self._col
        rows_w, in_r = row.items(targets.row, targets.at_r)
        rows_h, in_c = col.items(targets.col, targets.at_c)
        smooth_r, smooth_c = in_r * row.root, in_c * col.root
        x = smooth_r[:, :, None] * (smooth_c + col.identity * rows_h)[:, None, :]
        x += row.identity * rows_w[:, :, None] * smooth_c[:, None, :]
        x /= _nonzero(self._both)
        y = row.outside(targets.rows, rows_w)[:, :, None] * in_c[:, None, :]
        z = in_r[:, :, None] * col.outside(targets.cols, rows_h)[:, None, :]
        return np.hstack([block.reshape(len(targets), -1) for block in (x, y, z)])

    def _coordinates(self, targets: Queries) -> Floats:
        """u of each entry."""
        psi = self._psi(targets)
        if self.effects is None:
            return psi
        share = _dense(self.effects.solve(self.effects.design(targets.rows, targets.cols)))
        taken = self._observed_design @ share.T
        sampled = replace(self.original, values=taken, effects=None)
        return psi - IdentitySystem(self._system.axes, sampled, self.sampled.weights).rhs()

    @cached_property
    def _observed_design(self) -> sp.csr_array:
        """Z of the observed entries."""
        assert self.effects is not None
        return self.effects.design(self.sampled.rows, self.sampled.cols)

    def tables(self, x: Floats) -> tuple[Floats, Floats]:
        """Two tables: the product of row i of one and row j of the other is psi_ij^T x."""
        row, col = self._row, self._col
        ends = np.cumsum([n * l for n, l in self._shapes])[:2]
        a, b, c = (
            part.reshape(shape) for part, shape in zip(np.split(x, ends), self._shapes, strict=True)
        )
        left = row.basis @ (self._both * a) + np.sqrt(row.identity) * b * col.root
        right = np.sqrt(col.identity) * c.T * row.root
        return np.hstack([left, row.basis]), np.hstack([col.basis, right])

    # Variances.

    def _solve(self, u: Floats, tol: float) -> Floats:
        return solve_many(self._system, self.whole, u, tol)

    @cached_property
    def _taken(self) -> sp.csr_array:
        """1 - c of the observed entries."""
        return self.sampled.sparse(self.entry_identity / self.whole * self.sampled.root_weights**2)

    def _rest(self, targets: Queries) -> Floats:
        """c of each entry: what an observation of the entry itself leaves of it."""
        out = np.ones(len(targets))
        known = np.flatnonzero((targets.rows >= 0) & (targets.cols >= 0))
        if len(known):
            taken = self._taken[targets.rows[known], targets.cols[known]]
            out[known] -= np.asarray(taken).ravel()
        return out

    def _variance(self, targets: Queries) -> Floats:
        psi = self._psi(targets)
        known = (targets.rows >= 0) & (targets.cols >= 0)
        squares = np.einsum("ij,ij->i", psi, psi)
        unshared = np.where(known, self.entry_identity, np.maximum(targets.prior - squares, 0.0))
        u = psi if self.effects is None else self._coordinates(targets)
        # The error of u^T x is the square of that of x, in the norm of the system.
        shared = np.einsum("ij,ij->i", u, self._solve(u, np.sqrt(TOL)))
        shared += self._effects_variance(targets)
        rest = self._rest(targets)
        return np.asarray(unshared * rest + rest**2 * self.whole * shared)

    def covariance(self, left: Queries, right: Queries) -> Floats:
        """See :class:`Posterior`."""
        out = np.empty((len(left), len(right)))
        for part in self._chunks(len(right)):
            out[:, part] = self._covariance(left, right.take(part))
        out *= self.whole * np.outer(self._rest(left), self._rest(right))
        same = (left.rows[:, None] == right.rows) & (left.cols[:, None] == right.cols)
        at, _ = np.nonzero(same)
        out[same] += self.entry_identity * self._rest(left)[at]
        return out

    def _covariance(self, left: Queries, right: Queries) -> Floats:
        """u^T S^-1 u + z^T E^-1 z."""
        out = np.empty((len(left), len(right)))
        moments = []
        for k, x in enumerate(self._solve(self._coordinates(right), TOL)):
            tables = self.tables(x)
            out[:, k] = pair_products(*tables, left.rows, left.cols)
            if self.effects is not None:
                seen = pair_products(*tables, self.sampled.rows, self.sampled.cols)
                moments.append(self._observed_design.T @ (self.sampled.root_weights**2 * seen))
        if self.effects is not None:
            share = self.effects.solve(self.effects.design(left.rows, left.cols))
            z = self.effects.design(right.rows, right.cols).toarray()
            out += np.asarray(share @ (z.T - np.array(moments).T))
        return out


def _nonzero(values: Floats) -> Floats:
    """To divide by: what is zero over zero stays zero."""
    return np.where(values > 0, values, 1.0)


def _dense(matrix: sp.csr_array | Floats) -> Floats:
    return matrix if isinstance(matrix, np.ndarray) else np.asarray(matrix.toarray())

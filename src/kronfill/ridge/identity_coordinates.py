"""Coordinates of functions for kernels with an identity part, K = Phi Phi^T + e I on either axis.

In orthonormal bases U of the ranges of the factors, K_h (x) K_w - e_w e_h I has the eigenvalues
(lambda_w + e_w)(lambda_h + e_h) - e_w e_h, which differ from zero on three orthogonal blocks:

    X    U_w x U_h                      (lambda_w + e_w)(lambda_h + e_h) - e_w e_h
    Y    complement of U_w x U_h        e_w lambda_h
    Z    U_w x complement of U_h        lambda_w e_h

so that f = (U_w (s_X o X) + Y s_Y) U_h^T + U_w (s_Z Z) with U_w^T Y = 0 and Z U_h = 0. No basis of
a complement is needed: a projection keeps Y and Z there. The preconditioner of X is that of two
factors with the eigenvalues lambda + e; those of Y and Z are diagonal, one number per item and
mode, from the counts of the item and the rate at which the mode is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from kronfill._types import Floats
from kronfill.core.products import matmul, transposed_matmul
from kronfill.ridge.problem import FactorPlusIdentityLike

__all__ = ["Coordinates", "EigenAxis", "ObservedPreconditioner"]

NEGLIGIBLE = 1e-3
"""Share of mu below which an eigenvalue counts for nothing in a preconditioner."""


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
    def of(
        cls, kernel: FactorPlusIdentityLike, counts: Floats, *, centred: bool = False
    ) -> EigenAxis:
        """The axis of a kernel with these numbers of observations, less the mean if centred."""
        phi = kernel.factor.phi
        if centred:
            phi = phi - (counts @ phi) / counts.sum()
        return cls._of_factor(phi, kernel.identity, counts)

    @classmethod
    def _of_factor(cls, phi: Floats, identity: float, counts: Floats) -> EigenAxis:
        # Phi Phi^T = U diag(lam) U^T: rounding is that of its own entries, as in Phi Phi^T + e I.
        if phi.shape[1] < len(phi):
            q, r = scipy.linalg.qr(phi, mode="economic", check_finite=False)
            lam, u = scipy.linalg.eigh(r @ r.T, check_finite=False)
            basis = np.ascontiguousarray(q @ u)
        else:
            lam, basis = scipy.linalg.eigh(phi @ phi.T, check_finite=False)
        lam = np.maximum(lam, 0.0)
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


class Coordinates:
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
        self._all = Coordinates(row, col, np.float64)
        self._some = Coordinates(row.observed, col.observed, np.float64)
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

r"""The system of a ridge problem in tridiagonal form: one reduction, then every mu is cheap.

With s = sqrt(w), y~ = s o y, Z~ = diag(s) Z and A = diag(s) Kbar diag(s) + mu I, all that the
criteria need is in

    M = A^-1 - A^-1 Z~ (Z~^T A^-1 Z~)^+ Z~^T A^-1,

which is mu^-1 times the matrix that takes y~ to its residual. Let P be the projector onto the
complement of range(Z~) and r the rank of Z~. Two forms of the same M, whichever is smaller:

* dual, with P = Q Q^T and Q^T diag(s) Kbar diag(s) Q = V T V^T, B = Q V (m x (m - r)):

      M = B (T + mu I)^-1 B^T;

* primal, with Psi = diag(s) times the sampled products of the factors (m x a b),
  Psi^T P Psi = V T V^T and U = P Psi V:

      M = (P - U (T + mu I)^-1 U^T) / mu.

T is tridiagonal, so that V costs half of an eigendecomposition and (T + mu I)^-1 a pass of length
m (or a b) for each mu.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
import scipy.linalg

from kronfill._types import Floats
from kronfill.core.limits import CHUNK_FLOATS
from kronfill.core.memory import require_memory
from kronfill.ridge.effects import EffectsDesign, half_inverse
from kronfill.ridge.problem import RidgeProblem, Sampled
from kronfill.solvers.dense import entry_kernel
from kronfill.solvers.primal import effects_blocks, normal_equations

__all__ = ["DualForm", "PrimalForm", "Reduced", "Tridiagonal", "effects_basis"]


BLOCK = 64


@numba.njit(cache=True)
def _factorise(d, e, mus, ratio, inverse):  # type: ignore[no-untyped-def]
    """T + mu I = L D L^T for each mu: subdiagonal of L and 1 / D, one column per mu."""
    for t in range(len(mus) if len(d) else 0):
        pivot = d[0] + mus[t]
        inverse[0, t] = 1.0 / pivot
        for j in range(1, len(d)):
            ratio[j, t] = e[j - 1] / pivot
            pivot = d[j] + mus[t] - e[j - 1] * ratio[j, t]
            inverse[j, t] = 1.0 / pivot


@numba.njit(cache=True, fastmath={"contract"})
def _quadratic_rows(b, ratio, inverse, out):  # type: ignore[no-untyped-def]
    """out[i, t] = b_i (T + mu_t I)^-1 b_i^T for each row of b: w = L^-1 b_i, then w^T D^-1 w."""
    size, count = ratio.shape
    for i in range(len(b)):
        w = np.zeros(count)
        total = np.zeros(count)
        for j in range(size):
            x = b[i, j]
            for t in range(count):
                w[t] = x - ratio[j, t] * w[t]
                total[t] += w[t] * w[t] * inverse[j, t]
        out[i] = total


@numba.njit(cache=True)
def _solve(ratio, inverse, x):  # type: ignore[no-untyped-def]
    """Overwrite each column t of x with (T + mu_t I)^-1 times it."""
    size, count = x.shape
    for j in range(1, size):
        for t in range(count):
            x[j, t] -= ratio[j, t] * x[j - 1, t]
    for t in range(count if size else 0):
        x[size - 1, t] *= inverse[size - 1, t]
    for j in range(size - 2, -1, -1):
        for t in range(count):
            x[j, t] = x[j, t] * inverse[j, t] - ratio[j + 1, t] * x[j + 1, t]


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """T of a symmetric positive semidefinite matrix V T V^T, and V (rows contiguous)."""

    diagonal: Floats
    beside: Floats
    turn: Floats

    @classmethod
    def of(cls, symmetric: Floats) -> Tridiagonal:
        """Reduce a symmetric matrix (C-ordered, overwritten)."""
        size = len(symmetric)
        if size < 3:  # LAPACK's reflectors start at three rows
            diagonal = np.array(np.diagonal(symmetric))
            beside = np.array(np.diagonal(symmetric, -1))
            return cls(_lifted(diagonal, beside), beside, np.eye(size))
        packed, diagonal, beside, tau, _ = scipy.linalg.lapack.dsytrd(
            symmetric.T, lower=1, lwork=32 * size, overwrite_a=1
        )
        reflectors = np.array(packed[1:, :-1], order="F")
        inner, _, _ = scipy.linalg.lapack.dorgqr(reflectors, tau, lwork=32 * size, overwrite_a=1)
        turn = np.zeros((size, size))
        turn[0, 0] = 1.0
        turn[1:, 1:] = inner
        return cls(_lifted(diagonal, beside), beside, turn)

    def shifted(self, mus: Floats) -> Shifted:
        """(T + mu I)^-1 for these values of mu."""
        ratio = np.zeros((len(self.diagonal), len(mus)))
        inverse = np.empty_like(ratio)
        _factorise(self.diagonal, self.beside, mus, ratio, inverse)
        return Shifted(ratio, inverse)


def _lifted(diagonal: Floats, beside: Floats) -> Floats:
    """The diagonal, raised by what rounding has put below zero: T is positive semidefinite."""
    if len(diagonal) == 0:
        return diagonal
    lowest = scipy.linalg.eigh_tridiagonal(
        diagonal, beside, eigvals_only=True, select="i", select_range=(0, 0), check_finite=False
    )[0]
    return diagonal - min(float(lowest), 0.0)


@dataclass(frozen=True, eq=False)
class Shifted:
    """T + mu I = L D L^T for several values of mu, one column each."""

    ratio: Floats
    inverse: Floats

    def quadratic(self, rows: Floats) -> Floats:
        """b (T + mu I)^-1 b^T for each row b and each mu, shape (rows, mus)."""
        out = np.empty((len(rows), self.ratio.shape[1]))
        _quadratic_rows(rows, self.ratio, self.inverse, out)
        return out

    def solve(self, vector: Floats) -> Floats:
        """(T + mu I)^-1 vector, one column per mu."""
        out = np.repeat(vector[:, None], self.ratio.shape[1], axis=1)
        _solve(self.ratio, self.inverse, out)
        return out

    def solve_many(self, vectors: Floats, at: int) -> Floats:
        """(T + mu I)^-1 vectors for the mu at position ``at``."""
        out = np.array(vectors)
        wide = (len(vectors), vectors.shape[1])
        ratio = np.ascontiguousarray(np.broadcast_to(self.ratio[:, at, None], wide))
        inverse = np.ascontiguousarray(np.broadcast_to(self.inverse[:, at, None], wide))
        _solve(ratio, inverse, out)
        return out

    @property
    def logdet(self) -> Floats:
        """log det(T + mu I) for each mu."""
        return np.asarray(-np.log(self.inverse).sum(axis=0))


class Reduced(ABC):
    """M of a ridge problem, ready for any mu."""

    root: Floats
    """Square roots of the weights."""
    freedom: int
    """m - r: observations less the rank of the effects."""
    free: Floats
    """Diagonal of P: 0 where an entry alone determines an effect."""

    @abstractmethod
    def parts(self, mus: Floats) -> tuple[Floats, Floats]:
        """Diagonal of M and M y~, each of shape (mus, m)."""

    @abstractmethod
    def energy(self, mus: Floats) -> tuple[Floats, Floats]:
        """y~^T M y~ and the log determinant of A on the complement of the effects."""


@dataclass(frozen=True, eq=False)
class DualForm(Reduced):
    """M = B (T + mu I)^-1 B^T."""

    root: Floats
    freedom: int
    free: Floats
    form: Tridiagonal
    basis: Floats
    """B."""
    moments: Floats
    """B^T y~."""
    effects: Floats
    """Orthonormal basis Q_1 of range(Z~), m x r."""
    coupling: Floats
    """Q_1^T diag(s) Kbar diag(s) Q, r x (m - r)."""

    @classmethod
    def of(cls, problem: RidgeProblem) -> DualForm:
        """Reduce the kernel over the observed entries."""
        s = problem.sampled
        advice = "Use fewer observations, or kernels of low rank."
        require_memory(24.0 * s.m**2, f"The reduction of {s.m:,} observed entries", advice)
        root, kernel = s.root_weights, _mirrored(entry_kernel(problem))
        target = root * s.values
        if s.effects is None:
            form = Tridiagonal.of(kernel)
            nothing = np.zeros((s.m, 0))
            moments = form.turn.T @ target
            return cls(
                root, s.m, np.ones(s.m), form, form.turn, moments, nothing, np.zeros((0, s.m))
            )
        design = _Reflected.of(root[:, None] * s.effects.matrix().toarray())
        turned = design.both_sides(kernel)
        r = design.rank
        form = Tridiagonal.of(np.ascontiguousarray(turned[r:, r:]))
        basis = design.outside(form.turn)
        first = design.inside()
        free = np.maximum(1.0 - np.einsum("ij,ij->i", first, first), 0.0)
        coupling = np.array(turned[:r, r:])
        return cls(root, s.m - r, free, form, basis, basis.T @ target, first, coupling)

    def parts(self, mus: Floats) -> tuple[Floats, Floats]:
        """See :class:`Reduced`."""
        shifted = self.form.shifted(mus)
        return shifted.quadratic(self.basis).T, (self.basis @ shifted.solve(self.moments)).T

    def energy(self, mus: Floats) -> tuple[Floats, Floats]:
        """See :class:`Reduced`."""
        shifted = self.form.shifted(mus)
        return self.moments @ shifted.solve(self.moments), shifted.logdet


def _mirrored(lower: Floats) -> Floats:
    """Write the lower triangle into the upper one."""
    for start in range(0, len(lower), BLOCK):
        rows = slice(start, start + BLOCK)
        square = lower[rows, rows]
        square[...] = np.tril(square) + np.tril(square, -1).T
        lower[:start, rows] = lower[rows, :start].T
    return lower


@dataclass(frozen=True, eq=False)
class _Reflected:
    """Q_1 and Q of range(Z~) and its complement, as Householder reflectors."""

    packed: Floats
    tau: Floats
    rank: int

    @classmethod
    def of(cls, design: Floats) -> _Reflected:
        size = np.linalg.norm(design, axis=0)
        # Unit columns: an effect of little weight is none the less one.
        unit = np.divide(design, size, out=np.zeros_like(design), where=size > 0)
        packed, _, tau, _, _ = scipy.linalg.lapack.dgeqp3(np.asfortranarray(unit))
        left = np.abs(np.diagonal(packed))
        rank = int(np.sum(left > 1e-10 * left[0]))
        return cls(np.asfortranarray(packed[:, :rank]), tau[:rank], rank)

    def _times(self, c: Floats, side: str, trans: str) -> Floats:
        lwork = 64 * max(c.shape)
        out, _, _ = scipy.linalg.lapack.dormqr(side, trans, self.packed, self.tau, c, lwork)
        return np.asarray(out)

    def both_sides(self, symmetric: Floats) -> Floats:
        """[Q_1 Q]^T K [Q_1 Q]."""
        half = self._times(np.asfortranarray(symmetric), "L", "T")
        return self._times(np.asfortranarray(half), "R", "N")

    def outside(self, inner: Floats) -> Floats:
        """Q inner, rows contiguous."""
        padded = np.zeros((len(self.packed), inner.shape[1]), order="F")
        padded[self.rank :] = inner
        return np.ascontiguousarray(self._times(padded, "L", "N"))

    def inside(self) -> Floats:
        """Q_1."""
        padded = np.eye(len(self.packed), self.rank, order="F")
        return np.ascontiguousarray(self._times(padded, "L", "N"))


def effects_basis(sampled: Sampled) -> Floats:
    """Orthonormal basis of range(Z~), m x r; r = 0 without effects."""
    if sampled.effects is None:
        return np.zeros((sampled.m, 0))
    design = sampled.root_weights[:, None] * sampled.effects.matrix().toarray()
    return _Reflected.of(design).inside()


@dataclass(frozen=True, eq=False)
class PrimalForm(Reduced):
    """M = (P - U (T + mu I)^-1 U^T) / mu, rows of U made in chunks."""

    root: Floats
    freedom: int
    free: Floats
    form: Tridiagonal
    factors: tuple[Floats, Floats]
    sampled: Sampled
    moments: Floats
    """U^T y~."""
    rest: Floats
    """P y~."""
    removed: Floats
    """Effects of the columns of U before P: what P takes off, one line per effect."""

    @classmethod
    def of(cls, row_phi: Floats, col_phi: Floats, sampled: Sampled) -> PrimalForm:
        """Reduce the normal equations of two factors."""
        s, unknowns = sampled, row_phi.shape[1] * col_phi.shape[1]
        advice = "Use smaller ranks."
        require_memory(24.0 * unknowns**2, f"The reduction of {unknowns:,} unknowns", advice)
        gram, moment = normal_equations(row_phi, col_phi, s)
        form = Tridiagonal.of(gram)
        rest, free, freedom = s.values, np.ones(s.m), s.m
        removed = np.zeros((0, unknowns))
        if s.effects is not None:
            rest = s.effects.remove(s.values)
            cross, effects_gram, _ = effects_blocks(row_phi, col_phi, s, s.effects)
            half = half_inverse(effects_gram)
            inverse = half @ half.T
            free, freedom = _not_determined(s.effects, inverse, s), s.m - half.shape[1]
            removed = inverse @ cross.T @ form.turn
        return cls(
            s.root_weights, freedom, free, form, (row_phi, col_phi), s,
            form.turn.T @ moment, s.root_weights * rest, removed,
        )  # fmt: skip

    def _rows(self) -> Iterator[tuple[slice, Floats]]:
        """Rows of U, a part of the observations at a time."""
        s, (p, q) = self.sampled, self.factors
        unknowns = len(self.form.diagonal)
        design = None if s.effects is None else s.effects.matrix()
        step = max(1, CHUNK_FLOATS // max(1, unknowns))
        for start in range(0, s.m, step):
            part = slice(start, min(start + step, s.m))
            psi = p[s.rows[part], :, None] * q[s.cols[part], None, :]
            u = psi.reshape(-1, unknowns) @ self.form.turn
            if design is not None:
                u -= design[part] @ self.removed
            u *= self.root[part, None]
            yield part, u

    def parts(self, mus: Floats) -> tuple[Floats, Floats]:
        """See :class:`Reduced`."""
        shifted = self.form.shifted(mus)
        coef = shifted.solve(self.moments)
        diagonal = np.empty((len(mus), self.sampled.m))
        applied = np.empty_like(diagonal)
        for part, u in self._rows():
            diagonal[:, part] = (self.free[part, None] - shifted.quadratic(u)).T / mus[:, None]
            applied[:, part] = (self.rest[part, None] - u @ coef).T / mus[:, None]
        return diagonal, applied

    def energy(self, mus: Floats) -> tuple[Floats, Floats]:
        """See :class:`Reduced`."""
        shifted = self.form.shifted(mus)
        explained = self.moments @ shifted.solve(self.moments)
        outside = self.freedom - len(self.form.diagonal)
        return (self.rest @ self.rest - explained) / mus, shifted.logdet + outside * np.log(mus)


def _not_determined(effects: EffectsDesign, inverse: Floats, s: Sampled) -> Floats:
    """Diagonal of P: 1 - w z^T (Z^T W Z)^+ z."""
    design = effects.matrix()
    leverage = np.empty(s.m)
    step = max(1, CHUNK_FLOATS // len(inverse))
    for start in range(0, s.m, step):
        part = slice(start, start + step)
        z = design[part]
        leverage[part] = np.asarray((z.multiply(z @ inverse)).sum(axis=1)).ravel()
    return np.asarray(np.maximum(1.0 - s.weights_or_ones * leverage, 0.0))

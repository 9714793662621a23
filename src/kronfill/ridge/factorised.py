"""S + mu I, factorised once: to solve with, to whiten with, for its determinant.

S is symmetric and, but for rounding, positive semidefinite. A Cholesky factorisation is all that is
needed where mu stands above the rounding of S. Where it does not, that fails, or a direction of
rounding size divided by a tiny mu swamps the solution: eigenvalues tell such directions apart.
Every dense factorisation of a ridge problem is made here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from kronfill._types import Flags, Floats
from kronfill.core.memory import KEPT_BYTES

__all__ = [
    "CholeskyFactor", "EigenFactor", "Factorised", "SolvedSystem", "above_rounding",
    "factorised",
]  # fmt: skip

DISTINCT = 1e-6
"""Rounding errors of eigenvalues below this share of mu do no harm."""


class Factorised(ABC):
    """A = S + mu I; with R^T R = A^-1 a vector is whitened by R."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Number of directions that :meth:`solve` does not leave out."""

    @abstractmethod
    def solve(self, b: Floats) -> Floats:
        """A^-1 b, less what cannot be told from rounding."""

    @abstractmethod
    def whiten(self, b: Floats) -> Floats:
        """R b."""

    @abstractmethod
    def whiten_adjoint(self, b: Floats) -> Floats:
        """R^T b."""

    @property
    @abstractmethod
    def logdet(self) -> float:
        """log det A."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Memory that it takes."""


@dataclass(frozen=True, eq=False)
class CholeskyFactor(Factorised):
    """A = L L^T, or A = U^T U.

    Attributes
    ----------
    triangle : ndarray of shape (n, n)
        L or U, column-major; the other triangle is not to be read.
    lower : bool
        Whether it is L.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.ridge.factorised import CholeskyFactor
    >>> factor = CholeskyFactor.of(np.array([[3.0, 2.0], [2.0, 4.0]]), mu=1.0)
    >>> factor.solve(np.array([6.0, 7.0]))  # [[4, 2], [2, 5]]^-1 [6, 7]
    array([1., 1.])
    """

    triangle: Floats
    lower: bool

    @classmethod
    def of(
        cls, matrix: Floats, mu: float = 0.0, *, overwrite: bool = False
    ) -> CholeskyFactor | None:
        """Factorise the matrix with this lower triangle, plus mu I; None if rounding forbids it.

        It is done in place of ``matrix`` (``overwrite``) or of a copy: the lower triangle of a
        row-major matrix is the upper one of a column-major matrix, which is what LAPACK takes.
        """
        a = matrix if overwrite else matrix.copy(order="K")
        if mu:
            a[np.diag_indices_from(a)] += mu
        lower = a.flags.f_contiguous
        triangle, info = lapack.dpotrf(a if lower else a.T, lower=lower, clean=0, overwrite_a=1)
        return cls(triangle, lower) if info == 0 else None

    @property
    def rank(self) -> int:
        """See :class:`Factorised`: all."""
        return len(self.triangle)

    def solve(self, b: Floats) -> Floats:
        """See :class:`Factorised`."""
        pair = (self.triangle, self.lower)
        return np.asarray(scipy.linalg.cho_solve(pair, b, check_finite=False))

    def whiten(self, b: Floats) -> Floats:
        """See :class:`Factorised`: L^-1 b."""
        return self._solve_triangle(b, transposed=not self.lower)

    def whiten_adjoint(self, b: Floats) -> Floats:
        """See :class:`Factorised`: L^-T b."""
        return self._solve_triangle(b, transposed=self.lower)

    def _solve_triangle(self, b: Floats, *, transposed: bool) -> Floats:
        return np.asarray(
            scipy.linalg.solve_triangular(
                self.triangle, b, lower=self.lower, trans=int(transposed), check_finite=False
            )
        )

    @property
    def logdet(self) -> float:
        """See :class:`Factorised`."""
        return 2 * float(np.log(np.diagonal(self.triangle)).sum())

    @property
    def nbytes(self) -> int:
        """See :class:`Factorised`."""
        return self.triangle.nbytes

    def into_inverse(self) -> Floats:
        """The lower triangle of A^-1, in place of the factor; the rest is not written."""
        inverse, _ = lapack.dpotri(self.triangle, lower=self.lower, overwrite_c=1)
        return np.asarray(inverse if self.lower else inverse.T)


@dataclass(frozen=True, eq=False)
class EigenFactor(Factorised):
    """A by the eigenvalues and eigenvectors of S.

    A solution leaves out the directions that cannot be told from rounding. Whitening keeps them,
    none with less than the eigenvalue 0: of what was not observed, the prior is known.
    """

    values: Floats
    vectors: Floats
    mu: float
    kept: Flags
    """Which directions can be told from rounding: those of a solution."""

    @classmethod
    def of(
        cls,
        matrix: Floats,
        mu: float,
        *,
        noise: float | None = None,
        margin: float = DISTINCT,
        overwrite: bool = False,
    ) -> EigenFactor:
        """Factorise the matrix with this lower triangle; see :func:`above_rounding`."""
        if len(matrix) == 0:
            return cls(np.zeros(0), np.zeros((0, 0)), mu, np.zeros(0, bool))
        values, vectors = scipy.linalg.eigh(
            matrix, lower=True, overwrite_a=overwrite, check_finite=False
        )
        kept = above_rounding(values, mu, len(values), noise=noise, margin=margin)
        return cls(values, vectors, mu, kept)

    @property
    def rank(self) -> int:
        """See :class:`Factorised`."""
        return int(self.kept.sum())

    @cached_property
    def _kept_part(self) -> tuple[Floats, Floats]:
        return self.values[self.kept] + self.mu, self.vectors[:, self.kept]

    def solve(self, b: Floats) -> Floats:
        """See :class:`Factorised`."""
        scale, vectors = self._kept_part
        return np.asarray(vectors @ ((vectors.T @ b) / scale.reshape(-1, *[1] * (b.ndim - 1))))

    @cached_property
    def _root(self) -> Floats:
        return np.asarray(self.vectors / np.sqrt(np.maximum(self.values, 0.0) + self.mu))

    def whiten(self, b: Floats) -> Floats:
        """See :class:`Factorised`."""
        return np.asarray(self._root.T @ b)

    def whiten_adjoint(self, b: Floats) -> Floats:
        """See :class:`Factorised`."""
        return np.asarray(self._root @ b)

    @property
    def logdet(self) -> float:
        """See :class:`Factorised`."""
        return float(np.log(np.maximum(self.values, 0.0) + self.mu).sum())

    @property
    def nbytes(self) -> int:
        """See :class:`Factorised`: with what is made of the eigenvectors on first use."""
        return 3 * self.vectors.nbytes


def above_rounding(
    values: Floats, mu: float, size: int, *, noise: float | None = None, margin: float = DISTINCT
) -> Flags:
    """Directions to keep: all if mu stands well above rounding, else those that do themselves.

    Parameters
    ----------
    values : ndarray
        Eigenvalues.
    mu : float
        Ridge weight.
    size : int
        Number of terms of the sums behind an eigenvalue.
    noise : float, optional
        Rounding error of the eigenvalues; by default that of ``size`` terms of the largest.
    margin : float, default=1e-6
        Share of mu that rounding may reach. In the dual system a direction of rounding size has no
        part in f, but a full one in y: divided by a tiny mu it would swamp d.
    """
    if noise is None:
        noise = size * float(np.finfo(float).eps) * float(values.max())
    return np.asarray((values > noise) | (mu * margin > noise))


def factorised(
    matrix: Floats, mu: float, *, noise: float | None = None, margin: float = DISTINCT
) -> Factorised:
    """The matrix with this lower triangle, plus mu I: by Cholesky, where that fails by eigenvalues.

    Cholesky is not tried on a matrix without rows, nor where mu is below a ``noise`` that is known.
    """
    factor = None
    if len(matrix) and (noise is None or mu > noise):
        factor = CholeskyFactor.of(matrix, mu)
    return EigenFactor.of(matrix, mu, noise=noise, margin=margin) if factor is None else factor


@dataclass(frozen=True, eq=False)
class SolvedSystem:
    """What a direct solver leaves behind, for variances and updates of the same fit.

    Attributes
    ----------
    factor : Factorised
        The m x m dual system diag(s) Kbar diag(s) + mu I; or, in the space of two factors, the
        normal equations with the effects eliminated.
    row_phi, col_phi : ndarray or None
        These factors; None for the dual system.
    effects : str or None
        Which effects were eliminated from the normal equations.
    """

    factor: Factorised
    row_phi: Floats | None = None
    col_phi: Floats | None = None
    effects: str | None = None

    @classmethod
    def if_small(cls, factor: Factorised, *more: Any) -> SolvedSystem | None:
        """The system, unless it is too large to be kept."""
        return cls(factor, *more) if factor.nbytes <= KEPT_BYTES else None

    @property
    def dual(self) -> Factorised | None:
        """The factor, if it is that of the dual system."""
        return self.factor if self.row_phi is None else None

    def in_factors(
        self, row_phi: Floats, col_phi: Floats, effects: str | None
    ) -> Factorised | None:
        """The factor, if it is that of the normal equations of these factors and effects."""
        if self.row_phi is None or self.col_phi is None or self.effects != effects:
            return None
        same = np.array_equal(self.row_phi, row_phi) and np.array_equal(self.col_phi, col_phi)
        return self.factor if same else None

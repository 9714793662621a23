"""The Laplacian of a graph, and the functions of it that are kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, lapack
from scipy.special import ive

from kronfill._stored import (
    Stored,
    Tests,
    count,
    flag,
    positive,
    positive_floats,
    real,
    sparse_floats,
)
from kronfill._types import Floats, Index
from kronfill.data.arrays import frozen, nbytes_of
from kronfill.errors import KernelError

__all__ = [
    "Diffusion",
    "LaplacianFunction",
    "Operator",
    "RandomWalk",
    "RegularizedLaplacian",
    "SparseLaplacian",
    "chebyshev",
    "dense_laplacian",
    "direct_solver",
]

# K @ V for a C-contiguous (n, k) array V; the result is a new array.
Operator = Callable[[Floats], Floats]

# What a cut series or an inexact solve may be off by, against a kernel of norm one.
_TRUNCATION = 1e-16
_SOLVED = 1e-14
_MOST_ITERATIONS = 10_000
# Steps of a random walk that a file may ask for: each is a product.
_MOST_STEPS = 2**16


def dense_laplacian(weights: Any, normalized: bool) -> Floats:
    """Return L as a dense array; an isolated node has a row of zeros."""
    laplacian: Floats = -(weights.toarray() if sparse.issparse(weights) else weights)
    np.fill_diagonal(laplacian, 0.0)
    degree = -laplacian.sum(axis=1)
    if normalized:
        root = np.sqrt(degree)
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        laplacian *= inverse
        laplacian *= inverse[:, None]
        degree = (degree > 0).astype(np.float64)
    laplacian.flat[:: laplacian.shape[0] + 1] = degree
    return laplacian


@dataclass(frozen=True, eq=False)
class SparseLaplacian(Stored):
    """A Laplacian kept sparse, with what is known about its spectrum.

    Attributes
    ----------
    matrix : csr_array of shape (n, n)
        L, with its whole diagonal stored.
    top : float
        No eigenvalue is larger.
    still : ndarray of shape (n,)
        A positive vector with L still = 0; so is its part on any connected component.
    """

    matrix: Any
    top: float
    still: Floats
    stored: ClassVar[Tests] = {
        "matrix": sparse_floats,
        "top": lambda value: real(value) and value >= 0,
        "still": positive_floats,
    }

    def __post_init__(self) -> None:
        frozen(self.matrix)
        frozen(self.still)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A pickled array comes back writeable.
        self.__dict__.update(state)
        self.__post_init__()

    def _fits_together(self) -> bool:
        """Whether this is a Laplacian at all.

        Its diagonal is stored, nothing beside it is positive, and L still = 0. Then I + L has an
        inverse: still (I + L) still is dominated by its diagonal.
        """
        matrix, still, n = self.matrix, self.still, self.n
        if matrix.shape != (n, n) or still.shape != (n,):
            return False
        own = np.repeat(np.arange(n), np.diff(matrix.indptr)) == matrix.indices
        rounding = 1e-9 * float((abs(matrix) @ still).max())
        return (
            np.array_equal(np.sort(matrix.indices[own]), np.arange(n))
            and bool((matrix.data[~own] <= 0).all())
            and bool((np.abs(matrix @ still) <= rounding).all())
        )

    @classmethod
    def of(cls, weights: Any, normalized: bool) -> Self:
        """Build L from symmetric csr weights; self loops are ignored."""
        edges = weights.tocoo()
        off = (edges.row != edges.col) & (edges.data != 0)
        rows, cols, values = edges.row[off], edges.col[off], edges.data[off]
        n = int(weights.shape[0])
        degree = np.bincount(rows, values, minlength=n)
        if normalized:
            still = np.sqrt(np.where(degree > 0, degree, 1.0))
            values = values / (still[rows] * still[cols])
            diagonal, top = (degree > 0).astype(np.float64), 2.0
        else:
            still, diagonal = np.ones(n), degree.astype(np.float64)
            # Gershgorin's discs of D^-1 L D: degree plus the mean degree of the neighbours.
            around = np.bincount(rows, values * degree[cols], minlength=n)
            mean = np.divide(around, degree, out=np.zeros(n), where=degree > 0)
            top = float((degree + mean).max())
        everyone = np.arange(n)
        entries = np.concatenate([-values, diagonal])
        where = (np.concatenate([rows, everyone]), np.concatenate([cols, everyone]))
        return cls(sparse.csr_array((entries, where), shape=(n, n)), top, still)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.matrix.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return nbytes_of(self.matrix) + nbytes_of(self.still)

    def reordered(self, order: Index) -> SparseLaplacian:
        """Return the Laplacian of the same graph with its nodes in another order."""
        matrix = sparse.csr_array(self.matrix[order][:, order])
        return SparseLaplacian(matrix, self.top, self.still[order])


class LaplacianFunction(Stored, ABC):
    """A function f of which f, -f', f'' and -f''' are nowhere negative; the kernel is f(L)."""

    normalized: bool

    @abstractmethod
    def values(self, eigenvalues: Floats) -> Floats:
        """Return f at eigenvalues of L."""

    @abstractmethod
    def dense(self, laplacian: Floats) -> Floats:
        """Return f(L); the array `laplacian` may be overwritten."""

    @abstractmethod
    def operator(self, laplacian: SparseLaplacian) -> Operator:
        """Return the map V -> f(L) V, prepared for many products."""


@dataclass(frozen=True)
class Diffusion(LaplacianFunction):
    """``exp(-t L)``."""

    t: float
    normalized: bool
    stored: ClassVar[Tests] = {"t": positive, "normalized": flag}

    def values(self, eigenvalues: Floats) -> Floats:
        """See :class:`LaplacianFunction`."""
        return np.asarray(np.exp(-self.t * eigenvalues))

    def dense(self, laplacian: Floats) -> Floats:
        """See :class:`LaplacianFunction`."""
        values, vectors = eigh(laplacian, overwrite_a=True, check_finite=False)
        # exp(-t L) = (V exp(-t lambda / 2)) (V exp(-t lambda / 2))^T
        vectors *= np.exp(-0.5 * self.t * np.clip(values, 0.0, None))
        kernel: Floats = vectors @ vectors.T
        return kernel

    def operator(self, laplacian: SparseLaplacian) -> Operator:
        """See :class:`LaplacianFunction`."""
        return chebyshev(laplacian, self.t)


@dataclass(frozen=True)
class RegularizedLaplacian(LaplacianFunction):
    """``(I + sigma^2 L)^-1``."""

    sigma: float
    normalized: bool
    stored: ClassVar[Tests] = {"sigma": positive, "normalized": flag}

    def values(self, eigenvalues: Floats) -> Floats:
        """See :class:`LaplacianFunction`."""
        return np.asarray(1.0 / (1.0 + self.sigma**2 * eigenvalues))

    def dense(self, laplacian: Floats) -> Floats:
        """See :class:`LaplacianFunction`."""
        laplacian *= self.sigma**2
        laplacian.flat[:: laplacian.shape[0] + 1] += 1.0
        lower, info = lapack.dpotrf(laplacian, lower=1, overwrite_a=1)
        inverse, failed = lapack.dpotri(lower, lower=1, overwrite_c=1)
        if info or failed:
            raise KernelError(self._singular())
        inverse = np.tril(inverse)
        kernel: Floats = inverse + np.tril(inverse, -1).T
        return kernel

    def operator(self, laplacian: SparseLaplacian) -> Operator:
        """See :class:`LaplacianFunction`."""
        identity = sparse.eye_array(laplacian.n, format="csr")
        system = sparse.csr_array(identity + self.sigma**2 * laplacian.matrix)
        return direct_solver(system) or (lambda V: self._solve(system, V))

    def _solve(self, system: Any, V: Floats) -> Floats:
        """Conjugate gradients for all columns at once, preconditioned by the diagonal."""
        inverse = 1.0 / system.diagonal()[:, None]
        solved, residual = np.zeros_like(V), V.copy()
        step = inverse * residual
        slope = _dots(residual, step)
        goal = _SOLVED**2 * _dots(V, V)
        for _ in range(_MOST_ITERATIONS):
            if (_dots(residual, residual) <= goal).all():
                return solved
            image = system @ step
            length = _ratio(slope, _dots(step, image))
            solved += length * step
            residual -= length * image
            fresh = inverse * residual
            before, slope = slope, _dots(residual, fresh)
            step *= _ratio(slope, before)
            step += fresh
        raise KernelError(self._singular())

    def _singular(self) -> str:
        return f"I + sigma^2 L cannot be inverted for sigma = {self.sigma:g}; choose it smaller."


@dataclass(frozen=True)
class RandomWalk(LaplacianFunction):
    """``(a I - L)^steps`` with the normalised L."""

    steps: int
    a: float
    normalized: bool = field(default=True, init=False)
    stored: ClassVar[Tests] = {
        "steps": lambda value: count(value) and value <= _MOST_STEPS,
        "a": positive,
    }

    def values(self, eigenvalues: Floats) -> Floats:
        """See :class:`LaplacianFunction`."""
        return np.asarray((self.a - eigenvalues) ** self.steps)

    def dense(self, laplacian: Floats) -> Floats:
        """See :class:`LaplacianFunction`."""
        step = -laplacian
        step.flat[:: step.shape[0] + 1] += self.a
        power = np.linalg.matrix_power(step, self.steps)
        kernel: Floats = 0.5 * (power + power.T)
        return kernel

    def operator(self, laplacian: SparseLaplacian) -> Operator:
        """See :class:`LaplacianFunction`."""
        step = sparse.csr_array(self.a * sparse.eye_array(laplacian.n) - laplacian.matrix)

        def walk(V: Floats) -> Floats:
            for _ in range(self.steps):
                V = step @ V
            return V

        return walk


def chebyshev(laplacian: SparseLaplacian, t: float) -> Operator:
    """Return V -> exp(-t L) V, by its Chebyshev series on the interval of the spectrum.

    With L = h (I + Y), where Y has its spectrum in [-1, 1], ``exp(-t L) = exp(-t h) exp(-t h Y)``
    and ``exp(-z y) = I_0(z) + 2 sum_k (-1)^k I_k(z) T_k(y)`` with the modified Bessel functions
    I_k; of their order sqrt(z) terms count, and ``T_k+1 = 2 Y T_k - T_k-1``.
    """
    from kronfill.kernels.graphs.recurrence import chebyshev_sum

    half = 0.5 * laplacian.top or 1.0  # without edges any interval that holds 0 will do
    twice = (2.0 / half) * laplacian.matrix - 2.0 * sparse.eye_array(laplacian.n)
    twice = frozen(sparse.csr_array(twice))
    coefficients = _exponential_coefficients(t * half)
    return lambda V: chebyshev_sum(twice, coefficients, V)


def _exponential_coefficients(z: float) -> Floats:
    """Return the Chebyshev coefficients of exp(-z (1 + y)), as many as can be seen."""
    if not np.isfinite(ive(0, z)):  # asked before anything is as long as the root of z
        msg = f"t times the largest degree is {z:g}, too large for a kernel; choose t smaller."
        raise KernelError(msg)
    order = np.arange(int(10.0 * np.sqrt(z)) + 60)
    sizes = 2.0 * ive(order, z)
    sizes[0] *= 0.5
    rest = np.cumsum(sizes[::-1])[::-1]
    count = max(2, int(np.count_nonzero(rest > _TRUNCATION)))
    signed: Floats = (sizes * np.where(order % 2, -1.0, 1.0))[:count]
    return signed


def direct_solver(system: Any) -> Operator | None:
    """Return the solver by a sparse factorisation, or None where it would fill in.

    Planar graphs (grids, roads) have separators of about sqrt(n) nodes, and their factor stays
    sparse; that of a random graph is dense, and even its ordering takes minutes.
    """
    from scipy.sparse.linalg import splu

    if _envelope(system) > 2.0 * system.shape[0] ** 1.5:
        return None
    factor = splu(
        sparse.csc_array(system),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return lambda V: np.ascontiguousarray(factor.solve(V))


def _envelope(system: Any) -> float:
    """Count the entries between the first of each row and the diagonal, in a banded order.

    A factorisation in that order fills in no more than this.
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    order = reverse_cuthill_mckee(sparse.csr_matrix(system), symmetric_mode=True)
    place = np.empty(system.shape[0], dtype=np.int64)
    place[order] = np.arange(system.shape[0])
    # The diagonal is stored, so that no row is empty.
    first = np.minimum.reduceat(place[system.indices], system.indptr[:-1])
    return float(np.maximum(place - first, 0).sum())


def _dots(left: Floats, right: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->j", left, right))


def _ratio(above: Floats, below: Floats) -> Floats:
    """Divide; a column of zeros is solved already, and stays as it is."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

"""Exact solvers of the dual system (Kbar + mu I) d = y: Cholesky, and the complete grid.

With weights the symmetric form is used, s = sqrt(w):

    (diag(s) Kbar diag(s) + mu I) z = s o (y - Z beta),    d = s o z,

which needs no division by a weight. The effects follow from the generalised normal equations
(Z~^T A^-1 Z~) beta = Z~^T A^-1 y~ with Z~ = diag(s) Z.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numba
import numpy as np
import scipy.linalg

from kronfill._types import Floats, Index
from kronfill.core.memory import require_memory
from kronfill.core.threads import WIDE, each, one_blas_thread
from kronfill.errors import ParameterError
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.factorised import (
    CholeskyFactor,
    EigenFactor,
    SolvedSystem,
    above_rounding,
)
from kronfill.ridge.problem import (
    RidgeProblem,
    RidgeResult,
    RidgeSolver,
    Sampled,
    dual_residual,
    targets,
)
from kronfill.ridge.solution import Solution, Status

__all__ = ["Cholesky", "EntryKernel", "GridEigen", "entry_kernel", "probed_residual"]

Inverse = Callable[[Floats], Floats]

PROBES = 256
"""Entries at which the residual of a factorisation is measured."""
ONE_THREAD = 1500
"""Up to this many observations BLAS has one thread: its threads go on spinning after their work and
slow down what comes next."""
ROWS = 64
"""Rows of the kernel that a thread gathers at a time."""
TRUST = 1e-6
"""A measured relative residual above this means that rounding has spoilt a direct solve."""


@numba.njit(nogil=True, cache=True)
def _gather_row(kr, kc, at_r, at_c, root, a, out):  # type: ignore[no-untyped-def]
    """out[b] = K_w[r_a, r_b] K_h[c_a, c_b] s_a s_b for b >= a."""
    row_r = kr[at_r[a]]
    row_c = kc[at_c[a]]
    if len(root) == 0:
        for b in range(a, len(out)):
            out[b] = row_r[at_r[b]] * row_c[at_c[b]]
    else:
        for b in range(a, len(out)):
            out[b] = row_r[at_r[b]] * row_c[at_c[b]] * (root[a] * root[b])


@numba.njit(nogil=True, cache=True)
def _gather(kr, kc, at_r, at_c, root, first, last, out):  # type: ignore[no-untyped-def]
    for a in range(first, last):
        _gather_row(kr, kc, at_r, at_c, root, a, out[a])


@numba.njit(cache=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def _product_row(kr, kc, at_r, at_c, z, a):  # type: ignore[no-untyped-def]
    row_r = kr[at_r[a]]
    row_c = kc[at_c[a]]
    total = 0.0
    for b in range(len(z)):
        total += row_r[at_r[b]] * row_c[at_c[b]] * z[b]
    return total


@numba.njit(nogil=True, cache=True)
def _product(kr, kc, at_r, at_c, z, some, out):  # type: ignore[no-untyped-def]
    for a in range(len(some)):
        out[a] = _product_row(kr, kc, at_r, at_c, z, some[a])


class EntryKernel:
    """Kbar from the blocks of both kernels at the observed items."""

    def __init__(self, problem: RidgeProblem) -> None:
        s = problem.sampled
        (items_r, at_r), (items_c, at_c) = s.mask.observed()
        # Unsigned: the compiled loops need not ask whether an index counts from the end.
        self._at_r, self._at_c = at_r.astype(np.uintp), at_c.astype(np.uintp)
        kernels = ((problem.row_kernel, items_r), (problem.col_kernel, items_c))
        blocks: list[Floats] = [np.empty((0, 0))] * 2

        def make(axis: int) -> None:
            kernel, items = kernels[axis]
            blocks[axis] = np.ascontiguousarray(kernel.block(items, items))

        each(2, make)
        self._kr, self._kc = blocks
        self._root = np.empty(0) if s.weights is None else s.root_weights
        self.m = s.m

    def lower(self) -> Floats:
        """Lower triangle of diag(s) Kbar diag(s), column-major; the rest is not written."""
        m = self.m
        advice = "Use solver=kf.PCG(), which does without it, or fewer observations."
        require_memory(8.0 * m**2, f"The kernel over {m:,} observed entries", advice)
        out = np.empty((m, m))
        operands = (self._kr, self._kc, self._at_r, self._at_c, self._root)
        each(-(-m // ROWS), lambda i: _gather(*operands, i * ROWS, min(m, (i + 1) * ROWS), out))
        return out.T

    def times(self, z: Floats, some: Index) -> Floats:
        """Some entries of diag(s) Kbar diag(s) z."""
        out = np.empty(len(some))
        weighted = z if len(self._root) == 0 else self._root * z
        _product(self._kr, self._kc, self._at_r, self._at_c, weighted, some, out)
        return out if len(self._root) == 0 else self._root[some] * out


def entry_kernel(problem: RidgeProblem) -> Floats:
    """Lower triangle of diag(s) Kbar diag(s); the strict upper triangle is not written."""
    return EntryKernel(problem).lower()


def probed_residual(
    s: Sampled,
    z: Floats,
    effects: AdditiveEffects | None,
    mu: float,
    times: Callable[[Floats, Index], Floats],
    probes: int = PROBES,
) -> float:
    """Measured ||A z - s o (y - Z beta)|| / ||s o y||, d = s o z, at up to ``probes`` entries.

    ``times(z, some)`` are some entries of diag(s) Kbar diag(s) z. Rounding errors of a
    factorisation are spread over all entries.
    """
    root = s.root_weights
    rest = s.values if effects is None else s.values - effects.at(s.rows, s.cols)
    some = np.unique(np.linspace(0, s.m - 1, min(s.m, probes)).astype(np.intp))
    gap = times(z, some) + mu * z[some] - (root * rest)[some]
    norm = float(np.linalg.norm(gap)) * float(np.sqrt(s.m / len(some)))
    size = float(np.linalg.norm(root * s.values))
    return norm / size if size > 0 else norm


def _solve_with(inverse: Inverse, s: Sampled) -> tuple[Floats, AdditiveEffects | None]:
    """Dual vector and effects from a way to apply A^-1."""
    root = s.root_weights
    target = root * s.values
    if s.effects is None:
        return root * inverse(target), None
    design = root[:, None] * s.effects.matrix().toarray()
    solved = inverse(np.column_stack([target, design]))
    effects = s.effects.solve_normal(design.T @ solved[:, 1:], design.T @ solved[:, 0])
    rest = target - root * effects.at(s.rows, s.cols)
    return root * inverse(rest), effects


@dataclass(frozen=True)
class Cholesky(RidgeSolver):
    """Dense Cholesky factorisation of the m x m kernel over the observed entries, equation (5).

    Costs m^3/3 multiplications and 8 m^2 bytes. When the kernel is singular and mu below its
    rounding level, the factorisation fails or its residual shows it; then an eigendecomposition
    leaves out the directions that cannot be kept from rounding, and the status says so.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> X, y = np.array([[0, 0], [1, 1]]), np.array([1.0, 2.0])
    >>> est = kf.KKMCEX(np.eye(2), np.eye(2), mu=1.0, solver=kf.solvers.Cholesky()).fit(X, y)
    >>> est.dual_coef_
    array([0.5, 1. ])
    """

    def solve_targets(self, problem: RidgeProblem) -> list[RidgeResult]:
        """See :class:`RidgeSolver`: one factorisation for all targets."""
        with one_blas_thread(problem.sampled.m <= ONE_THREAD):
            kernel = EntryKernel(problem)
            triangle = CholeskyFactor.of(kernel.lower(), problem.mu, overwrite=True)
            eigen = cache(lambda: EigenFactor.of(kernel.lower(), problem.mu, overwrite=True))
            return [self._solve(one, kernel, triangle, eigen) for one in targets(problem)]

    def _solve(
        self,
        problem: RidgeProblem,
        kernel: EntryKernel,
        triangle: CholeskyFactor | None,
        eigen: Callable[[], EigenFactor],
    ) -> RidgeResult:
        system = SolvedSystem.if_small(eigen() if triangle is None else triangle)
        if triangle is not None:
            dual, effects = _solve_with(triangle.solve, problem.sampled)
            z = dual / problem.sampled.root_weights
            residual = probed_residual(problem.sampled, z, effects, problem.mu, kernel.times)
            if residual <= TRUST:
                solution = Solution(Status.EXACT, "Cholesky", residual=residual)
                return RidgeResult(dual, effects, solution, system=system)
        dual, effects = _solve_with(eigen().solve, problem.sampled)
        residual = dual_residual(problem, dual)
        status = Status.EXACT if eigen().kept.all() else Status.RANK_DEFICIENT
        solution = Solution(status, "Cholesky", residual=residual, rank=eigen().rank)
        return RidgeResult(dual, effects, solution, system=system)


@dataclass(frozen=True)
class GridEigen(RidgeSolver):
    """Eigendecomposition of both kernels, for a matrix that is observed everywhere.

    With K_w = U diag(s) U^T and K_h = V diag(t) V^T the solution of (5) is
    D = U [(U^T Y V) / (s t^T + mu)] V^T: N^3 + L^3 work instead of (N L)^3 / 3.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> X, y = np.argwhere(np.ones((2, 2))), np.array([1.0, 2.0, 3.0, 4.0])
    >>> est = kf.KKMCEX(np.eye(2), np.eye(2), mu=1.0, solver=kf.GridEigen()).fit(X, y)
    >>> est.predict_matrix()
    array([[0.5, 1. ],
           [1.5, 2. ]])
    """

    def solve_targets(self, problem: RidgeProblem) -> list[RidgeResult]:
        """See :class:`RidgeSolver`; an error if an entry is missing or weighted."""
        s = problem.sampled
        if not s.is_complete:
            msg = (
                f"GridEigen needs every entry observed and no weights; got {s.m} of "
                f"{s.shape[0] * s.shape[1]} entries"
                f"{'' if s.weights is None else ' with weights'}. Use solver='auto'."
            )
            raise ParameterError(msg)
        with one_blas_thread(max(s.shape) < WIDE):
            row, col = problem.row_kernel.block(), problem.col_kernel.block()
            grid = _Grid.of(row, col, problem)
            return [grid.solve(one) for one in targets(problem)]


@dataclass(frozen=True, eq=False)
class _Grid:
    """Both kernels with their eigenvectors, and 1 / (s t^T + mu), 0 for what is rounding."""

    row: Floats
    col: Floats
    row_vectors: Floats
    col_vectors: Floats
    scale: Floats
    rank: int

    @classmethod
    def of(cls, row: Floats, col: Floats, problem: RidgeProblem) -> _Grid:
        s, u = scipy.linalg.eigh(row, check_finite=False)
        t, v = scipy.linalg.eigh(col, check_finite=False)
        # The kernels are positive semidefinite: what is negative here is rounding.
        lam = np.outer(np.maximum(s, 0.0), np.maximum(t, 0.0))
        kept = above_rounding(lam, problem.mu, max(lam.shape))
        scale = np.divide(1.0, lam + problem.mu, out=np.zeros_like(lam), where=kept)
        return cls(row, col, u, v, scale, int(kept.sum()))

    def solve(self, problem: RidgeProblem) -> RidgeResult:
        """Solve for one target."""
        s, (u, v) = problem.sampled, (self.row_vectors, self.col_vectors)

        def on_grid(b: Floats, times: Callable[[Floats], Floats]) -> Floats:
            out = np.empty_like(b)
            for source, sink in zip(b.reshape(s.m, -1).T, out.reshape(s.m, -1).T, strict=True):
                grid = np.empty(s.shape)
                grid[s.rows, s.cols] = source
                sink[:] = times(grid)[s.rows, s.cols]
            return out

        def inverse(b: Floats) -> Floats:
            return on_grid(b, lambda grid: u @ (self.scale * (u.T @ grid @ v)) @ v.T)

        dual, effects = _solve_with(inverse, s)
        fitted = on_grid(dual, lambda grid: self.row @ grid @ self.col)
        residual = dual_residual(problem, dual, fitted)
        status = Status.EXACT if self.rank == s.m else Status.RANK_DEFICIENT
        solution = Solution(status, "GridEigen", residual=residual, rank=self.rank)
        return RidgeResult(dual, effects, solution)

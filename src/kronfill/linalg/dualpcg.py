"""Preconditioned conjugate gradients on the dual system, for kernels of full rank.

In the coordinates z = d / sqrt(w) the system is (diag(s) Kbar diag(s) + mu I) z = s o (y - Z beta),
s = sqrt(w). The preconditioner is a partial Cholesky factorisation of the kernel with randomly
chosen pivots, Kbar ~ F F^T of a modest rank: with F = U diag(sigma) V^T its inverse is

    (F F^T + mu I)^-1 = I / mu + U diag(1 / (sigma^2 + mu) - 1 / mu) U^T.

Free effects are projected out: with P the projection on the complement of range(diag(s) Z) the
iteration runs on P A P, preconditioned by P (F F^T + mu I)^-1 P.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from kronfill.errors import ParameterError
from kronfill.linalg.dualoperator import DualOperator
from kronfill.linalg.effects import AdditiveEffects
from kronfill.linalg.lowrank import pivoted_cholesky
from kronfill.linalg.memory import require_memory
from kronfill.linalg.pcg import Iterative
from kronfill.linalg.ridge import RidgeProblem, RidgeResult, Sampled
from kronfill.linalg.solution import Solution, Status
from kronfill.linalg.threads import one_blas_thread

__all__ = ["DualPCG", "default_rank"]

Floats = NDArray[np.float64]


def default_rank(m: int) -> int:
    """Rank of the preconditioner for m observations."""
    return min(m, max(50, min(400, int(2 * m**0.5))))


@dataclass(frozen=True)
class DualPCG(Iterative):
    """Conjugate gradients on the m x m dual system, equation (5), without forming it.

    For kernels of full rank on both axes (Tanimoto, given matrices, rough kernels), where factors
    would be as large as the matrix itself.

    Parameters
    ----------
    tol, max_iter, time_limit, callback, progress :
        As for :class:`PCG`.
    rank : int, optional
        Rank of the preconditioner, a partial Cholesky factorisation with random pivots that takes
        8 m rank bytes. By default it grows with the square root of m, up to 400.

    References
    ----------
    M. Diaz, E. N. Epperly, Z. Frangella, J. A. Tropp, R. J. Webber (2023), "Robust, randomized
    preconditioning for kernel ridge regression", arXiv:2304.12465.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> k = kf.kernels.tanimoto(rng.random((30, 40)) < 0.2)
    >>> X = np.argwhere(rng.random((30, 30)) < 0.3)
    >>> est = kf.KKMCEX(k, k, solver=kf.DualPCG()).fit(X, rng.random(len(X)))
    >>> est.solution_.converged
    True
    """

    rank: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank is not None and self.rank < 1:
            msg = f"DualPCG: rank must be a positive integer or None, got {self.rank!r}."
            raise ParameterError(msg)

    def solve(self, problem: RidgeProblem) -> RidgeResult:
        """Iterate on the dual system."""
        begun = time.monotonic()
        s = problem.sampled
        rank = min(s.m, default_rank(s.m) if self.rank is None else self.rank)
        advice = "Use solver=kf.DualPCG(rank=...) with a smaller rank."
        require_memory(24.0 * s.m * rank, f"A preconditioner of {s.m:,} x {rank}", advice)
        operator = DualOperator(problem.row_kernel, problem.col_kernel, s.mask)
        with one_blas_thread():
            system = _DualSystem(operator, s, problem.mu, rank)
            z, status, history, residual = self._iterate(system, begun + self.time_limit)
            dual, effects = system.result(z)
        solution = Solution(status, "DualPCG", "", len(history), residual, tuple(history))
        return RidgeResult(dual, effects, solution)

    def _iterate(
        self, system: _DualSystem, deadline: float
    ) -> tuple[Floats, Status, list[float], float]:
        """Plain preconditioned CG; where its residual has drifted from the true one, again."""
        history: list[float] = []
        z, r = np.zeros_like(system.rhs), system.rhs.copy()
        measured = float(np.linalg.norm(r)) / system.norm_y if system.norm_y > 0 else 0.0
        status = Status.CONVERGED
        while measured > self.tol:
            begun = len(history)
            status = self._descend(system, z, r, deadline, history)
            r = system.rhs - system.times(z)
            previous, measured = measured, float(np.linalg.norm(r)) / system.norm_y
            if measured <= self.tol:
                status = Status.CONVERGED
            elif status is not Status.CONVERGED:
                break
            elif measured > 0.5 * previous or len(history) == begun:
                status = Status.STALLED
                break
        return z, status, history, measured

    def _descend(
        self, system: _DualSystem, z: Floats, r: Floats, deadline: float, history: list[float]
    ) -> Status:
        step_to = system.precondition(r)
        direction, rho = step_to.copy(), float(r @ step_to)
        while True:
            if len(history) >= self.max_iter:
                return Status.MAX_ITERATIONS
            if time.monotonic() > deadline:
                return Status.TIME_LIMIT
            image = system.times(direction)
            curvature = float(direction @ image)
            if not curvature > 0.0 or not rho > 0.0:
                return Status.STALLED
            z += (rho / curvature) * direction
            r -= (rho / curvature) * image
            history.append(float(np.linalg.norm(r)) / system.norm_y)
            self.report(len(history), history[-1])
            if history[-1] <= 0.9 * self.tol:
                return Status.CONVERGED
            step_to = system.precondition(r)
            rho, previous = float(r @ step_to), rho
            direction *= rho / previous
            direction += step_to


class _DualSystem:
    """P (diag(s) Kbar diag(s) + mu I) P with its preconditioner."""

    def __init__(self, operator: DualOperator, sampled: Sampled, mu: float, rank: int) -> None:
        self._operator = operator
        self._sampled = sampled
        self._mu = mu
        self._root = None if sampled.weights is None else np.sqrt(sampled.weights)
        target = self._scaled(sampled.values)
        self.norm_y = float(np.linalg.norm(target))
        self.rhs = self._project(target)
        self._basis, self._gain = self._partial_factor(rank)

    def _scaled(self, v: Floats) -> Floats:
        return v if self._root is None else self._root * v

    def _project(self, v: Floats) -> Floats:
        """Take off what the effects explain, in the scaled coordinates."""
        effects = self._sampled.effects
        if effects is None:
            return v
        return self._scaled(effects.remove(v if self._root is None else v / self._root))

    def times(self, z: Floats) -> Floats:
        """P A z, z being in the range of P."""
        return self._project(self._scaled(self._operator @ self._scaled(z)) + self._mu * z)

    def _partial_factor(self, rank: int) -> tuple[Floats, Floats]:
        """U and 1 / (sigma^2 + mu) - 1 / mu of the partial factorisation."""
        op, root = self._operator, self._root

        def columns(chosen: NDArray[np.intp]) -> Floats:
            out = op.entries(chosen)
            return out if root is None else out * root[:, None] * root[chosen]

        def corner(first: NDArray[np.intp], second: NDArray[np.intp]) -> Floats:
            out = op.corner(first, second)
            return out if root is None else out * root[first][:, None] * root[second]

        diagonal = self._scaled(self._scaled(op.diagonal()))
        phi = pivoted_cholesky(columns, diagonal, submatrix=corner, max_rank=rank).phi
        lam, turn = scipy.linalg.eigh(phi.T @ phi, driver="evd", check_finite=False)
        keep = lam > 1e-12 * lam[-1]
        basis = phi @ (turn[:, keep] / np.sqrt(lam[keep]))
        return basis, 1.0 / (lam[keep] + self._mu) - 1.0 / self._mu

    def precondition(self, r: Floats) -> Floats:
        """P (F F^T + mu I)^-1 r, r being in the range of P."""
        out = r / self._mu + self._basis @ (self._gain * (self._basis.T @ r))
        return self._project(out)

    def result(self, z: Floats) -> tuple[Floats, AdditiveEffects | None]:
        """Dual vector and effects."""
        dual = self._scaled(z)
        effects = self._sampled.effects
        if effects is None:
            return dual, None
        weights = 1.0 if self._sampled.weights is None else self._sampled.weights
        rest = self._sampled.values - self._operator @ dual - self._mu * dual / weights
        return dual, effects.fit(rest)

"""Preconditioned conjugate gradients on the dual system, for kernels of full rank.

In the coordinates z = d / sqrt(w) the system is (diag(s) Kbar diag(s) + mu I) z = s o (y - Z beta),
s = sqrt(w). For two kernels that are known as matrices the preconditioner is that of
:mod:`kronfill.solvers.full_scale`. Where one is known by a factor or by products only, it is a
partial Cholesky factorisation of the kernel with randomly chosen pivots, Kbar ~ F F^T of a modest
rank: with F = U diag(sigma) V^T its inverse is

    (F F^T + mu I)^-1 = I / mu + U diag(1 / (sigma^2 + mu) - 1 / mu) U^T.

Free effects are projected out: with P the projection on the complement of range(diag(s) Z) the
iteration runs on P A P, preconditioned by P M P, M being the preconditioner.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from kronfill._types import Floats, Index
from kronfill.core.low_rank import pivoted_cholesky
from kronfill.core.memory import require_memory
from kronfill.core.threads import one_blas_thread
from kronfill.errors import ParameterError
from kronfill.ridge.dual_operator import DualOperator
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.problem import RidgeProblem, RidgeResult, Sampled
from kronfill.ridge.system import MeasuredSystem, inner
from kronfill.solvers.full_scale import FullScale, Modes, affordable_modes, bytes_needed
from kronfill.solvers.iterative import Iterative, Rounds

__all__ = ["DualPCG", "DualSystem", "default_rank"]


SETUP_SHARE = 0.25
"""Share of a limited time in which columns are added to the preconditioner."""


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
        Size of the preconditioner's global part: so many products of leading modes of both kernels,
        and up to as many with the first mode of the longer axis, beside what is kept exactly within
        each row or column; up to 1000 by default. Where a kernel is not given as a matrix, rank of
        a partial Cholesky factorisation with random pivots, which takes 8 m rank bytes; it grows
        with the square root of m then, up to 400.

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

    def solve_targets(self, problem: RidgeProblem) -> list[RidgeResult]:
        """See :class:`RidgeSolver`: one preconditioner serves all targets."""
        begun = time.monotonic()
        s = problem.sampled
        operator = DualOperator.of(problem)
        with one_blas_thread():
            ready = begun + SETUP_SHARE * self.time_limit
            system = DualSystem(operator, s, problem.mu, self.rank, ready)
            found, solutions = Rounds(self, system, problem.mu, begun=begun).solve()
            return [
                RidgeResult(*system.result(z, k), solution)
                for k, (z, solution) in enumerate(zip(found, solutions, strict=True))
            ]

    def system(self, operator: DualOperator, sampled: Sampled, mu: float) -> DualSystem:
        """The system with its preconditioner, for those who iterate themselves."""
        return DualSystem(operator, sampled, mu, self.rank, float("inf"))


class DualSystem(MeasuredSystem):
    """P diag(s) Kbar diag(s) P with its preconditioner, for :class:`Rounds`."""

    def __init__(
        self,
        operator: DualOperator,
        sampled: Sampled,
        mu: float,
        rank: int | None,
        ready: float,
    ) -> None:
        self._operator = operator
        self._sampled = sampled
        self._mu = mu
        self._root = None if sampled.weights is None else np.sqrt(sampled.weights)
        self._values = sampled.values.T.reshape(-1, sampled.m)  # one row for each target
        self.norm_y = np.array([float(np.linalg.norm(self._scaled(y))) for y in self._values])
        row, col = operator.sides
        if row.matrix is not None and col.matrix is not None:
            self._inverse = self._full_scale((row.matrix, col.matrix), rank, ready)
        else:
            self._inverse = self._partial_factor(rank, ready)

    def _full_scale(
        self, kernels: tuple[Floats, Floats], rank: int | None, ready: float
    ) -> Callable[[Floats], Floats]:
        """The preconditioner of two dense kernels, in the scaled coordinates."""
        m = self._sampled.m
        left = ready - time.monotonic()
        modes = affordable_modes(m, (len(kernels[0]), len(kernels[1])), rank, left)
        advice = "Use solver=kf.DualPCG(rank=...) with a smaller rank."
        needed = bytes_needed(self._operator.at, modes)
        require_memory(needed, f"A preconditioner of {modes:,} modes", advice)
        root = self._root
        noise = np.full(m, self._mu) if root is None else self._mu / root**2
        made = self._operator.made
        if Modes not in made:
            made[Modes] = Modes(kernels, self._operator.at)
        inverse = FullScale(made[Modes], noise, modes)
        if root is None:
            return inverse
        return lambda v: inverse(v / root) / root

    def _scaled(self, v: Floats) -> Floats:
        return v if self._root is None else self._root * v

    def _project(self, v: Floats) -> Floats:
        """Take off what the effects explain, in the scaled coordinates."""
        effects = self._sampled.effects
        if effects is None:
            return v
        return self._scaled(effects.remove(v if self._root is None else v / self._root))

    def rhs(self) -> Floats:
        """P (s o y)."""
        return np.stack([self._project(self._scaled(y)) for y in self._values])

    def normal(self, x: Floats) -> Floats:
        """P diag(s) Kbar diag(s) x, x being in the range of P."""
        return _each(lambda z: self._project(self._scaled(self._operator @ self._scaled(z))), x)

    def expected_norm(self, r: Floats) -> Floats:
        """See :class:`NormalMap`: here the residual is the dual one."""
        return self._mu * np.sqrt(inner(r, r))

    def dual_norm(self, r: Floats) -> Floats:
        """See :class:`MeasuredSystem`."""
        return self.expected_norm(r)

    def _partial_factor(self, rank: int | None, ready: float) -> Callable[[Floats], Floats]:
        """(F F^T + mu I)^-1 of a partial factorisation, made until ``ready``."""
        op, root, m = self._operator, self._root, self._sampled.m
        rank = min(m, default_rank(m) if rank is None else rank)
        advice = "Use solver=kf.DualPCG(rank=...) with a smaller rank."
        require_memory(24.0 * m * rank, f"A preconditioner of {m:,} x {rank}", advice)

        def columns(chosen: Index) -> Floats:
            out = op.entries(chosen)
            return out if root is None else out * root[:, None] * root[chosen]

        def corner(first: Index, second: Index) -> Floats:
            out = op.corner(first, second)
            return out if root is None else out * root[first][:, None] * root[second]

        diagonal = self._scaled(self._scaled(op.diagonal()))
        phi = pivoted_cholesky(
            columns, diagonal, submatrix=corner, max_rank=rank, deadline=ready
        ).phi
        mu = self._mu
        if phi.shape[1] == 0:  # the kernel is zero at the observed entries
            return lambda v: v / mu
        lam, turn = scipy.linalg.eigh(phi.T @ phi, driver="evd", check_finite=False)
        keep = lam > 1e-12 * lam[-1]
        basis = phi @ (turn[:, keep] / np.sqrt(lam[keep]))
        gain = 1.0 / (lam[keep] + mu) - 1.0 / mu
        return lambda v: v / mu + basis @ (gain * (basis.T @ v))

    def precondition(self, r: Floats, mu: float) -> Floats:
        """P M r, r being in the range of P; mu is that of the preconditioner."""
        return _each(lambda v: self._project(self._inverse(v)), r)

    def result(self, z: Floats, target: int) -> tuple[Floats, AdditiveEffects | None]:
        """Dual vector and effects of one target."""
        dual = self._scaled(z)
        effects = self._sampled.effects
        if effects is None:
            return dual, None
        weights = 1.0 if self._sampled.weights is None else self._sampled.weights
        rest = self._values[target] - self._operator @ dual - self._mu * dual / weights
        return dual, effects.fit(rest)


def _each(function: Callable[[Floats], Floats], x: Floats) -> Floats:
    """A function of one vector, for each row; no copy is made of a single one."""
    return function(x[0])[None] if len(x) == 1 else np.stack([function(one) for one in x])

"""Preconditioned conjugate gradients in factor space.

With Psi the sampled-Kronecker operator the primal system is (Psi^T W Psi + mu I) x = Psi^T W y.
Each factor is rotated so that Phi^T diag(counts) Phi is diagonal; then Psi^T W Psi is nearly

    S0 = outer(s_w, s_h) / total weight,

exactly so in the mean over masks with these row and column counts, and S0 + mu is a diagonal
preconditioner that knows the sampling.

The dual residual follows from the primal one, R = Psi^T W (y - Psi x) - mu x: with
d = W (y - Psi x) / mu it is Psi R / mu (times sqrt(w)). Its estimate sqrt(<R o R, S0>) steers the
loop; before the result is returned it is measured with the operator.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from kronfill.errors import ParameterError
from kronfill.linalg.effects import AdditiveEffects, EffectsDesign
from kronfill.linalg.operator import SampledKronecker
from kronfill.linalg.ridge import CoreResult, RidgeProblem, RidgeResult, RidgeSolver, Sampled
from kronfill.linalg.solution import Solution, Status
from kronfill.linalg.threads import one_blas_thread

__all__ = ["PCG", "FactorSystem"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]
FACTOR_RTOL = 1e-13
WIDE = 600
"""Below this rank the threads of BLAS cost more than they save."""


@dataclass(frozen=True)
class PCG(RidgeSolver):
    """Conjugate gradients on low-rank factors, with a preconditioner that knows the mask.

    Parameters
    ----------
    tol : float, default=1e-6
        Relative residual of the dual system at which to stop.
    max_iter : int, default=1000
        Most iterations.
    time_limit : float, default=inf
        Seconds after which to stop.
    callback : callable, optional
        Called with (iteration, estimated residual) after each iteration.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> k = kf.kernels.rbf(rng.random((30, 2)), length_scale=0.5)
    >>> X = np.array([(i, j) for i in range(30) for j in range(30) if (i + j) % 3])
    >>> est = kf.KKMCEX(k, k, mu=0.1, solver=kf.solvers.PCG(tol=1e-8)).fit(X, rng.random(len(X)))
    >>> est.solution_.converged, est.solution_.residual < 1e-8
    (True, True)
    """

    tol: float = 1e-6
    max_iter: int = 1000
    time_limit: float = float("inf")
    callback: Callable[[int, float], None] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.tol < 1:
            msg = f"PCG: tol must lie between 0 and 1, got {self.tol!r}."
            raise ParameterError(msg)
        if self.max_iter < 1 or self.time_limit <= 0:
            msg = (
                "PCG: max_iter must be at least 1 and time_limit positive, got "
                f"{self.max_iter!r} and {self.time_limit!r}."
            )
            raise ParameterError(msg)

    def solve(self, problem: RidgeProblem) -> RidgeResult:
        """Factor both kernels and iterate."""
        row = problem.row_kernel.factor(rtol=FACTOR_RTOL)
        col = problem.col_kernel.factor(rtol=FACTOR_RTOL)
        system = FactorSystem.of(row.phi, col.phi, problem.sampled)
        return self.solve_system(system, problem.mu).over(row, col)

    def solve_system(
        self, system: FactorSystem, mu: float, start: Floats | None = None
    ) -> CoreResult:
        """Iterate on a prepared system, from ``start`` (a x b, in the caller's basis) if given."""
        with one_blas_thread():
            x, status, history, residual = self._iterate(system, mu, start)
            dual, effects = system.dual(x, mu)
        solution = Solution(
            status, "PCG", iterations=len(history), residual=residual, history=tuple(history)
        )
        return CoreResult(system.core(x), dual, effects, solution)

    def _iterate(
        self, system: FactorSystem, mu: float, start: Floats | None
    ) -> tuple[Floats, Status, list[float], float]:
        deadline = time.monotonic() + self.time_limit
        history: list[float] = []
        rhs = system.rhs()
        scale = mu * system.norm_y
        precondition = 1.0 / (system.expected + mu)
        x = np.zeros_like(rhs) if start is None else system.rotate(start)
        r = rhs - system.normal(x) - mu * x if start is not None else rhs.copy()
        target, measured = self.tol, np.inf if scale > 0 and r.any() else 0.0
        status = Status.CONVERGED
        while measured > self.tol:
            begun = len(history)
            status = self._descend(system, mu, x, r, precondition, (target, deadline), history)
            r = rhs - system.normal(x) - mu * x
            previous, measured = measured, system.dual_norm(r) / scale
            if measured <= self.tol:
                status = Status.CONVERGED
            elif status is not Status.CONVERGED:
                break
            elif measured > 0.5 * previous or len(history) == begun:
                status = Status.STALLED
                break
            else:  # The estimate was too rosy: aim lower by as much.
                target *= 0.5 * self.tol / measured
        return x, status, history, measured

    def _descend(
        self,
        system: FactorSystem,
        mu: float,
        x: Floats,
        r: Floats,
        precondition: Floats,
        limits: tuple[float, float],
        history: list[float],
    ) -> Status:
        """Plain preconditioned CG, changing x and r in place, until the estimate meets target."""
        target, deadline = limits
        scale = mu * system.norm_y
        z = precondition * r
        direction = z.copy()
        rho = float(np.vdot(r, z))
        while True:
            if len(history) >= self.max_iter:
                return Status.MAX_ITERATIONS
            if time.monotonic() > deadline:
                return Status.TIME_LIMIT
            image = system.normal(direction) + mu * direction
            curvature = float(np.vdot(direction, image))
            if not curvature > 0.0 or not rho > 0.0:
                return Status.STALLED
            step = rho / curvature
            x += step * direction
            r -= step * image
            history.append(float(np.sqrt(np.vdot(r * r, system.expected))) / scale)
            if self.callback is not None:
                self.callback(len(history), history[-1])
            if history[-1] <= target:
                return Status.CONVERGED
            z = precondition * r
            rho, previous = float(np.vdot(r, z)), rho
            direction *= rho / previous
            direction += z


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
        moved = phi - shift
        with one_blas_thread() if phi.shape[1] < WIDE else nullcontext():
            lam, turn = scipy.linalg.eigh(moved.T @ (counts[:, None] * moved), check_finite=False)
            return cls(moved @ turn, turn, np.maximum(lam, 0.0), shift @ turn)


class FactorSystem:
    """Psi^T W Psi in the rotated basis, for one set of observed entries and two factors.

    The effects, if any, are eliminated: M below is W less what they take up.
    """

    def __init__(self, row: Rotated, col: Rotated, sampled: Sampled) -> None:
        s = sampled
        self._sides = (row, col)
        expected = np.outer(row.diagonal, col.diagonal) / s.mask.counts[0].sum()
        self._total = float(s.mask.counts[0].sum())
        self._turns = (row.turn, col.turn)
        self._flipped = row.phi.shape[1] < col.phi.shape[1]
        self.expected = expected.T if self._flipped else expected
        outer, inner = (col, row) if self._flipped else (row, col)
        self._grouped = s.mask.by_cols if self._flipped else s.mask.by_rows
        self._operator = SampledKronecker(outer.phi, inner.phi, self._grouped)
        order = self._grouped.order
        self._y = s.values[order]
        self._design = None
        if s.effects is not None:
            weights = None if s.weights is None else self._grouped.weights
            self._design = EffectsDesign(
                s.rows[order], s.cols[order], s.shape, s.effects.kind, weights
            )
        weighted = s.values if s.weights is None else s.root_weights * s.values
        self.norm_y = float(np.linalg.norm(weighted))

    @classmethod
    def of(cls, row_phi: Floats, col_phi: Floats, sampled: Sampled) -> FactorSystem:
        """Rotate both factors for this mask."""
        kind = None if sampled.effects is None else sampled.effects.kind
        count_r, count_c = sampled.mask.counts
        row = Rotated.of(row_phi, count_r, centred=kind in ("cols", "both"))
        col = Rotated.of(col_phi, count_c, centred=kind in ("rows", "both"))
        return cls(row, col, sampled)

    def _weighted(self, v: Floats) -> Floats:
        return v * self._grouped.weights if len(self._grouped.weights) else v

    def normal(self, x: Floats) -> Floats:
        """Psi^T M Psi x, with M = W less what the effects take up."""
        if self._design is None:
            return self._operator.normal(x)
        if self._design.kind == "mean":  # M = W - w w^T / sum(w): a correction of rank one
            ones = self._ones
            return self._operator.normal(x) - ones * (np.vdot(ones, x) / self._total)
        v = self._design.remove(self._operator.sample(x))
        return self._operator.scatter(self._weighted(v))

    @cached_property
    def _ones(self) -> Floats:
        """Psi^T W 1."""
        return self._operator.scatter(self._weighted(np.ones(self._operator.m)))

    def rhs(self) -> Floats:
        """Psi^T M y."""
        y = self._y if self._design is None else self._design.remove(self._y)
        return self._operator.scatter(self._weighted(y))

    def dual_norm(self, r: Floats) -> float:
        """||Psi r||, weighted: with r the primal residual, mu times the dual residual."""
        return float(np.sqrt(max(0.0, float(np.vdot(r, self.normal(r))))))

    def rotate(self, coef: Floats) -> Floats:
        """From the caller's basis into the rotated one."""
        turned = self._turns[0].T @ coef @ self._turns[1]
        return np.ascontiguousarray(turned.T if self._flipped else turned)

    def core(self, x: Floats) -> Floats:
        """From the rotated basis into the caller's."""
        core = x.T if self._flipped else x
        turn_p, turn_q = self._turns
        return np.asarray(turn_p @ core @ turn_q.T)

    def _shifted(self, x: Floats, rows: Index, cols: Index) -> Floats:
        """What the shifts of the factors left out of Psi x: functions of row or column alone."""
        row, col = self._sides
        core = x.T if self._flipped else x
        by_row = row.phi @ (core @ col.shift)
        by_col = col.phi @ (core.T @ row.shift)
        return np.asarray(by_row[rows] + by_col[cols] + row.shift @ core @ col.shift)

    def dual(self, x: Floats, mu: float) -> tuple[Floats, AdditiveEffects | None]:
        """The dual vector W (y - Z beta - Psi x) / mu in the caller's order, and the effects."""
        rest = self._y - self._operator.sample(x)
        effects = None
        if self._design is not None:
            rows, cols = self._design.rows, self._design.cols
            rest -= self._shifted(x, rows, cols)
            effects = self._design.fit(rest)
            rest -= effects.at(rows, cols)
        rest /= mu
        dual = np.empty_like(rest)
        dual[self._grouped.order] = self._weighted(rest)
        return dual, effects

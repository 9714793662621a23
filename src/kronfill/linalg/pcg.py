"""Preconditioned conjugate gradients in the space of the kernels' factors.

An estimate of the dual residual steers the loop; before the result is returned it is measured with
the operator in double precision, and the loop goes on if the estimate was too rosy. Corrections may
be computed in single precision: the residual that they are to remove never is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kronfill.errors import ParameterError
from kronfill.linalg.factorsystem import FactorSystem, Rotated
from kronfill.linalg.ridge import CoreResult, RidgeProblem, RidgeResult, RidgeSolver, Sampled
from kronfill.linalg.solution import Solution, Status
from kronfill.linalg.spiked import SpikedSystem, Split
from kronfill.linalg.system import NormalMap, System, inner
from kronfill.linalg.threads import one_blas_thread

__all__ = ["PCG", "FactorSystem", "Iterative", "Rotated"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]
FACTOR_RTOL = 1e-13
SINGLE_GAIN = 1e-4
"""How far one round in single precision is to bring the residual down."""


@dataclass(frozen=True)
class Iterative(RidgeSolver):
    """Settings that all iterative solvers share."""

    tol: float = 1e-6
    max_iter: int = 1000
    time_limit: float = float("inf")
    callback: Callable[[int, float], None] | None = None
    progress: bool = False

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not 0 < self.tol < 1:
            msg = f"{name}: tol must lie between 0 and 1, got {self.tol!r}."
            raise ParameterError(msg)
        if self.max_iter < 1 or not self.time_limit > 0:
            msg = (
                f"{name}: max_iter must be at least 1 and time_limit positive, got "
                f"{self.max_iter!r} and {self.time_limit!r}."
            )
            raise ParameterError(msg)

    def report(self, iteration: int, residual: float) -> None:
        """Tell whoever asked how far it is."""
        if self.callback is not None:
            self.callback(iteration, residual)
        if self.progress:
            line = f"\r{type(self).__name__}: iteration {iteration}, residual {residual:.1e}"
            sys.stderr.write(line + ("\n" if residual <= self.tol else ""))
            sys.stderr.flush()


@dataclass(frozen=True)
class PCG(Iterative):
    """Conjugate gradients on low-rank factors, with a preconditioner that knows the mask.

    A kernel with an identity part, such as ``rbf(features) + 0.1 * identity(n)``, is split: the
    factor is that of the rest.

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
    progress : bool, default=False
        Show the iteration and the residual on the standard error stream.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the products with a vector. With "float32" corrections are computed in single
        precision and the residual in double: the answer is as accurate, after a few more products.

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

    dtype: str = "float64"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dtype not in ("float64", "float32"):
            msg = f'PCG: dtype must be "float64" or "float32", got {self.dtype!r}.'
            raise ParameterError(msg)

    def solve(self, problem: RidgeProblem) -> RidgeResult:
        """Factor both kernels and iterate."""
        return self.solve_targets(problem)[0]

    def solve_targets(self, problem: RidgeProblem) -> list[RidgeResult]:
        """See :class:`RidgeSolver`."""
        begun = time.monotonic()
        row, col = Split.of(problem.row_kernel), Split.of(problem.col_kernel)
        return self.solve_split(row, col, problem.sampled, problem.mu, begun)

    def solve_split(
        self, row: Split, col: Split, sampled: Sampled, mu: float, begun: float | None = None
    ) -> list[RidgeResult]:
        """Solve for kernels that are factored already."""
        if row.ridge == 0 and col.ridge == 0:
            plain = FactorSystem.of(row.factor.phi, col.factor.phi, sampled)
            solved = self.solve_all(plain, mu, begun=begun)
            return [one.over(row.factor, col.factor) for one in solved]
        system = SpikedSystem.of(row, col, sampled, mu)
        return [
            RidgeResult(one.dual, one.effects, one.solution, split=(row, col))
            for one in self.solve_all(system, mu, begun=begun)
        ]

    def solve_system(self, system: System, mu: float, start: Floats | None = None) -> CoreResult:
        """Iterate on a prepared system of one target, from ``start`` (coefficients) if given."""
        return self.solve_all(system, mu, None if start is None else [start])[0]

    def solve_all(
        self,
        system: System,
        mu: float,
        starts: list[Floats] | None = None,
        begun: float | None = None,
    ) -> list[CoreResult]:
        """Iterate on all targets of a prepared system together."""
        with one_blas_thread():
            run = _Run(self, system, mu + system.shift, begun)
            x, solutions = run.solve(starts)
            results = (system.result(one, run.mu, k) for k, one in enumerate(x))
            return [replace(r, solution=s) for r, s in zip(results, solutions, strict=True)]


class _Run:
    """One solve: targets leave the loop one by one as they meet the tolerance."""

    def __init__(self, settings: PCG, system: System, mu: float, begun: float | None) -> None:
        self.settings = settings
        self.system = system
        self.mu = mu
        self.deadline = (time.monotonic() if begun is None else begun) + settings.time_limit
        self.map: NormalMap = system if settings.dtype == "float64" else system.single()
        self.scale = mu * system.norm_y
        self.history: list[list[float]] = [[] for _ in self.scale]
        self.status = [Status.CONVERGED] * len(self.scale)

    def solve(self, starts: list[Floats] | None) -> tuple[Floats, list[Solution]]:
        settings, system = self.settings, self.system
        rhs = system.rhs()
        if starts is None:
            x, r = np.zeros_like(rhs), rhs.copy()
        else:
            x = np.stack([system.start(one) for one in starts])
            r = self._residual(rhs, x)
        measured = np.zeros(len(x))
        todo = np.flatnonzero((self.scale > 0) & r.reshape(len(r), -1).any(axis=1))
        measured[todo] = np.inf
        aim = np.full(len(x), settings.tol)
        while todo.size:
            before = [len(self.history[k]) for k in todo]
            pick = _all_or(todo, len(x))
            x[pick] += system.within(self._correction(r[pick], todo, aim))
            r[pick] = self._residual(rhs[pick], x[pick])
            previous, now = measured[todo], system.dual_norm(r[pick]) / self.scale[todo]
            measured[todo] = now
            for k, old, new, length in zip(todo, previous, now, before, strict=True):
                if new <= settings.tol:
                    self.status[k] = Status.CONVERGED
                elif self.status[k] is Status.CONVERGED:
                    if new > 0.5 * old or len(self.history[k]) == length:
                        self.status[k] = Status.STALLED
                    else:  # The estimate was too rosy: aim lower by as much.
                        aim[k] *= max(0.1, min(1.0, 0.5 * settings.tol / new))
                        continue
                todo = todo[todo != k]
        return x, [
            Solution(status, "PCG", "", len(history), float(residual), tuple(history))
            for status, history, residual in zip(self.status, self.history, measured, strict=True)
        ]

    @property
    def _double(self) -> bool:
        return self.settings.dtype == "float64"

    def _residual(self, rhs: Floats, x: Floats) -> Floats:
        return rhs - self.system.normal(x) - self.mu * x

    def _correction(self, r: Floats, todo: Index, aim: Floats) -> Floats:
        """Approximate solution for these residuals, by plain preconditioned CG from zero."""
        goal = aim[todo]
        if not self._double:
            size = self.system.expected_norm(r) / self.scale[todo]
            goal = np.maximum(goal, SINGLE_GAIN * size)
        out = np.zeros_like(r)
        x, r = out.astype(self.settings.dtype), r.astype(self.settings.dtype)
        alive, where = todo, np.arange(len(todo))
        z = self.map.precondition(r, self.mu)
        direction, rho = z.copy(), inner(r, z)
        while True:
            image = self.map.normal(direction) + r.dtype.type(self.mu) * direction
            curvature = inner(direction, image)
            sound = (curvature > 0) & (rho > 0)
            step = _per_target(np.divide(rho, curvature, out=np.zeros_like(rho), where=sound), r)
            x += step * direction
            r -= step * image
            estimate = self.map.expected_norm(r) / self.scale[alive]
            done = self._judge(alive, estimate, estimate <= goal, sound)
            if done.any():
                out[where[done]] = x[done]
                if done.all():
                    return out
                keep = ~done
                alive, where, goal, rho = alive[keep], where[keep], goal[keep], rho[keep]
                x, r, direction = x[keep], r[keep], direction[keep]
            z = self.map.precondition(r, self.mu)
            rho, previous = inner(r, z), rho
            direction *= _per_target(rho / previous, r)
            direction += z

    def _judge(
        self, alive: Index, estimate: Floats, met: NDArray[np.bool_], sound: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Note the residuals; which targets leave the loop, and why."""
        late = time.monotonic() > self.deadline
        done = np.zeros(len(alive), bool)
        for i, k in enumerate(alive):
            self.history[k].append(float(estimate[i]))
            reasons = (
                (met[i], Status.CONVERGED),
                (not sound[i], Status.STALLED),
                (len(self.history[k]) >= self.settings.max_iter, Status.MAX_ITERATIONS),
                (late, Status.TIME_LIMIT),
            )
            for holds, status in reasons:
                if holds:
                    self.status[k], done[i] = status, True
                    break
        self.settings.report(len(self.history[alive[0]]), float(estimate.max()))
        return done


def _per_target(values: Floats, like: Floats) -> Floats:
    """One number per target, shaped to multiply arrays of all targets."""
    return values.astype(like.dtype).reshape(-1, *[1] * (like.ndim - 1))


def _all_or(todo: Index, count: int) -> Index | slice:
    """A slice where all are meant: no copies are made then."""
    return slice(None) if todo.size == count else todo

"""What the iterative solvers share: their settings, and rounds of solving and measuring.

An estimate of the dual residual steers the loop; before the result is returned it is measured with
the operator in double precision, and the loop goes on if the estimate was too rosy. Corrections may
be computed in single precision: the residual that they are to remove never is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kronfill._progress import ProgressPrinter, tell
from kronfill._types import Flags, Floats, Index
from kronfill.errors import ParameterError
from kronfill.ridge.problem import RidgeSolver
from kronfill.ridge.solution import Solution, Status
from kronfill.ridge.system import MeasuredSystem, NormalMap
from kronfill.solvers.cg import Descent, conjugate_gradients, per_target

__all__ = ["Iterative", "Rounds"]

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

    def quiet(self) -> Iterative:
        """See :class:`RidgeSolver`."""
        return replace(self, callback=None, progress=False)

    def report(self, iteration: int, residual: float) -> None:
        """Tell whoever asked how far it is."""
        if self.callback is not None:
            self.callback(iteration, residual)
        # Residuals fall by about the same factor in each iteration.
        share = math.log(max(residual, 1e-300)) / math.log(self.tol)
        tell("percent of a solve", round(100 * min(max(share, 0.0), 1.0)), 100)
        if self.progress:
            line = f"iteration {iteration}, residual {residual:.1e}"
            self.printer.line(line, last=residual <= self.tol)

    @cached_property
    def printer(self) -> ProgressPrinter:
        """Shows progress where it is asked for."""
        return ProgressPrinter(type(self).__name__)


class Rounds:
    """One solve: targets leave the loop one by one as they meet the tolerance."""

    def __init__(
        self,
        settings: Iterative,
        system: MeasuredSystem,
        mu: float,
        single: NormalMap | None = None,
        begun: float | None = None,
    ) -> None:
        self.settings = settings
        self.system = system
        self.mu = mu
        self.single = single
        self.deadline = (time.monotonic() if begun is None else begun) + settings.time_limit
        self.scale = mu * system.norm_y
        self.history: list[list[float]] = [[] for _ in self.scale]
        self.status = [Status.CONVERGED] * len(self.scale)

    def solve(self, x: Floats | None = None) -> tuple[Floats, list[Solution]]:
        """Solve for all targets, from ``x`` (overwritten) if given."""
        settings, system = self.settings, self.system
        rhs = system.rhs()
        if x is None:
            x, r = np.zeros_like(rhs), rhs.copy()
        else:
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
        name = type(settings).__name__
        return x, [
            Solution(status, name, "", len(history), float(residual), tuple(history))
            for status, history, residual in zip(self.status, self.history, measured, strict=True)
        ]

    def _residual(self, rhs: Floats, x: Floats) -> Floats:
        return rhs - self.system.normal(x) - self.mu * x

    def _correction(self, r: Floats, todo: Index, aim: Floats) -> Floats:
        """Approximate solution for these residuals."""
        goal, unit = aim[todo], np.ones(len(todo))
        matrix: NormalMap = self.system
        if self.single is not None:
            size = self.system.expected_norm(r) / self.scale[todo]
            goal = np.maximum(goal, SINGLE_GAIN * size)
            # Single precision has a short range: what goes in is near 1.
            unit = np.abs(r).max(axis=tuple(range(1, r.ndim)))
            matrix, r = self.single, (r / per_target(unit, r)).astype(np.float32)
        mu = r.dtype.type(self.mu)

        def leave(which: Index, descent: Descent, sound: Flags) -> Flags:
            alive = todo[which]
            estimate = matrix.expected_norm(descent.r) * unit[which] / self.scale[alive]
            return self._judge(alive, estimate, estimate <= goal[which], sound)

        x = conjugate_gradients(
            lambda p: matrix.normal(p) + mu * p,
            lambda v: matrix.precondition(v, self.mu),
            r,
            leave,
        ).astype(np.float64, copy=False)
        return x if self.single is None else x * per_target(unit, x)

    def _judge(self, alive: Index, estimate: Floats, met: Flags, sound: Flags) -> Flags:
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


def _all_or(todo: Index, count: int) -> Index | slice:
    """A slice where all are meant: no copies are made then."""
    return slice(None) if todo.size == count else todo

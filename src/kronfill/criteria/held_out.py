"""The error on held-out entries for one mu after the other, each from the solution for another.

A tenth of the observations is hidden once. A solve is over when the error on them has settled to
three digits, or to half a percent where it is far from the least one, long before its residual is
small (:attr:`~kronfill.ridge.solution.Status.SETTLED`).
Thin factors are solved for in their own space; kernels of full rank through the dual system, whose
products with all observed entries tell the hidden ones along with the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kronfill._types import Flags, Floats
from kronfill.core.limits import FACTOR_RTOL
from kronfill.core.threads import one_blas_thread
from kronfill.criteria.path import ProblemAlongMu
from kronfill.criteria.search import Search, Trial, least_error
from kronfill.ridge.dual_operator import DualOperator
from kronfill.ridge.identity_system import FactorPlusIdentity
from kronfill.ridge.problem import KernelLike, RidgeProblem, Sampled
from kronfill.ridge.solution import Solution, Status
from kronfill.solvers.dual_pcg import DualPCG, DualSystem
from kronfill.solvers.pcg import PCG

__all__ = ["CRITERION", "HeldOut", "held_out_part", "held_out_search", "settled"]

CRITERION = "error on held-out entries"
SHARE, FEWEST = 0.1, 1000
"""Share of the observations that is hidden, and how many at least (but no more than a third)."""
DIGITS, ROUGH = 1e-3, 5e-3
"""Relative change of the mean square error that counts as none; of one far from the least."""
FAR = 1.1
"""What is far: so many times the least mean square error so far."""
STEPS = 3
"""Iterations over which it must not change."""
MOST = 300
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
THIN_RANK = 300
"""Up to this rank, or a quarter of its items, a kernel may be thin."""
WEIGHTLESS = 1e-12
"""Weight of a hidden entry in a preconditioner, in units of its own."""
REACH, DECADE = 11.0, 10.0
"""A preconditioner serves all mu up to this factor from its own: iterations hardly grow. The first
one is made for a decade below the first mu, so that it serves three of them."""


def held_out_search(problem: RidgeProblem, scale: float) -> Search:
    """The mu with the least error on held-out entries."""
    hidden = held_out_part(problem.sampled.m)
    thin = _thin(problem)
    curve: HeldOut = (
        DualHeldOut(problem, hidden)
        if thin is None
        else FactorHeldOut(replace(thin, sampled=problem.sampled), hidden)
    )
    return least_error(curve, scale, CRITERION)


def held_out_part(m: int, seed: int = 0) -> Flags:
    """Which of m observations are hidden: the same ones for the same number."""
    hidden = np.zeros(m, dtype=bool)
    count = max(1, round(max(SHARE * m, min(FEWEST, m / 3))))
    hidden[np.random.default_rng(seed).choice(m, size=count, replace=False)] = True
    return hidden


def settled(errors: list[float], steps: int = STEPS, digits: float = DIGITS) -> bool:
    """Whether the last errors are the same to so many digits."""
    last = errors[-steps - 1 :]
    return len(last) > steps and max(last) - min(last) <= digits * last[-1]


def _thin(problem: RidgeProblem) -> ProblemAlongMu | None:
    """Both kernels factored, if a product in the space of the factors is cheaper than a dual one.

    Counted in multiplications of one iteration; those with identity parts take more iterations.
    """
    s = problem.sampled
    (n, l), m = s.shape, s.m
    rows, cols = (int(np.count_nonzero(count)) for count in s.mask.counts)
    dual = min(m * (rows + 3.0 * cols), m * rows + float(rows) * cols**2)
    found = []
    for kernel in (problem.row_kernel, problem.col_kernel):
        factored = _factored(kernel)
        if factored is None:
            return None
        found.append(factored)
    a, b = (one.rank for one in found)
    identity = any(one.identity for one in found)
    inner = a + b if identity else min(a, b)
    own = (4.0 if identity else 2.0) * (n + l) * a * b + 2.0 * m * inner
    if own * (2 if identity else 1) > dual:
        return None
    return ProblemAlongMu(found[0], found[1], s)


def _factored(kernel: KernelLike) -> FactorPlusIdentity | None:
    """The kernel less its identity part, factored, unless its rank is large."""
    if kernel.by_products:
        return None
    limit = min(kernel.n, max(THIN_RANK, kernel.n // 4))
    factored = FactorPlusIdentity.of(kernel, max_rank=limit)
    whole = getattr(factored.factor, "residual", 0.0) <= FACTOR_RTOL
    return factored if whole else None


class HeldOut(ABC):
    """Trials for one mu after the other, from the nearest of the solutions that are kept."""

    def __init__(self, sampled: Sampled, hidden: Flags) -> None:
        self.sampled, self.hidden = sampled, hidden
        self.train = sampled.take(~hidden)
        self._weights = sampled.weights_or_ones[hidden]
        self._values = sampled.values[hidden]
        self._kept: dict[float, Floats] = {}
        """Solutions of the best mu and of the last one: no others are started from."""
        self._least, self._best = np.inf, np.nan

    def __call__(self, mu: float) -> Trial:
        """Solve for this mu until the error has settled."""
        near = min(self._kept, key=lambda other: abs(np.log(other / mu)), default=None)
        errors: list[float] = []
        for at, fitted, record in self._solves(mu, None if near is None else self._kept[near]):
            solution, found = record, at
            gap = self._values - fitted
            errors.append(float(self._weights @ gap**2 / self._weights.sum()))
            if settled(errors, self._steps, DIGITS if errors[-1] < FAR * self._least else ROUGH):
                change = abs(errors[-1] - errors[-2]) / max(errors[-1], np.finfo(float).tiny)
                solution = replace(
                    solution, status=Status.SETTLED, criterion=CRITERION, change=change
                )
                break
        if errors[-1] < self._least:
            self._least, self._best = errors[-1], mu
        kept = {**self._kept, mu: found}
        self._kept = {key: one for key, one in kept.items() if key in (mu, self._best)}
        return Trial(mu, errors[-1], solution)

    _steps: int
    """Over how many steps of a solve the error must not change."""

    @abstractmethod
    def _solves(self, mu: float, start: Floats | None) -> Iterator[tuple[Floats, Floats, Solution]]:
        """A solve step by step: what to go on from, values at the hidden entries, a record."""


class FactorHeldOut(HeldOut):
    """In the space of thin factors: a step is a tolerance."""

    _steps = 1

    def __init__(self, path: ProblemAlongMu, hidden: Flags) -> None:
        super().__init__(path.sampled, hidden)
        self._path = replace(path, sampled=self.train)
        self._system = self._path.systems(self.train.values)

    def _solves(self, mu: float, start: Floats | None) -> Iterator[tuple[Floats, Floats, Solution]]:
        rows, cols = self.sampled.rows[self.hidden], self.sampled.cols[self.hidden]
        count = 0
        for tol in TOLERANCES:
            result = PCG(tol=tol).solve_system(self._system(mu), mu, start)
            start, count = result.core, count + result.solution.iterations
            fitted = self._path.elsewhere(result.dual, rows, cols)
            if result.effects is not None:
                fitted += result.effects.at(rows, cols)
            yield start, fitted, replace(result.solution, iterations=count)
            if not result.solution.converged:
                return


@dataclass(eq=False)
class _Direction:
    """A vector over the training entries, in the coordinates z, and K d at all entries."""

    z: Floats
    image: Floats

    def add(self, step: float, other: _Direction) -> None:
        self.z += step * other.z
        self.image += step * other.image


class DualHeldOut(HeldOut):
    """Through the dual system of the training entries, by conjugate gradients.

    A product is made with the kernel over *all* observed entries, of a vector that is zero at the
    hidden ones: the values at these come along, and the error is known after each step.
    """

    _steps = STEPS

    def __init__(self, problem: RidgeProblem, hidden: Flags) -> None:
        super().__init__(problem.sampled, hidden)
        self._operator = DualOperator.of(problem)
        self._root = self.train.root_weights
        weights = problem.sampled.weights_or_ones
        weightless = np.where(hidden, WEIGHTLESS * weights, weights)
        self._conditioning = problem.sampled.reweighted(weightless)
        self._conditioned: dict[float, DualSystem] = {}

    def _preconditioner(self, mu: float) -> DualSystem:
        """That of the nearest mu, if it is near."""
        near = min(self._conditioned, key=lambda other: abs(np.log(other / mu)), default=None)
        if near is None or not 1 / REACH <= mu / near <= REACH:
            near = mu if self._conditioned else mu / DECADE
            system = DualPCG().system(self._operator, self._conditioning, near)
            self._conditioned[near] = system
        return self._conditioned[near]

    def _conditioned_by(self, system: DualSystem, r: Floats, mu: float) -> Floats:
        """About (Kbar + mu)^-1 of the training entries: the hidden ones have hardly any weight."""
        whole = np.zeros(self.sampled.m)
        whole[~self.hidden] = r
        return self._project(system.precondition(whole[None], mu)[0][~self.hidden])

    def _project(self, v: Floats) -> Floats:
        """Take off what the effects explain."""
        design = self.train.effects
        return v if design is None else self._root * design.remove(v / self._root)

    def _with_image(self, z: Floats) -> _Direction:
        whole = np.zeros(self.sampled.m)
        whole[~self.hidden] = self._root * z
        return _Direction(z, self._operator @ whole)

    def _times(self, v: _Direction, mu: float) -> Floats:
        """(P diag(s) Kbar diag(s) P + mu) z."""
        return self._project(self._root * v.image[~self.hidden]) + mu * v.z

    def _solves(self, mu: float, start: Floats | None) -> Iterator[tuple[Floats, Floats, Solution]]:
        with one_blas_thread():
            yield from self._descent(mu, start)

    def _descent(
        self, mu: float, start: Floats | None
    ) -> Iterator[tuple[Floats, Floats, Solution]]:
        system = self._preconditioner(mu)
        rhs = self._project(self._root * self.train.values)
        size = float(np.linalg.norm(self._root * self.train.values)) or 1.0
        x = _Direction(np.zeros(self.train.m), np.zeros(self.sampled.m))
        if start is not None:
            x = self._with_image(start.copy())
        r = rhs - self._times(x, mu)
        history = [float(np.linalg.norm(r)) / size]
        p, last = None, 0.0
        status = Status.MAX_ITERATIONS
        while True:
            if history[-1] <= TOLERANCES[-1]:
                status = Status.CONVERGED
            done = status is Status.CONVERGED or len(history) > MOST
            record = Solution(status, "DualPCG", "", len(history) - 1, history[-1], tuple(history))
            yield x.z, self._hidden_values(x), record
            if done:
                return
            turned = self._conditioned_by(system, r, mu)
            energy = float(r @ turned)
            direction = turned if p is None else turned + (energy / last) * p.z
            p, last = self._with_image(direction), energy
            image = self._times(p, mu)
            curvature = float(p.z @ image)
            if not (energy > 0 and curvature > 0):
                status = Status.STALLED
                yield x.z, self._hidden_values(x), replace(record, status=status)
                return
            x.add(energy / curvature, p)
            r = r - (energy / curvature) * image
            history.append(float(np.linalg.norm(r)) / size)

    def _hidden_values(self, x: _Direction) -> Floats:
        """What x says about the hidden entries, the effects of the others included."""
        out = x.image[self.hidden].copy()
        design = self.train.effects
        if design is not None:
            # Of y - K d = Z beta + mu d / w the effects take beta alone: Z^T d = 0.
            effects = design.fit(self.train.values - x.image[~self.hidden])
            out += effects.at(self.sampled.rows[self.hidden], self.sampled.cols[self.hidden])
        return out

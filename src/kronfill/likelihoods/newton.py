r"""Newton's method: each step is a weighted ridge problem over the observed entries.

    minimise   J(d, beta) = sum_k w_k l(y_k, eta_k) + mu/2 d^T Kbar d,
               eta = offset + Kbar d + Z beta

At the minimum mu d = -g with g_k = w_k l'(y_k, eta_k), and Z^T d = 0. From (d, beta) the quadratic
model of J in a further function delta = Kbar d' + Z beta', with h_k = w_k l''(y_k, eta_k), is, up
to a constant, half of

    sum_k h_k (z_k - delta_k)^2 + mu d'^T Kbar d',      z = -(g + mu d) / h,

a ridge problem whose response z goes to 0: a solver that starts from zero starts from the last
iterate, and a relative tolerance of a tenth is enough far from the minimum (S. C. Eisenstat,
H. F. Walker, "Choosing the forcing terms in an inexact Newton method", 1996). J is measured along
the step, which is halved until J has fallen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.operator import pair_products
from kronfill.errors import DataError, argument
from kronfill.likelihoods.families import Likelihood, Parts
from kronfill.likelihoods.posed import PosedLikelihood
from kronfill.likelihoods.products import core_of, entry_products
from kronfill.ridge.effects import AdditiveEffects, EffectsDesign
from kronfill.ridge.problem import (
    Mask,
    Primal,
    RidgeProblem,
    RidgeResult,
    RidgeSolver,
    Sampled,
    fitted_at,
)
from kronfill.ridge.solution import Solution, Status
from kronfill.solvers.auto import Auto, solve_in_factors
from kronfill.solvers.dense import Cholesky
from kronfill.solvers.dual_pcg import DualPCG
from kronfill.solvers.iterative import Iterative
from kronfill.solvers.pcg import PCG
from kronfill.solvers.primal import PrimalDirect

__all__ = ["Iterate", "Newton", "curvature"]

MAX_STEPS = 200
HALVINGS = 50
DIRECT_TOL = 1e-10
"""Where every step is a direct solve, one more of them is cheap and squares the error."""
LOOSE, FLOOR = 0.1, 1e-11
"""Of the first inner solves; share of the largest curvature below which none is taken."""
SUFFICIENT = 1e-4
"""Share of the decrease promised by the slope that a step must bring (Armijo)."""
ROUNDING = 1e-13
RUNAWAY, FLAT = 15.0, 1e-6
"""Effects beyond the first, exp(15), where the curvature is below the second have run away."""


@dataclass(frozen=True, eq=False)
class Iterate:
    """Where the iteration is: d, Kbar d, the effects and the value of J."""

    dual: Floats
    function: Floats
    effects: AdditiveEffects | None
    objective: float = np.inf

    @classmethod
    def zero(cls, sampled: Sampled) -> Iterate:
        """The function 0."""
        effects = None
        if sampled.effects is not None:
            n, l = sampled.shape
            effects = AdditiveEffects(0.0, np.zeros(n), np.zeros(l))
        return cls(np.zeros(sampled.m), np.zeros(sampled.m), effects)


def curvature(sampled: Sampled, likelihood: Likelihood, eta: Floats) -> Floats:
    """h = w l''(y, eta), not below what rounding leaves of the largest."""
    h = sampled.weights_or_ones * likelihood.derivatives(sampled.values, eta)[1]
    return np.maximum(h, FLOOR * float(h.max()))


class Newton:
    """One penalised likelihood problem, solved for one mu after the other.

    Parameters
    ----------
    posed : PosedLikelihood
        The problem.
    solver : RidgeSolver
        For the steps.
    """

    def __init__(self, posed: PosedLikelihood, solver: RidgeSolver) -> None:
        posed.check_effects()
        s = posed.sampled
        self.posed, self.likelihood, self._offset = posed, posed.likelihood, posed.known
        self._bare = Mask(s.rows, s.cols, s.shape)
        self._steps = _Steps(posed.problem, solver, self._bare)
        size = np.abs(s.values) + self.likelihood.mean(self._offset)
        self._scale = float(np.linalg.norm(s.weights_or_ones * size))

    def eta(self, at: Iterate) -> Floats:
        """The latent numbers."""
        s = self.posed.sampled
        eta = self._offset + at.function
        return eta if at.effects is None else eta + at.effects.at(s.rows, s.cols)

    def elsewhere(self, at: Iterate, rows: Index, cols: Index) -> Floats:
        """f + effects at other entries."""
        primal = self._steps.primal
        if primal is None:
            out = fitted_at(self.posed.problem, at.dual, rows, cols)
        else:
            core = core_of(primal, self._bare, at.dual)
            out = pair_products(primal.row.phi @ core, primal.col.phi, rows, cols)
        return out if at.effects is None else out + at.effects.at(rows, cols)

    def _objective(
        self, eta: Floats, dual: Floats, function: Floats, mu: float
    ) -> tuple[float, Parts]:
        """J, and losses with their derivatives."""
        s = self.posed.sampled
        parts = self.likelihood.parts(s.values, eta)
        total = float(parts[0].sum() if s.weights is None else s.weights @ parts[0])
        return total + 0.5 * mu * float(dual @ function), parts

    def solve(self, mu: float, start: Iterate | None = None) -> tuple[Iterate, Solution]:
        """The minimum of J, from ``start`` (the solution for another mu, or other observations)."""
        s, loss = self.posed.sampled, self.likelihood
        at = Iterate.zero(s) if start is None else start
        eta = self.eta(at)
        value, parts = self._objective(eta, at.dual, at.function, mu)
        at = replace(at, objective=value)
        history, status = [at.objective], Status.MAX_ITERATIONS
        tight, last = 1.0, np.inf
        residual = np.inf
        for step in range(MAX_STEPS):
            _, slope, curve = parts
            weights = s.weights_or_ones
            rest = weights * slope + mu * at.dual
            residual = float(np.linalg.norm(rest)) / self._scale
            if (residual <= self._steps.tol and step > 0) or residual == 0.0:
                status = Status.CONVERGED
                break
            if step == 0 and start is None:
                curve, response = loss.first(s.values, self._offset)
                h = weights * curve
            else:
                h = np.maximum(weights * curve, FLOOR * float((weights * curve).max()))
                response = -rest / h
            fallen = 1.0 if np.isinf(last) else residual / last
            forcing = max(min(LOOSE, 0.9 * fallen**2), 0.3 * self._steps.tol / residual)
            last = residual
            found = self._steps.solve(h, response, mu, min(LOOSE, forcing) * tight)
            moved = self._line_search(at, eta, rest, mu, found)
            if moved is None:
                if residual <= 10 * self._steps.tol or tight < 1e-6 or self._steps.is_direct:
                    small = residual <= max(1e3 * ROUNDING, self._steps.tol)
                    status = Status.CONVERGED if small else Status.STALLED
                    break
                tight *= 1e-2  # the direction was too inexact to lead down
                continue
            at, eta, parts = moved
            history.append(at.objective)
        self._check_effects(at, eta)
        name, reason = self._steps.name, self._steps.reason
        solution = Solution(
            status, f"Newton with {name}", reason, len(history) - 1, residual, tuple(history)
        )
        return at, solution

    def _line_search(
        self, at: Iterate, eta: Floats, rest: Floats, mu: float, found: RidgeResult
    ) -> tuple[Iterate, Floats, Parts] | None:
        """The longest of the steps 1, 1/2, 1/4, ... that makes J fall enough; None for none."""
        s = self.posed.sampled
        further = self._steps.products(found.dual)
        change = further
        if found.effects is not None:
            change = further + found.effects.at(s.rows, s.cols)
        # dJ = g . (Kbar d' + Z beta') + mu d^T Kbar d', and Z^T d = 0.
        slope = float(rest @ change)
        if not slope < 0:
            return None
        length = 1.0
        for _ in range(HALVINGS):
            dual, function = at.dual + length * found.dual, at.function + length * further
            moved = eta + length * change
            value, parts = self._objective(moved, dual, function, mu)
            near = ROUNDING * abs(at.objective)
            if value <= at.objective + SUFFICIENT * length * slope + near:
                effects = _plus(at.effects, found.effects, length)
                return Iterate(dual, function, effects, value), moved, parts
            length /= 2
        return None

    def _check_effects(self, at: Iterate, eta: Floats) -> None:
        """Raise if the effects have run away at an entry that hardly resists.

        Effects of one axis are finite where each item has values of both kinds; those of two are
        not where the values between two blocks of the table are of one kind.
        """
        s = self.posed.sampled
        if at.effects is None or s.kind != "both":
            return
        flat = self.likelihood.derivatives(s.values, eta)[1] < FLAT
        if (np.abs(at.effects.at(s.rows, s.cols)[flat]) > RUNAWAY).any():
            kind = argument("center", s.kind)
            msg = (
                f"The unpenalised effects of {kind} have no finite best value: they tell the "
                "values of some rows or columns apart without an error. Use "
                f"{argument('center', 'mean')}, and a kernel with an identity part for effects "
                "that are shrunk towards it."
            )
            raise DataError(msg)

    def result(self, at: Iterate, solution: Solution) -> RidgeResult:
        """The solution as that of a ridge problem: what fitted forms are made of."""
        primal, identity = self._steps.primal, self._steps.with_identity
        if primal is not None:
            primal = replace(primal, core=core_of(primal, self._bare, at.dual))
        return RidgeResult(at.dual, at.effects, solution, primal, identity)


class _Steps:
    """Weighted ridge problems that differ in weights and responses: what is the same is kept."""

    def __init__(self, problem: RidgeProblem, solver: RidgeSolver, bare: Mask) -> None:
        self._problem, self._solver, self._bare = problem, solver, bare
        self._first: RidgeResult | None = None
        self._products: Callable[[Floats], Floats] | None = None

    @property
    def tol(self) -> float:
        """At which relative gradient to stop."""
        direct = self.is_direct or not isinstance(self._solver, Iterative)
        return DIRECT_TOL if direct else getattr(self._solver, "tol", DIRECT_TOL)

    @property
    def is_direct(self) -> bool:
        """Whether steps are exact, as far as is known."""
        return self._first is not None and self.name in ("Cholesky", "PrimalDirect")

    @property
    def name(self) -> str:
        """The solver of the steps."""
        return "" if self._first is None else self._first.solution.solver

    @property
    def reason(self) -> str:
        """Why it was taken."""
        return "" if self._first is None else self._first.solution.reason

    @property
    def primal(self) -> Primal | None:
        """Factors of the kernels, if the steps are solved there."""
        return None if self._first is None else self._first.primal

    @property
    def with_identity(self) -> tuple[Any, Any] | None:
        """Factors and identity parts, if the steps are solved there."""
        return None if self._first is None else self._first.with_identity

    def products(self, dual: Floats) -> Floats:
        """Kbar d."""
        assert self._products is not None  # the first step has made it
        return self._products(dual)

    def solve(self, h: Floats, response: Floats, mu: float, tol: float) -> RidgeResult:
        """Minimise sum h (response - delta)^2 + mu ||delta||^2, nearly."""
        s = self._problem.sampled
        design = None
        if s.kind is not None:
            design = EffectsDesign(s.rows, s.cols, s.shape, s.kind, h)
        sampled = Sampled(self._bare.reweighted(h), response, design)
        if self._first is None:
            problem = replace(self._problem, sampled=sampled, mu=mu)
            self._first = _loosened(self._solver, tol).solve(problem)
            self._products = entry_products(
                replace(problem, sampled=Sampled(self._bare, s.values)), self._first
            )
            return self._first
        solver = _loosened(self._chosen(), tol)
        if self.primal is not None:
            row, col = self.primal.row, self.primal.col
            return solve_in_factors(row.phi, col.phi, sampled, mu, solver).over(row, col)
        if self.with_identity is not None and isinstance(solver, PCG):
            return solver.solve_factored(*self.with_identity, sampled, mu)[0]
        return solver.solve(replace(self._problem, sampled=sampled, mu=mu))

    def _chosen(self) -> RidgeSolver:
        """What "auto" has taken in the first step is taken in the others."""
        if not isinstance(self._solver, Auto):
            return self._solver
        settings = {part.name: getattr(self._solver, part.name) for part in fields(Iterative)}
        if self.name == "PCG":  # rough directions need no double precision
            return PCG(**settings, dtype="float32")
        if self.name == "DualPCG":
            return DualPCG(**settings)
        return PrimalDirect() if self.name == "PrimalDirect" else Cholesky()


def _loosened(solver: RidgeSolver, tol: float) -> RidgeSolver:
    return replace(solver, tol=tol) if isinstance(solver, Iterative) else solver


def _plus(
    one: AdditiveEffects | None, other: AdditiveEffects | None, length: float
) -> AdditiveEffects | None:
    if one is None or other is None:
        return one
    return AdditiveEffects(
        one.mean + length * other.mean,
        one.row + length * other.row,
        one.col + length * other.col,
    )

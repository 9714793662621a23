"""Choose the solver of a ridge problem by what it would cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kronfill.errors import ParameterError
from kronfill.linalg.dense import Cholesky, GridEigen
from kronfill.linalg.memory import available_memory
from kronfill.linalg.operator import uses_grams
from kronfill.linalg.pcg import PCG, FactorSystem
from kronfill.linalg.primal import FACTOR_RTOL, PrimalDirect, solve_primal
from kronfill.linalg.ridge import CoreResult, RidgeProblem, RidgeResult, RidgeSolver, Sampled

__all__ = ["Auto", "as_solver", "solve_in_factors"]

Floats = NDArray[np.float64]

SMALL = 1500
"""Up to this many observations the dense Cholesky factorisation is taken without comparing."""
FLOPS = 3e10
"""Rough speed of dense factorisations and products, in multiply-adds a second."""
OPERATOR_FLOPS = 1.2e10
"""The same for a pass over the observations."""
ITERATIONS = 20
"""Typical of conjugate gradients here."""


@dataclass(frozen=True)
class Auto(RidgeSolver):
    """The solver that is expected to be the fastest among those that fit in memory."""

    def solve(self, problem: RidgeProblem) -> RidgeResult:
        """Choose and solve; ``solution.reason`` says why."""
        s = problem.sampled
        if s.is_complete and s.m > 1:
            return _because(GridEigen().solve(problem), "every entry is observed")
        if s.m <= SMALL:
            return _because(Cholesky().solve(problem), f"only {s.m} observations")
        row = problem.row_kernel.factor(rtol=FACTOR_RTOL)
        col = problem.col_kernel.factor(rtol=FACTOR_RTOL)
        costs, reason = _compare(s, (row.phi.shape[1], col.phi.shape[1]))
        if min(costs, key=lambda name: costs[name]) == "Cholesky":
            return _because(Cholesky().solve(problem), reason)
        result = solve_in_factors(row.phi, col.phi, s, problem.mu)
        return _because(result.over(row, col), reason)


def solve_in_factors(
    row_phi: Floats, col_phi: Floats, sampled: Sampled, mu: float, solver: object = "auto"
) -> CoreResult:
    """Solve for X in F = row_phi X col_phi^T with the solver given, or the cheapest one."""
    chosen = as_solver(solver)
    reason = "as asked"
    if isinstance(chosen, Auto):
        costs, reason = _compare(sampled, (row_phi.shape[1], col_phi.shape[1]))
        costs.pop("Cholesky", None)
        best = min(costs, key=lambda name: costs[name])
        chosen = PrimalDirect() if best == "PrimalDirect" else PCG()
    if isinstance(chosen, PrimalDirect):
        result = solve_primal(row_phi, col_phi, sampled, mu)
    elif isinstance(chosen, PCG):
        result = chosen.solve_system(FactorSystem.of(row_phi, col_phi, sampled), mu)
    else:
        msg = (
            "A problem given by factors is solved by kf.PrimalDirect() or kf.PCG(...), got "
            f"{solver!r}."
        )
        raise ParameterError(msg)
    return replace(result, solution=replace(result.solution, reason=reason))


def _compare(sampled: Sampled, ranks: tuple[int, int]) -> tuple[dict[str, float], str]:
    """Expected seconds of each solver, and a sentence about them."""
    costs = _costs(sampled.m, sampled.shape, ranks, sampled.effects is not None)
    told = ", ".join(f"{name} {cost:.2g} s" for name, cost in costs.items())
    return costs, (
        f"least expected time for m = {sampled.m} and ranks {ranks[0]} x {ranks[1]}: {told}"
    )


def _costs(
    m: int, shape: tuple[int, int], ranks: tuple[int, int], effects: bool
) -> dict[str, float]:
    """Expected seconds of each solver whose arrays fit in memory."""
    a, b = ranks
    unknowns = a * b
    free = available_memory() or 1 << 62
    extra = sum(shape) if effects else 0
    costs = {}
    if 10.0 * m * (m + extra) < free:
        costs["Cholesky"] = (m**3 / 3 + m * m * extra) / FLOPS
    if 20.0 * unknowns * (unknowns + extra) < free and extra < 4000:
        gram = shape[0] * unknowns**2 / 4 + m * b * b
        dense = unknowns**3 / 3 + unknowns**2 * (extra + 10) + 10 * extra**3
        costs["PrimalDirect"] = (gram + dense) / FLOPS + m / 1e8
    inner = min(a, b)
    outer_items = shape[0] if a >= b else shape[1]
    products = 2 * outer_items * a * b / FLOPS
    if uses_grams(m, outer_items, inner) and not effects:
        setup, sweep = m * inner**2 / FLOPS, outer_items * inner**2 / OPERATOR_FLOPS + products
    else:
        setup, sweep = 0.0, 2 * m * inner / OPERATOR_FLOPS + products
    rotation = 10 * (a**3 + b**3) / FLOPS
    costs["PCG"] = rotation + setup + ITERATIONS * (2 if effects else 1) * sweep + m / 3e7
    return costs


def _because(result: RidgeResult, reason: str) -> RidgeResult:
    return replace(result, solution=replace(result.solution, reason=reason))


def as_solver(solver: object) -> RidgeSolver:
    """Turn the parameter ``solver`` of an estimator into a solver."""
    if solver == "auto":
        return Auto()
    if isinstance(solver, RidgeSolver):
        return solver
    msg = (
        "solver must be 'auto' or a solver object such as kf.Cholesky() or kf.PCG(tol=1e-8), "
        f"got {solver!r}."
    )
    raise ParameterError(msg)

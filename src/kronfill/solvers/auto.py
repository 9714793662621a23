"""Choose the solver of a ridge problem by what it would cost."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from kronfill._types import Floats
from kronfill.core.limits import FACTOR_RTOL, SMALL_SYSTEM
from kronfill.core.memory import available_memory
from kronfill.data.amounts import count_of, size_of
from kronfill.errors import MemoryLimitError, ParameterError
from kronfill.ridge.dual_operator import largest_rank
from kronfill.ridge.identity_system import FactorPlusIdentity
from kronfill.ridge.problem import CoreResult, RidgeProblem, RidgeResult, RidgeSolver, Sampled
from kronfill.solvers import costs
from kronfill.solvers.costs import Cost, Size
from kronfill.solvers.dense import Cholesky, GridEigen
from kronfill.solvers.dual_pcg import DualPCG
from kronfill.solvers.pcg import PCG, FactorSystem, Iterative
from kronfill.solvers.primal import PrimalDirect, solve_primal

__all__ = ["Auto", "as_solver", "solve_in_factors"]

Result = TypeVar("Result", RidgeResult, CoreResult)

LEAST_TRIAL = 8
"""A trial that must end before this rank is not worth while."""
TRIAL = 0.1
"""Share of the cost of doing without factors that may be spent on finding that they are thin."""


@dataclass(frozen=True)
class Auto(Iterative):
    """The solver that is expected to be the fastest among those that fit in memory.

    What ``solver="auto"`` stands for; as an object it takes the settings of the iterative solvers.

    Parameters
    ----------
    tol, max_iter, time_limit, callback, progress :
        As for :class:`PCG`, for whichever iterative solver is chosen.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> rng = np.random.default_rng(0)
    >>> k = kf.kernels.rbf(rng.random((200, 2)), length_scale=0.7)
    >>> X = np.argwhere(rng.random((200, 200)) < 0.2)
    >>> est = kf.KKMCEX(k, k, solver=kf.Auto(tol=1e-8)).fit(X, rng.random(len(X)))
    >>> est.solution_.solver, est.solution_.reason.split(":")[0]
    ('PCG', 'least expected time for m = 7999 and ranks 61 x 61')
    """

    def solve_targets(self, problem: RidgeProblem) -> list[RidgeResult]:
        """Choose and solve; ``solution.reason`` says why."""
        begun = time.monotonic()
        if problem.sampled.m <= SMALL_SYSTEM and not problem.sampled.is_complete:
            reason = f"only {count_of(problem.sampled.m, 'observation')}"
            return [_because(one, reason) for one in Cholesky().solve_targets(problem)]
        size = Size.of_problem(problem)
        table = {"Cholesky": costs.cholesky(size), "DualPCG": costs.dual_pcg(size, (None, None))}
        if problem.sampled.is_complete and size.m > 1:
            table["GridEigen"] = costs.grid_eigen(size)
        thin = _thin(problem, min(cost.seconds for cost in (_fitting(table) or table).values()))
        ranks = "full ranks"
        if thin is not None:
            a, b = (kernel.rank for kernel in thin)
            ranks = f"ranks {a} x {b}"
            if any(kernel.identity for kernel in thin):
                ranks += " beside the identity"
                table["PCG"] = costs.identity_pcg(size, (a, b))
            else:
                kept = [
                    r if r <= largest_rank(n) else None
                    for r, n in zip((a, b), size.shape, strict=True)
                ]
                table["DualPCG"] = costs.dual_pcg(size, (kept[0], kept[1]))
                table |= _in_factors(size, (a, b))
        name, why = _least(table)
        found = self._solve(name, problem, thin)
        took = time.monotonic() - begun
        reason = f"least expected time for m = {size.m} and {ranks}: {why}; it took {took:.2g} s"
        return [_because(one, reason) for one in found]

    def _solve(
        self,
        name: str,
        problem: RidgeProblem,
        thin: tuple[FactorPlusIdentity, FactorPlusIdentity] | None,
    ) -> list[RidgeResult]:
        if thin is not None and name == "PCG":
            return PCG(**self._settings()).solve_factored(*thin, problem.sampled, problem.mu)
        if thin is not None and name == "PrimalDirect":
            return PrimalDirect().solve_factors(thin[0].factor, thin[1].factor, problem)
        if name == "DualPCG":
            return DualPCG(**self._settings()).solve_targets(problem)
        return (GridEigen() if name == "GridEigen" else Cholesky()).solve_targets(problem)

    def _settings(self) -> dict[str, Any]:
        """These settings, for an iterative solver."""
        return {field.name: getattr(self, field.name) for field in fields(Iterative)}


def _thin(
    problem: RidgeProblem, alternative: float
) -> tuple[FactorPlusIdentity, FactorPlusIdentity] | None:
    """Factors of both kernels, unless finding them costs more than they could save."""
    found = []
    for kernel in (problem.row_kernel, problem.col_kernel):
        if kernel.by_products:
            return None
        limit = costs.affordable_rank(kernel.n, TRIAL * alternative)
        if limit < LEAST_TRIAL and kernel.known_rank is None:
            return None
        limit = max(limit, kernel.known_rank or 1)
        factored = FactorPlusIdentity.of(kernel, max_rank=min(kernel.n, limit))
        if getattr(factored.factor, "residual", 0.0) > FACTOR_RTOL:
            return None
        found.append(factored)
    return found[0], found[1]


def _in_factors(size: Size, ranks: tuple[int, int]) -> dict[str, Cost]:
    return {
        "PrimalDirect": costs.primal_direct(size, ranks),
        "PCG": costs.pcg(size, ranks),
    }


def _fitting(table: dict[str, Cost]) -> dict[str, Cost]:
    """The solvers whose arrays fit."""
    free = available_memory() or 1 << 62
    return {name: cost for name, cost in table.items() if cost.bytes < free}


def _least(table: dict[str, Cost]) -> tuple[str, str]:
    """The cheapest solver that fits, and a sentence about all of them."""
    fitting = _fitting(table)
    listed = ", ".join(
        f"{name} {cost.seconds:.2g} s{'' if name in fitting else ' (too large)'}"
        for name, cost in table.items()
    )
    if not fitting:
        least = min(table, key=lambda name: table[name].bytes)
        free = available_memory() or 0
        msg = (
            f"The smallest solver for this problem, {least}, needs "
            f"{size_of(table[least].bytes)}, {size_of(free)} are available. Use "
            "kernels of lower rank (RRMCEX with row_rank and col_rank), or fewer observations."
        )
        raise MemoryLimitError(msg)
    return min(fitting, key=lambda name: fitting[name].seconds), listed


def solve_in_factors(
    row_phi: Floats, col_phi: Floats, sampled: Sampled, mu: float, solver: object = "auto"
) -> CoreResult:
    """Solve for X in F = row_phi X col_phi^T with the solver given, or the cheapest one."""
    chosen = as_solver(solver)
    reason = "as asked"
    if isinstance(chosen, Auto):
        ranks = (row_phi.shape[1], col_phi.shape[1])
        size = Size.of(sampled)
        best, why = _least(_in_factors(size, ranks))
        reason = f"least expected time for m = {size.m} and ranks {ranks[0]} x {ranks[1]}: {why}"
        chosen = PrimalDirect() if best == "PrimalDirect" else PCG(**chosen._settings())
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
    return _because(result, reason)


def _because(result: Result, reason: str) -> Result:
    return replace(result, solution=replace(result.solution, reason=reason))


def as_solver(solver: object) -> RidgeSolver:
    """Turn the parameter ``solver`` of an estimator into a solver."""
    if isinstance(solver, str) and solver == "auto":
        return Auto()
    if isinstance(solver, RidgeSolver):
        return solver
    msg = (
        "solver must be 'auto' or a solver object such as kf.Cholesky() or kf.PCG(tol=1e-8), "
        f"got {solver!r}."
    )
    raise ParameterError(msg)

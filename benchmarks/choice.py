"""``solver="auto"`` against every solver that applies, on one problem, as a child process.

All solvers run in the same process, in turn, so that a slow minute of the machine hits all alike.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

from benchmarks.problems import Problem
from benchmarks.scale import factors, fit, inputs, warm_up

CHOLESKY_M, PRIMAL_UNKNOWNS = 6_000, 4_000
"""Beyond these a direct solver takes long; on the way there it has lost by far."""
LOST = 3.0
"""An iterative solver that takes so many times the time of the best has lost and is stopped."""


def applicable(problem: Problem, unknowns: float) -> list[str]:
    """Names of the solvers that can do the problem in reasonable time."""
    import kronfill as kf

    names = ["PCG"]
    names += ["DualPCG"] if getattr(kf, "DualPCG", None) is not None else []
    names += ["Cholesky"] if problem.m <= CHOLESKY_M else []
    names += ["PrimalDirect"] if unknowns <= PRIMAL_UNKNOWNS else []
    names += ["GridEigen"] if problem.m == problem.size**2 else []
    return names


def compare(problem: Problem, rounds: int = 3, limit: float = 2.0, warm: bool = True) -> dict:
    """Best seconds of each solver; one that took more than ``limit`` is not run again."""
    import kronfill as kf

    if warm:
        warm_up(problem)
    pairs, values = problem.data()
    sides = inputs(problem)
    low_rank = problem.kind == "rbf" and not problem.identity
    ranks = factors(problem)["ranks"] if low_rank else [problem.size] * 2
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}
    names = ["auto", *applicable(problem, ranks[0] * ranks[1])]
    taken = ""
    for _ in range(rounds):
        for name in names:
            if name in failed or seconds.get(name, 0.0) > limit:
                continue
            begun = time.perf_counter()
            try:
                best = min(seconds.values(), default=60.0)
                est = fit(problem, pairs, values, name, sides, max(1.0, LOST * best))
            except kf.errors.KronfillError as error:
                failed[name] = f"{type(error).__name__}: {error}"[:200]
                continue
            spent = time.perf_counter() - begun
            if not est.solution_.converged:
                failed[name] = f"over {spent:.1f} s"
                continue
            seconds[name] = min(spent, seconds.get(name, spent))
            taken = est.solution_.solver if name == "auto" else taken
    result = {"ranks": ranks, "seconds": seconds, "failed": failed, "taken": taken}
    explicit = [value for name, value in seconds.items() if name != "auto"]
    if explicit and "auto" in seconds:
        result["auto_over_best"] = seconds["auto"] / min(explicit)
    return result


def main() -> None:
    import kronfill as kf

    problem, more = Problem.parse(sys.argv[1])
    warnings.simplefilter("ignore", kf.errors.KronfillWarning)
    print(json.dumps(compare(problem, **more)))


if __name__ == "__main__":
    main()

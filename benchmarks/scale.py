"""kronfill on one problem, as a child: ``python -m benchmarks.scale '{"m": 1000, "size": 300}'``.

Time is from arrays to the fitted estimator: kernels from points, validation, sorting, factors and
solve. The relative residual is that of the exact kernels, on sampled rows.
"""

from __future__ import annotations

import contextlib
import json
import sys
import warnings

import numpy as np

from benchmarks import clock, kernels
from benchmarks.problems import MU, Problem, true_residual


def solver_named(name: str, limit: float):
    """'auto', or a solver object with a limit on its time where it takes one."""
    import kronfill as kf

    if name == "auto":
        return name
    kind = getattr(kf, name)
    limited = "time_limit" in getattr(kind, "__dataclass_fields__", {})
    return kind(time_limit=limit) if limited else kind()


def fit(problem: Problem, pairs, values, solver: str = "auto", sides=None, limit: float = 60.0):
    """A fitted estimator. Matrices that are input (``sides``) are not made again."""
    import kronfill as kf

    made = kernels.make(problem) if sides is None else sides
    return kf.KKMCEX(*made, mu=MU, solver=solver_named(solver, limit)).fit(pairs, values)


def inputs(problem: Problem):
    """Matrices and graphs are input and made before the clock starts; features are not."""
    return None if problem.kind == "rbf" else kernels.make(problem)


def warm_up(problem: Problem) -> None:
    """Load what is compiled, on a problem of the same kind that takes no time."""
    import kronfill as kf

    small = Problem(2000, 100, problem.scales, problem.identity, kind=problem.kind)
    pairs, values = small.data()
    for solver in ("PCG", "Cholesky", "auto"):
        with contextlib.suppress(kf.errors.KronfillError):  # a solver may decline this kernel
            fit(small, pairs, values, solver).predict_matrix()


def measure(problem: Problem, solver: str = "auto", repeats: int = 3, warm: bool = True) -> dict:
    if warm:
        warm_up(problem)
    pairs, values = problem.data()
    sides = inputs(problem)
    found, est = clock.measured(lambda: fit(problem, pairs, values, solver, sides), repeats)
    solution = est.solution_
    names = ("solver", "iterations", "residual", "reason", "converged")
    result = found | {name: getattr(solution, name) for name in names}
    exact = problem.kernel_rows if sides is None else _rows_of(sides)
    result["true_residual"] = true_residual(pairs, values, est.dual_coef_, exact)
    if problem.size <= 3000:
        times, _ = clock.best_of(est.predict_matrix, repeats)
        result["predict_matrix_s"] = times["seconds"]
    if problem.kind == "rbf" and not problem.identity:
        result |= factors(problem)
        if solution.solver == "PCG":
            result |= work_on_factors(problem, pairs, values)
    return result


def _rows_of(sides):
    """Rows of given kernels, whether objects or matrices."""

    def rows(axis, items):
        kernel = sides[axis]
        return kernel[items] if isinstance(kernel, np.ndarray) else kernel.block(items, None)

    return rows


def phis(problem: Problem) -> list[np.ndarray]:
    """The factors of both kernels."""
    return [kernel.factor(rtol=1e-13).phi for kernel in kernels.make(problem)]


def factors(problem: Problem) -> dict:
    """Ranks, and the time of making the factors."""
    times, made = clock.best_of(lambda: phis(problem), 1)
    return {"ranks": [phi.shape[1] for phi in made], "factors_s": times["seconds"]}


FEW = 3000
"""So many rows of a factor stay in the cache."""


def work_on_factors(problem: Problem, pairs, values) -> dict:
    """Seconds of what is done with the factors in a fit: what grows with N at a fixed m.

    Making them and turning them is clocked in one more fit, as are its passes. Of a pass two parts
    belong to the factors, each measured apart:

    * products with them: a pass with one observation for each outer item costs hardly more;
    * reading the row of an inner item for each observation from memory, not from the cache: a pass,
      less one whose observations have only the first few inner items.
    """
    from kronfill.core.operator import SampledKronecker
    from kronfill.kernels.base import Kernel
    from kronfill.ridge.factor_system import Rotated

    with (
        clock.calls(Kernel, "factor") as making,
        clock.calls(Rotated, "of") as turning,
        clock.calls(SampledKronecker, "normal") as whole,
        clock.calls(SampledKronecker, "sample") as forth,
        clock.calls(SampledKronecker, "scatter") as back,
    ):
        seconds, _ = clock.best_of(lambda: fit(problem, pairs, values), 1)
    passes = len(whole) + (len(forth) + len(back)) / 2
    products, reading = parts_of_a_pass(problem, pairs)
    return {
        "clocked_s": seconds["seconds"], "factors_s": sum(making), "turning_s": sum(turning),
        "products_s": passes * products, "reading_s": passes * reading,
    }  # fmt: skip


def parts_of_a_pass(problem: Problem, pairs) -> tuple[float, float]:
    """Seconds of the products with the factors, and of reading rows from memory."""
    from kronfill.core.grouping import Grouped
    from kronfill.core.operator import SampledKronecker
    from kronfill.core.threads import one_blas_thread

    made, n = phis(problem), problem.size
    by = int(np.argmax([phi.shape[1] for phi in made]))
    outer, inner = made[by], made[1 - by]
    x = np.random.default_rng(0).standard_normal((outer.shape[1], inner.shape[1]))

    def a_pass(outer_items, inner_items) -> float:
        operator = SampledKronecker(outer, inner, Grouped.by(outer_items, inner_items, n))
        with one_blas_thread():
            return clock.best_of(lambda: operator.normal(x), 3)[0]["seconds"]

    items, others = pairs[:, by], pairs[:, 1 - by]
    reading = a_pass(items, others) - a_pass(items, others % FEW) if n > FEW else 0.0
    return a_pass(np.arange(n), np.zeros(n, np.intp)), max(0.0, reading)


def main() -> None:
    import kronfill as kf

    problem, more = Problem.parse(sys.argv[1])
    warnings.simplefilter("ignore", kf.errors.KronfillWarning)  # the result says how it went
    try:
        result = measure(problem, **more)
    except kf.errors.KronfillError as error:
        result = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(result))


if __name__ == "__main__":
    main()

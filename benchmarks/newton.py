"""Classes and counts against numbers on one problem: ``python -m benchmarks.newton '{"m": ...}'``.

The latent numbers are three times the smooth function of the problem; labels are drawn with these
log odds, counts with means exp(eta - 1/2). Ranks, entries and mu are those of the fit to numbers.
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np

from benchmarks import clock, kernels
from benchmarks.problems import MU, Problem


def drawn(problem: Problem, pairs) -> dict[str, np.ndarray]:
    """Labels and counts at the entries of a problem."""
    rng = np.random.default_rng(5)
    eta = 3 * problem.smooth(*pairs.T)
    labels = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(int)
    return {"KKMCEXClassifier": labels, "KKMCEXPoisson": rng.poisson(np.exp(eta - 0.5))}


def fit(name: str, problem: Problem, pairs, values):
    """A fitted estimator of this class."""
    import kronfill as kf

    return getattr(kf, name)(*kernels.make(problem), mu=MU).fit(pairs, values)


def measure(problem: Problem, repeats: int = 3, warm: bool = True) -> dict:
    """Seconds of the fit to numbers, and how many times as long each of the others takes."""
    if warm:
        measure(Problem(20_000, 300), 1, warm=False)
    pairs, values = problem.data()
    plain, _ = clock.best_of(lambda: fit("KKMCEX", problem, pairs, values), repeats)
    found = {"kkmcex_s": plain["seconds"]}
    for name, y in drawn(problem, pairs).items():
        taken, est = clock.best_of(lambda: fit(name, problem, pairs, y), repeats)  # noqa: B023
        solution = est.solution_
        found[name] = {
            "seconds": taken["seconds"], "times": taken["seconds"] / plain["seconds"],
            "steps": solution.iterations, "residual": solution.residual,
            "converged": solution.converged,
        }  # fmt: skip
    return found


def main() -> None:
    import kronfill as kf

    problem, more = Problem.parse(sys.argv[1])
    warnings.simplefilter("ignore", kf.errors.KronfillWarning)  # the result says how it went
    print(json.dumps(measure(problem, **more)))


if __name__ == "__main__":
    main()

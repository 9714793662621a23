"""SciPy's Cholesky factorisation and scikit-learn's KernelRidge on one problem, as a child process.

Both get the m x m kernel over the observed entries; making it from the points counts.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version

from benchmarks import clock
from benchmarks.problems import MU, Problem, true_residual


def scipy_dual(problem: Problem, pairs, values):
    import scipy.linalg

    kernel = problem.entry_kernel(pairs)
    kernel.flat[:: len(values) + 1] += MU
    # The transpose of a symmetric matrix is itself, in the order that LAPACK works on in place.
    factor = scipy.linalg.cho_factor(kernel.T, lower=True, overwrite_a=True, check_finite=False)
    return scipy.linalg.cho_solve(factor, values, check_finite=False)


def kernel_ridge_dual(problem: Problem, pairs, values):
    from sklearn.kernel_ridge import KernelRidge

    kernel = problem.entry_kernel(pairs)
    return KernelRidge(alpha=MU, kernel="precomputed").fit(kernel, values).dual_coef_


LIBRARIES = {"scipy": scipy_dual, "scikit-learn": kernel_ridge_dual}


def main() -> None:
    library, (problem, more) = sys.argv[1], Problem.parse(sys.argv[2])
    pairs, values = problem.data()
    small = Problem(100, 20)
    LIBRARIES[library](small, *small.data())
    found, dual = clock.measured(lambda: LIBRARIES[library](problem, pairs, values), **more)
    result = found | {
        "true_residual": true_residual(pairs, values, dual, problem.kernel_rows),
        "version": version(library),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

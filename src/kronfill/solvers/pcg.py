"""Preconditioned conjugate gradients in the space of the kernels' factors."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from kronfill._types import Floats
from kronfill.core.memory import require_memory
from kronfill.core.threads import one_blas_thread
from kronfill.errors import ParameterError
from kronfill.ridge.factor_system import FactorSystem, Rotated
from kronfill.ridge.identity_system import FactorPlusIdentity, IdentitySystem
from kronfill.ridge.problem import CoreResult, RidgeProblem, RidgeResult, Sampled
from kronfill.ridge.system import System
from kronfill.solvers import costs
from kronfill.solvers.iterative import Iterative, Rounds

__all__ = ["PCG", "FactorSystem", "Iterative", "Rotated", "over_kernels", "system_of"]


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

    def solve_targets(self, problem: RidgeProblem) -> list[RidgeResult]:
        """See :class:`RidgeSolver`."""
        begun = time.monotonic()
        row = FactorPlusIdentity.of(problem.row_kernel)
        col = FactorPlusIdentity.of(problem.col_kernel)
        return self.solve_factored(row, col, problem.sampled, problem.mu, begun)

    def solve_factored(
        self,
        row: FactorPlusIdentity,
        col: FactorPlusIdentity,
        sampled: Sampled,
        mu: float,
        begun: float | None = None,
    ) -> list[RidgeResult]:
        """Solve for kernels that are factored already."""
        cost = costs.identity_pcg if row.identity or col.identity else costs.pcg
        expected = cost(costs.Size.of(sampled), (row.rank, col.rank))
        what = f"PCG for {sampled.m:,} observations and ranks {row.rank:,} x {col.rank:,}"
        advice = "Kernels of lower rank (kf.RRMCEX, a larger length scale) or fewer rows need less."
        require_memory(expected.bytes, what, advice)
        solved = self.solve_all(system_of(row, col, sampled, mu), mu, begun=begun)
        return [over_kernels(one, row, col) for one in solved]

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
            whole = mu + system.shift
            single = None if self.dtype == "float64" else system.single()
            begin = None if starts is None else np.stack([system.start(one) for one in starts])
            x, solutions = Rounds(self, system, whole, single, begun).solve(begin)
            return [system.result(x[k], whole, k, one) for k, one in enumerate(solutions)]


def system_of(
    row: FactorPlusIdentity, col: FactorPlusIdentity, sampled: Sampled, mu: float
) -> System:
    """The system of two factored kernels."""
    if row.identity or col.identity:
        return IdentitySystem.of(row, col, sampled, mu, centred=True)
    return FactorSystem.of(row.factor.phi, col.factor.phi, sampled)


def over_kernels(
    result: CoreResult, row: FactorPlusIdentity, col: FactorPlusIdentity
) -> RidgeResult:
    """Join the factored kernels to the solution of their system."""
    if row.identity or col.identity:
        both = (row, col)
        return RidgeResult(result.dual, result.effects, result.solution, with_identity=both)
    return result.over(row.factor, col.factor)

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

__all__ = ["PCG", "FactorSystem", "Iterative", "Rotated"]


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
        row, col = (
            FactorPlusIdentity.of(problem.row_kernel),
            FactorPlusIdentity.of(problem.col_kernel),
        )
        return self.solve_split(row, col, problem.sampled, problem.mu, begun)

    def solve_split(
        self,
        row: FactorPlusIdentity,
        col: FactorPlusIdentity,
        sampled: Sampled,
        mu: float,
        begun: float | None = None,
    ) -> list[RidgeResult]:
        """Solve for kernels that are factored already."""
        ranks = (row.factor.phi.shape[1], col.factor.phi.shape[1])
        plain_parts = row.identity == 0 and col.identity == 0
        expected = (costs.pcg if plain_parts else costs.identity_pcg)(costs.Size.of(sampled), ranks)
        what = f"PCG for {sampled.m:,} observations and ranks {ranks[0]:,} x {ranks[1]:,}"
        advice = "Kernels of lower rank (kf.RRMCEX, a larger length scale) or fewer rows need less."
        require_memory(expected.bytes, what, advice)
        if plain_parts:
            plain = FactorSystem.of(row.factor.phi, col.factor.phi, sampled)
            solved = self.solve_all(plain, mu, begun=begun)
            return [one.over(row.factor, col.factor) for one in solved]
        system = IdentitySystem.of(row, col, sampled, mu, centred=True)
        return [
            RidgeResult(one.dual, one.effects, one.solution, split=(row, col))
            for one in self.solve_all(system, mu, begun=begun)
        ]

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

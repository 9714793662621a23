"""The slow obvious way: dense Kronecker products, explicit sampling matrices, least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from kronfill import kernels
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.problem import Mask, RidgeProblem, Sampled
from kronfill.solvers.half_steps import FactorKernel


@dataclass(frozen=True)
class Case:
    """A random problem; ranks below the sizes make the kernels singular."""

    shape: tuple[int, int]
    ranks: tuple[int, int]
    m: int
    kind: str | None = None
    weighted: bool = False
    mu: float = 0.3
    seed: int = 0
    ridges: tuple[float, float] = (0.0, 0.0)

    def build(self):
        rng = np.random.default_rng(self.seed)
        (n, l), (a, b) = self.shape, self.ranks
        row, col = rng.standard_normal((n, a)), rng.standard_normal((l, b))
        rows, cols = np.divmod(rng.choice(n * l, size=self.m, replace=False), l)
        values = rng.standard_normal(self.m) + 2.0
        weights = rng.uniform(0.2, 3.0, self.m) if self.weighted else None
        design = None
        if self.kind is not None:
            design = EffectsDesign(rows, cols, self.shape, self.kind, weights)
        sampled = Sampled(Mask(rows, cols, self.shape, weights), values, design)
        pair = [_kernel(*side) for side in zip((row, col), self.ridges, strict=True)]
        return RidgeProblem(*pair, sampled, self.mu)


def _kernel(phi, ridge):
    """phi phi^T, with an identity part where there is one."""
    if ridge == 0:
        return FactorKernel(phi)
    identity = ridge * kernels.identity(len(phi))
    return identity if phi.shape[1] == 0 else kernels.linear(phi) + identity


def dense_solution(problem):
    """d and the fitted values by brute force: np.kron, S, and one saddle-point system."""
    s = problem.sampled
    n, l = s.shape
    kernel = np.kron(problem.col_kernel.block(), problem.row_kernel.block())  # vec column-major
    sampling = np.zeros((s.m, n * l))
    sampling[np.arange(s.m), s.cols * n + s.rows] = 1.0
    kbar = sampling @ kernel @ sampling.T
    weights = np.ones(s.m) if s.weights is None else s.weights
    a = kbar + problem.mu * np.diag(1 / weights)
    if s.effects is None:
        d = np.linalg.solve(a, s.values)
        return d, (kernel @ sampling.T @ d).reshape(n, l, order="F"), np.zeros((n, l))
    z = s.effects.matrix().toarray()
    q = z.shape[1]
    saddle = np.block([[a, z], [z.T, np.zeros((q, q))]])
    solved = scipy.linalg.lstsq(saddle, np.concatenate([s.values, np.zeros(q)]))[0]
    d, beta = solved[: s.m], solved[s.m :]
    function = (kernel @ sampling.T @ d).reshape(n, l, order="F")
    return d, function, smallest(s.effects, z @ beta).outer_all()


@dataclass(frozen=True)
class Additive:
    """mean + row + col."""

    mean: float
    row: np.ndarray
    col: np.ndarray

    def outer_all(self):
        return self.mean + self.row[:, None] + self.col[None, :]


def smallest(design, fitted):
    """Effects with these fitted values and the least ||row||^2 + ||col||^2, mean free."""
    z = design.matrix().toarray()
    # Minimise over (mean, rest): eliminate the mean by projecting out the column of ones.
    ones = np.ones((len(z), 1))
    project = np.eye(len(z)) - ones @ ones.T / len(z)
    free = project @ z[:, 1:]
    free[np.abs(free) < 1e-12] = 0.0
    rest = np.linalg.pinv(free, rcond=1e-10) @ (project @ fitted)
    mean = float(np.mean(fitted - z[:, 1:] @ rest))
    n, l = design.shape
    row, col = np.zeros(n), np.zeros(l)
    if design.kind in ("rows", "both"):
        row, rest = rest[:n], rest[n:]
    if design.kind in ("cols", "both"):
        col = rest
    return Additive(mean, row, col)

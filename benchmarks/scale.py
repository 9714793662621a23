"""KKMCEX from a thousand observations to a hundred million, on RBF kernels of the unit square.

N and L random points on each axis; length scale 0.7 gives ranks near 60, 0.2 near 256, 0.05 near
2,000; mu = 0.1, factors to 1e-13 of the trace. Time is ``fit(X, y)`` from arrays: validation,
sorting, factors and solve. The relative residual is that of the exact kernels, on sampled rows.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import dataclass

import numpy as np

MU = 0.1


@dataclass(frozen=True)
class Problem:
    m: int
    size: int
    scales: tuple[float, float]
    identity: float = 0.0
    zipf: bool = False

    def build(self, seed: int = 0):
        """Kernels, index pairs and values."""
        import kronfill as kf

        rng = np.random.default_rng(seed)
        points = [rng.random((self.size, 2)) for _ in range(2)]
        kernels = [
            kf.kernels.rbf(p, length_scale=s) for p, s in zip(points, self.scales, strict=True)
        ]
        if self.identity:
            kernels = [k + self.identity * kf.kernels.identity(self.size) for k in kernels]
        pairs = self._pairs(rng)
        x, y = points[0][pairs[:, 0]], points[1][pairs[:, 1]]
        values = np.sin(3 * x[:, 0]) * np.cos(2 * y[:, 1]) + x[:, 1] * y[:, 0]
        values += 0.1 * rng.standard_normal(self.m)
        return kernels, pairs, values

    def _pairs(self, rng):
        codes = np.empty(0, np.int64)
        while len(codes) < self.m:
            more = int(1.1 * (self.m - len(codes))) + 100
            if self.zipf:
                p = 1.0 / (np.arange(self.size) + 10.0)
                rows, cols = (rng.choice(self.size, more, p=p / p.sum()) for _ in range(2))
                new = rows * self.size + cols
            else:
                new = rng.integers(0, self.size**2, more)
            codes = np.unique(np.concatenate([codes, new]))
        codes = rng.permutation(codes)[: self.m]
        return np.column_stack(np.divmod(codes, self.size))


def true_residual(kernels, pairs, values, dual, rows=200, seed=1):
    """Relative residual of (Kbar + mu I) d = y at sampled observations, exact kernels."""
    rng = np.random.default_rng(seed)
    take = rng.choice(len(values), size=min(rows, len(values)), replace=False)
    gap = np.empty(len(take))
    for k, a in enumerate(take):
        left = kernels[0].block([pairs[a, 0]], None)[0]
        right = kernels[1].block([pairs[a, 1]], None)[0]
        gap[k] = np.sum(left[pairs[:, 0]] * dual * right[pairs[:, 1]]) + MU * dual[a] - values[a]
    return float(np.linalg.norm(gap) / np.linalg.norm(values[take]))


def measure(problem: Problem, repeats: int = 3, check: bool = True) -> dict:
    import kronfill as kf

    kernels, pairs, values = problem.build()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(repeats):
        est = kf.KKMCEX(*kernels, mu=MU)
        begun = time.perf_counter()
        est.fit(pairs, values)
        times.append(time.perf_counter() - begun)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    s = est.solution_
    result = {
        "m": problem.m, "size": problem.size, "scales": problem.scales, "zipf": problem.zipf,
        "identity": problem.identity, "seconds": min(times), "first": times[0],
        "beyond_input_gib": (after - before) / 2**20, "peak_gib": after / 2**20,
        "solver": s.solver, "iterations": s.iterations, "residual": s.residual,
        "reason": s.reason,
    }  # fmt: skip
    if check:
        result["true_residual"] = true_residual(kernels, pairs, values, est.dual_coef_)
    if problem.size <= 3000:
        begun = time.perf_counter()
        est.predict_matrix()
        result["predict_matrix_s"] = time.perf_counter() - begun
    return result


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    spec["scales"] = tuple(spec["scales"])
    repeats = spec.pop("repeats", 3)
    print(json.dumps(measure(Problem(**spec), repeats)))

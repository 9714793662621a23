"""Fifty values of mu: exact leave-one-out along a path, against 5-fold GridSearchCV.

scikit-learn's KernelRidge gets the kernel over the observed entries ready-made, so that its time is
that of the search alone; ours includes the kernel. RBF kernels of 1-D points with an identity part:
full rank, the hardest case. Once each, in the same run; at m = 5000 the peer needs minutes.

Then m = 50,000 with ranks that are too large for an exact path: leave-one-out residuals of sampled
entries by the iterative solver, against explicit refits.
"""

from __future__ import annotations

import json
import time

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold

import kronfill as kf
from benchmarks import peers
from kronfill.selection import mu_path

MUS = np.logspace(2, -4, 50)


def problem(size: int, m: int):
    rng = np.random.default_rng(0)
    points = np.sort(rng.random(size))
    kernel = kf.kernels.rbf(points, 0.1) + 0.1 * kf.kernels.identity(size)
    at = rng.choice(size * size, size=m, replace=False)
    X = np.column_stack(np.divmod(at, size))
    y = np.sin(9 * points[X[:, 0]]) * np.cos(7 * points[X[:, 1]]) + 0.3 * rng.standard_normal(m)
    return kernel, X, y


def seconds(job):
    """Elapsed seconds, seconds of the processor, result."""
    begun, busy = time.perf_counter(), time.process_time()
    result = job()
    return time.perf_counter() - begun, time.process_time() - busy, result


def compare(m: int) -> dict:
    kernel, X, y = problem(200, m)
    est = kf.KKMCEX(kernel, kernel)
    ours, ours_cpu, path = seconds(lambda: mu_path(est, X, y, mus=MUS))
    k = kernel.to_array()
    kbar = k[np.ix_(X[:, 0], X[:, 0])] * k[np.ix_(X[:, 1], X[:, 1])]
    search = GridSearchCV(
        KernelRidge(kernel="precomputed"), {"alpha": MUS}, scoring="neg_mean_squared_error",
        cv=KFold(5, shuffle=True, random_state=0),
    )  # fmt: skip
    theirs, theirs_cpu, search = seconds(lambda: search.fit(kbar, y))
    return {
        "ours_s": ours,
        "grid_search_s": theirs,
        "ratio": theirs / ours,
        "ratio_of_processor_time": theirs_cpu / ours_cpu,
        "mu": path.mu,
        "grid_search_mu": search.best_params_["alpha"],
    }


def large(m: int = 50_000, size: int = 1000) -> dict:
    kernel, X, y = problem(size, m)
    est = kf.KKMCEX(kernel, kernel, center="mean", solver=kf.PCG(tol=1e-8))
    took, _, path = seconds(lambda: mu_path(est, X, y, mus=[10.0, 1.0, 0.1]))
    gaps = []
    for t in range(0, len(path.entries), 16):
        i = path.entries[t]
        keep = np.arange(m) != i
        fitted = est.set_params(mu=path.mu).fit(X[keep], y[keep])
        at = int(np.argmax(path.mus == path.mu))
        gaps.append(abs(y[i] - fitted.predict(X[[i]])[0] - path.residuals[at, t]))
    best = int(np.argmin(path.criteria["loo"]))
    return {
        "seconds": took,
        "method": path.method,
        "loo": path.criteria["loo"][best],
        "loo_standard_error": path.errors["loo"][best],
        "gcv": path.criteria["gcv"][best],
        "gcv_standard_error": path.errors["gcv"][best],
        "largest_gap_to_refits": max(gaps),
        "refits": len(gaps),
    }


def main() -> None:
    mu_path(kf.KKMCEX(np.eye(3), np.eye(3)), [[0, 0], [1, 1], [2, 1]], [1.0, 2.0, 4.0])  # compile
    results = {f"m = {m}": compare(m) for m in (1000, 5000)}
    results["m = 50,000"] = large()
    peers.keep("mu_path", results)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

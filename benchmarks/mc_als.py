"""MC: alternating least squares side by side with cmfrec, by Cholesky and by conjugate gradients.

70,000 x 10,000 with 10 million observations whose rows and columns follow Zipf's law, rank 30, the
same threads and precision. A sweep updates both factors once; its time is the difference between
a long and a short run, so that set-up does not count. As conjugate gradients get less far in a
sweep, the time from arrays until the training error is that of cmfrec's Cholesky variant after
five sweeps is given as well; there set-up counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from benchmarks.problems import zipf_cells

SHAPE, M, RANK, LAMBDA = (70_000, 10_000), 10_000_000, 30, 5.0
FEW, MANY, MORE = 1, 5, (7, 10, 14)
SLACK = 1.0005
"""Errors that differ by less than this are the same."""


def zipf_entries(m: int = M, seed: int = 0):
    """Distinct entries, with values of a product of rank 5 and noise."""
    rng = np.random.default_rng(seed)
    rows, cols = zipf_cells(SHAPE, m, rng)
    w, h = rng.standard_normal((SHAPE[0], 5)), rng.standard_normal((SHAPE[1], 5))
    values = np.einsum("ij,ij->i", w[rows], h[cols]) + rng.standard_normal(m)
    return rows, cols, values


def train_rmse(w, h, rows, cols, values) -> float:
    """Root mean squared error at the first 100,000 observations, which are in random order."""
    part = slice(0, 100_000)
    fitted = np.einsum("ij,ij->i", w[rows[part]], h[cols[part]])
    return float(np.sqrt(np.mean((fitted - values[part]) ** 2)))


def kronfill_run(rows, cols, values, dtype, target: float) -> dict:
    from kronfill.core.loops.rowwise_ridge import ridge_rows
    from kronfill.ridge.problem import Mask

    few = slice(0, 1000)  # compile or load first
    small = Mask(rows[few], cols[few], SHAPE)
    start = np.random.default_rng(0).standard_normal((SHAPE[1], RANK)).astype(dtype)
    ridge_rows(start, small.by_rows, values[few][small.by_rows.order].astype(dtype), LAMBDA)

    begun = time.perf_counter()
    mask = Mask(rows, cols, SHAPE)
    by_rows, by_cols = mask.by_rows, mask.by_cols
    y_rows, y_cols = values[by_rows.order].astype(dtype), values[by_cols.order].astype(dtype)
    spent, h, times, reached = time.perf_counter() - begun, start, [], None
    while len(times) < MANY or (reached is None and len(times) < MORE[-1]):
        begun = time.perf_counter()
        w = ridge_rows(h, by_rows, y_rows, LAMBDA)
        h = ridge_rows(w, by_cols, y_cols, LAMBDA)
        times.append(time.perf_counter() - begun)
        rmse = train_rmse(w, h, rows, cols, values)
        if reached is None and rmse <= SLACK * target:
            reached = {"target_s": spent + sum(times), "target_sweeps": len(times)}
    return {"seconds_per_sweep": min(times[1:]), "train_rmse": rmse} | (reached or {})


def cmfrec_run(rows, cols, values, dtype, target: float, cg: bool) -> dict:
    import cmfrec
    import scipy.sparse as sp

    def fitted(sweeps: int):
        model = cmfrec.CMF(
            k=RANK, lambda_=LAMBDA, method="als", use_cg=cg, niter=sweeps, user_bias=False,
            item_bias=False, center=False, verbose=False, nthreads=-1, random_state=1,
            use_float=dtype == np.float32, finalize_chol=False, precompute_for_predictions=False,
        )  # fmt: skip
        begun = time.perf_counter()
        model.fit(sp.coo_matrix((values.astype(dtype), (rows, cols)), shape=SHAPE))
        spent = time.perf_counter() - begun
        return spent, train_rmse(model.A_, model.B_, rows, cols, values)

    short, _ = fitted(FEW)
    spent, rmse = fitted(MANY)
    result = {
        "seconds_per_sweep": (spent - short) / (MANY - FEW),
        "train_rmse": rmse,
        "version": version("cmfrec"),
    }
    sweeps, target = MANY, target or rmse
    for more in MORE:
        if rmse <= SLACK * target:
            break
        sweeps = more
        spent, rmse = fitted(sweeps)
    if rmse <= SLACK * target:
        result |= {"target_s": spent, "target_sweeps": sweeps}
    return result


def child(which: str, file: str, dtype_name: str, target: str) -> None:
    with np.load(file) as entries:
        data = [entries[name] for name in ("rows", "cols", "values")]
    dtype = np.dtype(dtype_name).type
    if which == "kronfill":
        result = kronfill_run(*data, dtype, float(target))
    else:
        result = cmfrec_run(*data, dtype, float(target), cg=which == "cg")
    print(json.dumps(result))


def compare(dtypes: tuple[str, ...] = ("float64", "float32"), timeout: float = 300) -> dict:
    from benchmarks import peers

    results = {"problem": f"{SHAPE[0]:,} x {SHAPE[1]:,}, m = {M:,}, rank {RANK}"}
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "entries.npz")
        np.savez(file, **dict(zip(("rows", "cols", "values"), zipf_entries(), strict=True)))
        for dtype in dtypes:

            def run(which, target, dtype=dtype):
                peer = "" if which == "kronfill" else "cmfrec"
                more = (which, file, dtype, str(target))
                return peers.run("mc_als", *more, peer=peer, timeout=timeout)

            cholesky = run("cholesky", 0.0)
            target = cholesky.get("train_rmse", 0.0)
            results[dtype] = {
                "kronfill": run("kronfill", target),
                "cmfrec, Cholesky": cholesky,
                "cmfrec, CG": run("cg", target),
            }
    return results


def main() -> None:
    from benchmarks import peers

    results = compare()
    peers.keep("mc_als", results)
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(*sys.argv[1:])
    else:
        main()

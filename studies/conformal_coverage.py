"""Do conformal intervals cover as often as they say, on real data and for every method?

    python -m studies.conformal_coverage --data bixi drug seattle --splits 200

Each split draws a training part at random; intervals are made from it alone and tested on up to
4,000 other entries of rows and columns that it has seen.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

import kronfill as kf
from kronfill.errors import ConvergenceWarning
from kronfill.estimators.conformal import ConformalRegressor
from studies.real_data import ALL

COVERAGE = 0.9


def methods(data, mus):
    common = {"center": "mean"}
    return {
        "KKMCEX": kf.KKMCEX(data.row_kernel, data.col_kernel, mus["KKMCEX"], **common),
        "RRMCEX": kf.RRMCEX(data.row_kernel, data.col_kernel, 30, 30, mus["RRMCEX"], **common),
        "KMC": kf.KMC(data.row_kernel, data.col_kernel, rank=5, mu=mus["KMC"], **common),
        "IMC": kf.IMC(data.row_features, data.col_features, rank=3, mu=mus["IMC"], **common),
        "MC": kf.MC(shape=data.values.shape, rank=3, mu=mus["MC"], **common),
    }


def split(data, seed, m):
    """Training observations and test entries."""
    entries = np.argwhere(np.isfinite(data.values))
    order = np.random.default_rng(seed).permutation(len(entries))
    train, test = entries[order[:m]], entries[order[m : m + 4000]]
    return kf.Observations(*train.T, data.values[tuple(train.T)], data.values.shape), test


def chosen_mus(data, m):
    """One mu per method, from a split of its own that no later one is judged by."""
    obs, _ = split(data, 10**6, m)
    auto = dict.fromkeys(("KKMCEX", "RRMCEX", "KMC", "IMC", "MC"), "auto")
    return {name: est.fit(obs).mu_ for name, est in methods(data, auto).items()}


def coverage(data, est, method, splits, m):
    """Share of test entries inside, mean width and mean absolute error, per split."""
    rows = []
    for seed in range(splits):
        obs, test = split(data, seed, m)
        model = ConformalRegressor(est, method, calibration=0.25, random_state=seed).fit(obs)
        fitted = model.estimator_.observations_
        warm = (fitted.row_counts[test[:, 0]] > 0) & (fitted.col_counts[test[:, 1]] > 0)
        test = test[warm]
        truth = data.values[tuple(test.T)]
        low, high = model.predict_interval(test, COVERAGE).T
        inside = np.mean((low <= truth) & (truth <= high))
        rows.append((inside, np.mean(high - low), np.mean(np.abs(truth - model.predict(test)))))
    return np.array(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=sorted(ALL), default=["bixi"])
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--jackknife-splits", type=int, default=20)
    parser.add_argument("--m", type=int, default=1500)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in args.data:
        data = ALL[name]()
        mus = chosen_mus(data, args.m)
        results = []
        for label, est in methods(data, mus).items():
            for method, count in (("split", args.splits), ("jackknife+", args.jackknife_splits)):
                if count == 0:
                    continue
                begun = time.perf_counter()
                rows = coverage(data, est, method, count, args.m)
                inside, error = rows[:, 0].mean(), rows[:, 0].std(ddof=1) / np.sqrt(count)
                results.append(
                    {
                        "data": data.name, "method": label, "intervals": method, "splits": count,
                        "m": args.m, "coverage": inside, "standard_error": error,
                        "width": rows[:, 1].mean(), "mae": rows[:, 2].mean(),
                        "seconds_per_split": (time.perf_counter() - begun) / count,
                    }
                )  # fmt: skip
                print(
                    f"{data.name:14} {label:7} {method:11} {inside:.4f} +- {error:.4f}"
                    f"  width {rows[:, 1].mean():.3f}  mae {rows[:, 2].mean():.3f}",
                    flush=True,
                )
                args.out.mkdir(exist_ok=True)
                path = args.out / f"conformal_{name}.json"
                path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

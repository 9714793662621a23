"""Do conformal intervals cover as often as they say, on real data and for every method?

Each split draws a training part at random; intervals are made from it alone and tested on up to
4,000 other entries of rows and columns that it has seen.
"""

from __future__ import annotations

import warnings

import numpy as np

import kronfill as kf
from kronfill.estimators.conformal import ConformalRegressor
from studies.common import markdown
from studies.real_data import ALL

COVERAGE = 0.9
METHODS = ("KKMCEX", "RRMCEX", "KMC", "IMC", "MC")


def run(name, quick=False, splits=200, m=800, methods=METHODS):
    """Coverage and width of split conformal intervals of each method on one data set."""
    data = ALL[name]()
    if quick:
        splits, methods = 20, ("KKMCEX", "MC")
    rows = []
    for method in methods:
        # One mu, from a split of its own that no later one is judged by.
        mu = _estimator(data, method, "auto").fit(_split(data, 10**6, m)[0]).mu_
        found = np.array([_covered(data, method, mu, seed, m) for seed in range(splits)])
        inside, width, mae = found.mean(axis=0)
        error = found[:, 0].std(ddof=1) / np.sqrt(splits)
        rows.append(
            {
                "data": data.name, "method": method, "splits": splits, "m": m,
                "coverage": inside, "standard_error": error, "width": width, "mae": mae,
            }
        )  # fmt: skip
    return {"rows": rows}


def table(results):
    """Markdown: one column pair per data set."""
    known = [result["rows"] for result in results if result is not None]
    head = [name for rows in known for name in (rows[0]["data"], "width")]
    lines = []
    for method in METHODS:
        cells = [method]
        for rows in known:
            (row,) = [row for row in rows if row["method"] == method] or [None]
            coverage = f"{row['coverage']:.4f} +- {row['standard_error']:.4f}" if row else ""
            cells += [coverage, f"{row['width']:.2f}" if row else ""]
        lines.append(cells)
    return markdown(["method", *head], lines)


def _estimator(data, method, mu):
    kernels, sides = (data.row_kernel, data.col_kernel), (data.row_features, data.col_features)
    return {
        "KKMCEX": kf.KKMCEX(*kernels, mu, center="mean"),
        "RRMCEX": kf.RRMCEX(*kernels, 30, 30, mu, center="mean"),
        "KMC": kf.KMC(*kernels, rank=5, mu=mu, center="mean"),
        "IMC": kf.IMC(*sides, rank=3, mu=mu, center="mean"),
        "MC": kf.MC(shape=data.values.shape, rank=3, mu=mu, center="mean"),
    }[method]


def _split(data, seed, m):
    """Training observations and test entries."""
    entries = np.argwhere(np.isfinite(data.values))
    order = np.random.default_rng(seed).permutation(len(entries))
    train, test = entries[order[:m]], entries[order[m : m + 4000]]
    return kf.Observations(*train.T, data.values[tuple(train.T)], data.values.shape), test


def _covered(data, method, mu, seed, m):
    """Share of test entries inside, mean width and mean absolute error in one split."""
    obs, test = _split(data, seed, m)
    est = _estimator(data, method, mu)
    with warnings.catch_warnings():
        # Entries that are tested are drawn from the known ones as those that are fitted to: they
        # are exchangeable, however unevenly the table itself is known.
        warnings.filterwarnings("ignore", "The observed entries are no uniform sample")
        model = ConformalRegressor(est, "split", calibration=0.25, random_state=seed).fit(obs)
    fitted = model.estimator_.observations_
    test = test[(fitted.row_counts[test[:, 0]] > 0) & (fitted.col_counts[test[:, 1]] > 0)]
    truth = data.values[tuple(test.T)]
    low, high = model.predict_interval(test, COVERAGE).T
    inside = np.mean((low <= truth) & (truth <= high))
    return inside, np.mean(high - low), np.mean(np.abs(truth - model.predict(test)))

"""BIXI: stations of which nothing was ever counted, from where they are and what is around them.

log(1 + departures) of 587 stations in 196 days; 30% of the stations are hidden as a whole, three
times. Weights of kernels over stations and over days, and mu, maximise the marginal likelihood of
some entries of the other stations.
"""

from __future__ import annotations

import numpy as np

import kronfill as kf
from kronfill.bench.problems import standardised
from kronfill.kernels import constant, identity, linear, periodic, rbf
from kronfill.selection import KernelTuner
from studies.common import (
    cores,
    effects,
    errors,
    low_rank,
    markdown,
    observed,
    on_cores,
    shuffled,
    timed,
)  # fmt: skip

LEARN = 1500
"""Training entries from which weights are learned."""
LEAST_MU = 1e-3
"""The learned kernels, of mean diagonal 1, may leave nothing to mu; without it no solver ends."""
METHOD = "KKMCEX, learned weights"


def run(quick=False, splits=range(3)):
    """Errors of every method in every split; quick: few stations and weeks, one split."""
    data = kf.datasets.load_bixi()
    values = np.log1p(data.trips.to_numpy(float))
    stations, days = (standardised(x.to_numpy(float)) for x in (data.stations, data.days))
    learn = LEARN
    if quick:
        values, stations, days = values[::6, :56], stations[::6], days[:56]
        splits, learn = [0], 200
    sides = (_over_stations(stations), _over_days(days))
    rows = []
    for split in splits:
        hidden = np.zeros(values.shape, bool)
        order = np.random.default_rng(split).permutation(len(values))
        hidden[order[: round(0.3 * len(values))]] = True
        tables = {METHOD: (values, hidden)} | {
            f"{METHOD}, {name} shuffled": shuffled([values, hidden], axis)
            for axis, name in enumerate(("stations", "days"))
        }
        calls = [(name, _learned, table, (sides, learn)) for name, table in tables.items()]
        calls += [("row + column effects", effects, (values, hidden), ())]
        calls += [("MC", low_rank, (values, hidden), ())]
        for name, call, (table, mask), more in calls:
            known = np.isfinite(table)
            fitted, seconds = timed(call, observed(table, known & ~mask), *more)
            found = errors(fitted, table, known & mask)
            rows.append({"split": split, "method": name, "seconds": seconds} | found)
    return {"cores": cores(), "splits": rows}


def table(result):
    """Markdown."""
    named, lines = {}, []
    for row in result["splits"]:
        named.setdefault(row["method"], []).append(row)
    for name, rows in sorted(named.items(), key=lambda pair: -_mean(pair[1], "rmse")):
        each = " ".join(f"{row['rmse']:.3f}" for row in rows)
        rmse, mae = (f"{_mean(rows, key):.3f}" for key in ("rmse", "mae"))
        lines.append([name, rmse, mae, each, f"{_mean(rows, 'seconds'):.0f}"])
    head = f"Mean of the splits; processor seconds per split, tuning included, {on_cores(result)}."
    columns = ("", "RMSE", "MAE", "each split", "processor seconds")
    return f"{head}\n\n{markdown(columns, lines)}"


def _mean(rows, key):
    return float(np.mean([row[key] for row in rows]))


def _over_stations(features):
    """Nearness at three scales, what is around, and the parts that practice adds."""
    n, place = len(features), features[:, :2]
    near = [rbf(place, scale) for scale in (0.1, 0.3, 1.0)]
    around = [rbf(features), rbf(features, 1.5), rbf(features[:, 2:]), linear(features)]
    return [*near, *around, constant(n), identity(n)]


def _over_days(weather):
    """Nearness at three scales, the day of the week, the weather, and the usual parts."""
    n = len(weather)
    day = np.arange(n, dtype=float)
    near = [rbf(day, scale) for scale in (3.0, 14.0, 60.0)]
    return [*near, periodic(day, 7.0, 1.0), rbf(weather), constant(n), identity(n)]


def _learned(train, sides, learn):
    """Weights and mu from a part, then a fit to all entries."""
    some = np.random.default_rng(0).choice(train.m, size=learn, replace=False)
    tuner = KernelTuner(kf.KKMCEX(center="mean"), *sides).fit(train.take(np.sort(some)))
    kernels, mu = (tuner.row_kernel_, tuner.col_kernel_), max(tuner.mu_, LEAST_MU)
    return kf.KKMCEX(*kernels, mu=mu, center="mean", solver=kf.Auto(tol=1e-3)).fit(train)

"""Seattle: half of the speeds of 323 road sensors in 720 hours, from the other half.

The mask is the one with which others report results. The kernels' parameters maximise the marginal
likelihood of the training entries of a few neighbouring sensors in two weeks; mu is the one with
the least error on a held-out tenth of all training entries.
"""

from __future__ import annotations

import time

import numpy as np
from scipy.sparse.csgraph import shortest_path

import kronfill as kf
from kronfill.kernels import constant, diffusion, identity, matern, periodic, precomputed
from kronfill.selection import KernelTuner, Parameters
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

SENSORS, HOURS = 12, 336
"""Size of the block from which kernels are learned."""
METHOD = "KKMCEX, learned kernels"


def run(quick=False):
    """Errors and seconds of every method; quick: some roads, ten days."""
    data = kf.datasets.load_seattle()
    links, (hidden,) = data.rows.to_numpy(float), data.test_masks
    values, sensors = data.table.to_numpy(float), SENSORS
    if quick:
        near = _nearest(links, 0, 40)
        values, hidden, links = values[near, :240], hidden[near, :240], links[np.ix_(near, near)]
        sensors = 3
    results = []

    def add(name, call, table, mask):
        fitted, seconds = timed(call, observed(table, ~mask), clock=time.perf_counter)
        results.append({"method": name, "seconds": seconds} | errors(fitted, table, mask))

    def learned(train):
        return _learned(train, links, sensors)

    add(METHOD, learned, values, hidden)
    add("row + column effects", effects, values, hidden)
    add("MC", low_rank, values, hidden)
    for axis, name in enumerate(("roads", "hours")):
        add(f"{METHOD}, {name} shuffled", learned, *shuffled([values, hidden], axis))
    published = [vars(one) for one in data.published]
    return {"cores": cores(), "test": int(hidden.sum()), "methods": results, "others": published}


def table(result):
    """Markdown."""
    others = [row | {"method": row["method"] + ", as published"} for row in result["others"]]
    rows = [
        [row["method"], f"{row['rmse']:.3f}", f"{row['mae']:.3f}", f"{row['seconds']:,.0f}"]
        for row in sorted(result["methods"] + others, key=lambda row: -row["rmse"])
    ]
    head = f"{result['test']:,} hidden entries; seconds {on_cores(result)}, tuning included.\n\n"
    return head + markdown(("", "RMSE", "MAE", "seconds"), rows)


def _learned(train, links, sensors):
    """Kernels learned from a block, then mu and a fit with all entries."""
    hour = np.arange(train.shape[1], dtype=float)

    def roads(spread, own):
        return diffusion(links, spread).normalized() + own * identity(len(links))

    def hours(near, day, weight, week):
        weekly = constant(len(hour)) + week * periodic(hour, 168.0, 1.0)
        return matern(hour, near, nu=0.5) + weight * periodic(hour, 24.0, day) * weekly

    tuner = KernelTuner(
        kf.KKMCEX(center="both"),
        Parameters(roads, spread=2.0, own=0.1),
        Parameters(hours, near=2.0, day=0.5, weight=0.5, week=1.0),
        max_entries=train.m,
        max_iter=30,
    ).fit(_block(train, links, sensors))
    # Nothing is gained by setting an identity part aside where the rest has full rank.
    kernels = [precomputed(kernel.block()) for kernel in (tuner.row_kernel_, tuner.col_kernel_)]
    solver = kf.PCG(tol=1e-3, dtype="float32")
    return kf.KKMCEX(*kernels, mu="auto", center="both", solver=solver).fit(train)


def _block(train, links, sensors):
    """Training entries of a sensor and those nearest to it, in the two weeks in the middle."""
    start = np.random.default_rng(0).integers(len(links))
    first = (train.shape[1] - HOURS) // 2
    inside = np.isin(train.rows, _nearest(links, start, sensors))
    return train.take(np.flatnonzero(inside & (abs(train.cols - first - HOURS // 2) < HOURS // 2)))


def _nearest(links, start, count):
    """The items with the fewest links from one of them."""
    steps = shortest_path(links, unweighted=True, indices=start)
    return np.sort(np.argsort(steps, kind="stable")[:count])

"""Drug response, ten outer folds: learned kernel weights beside averages and the best pair.

124 drugs x 124 cell lines, 10 drug and 12 cell-line kernels. Everything is chosen inside the
training part of each of the outer folds that come with the data.
"""

from __future__ import annotations

import numpy as np

import kronfill as kf
from kronfill.selection import KernelTuner, choose
from studies.common import (
    MC_RANK,
    cores,
    effects,
    errors,
    low_rank,
    markdown,
    observed,
    on_cores,
    shuffled,
    timed,
)

PART = 1000
"""Training entries by whose leave-one-out error the best single pair is chosen."""
LEARN = 1500
"""Training entries from which weights are learned."""
LEARNED = "learned weights"


def run(quick=False, folds=range(10)):
    """Errors of every method in every fold; quick: little to choose from, and one fold."""
    data = kf.datasets.load_drug_response()
    values, masks = data.table.to_numpy(float), data.test_masks
    sides = [_as_kernels(data.rows), _as_kernels(data.cols)]
    part, learn = PART, LEARN
    if quick:
        sides = [dict(list(side.items())[:2]) for side in sides]
        folds, part, learn = [0], 450, 450
    rows = [
        {"fold": fold, "method": name, "seconds": seconds} | found
        for fold in folds
        for name, found, seconds in _fold(values, masks[fold], sides, part, learn)
    ]
    return {"cores": cores(), "folds": rows}


def summary(result):
    """Per method: RMSE over all folds, folds in which learned weights are better, seconds."""
    squares, seconds = {}, {}
    for row in sorted(result["folds"], key=lambda row: row["fold"]):
        squares.setdefault(row["method"], []).append(row["rmse"] ** 2)
        seconds[row["method"]] = seconds.get(row["method"], 0.0) + row["seconds"]
    best = np.array(squares[LEARNED])
    return [
        {
            "method": name,
            "rmse": float(np.sqrt(np.mean(found))),
            "worse_in": int(np.sum(best < np.array(found))),
            "folds": len(found),
            "seconds": seconds[name],
        }
        for name, found in squares.items()
    ]


def table(result):
    """Markdown."""
    rows = []
    for row in sorted(summary(result), key=lambda row: -row["rmse"]):
        wins = "" if row["method"] == LEARNED else f"{row['worse_in']} of {row['folds']}"
        rows.append([row["method"], f"{row['rmse']:.4f}", wins, f"{row['seconds']:.0f}"])
    head = f"Processor seconds of all folds together, tuning included, {on_cores(result)}.\n\n"
    better = "folds in which learned weights are better"
    return head + markdown(("", "RMSE", better, "processor seconds"), rows)


def _fold(values, hidden, sides, part, learn):
    """Name, errors and seconds of each method in one fold."""
    train = observed(values, ~hidden)
    tuner, tuning = timed(_learned, train, sides, learn)
    yield LEARNED, errors(tuner, values, hidden), tuning
    calls = {
        "row + column effects": (effects, train),
        "MC": (low_rank, train),
        "uniform average of all kernels": (_uniform, train, sides),
        "best single pair": (_best_pair, train, sides, part),
        "KMC with the learned kernels": (_low_rank_too, train, tuner),
    }
    for name, call in calls.items():
        fitted, seconds = timed(*call)
        yield name, errors(fitted, values, hidden), seconds + tuning * ("learned" in name)
    for axis, name in enumerate(("drug", "cell-line")):
        moved, away = shuffled([values, hidden], axis)
        fitted, seconds = timed(_learned, observed(moved, ~away), sides, learn)
        yield f"{LEARNED}, {name} kernels shuffled", errors(fitted, moved, away), seconds


def _as_kernels(frames):
    return {name: kf.kernels.precomputed(frame.to_numpy()) for name, frame in frames.items()}


def _usual(kernel):
    """One kernel with the constant and identity parts that ``kf.complete`` would give it."""
    return kernel + kf.kernels.constant(kernel.n) + 0.1 * kf.kernels.identity(kernel.n)


def _ridge(row, col):
    return kf.KKMCEX(_usual(row), _usual(col), mu="auto", center="both")


def _uniform(train, sides):
    return _ridge(*(sum((1 / len(side)) * k for k in side.values()) for side in sides)).fit(train)


def _best_pair(train, sides, part):
    """The pair with the least leave-one-out error on a part, fitted to all."""
    rng = np.random.default_rng(0)
    some = train.take(np.sort(rng.choice(train.m, size=part, replace=False)))
    pairs = {f"{d} x {c}": _ridge(sides[0][d], sides[1][c]) for d in sides[0] for c in sides[1]}
    return pairs[choose(pairs, some).name].fit(train)


def _learned(train, sides, learn):
    parts = [
        [*side.values(), kf.kernels.constant(n), kf.kernels.identity(n)]
        for side, n in zip(sides, train.shape, strict=True)
    ]
    ridge = kf.KKMCEX(mu="auto", center="both")
    return KernelTuner(ridge, *parts, max_entries=learn).fit(train)


def _low_rank_too(train, tuner):
    """Kernels and low rank: for entries of known rows and columns low rank says more."""
    kernels = (tuner.row_kernel_, tuner.col_kernel_)
    return kf.KMC(*kernels, rank=MC_RANK, mu="auto", center="both").fit(train)

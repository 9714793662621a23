"""Does measuring what ``suggest`` names beat measuring entries at random?

From a few random observations, batches are added: suggested (greedy variance, leverage) or drawn at
random. The error is taken on a fifth of the entries that is never a candidate.
"""

from __future__ import annotations

import numpy as np

import kronfill as kf
from studies.common import errors, markdown
from studies.real_data import ALL

STRATEGIES = ("variance", "leverage", "random")


def run(name, quick=False, seeds=range(10), start=100, batch=50, batches=6):
    """RMSE after each batch, for each strategy and seed, on one data set."""
    if quick:
        seeds, batches = seeds[:3], 2
    data = ALL[name]()
    result = {"data": data.name, "sizes": [start + k * batch for k in range(batches + 1)]}
    for strategy in STRATEGIES:
        result[strategy] = [_curve(data, strategy, seed, start, batch, batches) for seed in seeds]
    return result


def gap(result, strategy):
    """How much better than random, averaged over the batches, in each repeat."""
    curves = [np.array(result[name])[:, 1:].mean(axis=1) for name in ("random", strategy)]
    return curves[0] - curves[1]


def table(result):
    """Markdown."""
    repeats = len(result["random"])
    rows = []
    for strategy in STRATEGIES:
        curve = [f"{error:.3f}" for error in np.mean(result[strategy], axis=0)]
        better = gap(result, strategy)
        spread = better.std(ddof=1) / np.sqrt(repeats)
        by = [f"{better.mean():.3f} +- {spread:.3f}", f"{np.sum(better > 0)} of {repeats}"]
        rows.append([strategy, *curve, *(["", ""] if strategy == "random" else by)])
    head = ("observations", *map(str, result["sizes"]), "better than random by", "in")
    return f"{result['data']}, mean RMSE of {repeats} repeats:\n\n{markdown(head, rows)}"


def _curve(data, strategy, seed, start, batch, batches):
    """Root mean squared error after each batch."""
    rng = np.random.default_rng(seed)
    entries = rng.permutation(np.argwhere(np.isfinite(data.values)))
    test, pool = np.split(entries, [len(entries) // 5])
    seen, pool = np.split(pool, [start])
    hidden = np.zeros(data.values.shape, bool)
    hidden[tuple(test.T)] = True
    found = []
    for step in range(batches + 1):
        obs = kf.Observations(*seen.T, data.values[tuple(seen.T)], data.values.shape)
        est = kf.KKMCEX(data.row_kernel, data.col_kernel, mu="auto", center="mean").fit(obs)
        found.append(errors(est, data.values, hidden)["rmse"])
        if step == batches:
            break
        some = rng.permutation(len(pool))[:2000]  # the same number to choose from for all
        chosen = pool[some[:batch]]
        if strategy != "random":
            suggested = est.suggest(batch, pool[some], method=strategy, random_state=seed)
            chosen = np.asarray(suggested)
        seen = np.vstack([seen, chosen])
        width = data.values.shape[1]
        pool = pool[~np.isin(pool @ [width, 1], chosen @ [width, 1])]
    return found

"""The default on tables made from a seed, beside each single method with everything chosen.

What a table is made of is known, so that errors are against the truth without noise. The best
single method is found with hindsight, for each kind of table: nobody can choose it beforehand.
"""

from __future__ import annotations

import sys

import networkx as nx
import numpy as np
import pandas as pd

import kronfill as kf
from studies.common import RESULTS, cores, effects, load, markdown, observed, on_cores, save, timed

SHAPE, ENTRIES, NOISE = (150, 120), 4500, 0.3
SEEDS = 3
MISLED = "what is known about rows misleads"
KINDS = (
    "kernels alone", "low rank alone", "both", "row and column effects", "noise alone",
    "one feature of four tells", "a graph tells about rows", MISLED, "cold rows", "uneven mask",
)  # fmt: skip
METHODS = {
    "effects": "effects", "mc": "MC", "kmc": "KMC", "kkmcex": "KKMCEX",
    "bayesiankmc": "BayesianKMC",
}  # fmt: skip
WITHOUT = "auto without rows"
RECORD = "made_up"


def root(points):
    """A matrix that makes draws of a Gaussian process over points from white noise."""
    gap = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    return np.linalg.cholesky(np.exp(-gap / (2 * 0.3**2)) + 1e-8 * np.eye(len(points)))


def made(kind, seed):
    """A table with gaps, what is known of rows and columns, the truth, what is to be predicted."""
    rng = np.random.default_rng(seed)
    n, l = SHAPE
    places = rng.random((n, 2)), rng.random((l, 2))
    kernel = root(places[0]) @ rng.standard_normal(SHAPE) @ root(places[1]).T
    low = rng.standard_normal((n, 4)) @ rng.standard_normal((4, l)) / 2.0
    truth = {
        "kernels alone": kernel,
        "low rank alone": low,
        "row and column effects": rng.standard_normal((n, 1)) + rng.standard_normal(l),
        "noise alone": np.zeros(SHAPE),
        "cold rows": kernel,
        MISLED: low,
    }.get(kind, (kernel + low) / np.sqrt(2))
    rows, cols = (pd.DataFrame(p, columns=["x1", "x2"]) for p in places)
    if kind == "one feature of four tells":
        wave = np.sin(6 * places[0][:, :1]) @ rng.standard_normal((1, l))
        truth = (wave + low) / np.sqrt(2)
        rows = rows.assign(x3=rng.standard_normal(n), x4=rng.standard_normal(n))
    if kind == "a graph tells about rows":
        group = rng.integers(8, size=n)
        truth = (rng.standard_normal((8, l))[group] + low) / np.sqrt(2)
        likely = np.where(group[:, None] == group, 0.3, 0.01)
        rows = nx.from_numpy_array(np.triu(rng.random((n, n)) < likely, 1).astype(float))
    if kind == MISLED:
        rows = rows.iloc[rng.permutation(n)].set_index(rows.index)
    chance = np.ones(SHAPE)
    if kind == "uneven mask":
        chance = np.exp(rng.standard_normal((n, 1))) * np.exp(rng.standard_normal(l))
    if kind == "cold rows":
        chance[:30] = 0.0
    seen = np.zeros(n * l, bool)
    seen[rng.choice(n * l, ENTRIES, replace=False, p=(chance / chance.sum()).ravel())] = True
    seen = seen.reshape(SHAPE)
    values = truth + NOISE * rng.standard_normal(SHAPE)
    wanted = ~seen
    if kind == "cold rows":
        wanted[30:] = False
    table = pd.DataFrame(values).where(seen)
    held = values if kind == "noise alone" else truth
    return table, rows, cols, held, wanted


def once(kind, seed, method):
    """Root mean square error of a method, and its seconds."""
    table, rows, cols, truth, wanted = made(kind, seed)
    if method == WITHOUT:
        method, rows = "auto", None
    guess, seconds = timed(predicted, method, table, rows, cols)
    return {"rmse": float(np.sqrt(np.mean((guess - truth)[wanted] ** 2))), "processor": seconds}


def predicted(method, table, rows, cols):
    """The whole table as a method has it, everything chosen by that method."""
    if method == "effects":
        values = table.to_numpy()
        return effects(observed(values, np.isfinite(values))).predict_matrix()
    return kf.complete(table, rows, cols, method=method).predicted.to_numpy()


def run(quick=False, anew=(), out=RESULTS):
    """All kinds of tables, several seeds each; quick: one of the kinds with the fast methods.

    What is there is kept, except for the methods in ``anew``: a run that was broken off goes on.
    """
    if quick:
        fast = ("auto", "effects", "kkmcex", "bayesiankmc")
        return {"cores": cores(), "kinds": {"both": {"0": {m: once("both", 0, m) for m in fast}}}}
    kinds = (load(RECORD, out) or {"kinds": {}})["kinds"]
    for kind, seed, method in _cases(kinds, anew):
        kinds[kind].setdefault(seed, {})[method] = once(kind, int(seed), method)
        save({"cores": cores(), "kinds": kinds}, RECORD, out)
        print(f"{kind}#{seed}, {method}: {kinds[kind][seed][method]['rmse']:.4f}", flush=True)
    return {"cores": cores(), "kinds": kinds}


def _cases(kinds, anew):
    """What is still to be done, the slowest method last."""
    methods = ("auto", WITHOUT, *sorted(METHODS, key="kmc".__eq__))
    for method in methods:
        for seed in map(str, range(SEEDS)):
            for kind in [MISLED] if method == WITHOUT else KINDS:
                if method in anew or method not in kinds.setdefault(kind, {}).get(seed, {}):
                    yield kind, seed, method


def tables(folder=RESULTS):
    """What goes on the page of the default, by the name of its place."""
    result = load(RECORD, folder)
    return {} if result is None else {RECORD: table(result)}


def table(result):
    """Markdown: the default, the best single method with hindsight, and all of them."""
    there = [m for m in METHODS if all(_has(draws, m) for draws in result["kinds"].values())]
    lines = []
    for kind, draws in result["kinds"].items():
        each = {method: _errors(draws, method).mean() for method in there}
        best = min(each, key=lambda method: each[method])
        lines.append([
            kind, f"{_errors(draws, 'auto').mean():.3f}", METHODS[best],
            _ratio(draws, "auto", best), *(f"{value:.3f}" for value in each.values()),
        ])  # fmt: skip
    count = max(map(len, result["kinds"].values()))
    tables = "One table" if count == 1 else f"Means over {count} tables"
    head = ("", "default", "best single", "default by best", *(METHODS[m] for m in there))
    text = f"{tables} of each kind, {on_cores(result)}.\n\n" + markdown(head, lines)
    misled = result["kinds"].get(MISLED)
    if misled and _has(misled, WITHOUT):
        ratio = _ratio(misled, "auto", WITHOUT)
        text += f"\n\nWhere what is known about rows misleads, the error is {ratio} times that "
        text += "without it."
    return text


def _has(draws, method):
    return all(method in draw for draw in draws.values())


def _errors(draws, method):
    return np.array([draw[method]["rmse"] for draw in draws.values()])


def _ratio(draws, one, other):
    ratio = _errors(draws, one) / _errors(draws, other)
    shown = f"{ratio.mean():.3f}"
    return shown + (f" ± {ratio.std(ddof=1) / len(ratio) ** 0.5:.3f}" if len(ratio) > 1 else "")


if __name__ == "__main__":
    run(anew=sys.argv[1:])

"""What the default gives on real data: ``kf.complete`` and what is known, nothing chosen by hand.

Splits are those with which others report results; their figures stand beside ours.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.io import loadmat

import kronfill as kf
from studies.common import RESULTS, cores, load, markdown, on_cores, save

PAGE = Path(__file__).parents[1] / "docs" / "auto.md"
PUBLISHED = {
    "Davis": "KronRLS .379, DeepDTA .261, GraphDTA .229, MSGNN-DTA .195",
    "drug response": "MC alone 1.4385, learned kernels alone 1.641",
    "Seattle": "BKMF 3.830; KKMCEX, kernels by hand 2.895",
    "BIXI, unseen stations": "KKMCEX, kernels by hand .441",
    "Flixster": "sRGCNN .926, GC-MC .917",
    "Birmingham": "BGCP 25.57",
}


def folder(name):
    """Where a data set lies."""
    return Path(os.environ["KRONFILL_DATA"]) / name


def davis(_split=0):
    """Affinities of 68 drugs and 442 kinases; the similarities as they lie there."""
    home = folder("davis")
    values = -np.log10(np.loadtxt(next(home.glob("drug-target*"))) / 1e9)
    test = np.array(json.loads((home / "test_fold_setting1.txt").read_text()))
    hidden = np.zeros(values.size, bool)
    hidden[test] = True
    drugs, kinases = (
        [f"{kind}{k}" for k in range(n)] for kind, n in zip("dk", values.shape, strict=True)
    )
    alike = [
        pd.DataFrame(np.loadtxt(home / name), labels, labels)
        for name, labels in (
            ("drug-drug_similarities_2D.txt", drugs),
            ("target-target_similarities_WS.txt", kinases),
        )
    ]
    return pd.DataFrame(values, drugs, kinases), hidden.reshape(values.shape), *alike


def drug_response(split=0):
    """Responses of 124 cell lines to 124 drugs, 10 and 12 kernels."""
    data = kf.datasets.load_drug_response()
    return data.table, data.test_masks[split], dict(data.rows), dict(data.cols)


def seattle(_split=0):
    """Speeds on 323 roads in 720 hours: the graph, and hour and day."""
    import networkx as nx

    data = kf.datasets.load_seattle()
    links = data.rows.to_numpy(float)
    graph = nx.from_numpy_array(links - np.diag(np.diag(links)))
    graph = nx.relabel_nodes(graph, dict(enumerate(data.table.index)))
    hours = np.arange(data.table.shape[1])
    times = pd.DataFrame({"hour": hours % 24, "day": hours // 24}, index=data.table.columns)
    return data.table, data.test_masks[0], graph, times


def bixi(split=0):
    """log(1 + trips) of stations of which 30% are hidden as a whole."""
    data = kf.datasets.load_bixi()
    table = np.log1p(data.trips)
    hidden = np.zeros(table.shape, bool)
    order = np.random.default_rng(split).permutation(len(table))
    hidden[order[: round(0.3 * len(table))]] = True
    return table, hidden, data.stations, data.days


def flixster(_split=0):
    """Ratings of 3000 x 3000, two graphs."""
    import networkx as nx

    frame = pd.read_csv(folder("flixster") / "ratings.csv")
    table = np.full((3000, 3000), np.nan)
    table[frame["user"], frame["item"]] = frame["rating"]
    hidden = np.zeros(table.shape, bool)
    test = frame[frame["split"] == "test"]
    hidden[test["user"], test["item"]] = True
    graphs = []
    for name in ("user_graph", "item_graph"):
        graph = nx.Graph()
        graph.add_nodes_from(range(3000))
        with (folder("flixster") / f"{name}.csv").open() as lines:
            for line in csv.DictReader(lines):
                graph.add_edge(int(line["one"]), int(line["other"]), weight=float(line["weight"]))
        graphs.append(graph)
    return pd.DataFrame(table), hidden, *graphs


def birmingham(_split=0):
    """Occupancy of 30 car parks, 77 days x 18 times; zeros are missing."""
    tensor = loadmat(folder("birmingham") / "tensor.mat")["tensor"].astype(float)
    np.random.seed(1000)  # noqa: NPY002 - the published mask
    seen = np.round(np.random.rand(*tensor.shape) + 0.5 - 0.4) == 1  # noqa: NPY002
    table = np.where(tensor == 0, np.nan, tensor).reshape(30, -1)
    hidden = ~seen.reshape(30, -1) & np.isfinite(table)
    day, slot = np.divmod(np.arange(table.shape[1]), 18)
    times = pd.DataFrame({"time of day": slot, "weekday": (day % 7).astype(str), "day": day})
    return pd.DataFrame(table), hidden, None, times


def lcbench(name, ratio):
    """Learning curves of 2000 configurations, a share of them cut."""

    def load(split=0):
        data = np.load(folder("lcbench") / f"{name}.npz")
        x, y = data["X"].astype(float), data["Y"].astype(float)
        np.random.seed(2025 + split)  # noqa: NPY002 - the published masks
        hidden = np.zeros(y.shape, bool)
        for k in np.random.choice(2000, int(ratio * 2000), replace=False):  # noqa: NPY002
            hidden[k, np.random.randint(52) :] = True  # noqa: NPY002
        last = y[:, -1][~hidden[:, -1]]
        epoch = np.log(np.arange(1, 53)) / np.log(53)
        frame = pd.DataFrame(x, columns=[f"x{k}" for k in range(x.shape[1])])
        table = pd.DataFrame((y - last.mean()) / last.std())
        return table, hidden, frame, pd.DataFrame({"time": epoch})

    return load


SETS = {
    "Davis": (davis, 1),
    "drug response": (drug_response, 10),
    "Seattle": (seattle, 1),
    "BIXI, unseen stations": (bixi, 3),
    "Flixster": (flixster, 1),
    "Birmingham": (birmingham, 1),
    **{
        f"lcbench {name}, {ratio:.0%} cut": (lcbench(name, ratio), 5)
        for name in ("Fashion-MNIST", "adult", "higgs")
        for ratio in (0.2, 0.6)
    },
}
BEGUN = "defaults.begun"
"""What a run of all that is not complete has so far."""


def once(load, split, **settings):
    """Errors and seconds of one split.

    Standard deviations of values on another scale are brought back to their units.
    """
    table, hidden, rows, cols = load(split)
    values = table.to_numpy(float)
    begun = time.perf_counter(), time.process_time()
    done = kf.complete(table.mask(hidden), rows=rows, cols=cols, **settings)
    seconds, processor = time.perf_counter() - begun[0], time.process_time() - begun[1]
    at = np.column_stack(np.nonzero(hidden & np.isfinite(values)))
    mean, std = np.full((2, *table.shape), np.nan)
    mean[at[:, 0], at[:, 1]] = done.model.predict(at)
    inner = vars(done.model).get("estimator_", done.model)  # values may be on another scale
    spread = np.sqrt(inner.predict_std(at) ** 2 + inner.noise_variance_)
    if inner is not done.model:
        spread = done.model.spread(inner.predict(at), spread)
    std[at[:, 0], at[:, 1]] = spread
    return {
        **figures(values, hidden, mean, std),
        "seconds": seconds,
        "processor": processor,
        "expected": inner.plan_.seconds,
        "shares": {name: share.tolist() for name, share in inner.shares_.items()},
    }


def figures(values, hidden, mean, std=None):
    """Errors of predictions, and with standard deviations, noise included, how good these are."""
    at = np.nonzero(hidden & np.isfinite(values))
    guess, truth = mean[at], values[at]
    gap = guess - truth
    found = {
        "rmse": float(np.sqrt(np.mean(gap**2))),
        "mae": float(np.mean(np.abs(gap))),
        "concordance": concordance(truth, guess) if len(truth) < 10_000 else None,
    }
    if std is not None:
        z = gap / std[at]
        found["nll"] = float(np.mean(0.5 * np.log(2 * np.pi * std[at] ** 2) + 0.5 * z**2))
        found["inside"] = float(np.mean(np.abs(z) < 1.645))
    return found


def concordance(truth, guess):
    """Share of the pairs of different truth that are in the right order."""
    right = pairs = 0.0
    for k in range(len(truth)):
        above = truth[k] > truth
        pairs += above.sum()
        right += (guess[k] > guess[above]).sum() + 0.5 * (guess[k] == guess[above]).sum()
    return float(right / pairs)


def run(quick=False, names=None, out=RESULTS):
    """All splits of all data sets; quick: a piece of one. Those of ``names`` are ``NAME#SPLIT``.

    Each split is kept as soon as it is there. A run of all that was broken off goes on where it
    was; once it is complete, the next one begins anew.
    """
    if quick:
        return {"cores": cores(), "sets": {"drug response": {"0": once(_piece, 0)}}}
    record = "defaults" if names else BEGUN
    sets = (load(record, out) or {"sets": {}})["sets"]
    for what, split in splits_of(names or SETS):
        if not names and split in sets.get(what, {}):
            continue
        one = sets.setdefault(what, {})[split] = once(SETS[what][0], int(split))
        save({"cores": cores(), "sets": sets}, record, out)
        print(f"{what}#{split}: {one['rmse']:.4f}, {one['seconds']:.0f} s", flush=True)
    if not names:
        (out / f"{BEGUN}.json").unlink(missing_ok=True)
    return {"cores": cores(), "sets": sets}


def splits_of(names):
    """Name and split of each of ``NAME`` (all of its splits) or ``NAME#SPLIT``."""
    for name in names:
        what, _, only = name.partition("#")
        count = SETS[what.rpartition(": ")[2]][1]
        yield from ((what, split) for split in ([only] if only else map(str, range(count))))


def _piece(_split):
    table, hidden, rows, cols = drug_response()
    rows, cols = ({k: v.iloc[:30, :30] for k, v in list(s.items())[:2]} for s in (rows, cols))
    return table.iloc[:30, :30], hidden[:30, :30], rows, cols


def tables(folder=RESULTS):
    """What goes on the page, by the name of its place."""
    result = load("defaults", folder)
    return {} if result is None else {"defaults": table(result, load("peers", folder) or {})}


def table(result, peers):
    """Markdown: ours, peers on the same splits, and what others have published."""
    lines = []
    for name in SETS:
        found = result["sets"].get(name)
        if not found:
            continue
        lines.append([name, "kf.complete", *_figures(name, found), "", PUBLISHED.get(name, "")])
        for key, some in peers.items():
            who, what = key.split(": ", 1)
            if what == name:
                lines.append(["", who, *_figures(name, some), _beside(some, found), ""])
    head = (
        f"Defaults only, {on_cores(result)}; mean and standard error over the splits that are "
        "given with it. Davis has its mean square error, as others report it. Times ours: seconds "
        "of a peer by those of `kf.complete`, over the splits that both have.\n\n"
    )
    columns = ("", "", "splits", "error", "negative log likelihood", "inside 90%",
               "processor seconds", "times ours", "published")  # fmt: skip
    return head + markdown(columns, lines)


def _figures(name, some):
    each = list(some.values())
    power = 2 if name == "Davis" else 1
    figures = [
        _mean([one["rmse"] ** power for one in each], 4),
        _mean([one.get("nll") for one in each], 3),
        _mean([one.get("inside") for one in each], 3),
    ]  # fmt: skip
    if name == "Davis":
        figures[0] += f" (concordance {np.mean([one['concordance'] for one in each]):.3f})"
    return [str(len(each)), *figures, f"{np.mean([one['processor'] for one in each]):.0f}"]


def _beside(some, ours):
    """How many times our seconds a peer took, on the same splits."""
    both = [split for split in some if split in ours]
    if not both:
        return ""
    took = [sum(found[split]["processor"] for split in both) for found in (some, ours)]
    return f"{took[0] / took[1]:.1f}"


def _mean(values, digits):
    if any(value is None for value in values):
        return ""
    shown = f"{np.mean(values):.{digits}f}"
    if len(values) > 1:
        shown += f" ± {np.std(values, ddof=1) / len(values) ** 0.5:.{digits}f}"
    return shown


if __name__ == "__main__":
    save(run(names=sys.argv[1:]), "defaults")

"""What other libraries give on the same splits: LatentKroneckerGP, myFM and SMURFF.

They are no dependencies: each is installed from PyPI into an environment of its own the first
time, and fits there (``peer_fits``). ``python -m studies.peers [NAME[#SPLIT] ...]`` runs those
named, such as ``"myFM: Davis#0"``, or else all of which no result is kept: a run that was broken
off goes on.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.peers import environment
from kronfill.kernels import rbf
from studies.common import RESULTS, load, save
from studies.defaults import SETS, figures, splits_of

EIGENVECTORS = 64
"""Leading eigenvectors of a kernel that stand for it where features are wanted."""
ENVIRONMENTS = {"myFM": "myfm", "SMURFF": "smurff", "LatentKroneckerGP": "botorch"}
ROOT = Path(__file__).parents[1]
CURVES = "lcbench"
TASKS = [
    f"{peer}: {name}"
    for peer in ENVIRONMENTS
    for name in SETS
    if name.startswith(CURVES) == (peer == "LatentKroneckerGP")
]


def leading_features(side, labels):
    """Numbers that stand for what is known: leading eigenvectors of what makes items alike."""
    size = len(labels)
    if side is None:
        return np.zeros((size, 0))
    if isinstance(side, dict):
        return np.hstack([leading_features(one, labels) for one in side.values()])
    if not isinstance(side, pd.DataFrame):
        import networkx as nx

        links = nx.normalized_laplacian_matrix(side, nodelist=list(labels)).toarray()
        return np.linalg.eigh(links)[1][:, :EIGENVECTORS] * np.sqrt(size)
    if side.shape == (size, size):
        alike = side.loc[labels, labels].to_numpy(float)
    else:
        alike = rbf(pd.get_dummies(side.loc[labels])).to_array()
    alike = alike / np.diag(alike).mean()  # scores in the hundreds would drown all else
    values, vectors = np.linalg.eigh((alike + alike.T) / 2)
    return vectors[:, -EIGENVECTORS:] * np.sqrt(values[-EIGENVECTORS:].clip(0))


def fitted(peer, table, hidden, rows, cols):
    """Means, standard deviations or None, and seconds (of the clock, of the processor) of a fit."""
    values = table.to_numpy(float)
    wanted = np.nonzero(hidden & np.isfinite(values))
    if peer == "LatentKroneckerGP":
        sides = rows.to_numpy(float), cols.to_numpy(float)
    else:
        sides = leading_features(rows, table.index), leading_features(cols, table.columns)
    python = environment(ENVIRONMENTS[peer])
    with tempfile.TemporaryDirectory() as folder:
        given, found = (Path(folder) / f"{name}.npz" for name in ("given", "found"))
        np.savez(
            given, values=np.where(hidden, np.nan, values), rows=sides[0], cols=sides[1],
            at_rows=wanted[0], at_cols=wanted[1],
        )  # fmt: skip
        run = [str(python), "-m", "studies.peer_fits", peer, str(given), str(found)]
        done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        with np.load(found) as data:
            told = [np.full(table.shape, np.nan) for _ in range(2)]
            told[0][wanted] = data["mean"]
            if data["std"].size:
                told[1][wanted] = data["std"]
            return told[0], told[1] if data["std"].size else None, data["took"].tolist()


def once(task, split):
    """Errors and seconds of a peer on one split."""
    peer, name = task.split(": ", 1)
    table, hidden, rows, cols = SETS[name][0](split)
    mean, std, (seconds, processor) = fitted(peer, table, hidden, rows, cols)
    found = figures(table.to_numpy(float), hidden, mean, std)
    return found | {"seconds": seconds, "processor": processor}


def run(quick=False, names=None, out=RESULTS):
    """Tasks by name, or all that are not kept yet; what each gives is kept at once.

    A peer that fails is said so and left out, so that the next run tries it again.
    """
    kept = load("peers", out) or {}
    names = ["myFM: Davis#0"] if quick else names
    for task, split in splits_of(names or TASKS):
        if not names and split in kept.get(task, {}):
            continue
        try:
            found = once(task, int(split))
        except (RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{task}#{split} failed: {error}", flush=True)
            continue
        kept.setdefault(task, {})[split] = found
        save(kept, "peers", out)
        print(f"{task}#{split}: {found['rmse']:.4f}, {found['seconds']:.0f} s", flush=True)
    return kept


if __name__ == "__main__":
    run(names=sys.argv[1:])

"""What the studies share: baselines, shuffled sides, errors, tables, and the record of a run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

import kronfill as kf

RESULTS = Path(__file__).parent / "results"
MC_RANK = 10
"""Most factors of MC. Its penalty makes those that are not needed vanish."""


def observed(values, mask):
    """The entries of a table where the mask is true."""
    rows, cols = np.nonzero(mask)
    return kf.Observations(rows, cols, values[rows, cols], values.shape)


def errors(fitted, values, mask):
    """RMSE and mean absolute error of the entries where the mask is true."""
    entries = np.argwhere(mask)
    gap = fitted.predict(entries) - values[mask]
    return {"rmse": float(np.sqrt(np.mean(gap**2))), "mae": float(np.mean(np.abs(gap)))}


def effects(train):
    """Row + column effects alone: what no kernel knows anything about, and a penalty above all."""
    return kf.MC(train.shape, rank=1, mu=1e9, center="both").fit(train)


def low_rank(train):
    """MC, its mu chosen on held-out training entries."""
    return kf.MC(train.shape, rank=MC_RANK, mu="auto", center="both").fit(train)


def shuffled(arrays, axis, seed=0):
    """Tables whose rows (axis 0) or columns (1) no longer belong to their descriptions."""
    order = np.random.default_rng(seed).permutation(arrays[0].shape[axis])
    return [np.take(array, order, axis) for array in arrays]


def timed(call, *arguments, clock=time.process_time):
    """What a call returns, and the seconds that it took: of the processor, all cores together."""
    begun = clock()
    return call(*arguments), clock() - begun


def cores():
    """Number of cores that a run may use: no more threads than this are started."""
    return int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))


def on_cores(result):
    """The number of cores of a run, in words."""
    return "on one core" if result["cores"] == 1 else f"on {result['cores']} cores"


def markdown(head, rows):
    """A table."""
    lines = [f"| {' | '.join(head).lstrip()} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def save(result, name, out=RESULTS):
    """Keep a result as JSON."""
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1)
    (out / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def load(name, out=RESULTS):
    """A result that was kept, or None."""
    path = out / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

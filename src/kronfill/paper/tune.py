"""Choose the ridge weights: cross-validation once per panel, on data of their own.

    python -m kronfill.paper.tune

"A single value of mu chosen by cross-validation is used for all realizations" (section IV). Here
five folds of the observed entries of a few realisations that the figure does not use. KMC is fitted
by the paper's own solver for this, at a smaller N.
The smallest weight whose error is within a thousandth of the best is taken: without noise the error
is flat towards 0, where the paper's training loss of 1e-24 says it was.

For KMC and KKMCEX the paper scales mu with N to make up for the growing trace of its kernels. The
kernels here have a unit diagonal for every N, so the weight that keeps the balance is the same
number for every N.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from kronfill._types import Floats
from kronfill.core.threads import one_thread
from kronfill.paper.constants import ROOT_SEED, load_constants, update_constants
from kronfill.paper.methods import fit
from kronfill.paper.published import PANELS
from kronfill.paper.running.seeds import Purpose, data_seed, start_seed
from kronfill.paper.synthetic import Draw, draw

__all__ = ["MuTrial", "choose", "cross_validate", "main"]


FOLDS = 5
FLAT = 1e-3
"""Errors that differ by less than this share are taken as equal."""
COARSE, FINE = np.logspace(-11, -4, 8), np.logspace(-3, 1, 9)
GRIDS = {
    "kkmcex": np.concatenate([COARSE, FINE]),
    "mc": FINE,
    "kmc": np.concatenate([COARSE[-2:], FINE]),
}


class MuTrial(NamedTuple):
    """How the weight of a method is chosen."""

    method: str
    size: int
    realizations: int


TRIALS = {
    "kkmcex": MuTrial("kkmcex", 1000, 8),
    "mc": MuTrial("mc", 1000, 8),
    "kmc": MuTrial("kmc-rowwise", 400, 4),
}


def cross_validate(trial: MuTrial, panel: str, weights: Floats) -> Floats:
    """Mean squared error on held-out entries, of shape (realisations, weights)."""
    data = load_constants()["data"]
    found = []
    for k in range(trial.realizations):
        where = ROOT_SEED, panel, trial.size, k, Purpose.TUNING
        seed, constants = data_seed(*where), {name: data[name] for name in ("exponent", "power")}
        made = draw(trial.size, PANELS[panel], seed, **constants)
        start = start_seed(*where)
        found.append([_held_out_error(trial.method, made, mu, start) for mu in weights])
    return np.array(found)


def _held_out_error(name: str, made: Draw, mu: float, seed: np.random.SeedSequence) -> float:
    seen = made.observations
    fold = np.arange(seen.m) % FOLDS  # entries are in order of rows: every fold sees all of them
    total = 0.0
    for k in range(FOLDS):
        hidden = seen.take(fold == k)
        rng = np.random.default_rng(seed)
        outcome = fit(name, made.kernel, seen.take(fold != k), mu, rng)
        gap = hidden.values - outcome.prediction.at(hidden.rows, hidden.cols)
        total += float(gap @ gap)
    return total / seen.m


def choose(weights: Floats, errors: Floats) -> float:
    """The smallest of the ascending weights whose mean error is as good as the best.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.paper.tune import choose
    >>> choose(np.array([0.1, 1.0, 10.0]), np.array([[2.0, 1.0, 1.5]]))
    1.0
    """
    mean = errors.mean(axis=0)
    return float(weights[np.flatnonzero(mean <= (1.0 + FLAT) * mean.min())[0]])


def main() -> None:
    """Run the cross-validation and write the constants."""
    values: dict[str, dict[str, float]] = {panel: {} for panel in PANELS}
    details: list[dict[str, Any]] = []
    with one_thread():
        for name, panel in product(TRIALS, PANELS):
            trial, grid = TRIALS[name], GRIDS[name]
            errors = cross_validate(trial, panel, grid)
            values[panel][name] = float(f"{choose(grid, errors):.3g}")
            mean = [float(f"{value:.4g}") for value in errors.mean(axis=0)]
            shown = dict(zip([f"{mu:.2e}" for mu in grid], mean, strict=True))
            details.append({"panel": panel, **trial._asdict(), "errors": shown})
            sys.stdout.write(f"({panel}) {name}: {values[panel][name]:g}  {shown}\n")
            sys.stdout.flush()
    update_constants(
        "mu",
        {
            "values": values,
            "scaling": "for kernels of unit diagonal; times Tr(K_w) Tr(K_h) / N^2 for others "
            "(KKMCEX) or its square root (KMC)",
            "root_seed": ROOT_SEED,
            "folds": FOLDS,
            "cross_validation": details,
        },
    )


if __name__ == "__main__":
    main()

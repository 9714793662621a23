"""Drug response, 10 outer folds: learned kernel weights, uniform averages, the best single pair.

124 drugs x 124 cell lines, 10 drug and 12 cell-line kernels. Everything is chosen inside the
training part of each outer fold. Run with the folder of the data in KRONFILL_DATA:

    python -m studies.drug_response
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

import kronfill as kf
from kronfill.selection import KernelTuner, choose

PART = 1000
"""Training entries by whose leave-one-out error the best single pair is chosen."""
LEARN = 1500
"""Training entries from which weights are learned."""


def load(folder: Path):
    """Values, outer folds, drug kernels and cell-line kernels."""

    def kernels(where: str):
        names = sorted((folder / where).glob("K?_*.txt"))
        return {p.stem[3:]: kf.kernels.precomputed(np.loadtxt(p)) for p in names}

    values = np.loadtxt(folder / "Labels.txt")
    folds = np.loadtxt(folder / "Folds" / "outer_folds.txt", dtype=int).reshape(values.shape)
    return values, folds, kernels("Drug_kernels"), kernels("Cell_line_kernels")


def parts(kernels):
    """The kernels and what practice adds: a constant, and an identity part."""
    n = next(iter(kernels.values())).n
    return [*kernels.values(), kf.kernels.constant(n), kf.kernels.identity(n)]


def usual(kernel):
    """One kernel with the constant and identity parts that ``kf.complete`` would give it."""
    return kernel + kf.kernels.constant(kernel.n) + 0.1 * kf.kernels.identity(kernel.n)


def average(kernels):
    """Their mean."""
    return sum((1 / len(kernels)) * k for k in kernels.values())


def best_pair(train, drugs, cells):
    """The pair with the least leave-one-out error on a part, fitted to all."""
    rng = np.random.default_rng(0)
    part = train.take(np.sort(rng.choice(train.m, size=PART, replace=False)))
    pairs = {
        f"{d} x {c}": kf.KKMCEX(usual(drugs[d]), usual(cells[c]), mu="auto", center="both")
        for d in drugs
        for c in cells
    }
    name = choose(pairs, part).name
    return name, pairs[name].fit(train)


def methods(train, drugs, cells):
    """Each method's fitted estimator and what it chose."""
    uniform = kf.KKMCEX(usual(average(drugs)), usual(average(cells)), mu="auto", center="both")
    yield "uniform average", uniform.fit(train), ""
    name, pair = best_pair(train, drugs, cells)
    yield "best single pair", pair, name
    tuner = KernelTuner(
        kf.KKMCEX(mu="auto", center="both"), parts(drugs), parts(cells), max_entries=LEARN
    ).fit(train)
    shares = [
        ", ".join(f"{name} {w:.2f}" for name, w in sorted(told, key=lambda t: -t[1])[:4])
        for told in (
            zip([*drugs, "constant", "identity"], tuner.row_parameters_, strict=True),
            zip([*cells, "constant", "identity"], tuner.col_parameters_, strict=True),
        )
    ]
    yield "learned weights", tuner, " | ".join(shares)


def main() -> None:
    """Print the errors of each fold, then a summary."""
    folder = Path(os.environ["KRONFILL_DATA"]) / "drug_response"
    values, folds, drugs, cells = load(folder)
    squares: dict[str, list[float]] = {}
    spent: dict[str, float] = {}
    for fold in range(10):
        held = np.argwhere(folds == fold)
        X = np.argwhere(folds != fold)
        train = kf.Observations(*X.T, values[*X.T], values.shape)
        truth = values[*held.T]
        effects = kf.KKMCEX(np.eye(124), np.eye(124), mu=1e6, center="both").fit(train)
        squares.setdefault("row + column effects", []).append(
            float(np.mean((truth - effects.predict(held)) ** 2))
        )
        begun = time.perf_counter()
        for name, fitted, told in methods(train, drugs, cells):
            error = float(np.mean((truth - fitted.predict(held)) ** 2))
            squares.setdefault(name, []).append(error)
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - begun
            print(
                f"fold {fold} {name}: {np.sqrt(error):.4f} (mu {fitted.mu_:.3g}) {told}", flush=True
            )
            begun = time.perf_counter()
    best = np.array(squares["learned weights"])
    results = {
        name: {
            "rmse": float(np.sqrt(np.mean(errors))),
            "seconds": round(spent.get(name, 0.0), 1),
            "folds in which learned weights are better": int(np.sum(best < np.array(errors))),
        }
        for name, errors in squares.items()
    }
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()

"""Does measuring what ``suggest`` names beat measuring entries at random?

    python -m studies.active_choice --data drug bixi --repeats 10

From a few random observations, batches are added: suggested (greedy variance, leverage) or drawn at
random. The error is taken on a fifth of the entries that is never a candidate.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import kronfill as kf
from studies.real_data import ALL

STRATEGIES = ("variance", "leverage", "random")


def run(data, strategy, seed, start, batch, batches):
    """Root mean squared error, and mean variance of the model, after each batch."""
    rng = np.random.default_rng(seed)
    entries = rng.permutation(np.argwhere(np.isfinite(data.values)))
    test, pool = np.split(entries, [len(entries) // 5])
    seen, pool = np.split(pool, [start])
    truth = data.values[tuple(test.T)]
    errors = []
    for step in range(batches + 1):
        obs = kf.Observations(*seen.T, data.values[tuple(seen.T)], data.values.shape)
        est = kf.KKMCEX(data.row_kernel, data.col_kernel, mu="auto", center="mean").fit(obs)
        errors.append(float(np.sqrt(np.mean((est.predict(test) - truth) ** 2))))
        if step == batches:
            break
        some = rng.permutation(len(pool))[:2000]  # the same number to choose from for all
        if strategy == "random":
            chosen = pool[some[:batch]]
        else:
            suggestion = est.suggest(batch, pool[some], method=strategy, random_state=seed)
            chosen = np.asarray(suggestion)
        seen = np.vstack([seen, chosen])
        width = data.values.shape[1]
        pool = pool[~np.isin(pool @ [width, 1], chosen @ [width, 1])]
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=sorted(ALL), default=["drug"])
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--start", type=int, default=100)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    for name in args.data:
        data = ALL[name]()
        print(f"{data.name}: RMSE by number of observations, {args.repeats} repeats")
        curves = {}
        for strategy in STRATEGIES:
            curves[strategy] = np.array(
                [
                    run(data, strategy, seed, args.start, args.batch, args.batches)
                    for seed in range(args.repeats)
                ]
            )
            means = curves[strategy].mean(axis=0)
            print(f"  {strategy:9}" + " ".join(f"{e:.3f}" for e in means), flush=True)
        for strategy in ("variance", "leverage"):
            gap = (curves["random"] - curves[strategy])[:, 1:].mean(axis=1)
            error = gap.std(ddof=1) / np.sqrt(len(gap))
            wins = int(np.sum(gap > 0))
            print(
                f"  {strategy} better than random by {gap.mean():.4f} +- {error:.4f} on average "
                f"over the batches; in {wins} of {len(gap)} repeats",
                flush=True,
            )
        args.out.mkdir(exist_ok=True)
        sizes = [args.start + k * args.batch for k in range(args.batches + 1)]
        content = {"data": data.name, "sizes": sizes}
        content |= {strategy: curve.tolist() for strategy, curve in curves.items()}
        path = args.out / f"active_{name}.json"
        path.write_text(json.dumps(content) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

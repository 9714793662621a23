"""Latency of single updates to a large RRMCEX model: ``python -m benchmarks.online``.

A million observations of a 2,000 x 2,000 table, 64 x 64 coefficients; then a stream of single
observations, every tenth of which is a removal. Each call of ``partial_fit`` or ``forget`` is timed
by itself, from the arrays that a user hands in to the coefficients. At the end the coefficients are
compared with those of a fit to all observations that are left.

The phases can be run apart, so that only the stream needs a quiet machine:
``--phase prepare``, ``--phase stream`` and ``--phase check`` with the same ``--state FILE``.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import kronfill as kf
from benchmarks.peers import ROOT

REMOVAL = 10
"""Every so many-th update is a removal."""


@dataclass
class Stream:
    """The table, the model and what was measured so far."""

    kernels: tuple
    X: np.ndarray
    y: np.ndarray
    first: int
    rank: int
    model: kf.RRMCEX
    seconds: dict = field(default_factory=dict)
    latencies: dict = field(default_factory=lambda: {"partial_fit": [], "forget": []})
    gone: int = 0
    came: int = 0


def make(items: int, observations: int, updates: int, rank: int) -> Stream:
    """A table of a smooth function and noise, the last of its observations still to come."""
    rng = np.random.default_rng(0)
    kernels = tuple(kf.kernels.rbf(rng.random((items, 2)), length_scale=0.15) for _ in range(2))
    drawn = rng.choice(items * items, size=observations + updates, replace=False)
    X = np.column_stack(np.divmod(drawn, items))
    smooth = [kernel.factor(max_rank=20).phi @ rng.standard_normal(20) for kernel in kernels]
    y = smooth[0][X[:, 0]] * smooth[1][X[:, 1]] + 0.1 * rng.standard_normal(len(X))
    begun = time.perf_counter()
    model = fresh(kernels, rank).fit(X[:observations], y[:observations])
    fitted = time.perf_counter()
    model.partial_fit(X[observations : observations + 1], y[observations : observations + 1])
    seconds = {"fit": fitted - begun, "first update": time.perf_counter() - fitted}
    return Stream(kernels, X, y, observations, rank, model, seconds, came=1)


def fresh(kernels: tuple, rank: int, tol: float = 1e-8) -> kf.RRMCEX:
    """The method, not fitted."""
    solver = kf.PCG(tol=tol)
    return kf.RRMCEX(*kernels, row_rank=rank, col_rank=rank, mu=1.0, solver=solver)


def run(stream: Stream, updates: int, seconds: float = float("inf")) -> None:
    """Time single updates one by one, until so many or so many seconds have passed."""
    end = time.perf_counter() + seconds
    for k in range(updates):
        if time.perf_counter() > end:
            break
        if k % REMOVAL == REMOVAL - 1:
            at = slice(stream.gone, stream.gone + 1)
            call, name = stream.model.forget, "forget"
            stream.gone += 1
        else:
            at = slice(stream.first + stream.came, stream.first + stream.came + 1)
            call, name = stream.model.partial_fit, "partial_fit"
            stream.came += 1
        X, y = stream.X[at], stream.y[at]
        begun = time.perf_counter()
        call(X, y)
        stream.latencies[name].append(time.perf_counter() - begun)


def difference(stream: Stream) -> float:
    """Largest relative difference of the coefficients from those of a fit to what is left."""
    left = slice(stream.gone, stream.first + stream.came)
    wanted = fresh(stream.kernels, stream.rank, 1e-12).fit(stream.X[left], stream.y[left]).coef_
    return float(np.linalg.norm(stream.model.coef_ - wanted) / np.linalg.norm(wanted))


def milliseconds(latencies: list[float]) -> dict:
    """The middle, the tail and the worst."""
    ms = 1e3 * np.array(latencies)
    named = {"p50": 50, "p90": 90, "p99": 99, "p99.9": 99.9, "max": 100}
    tails = {name: round(float(np.percentile(ms, at)), 3) for name, at in named.items()}
    return {"updates": len(ms), "mean": round(float(ms.mean()), 3), **tails}


def report(stream: Stream) -> dict:
    """All figures."""
    both = [t for times in stream.latencies.values() for t in times]
    parts = {name: milliseconds(times) for name, times in stream.latencies.items() if times}
    return {
        "observations": stream.first,
        "coefficients": stream.rank**2,
        "cores": os.cpu_count(),
        "seconds": {name: round(took, 2) for name, took in stream.seconds.items()},
        "milliseconds": {"all": milliseconds(both), **parts},
        "drift": stream.model.solution_.residual,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.online", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small problem, to try the harness")
    parser.add_argument("--updates", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end the stream then")
    parser.add_argument("--phase", choices=["all", "prepare", "stream", "check"], default="all")
    parser.add_argument("--state", type=Path, help="where the phases hand on to each other")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "online.json")
    options = parser.parse_args()
    sizes = (200, 10_000, 8) if options.quick else (2000, 1_000_000, 64)
    updates = min(options.updates, 200) if options.quick else options.updates
    if options.phase in ("all", "prepare"):
        stream = make(*sizes[:2], updates + 1, sizes[2])
    else:
        stream = pickle.loads(options.state.read_bytes())
    if options.phase in ("all", "stream"):
        run(stream, updates, options.seconds)
    if options.state is not None and options.phase != "check":
        options.state.write_bytes(pickle.dumps(stream))
    if options.phase in ("all", "check"):
        results = {**report(stream), "relative difference from a fit": difference(stream)}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")
        print(json.dumps(results, indent=1))
    elif options.phase == "stream":
        print(json.dumps(report(stream), indent=1))


if __name__ == "__main__":
    main()

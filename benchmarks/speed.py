"""KKMCEX side by side with other libraries, in one run: ``python -m benchmarks``.

Every measurement is a child process of its own. What is found goes to ``results/speed.json``, to
the tables of ``docs/speed.md`` and to ``docs/figures/speed.png``.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from benchmarks import draw, goals, mc_als, peers, report
from benchmarks.problems import MEDIUM, ROUGH, SMOOTH, THIN, Problem

SEVERAL = 5
"""Processes of a problem that takes hundredths of a second."""
LIMIT = 120.0
"""Seconds that a peer gets for one problem, imports and checks included."""


@dataclass(frozen=True)
class Plan:
    """What is measured. The names of the lists are the sections of the page."""

    against_dense: tuple[Problem, ...]
    against_grid: tuple[Problem, ...]
    sizes: tuple[Problem, ...]
    growth_m: tuple[Problem, ...]
    growth_n: tuple[Problem, ...]
    sampling: tuple[Problem, ...]
    full_rank: tuple[Problem, ...]
    choice: tuple[Problem, ...]
    cold: tuple[Problem, ...]
    newton: tuple[Problem, ...]
    others: bool = True
    """Whether to measure the closed form with given kernels, and MC, too."""
    repeats: int = 3
    warm: bool = True
    """Whether compiled code is loaded before the clock starts."""


def full() -> Plan:
    million = Problem(1_000_000, 3000)
    growth = tuple(
        Problem(m, size, THIN)
        for m, size in (
            (100_000, 3000), (300_000, 3000), (1_000_000, 3000), (3_000_000, 5000),
            (10_000_000, 10_000), (100_000_000, 100_000),
        )
    )  # fmt: skip
    return Plan(
        against_dense=tuple(Problem(m, 3000) for m in (1000, 5000, 10_000, 100_000)),
        against_grid=(Problem(100_000, 1000),),
        sizes=(
            million, replace(million, scales=MEDIUM), replace(million, scales=ROUGH),
            replace(million, scales=MEDIUM, identity=0.1), *growth[-2:],
        ),
        growth_m=growth,
        growth_n=tuple(Problem(1_000_000, n) for n in (3000, 10_000, 30_000, 100_000)),
        sampling=tuple(replace(million, scales=s, zipf=True) for s in (SMOOTH, MEDIUM)),
        full_rank=tuple(
            Problem(100_000, 1000, kind=kind) for kind in ("tanimoto", "given", "graph")
        ),
        choice=(
            *(Problem(m, 300, s) for s in (THIN, SMOOTH) for m in (1000, 5000, 50_000)),
            *(Problem(m, 3000, s) for s in (SMOOTH, ROUGH) for m in (1000, 3000, 10_000, 100_000)),
            Problem(10_000, 100, SMOOTH), Problem(250_000, 500, MEDIUM), Problem(90_000, 300, THIN),
            *(Problem(m, 1000, SMOOTH, identity=0.1) for m in (10_000, 100_000)),
        ),
        cold=(Problem(1000, 3000), Problem(100_000, 3000)),
        newton=(million,),
    )  # fmt: skip


def quick() -> Plan:
    """A run of seconds that goes through everything but the peers and the empty cache."""
    small = Problem(3000, 100)
    return Plan(
        against_dense=(small,), against_grid=(), sizes=(small,),
        growth_m=(small, Problem(5000, 100)), growth_n=(small,), sampling=(),
        full_rank=(Problem(500, 40, kind="given"),), choice=(Problem(400, 20),), cold=(),
        newton=(small,),
        others=False, repeats=1, warm=False,
    )  # fmt: skip


@dataclass
class Run:
    """One run: measures each problem once and keeps what it found."""

    plan: Plan
    out: Path
    with_peers: bool = True
    seen: dict[tuple, dict] = field(default_factory=dict)
    more: dict = field(default_factory=lambda: {"choice": [], "cold": [], "newton": []})

    def ours(self, problem: Problem) -> dict:
        """kronfill on a problem."""
        repeats = 1 if problem.m >= 30_000_000 else self.plan.repeats
        more = {"repeats": repeats, "warm": self.plan.warm}
        return self._once("kronfill", problem, "scale", timeout=600, **more)

    def dense(self, library: str, problem: Problem) -> dict:
        """SciPy or scikit-learn on a problem, unless the kernel over its entries is too large."""
        if 16.0 * problem.m**2 > _memory():
            return self._known(library, problem, f"needs {8e-9 * problem.m**2:,.0f} GB")
        return self._once(library, problem, "dense", peer=library, first=(library,))

    def latent(self, problem: Problem, preconditioner: int) -> dict:
        """LatentKroneckerGP on a problem, with so many columns in its preconditioner."""
        name = f"LatentKroneckerGP {preconditioner}"
        more = {"preconditioner": preconditioner, "repeats": 1}
        return self._once(name, problem, "latent_kronecker", peer="botorch", **more)

    def _once(self, library, problem, module, *, peer="", first=(), timeout=LIMIT, **more) -> dict:
        key = (library, problem)
        if key not in self.seen:
            begun = time.monotonic()
            settings = problem.as_json(**more)
            # Tiny differences count at a thousand observations: the middle of several processes.
            runs = [
                peers.run(module, *first, settings, peer=peer, timeout=timeout)
                for _ in range(SEVERAL if problem.m <= 1000 else 1)
            ]
            self.seen[key] = found = sorted(runs, key=lambda r: r.get("seconds", 1e9))[
                len(runs) // 2
            ]
            self._keep()
            _say(library, problem, found, time.monotonic() - begun)
        return self.seen[key]

    def _known(self, library: str, problem: Problem, failed: str) -> dict:
        return self.seen.setdefault((library, problem), {"failed": failed})

    def everything(self) -> dict:
        plan = self.plan
        for problem in plan.against_dense:
            self.ours(problem)
            if self.with_peers:
                self.dense("scipy", problem)
                self.dense("scikit-learn", problem)
        for problem in plan.against_grid:
            self.ours(problem)
            if self.with_peers:
                self.latent(problem, 15)
            if self.with_peers and problem == plan.against_grid[-1]:
                self.latent(problem, 100)
        rest = (plan.sizes, plan.growth_m, plan.growth_n, plan.sampling, plan.full_rank)
        for problem in (p for problems in rest for p in problems):
            self.ours(problem)
        for problem in plan.cold:
            self.more["cold"] += cold_start(problem)
        for problem in plan.choice:
            self.more["choice"].append(vars(problem) | _choice(problem, plan))
            self._keep()
        for problem in plan.newton:
            self.more["newton"].append(vars(problem) | _newton(problem, plan))
            self._keep()
        if plan.others:
            self.more["closed_form"] = peers.run("closed_form")
            self.more["mc_als"] = mc_als.compare(("float64",)) if self.with_peers else {}
        return self.results() | {"complete": True}

    def results(self) -> dict:
        """What was found so far."""
        measured = [
            {"library": library, **vars(problem), **found}
            for (library, problem), found in self.seen.items()
        ]
        return {"machine": machine(), "measured": measured, **self.more, "complete": False}

    def _keep(self) -> None:
        """A run that is ended half-way keeps what it has."""
        peers.keep("speed", self.results(), self.out)


def _choice(problem: Problem, plan: Plan) -> dict:
    begun = time.monotonic()
    found = peers.run("choice", problem.as_json(rounds=plan.repeats, warm=plan.warm), timeout=300)
    _say("auto and others", problem, found, time.monotonic() - begun)
    return found


def _newton(problem: Problem, plan: Plan) -> dict:
    begun = time.monotonic()
    settings = problem.as_json(repeats=plan.repeats, warm=plan.warm)
    found = peers.run("newton", settings, timeout=600)
    _say("classes and counts", problem, found, time.monotonic() - begun)
    return found


def cold_start(problem: Problem) -> list[dict]:
    """The first fit with an empty cache of compiled code, and in the next process."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("empty", "filled"):
            found = peers.run("cold", problem.as_json(), NUMBA_CACHE_DIR=folder)
            rows.append(vars(problem) | {"cache": cache} | found)
            _say(f"cold start, {cache} cache", problem, found, found.get("first_fit_s", 0.0))
    return rows


def machine() -> dict:
    """What it ran on."""
    names = ("kronfill", "numpy", "scipy", "scikit-learn", "numba")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(_memory("MemTotal") / 1e9, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in names},
        "date": time.strftime("%Y-%m-%d"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((s.split(":")[1].strip() for s in lines if s.startswith("model name")), "unknown")


def _memory(name: str = "MemAvailable") -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    return 1024.0 * int(next(s for s in lines if s.startswith(name + ":")).split()[1])


def _say(library: str, problem: Problem, found: dict, spent: float) -> None:
    took = found.get("seconds", found.get("first_fit_s", found.get("kkmcex_s")))
    took = took.get("auto") if isinstance(took, dict) else took
    shown = f"{took:.3g} s" if took is not None else found.get("failed", "")
    extra = "".join((" zipf" * problem.zipf, f" + {problem.identity} I" * bool(problem.identity)))
    what = f"m={problem.m:,} N={problem.size:,} {problem.kind} {problem.scales}{extra}"
    print(f"{library:22s} {what:50s} {shown}   [{spent:.0f} s]", flush=True)


def main(out: Path, docs: Path, *, small: bool = False, with_peers: bool = True) -> dict:
    """Measure, keep, write the page and draw the picture."""
    begun = time.monotonic()
    results = Run(quick() if small else full(), out, with_peers).everything()
    results["minutes"] = (time.monotonic() - begun) / 60
    results["goals"] = goals.check(results)
    peers.keep("speed", results, out)
    _publish(results, docs)
    return results


def redraw(out: Path, docs: Path) -> dict:
    """Write page and picture again from what an earlier run kept."""
    results = json.loads((out / "speed.json").read_text())
    results["goals"] = goals.check(results)
    _publish(results, docs)
    return results


def _publish(results: dict, docs: Path) -> None:
    report.write(results, docs / "speed.md")
    draw.draw(results, docs / "figures" / "speed.png")

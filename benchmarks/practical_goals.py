"""What ``practical`` was to reach, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator

SECONDS = {
    "drugs x kinases": 1.0, "features": 4.0, "ratings": 8.0, "compounds x assays": 5.0,
    "compounds x cells": 8.0, "stations x hours": 10.0,
}  # fmt: skip
"""Seconds that ``complete`` may take with KKMCEX and its mu chosen."""
FIXED, EVALUATE, MEMORY, TIMES_KMC, EXPECTED = 2.5, 40.0, 2.0, 2.0, 2.0
BAYESIAN = ("smurff", "myfm")
Goal = tuple[str, float, str, "float | None"]


def check(results: dict) -> list[dict]:
    """Each goal with its bound, the value measured, and whether it is met; None: not measured."""
    found = []
    for what, bound, unit, value in _goals(results["tables"]):
        met = None if value is None else bool(value <= bound)
        found.append({"what": what, "bound": bound, "unit": unit, "value": value, "met": met})
    return found


def _goals(tables: list[dict]) -> Iterator[Goal]:
    yield from _seconds(tables)
    yield from _default(tables)
    fits = [fit for row in tables for fit in row.get("fixed", {}).get("fits", [])]
    off = [off_by(fit) for fit in fits]
    text = "seconds expected and taken at fixed mu: the larger over the smaller, worst"
    yield text, EXPECTED, "x", max((one for one in off if one is not None), default=None)
    held = [part["peak_gb"] for row in tables for part in row.values() if _has(part, "peak_gb")]
    held += [fit["peak_gb"] for fit in fits]
    yield "most memory of a process", MEMORY, "GB", max(held, default=None)


def _seconds(tables: list[dict]) -> Iterator[Goal]:
    rows = {row["name"]: row for row in tables}
    for name, bound in SECONDS.items():
        yield f"{name}: KKMCEX, mu chosen", bound, "s", taken(rows.get(name, {}), "complete")
    with_goal = [row for row in tables if row["name"] in SECONDS]
    yield _worst("slowest fit at fixed mu", with_goal, slowest, FIXED, "s")
    text = "KMC over KKMCEX, both chosen"
    yield _worst(text, with_goal, _kmc, TIMES_KMC, "x")
    features = rows.get("features", {})
    yield "features: `evaluate` of the default", EVALUATE, "s", taken(features, "evaluate")
    yield "features: `evaluate` of KKMCEX in folds", EVALUATE, "s", taken(features, "folds")


def _default(tables: list[dict]) -> Iterator[Goal]:
    """No slower than the slower of the Bayesian peers, more accurate than the better one."""
    text = "the default over the slower of SMURFF and myFM"
    slower = lambda row: _over(row, "seconds", max)  # noqa: E731
    yield _worst(text, tables, slower, 1.0, "x")
    text = "error of the default over that of the better of SMURFF and myFM"
    better = lambda row: _over(row, "rmse", min)  # noqa: E731
    yield _worst(text, tables, better, 1.0, "x")


def off_by(fit: dict) -> float | None:
    """How far apart the expected seconds of a fit and those that it took are, as a factor."""
    if not fit["expected"]:
        return None
    ratio = float(fit["expected"] / fit["seconds"])
    return max(ratio, 1 / ratio)


def slowest(row: dict) -> float | None:
    """Seconds of the slowest fit at fixed mu; its limit where that was exceeded."""
    fits = [fit["seconds"] for fit in row.get("fixed", {}).get("fits", [])]
    return max(fits, default=taken(row, "fixed"))


def taken(row: dict, part: str) -> float | None:
    """Seconds of a measurement; its limit where that was exceeded."""
    found = row.get(part, {})
    stopped = found.get("failed", "").removeprefix("over ").removesuffix(" s")
    return found.get("seconds", float(stopped) if stopped.isdigit() else None)


def _kmc(row: dict) -> float | None:
    """KMC over KKMCEX."""
    mine, other = taken(row, "kmc"), taken(row, "complete")
    return None if mine is None or not other else mine / other


def _over(row: dict, name: str, choose: Callable) -> float | None:
    """Of seconds or errors: the default over the largest or least of the peers."""
    theirs = [row[peer][name] for peer in BAYESIAN if _has(row.get(peer), name)]
    own = row.get("default", {}).get(name)
    own = taken(row, "default") if name == "seconds" else own
    return None if own is None or not theirs else own / choose(theirs)


def _worst(text: str, rows: list[dict], value: Callable, bound: float, unit: str) -> Goal:
    """A goal of all tables: the worst of them, and how many are within."""
    found = {row["name"]: value(row) for row in rows}
    known = {name: one for name, one in found.items() if one is not None}
    if not known:
        return text, bound, unit, None
    worst = max(known, key=lambda name: known[name])
    within = sum(one <= bound for one in known.values())
    text += f" ({within} of {len(known)} within; worst: {worst})"
    return text, bound, unit, known[worst]


def _has(found: object, name: str) -> bool:
    return isinstance(found, dict) and name in found

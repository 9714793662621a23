"""How time and memory are measured inside a child process; the standard library alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

SHORT, LONG = 1.0, 6.0


def best_of(job: Callable[[], Any], repeats: int = 3) -> tuple[dict, Any]:
    """Run ``job`` ``repeats`` times, short ones until SHORT, long ones no more after LONG seconds.

    One run stays one run.
    """
    times: list[float] = []
    while _again(times, repeats):
        result = None  # what the last run made is gone before the next one starts
        begun = time.perf_counter()
        result = job()
        times.append(time.perf_counter() - begun)
    seconds = {"seconds": min(times), "median": median(times), "first": times[0]}
    return seconds | {"runs": len(times)}, result


def measured(job: Callable[[], Any], repeats: int = 3) -> tuple[dict, Any]:
    """:func:`best_of`, with the most memory held, in all and beyond what was held before."""
    forget_peak()
    before = resident()
    times, result = best_of(job, repeats)
    most = peak()
    return times | {"beyond_input_gb": most - before, "peak_gb": most}, result


def _again(times: list[float], repeats: int) -> bool:
    if not times:
        return True
    if repeats == 1 or sum(times) > LONG:
        return False
    return len(times) < repeats or (sum(times) < SHORT and len(times) < 30)


@contextlib.contextmanager
def calls(owner: type, name: str):
    """Seconds of each call of a method, while this lasts."""
    plain, times = vars(owner)[name], []
    function = plain.__func__ if isinstance(plain, classmethod) else plain

    def clocked(*args, **kwargs):
        begun = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            times.append(time.perf_counter() - begun)

    setattr(owner, name, classmethod(clocked) if isinstance(plain, classmethod) else clocked)
    try:
        yield times
    finally:
        setattr(owner, name, plain)


def resident() -> float:
    """GB (1e9 bytes) of memory that this process holds now."""
    return _status("VmRSS")


def peak() -> float:
    """GB of the most that this process held since the last :func:`forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Start measuring the peak anew, where the system lets us."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:  # not Linux
        return float("nan")
    found = next(line for line in lines if line.startswith(name + ":"))
    return int(found.split()[1]) * 1024 / 1e9

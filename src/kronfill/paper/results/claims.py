"""The paper's four claims about its figure, each with the numbers that decide it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kronfill.paper.published import PANELS
from kronfill.paper.results.table import Point, curves
from kronfill.paper.results.trend import flat_from, trend

__all__ = ["claims"]

EXACT, ROWWISE = "KMC (exact)", "KMC (row-wise)"


def claims(points: Iterable[Point]) -> list[tuple[str, str]]:
    """Claim and answer, as far as the curves were run.

    Examples
    --------
    >>> from kronfill.paper.results.claims import claims
    >>> claims([])
    []
    """
    found = curves(points)
    out: list[tuple[str, str]] = []
    for panel in PANELS:
        kkmcex, mc = (found.get((panel, label, "test"), []) for label in ("KKMCEX", "MC"))
        if len(kkmcex) > 1:
            out.append((f"({panel}) KKMCEX's test loss does not depend on N", _constant(kkmcex)))
        if len(mc) > 1:
            out.append((f"({panel}) MC's test loss grows with N", _rise(mc)))
        both = [found.get((panel, label, "test"), []) for label in (ROWWISE, EXACT)]
        if all(len(row) > 1 for row in both):
            text = (
                f"The paper's solver, stopped after 100 sweeps. {_rise(both[0])} The same "
                f"objective carried to its minimum. {_rise(both[1])}{_against(kkmcex)}"
            )
            out.append((f"({panel}) KMC's test loss grows with N, beyond KKMCEX's", text))
    return out


def _constant(row: Sequence[Point]) -> str:
    text = _rise(row)
    later = trend(row[1:])
    if len(row) > 2 and later is not None:
        text += f" From N = {row[1].N} on: {later}."
    flat = flat_from(row)
    if flat is None:
        spread = max(p.value for p in row[1:]) / min(p.value for p in row[1:]) - 1.0
        text += f" Not flat within errors, but from N = {row[1].N} on the largest value is only"
        return f"{text} {spread:.1%} above the smallest."
    return f"{text} Flat within errors from N = {flat.first} on: {flat}."


def _rise(row: Sequence[Point]) -> str:
    found = trend(row)
    first, last = row[0], row[-1]
    text = f"From {first.value:.3g} at N = {first.N} to {last.value:.3g} at N = {last.N}"
    return f"{text}: {found}." if found is not None else f"{text}."


def _against(kkmcex: Sequence[Point]) -> str:
    """What KKMCEX has at the largest size."""
    if not kkmcex:
        return ""
    last = kkmcex[-1]
    error = "" if math.isnan(last.stderr) else f" ± {last.stderr:.2g}"
    return f" KKMCEX has {last.value:.3g}{error} at N = {last.N}."

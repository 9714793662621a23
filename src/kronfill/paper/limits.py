"""The bounds of the paper beside the generalization error they are about, over the same sizes.

Each bound is evaluated with the mean norm of the fitted models (t of MC, t_B of KMC, b of KKMCEX)
and the entries of the first realisation. The theorems need a loss of bounded range: predictions and
values are taken as clipped to four standard deviations of the data.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill.bounds import (
    HypothesisClass,
    KMCBall,
    NuclearBall,
    RKHSBall,
    Split,
    Square,
    TrainingSpan,
    theorem_1,
    theorem_a,
    theorem_a2,
)
from kronfill.paper.methods import METHODS
from kronfill.paper.running.seeds import data_seed
from kronfill.paper.running.spec import snr_of
from kronfill.paper.running.work import CellSettings
from kronfill.paper.synthetic import draw

__all__ = ["CLIP", "DELTA", "Limit", "limits"]

CLIP = 4.0
"""Range of the loss, in standard deviations of the data to either side."""
DELTA = 0.05


@dataclass(frozen=True)
class Limit:
    """Generalization error and its bounds for one method at one size."""

    panel: str
    method: str
    N: int
    ge: float
    """Mean generalization error measured."""
    norm: float
    """Mean norm of the fitted models."""
    printed: float
    """Theorem 1 with the class of the method as printed."""
    corrected: float
    """The smaller of Theorems A and A2."""
    realizations: int
    """Over which error and norm are means."""


@dataclass(frozen=True)
class _Unit:
    """Complexities of a class of radius one."""

    ball: HypothesisClass
    split: Split
    printed: float
    sub: float
    eyp: float

    @classmethod
    def of(
        cls, ball: HypothesisClass, split: Split, printed: HypothesisClass | None = None
    ) -> _Unit:
        sub, eyp = (ball.complexity(split, law).value for law in ("sub", "eyp"))
        return cls(ball, split, (printed or ball).paper_form(split), sub, eyp)

    def at(self, norm: float, spread: float) -> tuple[float, float]:
        """Printed and corrected bound for a radius and a standard deviation of the data."""
        loss = Square(clip=(-CLIP * spread, CLIP * spread))
        printed = theorem_1(norm * self.printed, self.split.sizes, loss, DELTA).value
        a = theorem_a(self.ball, self.split, loss, DELTA, complexity=norm * self.sub).value
        a2 = theorem_a2(self.ball, self.split, loss, DELTA, complexity=norm * self.eyp).value
        return printed, min(a, a2)


def limits(
    records: Iterable[Mapping[str, Any]], settings: CellSettings, methods: Iterable[str]
) -> list[Limit]:
    """Evaluate the bounds of some methods wherever a store has cells; by panel, method and size."""
    wanted = set(methods)
    groups: dict[tuple[int, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in records:
        if row["status"] == "done" and row["method"] in wanted:
            groups[row["N"], row["panel"], row["method"]].append(row)
    found = []
    for size in sorted({key[0] for key in groups}):
        used = {METHODS[key[2]].algorithm for key in groups if key[0] == size}
        units = _units(size, settings, used)
        for (_, panel, method), rows in groups.items():
            if rows[0]["N"] != size:
                continue
            norm, ge = (float(np.mean([row[name] for row in rows])) for name in ("norm", "ge"))
            spread = math.sqrt(settings.power * (1.0 + 1.0 / snr_of(panel)))
            values = units[METHODS[method].algorithm].at(norm, spread)
            found.append(Limit(panel, method, size, ge, norm, *values, len(rows)))
    order = list(METHODS)
    return sorted(found, key=lambda x: (x.panel, order.index(x.method), x.N))


def _units(size: int, settings: CellSettings, algorithms: set[str]) -> dict[str, _Unit]:
    """Complexities for one size, shared by the panels: they do not depend on the values."""
    seed = data_seed(settings.seed, "a", size, 0)
    made = draw(size, math.inf, seed, exponent=settings.exponent, power=settings.power)
    kernel, shape = made.kernel, (size, size)
    train = made.observations.rows, made.observations.cols
    split = Split.of(train, shape=shape)
    found = {}
    if "MC" in algorithms:
        found["MC"] = _Unit.of(NuclearBall(shape, 1.0), split)
    if "KMC" in algorithms:
        found["KMC"] = _Unit.of(KMCBall(kernel, kernel, 1.0), split)
    if "KKMCEX" in algorithms:
        span = TrainingSpan(kernel, kernel, 1.0, train)
        found["KKMCEX"] = _Unit.of(RKHSBall(kernel, kernel, 1.0), split, printed=span)
    return found

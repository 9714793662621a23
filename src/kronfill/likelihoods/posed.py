"""A penalised likelihood problem, and whether it has a finite solution."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kronfill._types import Flags, Floats, Index
from kronfill.errors import DataError, argument
from kronfill.likelihoods.families import Likelihood
from kronfill.ridge.problem import RidgeProblem, Sampled

__all__ = ["PosedLikelihood"]


@dataclass(frozen=True, eq=False)
class PosedLikelihood:
    """Kernels, observed values, their likelihood, and what is known of eta beforehand."""

    problem: RidgeProblem
    """The mu of which is not used."""
    likelihood: Likelihood
    offset: Floats | None = None

    @property
    def sampled(self) -> Sampled:
        """The observations."""
        return self.problem.sampled

    @property
    def known(self) -> Floats:
        """The offset, zero where there is none."""
        return np.zeros(self.sampled.m) if self.offset is None else self.offset

    def take(self, keep: Flags) -> PosedLikelihood:
        """The problem of some of the observations."""
        offset = None if self.offset is None else self.offset[keep]
        problem = replace(self.problem, sampled=self.sampled.take(keep))
        return replace(self, problem=problem, offset=offset)

    def effect_sides(self) -> dict[str, tuple[Index, int]]:
        """Item of each observation and number of items, where items have an unpenalised effect."""
        s = self.sampled
        if s.kind is None:
            return {}
        sides = {"row": (s.rows, s.shape[0]), "column": (s.cols, s.shape[1])}
        names = {"rows": ("row",), "cols": ("column",), "both": ("row", "column")}
        found = {name: sides[name] for name in names.get(s.kind, ())}
        return found or {"table": (np.zeros(s.m, np.intp), 1)}

    def check_effects(self) -> None:
        """Raise if an unpenalised effect would go to infinity.

        It does where all values of a row are 0 (or, of a yes or no, 1): the larger, the likelier.
        """
        s = self.sampled
        for axis, (index, size) in self.effect_sides().items():
            seen = np.bincount(index, minlength=size) > 0
            for wanted, lacking in self.likelihood.bounding(s.values):
                bad = np.flatnonzero(seen & (np.bincount(index, wanted, minlength=size) == 0))
                if len(bad):
                    where = "The table has" if axis == "table" else f"{axis} {bad[0]} has"
                    count = f" ({len(bad)} such {axis}s)" if len(bad) > 1 else ""
                    where = where[0].upper() + where[1:]
                    msg = (
                        f"{where} {lacking}{count}: the unpenalised effect of "
                        f"{argument('center', s.kind)} would be infinite. Leave such entries out, "
                        f"use {argument('center', None)}, or a kernel with an identity part for "
                        "effects that are shrunk."
                    )
                    raise DataError(msg)

"""Conjugate gradients that start from the last solution, while observations come and go."""

from __future__ import annotations

import numpy as np

from kronfill._types import Flags, Floats
from kronfill.core.grouping import totals
from kronfill.core.low_rank import LowRankFactor
from kronfill.online.growing_dual import NewItem
from kronfill.ridge.factor_system import FactorSystem
from kronfill.ridge.identity_system import FactorPlusIdentity, IdentitySystem
from kronfill.ridge.problem import FactorLike, KernelLike, RidgeResult, Sampled
from kronfill.ridge.system import System
from kronfill.solvers.half_steps import FactorKernel
from kronfill.solvers.pcg import PCG, over_kernels, system_of

__all__ = ["WarmStart"]


class WarmStart:
    """Factors of the kernels, the last coefficients and the counts of rows and columns.

    A change of a few observations changes little: the solver starts from the coefficients before
    it. The counts, from which the preconditioner is made, run along.
    """

    def __init__(self, kernels: tuple[KernelLike, KernelLike], settings: PCG) -> None:
        self._factored = (FactorPlusIdentity.of(kernels[0]), FactorPlusIdentity.of(kernels[1]))
        self._settings = settings
        self._last: Floats | None = None
        self._observed: list[Flags] = []
        """The items that the last coefficients refer to, where that matters."""
        self._counts: tuple[Floats, Floats] | None = None

    def solve(self, sampled: Sampled, mu: float, change: tuple[Sampled, int] | None) -> RidgeResult:
        """Solve from the last solution; ``change`` is what came (+1) or went (-1) since then."""
        self._run_along(sampled, change)
        system = system_of(*self._factored, sampled, mu)
        (result,) = self._settings.solve_all(system, mu, self._starts(system))
        self._last = result.core
        return over_kernels(result, *self._factored)

    def _starts(self, system: System) -> list[Floats] | None:
        """The last coefficients, unless they refer to the bases of other items."""
        if isinstance(system, IdentitySystem):
            before, self._observed = self._observed, [axis.counts > 0 for axis in system.axes]
            if not all(map(np.array_equal, before, self._observed)):
                return None
        return None if self._last is None else [self._last]

    def _run_along(self, sampled: Sampled, change: tuple[Sampled, int] | None) -> None:
        if self._counts is None or change is None:
            self._counts = sampled.mask.counts
            return
        part, sign = change
        moved = (
            self._counts[0] + sign * totals(part.rows, part.weights, sampled.shape[0]),
            self._counts[1] + sign * totals(part.cols, part.weights, sampled.shape[1]),
        )
        # Where all went, rounding may leave a little less than nothing.
        self._counts = np.maximum(moved[0], 0.0), np.maximum(moved[1], 0.0)
        vars(sampled.mask)["counts"] = self._counts  # or else they would be counted again

    def with_item(
        self, kernels: tuple[KernelLike, KernelLike], sampled: Sampled, mu: float, item: NewItem
    ) -> Floats:
        """Prediction for a new item: the enlarged problem, from the solution without it.

        In the enlarged factor the item has one column to itself, for what the others do not tell.
        """
        factored = list(self._factored)
        kernel = factored[item.axis]
        phi = kernel.factor.phi
        along = _in_factor(kernel.factor, item.cross)
        rest = max(0.0, item.own - kernel.identity - float(along @ along))
        grown = np.zeros((len(phi) + 1, phi.shape[1] + 1))
        grown[:-1, :-1], grown[-1, :-1], grown[-1, -1] = phi, along, np.sqrt(rest)
        factored[item.axis] = FactorPlusIdentity(FactorKernel(grown), kernel.identity)
        system = system_of(factored[0], factored[1], item.joined(sampled), mu)
        starts = None
        if isinstance(system, FactorSystem) and self._last is not None:
            more = ((0, 1), (0, 0)) if item.axis == 0 else ((0, 0), (0, 1))
            starts = [np.pad(self._last, more)]
        (result,) = self._settings.solve_all(system, mu, starts)
        result.solution.warn()
        fitted = item.predicted(sampled, result.dual, kernels[1 - item.axis])
        return item.total(fitted, result.effects)


def _in_factor(factor: FactorLike, cross: Floats) -> Floats:
    """The row of a factor that belongs to a new item with these similarities."""
    if isinstance(factor, LowRankFactor) and factor.pivots is not None:
        return np.asarray(factor.extend(cross[None, factor.pivots])[0])
    return np.asarray(np.linalg.lstsq(factor.phi, cross, rcond=1e-13)[0])

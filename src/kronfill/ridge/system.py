"""What conjugate gradients ask of a ridge problem in the space of the kernels' factors.

The unknown x is an array whose first axis runs over targets: problems that share the mask and the
kernels and differ in the observed values alone. With Psi the map from x to values at the observed
entries, the system is (Psi^T M Psi + mu I) x = Psi^T M y, where M is W less what the effects take
up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from kronfill._types import Floats
from kronfill.core.grouping import Grouped
from kronfill.ridge.effects import EffectsDesign
from kronfill.ridge.problem import CoreResult, Sampled
from kronfill.ridge.solution import Solution

__all__ = [
    "MappedSystem", "MeasuredSystem", "NormalMap", "System", "grouped_design", "grouped_targets",
    "inner",
]  # fmt: skip


class NormalMap(ABC):
    """Psi^T M Psi, and what is expected of it."""

    @abstractmethod
    def normal(self, x: Floats) -> Floats:
        """Psi^T M Psi x."""

    @abstractmethod
    def precondition(self, r: Floats, mu: float) -> Floats:
        """Approximate (Psi^T M Psi + mu I)^-1 r."""

    @abstractmethod
    def expected_norm(self, r: Floats) -> Floats:
        """Estimate of ||Psi r||, for each target."""


class MeasuredSystem(NormalMap):
    """A :class:`NormalMap` in double precision with its right-hand sides."""

    norm_y: Floats
    """||y||, weighted, for each target."""

    def within(self, x: Floats) -> Floats:
        """What of x lies in the space of the unknowns: rounding may lead out of it."""
        return x

    @abstractmethod
    def rhs(self) -> Floats:
        """Psi^T M y."""

    @abstractmethod
    def dual_norm(self, r: Floats) -> Floats:
        """||Psi r||, weighted: with r the primal residual, mu times the dual residual."""


class System(MeasuredSystem):
    """The same in factor space, with the ways from the caller and back."""

    shift: float = 0.0
    """What the system adds to mu by itself."""

    @abstractmethod
    def single(self) -> NormalMap:
        """The same map in single precision."""

    @abstractmethod
    def start(self, core: Floats) -> Floats:
        """From the caller's coefficients to x, one target."""

    @abstractmethod
    def result(self, x: Floats, mu: float, target: int, solution: Solution) -> CoreResult:
        """Coefficients, dual vector and effects of one target, with the record of the solve."""


class MappedSystem(System):
    """A system whose map in double precision is an object of its own, as that in single is."""

    double: NormalMap

    def normal(self, x: Floats) -> Floats:
        """See :class:`NormalMap`."""
        return self.double.normal(x)

    def precondition(self, r: Floats, mu: float) -> Floats:
        """See :class:`NormalMap`."""
        return self.double.precondition(r, mu)

    def expected_norm(self, r: Floats) -> Floats:
        """See :class:`NormalMap`."""
        return self.double.expected_norm(r)


def inner(u: Floats, v: Floats) -> Floats:
    """<u, v> of each target."""
    count = len(u)
    return np.asarray(
        np.einsum("ij,ij->i", u.reshape(count, -1), v.reshape(count, -1), dtype=np.float64)
    )


def grouped_targets(sampled: Sampled, grouped: Grouped) -> Floats:
    """Values in grouped order, one row for each target."""
    if sampled.values.ndim == 1:
        return grouped.gather(sampled.values)[None]
    return np.ascontiguousarray(sampled.values[grouped.order].T)


def grouped_design(
    sampled: Sampled, grouped: Grouped, weights: Floats | None
) -> EffectsDesign | None:
    """Effects of the observations in grouped order, with weights in that order."""
    if sampled.effects is None:
        return None
    order = grouped.order
    return EffectsDesign(
        sampled.rows[order], sampled.cols[order], sampled.shape, sampled.effects.kind, weights
    )

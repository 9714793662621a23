"""What an axis says before anything is observed: similarities and factors, known items or new."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.limits import FACTOR_RTOL
from kronfill.core.low_rank import LowRankFactor
from kronfill.estimators.fitted.bilinear import Combined
from kronfill.kernels.base import Kernel
from kronfill.kernels.new_items import new_diagonal
from kronfill.ridge.identity_system import FactorPlusIdentity
from kronfill.ridge.problem import KernelLike
from kronfill.solvers.half_steps import GivenFactor
from kronfill.uncertainty.queries import QueriedItems

__all__ = ["AxisPrior", "CutPrior", "KernelPrior"]


class AxisPrior(ABC):
    """One axis of the Gaussian process."""

    @property
    @abstractmethod
    def kernel(self) -> KernelLike:
        """The kernel that the method works with."""

    @property
    @abstractmethod
    def phi(self) -> Floats:
        """Its factor for all known items."""

    @cached_property
    def split(self) -> FactorPlusIdentity:
        """The kernel less its identity part, factored, and that part."""
        return FactorPlusIdentity.of(self.kernel, FACTOR_RTOL)

    @property
    def rank(self) -> int:
        """Its rank; with an identity part that is full, and known without any work."""
        return self.kernel.n if self.kernel.split()[1] else self.phi.shape[1]

    def known(self, items: Index) -> QueriedItems:
        """Items of the table."""
        kernel = self.kernel
        return QueriedItems(
            items,
            kernel.diagonal()[items],
            lambda part, others: kernel.block(items[part], others),
            lambda part: self.phi[items[part]],
        )

    @abstractmethod
    def new(self, description: Any) -> QueriedItems:
        """New items, described as the kernel wants them."""


class KernelPrior(AxisPrior):
    """KKMCEX: the kernel as it is."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def kernel(self) -> Kernel:
        """See :class:`AxisPrior`."""
        return self._kernel

    @cached_property
    def _factor(self) -> LowRankFactor:
        return self._kernel.factor(rtol=FACTOR_RTOL)

    @property
    def phi(self) -> Floats:
        """See :class:`AxisPrior`."""
        return self._factor.phi

    def new(self, description: Any) -> QueriedItems:
        """See :class:`AxisPrior`."""
        cross = self._kernel.cross(description)
        return QueriedItems(
            np.full(len(cross), -1),
            new_diagonal(self._kernel, description),
            lambda part, items: cross[np.ix_(part, items)],
            lambda part: self._kernel.factor_new(self._factor, description)[part],
        )


class CutPrior(AxisPrior):
    """RRMCEX: the leading eigenvectors, K = Phi Phi^T.

    A new item has beyond its features what none of the known ones tells about it, as for KKMCEX:
    the part of its own similarity that the uncut factor does not carry.
    """

    def __init__(self, basis: Combined, kernel: Kernel) -> None:
        self._basis = basis
        self._whole = kernel
        self._cut = GivenFactor(np.ascontiguousarray(basis.known(None)))

    @property
    def kernel(self) -> KernelLike:
        """See :class:`AxisPrior`."""
        return self._cut

    @property
    def phi(self) -> Floats:
        """See :class:`AxisPrior`."""
        return self._cut.phi

    def new(self, description: Any) -> QueriedItems:
        """See :class:`AxisPrior`."""
        whole = self._basis.basis.new(description)
        phi = whole @ self._basis.coef
        carried = np.einsum("ij,ij->i", whole, whole)
        own = np.maximum(new_diagonal(self._whole, description) - carried, 0.0)
        return QueriedItems(
            np.full(len(phi), -1),
            np.einsum("ij,ij->i", phi, phi) + own,
            lambda part, items: phi[part] @ self.phi[items].T,
            lambda part: phi[part],
        )

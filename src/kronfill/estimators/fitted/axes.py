"""One axis of a factorised method: a factor at its observed items, and the way back to all items.

By the representer theorem only items with observations need enter a fit; what the others get
follows from the basis.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import scipy.linalg

from kronfill._types import Floats, Index
from kronfill.estimators.fitted.bilinear import (
    Basis,
    Combined,
    Factored,
    Features,
    Sections,
    ValueBasis,
)
from kronfill.kernels.base import Kernel
from kronfill.kernels.features import FeatureTable

__all__ = ["FactorAxis", "FeatureAxis", "IndicatorAxis", "KernelAxis"]


class FactorAxis(ABC):
    """Factor ``phi`` at the observed ``items``; ``at`` is the position there of each entry."""

    items: Index
    at: Index
    phi: Floats

    def __init__(self, index: Index) -> None:
        self.items, self.at = np.unique(index, return_inverse=True)

    @abstractmethod
    def basis(self, coef: Floats) -> Basis:
        """Basis Phi coef over all items, given coefficients in the space of ``phi``."""

    def coefficients(self, coef: Floats) -> Floats:
        """Coefficients in the space that the user knows."""
        return coef

    def values(self, coefficients: Floats) -> Floats:
        """Phi coefficients at the observed items, in the space that the user knows."""
        return np.asarray(self.phi @ coefficients)


class KernelAxis(FactorAxis):
    """An axis with a kernel, factored at the observed items only."""

    def __init__(self, kernel: Kernel, index: Index) -> None:
        super().__init__(index)
        self._kernel = kernel
        whole = len(self.items) == kernel.n
        self._factor = kernel.factor() if whole else kernel.take(self.items).factor()
        if self._factor.pivots is None:  # an explicit factor: it covers all items as it is
            self._factor = kernel.factor()
            self.phi = self._factor.phi[self.items]
        else:
            self.phi = self._factor.phi

    def basis(self, coef: Floats) -> Basis:
        """See :class:`FactorAxis`."""
        pivots = self._factor.pivots
        if pivots is None:
            return Combined(Factored(self._kernel, self._factor), coef)
        # Phi[i] = K[i, pivots] L^-T with L = phi[pivots]
        lower = self._factor.phi[pivots]
        turned = scipy.linalg.solve_triangular(lower, coef, trans="T", lower=True)
        return Combined(Sections(self._kernel, self.items[pivots]), turned)


class FeatureAxis(FactorAxis):
    """An axis with a feature matrix."""

    def __init__(self, table: FeatureTable, index: Index) -> None:
        super().__init__(index)
        self._features = Features(table)
        self.phi = self._features.known(self.items)

    def basis(self, coef: Floats) -> Basis:
        """See :class:`FactorAxis`."""
        return Combined(self._features, coef)


class IndicatorAxis(FactorAxis):
    """An axis of which nothing is known: one indicator per item."""

    def __init__(self, size: int, index: Index) -> None:
        super().__init__(index)
        self._size = size
        self.phi = np.eye(len(self.items))

    def basis(self, coef: Floats) -> Basis:
        """See :class:`FactorAxis`."""
        return ValueBasis(self.coefficients(coef))

    def coefficients(self, coef: Floats) -> Floats:
        """See :class:`FactorAxis`."""
        out = np.zeros((self._size, coef.shape[1]))
        out[self.items] = coef
        return out

    def values(self, coefficients: Floats) -> Floats:
        """See :class:`FactorAxis`."""
        return coefficients[self.items]

"""One axis of a method: how alike its items are, and Phi for all of them or for those observed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from kronfill._types import Floats, Index
from kronfill.core.limits import FACTOR_RTOL
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
from kronfill.kernels.new_items import new_diagonal
from kronfill.ridge.identity_system import FactorPlusIdentity
from kronfill.ridge.problem import KernelLike
from kronfill.solvers.half_steps import FactorKernel
from kronfill.uncertainty.queries import QueriedItems

__all__ = ["Axis", "ObservedFactor"]


@dataclass(frozen=True, eq=False)
class Axis:
    """One axis of a Gaussian process, before anything is observed.

    Attributes
    ----------
    whole : Kernel
        Similarity of the items.
    cut : Combined or None
        The leading eigenvectors, where the method works with these alone (RRMCEX). A new item has
        beyond its features what none of the known ones tells about it, as without the cut: the part
        of its own similarity that the uncut factor does not carry.
    """

    whole: Kernel
    cut: Combined | None = None

    @cached_property
    def basis(self) -> Basis:
        """Phi with K = Phi Phi^T, for known and new items."""
        return self.cut or Factored(self.whole, self.whole.factor(rtol=FACTOR_RTOL))

    @cached_property
    def kernel(self) -> KernelLike:
        """The kernel that the method works with."""
        if self.cut is None:
            return self.whole
        return FactorKernel(np.ascontiguousarray(self.cut.known(None)))

    @property
    def phi(self) -> Floats:
        """Phi for all known items."""
        return self.kernel.phi if isinstance(self.kernel, FactorKernel) else self.basis.known(None)

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

    def new(self, description: Any) -> QueriedItems:
        """New items, described as the kernel wants them."""
        if self.cut is None:
            cross = self.whole.cross(description)
            return QueriedItems(
                np.full(len(cross), -1),
                new_diagonal(self.whole, description),
                lambda part, items: cross[np.ix_(part, items)],
                lambda part: self.basis.new(description)[part],
            )
        uncut = self.cut.basis.new(description)
        phi = uncut @ self.cut.coef
        carried = np.einsum("ij,ij->i", uncut, uncut)
        own = np.maximum(new_diagonal(self.whole, description) - carried, 0.0)
        return QueriedItems(
            np.full(len(phi), -1),
            np.einsum("ij,ij->i", phi, phi) + own,
            lambda part, items: phi[part] @ self.phi[items].T,
            lambda part: phi[part],
        )


@dataclass(frozen=True, eq=False)
class ObservedFactor:
    """Phi at the items with observations, and the way back to all items.

    By the representer theorem no other items need enter a fit; what they get follows.

    Attributes
    ----------
    size : int
        Number of all items.
    items : ndarray of int
        Those with observations.
    at : ndarray of shape (m,)
        Position among them of each observation.
    phi : ndarray of shape (len(items), rank)
        The factor.
    basis : Basis or None
        What is combined linearly for all items; None for one indicator per item.
    lower : ndarray or None
        L of coefficients L^-T a of the basis; None for those of ``phi`` themselves.
    """

    size: int
    items: Index
    at: Index
    phi: Floats
    basis: Basis | None
    lower: Floats | None = None

    @classmethod
    def of_kernel(cls, kernel: Kernel, index: Index) -> ObservedFactor:
        """Factor a kernel at the observed items only."""
        items, at = np.unique(index, return_inverse=True)
        factor = kernel.factor() if len(items) == kernel.n else kernel.take(items).factor()
        if factor.pivots is None:  # an explicit factor: it covers all items as it is
            factor = kernel.factor()
            return cls(kernel.n, items, at, factor.phi[items], Factored(kernel, factor))
        # Phi[i] = K[i, pivots] L^-T with L = phi[pivots]
        basis, lower = Sections(kernel, items[factor.pivots]), factor.phi[factor.pivots]
        return cls(kernel.n, items, at, factor.phi, basis, lower)

    @classmethod
    def of_features(cls, table: FeatureTable | None, size: int, index: Index) -> ObservedFactor:
        """Take features as they are; None stands for one indicator per item."""
        items, at = np.unique(index, return_inverse=True)
        if table is None:
            return cls(size, items, at, np.eye(len(items)), None)
        features = Features(table)
        return cls(size, items, at, features.known(items), features)

    def coefficients(self, coef: Floats) -> Floats:
        """Coefficients of the basis, given those in the space of ``phi``."""
        if self.basis is None:
            out = np.zeros((self.size, coef.shape[1]))
            out[self.items] = coef
            return out
        if self.lower is None:
            return coef
        return np.asarray(scipy.linalg.solve_triangular(self.lower, coef, trans="T", lower=True))

    def fitted(self, coef: Floats) -> Basis:
        """Phi coef for all items, given coefficients in the space of ``phi``."""
        own = self.coefficients(coef)
        return ValueBasis(own) if self.basis is None else Combined(self.basis, own)

    @property
    def start_size(self) -> int:
        """Length of a starting point: one number for each feature, or else for each item."""
        return self.phi.shape[1] if isinstance(self.basis, Features) else self.size

    def start_values(self, start: Floats) -> Floats:
        """Values at the observed items, given a starting point."""
        features = isinstance(self.basis, Features)
        return np.asarray(self.phi @ start) if features else start[self.items]

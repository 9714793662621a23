"""What the classes F = Phi_w X Phi_h^T with a norm of X at most tau have in common.

:class:`ClassAxis` is one axis of such a class: its factor Phi, and the numbers that bounds need of
it. :class:`FactorClass` is the base of the balls of KMC, IMC and KKMCEX, in which the dual norm
gives sup <Sigma, F> = tau ||Phi_w^T Sigma Phi_h||_dual.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from kronfill._types import Floats
from kronfill.bounds.classes.hypothesis import HypothesisClass, check_radius
from kronfill.bounds.complexity.patterns import Pattern
from kronfill.bounds.complexity.signs import SignLaw
from kronfill.bounds.splits import Split
from kronfill.core.threads import one_blas_thread
from kronfill.kernels import as_kernel
from kronfill.kernels.base import Kernel
from kronfill.kernels.features import FeatureTable

__all__ = ["ClassAxis", "FactorClass", "rotated"]


@dataclass(frozen=True, eq=False)
class ClassAxis:
    """A factor Phi of shape (items, d) with the diagonal of K = Phi Phi^T."""

    phi: Floats
    diagonal: Floats

    def __post_init__(self) -> None:
        if self.phi.shape[1] == 0:  # a kernel of zeros: one column of them
            object.__setattr__(self, "phi", np.zeros((len(self.phi), 1)))

    @classmethod
    def of_kernel(cls, kernel: Any, name: str) -> ClassAxis:
        """Factor a kernel, or a matrix that is checked to be one."""
        checked: Kernel = as_kernel(kernel, name)
        return cls(checked.factor().phi, np.asarray(checked.diagonal()))

    @classmethod
    def of_features(cls, features: Any) -> ClassAxis:
        """Take features as they are."""
        values = FeatureTable.from_data(features).values
        return cls.of_factor(values.toarray() if sp.issparse(values) else values)

    @classmethod
    def of_factor(cls, phi: Floats) -> ClassAxis:
        """Take a factor."""
        phi = np.ascontiguousarray(phi, dtype=float)
        return cls(phi, np.einsum("ij,ij->i", phi, phi))

    @property
    def n(self) -> int:
        """Number of items."""
        return len(self.phi)

    @cached_property
    def gram(self) -> Floats:
        """Phi^T Phi."""
        return np.asarray(self.phi.T @ self.phi)

    @cached_property
    def eigenvalues(self) -> Floats:
        """Nonzero eigenvalues of K, largest first."""
        small = self.gram if self.phi.shape[1] <= self.n else self.phi @ self.phi.T
        with one_blas_thread():  # an eigendecomposition gains little from threads that may wait
            found = scipy.linalg.eigvalsh(small, check_finite=False)[::-1]
        return np.asarray(np.maximum(found, 0.0))

    @property
    def top(self) -> float:
        """Largest eigenvalue."""
        return float(self.eigenvalues[0])

    def restricted(self, counts: Floats) -> ClassAxis:
        """The items with a positive count only."""
        keep = counts > 0
        return self if keep.all() else ClassAxis(self.phi[keep], self.diagonal[keep])

    def weighted_top(self, weights: Floats) -> float:
        """Largest eigenvalue of Phi^T diag(weights) Phi."""
        if np.ptp(weights) <= 1e-12 * np.abs(weights).max():
            return float(weights.max()) * self.top
        root = np.sqrt(weights)[:, None] * self.phi
        small = root.T @ root if root.shape[1] <= len(root) else root @ root.T
        last = len(small) - 1
        found = scipy.linalg.eigvalsh(small, subset_by_index=[last, last], check_finite=False)
        return float(found[0])


def rotated(phi: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues of Phi^T Phi, and Phi in its eigenbasis."""
    lam, vec = scipy.linalg.eigh(phi.T @ phi, check_finite=False)
    return np.maximum(lam, 0.0), np.asarray(phi @ vec)


@dataclass(frozen=True, eq=False)
class FactorClass(HypothesisClass):
    """Base of the balls of KMC, IMC and KKMCEX."""

    row: ClassAxis = field(init=False, repr=False)
    col: ClassAxis = field(init=False, repr=False)
    dual_norm: ClassVar[int | None]
    """The dual of the norm of X, as ``np.linalg.norm`` names it."""

    @property
    @abstractmethod
    def tau(self) -> float:
        """Largest norm of X: t_b / 2 of KMC, sqrt(t_w t_h) of IMC, b of KKMCEX."""

    @classmethod
    def of_axes(cls, row: ClassAxis, col: ClassAxis, **radii: float) -> Self:
        """Build a ball from the two axes, with its radii by name."""
        ball = object.__new__(cls)
        for name, value in radii.items():
            object.__setattr__(ball, name, check_radius(value, name))
        ball._set_axes(row, col)
        return ball

    def _set_axes(self, row: ClassAxis, col: ClassAxis) -> None:
        object.__setattr__(self, "row", row)
        object.__setattr__(self, "col", col)

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Size of the matrices."""
        return (self.row.n, self.col.n)

    @property
    def lipschitz(self) -> float:
        """See :class:`HypothesisClass`."""
        return self.tau * float(np.sqrt(self.row.top * self.col.top))

    def trace(self, split: Split) -> float:
        """Tr(S_n K_f S_n^T)."""
        return split.entries.total(self.row.diagonal, self.col.diagonal)

    def trace_form(self, split: Split, law: SignLaw) -> float:
        """C tau sqrt(s Tr(S_n K_f S_n^T)): from the second moment of the signs, for any law."""
        kept = law.keep(split.sizes) * self.trace(split)
        return float(law.scale(split.sizes) * self.tau * np.sqrt(kept))

    def _supremum(self, pattern: Pattern) -> float:
        core = self.row.phi.T @ pattern.times(self.col.phi)
        return self.tau * float(np.linalg.norm(core, self.dual_norm))

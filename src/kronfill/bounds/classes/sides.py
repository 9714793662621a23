"""One axis of a class F = Phi_w X Phi_h^T: its factor and the numbers that bounds ask of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from kronfill._types import Floats
from kronfill.core.threads import one_blas_thread
from kronfill.kernels import as_kernel
from kronfill.kernels.base import Kernel
from kronfill.kernels.features import FeatureTable

__all__ = ["ClassAxis"]


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

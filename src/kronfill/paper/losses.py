"""Training and test loss over all N^2 entries, without going through them one by one.

With M = F + E the sum of squares over the whole matrix is

    ||M - F_hat||^2 = ||M||^2 + ||F_hat||^2 - 2 <F, F_hat> - 2 <E, F_hat>.

F has rank 30, and every prediction is a product of thin factors or a sum of m kernel sections, so
no N x N array is needed without noise; with it, the noise E is passed over once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from kronfill._types import Floats, Index
from kronfill.paper.circulant import Circulant
from kronfill.paper.synthetic import Draw

__all__ = ["Factors", "KernelSum", "Losses", "Prediction", "measure"]

BLOCK = 100
"""Rows at a time where the noise is passed over."""


class Prediction(ABC):
    """F_hat, as far as losses need it."""

    @abstractmethod
    def square(self) -> float:
        """||F_hat||_F^2."""

    @abstractmethod
    def with_factors(self, left: Floats, right: Floats) -> float:
        """<F_hat, left right^T>."""

    @abstractmethod
    def with_matrix(self, matrix: Floats) -> float:
        """<F_hat, matrix>."""

    @abstractmethod
    def at(self, rows: Index, cols: Index) -> Floats:
        """Values at entries."""


@dataclass(frozen=True, eq=False)
class Factors(Prediction):
    """F_hat = W H^T: MC and KMC."""

    w: Floats
    h: Floats

    def square(self) -> float:
        """See :class:`Prediction`."""
        return self.with_factors(self.w, self.h)

    def with_factors(self, left: Floats, right: Floats) -> float:
        """See :class:`Prediction`."""
        return float(np.sum((self.w.T @ left) * (self.h.T @ right)))

    def with_matrix(self, matrix: Floats) -> float:
        """See :class:`Prediction`."""
        return float(np.sum(self.w * (matrix @ self.h)))

    def at(self, rows: Index, cols: Index) -> Floats:
        """See :class:`Prediction`."""
        return np.asarray(np.einsum("ij,ij->i", self.w[rows], self.h[cols]))


@dataclass(frozen=True, eq=False)
class KernelSum(Prediction):
    """F_hat = K D K with D sparse: KKMCEX, d of equation (5) at the observed entries."""

    kernel: Circulant
    rows: Index
    cols: Index
    dual: Floats

    def square(self) -> float:
        """||K D K||^2 = sum_ab d_a d_b (K^2)[i_a, i_b] (K^2)[j_a, j_b]."""
        squared = self.kernel.squared()
        gram = squared.block(self.rows, self.rows)
        gram *= squared.block(self.cols, self.cols)
        return float(self.dual @ (gram @ self.dual))

    def with_factors(self, left: Floats, right: Floats) -> float:
        """<K D K, left right^T> = sum_a d_a (K left)[i_a] (K right)[j_a]^T."""
        smooth = self.kernel.times(left)[self.rows], self.kernel.times(right)[self.cols]
        return float(self.dual @ np.einsum("ij,ij->i", *smooth))

    def with_matrix(self, matrix: Floats) -> float:
        """<K D K, matrix>, over blocks of rows of (K D) K."""
        items, at = np.unique(self.rows, return_inverse=True)
        core = sp.csc_array((self.dual, (at, self.cols)), shape=(len(items), self.kernel.n))
        total = 0.0
        for first in range(0, self.kernel.n, BLOCK):
            chosen = np.arange(first, min(first + BLOCK, self.kernel.n))
            block = self.kernel.times(self.kernel.block(chosen, items) @ core, axis=1)
            total += float(np.vdot(block, matrix[first : first + BLOCK]))
        return total

    def at(self, rows: Index, cols: Index) -> Floats:
        """See :class:`Prediction`."""
        sections = self.kernel.block(rows, self.rows)
        sections *= self.kernel.block(cols, self.cols)
        return np.asarray(sections @ self.dual)


@dataclass(frozen=True)
class Losses:
    """Mean squared errors against the noisy data M, equation (8)."""

    train: float
    test: float

    @property
    def ge(self) -> float:
        """Generalization error: test loss less training loss."""
        return self.test - self.train


def measure(made: Draw, prediction: Prediction) -> Losses:
    """Training loss over the m observed entries, test loss over the N^2 - m others.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.paper.losses import Factors, measure
    >>> from kronfill.paper.synthetic import draw
    >>> made = draw(50, np.inf, 0, exponent=1.35, power=0.45, samples=200)
    >>> nothing = Factors(np.zeros((50, 1)), np.zeros((50, 1)))
    >>> found = measure(made, nothing)
    >>> round((200 * found.train + 2300 * found.test) / 2500, 12)
    0.45
    """
    seen = made.observations
    total = made.square + prediction.square()
    total -= 2.0 * prediction.with_factors(made.left, made.right)
    if made.noise is not None:
        total -= 2.0 * prediction.with_matrix(made.noise)
    rest = seen.values - prediction.at(seen.rows, seen.cols)
    observed = float(rest @ rest)
    return Losses(observed / seen.m, (total - observed) / (made.size**2 - seen.m))

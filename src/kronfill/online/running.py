"""Running sums over observations that come and go, none of which is kept.

What the normal equations need of the observations are sums: Psi^T W Psi, Psi^T W y, y^T W y, and
where effects are fitted along, the weight and the means of each group of entries that share an
effect (:mod:`kronfill.online.group_means`). With row *and* column effects the groups overlap; then
the table of weights is kept besides, and the effects are eliminated from the sums at each solve.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.errors import DataError
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.problem import Sampled
from kronfill.ridge.trust import factored_size

__all__ = ["SOLVER", "Change", "RunningSums", "pair_vectors"]


SOLVER = "RecursiveLeastSquares"
"""What a solution from running sums names as its solver."""


@dataclass(frozen=True, eq=False)
class Change:
    """Observations that arrive or leave together; all weights are positive."""

    rows: Index
    cols: Index
    values: Floats
    weights: Floats

    @property
    def m(self) -> int:
        """Number of observations."""
        return len(self.values)

    def sampled(self, shape: tuple[int, int], kind: Any) -> Sampled:
        """In the form that the batch solvers take."""
        return Sampled.of(self.rows, self.cols, self.values, shape, self.weights, kind)


class RunningSums(ABC):
    """The sums, and the coefficients and effects that belong to them.

    Attributes
    ----------
    row_phi, col_phi : ndarray of shape (N, a) and (L, b)
        Factors.
    mu : float
        Ridge weight.
    size : float
        The largest diagonal entry of the kernel over entries.
    heaviest : float
        The largest weight that was ever added.
    m : int
        Number of observations in the sums.
    row_counts, col_counts : ndarray
        Number of observations of each row and column.
    """

    def __init__(self, row_phi: Floats, col_phi: Floats, mu: float) -> None:
        self.row_phi = np.ascontiguousarray(row_phi)
        self.col_phi = np.ascontiguousarray(col_phi)
        self.mu = mu
        self.size = factored_size(row_phi, col_phi)
        self.heaviest = 0.0
        self.row_counts = np.zeros(len(row_phi), np.intp)
        self.col_counts = np.zeros(len(col_phi), np.intp)

    @property
    def m(self) -> int:
        """Number of observations in the sums."""
        return int(self.row_counts.sum())

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the matrix."""
        return len(self.row_phi), len(self.col_phi)

    @property
    def core_shape(self) -> tuple[int, int]:
        """Size of the block of coefficients."""
        return self.row_phi.shape[1], self.col_phi.shape[1]

    def add(self, batch: Change) -> None:
        """Add observations and solve."""
        self._change(batch, 1)
        self._count(batch, 1)

    def remove(self, batch: Change) -> None:
        """Remove observations and solve.

        Raises
        ------
        DataError
            If they cannot have been there; nothing has changed then.
        """
        for index, counts, axis in (
            (batch.rows, self.row_counts, "row"),
            (batch.cols, self.col_counts, "column"),
        ):
            leaving = np.bincount(index, minlength=len(counts))
            short = np.flatnonzero(leaving > counts)
            if len(short):
                item = int(short[0])
                msg = (
                    f"{leaving[item]} observations of {axis} {item} are to be forgotten, but it "
                    f"has {counts[item]}. Forget only what was given to fit or partial_fit."
                )
                raise DataError(msg)
        if batch.m == self.m:
            msg = "These are all observations; at least one must stay. Fit anew instead."
            raise DataError(msg)
        self._change(batch, -1)
        self._count(batch, -1)

    def _count(self, batch: Change, sign: int) -> None:
        self.heaviest = max(self.heaviest, float(batch.weights.max()))
        np.add.at(self.row_counts, batch.rows, sign)
        np.add.at(self.col_counts, batch.cols, sign)

    @abstractmethod
    def _change(self, batch: Change, sign: int) -> None:
        """Add or remove, all or nothing."""

    @abstractmethod
    def revise(self, batch: Change, values: Floats) -> None:
        """Put other values at the place of those of a batch."""

    def _with_new(
        self, phi: Floats, index: Index, values: Floats, weights: Floats, axis: int
    ) -> tuple[Floats, Floats, Change]:
        """Both factors with a new item, last of its axis, and its observations."""
        phis = [self.row_phi, self.col_phi]
        last = np.full(len(index), len(phis[axis]))
        phis[axis] = np.vstack([phis[axis], phi])
        pairs = (last, index) if axis == 0 else (index, last)
        return phis[0], phis[1], Change(pairs[0], pairs[1], values, weights)

    @abstractmethod
    def with_item(
        self, phi: Floats, index: Index, values: Floats, weights: Floats, axis: int
    ) -> tuple[Floats, AdditiveEffects | None]:
        """Coefficients and effects with a new item, last of its axis; nothing is changed."""

    @property
    @abstractmethod
    def core(self) -> Floats:
        """X."""

    @property
    @abstractmethod
    def effects(self) -> AdditiveEffects | None:
        """The additive part."""

    @property
    @abstractmethod
    def least(self) -> float:
        """The least value of the objective, divided by mu."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Coefficients that the sums determine."""

    @property
    @abstractmethod
    def drift(self) -> float:
        """Relative size of the last correction for rounding errors."""

    @abstractmethod
    def products(self, vectors: Floats) -> Floats:
        """S^-1 v for each row v: S is the system for the coefficients, effects eliminated."""


def pair_vectors(p: Floats, q: Floats | None) -> Floats:
    """Rows p_k (x) q_k; ``q`` None: they are given already."""
    return p if q is None else (p[:, :, None] * q[:, None, :]).reshape(len(p), -1)

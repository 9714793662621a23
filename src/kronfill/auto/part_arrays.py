"""Parts of a kernel among some items, and how the whole changes with their weights and scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kronfill._types import Floats, Index
from kronfill.kernels.base import Kernel
from kronfill.kernels.stationary import RBF, Matern
from kronfill.kernels.stretching import feature_groups, feature_points, stretchable

__all__ = ["PartArrays", "StretchedArray"]


@dataclass(frozen=True, eq=False)
class StretchedArray:
    """u_i u_j f(q_ij), q = sum over groups g of s_g^2 |x_i - x_j|^2: a part with scales s.

    Attributes
    ----------
    points : ndarray of shape (N, d)
        Coordinates.
    groups : ndarray of int, shape (d,)
        Which of the scales is that of a coordinate.
    size : ndarray of shape (N,)
        u, zero for items that have no coordinates.
    nu : float
        Smoothness: infinite for f(q) = exp(-q / 2), otherwise that of Matern.
    """

    points: Floats
    groups: Index
    size: Floats
    nu: float

    @classmethod
    def of(cls, kernel: Kernel, items: Index) -> StretchedArray:
        """From a kernel that can be stretched, among some items."""
        core = stretchable(kernel)
        assert isinstance(core, RBF | Matern)
        return cls(
            feature_points(kernel)[items],
            feature_groups(kernel),
            np.sqrt(kernel.diagonal(items)),
            core.nu if isinstance(core, Matern) else np.inf,
        )

    @property
    def scales(self) -> int:
        """Number of scales."""
        return int(self.groups.max()) + 1

    def matrix(self, scales: Floats) -> tuple[Floats, Floats]:
        """The part, and its derivative by q."""
        x = self.points * scales[self.groups]
        squares = np.einsum("ij,ij->i", x, x)
        q = np.maximum(squares[:, None] + squares - 2 * x @ x.T, 0.0)
        np.fill_diagonal(q, 0.0)
        outer = self.size[:, None] * self.size
        if self.nu == np.inf:
            value = outer * np.exp(-0.5 * q)
            return value, -0.5 * value
        r = np.sqrt(2 * self.nu * q)
        decay = outer * np.exp(-r)
        if self.nu == 0.5:  # no difference of coordinates where r = 0
            return decay, -0.5 * decay / np.where(r > 0, r, 1.0)
        if self.nu == 1.5:
            return (1 + r) * decay, -1.5 * decay
        return (1 + r + r**2 / 3) * decay, -5 / 6 * (1 + r) * decay

    def slopes(self, by_q: Floats, scales: Floats) -> Floats:
        """Derivatives by the scales of <G, part>, from G times the derivative of the part by q."""
        total = by_q.sum(axis=0) + by_q.sum(axis=1)
        each = total @ self.points**2 - 2 * np.einsum("ij,ij->j", self.points, by_q @ self.points)
        summed = np.bincount(self.groups, weights=each, minlength=self.scales)
        return np.asarray(2 * scales * summed)


@dataclass(frozen=True, eq=False)
class PartArrays:
    """Parts of a kernel among some items: arrays and such with scales, a constant, an identity.

    Attributes
    ----------
    n : int
        Number of items.
    parts : tuple
        Arrays and :class:`StretchedArray`, without the constant and the identity.
    """

    n: int
    parts: tuple[Floats | StretchedArray, ...]

    @property
    def counts(self) -> tuple[int, int]:
        """Number of weights, the constant's and the identity's last, and of scales."""
        scales = sum(part.scales for part in self.parts if isinstance(part, StretchedArray))
        return len(self.parts) + 2, scales

    def at(self, weights: Floats, scales: Floats) -> WeightedArrays:
        """The whole with these weights and scales."""
        smooth = np.full((self.n, self.n), weights[-2])
        made: list[tuple[Floats, Floats | None, Floats]] = []
        first = 0
        for part, weight in zip(self.parts, weights[:-2], strict=True):
            if isinstance(part, StretchedArray):
                own = scales[first : first + part.scales]
                first += part.scales
                made.append((*part.matrix(own), own))
            else:
                made.append((part, None, np.empty(0)))
            smooth += weight * made[-1][0]
        return WeightedArrays(self, weights, smooth, made)


@dataclass(frozen=True, eq=False)
class WeightedArrays:
    """A kernel among some items, at given weights and scales."""

    of: PartArrays
    weights: Floats
    smooth: Floats
    """All but the identity part."""
    made: list[tuple[Floats, Floats | None, Floats]]

    @property
    def own(self) -> float:
        """Weight of the identity."""
        return float(self.weights[-1])

    def slopes(self, G: Floats) -> tuple[Floats, Floats]:
        """Derivatives of <G, K> by the weights and by the scales."""
        by_weight = [float(np.vdot(value, G)) for value, _, _ in self.made]
        by_scale = [
            weight * part.slopes(G * by_q, own)
            for part, weight, (_, by_q, own) in zip(
                self.of.parts, self.weights[:-2], self.made, strict=True
            )
            if isinstance(part, StretchedArray) and by_q is not None
        ]
        weights = np.array([*by_weight, float(G.sum()), float(np.trace(G))])
        return weights, np.concatenate([np.empty(0), *by_scale])

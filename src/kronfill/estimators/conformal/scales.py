"""How large the error of an entry is expected to be, up to a factor: what widths follow.

Any positive function of the entry is allowed, as long as it is made without the entries whose
errors set the width: coverage does not rest on it, only how narrow intervals are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_POSTERIOR
from kronfill.core.memory import require_memory
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.gaussian_process.regressor import (
    GaussianProcessRegressor,
    gaussian_process,
)

__all__ = [
    "ConstantScale",
    "FactorScale",
    "LearnedScale",
    "Scale",
    "StdScale",
    "learned_scale",
    "model_scale",
    "std_work",
]

LOG_CHI_SQUARE = (-1.2703628454614782, np.pi**2 / 2)
"""Mean and variance of the logarithm of a squared standard normal number."""
SWEEPS = 100
WORK = 5e11
"""Multiplications that may be spent on standard deviations."""


class Scale(ABC):
    """A positive number for each entry."""

    words: str

    @abstractmethod
    def at(self, rows: Index, cols: Index) -> Floats:
        """The scale of entries of the table."""

    @abstractmethod
    def outside(self, rows: Any, cols: Any, shape: tuple[int, ...]) -> Floats:
        """The scale of a block of new rows and columns, None for all known."""


@dataclass(frozen=True, eq=False)
class ConstantScale(Scale):
    """The same everywhere."""

    words = "one width for all"

    def at(self, rows: Index, cols: Index) -> Floats:
        """See :class:`Scale`."""
        return np.ones(len(rows))

    def outside(self, rows: Any, cols: Any, shape: tuple[int, ...]) -> Floats:
        """See :class:`Scale`."""
        return np.ones(shape)


@dataclass(frozen=True, eq=False)
class StdScale(Scale):
    """The model's own standard deviation, noise included."""

    model: Any
    words = "widths follow the model's standard deviation"

    def at(self, rows: Index, cols: Index) -> Floats:
        """See :class:`Scale`."""
        return self._noisy(self.model.predict_std(np.column_stack([rows, cols])))

    def outside(self, rows: Any, cols: Any, shape: tuple[int, ...]) -> Floats:
        """See :class:`Scale`."""
        if not hasattr(self.model, "extrapolate_std"):
            return np.ones(shape)
        return self._noisy(self.model.extrapolate_std(rows, cols))

    def _noisy(self, latent: Floats) -> Floats:
        std = np.sqrt(latent**2 + self.model.noise_variance_)
        # An effect that nothing tells has no bound: there the noise is all that is left to go by.
        smallest = np.sqrt(self.model.noise_variance_) or np.finfo(float).tiny
        return np.asarray(np.where(np.isfinite(std), np.maximum(std, smallest), smallest))


@dataclass(frozen=True, eq=False)
class FactorScale(Scale):
    """What few observations leave open in each factor of W H^T, the other one fixed.

    The square is 1 + h^T (H_i^T H_i + mu I)^-1 h + w^T (W_j^T W_j + mu I)^-1 w with H_i the
    factors of the columns that row i was observed in: the variance of two ridge regressions beside
    the noise, in units of it.
    """

    model: Any
    words = "widths follow the number of observations of row and column"

    @cached_property
    def _inverses(self) -> tuple[Floats, Floats]:
        seen = self.model.observations_.to_sparse()
        seen.data[:] = 1.0
        mu = float(self.model.mu_)
        return (
            _inverse_grams(seen, self.model.H_, mu),
            _inverse_grams(seen.T.tocsr(), self.model.W_, mu),
        )

    def at(self, rows: Index, cols: Index) -> Floats:
        """See :class:`Scale`."""
        by_row, by_col = self._inverses
        w, h = self.model.W_, self.model.H_
        out = np.empty(len(rows))
        step = max(1, 4_000_000 // max(1, w.shape[1] ** 2))
        for first in range(0, len(rows), step):
            i, j = rows[first : first + step], cols[first : first + step]
            out[first : first + step] = (
                1.0
                + np.einsum("ta,tab,tb->t", h[j], by_row[i], h[j])
                + np.einsum("ta,tab,tb->t", w[i], by_col[j], w[i])
            )
        return np.sqrt(out)

    def outside(self, rows: Any, cols: Any, shape: tuple[int, ...]) -> Floats:
        """See :class:`Scale`."""
        return np.ones(shape)

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model}


def _inverse_grams(seen: Any, factor: Floats, mu: float) -> Floats:
    """(F_i^T F_i + mu I)^-1 for the lines i of a sparse 0-1 matrix, F_i the factors seen in it."""
    p = factor.shape[1]
    require_memory(
        16.0 * (seen.shape[0] + len(factor)) * p**2,
        "What widths follow, p x p numbers for each row and column,",
        "Use a lower rank, or scores='absolute'.",
    )
    products = (factor[:, :, None] * factor[:, None, :]).reshape(len(factor), p * p)
    grams = np.asarray(seen @ products).reshape(-1, p, p)
    return np.asarray(np.linalg.inv(grams + mu * np.eye(p)))


@dataclass(frozen=True, eq=False)
class LearnedScale(Scale):
    """log scale^2 = level + exponent log base^2 + row_i + col_j, learned from errors."""

    base: Any
    level: float
    exponent: float
    row: Floats
    col: Floats

    @property
    def words(self) -> str:  # type: ignore[override]
        """What widths follow."""
        spread = max(float(np.std(self.row)), float(np.std(self.col)))
        base = "" if isinstance(self.base, ConstantScale) else self.base.words
        if spread < 0.02:
            return base or ConstantScale.words
        own = "errors of the row and of the column"
        return f"{base}, and {own}" if base else f"widths follow {own}"

    def on(self, base: Scale) -> LearnedScale:
        """Return the same dependence on another base: that of a fit to more entries."""
        return replace(self, base=base)

    def at(self, rows: Index, cols: Index) -> Floats:
        """See :class:`Scale`."""
        effects = self.level + self.row[rows] + self.col[cols]
        return np.asarray(np.exp(0.5 * effects) * self.base.at(rows, cols) ** self.exponent)

    def outside(self, rows: Any, cols: Any, shape: tuple[int, ...]) -> Floats:
        """See :class:`Scale`."""
        row = self.row if rows is None else np.zeros(shape[0])
        col = self.col if cols is None else np.zeros(shape[1])
        effects = self.level + row[:, None] + col
        base = self.base.outside(rows, cols, shape)
        return np.asarray(np.exp(0.5 * effects) * base**self.exponent)


def model_scale(model: MatrixRegressor, count: int = 0) -> Scale:
    """What a fitted method says itself about its errors at ``count`` entries, if affordable."""
    if isinstance(model, GaussianProcessRegressor):
        affordable = std_work(model, count) <= WORK and gaussian_process(model).dof
        return StdScale(model) if affordable else ConstantScale()
    if hasattr(model, "predict_std"):
        return StdScale(model)
    if hasattr(model, "W_"):
        return FactorScale(model)
    return ConstantScale()


def learned_scale(
    base: Scale, rows: Index, cols: Index, errors: Floats, counts: tuple[Index, Index]
) -> LearnedScale:
    """Learn from errors left out how they depend on a base scale, on the row and on the column.

    The logarithm of a squared error is that of the scale plus a number of known mean and variance
    (if errors are normal), so that a linear model tells how it depends on the base scale, on the
    numbers of observations (``counts``) of row and column, and on these themselves. Their effects
    have spreads that are learned, and vanish where they differ no more than chance makes them.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.estimators.conformal.scales import ConstantScale, learned_scale
    >>> rng = np.random.default_rng(0)
    >>> rows, cols = np.divmod(np.arange(1000), 50)
    >>> errors = np.where(rows < 10, 1.0, 5.0) * rng.standard_normal(1000)
    >>> counts = np.full(20, 50), np.full(50, 20)
    >>> scale = learned_scale(ConstantScale(), rows, cols, errors, counts)
    >>> small, large = scale.at(np.array([3, 15]), np.array([0, 0]))
    >>> bool(3 < large / small < 7)
    True
    """
    mean, variance = LOG_CHI_SQUARE
    tiny = 1e-12 * float(np.mean(errors**2)) or np.finfo(float).tiny
    y = np.log(errors**2 + tiny) - mean
    seen = [np.log1p(part.astype(float)) for part in counts]
    design = np.column_stack([2.0 * np.log(base.at(rows, cols)), seen[0][rows], seen[1][cols]])
    centre = design.mean(axis=0)
    design = design - centre
    gram = design.T @ design + variance * np.eye(3)  # coefficients of variance 1
    level, slope = float(y.mean()), np.zeros(3)
    effects = [np.zeros(len(part)) for part in counts]
    spread = [1.0, 1.0]
    for _ in range(SWEEPS):
        before = np.concatenate([[level], slope, *effects])
        rest = y - effects[0][rows] - effects[1][cols]
        slope = np.linalg.solve(gram, design.T @ (rest - level))
        level = float(np.mean(rest - design @ slope))
        for axis, index in enumerate((rows, cols)):
            rest = y - level - design @ slope - effects[1 - axis][(cols, rows)[axis]]
            size = len(counts[axis])
            number = np.bincount(index, minlength=size)
            ridge = number + variance / spread[axis]
            effects[axis] = np.bincount(index, rest, minlength=size) / ridge
            shares = max(float(np.sum(number / ridge)), 1e-12)
            spread[axis] = max(float(effects[axis] @ effects[axis]) / shares, 1e-8)
        if np.abs(np.concatenate([[level], slope, *effects]) - before).max() < 1e-6:
            break
    row, col = (own + k * part for own, k, part in zip(effects, slope[1:], seen, strict=True))
    return LearnedScale(base, float(level - slope @ centre), max(float(slope[0]), 0.0), row, col)


def std_work(model: GaussianProcessRegressor, count: int) -> float:
    """Multiplications of a factorisation and one solve for each entry."""
    m = model.observations_.m
    ranks = getattr(model, "row_rank_", m) * getattr(model, "col_rank_", 1)
    size = min(m, ranks)
    return np.inf if size > DENSE_POSTERIOR else float(size**3 / 3 + count * size**2)

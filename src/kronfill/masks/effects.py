"""A mask with row and column effects: logit p_ij = c + u_i + v_j + g u_i v_j, shrunk as data say.

The product, Tukey's one degree of freedom, is what a gap in a block needs: where both the row and
the column are rarely observed an entry may be much rarer than either tells.

A fit sees a random ``share`` q of the observed entries, so that an entry is in its part with
probability q p. For q = 1 and g = 0 the numbers of entries per row and column are sufficient: rows
of equal count have equal effects, and the likelihood is one over *classes* of rows and columns, at
most sqrt(2 m) of each whatever the size of the table. The same classes are kept elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from kronfill._stored import Tests, floats, real
from kronfill._types import Floats, Index
from kronfill.masks.base import MOST, MaskModel, deviance

__all__ = ["EffectsMask", "fit_effects", "thinned_score"]

SWEEPS = 300
TOL = 1e-7
SMALLEST_SPREAD = 1e-8
SMALLEST_FACTOR = 0.05
"""Least part of an effect that stays beside the product of both."""


@dataclass(frozen=True, eq=False)
class EffectsMask(MaskModel):
    """logit p_ij = level + row_i + col_j + interaction row_i col_j."""

    level: float
    row: Floats
    col: Floats
    deviance_explained: float
    interaction: float = 0.0
    kind: ClassVar[str] = "effects"
    stored: ClassVar[Tests] = {
        "level": real, "row": floats(1), "col": floats(1), "deviance_explained": real,
    }  # fmt: skip
    stored_at_times: ClassVar[Tests] = {"interaction": real}

    def logits(self, rows: Index, cols: Index) -> Floats:
        """Logarithm of the odds of being observed."""
        row, col = self.row[rows], self.col[cols]
        return np.asarray(self.level + row + col + self.interaction * row * col)

    def probability(self, rows: Index, cols: Index) -> Floats:
        """See :class:`MaskModel`."""
        return np.asarray(np.minimum(expit(self.logits(rows, cols)), MOST))


def fit_effects(
    rows: Index, cols: Index, shape: tuple[int, int], share: float = 1.0
) -> EffectsMask:
    """Fit row and column effects to the entries of a mask, ``share`` of those observed.

    Effects are normal with spreads that are learned (MacKay's fixed point): where counts vary no
    more than chance makes them, the spreads vanish and the mask is uniform. Then the factor of
    their product is found, and how much of each is left beside it. Rows and columns
    without entries take no part and have no effect of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.masks.effects import fit_effects
    >>> p = np.linspace(0.1, 0.9, 80)
    >>> mask = np.random.default_rng(0).random((80, 60)) < p[:, None]
    >>> found = fit_effects(*np.nonzero(mask), mask.shape)
    >>> i = np.arange(80)
    >>> bool(np.abs(found.probability(i, np.zeros(80, int)) - p).max() < 0.2)
    True
    """
    row, col = _Classes.of(rows, shape[0]), _Classes.of(cols, shape[1])
    cells = row.label[rows] * len(col.sizes) + col.label[cols]
    size = (len(row.sizes), len(col.sizes))
    seen = np.bincount(cells, minlength=size[0] * size[1]).reshape(size).astype(float)
    trials = np.outer(row.sizes, col.sizes)
    rate = seen.sum() / trials.sum()
    start = min(rate / share, MOST)
    level, effects = float(np.log(start / (1.0 - start))), (np.zeros(size[0]), np.zeros(size[1]))
    spread = [1.0, 1.0]
    for _ in range(SWEEPS):
        before = np.concatenate([[level], *effects])
        score, known = thinned_score(_logits(level, *effects), seen, trials, share)
        level += float(np.clip(score.sum() / max(known.sum(), 1e-12), -2.0, 2.0))
        for axis, (effect, own) in enumerate(zip(effects, (row.sizes, col.sizes), strict=True)):
            score, known = thinned_score(_logits(level, *effects), seen, trials, share)
            information, penalty = known.sum(axis=1 - axis), own / spread[axis]
            gain = score.sum(axis=1 - axis) - penalty * effect
            effect += np.clip(gain / (information + penalty), -2.0, 2.0)
            effective = float(np.sum(own * information / (information + penalty)))
            spread[axis] = max(float(own @ effect**2) / max(effective, 1e-12), SMALLEST_SPREAD)
        if np.abs(np.concatenate([[level], *effects]) - before).max() < TOL:
            break
    level, by_row, by_col, product = _joined(level, *effects, seen, trials, share)
    u, v = by_row * effects[0], by_col * effects[1]
    fitted = share * expit(_logits(level, u, v, product))
    gain = 1.0 - deviance(seen, trials, fitted) / deviance(seen, trials, np.full(size, rate))
    explained = float(max(gain, 0.0)) if np.isfinite(gain) else 0.0
    return EffectsMask(
        level, u[row.label] * row.there, v[col.label] * col.there, explained, product
    )


def _logits(level: float, row: Floats, col: Floats, product: float = 0.0) -> Floats:
    return np.asarray(level + row[:, None] + col + product * np.outer(row, col))


def _joined(
    level: float, row: Floats, col: Floats, seen: Floats, trials: Floats, share: float
) -> tuple[float, float, float, float]:
    """The level, factors of both effects, and g of their product: a logistic regression.

    Beforehand the factors are 1 and that of the product 0, each with a variance of 1.
    """
    ones = np.ones_like(seen)
    terms = np.stack([ones, row[:, None] * ones, col * ones, np.outer(row, col)])
    expected, weak = np.array([level, 1.0, 1.0, 0.0]), np.array([1e-9, 1.0, 1.0, 1.0])
    x = expected.copy()
    for _ in range(SWEEPS):
        score, known = thinned_score(np.tensordot(x, terms, 1), seen, trials, share)
        matrix = np.einsum("akl,kl,bkl->ab", terms, known, terms) + np.diag(weak)
        gain = np.einsum("akl,kl->a", terms, score) - weak * (x - expected)
        step = np.clip(np.linalg.solve(matrix, gain), -1.0, 1.0)
        x = x + step
        if np.abs(step).max() < TOL:
            break
    by_row, by_col = max(float(x[1]), SMALLEST_FACTOR), max(float(x[2]), SMALLEST_FACTOR)
    return float(x[0]), by_row, by_col, float(x[3]) / (by_row * by_col)


@dataclass(frozen=True, eq=False)
class _Classes:
    """Items of an axis by their number of entries; those without any are in no class."""

    label: Index
    sizes: Floats
    there: Floats

    @classmethod
    def of(cls, index: Index, size: int) -> _Classes:
        counts = np.bincount(index, minlength=size)
        there = counts > 0
        _, label = np.unique(counts[there], return_inverse=True)
        labels = np.zeros(size, dtype=np.intp)
        labels[there] = label
        return cls(labels, np.bincount(label).astype(float), there.astype(float))


def thinned_score(
    logits: Floats, seen: Floats, trials: Floats, share: float
) -> tuple[Floats, Floats]:
    """Derivative of the log likelihood by the logits, and its Fisher information.

    Of ``trials`` entries each is seen with probability q p, p = expit(logit):
    (1 - p) (seen - trials q p) / (1 - q p), and trials q p (1 - p)^2 / (1 - q p).
    """
    p = expit(logits)
    q_p, left = share * p, expit(-logits)
    ratio = left / np.maximum(1.0 - q_p, 1e-300)
    return ratio * (seen - trials * q_p), trials * q_p * left * ratio

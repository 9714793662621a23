"""A mask of rank one: p_ij = p a_i b_j, popularities of rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kronfill._stored import Tests, floats, real
from kronfill._types import Floats, Index
from kronfill.masks.base import MOST, MaskModel, deviance

__all__ = ["RankOneMask", "fit_rank_one"]


@dataclass(frozen=True, eq=False)
class RankOneMask(MaskModel):
    """p_ij = rate row_i col_j, no larger than a certain one."""

    rate: float
    row: Floats
    col: Floats
    deviance_explained: float
    kind: ClassVar[str] = "rank one"
    stored: ClassVar[Tests] = {
        "rate": real, "row": floats(1), "col": floats(1), "deviance_explained": real,
    }  # fmt: skip

    def probability(self, rows: Index, cols: Index) -> Floats:
        """See :class:`MaskModel`."""
        return np.minimum(self.rate * self.row[rows] * self.col[cols], MOST)


def fit_rank_one(
    rows: Index, cols: Index, shape: tuple[int, int], share: float = 1.0
) -> RankOneMask:
    """Fit popularities to the entries of a mask, ``share`` of those observed.

    A popularity is the count of a row over the mean count, shrunk towards 1 by the part of its
    variance that is chance: (V / (V + 1 / mean count)), V being the variance beyond that.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.masks.rank_one import fit_rank_one
    >>> p = np.linspace(0.1, 0.9, 80)
    >>> mask = np.random.default_rng(0).random((80, 60)) < p[:, None]
    >>> found = fit_rank_one(*np.nonzero(mask), mask.shape)
    >>> i = np.arange(80)
    >>> bool(np.abs(found.probability(i, np.zeros(80, int)) - p).max() < 0.2)
    True
    """
    row, col = _popularity(rows, shape[0]), _popularity(cols, shape[1])
    warm = (np.bincount(rows, minlength=shape[0]) > 0), (np.bincount(cols, minlength=shape[1]) > 0)
    rate = len(rows) / (int(warm[0].sum()) * int(warm[1].sum()))
    found = RankOneMask(rate / share, row, col, 0.0)
    return RankOneMask(rate / share, row, col, _explained(found, rows, cols, warm, rate, share))


def _popularity(index: Index, size: int) -> Floats:
    counts = np.bincount(index, minlength=size).astype(float)
    there = counts > 0
    mean = counts[there].mean()
    relative = counts[there] / mean
    beyond = max(float(relative.var()) - 1.0 / mean, 0.0)
    out = np.ones(size)
    out[there] = 1.0 + (relative - 1.0) * beyond / (beyond + 1.0 / mean)
    return out


def _explained(
    found: RankOneMask, rows: Index, cols: Index, warm: tuple[Any, Any], rate: float,
    share: float,
) -> float:  # fmt: skip
    """Share of the deviance taken off a constant rate, block of rows by block of rows."""
    seen, there, others = np.ones(len(rows)), np.flatnonzero(warm[0]), np.flatnonzero(warm[1])
    own, constant = 0.0, deviance(seen, seen, np.full(len(rows), rate))
    at = share * found.probability(rows, cols)
    own += deviance(seen, seen, at) - deviance(0 * seen, seen, at)
    constant -= deviance(0 * seen, seen, np.full(len(rows), rate))
    step = max(1, 1_000_000 // max(1, len(others)))
    for first in range(0, len(there), step):
        part = there[first : first + step]
        p = share * found.probability(np.repeat(part, len(others)), np.tile(others, len(part)))
        own += deviance(np.zeros(1), np.ones(1), p)
        constant += deviance(np.zeros(1), np.ones(1), np.full(len(p), rate))
    return float(max(1.0 - own / constant, 0.0)) if constant > 0 else 0.0

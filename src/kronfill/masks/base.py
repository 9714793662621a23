"""What every mask model tells: the probability that an entry is observed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from kronfill._stored import Stored
from kronfill._types import Floats, Index

__all__ = ["KINDS", "MOST", "MaskModel", "deviance"]

KINDS = ("uniform", "effects", "rank one", "kernel")
"""Mask models by name; "uniform" is none."""
MOST = 1.0 - 1e-3
"""Largest probability of being observed: no entry is certain to be seen."""


class MaskModel(Stored, ABC):
    """The probability that an entry is observed, independently of the others.

    Attributes
    ----------
    deviance_explained : float
        Share of the deviance of the mask that the model takes off a constant probability: 0 for a
        mask that looks uniform, 1 for one that the model knows for certain.
    """

    kind: ClassVar[str]
    deviance_explained: float

    @abstractmethod
    def probability(self, rows: Index, cols: Index) -> Floats:
        """Probability that each entry is observed."""

    def odds(self, rows: Index, cols: Index) -> Floats:
        """Odds that each entry is missing, (1 - p) / p."""
        p = self.probability(rows, cols)
        return np.asarray((1.0 - p) / p)


def deviance(seen: Floats, trials: Floats, probability: Floats) -> float:
    """-2 log likelihood of so many seen of so many trials."""
    p = np.clip(probability, 1e-300, 1.0 - 1e-16)
    return float(-2.0 * np.sum(seen * np.log(p) + (trials - seen) * np.log1p(-p)))

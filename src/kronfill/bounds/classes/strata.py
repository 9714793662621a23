"""Classes whose radii are read off a fitted model: the price of looking.

A theorem holds for one class fixed in advance, while the norms of a fitted model depend on the
split. So every radius gets a grid base * ratio^j, fixed in advance, and the theorem is used for
all its members at once: with J = abs(j), member j may fail with a share (2/3) / ((J + 1) (J + 2))
of delta, and these shares sum to 1. The model then lies in a class whose radii are those of the
fit, rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["RATIO", "Strata", "stratify"]

RATIO = 1.2
LOWEST = -40


@dataclass(frozen=True)
class Strata:
    """Radii rounded up to the grid, and the share of delta that is left."""

    radii: Mapping[str, float]
    share: float


def stratify(
    norms: Mapping[str, float], bases: Mapping[str, float], ratio: float = RATIO
) -> Strata:
    """Round every norm up to its grid.

    Examples
    --------
    >>> from kronfill.bounds.classes.strata import stratify
    >>> found = stratify({"b": 2.5}, {"b": 1.0}, ratio=2.0)
    >>> found.radii, round(found.share, 4)
    ({'b': 4.0}, 0.0556)
    """
    radii, share = {}, 1.0
    for name, norm in norms.items():
        steps = np.log(max(norm, 1e-300) / bases[name]) / np.log(ratio)
        j = max(int(np.ceil(steps - 1e-12)), LOWEST)
        radii[name] = max(bases[name] * ratio**j, norm)
        share *= (2.0 / 3.0) / ((abs(j) + 1) * (abs(j) + 2))
    return Strata(radii, share)

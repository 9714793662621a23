"""Joint posterior samples by Matheron's rule: one solve each, whatever the size of the block.

Draw f0 from the prior and noise e, and pretend that y0 = f0 + e was observed. The error that the
method makes on it, f0 less the fit to y0, has the posterior covariance: the posterior mean plus
such an error is a posterior sample. Effects may be left out of y0, as the fit does not depend on
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kronfill.linalg.effects import AdditiveEffects
from kronfill.linalg.operator import pair_products
from kronfill.linalg.ridge import Sampled

__all__ = ["PriorError", "prior_error"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]
Fit = Callable[[Floats], tuple[Floats, AdditiveEffects | None]]


@dataclass(frozen=True, eq=False)
class PriorError:
    """What a fit to data drawn from the prior got wrong, for s^2 = 1."""

    core: Floats
    effects: AdditiveEffects | None

    def block(self, row_phi: Floats, col_phi: Floats, rows: Index, cols: Index) -> Floats:
        """The error on a block of known rows and columns, ``phi`` being that of all items."""
        out = row_phi[rows] @ self.core @ col_phi[cols].T
        if self.effects is not None:
            out -= self.effects.outer(self.effects.row[rows], self.effects.col[cols])
        return np.asarray(out)


def prior_error(
    row_phi: Floats,
    col_phi: Floats,
    sampled: Sampled,
    mu: float,
    fit: Fit,
    rng: np.random.Generator,
) -> PriorError:
    """One error, drawn with ``rng``; ``fit`` gives X and effects for values that were observed."""
    s = sampled
    core = rng.standard_normal((row_phi.shape[1], col_phi.shape[1]))
    noise = np.sqrt(mu) / s.root_weights * rng.standard_normal(s.m)
    values = pair_products(row_phi @ core, col_phi, s.rows, s.cols) + noise
    fitted, effects = fit(values)
    return PriorError(core - fitted, effects)

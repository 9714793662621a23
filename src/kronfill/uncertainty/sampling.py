"""Joint posterior samples by Matheron's rule: one solve each, whatever the size of the block.

Draw f0 from the prior and noise e, and pretend that y0 = f0 + e was observed. The error that the
method makes on it, f0 less the fit to y0, has the posterior covariance: the posterior mean plus
such an error is a posterior sample. Effects may be left out of y0, as the fit does not depend on
them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.operator import pair_products
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.problem import Sampled
from kronfill.solvers.pcg import PCG
from kronfill.uncertainty.identity_part import IdentityPosterior

__all__ = ["FactorSampler", "IdentitySampler", "Sampler"]

SOLVER = PCG(tol=1e-6)
Fit = Callable[[Floats], tuple[Floats, AdditiveEffects | None]]


class Sampler(ABC):
    """Draws what a fit to data from the prior gets wrong, for s^2 = 1."""

    @abstractmethod
    def error(self, rows: Index, cols: Index, rng: np.random.Generator) -> Floats:
        """One error on a block of known rows and columns."""


@dataclass(frozen=True, eq=False)
class FactorSampler(Sampler):
    """In the space of two factors; ``fit`` gives X and effects for values that were observed."""

    row_phi: Floats
    col_phi: Floats
    sampled: Sampled
    mu: float
    fit: Fit

    def error(self, rows: Index, cols: Index, rng: np.random.Generator) -> Floats:
        """See :class:`Sampler`."""
        s = self.sampled
        core = rng.standard_normal((self.row_phi.shape[1], self.col_phi.shape[1]))
        noise = np.sqrt(self.mu) / s.root_weights * rng.standard_normal(s.m)
        drawn = pair_products(self.row_phi @ core, self.col_phi, s.rows, s.cols)
        fitted, effects = self.fit(drawn + noise)
        out = self.row_phi[rows] @ (core - fitted) @ self.col_phi[cols].T
        return _less(out, effects, rows, cols)


@dataclass(frozen=True, eq=False)
class IdentitySampler(Sampler):
    """For kernels with an identity part: an entry may have one to itself besides."""

    posterior: IdentityPosterior

    def error(self, rows: Index, cols: Index, rng: np.random.Generator) -> Floats:
        """See :class:`Sampler`."""
        p, s = self.posterior, self.posterior.original
        x = p.draw(rng)
        identity = np.sqrt(p.entry_identity) * rng.standard_normal(s.m)
        noise = np.sqrt(p.mu) / s.root_weights * rng.standard_normal(s.m)
        drawn = pair_products(*p.tables(x), s.rows, s.cols)
        fit = p.fit(drawn + identity + noise, SOLVER)
        left, right = p.tables(x - fit.core)
        out = _less(left[rows] @ right[cols].T, fit.effects, rows, cols)
        # Of the identity part the fit knows e_w e_h d at an observed entry, and nothing elsewhere.
        return out + self._identity_part(rows, cols, identity - p.entry_identity * fit.dual, rng)

    def _identity_part(
        self, rows: Index, cols: Index, seen: Floats, rng: np.random.Generator
    ) -> Floats:
        """The identity part of the entries of a block, an entry named twice the same."""
        some_r, at_r = np.unique(rows, return_inverse=True)
        some_c, at_c = np.unique(cols, return_inverse=True)
        out = np.sqrt(self.posterior.entry_identity) * rng.standard_normal(
            (len(some_r), len(some_c))
        )
        positions = self.posterior.original.sparse(np.arange(1.0, len(seen) + 1))
        known = positions[some_r][:, some_c].tocoo()
        out[known.row, known.col] = seen[known.data.astype(np.intp) - 1]
        return np.asarray(out[np.ix_(at_r, at_c)])


def _less(out: Floats, effects: AdditiveEffects | None, rows: Index, cols: Index) -> Floats:
    """Take the effects that were fitted off a block."""
    if effects is not None:
        out -= effects.outer(effects.row[rows], effects.col[cols])
    return np.asarray(out)

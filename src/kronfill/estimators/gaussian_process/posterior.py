"""How sure a prediction of KKMCEX or RRMCEX is: standard deviations and joint samples.

Both methods are the posterior mean of a Gaussian process with covariance s^2 K over entries and
noise of variance s^2 mu / w; what is here reads the posterior variance off the same system.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_BLOCK, DENSE_POSTERIOR, SMALL_SYSTEM
from kronfill.core.memory import Kept
from kronfill.errors import DataError, ParameterError, argument
from kronfill.estimators.fitted.axes import Axis
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.factorised import Factorised, SolvedSystem
from kronfill.ridge.free_effects import FreeEffects
from kronfill.ridge.problem import RidgeProblem, Sampled
from kronfill.solvers.auto import solve_in_factors
from kronfill.uncertainty.identity_part import IdentityPosterior
from kronfill.uncertainty.iterative import IterativePosterior
from kronfill.uncertainty.posterior import DirectPosterior, DualPosterior, Posterior
from kronfill.uncertainty.queries import Queries
from kronfill.uncertainty.sampling import FactorSampler, IdentitySampler, Sampler

__all__ = ["GaussianProcess"]


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """One fit as a Gaussian process: made on first use, kept until the next fit."""

    priors: tuple[Axis, Axis]
    sampled: Sampled
    mu: float
    center: Any
    least: float
    """y^T M y, the least value of the objective divided by mu."""
    system: Kept[SolvedSystem] | None = field(default=None, kw_only=True)
    """As the fit has factorised it."""

    @cached_property
    def dof(self) -> int:
        """Observations less the independent effects."""
        effects = self.sampled.effects
        return self.sampled.m - (0 if effects is None else FreeEffects.of(effects).rank)

    @property
    def signal_variance(self) -> float:
        """s^2; NaN where the effects take up every observation."""
        return self.least / self.dof if self.dof else float("nan")

    @cached_property
    def posterior(self) -> Posterior:
        """The covariance given these observations."""
        return self.posterior_given(self.sampled)

    def posterior_given(self, sampled: Sampled) -> Posterior:
        """By the smallest system: m x m, or a b x a b, or neither where both are too large.

        The m x m system is the smallest if the fit has factorised it.
        """
        row, col = self.priors
        fitted = sampled is self.sampled
        dual = self.dual_factor if fitted else None
        look = dual is None and sampled.m > SMALL_SYSTEM
        if look and row.rank * col.rank <= min(sampled.m, DENSE_POSTERIOR):
            factor = self._factor_in(row.phi, col.phi) if fitted else None
            return DirectPosterior(row.phi, col.phi, sampled, self.mu, factor)
        if sampled.m <= DENSE_POSTERIOR:
            return DualPosterior(RidgeProblem(row.kernel, col.kernel, sampled, self.mu), dual)
        if self._has_identity_part:
            return IdentityPosterior(row.split, col.split, sampled, self.mu)
        return IterativePosterior(row.phi, col.phi, sampled, self.mu)

    @property
    def dual_factor(self) -> Factorised | None:
        """The m x m system, if the fit has factorised it."""
        system = None if self.system is None else self.system.value
        return system.dual if system is not None and self.sampled.m <= DENSE_POSTERIOR else None

    def _factor_in(self, row_phi: Floats, col_phi: Floats) -> Factorised | None:
        """The system in the space of these factors, if the fit has factorised it."""
        system = None if self.system is None else self.system.value
        return None if system is None else system.in_factors(row_phi, col_phi, self.sampled.kind)

    @property
    def by_solves(self) -> bool:
        """Whether every variance is an iterative solve."""
        return isinstance(self.posterior, IterativePosterior | IdentityPosterior)

    @property
    def _has_identity_part(self) -> bool:
        """Whether a kernel has an identity part."""
        return any(prior.kernel.split()[1] > 0 for prior in self.priors)

    @cached_property
    def sampler(self) -> Sampler:
        """Draws posterior errors of large blocks."""
        row, col = self.priors
        if self._has_identity_part:
            kept = self.posterior
            if not isinstance(kept, IdentityPosterior):
                kept = IdentityPosterior(row.split, col.split, self.sampled, self.mu)
            return IdentitySampler(kept)
        return FactorSampler(row.phi, col.phi, self.sampled, self.mu, self.fit)

    def fit(self, values: Floats) -> tuple[Floats, AdditiveEffects | None]:
        """X in factor space and the effects if these values had been observed."""
        if isinstance(self.posterior, DirectPosterior):
            return self.posterior.fit(values)
        row, col = self.priors
        sampled = Sampled(self.sampled.mask, values, self.sampled.effects)
        result = solve_in_factors(row.phi, col.phi, sampled, self.mu)
        return result.core, result.effects

    def targets(self, rows: Index, cols: Index) -> Queries:
        """Entries of the table."""
        items_r, at_r = np.unique(rows, return_inverse=True)
        items_c, at_c = np.unique(cols, return_inverse=True)
        row, col = self.priors
        return Queries(row.known(items_r), col.known(items_c), at_r, at_c)

    def block(self, rows: Any, cols: Any) -> tuple[Queries, tuple[int, int]]:
        """All entries of new rows and columns, None for the known ones, and their table's shape."""
        left, right = (
            prior.known(np.arange(size)) if given is None else prior.new(given)
            for prior, size, given in zip(
                self.priors, self.sampled.shape, (rows, cols), strict=True
            )
        )
        shape = (len(left.index), len(right.index))
        at_r, at_c = np.indices(shape).reshape(2, -1)
        return Queries(left, right, at_r, at_c), shape

    def std(self, targets: Queries) -> Floats:
        """Standard deviation of the latent value of each entry."""
        return np.sqrt(self._checked_signal_variance() * self.posterior.variance(targets))

    def sample(self, mean: Floats, rows: Index, cols: Index, count: int, seed: Any) -> Floats:
        """Joint samples of a block with this mean."""
        grid = (part.ravel() for part in np.meshgrid(rows, cols, indexing="ij"))
        targets = self.targets(*grid)
        scale = np.sqrt(self._checked_signal_variance())
        self._check_finite(targets)
        out = np.empty((count, *mean.shape))
        rng = np.random.default_rng(seed)
        if len(targets) <= DENSE_BLOCK and not self.by_solves:
            root = _square_root(self.posterior.covariance(targets, targets))
            out[:] = (rng.standard_normal((count, len(targets))) @ root.T).reshape(out.shape)
        else:
            for sink in out:
                sink[:] = self.sampler.error(rows, cols, rng)
        return np.asarray(mean + scale * out)

    def _checked_signal_variance(self) -> float:
        """s^2, or an error where nothing tells it."""
        if self.dof == 0:
            msg = (
                f"{argument('center', self.center)} takes as many effects as there are "
                f"observations ({self.sampled.m}): nothing is left to tell how sure they "
                f"are. Use fewer effects, such as {argument('center', 'mean')}, or more "
                "observations."
            )
            raise DataError(msg)
        return self.signal_variance

    def _check_finite(self, targets: Queries) -> None:
        bad = np.flatnonzero(~self.posterior.finite(targets))
        if len(bad):
            entry = (int(targets.rows[bad[0]]), int(targets.cols[bad[0]]))
            msg = (
                f"{len(bad)} entries, the first at {entry}, have an effect that no observation "
                f"determines ({argument('center', self.center)}): their variance is infinite and "
                "they cannot be sampled. Leave these rows and columns out, or use "
                f"{argument('center', 'mean')}."
            )
            raise ParameterError(msg)


def _square_root(covariance: Floats) -> Floats:
    """R with R R^T = covariance, which may be singular."""
    lam, vec = scipy.linalg.eigh(covariance, check_finite=False)
    return np.asarray(vec * np.sqrt(np.maximum(lam, 0.0)))

"""How sure a prediction of KKMCEX or RRMCEX is: standard deviations and joint samples.

Both methods are the posterior mean of a Gaussian process with covariance s^2 K over entries and
noise of variance s^2 mu / w; what is here reads the posterior variance off the same system.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_BLOCK, DENSE_POSTERIOR, SMALL_SYSTEM
from kronfill.core.memory import Kept
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import MatrixRegressor, check_rank
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.estimators.fitted.priors import AxisPrior
from kronfill.estimators.inputs import check_range, positions
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.factorised import Factorised, SolvedSystem
from kronfill.ridge.free_effects import FreeEffects
from kronfill.ridge.problem import RidgeProblem, RidgeResult, Sampled
from kronfill.solvers.auto import solve_in_factors
from kronfill.uncertainty.identity_part import IdentityPosterior
from kronfill.uncertainty.iterative import IterativePosterior
from kronfill.uncertainty.posterior import DirectPosterior, DualPosterior, Posterior
from kronfill.uncertainty.queries import Queries
from kronfill.uncertainty.sampling import FactorSampler, IdentitySampler, Sampler

__all__ = ["GaussianProcessReading"]


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """One fit as a Gaussian process: made on first use, kept until the next fit."""

    priors: tuple[AxisPrior, AxisPrior]
    sampled: Sampled
    mu: float
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
        if self._has_identity:
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
    def _has_identity(self) -> bool:
        """Whether a kernel has an identity part."""
        return any(prior.kernel.split()[1] > 0 for prior in self.priors)

    @cached_property
    def sampler(self) -> Sampler:
        """Draws posterior errors of large blocks."""
        row, col = self.priors
        if self._has_identity:
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


class GaussianProcessReading(MatrixRegressor):
    """Adds uncertainty to a method that is the posterior mean of a Gaussian process."""

    mu_: float
    mean_: float
    row_effects_: Floats
    col_effects_: Floats
    center: Any
    _kept_system: tuple[Any, Kept[SolvedSystem]] | None

    @abstractmethod
    def _priors(self) -> tuple[AxisPrior, AxisPrior]:
        """What each axis says before anything is observed."""

    @abstractmethod
    def _dual(self) -> Floats:
        """d, one number for each observation: mu d = w (y - prediction)."""

    @property
    def _reading(self) -> GaussianProcess:
        check_is_fitted(self)
        kept = self.__dict__.get("_kept_reading")
        if kept is None or kept[0] is not self._model:
            kept = (self._model, self._read())
            self._kept_reading = kept
        reading: GaussianProcess = kept[1]
        return reading

    def _read(self) -> GaussianProcess:
        sampled = self._sampled(self.observations_, self.center)
        fitted = self._model.pairs(sampled.rows, sampled.cols)
        core = self._model.core if isinstance(self._model, Bilinear) else None
        if isinstance(core, np.ndarray):
            norm = float(np.vdot(core, core))
        else:
            effects = self.mean_ + self.row_effects_[sampled.rows] + self.col_effects_[sampled.cols]
            norm = float(self._dual() @ (fitted - effects))
        rest = sampled.root_weights * (sampled.values - fitted)
        # Taken from the objective and not as y^T d, the error of an iterative solve enters squared.
        least = float(rest @ rest) / self.mu_ + norm
        kept = self._solved_system()
        return GaussianProcess(self._priors(), sampled, self.mu_, least, system=kept)

    def _keep_system(self, result: RidgeResult) -> None:
        """Keep what the solver has factorised, for as long as this fit is the last one."""
        self._kept_system = None
        if result.system is not None:
            self._kept_system = (self._model, Kept(result.system, result.system.factor.nbytes))

    def _solved_system(self) -> Kept[SolvedSystem] | None:
        """The system of the last fit, where there is one."""
        kept = vars(self).get("_kept_system")
        return kept[1] if kept is not None and kept[0] is self._model else None

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())  # scikit-learn hands out the attributes themselves
        for name in ("_kept_reading", "_kept_system"):  # large, and soon made again
            state.pop(name, None)
        return state

    @property
    def signal_variance_(self) -> float:
        """s^2 = y^T (Kbar + mu I)^-1 y / m: the scale at which the kernel explains the data.

        With effects and weights it is y^T M y / (m - r) with A = Kbar + mu W^-1,
        M = A^-1 - A^-1 Z (Z^T A^-1 Z)^-1 Z^T A^-1 and r the number of independent effects
        (restricted maximum likelihood). NaN where the effects take up every observation.
        """
        return self._reading.signal_variance

    @property
    def noise_variance_(self) -> float:
        """s^2 mu: variance of the noise of an observation of weight 1."""
        return self.signal_variance_ * self.mu_

    def predict_std(self, X: Any) -> Floats:
        """Standard deviation of the latent values at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2) or Observations
            Row and column index of each entry asked for.

        Returns
        -------
        ndarray of shape (t,)
            Without the noise, of which the variance is ``noise_variance_``. Infinite where the
            entry has an unpenalised effect that no observation determines.

        Notes
        -----
        s^2 (k - k^T (Kbar + mu I)^-1 k), s^2 being ``signal_variance_``; unpenalised effects add
        what is not known about them. Exact, by a factorisation of the smaller of the dual and the
        primal system, up to 6,000 unknowns; beyond, each entry is an iterative solve.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0], [9.0]], length_scale=1.0)
        >>> est = kf.KKMCEX(days, None, mu=0.1).fit([[0, 0], [1, 0]], [1.0, 2.0])
        >>> est.predict_std([[0, 0], [1, 0], [2, 0]]).round(2)  # the last day is far away
        array([0.4 , 0.4 , 1.35])
        """
        check_is_fitted(self)
        rows, cols = self._pairs(X, reset=False)
        check_range(rows, self.shape_[0], "row")
        check_range(cols, self.shape_[1], "column")
        return self._std(self._reading.targets(rows, cols))

    def extrapolate_std(self, rows: Any = None, cols: Any = None) -> Floats:
        """Standard deviation of the latent values of rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : object, optional
            What is known about the new rows (columns), as for :meth:`extrapolate`. A kernel that
            was given as a matrix wants the pair (similarities, similarity of each new item with
            itself), or a data frame with a column for each new item beside those of the known ones.
            None stands for all the rows (columns) that are in the table.

        Returns
        -------
        ndarray of shape (k, l)
            As for :meth:`predict_std`.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0]], length_scale=1.0)
        >>> est = kf.KKMCEX(days, None, mu=0.1).fit([[0, 0], [1, 0]], [1.0, 2.0])
        >>> est.extrapolate_std(rows=[[0.5], [9.0]]).round(2)
        array([[0.4 ],
               [1.35]])
        """
        priors = self._reading.priors
        left, right = (
            prior.known(np.arange(size)) if given is None else prior.new(given)
            for prior, size, given in zip(priors, self.shape_, (rows, cols), strict=True)
        )
        shape = (len(left.index), len(right.index))
        at_r, at_c = np.indices(shape).reshape(2, -1)
        return self._std(Queries(left, right, at_r, at_c)).reshape(shape)

    def sample_posterior(
        self, rows: Any = None, cols: Any = None, n_samples: int = 1, random_state: Any = 0
    ) -> Floats:
        """Joint samples of the latent values of a block.

        Parameters
        ----------
        rows, cols : array-like of int, optional
            Indices of the rows and columns of the block; all by default.
        n_samples : int, default=1
            Number of samples.
        random_state : int, Generator or None, default=0
            Seed.

        Returns
        -------
        ndarray of shape (n_samples, len(rows), len(cols))

        Notes
        -----
        Blocks of up to 2,000 entries are drawn from their covariance; larger ones, and all where
        the system is too large for a factorisation, by Matheron's rule, one solve per sample. To
        sample rows that are not in the table, put them into the kernel as rows without
        observations.

        Examples
        --------
        >>> import kronfill as kf
        >>> days = kf.kernels.rbf([[0.0], [1.0], [9.0]], length_scale=1.0)
        >>> est = kf.KKMCEX(days, None, mu=0.1).fit([[0, 0], [1, 0]], [1.0, 2.0])
        >>> est.sample_posterior(n_samples=500).std(axis=0).shape
        (3, 1)
        """
        reading = self._reading
        check_rank(n_samples, "n_samples")
        at_r, at_c = _all_or(rows, self.shape_[0], "row"), _all_or(cols, self.shape_[1], "column")
        grid = (part.ravel() for part in np.meshgrid(at_r, at_c, indexing="ij"))
        targets = reading.targets(*grid)
        scale = np.sqrt(self._signal_variance())
        self._check_finite(targets)
        mean = self.predict_matrix(at_r, at_c)
        out = np.empty((n_samples, *mean.shape))
        rng = np.random.default_rng(random_state)
        if len(targets) <= DENSE_BLOCK and not reading.by_solves:
            root = _square_root(reading.posterior.covariance(targets, targets))
            out[:] = (rng.standard_normal((n_samples, len(targets))) @ root.T).reshape(out.shape)
        else:
            for sink in out:
                sink[:] = reading.sampler.error(at_r, at_c, rng)
        return np.asarray(mean + scale * out)

    def _std(self, targets: Queries) -> Floats:
        return np.sqrt(self._signal_variance() * self._reading.posterior.variance(targets))

    def _signal_variance(self) -> float:
        """s^2, or an error where nothing tells it."""
        if self._reading.dof == 0:
            msg = (
                f"center={self.center!r} takes as many effects as there are observations "
                f"({self._reading.sampled.m}): nothing is left to tell how sure they are. Use "
                "fewer effects, such as center='mean', or more observations."
            )
            raise DataError(msg)
        return self.signal_variance_

    def _check_finite(self, targets: Queries) -> None:
        bad = np.flatnonzero(~self._reading.posterior.finite(targets))
        if len(bad):
            entry = (int(targets.rows[bad[0]]), int(targets.cols[bad[0]]))
            msg = (
                f"{len(bad)} entries, the first at {entry}, have an effect that no observation "
                f"determines (center={self.center!r}): their variance is infinite and they cannot "
                "be sampled. Leave these rows and columns out, or use center='mean'."
            )
            raise ParameterError(msg)


def _all_or(items: Any, size: int, axis: str) -> Index:
    """The positions given, all by default."""
    index = positions(items, size, axis)
    return np.arange(size) if index is None else index


def _square_root(covariance: Floats) -> Floats:
    """R with R R^T = covariance, which may be singular."""
    lam, vec = scipy.linalg.eigh(covariance, check_finite=False)
    return np.asarray(vec * np.sqrt(np.maximum(lam, 0.0)))

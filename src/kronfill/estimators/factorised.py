"""What MC, KMC and IMC share: low-rank factors by alternating ridge regression."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_HALF_STEP
from kronfill.criteria.exact import path_minimum
from kronfill.data import Observations
from kronfill.errors import ConvergenceWarning, DataError, ParameterError
from kronfill.estimators.base import MatrixRegressor, check_mu, check_rank
from kronfill.estimators.fitted.axes import FactorAxis
from kronfill.estimators.inputs import random_generator
from kronfill.estimators.kkmcex import set_effects
from kronfill.ridge.effects import AdditiveEffects, EffectsDesign
from kronfill.ridge.problem import Mask, RidgeProblem, Sampled
from kronfill.solvers.alternating import (
    ALS,
    Alternation,
    State,
    alternate,
    leading_pair,
)
from kronfill.solvers.auto import solve_in_factors
from kronfill.solvers.dense import Cholesky
from kronfill.solvers.half_steps import FactorAlternation, GivenFactor

__all__ = ["FactorisedRegressor", "centred_values", "fit_in_factors"]


FOLDS = 5
FOLDS_LIMIT = 20_000
"""Up to this many observations mu is chosen by cross-validation, beyond by one held-out tenth."""
TRIAL_SWEEPS = 100
"""Most sweeps of a trial fit; with a rough tolerance it mostly ends long before."""


class FactorisedRegressor(MatrixRegressor):
    """F = W H^T, found by alternation."""

    _small = 5000  # many short steps: waking threads would take longer than the work
    rank: Any
    mu: Any
    center: Any
    solver: Any
    random_state: Any

    def _settings(self) -> Any:
        """Settings of the alternation; the default is :class:`ALS`."""
        settings = ALS() if isinstance(self.solver, str) and self.solver == "auto" else self.solver
        if not isinstance(settings, ALS):
            msg = f"solver must be 'auto' or kf.ALS(...), got {self.solver!r}."
            raise ParameterError(msg)
        return settings

    def _check_parameters(self) -> None:
        check_mu(self.mu)
        check_rank(self.rank)
        self._settings()

    def _fit(self, observations: Observations) -> None:
        self.mu_ = self._held_out_mu(observations) if self.mu == "auto" else float(self.mu)
        self._fit_factors(observations)
        self.solution_.warn(stacklevel=4)

    @abstractmethod
    def _fit_factors(self, observations: Observations) -> None:
        """Fit with mu_ and set the fitted attributes."""

    def _pair(self) -> tuple[Floats, Floats]:
        """The fitted factors in the form in which they can be given as a starting point."""
        return self.W_, self.H_

    def _held_out_mu(self, observations: Observations) -> float:
        """The mu with the smallest error on held-out entries, along warm-started paths.

        Five folds, or one tenth held out once where there are many entries. Above the largest
        value tried, of the size of the data times that of the kernels, the factors are zero.
        """
        folds = _folds(observations)
        if not folds:
            return 1.0
        values = observations.values
        top = float(np.linalg.norm(values - values.mean())) * self._scale() or 1.0
        starts: list[Any] = [self._settings().start] * len(folds)

        def error(mu: float) -> tuple[float, bool]:
            total, converged = 0.0, True
            for k, (train, held) in enumerate(folds):
                trial = self._trial(mu, train, starts[k])
                gap = held.values - trial.predict(held)
                total += float(np.sum(gap**2 if held.weights is None else held.weights * gap**2))
                converged &= trial.solution_.converged
                if np.any(trial.H_):  # zero factors are no starting point
                    starts[k] = trial._pair()
            return total, converged

        return path_minimum(error, top * np.logspace(-1, -5, 5))

    def _trial(self, mu: float, train: Observations, start: Any) -> FactorisedRegressor:
        """A quick fit for the choice of mu; its ``solution_`` says whether it converged."""
        settings = replace(self._settings(), sweeps=TRIAL_SWEEPS, tol=1e-3, start=start)
        parameters = {**self.get_params(deep=False), **self._checked()}
        trial = type(self)(**{**parameters, "mu": mu, "solver": settings})
        with warnings.catch_warnings():  # whoever asks for a trial looks at its record
            warnings.simplefilter("ignore", ConvergenceWarning)
            return trial.fit(train)

    def _checked(self) -> dict[str, Any]:
        """Parameters in the form in which they need not be checked again."""
        return {}

    def _scale(self) -> float:
        """Typical size of the square root of the kernel over entries."""
        return 1.0

    def _run(self, problem: Alternation, h: Floats, sampled: Sampled) -> State:
        effects = None if sampled.effects is None else sampled.effects.fit(sampled.values)
        state, self.solution_ = alternate(problem, h, effects, self._settings())
        if not np.isfinite(state.objective):
            raise _broken_down(sampled)
        self.objective_ = state.objective
        self.n_iter_ = self.solution_.iterations
        return state

    def _start_values(self, sampled: Sampled, axis: FactorAxis) -> Floats | None:
        """H at the observed columns, unless the start is worked out in factor space."""
        return None

    def _rank(self) -> int:
        """Number of factors; more than the matrix has rows or columns would add nothing."""
        return min(int(self.rank), *self.shape_)

    def _rng(self) -> np.random.Generator:
        return random_generator(self.random_state)

    def _random(self, kind: str, size: int) -> Floats:
        rng = self._rng()
        shape = (size, self._rank())
        return rng.random(shape) if kind == "uniform" else rng.standard_normal(shape)


def _broken_down(sampled: Sampled) -> DataError:
    told = f"values up to {np.abs(sampled.values).max():.3g}"
    if sampled.weights is not None:
        told += f", weights from {sampled.weights.min():.3g} to {sampled.weights.max():.3g}"
    return DataError(
        "The fit broke down: numbers of such different size cannot be added in double precision "
        f"({told}). Bring weights closer together (a factor of 1e12 is safe), scale the values and "
        "the features, or use a larger mu."
    )


def fit_in_factors(
    estimator: FactorisedRegressor, row: FactorAxis, col: FactorAxis, sampled: Sampled
) -> State:
    """Alternate over coefficients of the two axes, only observed rows and columns entering."""
    shape = (len(row.items), len(col.items))
    mask = Mask(row.at, col.at, shape, sampled.weights)
    design = None
    if sampled.effects is not None:
        design = EffectsDesign(row.at, col.at, shape, sampled.effects.kind, sampled.weights)
    inner = Sampled(mask, sampled.values, design)
    values = estimator._start_values(sampled, col)
    if values is None:
        with np.errstate(over="ignore", invalid="ignore"):  # looked at below
            core = _start_core(estimator, row.phi, col.phi, inner)
        if not np.isfinite(core).all():
            raise _broken_down(sampled)
        values = col.phi @ leading_pair(core, estimator._rank(), estimator._rng())[1]
    problem = FactorAlternation(row.phi, col.phi, inner, estimator.mu_)
    state = estimator._run(problem, values, inner)
    effects = _expanded(state.effects, row.items, col.items, sampled.shape)
    set_effects(estimator, effects)
    return replace(state, effects=effects)


def _start_core(estimator: FactorisedRegressor, p: Floats, q: Floats, sampled: Sampled) -> Floats:
    """X whose leading singular vectors make the starting point."""
    if estimator._settings().start == "kkmcex":
        if len(sampled.values) <= DENSE_HALF_STEP:  # exact whatever mu is, and cheaper
            problem = RidgeProblem(GivenFactor(p), GivenFactor(q), sampled, estimator.mu_)
            return np.asarray(p.T @ (sampled.sparse(Cholesky().solve(problem).dual) @ q))
        return solve_in_factors(p, q, sampled, estimator.mu_).core
    return np.asarray(p.T @ (sampled.sparse(centred_values(sampled)) @ q))


def _expanded(
    effects: AdditiveEffects | None, rows: Index, cols: Index, shape: tuple[int, int]
) -> AdditiveEffects | None:
    if effects is None:
        return None
    row, col = np.zeros(shape[0]), np.zeros(shape[1])
    row[rows], col[cols] = effects.row, effects.col
    return AdditiveEffects(effects.mean, row, col)


def _folds(observations: Observations) -> list[tuple[Observations, Observations]]:
    """Training and held-out entries, the same for the same observations."""
    m = observations.m
    if m < 2:
        return []
    count = min(FOLDS, m) if m <= FOLDS_LIMIT else 10
    label = np.random.default_rng(0).permutation(m) % count
    chosen = range(count if m <= FOLDS_LIMIT else 1)
    return [(observations.take(label != k), observations.take(label == k)) for k in chosen]


def centred_values(sampled: Sampled) -> Floats:
    """Values less their effects: what the factors have to explain at the start."""
    return sampled.values if sampled.effects is None else sampled.effects.remove(sampled.values)

"""What MC, KMC and IMC share: low-rank factors by alternating ridge regression."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_HALF_STEP
from kronfill.criteria.exact import path_minimum
from kronfill.data import Observations
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import (
    MatrixRegressor,
    check_mu,
    check_rank,
    few_threads,
)
from kronfill.estimators.fitted.axes import ObservedFactor
from kronfill.estimators.fitted.bilinear import Bilinear
from kronfill.estimators.inputs import as_sampled, random_generator
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.problem import RidgeProblem, Sampled
from kronfill.ridge.solution import Solution
from kronfill.solvers.alternating import (
    ALS,
    Alternation,
    State,
    alternate,
    given_pair,
    leading_pair,
)
from kronfill.solvers.auto import solve_in_factors
from kronfill.solvers.dense import Cholesky
from kronfill.solvers.half_steps import FactorAlternation, FactorKernel

__all__ = [
    "SMALL", "FactorFit", "FactorisedRegressor", "WarmPath", "alternated", "centred_values",
    "fit_in_factors", "random_factor", "run_record",
]  # fmt: skip


FOLDS = 5
FOLDS_LIMIT = 20_000
"""Up to this many observations mu is chosen by cross-validation, beyond by one held-out tenth."""
TRIAL_SWEEPS = 100
"""Most sweeps of a trial fit; with a rough tolerance it mostly ends long before."""
SMALL = 5000
"""Up to this many observations a fit is many short steps: waking threads would take longer."""


@dataclass(frozen=True, eq=False)
class FactorFit:
    """F = W H^T + effects, as one run of the alternation has found it.

    Attributes
    ----------
    form : Bilinear
        F for known and new rows and columns.
    solution : Solution
        How the run ended.
    start : pair of ndarray
        What a further run can be given to start from.
    attributes : dict
        What is published of it.
    """

    form: Bilinear
    solution: Solution
    start: tuple[Floats, Floats]
    attributes: dict[str, Any]


class FactorisedRegressor(MatrixRegressor):
    """F = W H^T, found by alternation."""

    rank: Any
    mu: Any
    center: Any
    solver: Any
    random_state: Any
    W_: Floats
    H_: Floats

    @abstractmethod
    def _solve(
        self, observations: Observations, sides: Any, mu: float, settings: Any, start: Any
    ) -> FactorFit:
        """Fit with this mu and these settings from a starting point, given or by name.

        ``sides`` is what ``_validated_sides`` returns.
        """

    def _scale(self, sides: Any) -> float:
        """Typical size of the square root of the kernel over entries."""
        return 1.0

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

    def _chosen_mu(self, observations: Observations, sides: Any) -> float:
        """The ridge weight; "auto" is the one with the smallest error on held-out entries.

        Five folds, or one tenth held out once where there are many, along warm-started paths.
        """
        if self.mu != "auto":
            return float(self.mu)
        m = observations.m
        if m < 2:
            return 1.0
        count = min(FOLDS, m) if m <= FOLDS_LIMIT else 10
        label = np.random.default_rng(0).permutation(m) % count
        chosen = range(count if m <= FOLDS_LIMIT else 1)
        splits = ((label != fold, label == fold) for fold in chosen)
        path = WarmPath(self, observations, sides, splits)

        def error(mu: float) -> tuple[float, bool]:
            errors, converged = path.errors(mu)
            return float(sum(errors)), bool(converged.all())

        return path_minimum(error, path.mus(5))

    def _rank(self, shape: tuple[int, int]) -> int:
        """Number of factors; more than the matrix has rows or columns would add nothing."""
        return min(int(self.rank), *shape)


class WarmPath:
    """Errors on held-out entries as mu goes down, each fold from the factors for the mu before.

    Parameters
    ----------
    estimator : FactorisedRegressor
        The method.
    observations : Observations
        The data.
    sides : object
        What is known about both axes, validated.
    splits : iterable of (training part, held-out part)
        Positions in the observations.
    """

    def __init__(
        self,
        estimator: FactorisedRegressor,
        observations: Observations,
        sides: Any,
        splits: Iterable[tuple[Any, Any]],
    ) -> None:
        self.folds = [(observations.take(train), observations.take(test)) for train, test in splits]
        self._estimator, self._sides = estimator, sides
        values = observations.values
        # Above the size of the data times that of the kernels the factors are zero.
        self._top = float(np.linalg.norm(values - values.mean())) * estimator._scale(sides) or 1.0
        self._starts: list[Any] = [estimator._settings().start] * len(self.folds)

    def mus(self, count: int) -> Floats:
        """Values of mu to try, largest first."""
        return np.asarray(self._top * np.logspace(-1, -5, count))

    def errors(self, mu: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Sum of squared errors of each fold, and whether its quick fit converged."""
        settings = replace(self._estimator._settings(), sweeps=TRIAL_SWEEPS, tol=1e-3)
        errors, converged = [], []
        for fold, (train, held) in enumerate(self.folds):
            with few_threads(train.m, SMALL):
                found = self._estimator._solve(train, self._sides, mu, settings, self._starts[fold])
            gap = held.values - found.form.pairs(held.rows, held.cols)
            errors.append(np.sum(gap**2 if held.weights is None else held.weights * gap**2))
            converged.append(found.solution.converged)
            if np.any(found.attributes["H_"]):  # zero factors are no starting point
                self._starts[fold] = found.start
        return np.array(errors), np.array(converged)


def random_factor(kind: str, random_state: Any, shape: tuple[int, int]) -> Floats:
    """A random starting point."""
    rng = random_generator(random_state)
    return rng.random(shape) if kind == "uniform" else rng.standard_normal(shape)


def alternated(
    problem: Alternation, h: Floats, sampled: Sampled, settings: Any
) -> tuple[State, Solution]:
    """Run the alternation from values of H, effects fitted along."""
    effects = None if sampled.effects is None else sampled.effects.fit(sampled.values)
    state, solution = alternate(problem, h, effects, settings)
    if not np.isfinite(state.objective):
        raise _broken_down(sampled)
    return state, solution


def fit_in_factors(
    row: ObservedFactor,
    col: ObservedFactor,
    data: Sampled,
    mu: float,
    settings: Any,
    start: Any,
    rank: int,
    random_state: Any,
) -> tuple[Bilinear, State, Solution]:
    """Alternate over coefficients of the two axes, only observed rows and columns entering."""
    shape = (len(row.items), len(col.items))
    kind = None if data.effects is None else data.effects.kind
    inner = as_sampled(row.at, col.at, data.values, shape, data.weights, kind)
    if not isinstance(start, str):
        shapes = ((row.start_size, rank), (col.start_size, rank))
        values = col.start_values(given_pair(start, shapes)[1])
    elif start in ("uniform", "gaussian"):
        values = col.start_values(random_factor(start, random_state, (col.start_size, rank)))
    else:
        with np.errstate(over="ignore", invalid="ignore"):  # looked at below
            core = _start_core(start, row.phi, col.phi, inner, mu)
        if not np.isfinite(core).all():
            raise _broken_down(data)
        values = col.phi @ leading_pair(core, rank, random_generator(random_state))[1]
    problem = FactorAlternation(row.phi, col.phi, inner, mu)
    state, solution = alternated(problem, values, inner, settings)
    effects = _expanded(state.effects, row.items, col.items, data.shape)
    form = Bilinear(row.fitted(state.w), col.fitted(state.h), None, effects, data.shape)
    return form, state, solution


def run_record(state: State, solution: Solution) -> dict[str, Any]:
    """How a run ended, as attributes."""
    return {
        "solution_": solution,
        "objective_": state.objective,
        "n_iter_": solution.iterations,
    }


def _start_core(start: str, p: Floats, q: Floats, sampled: Sampled, mu: float) -> Floats:
    """X whose leading singular vectors make the starting point."""
    if start == "kkmcex":
        if len(sampled.values) <= DENSE_HALF_STEP:  # exact whatever mu is, and cheaper
            problem = RidgeProblem(FactorKernel(p), FactorKernel(q), sampled, mu)
            return np.asarray(p.T @ (sampled.sparse(Cholesky().solve(problem).dual) @ q))
        return solve_in_factors(p, q, sampled, mu).core
    return np.asarray(p.T @ (sampled.sparse(centred_values(sampled)) @ q))


def _expanded(
    effects: AdditiveEffects | None, rows: Index, cols: Index, shape: tuple[int, int]
) -> AdditiveEffects | None:
    if effects is None:
        return None
    row, col = np.zeros(shape[0]), np.zeros(shape[1])
    row[rows], col[cols] = effects.row, effects.col
    return AdditiveEffects(effects.mean, row, col)


def centred_values(sampled: Sampled) -> Floats:
    """Values less their effects: what the factors have to explain at the start."""
    return sampled.values if sampled.effects is None else sampled.effects.remove(sampled.values)


def _broken_down(sampled: Sampled) -> DataError:
    sizes = f"values up to {np.abs(sampled.values).max():.3g}"
    if sampled.weights is not None:
        sizes += f", weights from {sampled.weights.min():.3g} to {sampled.weights.max():.3g}"
    return DataError(
        "The fit broke down: numbers of such different size cannot be added in double precision "
        f"({sizes}). Bring weights closer together (a factor of 1e12 is safe), scale the values "
        "and the features, or use a larger mu."
    )

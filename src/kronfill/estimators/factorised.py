"""What MC, KMC and IMC share: low-rank factors by alternating ridge regression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_HALF_STEP
from kronfill.core.operator import pair_products
from kronfill.core.threads import one_blas_thread
from kronfill.data import Observations
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import (
    MatrixRegressor,
    check_mu,
    check_rank,
    effects_of,
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
    Watch,
    alternate,
    given_pair,
    leading_pair,
)
from kronfill.solvers.auto import solve_in_factors
from kronfill.solvers.dense import Cholesky
from kronfill.solvers.half_steps import FactorAlternation, FactorKernel, FactorPair

__all__ = [
    "SMALL", "FactorFit", "FactorProblem", "FactorSpaceProblem", "FactorisedRegressor",
    "alternated", "centred_values", "factor_problem", "random_factor", "run_record",
]  # fmt: skip


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
    attributes : dict
        What is published of it.
    """

    form: Bilinear
    solution: Solution
    attributes: dict[str, Any]


class FactorProblem(ABC):
    """A method about to be fitted: what changes neither with mu, nor with the rank.

    Nor with the part of the observations that is fitted to: rows and columns are those of all.

    Parameters
    ----------
    sampled : Sampled
        The observations, over the rows and columns that enter.
    random_state : object
        Seed of random starting points.
    """

    def __init__(self, sampled: Sampled, random_state: Any) -> None:
        self.sampled = sampled
        self.shape = sampled.shape
        """Size of the matrix: all rows and columns."""
        self._random_state = random_state

    @abstractmethod
    def alternation(self, sampled: Sampled, mu: float) -> Alternation:
        """The problem for some of the observations."""

    @abstractmethod
    def start(self, start: Any, sampled: Sampled, mu: float, rank: int) -> Floats:
        """Values of H at the columns, for a starting point by name or given."""

    def row_values(self, state: State) -> Floats:
        """W at the rows."""
        return state.w

    def col_values(self, state: State) -> Floats:
        """H at the columns."""
        return state.h

    def run(
        self, sampled: Sampled, mu: float, values: Floats, settings: Any, watch: Watch | None = None
    ) -> tuple[State, Solution]:
        """Alternate from these values of H."""
        with one_blas_thread():  # many small products: waking threads takes longer
            return alternated(self.alternation(sampled, mu), values, sampled, settings, watch)

    def at(self, state: State, rows: Index, cols: Index) -> Floats:
        """F at index pairs."""
        out = pair_products(self.row_values(state), self.col_values(state), rows, cols)
        return out if state.effects is None else out + state.effects.at(rows, cols)

    @abstractmethod
    def fitted(self, state: State, solution: Solution) -> FactorFit:
        """What a run has found."""


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
    def _factor_problem(self, observations: Observations, sides: Any) -> FactorProblem:
        """The problem of these observations; ``sides`` is what ``_validated_sides`` returns."""

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
        settings = self._settings()
        if isinstance(self.rank, str) and self.rank == "auto":
            if not isinstance(settings.start, str):
                msg = "rank='auto' has no use for given factors: name a starting point, or a rank."
                raise ParameterError(msg)
            return
        try:
            check_rank(self.rank)
        except ParameterError:
            msg = f'rank must be a positive integer or "auto", got {self.rank!r}.'
            raise ParameterError(msg) from None

    def _chosen(self, problem: FactorProblem, sides: Any) -> tuple[dict[str, Any], Floats | None]:
        """mu and rank, chosen where that is asked for; values of H to start from, if known."""
        most = min(problem.shape)
        if "auto" not in (self.mu, self.rank):
            return {"mu_": float(self.mu), "rank_": min(int(self.rank), most)}, None
        from kronfill.estimators.factor_search import searched

        settings = self._settings()
        settings = settings if isinstance(settings, ALS) else ALS()
        search, values = searched(problem, self.mu, self.rank, self._scale(sides), settings)
        assert search.rank is not None
        found = {"mu_": search.mu, "rank_": search.rank, "mu_search_": search}
        return found, values

    def _found(self, observations: Observations, sides: Any, start: Any) -> dict[str, Any]:
        """Choose what is to be chosen, and fit: what is published."""
        problem = self._factor_problem(observations, sides)
        choice, values = self._chosen(problem, sides)
        mu = choice["mu_"]
        if values is None or not isinstance(start, str):
            values = problem.start(start, problem.sampled, mu, choice["rank_"])
        run = problem.run(problem.sampled, mu, values, self._settings())
        return {**problem.fitted(*run).attributes, **choice}


def factor_problem(
    estimator: FactorisedRegressor, observations: Observations, sides: Any
) -> tuple[FactorProblem, float]:
    """The problem of a method, and the typical size of the root of its kernel over entries."""
    return estimator._factor_problem(observations, sides), estimator._scale(sides)


def random_factor(kind: str, random_state: Any, shape: tuple[int, int]) -> Floats:
    """A random starting point."""
    rng = random_generator(random_state)
    return rng.random(shape) if kind == "uniform" else rng.standard_normal(shape)


def alternated(
    problem: Alternation,
    h: Floats,
    sampled: Sampled,
    settings: Any,
    watch: Watch | None = None,
) -> tuple[State, Solution]:
    """Run the alternation from values of H, effects fitted along."""
    effects = None if sampled.effects is None else sampled.effects.fit(sampled.values)
    state, solution = alternate(problem, h, effects, settings, watch)
    if not np.isfinite(state.objective):
        raise _broken_down(sampled)
    return state, solution


class FactorSpaceProblem(FactorProblem):
    """KMC and IMC: coefficients of the two axes, only observed rows and columns entering.

    Parameters
    ----------
    row, col : ObservedFactor
        Both axes.
    data : Sampled
        The observations.
    random_state : object
        Seed of random starting points.
    """

    def __init__(
        self, row: ObservedFactor, col: ObservedFactor, data: Sampled, random_state: Any
    ) -> None:
        shape = (len(row.items), len(col.items))
        inner = as_sampled(row.at, col.at, data.values, shape, data.weights, data.kind)
        super().__init__(inner, random_state)
        self.row, self.col, self.data = row, col, data
        self.shape = data.shape
        self._factors = FactorPair(row.phi, col.phi, inner.mask)

    def alternation(self, sampled: Sampled, mu: float) -> Alternation:
        """See :class:`FactorProblem`."""
        return FactorAlternation(self._factors, sampled, mu)

    def start(self, start: Any, sampled: Sampled, mu: float, rank: int) -> Floats:
        """See :class:`FactorProblem`."""
        row, col = self.row, self.col
        if not isinstance(start, str):
            shapes = ((row.start_size, rank), (col.start_size, rank))
            return col.start_values(given_pair(start, shapes)[1])
        if start in ("uniform", "gaussian"):
            shape = (col.start_size, rank)
            return col.start_values(random_factor(start, self._random_state, shape))
        with np.errstate(over="ignore", invalid="ignore"):  # looked at below
            core = _start_core(start, row.phi, col.phi, sampled, mu)
        if not np.isfinite(core).all():
            raise _broken_down(sampled)
        rng = random_generator(self._random_state)
        return np.asarray(col.phi @ leading_pair(core, rank, rng)[1])

    def row_values(self, state: State) -> Floats:
        """See :class:`FactorProblem`."""
        return np.asarray(self.row.phi @ state.w)

    def col_values(self, state: State) -> Floats:
        """See :class:`FactorProblem`."""
        return np.asarray(self.col.phi @ state.h)

    def fitted(self, state: State, solution: Solution) -> FactorFit:
        """See :class:`FactorProblem`."""
        row, col = self.row, self.col
        effects = _expanded(state.effects, row.items, col.items, self.shape)
        form = Bilinear(row.fitted(state.w), col.fitted(state.h), None, effects, self.shape)
        attributes = {
            **run_record(state, solution),
            **effects_of(effects, self.shape),
            "W_": form.row_basis.known(None),
            "H_": form.col_basis.known(None),
            "_model": form,
        }
        return FactorFit(form, solution, attributes)


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

"""MC: base matrix completion."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import Kernels, check_rank, effects_of
from kronfill.estimators.factorised import (
    SMALL,
    FactorFit,
    FactorisedRegressor,
    FactorProblem,
    centred_values,
    random_factor,
    run_record,
)
from kronfill.estimators.fitted.bilinear import Bilinear, ValueBasis
from kronfill.estimators.inputs import check_magnitude, random_generator, sampled_entries
from kronfill.kernels import identity
from kronfill.ridge.problem import Sampled
from kronfill.ridge.solution import Solution
from kronfill.solvers.alternating import State, given_pair, leading_pair
from kronfill.solvers.half_steps import RowAlternation

__all__ = ["MC"]


class MC(FactorisedRegressor):
    r"""Base matrix completion by alternating ridge regressions, equation (1).

    .. math:: \min_{W,H} \|P_{S_m}(M - W H^T)\|_F^2 + \mu (\|W\|_F^2 + \|H\|_F^2)

    Rows decouple: each half-step is one rank x rank system per row (column), spread over threads.

    Parameters
    ----------
    shape : tuple of int, optional
        Size of the matrix; by default that of the observations, or the largest index plus one.
    rank : int or "auto", default=10
        Number of latent factors; at most min(N, L) are used. "auto" chooses it along with mu:
        twice as many as long as the error on held-out entries falls.
    mu : float or "auto", default=1.0
        Ridge weight; "auto" takes the value with the smallest error on held-out entries.
    center : {None, "mean", "rows", "cols", "both"}, default=None
        Unpenalised additive effects, fitted along.
    solver : "auto" or ALS, default="auto"
        ``kf.ALS(sweeps=..., tol=..., start=..., accelerate=...)``.
    warm_start : bool, default=False
        Start from the factors of the previous fit.
    random_state : int, Generator or None, default=0
        Seed of random starting points.

    Attributes
    ----------
    W_, H_ : ndarray of shape (N, rank) and (L, rank)
        The factors.
    rank_ : int
        Number of factors.
    objective_ : float
        The objective reached; ``solution_.history`` has it after each sweep.
    mu_, mu_search_, mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
        As for :class:`KKMCEX`.

    Notes
    -----
    Nothing is known about rows and columns: one without observations has a factor of zeros, so its
    prediction is the centre (``mean_`` plus effects), which is 0 without ``center``.

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> truth = np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0])
    >>> X = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 2], [2, 1]])
    >>> est = kf.MC(shape=(3, 3), rank=1, mu=1e-4).fit(X, truth[X[:, 0], X[:, 1]])
    >>> est.predict([[2, 2]]).round(1)
    array([6.])
    """

    def __init__(
        self,
        shape: Any = None,
        rank: Any = 10,
        mu: Any = 1.0,
        center: Any = None,
        solver: Any = "auto",
        warm_start: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.shape = shape
        self.rank = rank
        self.mu = mu
        self.center = center
        self.solver = solver
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        sides = self._validated_sides()
        observations = self._observations(X, y, sample_weight, sides)
        check_magnitude(observations.values, observations.weights)
        settings = self._settings()
        start, before = settings.start, getattr(self, "H_", np.empty((0, 0)))
        (n, l), rank = observations.shape, before.shape[1]
        if self.warm_start and before.shape == (l, rank) and self._wants(rank, (n, l)):
            start = np.zeros((n, rank)), before  # a sweep begins by solving for W
        with self._fitting(observations.m, SMALL):
            found = self._found(observations, sides, start)
        found["solution_"].warn()
        return self._publish(X, observations, {}, **found)

    def _wants(self, rank: int, shape: tuple[int, int]) -> bool:
        """Whether a fit would have so many factors."""
        return self.rank != "auto" and rank == min(int(self.rank), *shape)

    def _validated_sides(self) -> Kernels:
        self._check_parameters()
        if self.shape is None:
            return None, None
        try:
            n, l = (check_rank(size, "each entry of shape") for size in self.shape)
        except (TypeError, ValueError):
            msg = f"shape must be two positive integers or None, got {self.shape!r}."
            raise ParameterError(msg) from None
        return identity(n), identity(l)

    def _factor_problem(self, observations: Observations, sides: Kernels) -> FactorProblem:
        return _RowProblem(sampled_entries(observations, self.center), self.random_state)


class _RowProblem(FactorProblem):
    """Nothing is known about rows and columns: the factors are their own coefficients."""

    def alternation(self, sampled: Sampled, mu: float) -> RowAlternation:
        return RowAlternation(sampled, mu)

    def start(self, start: Any, sampled: Sampled, mu: float, rank: int) -> Floats:
        n, l = sampled.shape
        if not isinstance(start, str):
            return given_pair(start, ((n, rank), (l, rank)))[1]
        if start in ("uniform", "gaussian"):
            return random_factor(start, self._random_state, (l, rank))
        # KKMCEX with identity kernels is the observed matrix, shrunk: same singular vectors.
        rng = random_generator(self._random_state)
        return leading_pair(sampled.sparse(centred_values(sampled)), rank, rng)[1]

    def fitted(self, state: State, solution: Solution) -> FactorFit:
        bases = ValueBasis(state.w), ValueBasis(state.h)
        form = Bilinear(*bases, None, state.effects, self.sampled.shape)
        attributes = {
            **run_record(state, solution),
            "W_": state.w,
            "H_": state.h,
            **effects_of(state.effects, self.sampled.shape),
            "_model": form,
        }
        return FactorFit(form, solution, attributes)

"""MC: base matrix completion."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import Kernels, check_rank, effects_of
from kronfill.estimators.factorised import (
    SMALL,
    FactorFit,
    FactorisedRegressor,
    alternated,
    centred_values,
    random_factor,
    run_record,
)
from kronfill.estimators.fitted.bilinear import Bilinear, ValueBasis
from kronfill.estimators.inputs import check_magnitude, random_generator, sampled_entries
from kronfill.kernels import identity
from kronfill.solvers.alternating import given_pair, leading_pair
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
    rank : int, default=10
        Number of latent factors; at most min(N, L) are used.
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
    objective_ : float
        The objective reached; ``solution_.history`` has it after each sweep.
    mu_, mean_, row_effects_, col_effects_, solution_, n_iter_, shape_ :
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
        (n, l), rank = observations.shape, self._rank(observations.shape)
        settings = self._settings()
        start = settings.start
        if self.warm_start and getattr(self, "H_", np.empty(0)).shape == (l, rank):
            start = np.zeros((n, rank)), self.H_  # a sweep begins by solving for W
        with self._fitting(observations.m, SMALL):
            mu = self._chosen_mu(observations, sides)
            found = self._solve(observations, sides, mu, settings, start)
        found.solution.warn()
        return self._publish(X, observations, {}, mu_=mu, **found.attributes)

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

    def _solve(
        self, observations: Observations, sides: Kernels, mu: float, settings: Any, start: Any
    ) -> FactorFit:
        sampled = sampled_entries(observations, self.center)
        (n, l), rank = sampled.shape, self._rank(sampled.shape)
        if not isinstance(start, str):
            h = given_pair(start, ((n, rank), (l, rank)))[1]
        elif start in ("uniform", "gaussian"):
            h = random_factor(start, self.random_state, (l, rank))
        else:
            # KKMCEX with identity kernels is the observed matrix, shrunk: same singular vectors.
            rng = random_generator(self.random_state)
            h = leading_pair(sampled.sparse(centred_values(sampled)), rank, rng)[1]
        state, solution = alternated(RowAlternation(sampled, mu), h, sampled, settings)
        bases = ValueBasis(state.w), ValueBasis(state.h)
        form = Bilinear(*bases, None, state.effects, sampled.shape)
        attributes = {
            **run_record(state, solution),
            "W_": state.w,
            "H_": state.h,
            **effects_of(state.effects, sampled.shape),
            "_model": form,
        }
        return FactorFit(form, solution, (state.w, state.h), attributes)

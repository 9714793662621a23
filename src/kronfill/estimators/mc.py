"""MC: base matrix completion."""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.errors import ParameterError
from kronfill.estimators.base import check_rank
from kronfill.estimators.factorised import FactorisedRegressor, centred_values
from kronfill.estimators.fitted.bilinear import Bilinear, ValueBasis
from kronfill.estimators.kkmcex import set_effects
from kronfill.ridge.problem import Sampled
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

    def _axis_sizes(self) -> tuple[int | None, int | None]:
        self._check_parameters()
        if self.shape is None:
            return None, None
        try:
            n, l = (check_rank(size, "each entry of shape") for size in self.shape)
        except (TypeError, ValueError):
            msg = f"shape must be two positive integers or None, got {self.shape!r}."
            raise ParameterError(msg) from None
        return n, l

    def _fit_factors(self, observations: Observations) -> None:
        sampled = self._sampled(observations, self.center)
        h = self._start(sampled)
        state = self._run(RowAlternation(sampled, self.mu_), h, sampled)
        self.W_, self.H_ = state.w, state.h
        set_effects(self, state.effects)
        bases = ValueBasis(self.W_), ValueBasis(self.H_)
        self._model = Bilinear(*bases, None, state.effects, self.shape_)

    def _start(self, sampled: Sampled) -> Floats:
        rank, (n, l) = self._rank(), sampled.shape
        if self.warm_start and getattr(self, "H_", np.empty(0)).shape == (l, rank):
            return self.H_
        start = self._settings().start
        if not isinstance(start, str):
            return given_pair(start, ((n, rank), (l, rank)))[1]
        if start in ("uniform", "gaussian"):
            return self._random(start, l)
        # KKMCEX with identity kernels is the observed matrix, shrunk: the same singular vectors.
        return leading_pair(sampled.sparse(centred_values(sampled)), rank, self._rng())[1]

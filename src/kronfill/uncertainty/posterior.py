"""How sure a ridge solution is: the posterior covariance of its Gaussian-process reading.

With f ~ N(0, s^2 K), noise N(0, s^2 mu W^-1) and effects beta without a prior, the covariance of
the latent values g = f + z beta, divided by s^2, is with A = Kbar + mu W^-1

    k - k^T A^-1 k + b^T (Z^T A^-1 Z)^-1 b,      b = z - Z^T A^-1 k            (dual, m x m)

or, in factor space, with S = Psi^T M Psi + mu I, M = W less what the effects take up, E = Z^T W Z,

    k - psi psi^T + mu (u^T S^-1 u + z^T E^-1 z),   u = psi - Psi^T W Z E^-1 z  (primal, a b x a b).

k - psi psi^T is what a new item has of its own: no item of the table tells anything about it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from kronfill._types import Flags, Floats
from kronfill.core.limits import CHUNK_FLOATS
from kronfill.core.operator import pair_products
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.factorised import CholeskyFactor, Factorised, factorised
from kronfill.ridge.free_effects import FreeEffects
from kronfill.ridge.problem import RidgeProblem, Sampled
from kronfill.solvers.dense import entry_kernel
from kronfill.solvers.primal import normal_equations
from kronfill.uncertainty.queries import Queries, gathered

__all__ = [
    "DirectPosterior",
    "DualPosterior",
    "FactorPosterior",
    "Posterior",
]


class Posterior(ABC):
    """Covariance of the latent values given where the observations are, for s^2 = 1."""

    _width: int
    """Floats that one entry takes while it is worked on."""

    def __init__(self, sampled: Sampled, mu: float) -> None:
        self.sampled = sampled
        self.mu = mu
        self.effects = None if sampled.effects is None else FreeEffects.of(sampled.effects)

    @property
    def dof(self) -> int:
        """Observations less the effects that they determine."""
        return self.sampled.m - (0 if self.effects is None else self.effects.rank)

    def finite(self, targets: Queries) -> Flags:
        """Whether the variance of each entry is finite."""
        if self.effects is None:
            return np.ones(len(targets), dtype=bool)
        return self.effects.estimable(targets.rows, targets.cols)

    def variance(self, targets: Queries) -> Floats:
        """Variance of each entry; infinite where its effects cannot be told."""
        out = np.full(len(targets), np.inf)
        where = np.flatnonzero(self.finite(targets))
        for part in self._chunks(len(where)):
            out[where[part]] = self._variance(targets.take(where[part]))
        return np.asarray(np.maximum(out, 0.0))

    def _chunks(self, count: int) -> Iterator[slice]:
        step = max(1, CHUNK_FLOATS // max(1, self._width))
        return (slice(first, min(first + step, count)) for first in range(0, count, step))

    def _effects_variance(self, targets: Queries) -> Floats:
        """z^T E^-1 z of each entry."""
        if self.effects is None:
            return np.zeros(len(targets))
        z = self.effects.design(targets.rows, targets.cols)
        return np.asarray(z.multiply(self.effects.solve(z)).sum(axis=1)).ravel()

    @abstractmethod
    def _variance(self, targets: Queries) -> Floats:
        """Variance of entries of which it is finite, as many as fit."""

    @abstractmethod
    def covariance(self, left: Queries, right: Queries) -> Floats:
        """Covariance between entries of the table of which the variance is finite.

        The systems are solved for the entries of ``right``: they should be the fewer.
        """


class DualPosterior(Posterior):
    """By a factorisation of the m x m kernel over the observed entries, perhaps that of a fit."""

    def __init__(self, problem: RidgeProblem, factor: Factorised | None = None) -> None:
        super().__init__(problem.sampled, problem.mu)
        s = problem.sampled
        self._width = s.m
        self._factor = factor or factorised(entry_kernel(problem), problem.mu)
        if self.effects is not None:  # Z^T A^-1 Z = R^T R
            z = s.root_weights[:, None] * self.effects.design(s.rows, s.cols).toarray()
            self._white = self._factor.whiten(z)
            triangle = np.asarray(np.linalg.qr(self._white, mode="r"))
            self._effects_factor = CholeskyFactor(triangle, lower=False)

    def _kernel(self, targets: Queries) -> Floats:
        """k_t: prior covariance with the observed entries."""
        k = gathered(targets.row, targets.at_r, self.sampled.rows)
        k *= gathered(targets.col, targets.at_c, self.sampled.cols)
        return k

    def _parts(self, targets: Queries) -> tuple[Floats, Floats]:
        """What the observations take off (columns), and what the effects add."""
        minus = self._factor.whiten((self._kernel(targets) * self.sampled.root_weights).T)
        if self.effects is None:
            return minus, np.zeros((0, len(targets)))
        z = self.effects.design(targets.rows, targets.cols).toarray()
        return minus, self._effects_factor.whiten(z.T - self._white.T @ minus)

    def _variance(self, targets: Queries) -> Floats:
        minus, plus = self._parts(targets)
        return np.asarray(targets.prior - column_products(minus) + column_products(plus))

    def influence(self, targets: Queries) -> Floats:
        """lambda_ti with f(t) = sum_i lambda_ti y_i, one row for each (estimable) entry t.

        Leaving i out is replacing y_i by what the others predict for it, so that
        f^(-i)(t) = f(t) - lambda_ti r_i with the leave-one-out residual r_i.
        """
        return self._solved(targets)[0]

    def _solved(self, targets: Queries) -> tuple[Floats, Floats]:
        """lambda_t = A^-1 (k_t + Z beta_t) and beta_t = (Z^T A^-1 Z)^-1 b_t, one row for each."""
        minus, plus = self._parts(targets)
        beta = np.zeros((0, len(targets)))
        if self.effects is not None:
            beta = self._effects_factor.whiten_adjoint(plus)
            minus = minus + self._white @ beta
        return self._factor.whiten_adjoint(minus).T * self.sampled.root_weights, beta.T

    def covariance(self, left: Queries, right: Queries) -> Floats:
        """See :class:`Posterior`: k(l, r) - k_l^T lambda_r + z_l^T beta_r."""
        solved, beta = self._solved(right)
        out = np.empty((len(left), len(right)))
        for part in self._chunks(len(left)):
            some = left.take(part)
            out[part] = some.kernel(right) - self._kernel(some) @ solved.T
            if self.effects is not None:
                out[part] += self.effects.design(some.rows, some.cols) @ beta.T
        return out


class FactorPosterior(Posterior):
    """In the space of the factors of the two kernels."""

    def __init__(self, row_phi: Floats, col_phi: Floats, sampled: Sampled, mu: float) -> None:
        super().__init__(sampled, mu)
        self._row_phi, self._col_phi = row_phi, col_phi
        self._core_shape = (row_phi.shape[1], col_phi.shape[1])
        self._width = row_phi.shape[1] * col_phi.shape[1]

    @abstractmethod
    def _solve(self, u: Floats) -> Floats:
        """S^-1 u, one right-hand side per row, in the basis of :meth:`_turn`."""

    def _turn(self, u: Floats) -> Floats:
        """Into the basis in which the system is solved: a rotation, products stay the same."""
        return u

    def _quadratic(self, u: Floats) -> Floats:
        """u^T S^-1 u for each row."""
        return column_products(u.T, self._solve(u).T)

    def _variance(self, targets: Queries) -> Floats:
        u, own = self._coordinates(targets)
        return np.asarray(own + self.mu * (self._quadratic(u) + self._effects_variance(targets)))

    def covariance(self, left: Queries, right: Queries) -> Floats:
        """See :class:`Posterior`."""
        solved = self._solve(self._coordinates(right)[0])
        out = self._effects_part(left, right)
        for part in self._chunks(len(left)):
            out[part] += self._coordinates(left.take(part))[0] @ solved.T
        return np.asarray(self.mu * out)

    def _coordinates(self, targets: Queries) -> tuple[Floats, Floats]:
        """u of each entry, and its prior variance that the factors do not carry."""
        p, q = targets.row.phi(targets.at_r), targets.col.phi(targets.at_c)
        own = np.maximum(targets.prior - column_products(p.T) * column_products(q.T), 0.0)
        # In the table the factors carry everything, up to rounding.
        own[(targets.rows >= 0) & (targets.cols >= 0)] = 0.0
        psi = (p[:, :, None] * q[:, None, :]).reshape(len(targets), -1)
        if self.effects is not None:
            psi -= self._centre(targets, self.effects)
        return self._turn(psi), own

    def _centre(self, targets: Queries, free: FreeEffects) -> Floats:
        """Psi^T W Z E^-1 z of each entry."""
        x = free.solve(free.design(targets.rows, targets.cols))
        out = np.zeros((len(targets), self._width))
        step = max(1, CHUNK_FLOATS // self._width)
        for first in range(0, free.rank, step):
            columns = slice(first, min(first + step, free.rank))
            out += x[:, columns] @ free.moments(self._row_phi, self._col_phi, columns)
        return out

    def _effects_part(self, left: Queries, right: Queries) -> Floats:
        """z^T E^-1 z."""
        if self.effects is None:
            return np.zeros((len(left), len(right)))
        z_l, z_r = (self.effects.design(t.rows, t.cols) for t in (left, right))
        out = self.effects.solve(z_l) @ z_r.T
        return np.asarray(out.toarray() if hasattr(out, "toarray") else out)


class DirectPosterior(FactorPosterior):
    """By a factorisation of the a b x a b normal equations, perhaps that of a fit."""

    def __init__(
        self,
        row_phi: Floats,
        col_phi: Floats,
        sampled: Sampled,
        mu: float,
        factor: Factorised | None = None,
    ) -> None:
        super().__init__(row_phi, col_phi, sampled, mu)
        self._factor = factor or factorised(normal_equations(row_phi, col_phi, sampled)[0], mu)

    def _quadratic(self, u: Floats) -> Floats:
        return column_products(self._factor.whiten(u.T))

    def _solve(self, u: Floats) -> Floats:
        return self._factor.whiten_adjoint(self._factor.whiten(u.T)).T

    def fit(self, values: Floats) -> tuple[Floats, AdditiveEffects | None]:
        """X and the effects if these values had been observed."""
        s = self.sampled
        free = values if s.effects is None else s.effects.remove(values)
        weighted = free if s.weights is None else s.weights * free
        moment = self._row_phi.T @ (s.sparse(weighted) @ self._col_phi)
        core = self._solve(moment.reshape(1, -1)).reshape(self._core_shape)
        if s.effects is None:
            return core, None
        fitted = pair_products(self._row_phi @ core, self._col_phi, s.rows, s.cols)
        return core, s.effects.fit(values - fitted)


def column_products(left: Floats, right: Floats | None = None) -> Floats:
    """Sum of products over the first axis."""
    return np.asarray(np.einsum("ij,ij->j", left, left if right is None else right))

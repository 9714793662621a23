"""Posterior covariances by conjugate gradients, where no system is small enough to factorise."""

from __future__ import annotations

import warnings
from functools import cached_property

import numpy as np

from kronfill._types import Flags, Floats, Index
from kronfill.errors import ConvergenceWarning
from kronfill.ridge.factor_system import FactorSystem
from kronfill.ridge.system import NormalMap
from kronfill.solvers.cg import Descent, conjugate_gradients
from kronfill.uncertainty.posterior import FactorPosterior, column_products

__all__ = ["TOL", "IterativePosterior", "solve_many"]


TOL = 1e-10
"""Relative accuracy of a variance."""


class IterativePosterior(FactorPosterior):
    """By conjugate gradients in factor space, one right-hand side per entry."""

    @cached_property
    def _system(self) -> FactorSystem:
        return FactorSystem.of(self._row_phi, self._col_phi, self.sampled)

    def _turn(self, u: Floats) -> Floats:
        """See :class:`FactorPosterior`."""
        cores = u.reshape(-1, *self._core_shape)
        return np.stack([self._system.start(core) for core in cores]).reshape(u.shape)

    def _solve(self, u: Floats, tol: float = TOL) -> Floats:
        shape = (-1, *self._system.start(np.zeros(self._core_shape)).shape)
        return solve_many(self._system, self.mu, u.reshape(shape), tol).reshape(u.shape)

    def _quadratic(self, u: Floats) -> Floats:
        # The error of u^T x is the square of that of x, in the norm of the system.
        return column_products(u.T, self._solve(u, tol=np.sqrt(TOL)).T)


def solve_many(
    system: NormalMap, mu: float, rhs: Floats, tol: float = TOL, max_iter: int = 2000
) -> Floats:
    """(Psi^T M Psi + mu I)^-1 rhs, one right-hand side per item of the first axis.

    Conjugate gradients until the residual has fallen by ``tol`` in the norm of the preconditioner.
    """
    steps = missed = 0

    def leave(which: Index, descent: Descent, sound: Flags) -> Flags:
        nonlocal steps, missed
        steps += 1
        done = ~sound | (descent.energy() <= tol**2 * descent.initial)
        if steps == max_iter:
            missed = int(np.sum(~done))
            done[:] = True
        return done

    x = conjugate_gradients(
        lambda p: system.normal(p) + mu * p,
        lambda r: system.precondition(r, mu),
        rhs.copy(),
        leave,
    )
    if missed:
        message = (
            f"{missed} of {len(rhs)} solves for a variance did not reach {tol:g} in {max_iter} "
            "iterations: these variances come out too small. Use a larger mu."
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=2)
    return x

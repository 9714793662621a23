"""How a criterion of a ridge problem changes with the two kernels and with mu.

A criterion depends on the kernels through A = diag(s) Kbar diag(s) + mu I alone, and with M as in
:mod:`kronfill.criteria.reduction` dM = -M dA M. Hence, with d = M y~ and r_i = d_i / M_ii,

    log marginal likelihood      G = (n / 2q) d d^T - M / 2,     q = y~^T d,  n = m - r
    mean square leave-one-out    G = -(M g) d^T - M diag(h) M,   g_i = 2 r_i / M_ii, h_i = -r_i g_i

is its derivative by A (the first term to be symmetrised). Since Kbar is the product of a row and a
column kernel, sums of G o K_h over pairs of entries of the same two rows are the derivative by K_w:
one m x m inverse gives the derivatives by any number of weights and kernel parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from kronfill._types import Floats
from kronfill.criteria.exact import DETERMINED, likelihood
from kronfill.criteria.reduction import effects_basis
from kronfill.errors import KernelError, ParameterError
from kronfill.ridge.factorised import CholeskyFactor
from kronfill.ridge.problem import Sampled

__all__ = ["Sensitivity", "Slope"]


@dataclass(frozen=True, eq=False)
class Slope:
    """A criterion, to be minimised, and its derivatives."""

    value: float
    row: Floats
    """By the entries of K_w among the observed rows."""
    col: Floats
    """By the entries of K_h among the observed columns."""
    mu: float


class Sensitivity:
    """A criterion as a function of the kernels of the observed items and mu.

    Parameters
    ----------
    sampled : Sampled
        Observations with weights and effects.
    criterion : {"lml", "loo"}
        Minus the log marginal likelihood per observation, or the log of the mean square
        leave-one-out error.
    """

    def __init__(self, sampled: Sampled, criterion: str) -> None:
        if criterion not in ("lml", "loo"):
            msg = f"criterion must be 'lml' or 'loo', got {criterion!r}."
            raise ParameterError(msg)
        self._criterion = criterion
        self._root = sampled.root_weights
        self._target = self._root * sampled.values
        (self.rows, at_r), (self.cols, at_c) = sampled.mask.observed()
        self._at = (at_r, at_c)
        count = np.arange(sampled.m)
        self._members = tuple(
            sp.csr_array((self._root, (at, count)), shape=(len(items), sampled.m))
            for at, items in zip(self._at, (self.rows, self.cols), strict=True)
        )
        self._effects = effects_basis(sampled)
        self._usable = np.einsum("ij,ij->i", self._effects, self._effects) < 1 - DETERMINED
        self._constant = float(np.log(self._root).sum())

    def __call__(self, row: Floats, col: Floats, mu: float) -> Slope:
        """The criterion for kernels of the observed rows and columns."""
        by_row, by_col = (k[np.ix_(at, at)] for k, at in zip((row, col), self._at, strict=True))
        a = (self._root[:, None] * by_row) * (by_col * self._root)
        a[np.diag_indices_from(a)] += mu
        inverse, logdet = self._inverse(a)
        judge = self._likelihood if self._criterion == "lml" else self._leave_one_out
        value, g = judge(inverse, inverse @ self._target, logdet)
        in_rows, in_cols = self._members
        slope_r = in_rows @ (in_rows @ (g * by_col)).T
        slope_c = in_cols @ (in_cols @ (g * by_row)).T
        return Slope(value, slope_r, slope_c, float(np.trace(g)))

    def _inverse(self, a: Floats) -> tuple[Floats, float]:
        """M, and log det A on the complement of the effects."""
        factor = _definite(a.T)
        logdet, lower = factor.logdet, factor.into_inverse()
        inverse = np.tril(lower) + np.tril(lower, -1).T
        if self._effects.shape[1] == 0:
            return inverse, logdet
        half = inverse @ self._effects
        inner = _definite(np.asfortranarray(self._effects.T @ half))
        turned = inner.whiten(half.T)
        inverse -= turned.T @ turned
        return inverse, logdet + inner.logdet

    def _likelihood(self, inverse: Floats, d: Floats, logdet: float) -> tuple[float, Floats]:
        m = len(d)
        freedom = m - self._effects.shape[1]
        energy = float(self._target @ d)
        total = likelihood(np.array(energy), np.array(logdet), freedom) + self._constant
        g = 0.5 * inverse - np.outer((0.5 * freedom / energy) * d, d)
        return -float(total) / m, g / m

    def _leave_one_out(self, inverse: Floats, d: Floats, logdet: float) -> tuple[float, Floats]:
        diagonal = np.where(self._usable, np.diagonal(inverse), np.inf)
        r = d / diagonal  # times s: its square is weighted already
        total = float(r @ r)
        g = 2 * r / diagonal
        first = np.outer(inverse @ g, d)
        slope = -0.5 * (first + first.T) + (inverse * (r * g)) @ inverse
        mean = total / float((self._root[self._usable] ** 2).sum())
        return float(np.log(mean)), slope / total


def _definite(a: Floats) -> CholeskyFactor:
    """The factor of a column-major matrix, which is overwritten; an error if it is singular."""
    factor = CholeskyFactor.of(a, overwrite=True)
    if factor is None:
        msg = (
            "The kernel over the observed entries is singular and mu too small for it. Add an "
            "identity part to a kernel."
        )
        raise KernelError(msg)
    return factor

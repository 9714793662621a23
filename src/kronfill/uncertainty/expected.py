"""Posterior variances for the mean of all masks with the same numbers of observations.

In the basis in which both factors have diagonal sums over the observations, Psi^T W Psi is then
diagonal, S0 = outer(s_w, s_h) / total, and the variance of an entry a sum of squares. It is what
the preconditioner of the iterative solvers knows: no system is solved.
"""

from __future__ import annotations

import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.operator import pair_products
from kronfill.ridge.factor_system import Rotated
from kronfill.ridge.identity_system import FactorPlusIdentity, axes_of
from kronfill.ridge.problem import Sampled

__all__ = ["expected_variance"]


def expected_variance(
    row: FactorPlusIdentity,
    col: FactorPlusIdentity,
    sampled: Sampled,
    mu: float,
    rows: Index,
    cols: Index,
) -> Floats:
    """Variance of entries of the table that are not observed, for s^2 = 1 and without effects."""
    if row.identity or col.identity:
        return _with_identity(row, col, sampled, mu, rows, cols)
    left, right = (
        Rotated.of(kernel.factor.phi, counts)
        for kernel, counts in zip((row, col), sampled.mask.counts, strict=True)
    )
    spread = np.outer(left.diagonal, right.diagonal) / sampled.mask.counts[0].sum()
    return pair_products(
        np.square(left.phi) @ (mu / (spread + mu)), np.square(right.phi), rows, cols
    )


def _with_identity(
    row: FactorPlusIdentity,
    col: FactorPlusIdentity,
    sampled: Sampled,
    mu: float,
    rows: Index,
    cols: Index,
) -> Floats:
    """For K = Phi Phi^T + e I: blocks of :mod:`kronfill.ridge.identity_coordinates`, and the rest.

    In the first block the eigenvalues (lambda_w + e_w)(lambda_h + e_h) are taken whole, so that
    with nothing observed the four parts add up to the prior variance.
    """
    _, (w, h) = axes_of(row, col, sampled, mu)
    entry_identity = w.identity * h.identity
    whole, total = mu + entry_identity, float(w.counts.sum())
    u, v = np.square(w.basis), np.square(h.basis)
    in_u, in_v = u.sum(axis=1), v.sum(axis=1)
    turned_w, turned_h = (
        np.square((axis.basis * np.sqrt(axis.lam + axis.identity)) @ axis.turn) for axis in (w, h)
    )
    both = whole / (np.outer(w.rates, h.rates) / total + whole)
    out = pair_products(turned_w @ both, turned_h, rows, cols)
    by_row, by_col = (
        axis.identity * other.lam * whole
        / (np.outer(axis.counts, other.seen * axis.identity * other.lam) / total + whole)
        for axis, other in ((w, h), (h, w))
    )  # fmt: skip
    out += pair_products((1 - in_u)[:, None] * by_row, v, rows, cols)
    out += pair_products(u, (1 - in_v)[:, None] * by_col, rows, cols)
    return np.asarray(out + entry_identity * (1 - in_u[rows] * in_v[cols]))

"""Which entries to observe next: greedy reduction of the total posterior variance.

Observing entry c, with noise variance mu, takes cov(t, c)^2 / (var(c) + mu) off the variance of
every entry t: how much does not depend on the value that will be seen. One after the other the
entry is taken that takes most off the sum over t, per unit of cost; then

    cov(s, t) <- cov(s, t) - cov(s, c) cov(t, c) / (var(c) + mu)

is the covariance that goes with the next choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kronfill._types import Floats, Index
from kronfill.ridge.free_effects import FreeEffects
from kronfill.uncertainty.posterior import Posterior
from kronfill.uncertainty.queries import Queries

__all__ = ["Design", "greedy_variance", "unlocked"]


@dataclass(frozen=True, eq=False)
class Design:
    """Entries taken, in order.

    Attributes
    ----------
    at : ndarray of shape (n,)
        Positions among the candidates.
    variance : ndarray of shape (n,)
        Variance of each before it is observed, those before it being observed; s^2 = 1.
    share : ndarray of shape (n,)
        Share of the total variance, as it is now, that each takes off.
    """

    at: Index
    variance: Floats
    share: Floats


def greedy_variance(
    posterior: Posterior, candidates: Queries, targets: Queries, cost: Floats, n: int
) -> Design:
    """Take n candidates, each the one that takes most off the total variance of the targets.

    All variances must be finite.
    """
    mu = posterior.mu
    variance = posterior.variance(candidates)
    cov = posterior.covariance(candidates, targets)
    total = float(posterior.variance(targets).sum())
    taken: list[int] = []
    before: list[float] = []
    gains: list[float] = []
    updates = np.empty((n, len(candidates)))
    for step in range(n):
        gain = np.einsum("ct,ct->c", cov, cov) / (variance + mu)
        score = gain / cost
        score[taken] = -np.inf
        c = int(np.argmax(score))
        taken.append(c)
        before.append(float(variance[c]))
        gains.append(float(gain[c]))
        column = posterior.covariance(candidates, candidates.take(np.array([c])))[:, 0]
        column -= updates[:step].T @ updates[:step, c]
        update = column / np.sqrt(variance[c] + mu)
        cov -= np.outer(update, cov[c] / np.sqrt(variance[c] + mu))
        variance = np.maximum(variance - update**2, 0.0)
        updates[step] = update
    share = np.array(gains) / total if total > 0 else np.zeros(n)
    return Design(np.array(taken, dtype=np.intp), np.array(before), share)


def unlocked(free: FreeEffects, rows: Index, cols: Index) -> Floats:
    """Number of entries whose effects become estimable when each of these is observed."""
    n, l = free.table.shape
    if free.kind == "mean":
        return np.zeros(len(rows))
    cold_r = (np.asarray(free.table.sum(axis=1)).ravel() == 0)[rows]
    cold_c = (np.asarray(free.table.sum(axis=0)).ravel() == 0)[cols]
    if free.kind == "rows":
        return np.asarray(cold_r * float(l))
    if free.kind == "cols":
        return np.asarray(cold_c * float(n))
    # Two components are joined: the rows of each can be compared with the columns of the other.
    size = int(max(free.row_label.max(), free.col_label.max())) + 1
    in_rows = np.bincount(free.row_label, minlength=size).astype(float)
    in_cols = np.bincount(free.col_label, minlength=size).astype(float)
    a, b = free.row_label[rows], free.col_label[cols]
    return np.asarray((a != b) * (in_rows[a] * in_cols[b] + in_rows[b] * in_cols[a]))

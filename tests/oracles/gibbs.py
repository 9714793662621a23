"""Gibbs sampling of low-rank factors with Gaussian priors: slow, and exact in the limit."""

from __future__ import annotations

import numpy as np
import scipy.linalg


def sampled_tables(table, tau, mean, row_priors, col_priors, start, sweeps=2000, seed=0):
    """Samples of f_ij = mean + w_i . h_j + a_i + b_j given a table with NaN where not observed.

    A prior is one covariance over the items for each unknown of an axis: the factors, then the
    effect if there is one more. All items of an axis are drawn together, those of the other given,
    from the factors ``start`` of the columns on; the first tenth of the sweeps is left out.

    Yields
    ------
    ndarray of shape (N, L)
        The latent table after a sweep.
    """
    rng = np.random.default_rng(seed)
    seen = ~np.isnan(table)
    centred = np.where(seen, table - mean, 0.0)
    inverse = [[np.linalg.inv(k) for k in priors] for priors in (row_priors, col_priors)]
    row = np.zeros((table.shape[0], len(row_priors)))
    rank, burn = start.shape[1], sweeps // 10
    col = np.zeros((table.shape[1], len(col_priors)))
    col[:, :rank] = start
    for sweep in range(burn + sweeps):
        row = _drawn(centred, seen, tau, inverse[0], col, rank, rng)
        col = _drawn(centred.T, seen.T, tau, inverse[1], row, rank, rng)
        if sweep >= burn:
            yield mean + _product(row, col, rank)


def _product(row, col, rank):
    out = row[:, :rank] @ col[:, :rank].T
    if row.shape[1] > rank:
        out = out + row[:, rank:]
    return out + col[:, rank:].T if col.shape[1] > rank else out


def _drawn(values, seen, tau, inverse, other, rank, rng):
    """The unknowns of an axis given those of the other: one Gaussian of all items."""
    n, d = len(values), len(inverse)
    offset = other[:, rank:].T if other.shape[1] > rank else 0.0
    x = np.ones((len(other), d))
    x[:, :rank] = other[:, :rank]
    precision = np.zeros((d, n, d, n))
    for f in range(d):
        precision[f, :, f, :] = inverse[f]
    each = tau * np.einsum("ij,ja,jb->abi", seen, x, x)
    for i in range(n):
        precision[:, i, :, i] += each[:, :, i]
    right = tau * ((values - offset) * seen) @ x
    lower = np.linalg.cholesky(precision.reshape(d * n, d * n))
    first = scipy.linalg.solve_triangular(lower, right.T.ravel(), lower=True)
    drawn = scipy.linalg.solve_triangular(
        lower, first + rng.standard_normal(d * n), lower=True, trans="T"
    )
    return drawn.reshape(d, n).T

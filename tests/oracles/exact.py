"""The slow obvious way in 200 digits: what rounding cannot touch."""

from __future__ import annotations

import mpmath as mp
import numpy as np

DIGITS = 200
NOTHING = mp.mpf(10) ** -70
"""Weight of a penalty on the effects that makes them the smallest, and changes nothing else."""


def exact_predictions(row_kernel, col_kernel, X, y, mu, center=None, weights=None):
    """The whole matrix that KKMCEX predicts, from one saddle-point system.

    [Kbar + mu W^-1, Z; Z^T, -0] [d; beta] = [y; 0]
    """
    weights = np.ones(len(y)) if weights is None else weights
    with mp.workdps(DIGITS):
        kw, kh = (_matrix(kernel) for kernel in (row_kernel, col_kernel))
        shape = (kw.rows, kh.rows)
        design = [_effects(i, j, shape, center) for i, j in X]
        m, q = len(y), len(design[0])
        system = mp.matrix(m + q, m + q)
        for a, (i, j) in enumerate(X):
            for b, (r, c) in enumerate(X):
                system[a, b] = kw[int(i), int(r)] * kh[int(j), int(c)]
            system[a, a] += mp.mpf(float(mu)) / mp.mpf(float(weights[a]))
            for c in range(q):
                system[a, m + c] = system[m + c, a] = design[a][c]
        for c in range(1, q):
            system[m + c, m + c] = -NOTHING
        given = mp.matrix([*(mp.mpf(float(v)) for v in y), *[0] * q])
        found = mp.lu_solve(system, given)
        table = mp.matrix(*shape)
        for a, (i, j) in enumerate(X):
            table[int(i), int(j)] = found[a]
        fitted = kw * table * kh
        out = np.empty(shape)
        for i, j in np.ndindex(shape):
            effects = zip(_effects(i, j, shape, center), found[m:], strict=True)
            out[i, j] = float(fitted[i, j] + sum(one * beta for one, beta in effects))
    return out


def leading_part(kernel, rank):
    """The kernel of its leading eigenvectors, None where it is not clear which they are."""
    with mp.workdps(DIGITS):
        lam, vec = mp.eigsy(_matrix(kernel))
        order = sorted(range(len(lam)), key=lambda k: -lam[k])
        kept, rest = order[:rank], order[rank:]
        if rest and lam[kept[-1]] - lam[rest[0]] < lam[order[0]] / 1000:
            return None
        out = mp.matrix(len(lam), len(lam))
        for k in kept:
            out += max(lam[k], mp.mpf(0)) * vec[:, k] * vec[:, k].T
        return out


def _matrix(kernel):
    return kernel if isinstance(kernel, mp.matrix) else mp.matrix(np.asarray(kernel).tolist())


def _effects(i, j, shape, center):
    """The row of Z that belongs to an entry."""
    out = [] if center is None else [1]
    if center in ("rows", "both"):
        out += [int(i == r) for r in range(shape[0])]
    if center in ("cols", "both"):
        out += [int(j == c) for c in range(shape[1])]
    return out

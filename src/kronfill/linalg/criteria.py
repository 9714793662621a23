"""Leave-one-out errors of a ridge problem for a whole grid of mu, and the mu they choose.

With A = Kbar + mu I and free effects Z, let Q be an orthonormal basis of the complement of
range(Z) and Q^T Kbar Q = V diag(theta) V^T. Then, with B = Q V,

    M = A^-1 - A^-1 Z (Z^T A^-1 Z)^+ Z^T A^-1 = B diag(1 / (theta + mu)) B^T,

and the residual of entry i when it is left out is (M y)_i / M_ii: one eigendecomposition serves
every mu. Weights enter through sqrt(w), as in :mod:`kronfill.linalg.dense`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from kronfill.linalg.dense import entry_kernel
from kronfill.linalg.effects import EffectsDesign
from kronfill.linalg.operator import pair_products
from kronfill.linalg.pcg import PCG, FactorSystem
from kronfill.linalg.primal import FACTOR_RTOL
from kronfill.linalg.ridge import Mask, RidgeProblem, Sampled
from kronfill.linalg.threads import one_blas_thread

__all__ = ["best_mu", "holdout_split", "leave_one_out", "path_minimum"]

Floats = NDArray[np.float64]

EXACT_LIMIT = 3000
"""Up to this many observations leave-one-out is exact; beyond, a tenth is held out."""
HOLDOUT = 0.1


def leave_one_out(problem: RidgeProblem, mus: Floats) -> Floats:
    """Leave-one-out residuals y_i - f^(-i)(r_i, c_i), one row per value of mu.

    An entry that alone determines an effect has no leave-one-out residual: NaN.
    """
    s = problem.sampled
    root = s.root_weights
    theta, basis = _spectrum(problem)
    moments = basis.T @ (root * s.values)
    squared = basis**2
    out = np.empty((len(mus), s.m))
    for row, mu in zip(out, mus, strict=True):
        inverse = 1.0 / (theta + mu)
        diagonal = squared @ inverse
        alone = diagonal <= 1e-10 * inverse.max()
        row[:] = (basis @ (inverse * moments)) / np.where(alone, np.nan, diagonal) / root
    return out


def _spectrum(problem: RidgeProblem) -> tuple[Floats, Floats]:
    """Theta and B = Q V of the module's docstring."""
    s = problem.sampled
    kernel = entry_kernel(problem)
    if s.effects is None:
        theta, basis = scipy.linalg.eigh(kernel, lower=True, overwrite_a=True, check_finite=False)
        return np.maximum(theta, 0.0), basis
    kernel = np.tril(kernel) + np.tril(kernel, -1).T
    design = s.root_weights[:, None] * s.effects.matrix().toarray()
    q, r, _ = scipy.linalg.qr(design, pivoting=True, check_finite=False)
    size = np.abs(np.diag(r))
    rank = int(np.sum(size > 1e-10 * size[0]))
    q = q[:, rank:]
    theta, v = scipy.linalg.eigh(q.T @ kernel @ q, overwrite_a=True, check_finite=False)
    return np.maximum(theta, 0.0), q @ v


def mu_grid(scale: float, size: int = 40) -> Floats:
    """Values of mu worth trying, largest first: from 100 down to 1e-6 times ``scale``."""
    return scale * np.logspace(2, -6, size)


def mean_diagonal(problem: RidgeProblem) -> float:
    """Mean diagonal of Kbar, the natural unit of mu."""
    s = problem.sampled
    row, col = problem.row_kernel.diagonal(), problem.col_kernel.diagonal()
    mean = float(np.mean(row[s.rows] * col[s.cols]))
    return mean if mean > 0 else 1.0


def best_mu(problem: RidgeProblem) -> float:
    """The mu with the smallest leave-one-out error, or hold-out error where m is large."""
    s, scale = problem.sampled, mean_diagonal(problem)
    if s.m > EXACT_LIMIT:
        return _holdout_mu(problem, scale)
    mus = mu_grid(scale)
    with one_blas_thread():  # an eigendecomposition of this size gains nothing from more
        residuals = leave_one_out(problem, mus)
    usable = ~np.isnan(residuals[0])
    if not usable.any():
        return scale
    weights = np.ones(s.m) if s.weights is None else s.weights
    errors = (weights * residuals**2)[:, usable].sum(axis=1)
    return float(mus[int(np.argmin(errors))])


def _holdout_mu(problem: RidgeProblem, scale: float) -> float:
    """The mu with the least error on held-out entries, each solve from the one before."""
    train, test = holdout_split(problem.sampled)
    row = problem.row_kernel.factor(rtol=FACTOR_RTOL).phi
    col = problem.col_kernel.factor(rtol=FACTOR_RTOL).phi
    system = FactorSystem.of(row, col, train)
    start: Floats | None = None

    def error(mu: float) -> float:
        nonlocal start
        result = PCG(tol=1e-2, max_iter=100).solve_system(system, mu, start)
        start = result.core
        fitted = pair_products(row @ start, col, test.rows, test.cols)
        if result.effects is not None:
            fitted += result.effects.at(test.rows, test.cols)
        gap = test.root_weights * (test.values - fitted)
        return float(gap @ gap)

    return path_minimum(error, scale * np.logspace(2, -6, 9))


def path_minimum(error: Callable[[float], float], mus: Floats) -> float:
    """The mu with the least error along a path of powers of ten, then half-way to its neighbours.

    The path is left once the error has risen by a tenth above the least one.
    """
    errors: dict[float, float] = {}
    for mu in mus:
        errors[float(mu)] = error(float(mu))
        if errors[float(mu)] > 1.1 * min(errors.values()):
            break
    best = min(errors, key=errors.__getitem__)
    for mu in (best * 10**0.5, best * 10**-0.5):
        errors[mu] = error(mu)
    return min(errors, key=errors.__getitem__)


def holdout_split(sampled: Sampled, share: float = HOLDOUT) -> tuple[Sampled, Sampled]:
    """Training and test part of the observations, the same for the same observations."""
    rng = np.random.default_rng(0)
    test = np.zeros(sampled.m, dtype=bool)
    count = max(1, round(share * sampled.m))
    test[rng.choice(sampled.m, size=count, replace=False)] = True

    def part(keep: NDArray[np.bool_], kind: bool) -> Sampled:
        weights = None if sampled.weights is None else sampled.weights[keep]
        mask = Mask(sampled.rows[keep], sampled.cols[keep], sampled.shape, weights)
        design = None
        if kind and sampled.effects is not None:
            design = EffectsDesign(mask.rows, mask.cols, mask.shape, sampled.effects.kind, weights)
        return Sampled(mask, sampled.values[keep], design)

    return part(~test, True), part(test, False)

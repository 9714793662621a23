"""Means of a function of a Gaussian latent number."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from kronfill._types import Floats

__all__ = ["mean_sigmoid"]

NODES = 100
CHUNK = 50_000


def mean_sigmoid(mean: Floats, std: Floats) -> Floats:
    """E 1 / (1 + exp(-x)) for x ~ N(mean, std^2), by Gauss-Hermite quadrature.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.likelihoods.averages import mean_sigmoid
    >>> mean_sigmoid(np.array([2.0, 2.0, 2.0]), np.array([0.0, 2.0, np.inf])).round(4)
    array([0.8808, 0.7752, 0.5   ])
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    center, spread = np.ravel(mean), np.ravel(std)
    out = np.full(len(center), 0.5)
    finite = np.flatnonzero(np.isfinite(spread))
    for first in range(0, len(finite), CHUNK):
        part = finite[first : first + CHUNK]
        out[part] = expit(center[part, None] + spread[part, None] * nodes) @ weights
    return out.reshape(np.shape(mean))

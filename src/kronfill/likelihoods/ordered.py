"""Ordered levels from a number that orders them: slope and cut points of the largest likelihood.

P(y <= k) = 1 / (1 + exp(slope f - cuts[k])). The negative log likelihood is convex in slope and
cuts together (J. W. Pratt, "Concavity of the log likelihood", 1981).
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from kronfill._types import Floats
from kronfill.likelihoods.families import Ordinal

__all__ = ["ordered_link"]

STEPS, HALVINGS = 100, 60
SETTLED = 1e-12
"""Relative decrease of the loss at which steps end."""


def ordered_link(
    y: Floats, weights: Floats, f: Floats, levels: int, ridge: float = 0.0
) -> tuple[float, Floats]:
    """Slope and cuts for levels y = 0, ..., levels - 1, all of which occur, by Newton's method.

    What is minimised has ridge/2 times the squared slope beside the negative log likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.likelihoods.ordered import ordered_link
    >>> y, f = np.array([0.0, 0.0, 1.0, 1.0, 2.0, 1.0]), np.array([-2.0, 0.0, 0.3, -0.6, 1.0, 1.5])
    >>> slope, cuts = ordered_link(y, np.ones(6), f, 3)
    >>> round(slope, 2), cuts.round(2)
    (1.59, array([-0.96,  2.5 ]))
    """
    share = np.cumsum(np.bincount(y.astype(np.intp), weights, minlength=levels))[:-1]
    below = share / weights.sum()
    at = np.concatenate([[0.0], np.log(below) - np.log1p(-below)])  # the best cuts for slope 0
    value = _loss(y, weights, f, at, ridge)
    for _ in range(STEPS):
        gradient, hessian = _derivatives(y, weights, f, at)
        gradient[0] += ridge * at[0]
        hessian[0, 0] += ridge
        step = np.linalg.lstsq(hessian, gradient, rcond=None)[
            0
        ]  # a constant f leaves the slope open
        length = 1.0
        for _ in range(HALVINGS):
            further = _loss(y, weights, f, at - length * step, ridge)
            if further <= value:
                break
            length /= 2
        else:
            break
        settled = value - further <= SETTLED * abs(value)
        at, value = at - length * step, further
        if settled:
            break
    return float(at[0]), at[1:]


def _loss(y: Floats, weights: Floats, f: Floats, at: Floats, ridge: float) -> float:
    if not (np.diff(at[1:]) > 0).all():
        return np.inf
    loss = float(weights @ Ordinal(at[1:]).losses(y, at[0] * f))
    return loss + 0.5 * ridge * float(at[0]) ** 2


def _derivatives(y: Floats, weights: Floats, f: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Gradient and Hessian in slope and cuts.

    With a < b the ends of a level less eta its loss is -log s(b) - log s(-a) - log(1 - exp(a - b)).
    """
    eta, cuts, w = at[0] * f, at[1:], weights
    k, level = len(cuts), y.astype(np.intp)
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    low, high = ends[level] - eta, ends[level + 1] - eta
    with np.errstate(over="ignore"):
        between = 1.0 / np.expm1(high - low)  # 0 for the lowest and the highest level
    crossing = between * (1.0 + between)
    bend_high, bend_low = expit(high) * expit(-high), expit(low) * expit(-low)
    has_high, has_low = level < k, level > 0

    def by_cut(at_high: Floats, at_low: Floats) -> Floats:
        """Sums over the levels below and above each cut."""
        out = np.bincount(level[has_high], (w * at_high)[has_high], minlength=k)
        return np.asarray(out + np.bincount(level[has_low] - 1, (w * at_low)[has_low], minlength=k))

    slope, bend = Ordinal(cuts).derivatives(y, eta)
    gradient = np.append(w @ (slope * f), by_cut(-expit(-high) - between, expit(low) + between))
    hessian = np.zeros((k + 1, k + 1))
    hessian[0, 0] = w @ (bend * f * f)
    hessian[0, 1:] = hessian[1:, 0] = by_cut(-bend_high * f, -bend_low * f)
    hessian[1:, 1:] = np.diag(by_cut(bend_high + crossing, bend_low + crossing))
    inner = has_high & has_low
    beside = np.bincount(level[inner] - 1, (w * crossing)[inner], minlength=k)[: k - 1]
    hessian[1:, 1:] -= np.diag(beside, 1) + np.diag(beside, -1)
    return gradient, hessian

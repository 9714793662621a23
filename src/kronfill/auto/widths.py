"""How large errors are: variances of the low-rank part, brought to errors on hidden entries.

The variance of an error, noise included, is taken to be c t^p, where t is the variance by the
low-rank part and its noise. p = 1 where t is right up to its size; p < 1 where it says too much of
the difference between entries, as where it is sure of some and these have errors all the same.
"""

from __future__ import annotations

import numpy as np

from kronfill._types import Floats, Index

__all__ = ["fitted_width", "latent_variances"]

POWERS = np.linspace(0.1, 2.0, 39)
WIDTH = 0.5
"""Of the prior of p around 1."""
LEAST = 1e-6
"""Least c: where hidden entries are predicted without any error, as constant values are."""


def fitted_width(gap: Floats, total: Floats, weights: Floats, units: int) -> tuple[float, float]:
    """Square root of c, and p, by the likelihood of errors.

    Parameters
    ----------
    gap, total, weights : ndarray of shape (t,)
        Errors of hidden entries, their variances by the low-rank part, noise included, and how
        much each counts.
    units : int
        Number of independent errors.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.auto.widths import fitted_width
    >>> total = np.array([1.0, 100.0] * 200)
    >>> root, power = fitted_width(np.array([2.0, -20.0] * 200), total, np.ones(400), 400)
    >>> round(root, 3), round(power, 3)
    (2.0, 1.0)
    """
    share = weights / weights.sum()
    if share @ (gap**2 / total) < LEAST:
        return LEAST**0.5, 1.0
    logs = np.log(total)
    middle = float(share @ logs)
    ratio = np.exp(-POWERS[:, None] * (logs - middle))
    sizes = (ratio * gap**2) @ share
    cost = np.log(sizes) + ((POWERS - 1) / WIDTH) ** 2 / max(units, 1)
    best = int(np.argmin(cost))
    power = float(POWERS[best])
    return float(np.sqrt(sizes[best]) * np.exp(-0.5 * power * middle)), power


def latent_variances(
    variance: Floats, noise: float, kinds: Index, spread: Floats, power: Floats | None
) -> Floats:
    """Variances of latent values of each kind, from those of the low-rank part and its noise.

    Without ``power``, as models of earlier versions have it, they are spread^2 times those.
    """
    if power is None:
        return np.asarray(variance * spread[kinds] ** 2)
    whole = spread[kinds] ** 2 * (variance + noise) ** power[kinds]
    return np.asarray(np.maximum(whole - spread[0] ** 2 * noise ** power[0], 0.0))

"""Inverse of a large positive definite matrix by several threads, the same bits for any number."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from kronfill._types import Floats
from kronfill.core.threads import each

__all__ = ["inverse"]

STEP = 256
"""Rows and columns of the blocks in which the work is done."""


def inverse(a: Floats) -> Floats:
    """Inverse of a positive definite matrix given by its lower triangle, which is overwritten.

    Blocked Cholesky factorisation A = L L^T, then L^-1, then L^-T L^-1: every block is the work of
    one thread.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.core.inverse import inverse
    >>> inverse(np.array([[2.0, 0.0], [1.0, 2.0]])).round(6)
    array([[ 0.666667, -0.333333],
           [-0.333333,  0.666667]])
    """
    parts = [slice(k, min(k + STEP, len(a))) for k in range(0, len(a), STEP)]
    for at, part in enumerate(parts):
        _factor_panel(a, parts, at)
        below = parts[at + 1 :]
        pairs = [(one, other) for i, one in enumerate(below) for other in below[: i + 1]]

        def update(k: int, part: slice = part, pairs: list = pairs) -> None:  # type: ignore[type-arg]
            one, other = pairs[k]
            a[one, other] -= a[one, part] @ a[other, part].T

        each(len(pairs), update)
    turned = np.zeros_like(a)

    def turn(k: int) -> None:
        rest, part = slice(parts[k].start, None), parts[k]
        unit = np.eye(len(a) - part.start, part.stop - part.start)
        turned[rest, part] = scipy.linalg.solve_triangular(
            a[rest, rest], unit, lower=True, check_finite=False
        )

    each(len(parts), turn)
    tiles = [(i, j) for i in range(len(parts)) for j in range(i + 1)]

    def join(k: int) -> None:
        i, j = tiles[k]
        rest = slice(parts[i].start, None)
        block = turned[rest, parts[i]].T @ turned[rest, parts[j]]
        a[parts[i], parts[j]] = block
        a[parts[j], parts[i]] = block.T

    each(len(tiles), join)
    return a


def _factor_panel(a: Floats, parts: list[slice], at: int) -> None:
    """Factor a block of the diagonal, and solve for the blocks below it."""
    part = parts[at]
    corner = scipy.linalg.cholesky(a[part, part], lower=True, check_finite=False)
    a[part, part] = corner

    def job(k: int) -> None:
        one = parts[at + 1 + k]
        a[one, part] = scipy.linalg.solve_triangular(
            corner, a[one, part].T, lower=True, check_finite=False
        ).T

    each(len(parts) - at - 1, job)

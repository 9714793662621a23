"""The compiled loop of a Chebyshev series of a sparse matrix."""

from __future__ import annotations

from typing import Any

import numba

from kronfill._types import Floats
from kronfill.core.threads import each

__all__ = ["chebyshev_sum"]

_ROWS = 512


def chebyshev_sum(twice: Any, coefficients: Floats, V: Floats) -> Floats:
    """Return ``sum_k c_k T_k(Y) V`` for the csr matrix ``2 Y`` and at least two coefficients."""
    before, now = V.copy(), 0.5 * (twice @ V)
    total: Floats = coefficients[0] * before + coefficients[1] * now
    for coefficient in coefficients[2:]:
        _advance(twice, now, before, total, coefficient)
        before, now = now, before
    return total


@numba.njit(nogil=True, cache=True)
def _advance_rows(data, indices, indptr, now, before, total, c, first, last):  # type: ignore[no-untyped-def]
    """before <- 2 Y now - before and total += c before, for the rows first, ..., last - 1."""
    for i in range(first, last):
        row = before[i]
        for j in range(len(row)):
            row[j] = -row[j]
        for k in range(indptr[i], indptr[i + 1]):
            weight, other = data[k], now[indices[k]]
            for j in range(len(row)):
                row[j] += weight * other[j]
        for j in range(len(row)):
            total[i, j] += c * row[j]


def _advance(twice: Any, now: Floats, before: Floats, total: Floats, c: float) -> None:
    """Every row is computed by one thread, so the result does not depend on their number."""
    given = (twice.data, twice.indices, twice.indptr, now, before, total, c)

    def job(block: int) -> None:
        first = block * _ROWS
        _advance_rows(*given, first, min(first + _ROWS, len(now)))

    each(-(-len(now) // _ROWS), job)

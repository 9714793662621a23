"""The posterior of the factors of every row, with those of the columns fixed: one half-step.

An entry is y = x_i . z_j + noise of variance 1 / (tau w), where x_i = (own_i, 1) holds the unknown
factors of a row and z_j = (partner_j, offset_j) what multiplies them in a column, and what is added
whatever the row is. Of z_j the mean and the second moments are known, E[z z^T] being kept as a
packed lower triangle. The posterior of own_i is Gaussian with

    precision   tau sum_j w E[partner partner^T] + diag(prior precision)
    mean        covariance (tau sum_j w (y E[partner] - E[partner offset]) + precision o prior mean)

and the expected square of the residuals of the row follows from the same two sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from kronfill._types import Floats, Index
from kronfill.core.grouping import Grouped
from kronfill.core.loops.passes import FAST
from kronfill.core.threads import each, one_blas_thread

__all__ = ["ONE", "ZERO", "HalfStep", "half_step", "packed_size", "second_moments"]

ONE, ZERO = -1, -2
"""Columns of z that are constant."""

BLOCKS = 128
TILE_BYTES = 8_000_000
"""Second moments that are worked with at a time: what the last cache holds is read from there."""
GROUP_BYTES = 32_000_000
"""Sums of items that are kept at a time."""


def packed_size(d: int) -> int:
    """Numbers in the lower triangle of a d x d matrix."""
    return d * (d + 1) // 2


@dataclass(frozen=True, eq=False)
class HalfStep:
    """Posterior of the factors of every item of one axis."""

    mean: Floats
    """(items, d)."""
    covariance: Floats
    """(items, d (d + 1) / 2): lower triangles, row by row."""
    log_det: Floats
    """Logarithm of the determinant of each covariance."""
    squares: float
    """Expected weighted sum of the squared residuals."""
    residual: float
    """Weighted sum of the expected residuals."""


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _add_tile(  # type: ignore[no-untyped-def]
    moments, means, values, inner, weights, limit, queue, block, blocks, at, end,
    second, first, plain, totals,
):  # fmt: skip
    """Add the observations with others below ``limit`` to the sums of some items.

    second = sum_k w_k E[z z^T], first = sum_k w_k y_k E[z], plain = sum_k w_k E[z], totals the sums
    of w y and w y^2; at[i] is the first observation that was not added yet. Four observations at a
    time: the sums are then read and written a quarter as often.
    """
    weighted = len(weights) > 0
    for place in range(block, len(queue), blocks):
        begin = at[place]
        stop = begin
        while stop < end[place] and inner[stop] < limit:
            stop += 1
        at[place] = stop
        into = second[place]
        fours = stop - (stop - begin) % 4
        for k in range(begin, fours, 4):
            s0, s1 = moments[inner[k]], moments[inner[k + 1]]
            s2, s3 = moments[inner[k + 2]], moments[inner[k + 3]]
            if weighted:
                w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
                for q in range(len(into)):
                    into[q] += (w0 * s0[q] + w1 * s1[q]) + (w2 * s2[q] + w3 * s3[q])
            else:
                for q in range(len(into)):
                    into[q] += (s0[q] + s1[q]) + (s2[q] + s3[q])
        for k in range(fours, stop):
            w = weights[k] if weighted else 1.0
            s0 = moments[inner[k]]
            for q in range(len(into)):
                into[q] += w * s0[q]
        a_sum, b_sum = first[place], plain[place]
        for k in range(begin, stop):
            w = weights[k] if weighted else 1.0
            y, mean = values[k], means[inner[k]]
            for a in range(len(a_sum)):
                a_sum[a] += w * y * mean[a]
                b_sum[a] += w * mean[a]
            totals[place, 0] += w * y
            totals[place, 1] += w * y * y


@numba.njit(cache=True, fastmath=FAST)
def _factor(a, d):  # type: ignore[no-untyped-def]
    """Cholesky factor of the leading d x d block of the lower triangle a, in place."""
    for i in range(d):
        for j in range(i):
            v = a[i, j]
            for c in range(j):
                v -= a[i, c] * a[j, c]
            a[i, j] = v / a[j, j]
        v = a[i, i]
        for c in range(i):
            v -= a[i, c] * a[i, c]
        a[i, i] = np.sqrt(v)


@numba.njit(cache=True, fastmath=FAST)
def _invert(a, d, inverse, out):  # type: ignore[no-untyped-def]
    """Packed (L L^T)^-1 from the factor L in a."""
    for j in range(d):
        for i in range(j):
            inverse[i, j] = 0.0
        inverse[j, j] = 1.0 / a[j, j]
        for i in range(j + 1, d):
            v = 0.0
            for c in range(j, i):
                v -= a[i, c] * inverse[c, j]
            inverse[i, j] = v / a[i, i]
    at = 0
    for i in range(d):
        for j in range(i + 1):
            out[at + j] = 0.0
        at += i + 1
    for c in range(d):  # S = sum_c (row c of L^-1)^T (row c of L^-1)
        at = 0
        row = inverse[c]
        for i in range(c + 1):
            v = row[i]
            for j in range(i + 1):
                out[at + j] += v * row[j]
            at += i + 1


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _solve(  # type: ignore[no-untyped-def]
    all_second, all_first, all_plain, totals, tau, precision, prior, queue, block, blocks,
    mean, covariance, log_det, squares, residual,
):  # fmt: skip
    """Posterior of the items queue[block], queue[block + blocks], ... from their sums."""
    d = prior.shape[1]
    a, inverse, b = np.empty((d, d)), np.empty((d, d)), np.empty(d)
    last = d * (d + 1) // 2  # where the offset begins in a packed triangle
    for place in range(block, len(queue), blocks):
        i = queue[place]
        second, first, plain = all_second[place], all_first[place], all_plain[place]
        total, rest = totals[place, 0], totals[place, 1]
        at = 0
        for r in range(d):
            for c in range(r + 1):
                a[r, c] = tau * second[at + c]
            a[r, r] += precision[r]
            b[r] = tau * (first[r] - second[last + r]) + precision[r] * prior[i, r]
            at += r + 1
        _factor(a, d)
        _invert(a, d, inverse, covariance[i])
        det = 0.0
        for r in range(d):
            det -= 2.0 * np.log(a[r, r])
        log_det[i] = det
        x = mean[i]
        for r in range(d):
            v = b[r]
            for c in range(r):
                v -= a[r, c] * x[c]
            x[r] = v / a[r, r]
        for r in range(d - 1, -1, -1):
            v = x[r] / a[r, r]
            x[r] = v
            for c in range(r):
                x[c] -= a[r, c] * v
        # E(y - x.own - offset)^2, x = (own, 1).
        total -= plain[d]
        rest += second[last + d] - 2.0 * first[d]
        at = 0
        for r in range(d):
            total -= x[r] * plain[r]
            rest += 2.0 * x[r] * (second[last + r] - first[r])
            for c in range(r):
                rest += 2.0 * second[at + c] * (x[r] * x[c] + covariance[i, at + c])
            rest += second[at + r] * (x[r] * x[r] + covariance[i, at + r])
            at += r + 1
        squares[i] = rest
        residual[i] = total


@numba.njit(nogil=True, cache=True, fastmath=FAST)
def _outer(mean, covariance, source, first, last, means, moments):  # type: ignore[no-untyped-def]
    d = len(source)
    for i in range(first, last):
        for a in range(d):
            if source[a] >= 0:
                means[i, a] = mean[i, source[a]]
            else:
                means[i, a] = 1.0 if source[a] == ONE else 0.0
        at = 0
        for a in range(d):
            for b in range(a + 1):
                moments[i, at + b] = means[i, a] * means[i, b]
            if source[a] >= 0:
                begin = source[a] * (source[a] + 1) // 2
                for b in range(a + 1):
                    if source[b] >= 0:
                        moments[i, at + b] += covariance[i, begin + source[b]]
            at += a + 1


def second_moments(mean: Floats, covariance: Floats, source: Index) -> tuple[Floats, Floats]:
    """E[z] and packed E[z z^T] of every item.

    Parameters
    ----------
    mean, covariance : ndarray of shape (items, unknowns) and (items, packed)
        Of the unknowns.
    source : ndarray of int
        Which unknown each column of z is, in rising order, ONE or ZERO.
    """
    n, d = len(mean), len(source)
    means, moments = np.empty((n, d)), np.empty((n, packed_size(d)))
    pieces = max(1, min(32, n // 256))
    mean, covariance = np.ascontiguousarray(mean), np.ascontiguousarray(covariance)
    each(
        pieces,
        lambda k: _outer(
            mean, covariance, source, n * k // pieces, n * (k + 1) // pieces, means, moments
        ),
    )
    return means, moments


def half_step(
    means: Floats,
    moments: Floats,
    grouped: Grouped,
    values: Floats,
    tau: float,
    precision: Floats,
    prior: Floats,
) -> HalfStep:
    """Posterior of the factors of every item, those of the other axis fixed.

    Parameters
    ----------
    means : ndarray of shape (others, d + 1)
        E[z] of every item of the other axis; the last column is the offset.
    moments : ndarray of shape (others, (d + 1) (d + 2) / 2)
        E[z z^T], packed.
    grouped : Grouped
        Observations grouped by item.
    values : ndarray of shape (m,)
        Values in grouped order.
    tau : float
        Precision of the noise of an observation of weight 1.
    precision : ndarray of shape (d,)
        Of the prior of the factors.
    prior : ndarray of shape (items, d)
        Prior means.

    Returns
    -------
    HalfStep
    """
    n, d = prior.shape
    queue = np.argsort(-np.diff(grouped.indptr), kind="stable")  # the threads finish together
    moments, means = np.ascontiguousarray(moments), np.ascontiguousarray(means)
    prior = np.ascontiguousarray(prior)
    found = (
        np.empty((n, d)), np.empty((n, packed_size(d))), np.empty(n), np.empty(n), np.empty(n),
    )  # fmt: skip
    group = max(1, GROUP_BYTES // moments[:1].nbytes)
    with one_blas_thread():
        for begin in range(0, n, group):
            items = queue[begin : begin + group]
            sums = _sums_of(items, moments, means, grouped, values)
            _each(_solve, items, *sums, tau, precision, prior, out=found)
    mean, covariance, log_det, squares, residual = found
    return HalfStep(mean, covariance, log_det, float(squares.sum()), float(residual.sum()))


def _sums_of(
    items: Index, moments: Floats, means: Floats, grouped: Grouped, values: Floats
) -> tuple[Floats, ...]:
    """What the systems of these items are made of, a tile of the moments after the other."""
    n, width = len(items), means.shape[1]
    sums = np.zeros((n, moments.shape[1])), np.zeros((n, width)), np.zeros((n, width))
    out = grouped.indptr[items], grouped.indptr[items + 1], *sums, np.zeros((n, 2))
    tile = max(1, TILE_BYTES // moments[:1].nbytes)
    for first in range(0, len(moments), tile):
        given = moments, means, values, grouped.inner, grouped.weights, first + tile
        _each(_add_tile, items, *given, out=out)
    return out[2:]


def _each(work: Any, items: Index, *given: Any, out: tuple[Any, ...]) -> None:
    """Deal the items out to the threads."""
    blocks = max(1, min(BLOCKS, -(-len(items) // 16)))
    each(blocks, lambda block: work(*given, items, block, blocks, *out))

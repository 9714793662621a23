"""Zeros for tables of which ones alone are recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill._types import Index
from kronfill.data import Observations
from kronfill.errors import DataError
from kronfill.estimators.inputs import random_generator

__all__ = ["with_sampled_zeros"]


def with_sampled_zeros(ones: Observations, random_state: Any) -> Observations:
    """The ones, and as many zeros at entries that are not among them, drawn at random.

    They are drawn in rows and columns that have a one: of the others nothing was recorded, and a
    zero would say that something was. Only where there are no such entries may they be anywhere.
    No object of the size of the table arises unless the ones are half of it.

    Examples
    --------
    >>> import kronfill as kf
    >>> from kronfill.estimators.generalized.negatives import with_sampled_zeros
    >>> ones = kf.Observations([0, 1], [2, 0], [1.0, 1.0], (40, 30))
    >>> with_sampled_zeros(ones, 0).values
    array([1., 1., 0., 0.])
    """
    warm = [np.flatnonzero(counts) for counts in (ones.row_counts, ones.col_counts)]
    if len(warm[0]) * len(warm[1]) == ones.m:
        warm = [np.arange(size) for size in ones.shape]
    n, l = len(warm[0]), len(warm[1])
    at = [
        np.searchsorted(some, own) for some, own in zip(warm, (ones.rows, ones.cols), strict=True)
    ]
    seen = np.sort(at[0].astype(np.int64) * l + at[1])
    wanted = min(ones.m, n * l - ones.m)
    if wanted == 0:
        msg = "Every entry is observed as a one: there is none that could stand for a zero."
        raise DataError(msg)
    drawn = _others(seen, n * l, wanted, random_generator(random_state))
    rows, cols = np.divmod(drawn, l)
    weights = None
    if ones.weights is not None:  # all zeros together weigh as much as all ones
        weights = np.concatenate([ones.weights, np.full(wanted, ones.weights.sum() / wanted)])
    return Observations(
        np.concatenate([ones.rows, warm[0][rows]]),
        np.concatenate([ones.cols, warm[1][cols]]),
        np.concatenate([np.ones(ones.m), np.zeros(wanted)]),
        ones.shape,
        weights=weights,
        row_labels=ones.row_labels,
        col_labels=ones.col_labels,
    )


def _others(seen: Index, size: int, wanted: int, rng: np.random.Generator) -> Index:
    """Distinct numbers below ``size`` that are not ``seen``, which is sorted."""
    if 2 * len(seen) >= size:
        rest = np.setdiff1d(np.arange(size), seen, assume_unique=True)
        return np.asarray(rng.choice(rest, wanted, replace=False))
    found = np.empty(0, np.int64)
    while len(found) < wanted:
        more = rng.integers(0, size, 2 * wanted)
        at = np.searchsorted(seen, more).clip(max=len(seen) - 1)
        fresh = np.concatenate([found, more[seen[at] != more]])
        found = fresh[np.sort(np.unique(fresh, return_index=True)[1])]  # in the order drawn
    return found[:wanted]

"""What a method says about entries that are hidden from it, for each kind of entry."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._types import Flags, Floats, Index
from kronfill.data import Observations
from kronfill.errors import ConvergenceWarning, DataError
from kronfill.estimators.base import fitted_form

__all__ = ["HiddenLatents", "hidden_latents"]

SMALL = 3000
"""Up to so many observations each is hidden once; of more, a tenth is, once."""
FOLDS = 5
ITEMS = 100
"""So many rows and columns are hidden, or each of them once: what new ones are like is learned from
rows, however many entries each has."""
LEAST = 10
"""Fewer observations are not hidden; nor are rows (columns) where there are fewer than FOLDS."""


@dataclass(frozen=True, eq=False)
class HiddenLatents:
    """Positions of hidden observations, what was predicted for them, and their kinds."""

    at: Index
    f: Floats
    kinds: Index

    @classmethod
    def joined(cls, parts: list[HiddenLatents]) -> HiddenLatents:
        """All of them together."""
        return cls(*(np.concatenate([getattr(one, k) for one in parts])
                     for k in ("at", "f", "kinds")))  # fmt: skip


def hidden_latents(
    fit: Callable[[Observations], Any], observations: Observations, rng: np.random.Generator
) -> HiddenLatents | None:
    """Predictions for entries, rows and columns, each hidden from the fit; None for too few.

    Parameters
    ----------
    fit : callable
        Makes a fitted method of observations.
    observations : Observations
        All of them; those of weight zero take no part.
    rng : Generator
        Draws what is hidden.
    """
    if observations.m < LEAST:
        return None
    found = []
    for hidden in _splits(observations, rng):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = fit(observations.take(~hidden))
        except DataError:  # what is left has one class only, or says nothing about an effect
            continue
        rows, cols = observations.rows[hidden], observations.cols[hidden]
        train = observations.take(~hidden)
        kinds = (train.row_counts[rows] == 0) + 2 * (train.col_counts[cols] == 0)
        f = fitted_form(model).pairs(rows, cols)
        found.append(HiddenLatents(np.flatnonzero(hidden), f, np.asarray(kinds, np.intp)))
    return HiddenLatents.joined(found) if found else None


def _splits(obs: Observations, rng: np.random.Generator) -> Iterator[Flags]:
    """Which observations are hidden, for each fit: some of all, then those of rows and columns."""
    used = np.ones(obs.m, bool) if obs.weights is None else obs.weights > 0
    small = obs.m <= SMALL
    label = rng.permutation(obs.m) % (FOLDS if small else 2 * FOLDS)
    groups, folds = [], FOLDS if small else 1
    for index, counts in ((obs.rows, obs.row_counts), (obs.cols, obs.col_counts)):
        items = rng.permutation(np.flatnonzero(counts))
        if len(items) >= FOLDS:
            place = np.full(len(counts), -1)
            place[items] = np.arange(len(items)) % FOLDS
            groups.append(place[index])
            folds = max(folds, min(FOLDS, -(-ITEMS * FOLDS // len(items))))
    for k in range(FOLDS if small else 1):
        yield from _usable(used & (label == k), used)
    for k in range(folds if groups else 0):
        yield from _usable(used & np.logical_or.reduce([group == k for group in groups]), used)


def _usable(hidden: Flags, used: Flags) -> Iterator[Flags]:
    """The split, if something is hidden and something is left."""
    if hidden.any() and (used & ~hidden).any():
        yield hidden

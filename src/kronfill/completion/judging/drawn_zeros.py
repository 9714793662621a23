"""Zeros beside hidden ones, where ones alone are recorded: what a ranking is measured against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kronfill._types import Index
from kronfill.data import Observations
from kronfill.estimators.folds import Fold

__all__ = ["with_drawn_zeros"]


def with_drawn_zeros(fold: Fold) -> Fold:
    """The fold with a zero in the row of each hidden one, as new or as known as that is.

    Columns are drawn at random among those of the same kind; the few that hold a one in that row
    are left out. The training part has the zeros that the fit has drawn.
    """
    train, held = fold.train, fold.held
    rng = np.random.default_rng(0)
    seen = train.col_counts > 0
    new = ~seen[held.cols]
    cols = np.empty(held.m, np.intp)
    for flags, choices in ((new, np.unique(held.cols[new])), (~new, np.flatnonzero(seen))):
        if flags.any():
            cols[flags] = rng.choice(choices, int(flags.sum()))
    ones = np.concatenate(
        [_codes(train, train.rows, train.cols), _codes(held, held.rows, held.cols)]
    )
    zeros, first = np.unique(_codes(held, held.rows, cols), return_index=True)
    at = np.sort(first[~np.isin(zeros, ones)])
    both = Observations(
        np.concatenate([held.rows, held.rows[at]]),
        np.concatenate([held.cols, cols[at]]),
        np.concatenate([held.values, np.zeros(len(at))]),
        held.shape,
    )
    drawn: Observations = fold.model.observations_
    return replace(fold, train=drawn, held=both, predicted=fold.model.predict(both))


def _codes(obs: Observations, rows: Index, cols: Index) -> Index:
    return rows.astype(np.int64) * obs.shape[1] + cols

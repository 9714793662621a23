"""Errors of a method on what a fit has not seen: entries, whole rows, whole columns, or both.

Each part is drawn at random and left out of one fit. What is asked about must be as good a draw:

* entries of known rows and columns: as likely to be missing as a mask model says;
* a new row: rows are exchangeable, and within a row the columns asked about with those observed;
* new row and column: rows are exchangeable and so are columns; only entries that share neither row
  nor column are independent draws, so that few count.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import maximum_bipartite_matching
from sklearn.base import clone

from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.data.amounts import count_of
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import MatrixRegressor, fitted_kernels
from kronfill.estimators.choices import kept
from kronfill.estimators.conformal.left_out_errors import Around, LeavingItemsOut, joint_label
from kronfill.estimators.conformal.scales import ConstantScale, Scale, learned_scale, model_scale
from kronfill.estimators.folds import Fold, left_out
from kronfill.kernels.base import Kernel
from kronfill.masks import fit_mask

__all__ = [
    "SCORES",
    "check_scores",
    "cold",
    "held_entries",
    "held_items",
    "held_pairs",
    "items_in_turn",
]

SCORES = ("absolute", "normalised", "auto")
LEAST_LEARNED = 50
"""So many errors are needed for a scale to be learned."""
INNER = 0.2
"""Share of the training part that is left out to learn the scale."""
ITEMS, MOST_ITEMS = 20, 100
"""Rows (columns) that are left out: a fifth, but no fewer and no more than this."""


def held_entries(
    model: MatrixRegressor,
    observations: Observations,
    held: NDArray[np.bool_],
    *,
    mask: str = "uniform",
    kernels: tuple[Kernel | None, Kernel | None] | None = None,
    scores: str = "absolute",
    groups: tuple[Index | None, Index | None] | None = None,
    count: int = 0,
    seed: int = 0,
) -> Around:
    """Fit without the entries ``held`` and take widths for known rows and columns from them.

    The mask model and the scale are made from the training part alone. ``kernels`` is what the mask
    may follow, by default those of the method.
    """
    (fold,) = left_out(model.fit, observations, [(~held, held)])
    part, rest = fold.train, fold.held
    warm = ~cold(part, rest.rows, rest.cols)
    rows, cols = rest.rows[warm], rest.cols[warm]
    share = part.m / observations.m
    known = fitted_kernels(fold.model) if kernels is None else kernels
    model_of_mask = fit_mask(mask, part, share, known)
    scale = _scale(fold, scores, count, seed)
    size = np.abs(fold.gap)[warm]
    if scale is not None:
        size = size / scale.at(rows, cols)
    order = np.argsort(size, kind="stable")
    odds = None if model_of_mask is None else model_of_mask.odds(rows, cols)[order]
    label = None if groups is None else joint_label(groups, rows, cols)[order]
    return Around(
        fold.model, size[order], odds, scale, model_of_mask, groups, label, rows[order], cols[order]
    )


def _scale(fold: Fold, scores: str, count: int, seed: int) -> Scale | None:
    """What widths follow, from the training part alone; None for nothing."""
    if scores == "absolute":
        return None
    own = model_scale(fold.model, count)
    if scores == "normalised":
        return own
    part = fold.train
    inner = np.random.default_rng(seed).random(part.m) < INNER
    if np.count_nonzero(inner) < LEAST_LEARNED:
        return own if not isinstance(own, ConstantScale) else None
    (again,) = left_out(kept(fold.model).fit, part, [(~inner, inner)])
    left = again.held
    warm = ~cold(again.train, left.rows, left.cols)
    if np.count_nonzero(warm) < LEAST_LEARNED:
        return own
    base = model_scale(again.model, count)
    counts = (part.row_counts, part.col_counts)
    found = learned_scale(base, left.rows[warm], left.cols[warm], again.gap[warm], counts)
    return found.on(own)


def held_items(
    model: MatrixRegressor,
    observations: Observations,
    axis: int,
    *,
    scores: str = "auto",
    count: int = 0,
    seed: int = 0,
    groups: Index | None = None,
) -> Around:
    """Fit without a fifth of the rows (columns), each of which counts 1: splitting rows.

    With K of them coverage is 1 - alpha; 1 / (K + 1) lies at infinity. With a group for each row
    (column) K is the number of those left out in the group of the one asked about.
    """
    drawn = _drawn(observations, axis, seed)
    held = np.isin((observations.rows, observations.cols)[axis], drawn)
    (fold,) = left_out(model.fit, observations, [(~held, held)])
    found = _usable(fold, axis)
    scale = ConstantScale() if scores == "absolute" else _item_scale(fold.model, count)
    size, weights = _counted_once(fold, found, axis, scale)
    order = np.argsort(size, kind="stable")
    if groups is None:
        return Around(fold.model, size[order], weights[order], scale)
    pair = (groups, None) if axis == 0 else (None, groups)
    rows, cols = fold.held.rows[found][order], fold.held.cols[found][order]
    label = joint_label(pair, rows, cols)
    return Around(fold.model, size[order], weights[order], scale, groups=pair, label=label)


def items_in_turn(
    model: MatrixRegressor,
    observations: Observations,
    axis: int,
    *,
    scores: str = "auto",
    count: int = 0,
) -> LeavingItemsOut:
    """Leave every row (column) out in turn: jackknife+ over rows, coverage 1 - 2 alpha."""
    index = (observations.rows, observations.cols)[axis]
    items = np.unique(index)
    if len(items) < 2:
        raise DataError(_too_few(axis, len(items)))
    splits = ((index != item, index == item) for item in items)
    fits = list(left_out(lambda part: clone(model).fit(part), observations, splits))
    scales, sizes, weights, labels = [], [], [], []
    for k, fold in enumerate(fits):
        scale = ConstantScale() if scores == "absolute" else _item_scale(fold.model, count)
        size, weight = _counted_once(fold, _usable(fold, axis), axis, scale)
        scales.append(scale)
        sizes.append(size)
        weights.append(weight)
        labels.append(np.full(len(size), k, dtype=np.intp))
    return LeavingItemsOut(
        fits[0].model,
        np.concatenate(sizes),
        np.concatenate(weights),
        np.concatenate(labels),
        tuple(fold.model for fold in fits),
        tuple(scales),
    )


def held_pairs(
    model: MatrixRegressor,
    observations: Observations,
    *,
    scores: str = "auto",
    count: int = 0,
    seed: int = 0,
) -> Around:
    """Fit without some rows and some columns; their entries that share neither count 1 each."""
    rows, cols = (_drawn(observations, axis, seed) for axis in (0, 1))
    in_row, in_col = np.isin(observations.rows, rows), np.isin(observations.cols, cols)
    held = in_row | in_col
    (fold,) = left_out(model.fit, observations, [(~held, held)])
    crossing = np.flatnonzero((in_row & in_col)[held])
    at = (np.searchsorted(rows, fold.held.rows[crossing]).astype(np.int32),
          np.searchsorted(cols, fold.held.cols[crossing]).astype(np.int32))  # fmt: skip
    table = sparse.csr_array((crossing + 1.0, at), shape=(len(rows), len(cols)))
    partner = maximum_bipartite_matching(sparse.csr_matrix(table != 0), perm_type="column")
    pairs = [int(table[i, j]) - 1 for i, j in enumerate(partner) if j >= 0]
    if not pairs:
        msg = "No entry of a row that is left out lies in a column that is left out."
        raise DataError(msg)
    scale = ConstantScale() if scores == "absolute" else _item_scale(fold.model, count)
    size = np.abs(fold.gap[pairs]) / scale.at(fold.held.rows[pairs], fold.held.cols[pairs])
    return Around(fold.model, np.sort(size), None, scale)


def _item_scale(model: MatrixRegressor, count: int) -> Scale:
    """The standard deviation of a fit without the item; factors alone say nothing about it."""
    return model_scale(model, count) if hasattr(model, "predict_std") else ConstantScale()


def _drawn(observations: Observations, axis: int, seed: int) -> Index:
    """Which rows (columns) are left out, sorted."""
    items = np.flatnonzero((observations.row_counts, observations.col_counts)[axis])
    wanted = min(max(ITEMS, len(items) // 5), MOST_ITEMS, len(items) // 2)
    if wanted < 1:
        raise DataError(_too_few(axis, len(items)))
    rng = np.random.default_rng([seed, axis])
    return np.sort(rng.choice(items, wanted, replace=False))


def _too_few(axis: int, count: int) -> str:
    name = ("row", "column")[axis]
    return f"Intervals for new {name}s need 2 {name}s at least, there is {count_of(count, name)}."


def _usable(fold: Fold, axis: int) -> NDArray[np.intp]:
    """Entries held out whose column (row) the fit knows."""
    other = (fold.train.col_counts[fold.held.cols], fold.train.row_counts[fold.held.rows])[axis]
    known = np.flatnonzero((other > 0) | (fold.train.shape[1 - axis] == 1))
    if not len(known):
        name = ("column", "row")[axis]
        msg = f"No entry that was left out lies in a {name} of which something else is known."
        raise DataError(msg)
    return known


def _counted_once(
    fold: Fold, found: NDArray[np.intp], axis: int, scale: Scale
) -> tuple[Floats, Floats]:
    """Errors over the scale, and the weight of each: one over the entries of its row (column)."""
    rows, cols = fold.held.rows[found], fold.held.cols[found]
    _, label, counts = np.unique((rows, cols)[axis], return_inverse=True, return_counts=True)
    return np.abs(fold.gap[found]) / scale.at(rows, cols), 1.0 / counts[label]


def cold(observations: Observations, rows: Any, cols: Any) -> NDArray[np.bool_]:
    """Whether the row or the column of each entry is without observations.

    In a matrix of one row every column has one entry: whichever is left out, its column is cold, so
    that there cold columns are exchangeable. The same goes for a single column.
    """
    n, l = observations.shape
    cold_row, cold_col = observations.row_counts == 0, observations.col_counts == 0
    return np.asarray((cold_row[rows] & (l > 1)) | (cold_col[cols] & (n > 1)))


def check_scores(scores: Any) -> None:
    """Raise unless ``scores`` is one of those known."""
    if scores not in SCORES:
        msg = f"scores must be one of {SCORES}, got {scores!r}."
        raise ParameterError(msg)

"""Means of a fitted table over blocks of rows and columns, from its factors.

F = Phi_w X Phi_h^T + effects, so that the mean over a block is the product of the means of the
factors: the table itself is never formed. Mixes and what stands behind a link are no such product:
there some rows are predicted at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.estimators.base import bilinear_form, fitted_form
from kronfill.estimators.fitted.bilinear import Basis, Bilinear
from kronfill.estimators.fitted.identity_part import IdentityForm

__all__ = [
    "block_of",
    "edges",
    "filled_means",
    "item_means",
    "observed_share",
    "predicted_means",
]

CHUNK_FLOATS = 4_000_000


def edges(size: int, blocks: int) -> Index:
    """Where ``blocks`` blocks of sizes that differ by at most one begin, and the end."""
    return np.asarray(np.arange(blocks + 1) * size // blocks, np.intp)


def block_of(at: Index, bounds: Index) -> Index:
    """Block of each item."""
    return np.searchsorted(bounds, at, side="right") - 1


def filled_means(model: Any, obs: Observations, rows: Index, cols: Index) -> Floats:
    """Mean over each block of observed values, and predictions where nothing was observed."""
    gap = obs.values - model.predict(obs)
    return predicted_means(model, rows, cols) + _entry_means(obs.rows, obs.cols, gap, rows, cols)


def observed_share(obs: Observations, rows: Index, cols: Index) -> Floats:
    """Share of the entries of each block that were observed."""
    return _entry_means(obs.rows, obs.cols, None, rows, cols)


def predicted_means(model: Any, rows: Index, cols: Index) -> Floats:
    """Mean prediction over each block."""
    form = fitted_form(model)
    if isinstance(form, Bilinear):
        return _bilinear_means(bilinear_form(model), rows, cols)
    if not isinstance(form, IdentityForm):
        return _means_of_rows(model, rows, cols)
    own = form.own.tocoo()
    parts = (_bilinear_means(part, rows, cols) for part in (form.row_part, form.col_part))
    return np.asarray(sum(parts) + _entry_means(own.row, own.col, own.data, rows, cols))


def _means_of_rows(model: Any, rows: Index, cols: Index) -> Floats:
    """The same of predictions that are no product, some rows at a time."""
    sums = np.zeros((len(rows) - 1, len(cols) - 1))
    step = max(1, CHUNK_FLOATS // int(cols[-1]))
    for first in range(0, int(rows[-1]), step):
        items = np.arange(first, min(first + step, int(rows[-1])))
        part = np.add.reduceat(model.predict_matrix(rows=items), cols[:-1], axis=1)
        np.add.at(sums, block_of(items, rows), part)
    return np.asarray(sums / np.outer(np.diff(rows), np.diff(cols)))


def item_means(values: Floats, bounds: Index) -> Floats:
    """Mean over each block of the items of an axis."""
    return np.asarray(np.add.reduceat(values, bounds[:-1]) / np.diff(bounds))


def _bilinear_means(form: Bilinear, rows: Index, cols: Index) -> Floats:
    left, right = _basis_means(form.row_basis, rows), _basis_means(form.col_basis, cols)
    out = np.asarray(left @ right.T if form.core is None else left @ (form.core @ right.T))
    if form.effects is None:
        return out
    row, col = item_means(form.effects.row, rows), item_means(form.effects.col, cols)
    return np.asarray(out + form.effects.mean + row[:, None] + col[None, :])


def _basis_means(basis: Basis, bounds: Index) -> Floats:
    """Mean over each block of the rows of Phi, no more of which is formed than fits."""
    width = basis.known(np.arange(1)).shape[1]
    step = max(1, CHUNK_FLOATS // max(1, width))
    sums = np.zeros((len(bounds) - 1, width))
    for first in range(0, int(bounds[-1]), step):
        items = np.arange(first, min(first + step, int(bounds[-1])))
        blocks = block_of(items, bounds)
        starts = np.flatnonzero(np.diff(blocks, prepend=-1))
        sums[blocks[starts]] += np.add.reduceat(basis.known(items), starts, axis=0)
    return sums / np.diff(bounds)[:, None]


def _entry_means(
    at_rows: Index, at_cols: Index, values: Floats | None, rows: Index, cols: Index
) -> Floats:
    """Sum over the listed entries of each block, values or ones, over the size of the block."""
    shape = (len(rows) - 1, len(cols) - 1)
    at = block_of(at_rows, rows) * shape[1] + block_of(at_cols, cols)
    sums = np.bincount(at, weights=values, minlength=shape[0] * shape[1]).reshape(shape)
    return np.asarray(sums / np.outer(np.diff(rows), np.diff(cols)))

"""Unpenalised effects as independent columns: what is needed to know how sure they are.

:class:`~kronfill.ridge.effects.EffectsDesign` has a mean, row and column indicators that depend on
each other. For variances a basis of the same space is enough: the mean alone, or one column per
observed row (column), or both less one column per connected component of the mask. Where an entry
is not in the span of the observed ones, because its row was never seen or because its row and its
column belong to different components, nothing bounds its effects: their variance is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from kronfill._types import Flags, Floats, Index
from kronfill.ridge.effects import Center, EffectsDesign, components

__all__ = ["FreeEffects"]

NONE = -1
"""Stands for an item that is not in the table, and for an effect that has no column."""


@dataclass(frozen=True, eq=False)
class FreeEffects:
    """Independent columns of the effects of one set of observed entries.

    Attributes
    ----------
    kind : {"mean", "rows", "cols", "both"}
        Which effects there are.
    row_at, col_at : ndarray of shape (N,) and (L,)
        Column of each item's effect, -1 if it has none.
    row_label, col_label : ndarray of shape (N,) and (L,)
        Connected component of each item; only of use for "both".
    rank : int
        Number of columns: degrees of freedom that the effects take.
    table : csr_array of shape (N, L)
        Weights of the observed entries.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.ridge.effects import EffectsDesign
    >>> from kronfill.ridge.free_effects import FreeEffects
    >>> rows, cols = np.array([0, 0, 1]), np.array([0, 1, 2])
    >>> free = FreeEffects.of(EffectsDesign(rows, cols, (3, 3), "both"))
    >>> free.rank  # 2 rows and 3 columns, in two components
    3
    >>> free.estimable(np.array([0, 1, 2]), np.array([1, 1, 1]))
    array([ True, False, False])
    """

    kind: Center
    row_at: Index
    col_at: Index
    row_label: Index
    col_label: Index
    rank: int
    table: sp.csr_array

    @classmethod
    def of(cls, design: EffectsDesign) -> FreeEffects:
        """Choose independent columns for this design."""
        weights = np.ones(len(design.rows)) if design.weights is None else design.weights
        table = sp.csr_array((weights, (design.rows, design.cols)), shape=design.shape)
        seen_r, seen_c = np.unique(design.rows), np.unique(design.cols)
        n, l = design.shape
        row_at, col_at = np.full(n, NONE), np.full(l, NONE)
        row_label, col_label = np.zeros(n, dtype=np.intp), np.zeros(l, dtype=np.intp)
        rank = 1 if design.kind == "mean" else 0
        if design.kind in ("rows", "both"):
            row_at[seen_r] = np.arange(len(seen_r))
            rank = len(seen_r)
        if design.kind == "both":
            label = components(table)
            row_label, col_label = label[:n], label[n:]
            _, first = np.unique(col_label[seen_c], return_index=True)
            seen_c = np.delete(seen_c, first)  # one column of each component is its reference
        if design.kind in ("cols", "both"):
            col_at[seen_c] = rank + np.arange(len(seen_c))
            rank += len(seen_c)
        return cls(design.kind, row_at, col_at, row_label, col_label, rank, table)

    def estimable(self, rows: Index, cols: Index) -> Flags:
        """Whether the effects of each entry can be told from the observed ones."""
        count = len(rows)
        if self.kind == "mean":
            return np.ones(count, dtype=bool)
        seen_r, seen_c = (np.asarray(self.table.sum(axis=axis)).ravel() > 0 for axis in (1, 0))
        known_r, known_c = (rows != NONE) & seen_r[rows], (cols != NONE) & seen_c[cols]
        if self.kind == "rows":
            return np.asarray(known_r)
        if self.kind == "cols":
            return np.asarray(known_c)
        return np.asarray(known_r & known_c & (self.row_label[rows] == self.col_label[cols]))

    def design(self, rows: Index, cols: Index) -> sp.csr_array:
        """Z of shape (t, rank) for these entries, which must be estimable."""
        t = np.arange(len(rows))
        if self.kind == "mean":
            return sp.csr_array(np.ones((len(rows), 1)))
        at_r, at_c = self.row_at[rows], self.col_at[cols]
        has_r, has_c = at_r != NONE, at_c != NONE
        where = (np.concatenate([t[has_r], t[has_c]]), np.concatenate([at_r[has_r], at_c[has_c]]))
        return sp.csr_array((np.ones(len(where[0])), where), shape=(len(rows), self.rank))

    @cached_property
    def _normal(self) -> sp.csc_array:
        """Z^T W Z of the observed entries."""
        entries = self.table.tocoo()
        z = self.design(entries.row.astype(np.intp), entries.col.astype(np.intp))
        return sp.csc_array(z.T @ (sp.diags_array(entries.data) @ z))

    @cached_property
    def _factor(self) -> object:
        return splu(self._normal)

    def solve(self, z: sp.csr_array) -> sp.csr_array | Floats:
        """(Z^T W Z)^-1 z^T, transposed: one row per entry, sparse unless effects are two-way."""
        if self.kind != "both":
            return sp.csr_array(z @ sp.diags_array(1.0 / self._normal.diagonal()))
        return np.asarray(self._factor.solve(z.toarray().T).T)  # type: ignore[attr-defined]

    def moments(self, row_phi: Floats, col_phi: Floats, columns: slice) -> Floats:
        """Psi^T W z of some of the columns z of Z, one row of length a b for each."""
        ab = row_phi.shape[1] * col_phi.shape[1]
        if self.kind == "mean":
            return np.asarray(row_phi.T @ (self.table @ col_phi)).reshape(1, ab)
        out = np.empty((len(range(self.rank)[columns]), ab))
        first = range(self.rank)[columns].start
        for at, own, other, table in (
            (self.row_at, row_phi, col_phi, self.table),
            (self.col_at, col_phi, row_phi, self.table.T.tocsr()),
        ):
            items = np.flatnonzero((at >= first) & (at < first + len(out)))
            sums = table[items] @ other  # weighted sums of the other factor
            left, right = (own[items], sums) if own is row_phi else (sums, own[items])
            out[at[items] - first] = (left[:, :, None] * right[:, None, :]).reshape(-1, ab)
        return out

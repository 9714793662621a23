"""Global mean, row effects and column effects as unpenalised unknowns.

The additive part of a model is ``mean + row[i] + col[j]``. Without a penalty it is not unique: a
constant can move between its parts, and between unconnected blocks of the mask. The one returned
has the smallest ``||row||^2 + ||col||^2``; rows and columns without an observation get 0, which
puts a cold row at the mean of the others.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from kronfill._types import Floats, Index
from kronfill.core.limits import DENSE_EFFECTS
from kronfill.errors import DataError, ParameterError, argument
from kronfill.ridge.factorised import CholeskyFactor

__all__ = ["CENTERS", "AdditiveEffects", "Center", "EffectsDesign", "components", "half_inverse"]

Center = Literal["mean", "rows", "cols", "both"]
CENTERS = ("mean", "rows", "cols", "both")
LEAST_SHARE = 1e-12
"""What tells an effect must weigh at least this much of the heaviest: sums are rounded to that."""


@dataclass(frozen=True)
class AdditiveEffects:
    """``mean + row[i] + col[j]``."""

    mean: float
    row: Floats
    col: Floats

    def at(self, rows: Index, cols: Index) -> Floats:
        """Values at index pairs."""
        return self.mean + self.row[rows] + self.col[cols]

    def outer(self, row: Floats, col: Floats) -> Floats:
        """Values on a block, from the effects of its rows and of its columns."""
        return self.mean + row[:, None] + col[None, :]


@dataclass(frozen=True, eq=False)
class EffectsDesign:
    """The additive effects of one set of observed entries.

    Parameters
    ----------
    rows, cols : ndarray of shape (m,)
        Observed entries.
    shape : tuple of int
        Size of the matrix.
    kind : {"mean", "rows", "cols", "both"}
        Which effects there are; each includes the mean.
    weights : ndarray of shape (m,), optional
        Weight of each observation, 1 by default.
    """

    rows: Index
    cols: Index
    shape: tuple[int, int]
    kind: Center
    weights: Floats | None = None
    _two_way: _TwoWay | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if self.kind not in CENTERS:
            msg = f"center must be None or one of {CENTERS}, got {self.kind!r}."
            raise ParameterError(msg)
        if self.kind == "both":
            object.__setattr__(self, "_two_way", _TwoWay.of(self))

    @property
    def _sides(self) -> tuple[tuple[Index, int], ...]:
        """Index vector and length of each axis that has effects."""
        sides = {"rows": (self.rows, self.shape[0]), "cols": (self.cols, self.shape[1])}
        names = {"mean": (), "rows": ("rows",), "cols": ("cols",), "both": ("rows", "cols")}
        return tuple(sides[name] for name in names[self.kind])

    def matrix(self) -> sp.csr_array:
        """Z of shape (m, 1 + N + L): ones, row indicators, column indicators, as far as used.

        Items without an observation have a column of zeros.
        """
        m = len(self.rows)
        take = np.arange(m)
        parts = [sp.csr_array(np.ones((m, 1)))]
        parts += [
            sp.csr_array((np.ones(m), (take, index)), shape=(m, size))
            for index, size in self._sides
        ]
        return sp.csr_array(sp.hstack(parts, format="csr"))

    def unpack(self, beta: Floats) -> AdditiveEffects:
        """Coefficients of the columns of :meth:`matrix` as effects."""
        row, col = np.zeros(self.shape[0]), np.zeros(self.shape[1])
        rest = beta[1:]
        if self.kind in ("rows", "both"):
            row, rest = rest[: self.shape[0]], rest[self.shape[0] :]
        if self.kind in ("cols", "both"):
            col = rest
        return AdditiveEffects(float(beta[0]), np.array(row), np.array(col))

    def solve_normal(self, gram: Floats, moment: Floats) -> AdditiveEffects:
        """Smallest effects with ``gram @ beta = moment``, the mean being free.

        Items without an observation have none, whatever rounding has left in their place.
        """
        counts = [np.bincount(index, minlength=size) for index, size in self._sides]
        seen = np.concatenate([[1], *counts]) > 0
        half = half_inverse(gram * np.outer(seen, seen))
        beta = half @ (half.T @ moment)
        return self._smallest(self.unpack(beta))

    def _smallest(self, given: AdditiveEffects) -> AdditiveEffects:
        """Effects with the same fitted values and the least ``||row||^2 + ||col||^2``."""
        if self._two_way is not None:
            return self._two_way.smallest(given.mean + given.row, given.col)
        if self.kind == "mean":
            return given
        row, col = given.row.copy(), given.col.copy()
        ((index, _),) = self._sides
        effect = row if self.kind == "rows" else col
        seen = np.unique(index)
        constant = float(effect[seen].mean())
        effect[seen] -= constant
        return AdditiveEffects(given.mean + constant, row, col)

    def fit(self, values: Floats) -> AdditiveEffects:
        """Weighted least-squares fit of the effects to one value per observed entry."""
        weighted = values if self.weights is None else values * self.weights
        total = float(len(values) if self.weights is None else self.weights.sum())
        row, col = np.zeros(self.shape[0]), np.zeros(self.shape[1])
        if self.kind == "mean":
            return AdditiveEffects(float(weighted.sum()) / total, row, col)
        if self._two_way is not None:
            return self._two_way.fit(weighted)
        ((index, size),) = self._sides
        count = np.bincount(index, weights=self.weights, minlength=size)
        sums = np.bincount(index, weights=weighted, minlength=size)
        effect = np.divide(sums, count, out=np.zeros(size), where=count > 0)
        return self._smallest(
            AdditiveEffects(0.0, effect, col)
            if self.kind == "rows"
            else AdditiveEffects(0.0, row, effect)
        )

    def remove(self, values: Floats) -> Floats:
        """``values`` less their fitted effects: the projection that makes effects free."""
        return values - self.fit(values).at(self.rows, self.cols)


@dataclass(frozen=True, eq=False)
class _TwoWay:
    """Two-way least squares: the longer axis is eliminated, the shorter one solved for."""

    counts: tuple[Floats, Floats]
    table: sp.csr_array
    """Weights as a sparse long x short matrix."""
    flipped: bool
    factor: CholeskyFactor | None
    component: tuple[Index, Index]
    where: tuple[Index, Index]

    @classmethod
    def of(cls, design: EffectsDesign) -> _TwoWay:
        flipped = design.shape[0] < design.shape[1]
        long, short = (design.cols, design.rows) if flipped else (design.rows, design.cols)
        shape = design.shape[::-1] if flipped else design.shape
        weights = np.ones(len(long)) if design.weights is None else design.weights
        table = sp.csr_array((weights, (long, short)), shape=shape)
        counts = (np.asarray(table.sum(axis=1)).ravel(), np.asarray(table.sum(axis=0)).ravel())
        n_long, n_short = shape
        label = components(table)
        component = (label[:n_long], label[n_long:])
        factor = None
        if n_short <= DENSE_EFFECTS:
            factor = cls._factorise(table, counts, component[1])
        return cls(counts, table, flipped, factor, component, (long, short))

    @staticmethod
    def _factorise(
        table: sp.csr_array,
        counts: tuple[Floats, Floats],
        label: Index,
    ) -> CholeskyFactor:
        inverse = np.divide(1.0, counts[0], out=np.zeros_like(counts[0]), where=counts[0] > 0)
        schur = -(table.T @ sp.diags_array(inverse) @ table).toarray()
        # Rows of the Schur complement sum to 0. Taken from there, its diagonal has no rounding
        # error of the size of the largest weight, as a difference of two large numbers has.
        np.fill_diagonal(schur, 0.0)
        np.fill_diagonal(schur, -schur.sum(axis=1))
        # The null space of the Schur complement is spanned by the indicators of the connected
        # components: adding their projector makes it definite and changes no fitted value.
        size = np.bincount(label)[label]
        diagonal = schur.diagonal()
        scale = float(diagonal.max()) or 1.0
        least = np.min(diagonal, where=diagonal > 0, initial=np.inf)
        schur += (label[:, None] == label[None, :]) * (scale / size)[:, None]
        if least < LEAST_SHARE * counts[1].max():
            raise _indistinct(table)
        factor = CholeskyFactor.of(np.asfortranarray(schur), overwrite=True)
        if factor is None:
            raise _indistinct(table)
        return factor

    def fit(self, weighted: Floats) -> AdditiveEffects:
        n_long, n_short = self.table.shape
        b_long = np.bincount(self.where[0], weights=weighted, minlength=n_long)
        b_short = np.bincount(self.where[1], weights=weighted, minlength=n_short)
        seen = self.counts[0] > 0
        mean_long = np.divide(b_long, self.counts[0], out=np.zeros(n_long), where=seen)
        rhs = b_short - self.table.T @ mean_long
        # What is left of the sums may be mere rounding: then there is nothing to solve for.
        short = self._solve_short(rhs, 1e-14 * float(np.linalg.norm(b_short)))
        long = mean_long - np.divide(
            self.table @ short, self.counts[0], out=np.zeros(n_long), where=seen
        )
        return self.smallest(short, long) if self.flipped else self.smallest(long, short)

    def _solve_short(self, rhs: Floats, noise: float) -> Floats:
        if self.factor is not None:
            return self.factor.solve(rhs)
        from scipy.sparse.linalg import LinearOperator, cg

        count_long = np.where(self.counts[0] > 0, self.counts[0], 1.0)
        count_short = np.where(self.counts[1] > 0, self.counts[1], 1.0)

        def schur(x: Floats) -> Floats:
            return np.asarray(self.counts[1] * x - self.table.T @ ((self.table @ x) / count_long))

        size = len(rhs)
        operator = LinearOperator((size, size), matvec=schur, dtype=float)
        jacobi = LinearOperator((size, size), matvec=lambda x: x / count_short, dtype=float)
        x, _ = cg(operator, rhs, rtol=1e-13, atol=noise, maxiter=10 * size, M=jacobi)
        return np.asarray(x)

    def smallest(self, row: Floats, col: Floats) -> AdditiveEffects:
        """Remove what can move between the parts without changing a fitted value.

        The free directions are: a constant on all rows (against the mean), and for each component k
        +1 on its rows, -1 on its columns. Their Gram matrix is an arrow; it is solved directly.
        """
        long, short = (col, row) if self.flipped else (row, col)
        seen_l, seen_s = self.counts[0] > 0, self.counts[1] > 0
        lab_l, lab_s = self.component[0][seen_l], self.component[1][seen_s]
        k = int(max(lab_l.max(), lab_s.max())) + 1
        n_l, n_s = np.bincount(lab_l, minlength=k), np.bincount(lab_s, minlength=k)
        size = np.maximum(n_l + n_s, 1)
        y_k = np.bincount(lab_l, weights=long[seen_l], minlength=k)
        y_k -= np.bincount(lab_s, weights=short[seen_s], minlength=k)
        y_1 = float(long[seen_l].sum())
        corner = n_l.sum() - float(np.sum(n_l * n_l / size))
        constant = (y_1 - float(np.sum(n_l * y_k / size))) / corner
        shift = (y_k - n_l * constant) / size
        least_l, least_s = np.zeros(len(long)), np.zeros(len(short))
        least_l[seen_l] = long[seen_l] - constant - shift[lab_l]
        least_s[seen_s] = short[seen_s] + shift[lab_s]
        pair = (least_s, least_l) if self.flipped else (least_l, least_s)
        return AdditiveEffects(constant, *pair)


def _indistinct(table: sp.csr_array) -> DataError:
    known = table.data[table.data > 0]
    return DataError(
        "Row and column effects cannot be told apart in double precision: the weights go from "
        f"{known.min():.3g} to {known.max():.3g}. Bring them closer together (a factor of 1e12 is "
        "safe), leave entries out that hardly count (weight 0), or use "
        f"{argument('center', 'mean')}."
    )


def components(table: sp.csr_array) -> Index:
    """Connected component of each row, then of each column, of a table of observed entries."""
    graph = sp.block_array([[None, table], [table.T, None]])
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)


def half_inverse(gram: Floats) -> Floats:
    """H, one column per direction that is determined, with ``H H^T`` an inverse of the Gram matrix.

    The matrix is brought to a unit diagonal first: what an entry of little weight determines stands
    beside one of large weight, and is not taken for rounding.
    """
    size = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    lam, vec = scipy.linalg.eigh(gram * np.outer(scale, scale), check_finite=False)
    keep = lam > 10 * len(lam) * np.finfo(float).eps * lam[-1]
    return np.asarray(scale[:, None] * vec[:, keep] / np.sqrt(lam[keep]))

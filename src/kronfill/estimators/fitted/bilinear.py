"""The fitted form that all methods share: F = Phi_w X Phi_h^T + effects.

A *basis* says what Phi is for the items of an axis, known or new; X is dense or sparse. Blocks and
single entries are predicted from these without any object of size N L x m.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from kronfill._stored import (
    Stored,
    Tests,
    count,
    either,
    floats,
    indices,
    inside,
    of,
    optional,
    sparse_floats,
    tuple_of,
)
from kronfill._types import Floats, Index
from kronfill.core.low_rank import LowRankFactor
from kronfill.core.memory import require_memory
from kronfill.core.operator import pair_products
from kronfill.kernels.base import Kernel
from kronfill.kernels.features import FeatureTable
from kronfill.ridge.effects import AdditiveEffects

__all__ = [
    "Basis",
    "Bilinear",
    "Combined",
    "FactorBasis",
    "Factored",
    "Features",
    "Sections",
    "ValueBasis",
]

PAIR_FLOATS = 16_000_000


class Basis(Stored, ABC):
    """Phi of one axis, row by row."""

    @abstractmethod
    def known(self, items: Index | None) -> Floats:
        """Rows of Phi for known items, all by default."""

    @abstractmethod
    def new(self, items: Any) -> Floats:
        """Rows of Phi for new items, described as the kernel wants them."""

    @property
    @abstractmethod
    def size(self) -> tuple[int, int]:
        """Number of known items and of columns of Phi."""

    @property
    def left_out(self) -> float:
        """Share of the kernel's trace that Phi leaves out although nobody asked it to."""
        return 0.0


@dataclass(frozen=True, eq=False)
class Sections(Basis):
    """Kernel sections at some known items: Phi[i] = K[i, items]."""

    kernel: Kernel
    items: Index
    stored: ClassVar[Tests] = {"kernel": of(Kernel), "items": indices}

    @property
    def size(self) -> tuple[int, int]:
        """See :class:`Basis`."""
        return self.kernel.n, len(self.items)

    def _fits_together(self) -> bool:
        return inside(self.items, self.kernel.n)

    def known(self, items: Index | None) -> Floats:
        """See :class:`Basis`."""
        return self.kernel.block(items, self.items)

    def new(self, items: Any) -> Floats:
        """See :class:`Basis`."""
        return self.kernel.cross(items, self.items)


@dataclass(frozen=True, eq=False)
class FactorBasis(Basis):
    """A low-rank factor of a kernel, or of a part of it."""

    kernel: Kernel
    """The whole kernel: it knows how new items are described."""
    factor: Any
    stored: ClassVar[Tests] = {"kernel": of(Kernel), "factor": of(LowRankFactor)}

    @property
    def size(self) -> tuple[int, int]:
        """See :class:`Basis`."""
        return self.factor.n, self.factor.rank

    def _fits_together(self) -> bool:
        return self.kernel.is_factored_by(self.factor)

    def known(self, items: Index | None) -> Floats:
        """See :class:`Basis`."""
        return np.asarray(self.factor.phi if items is None else self.factor.phi[items])


class Factored(FactorBasis):
    """A low-rank factor of the kernel, extended to new items through its pivots."""

    def new(self, items: Any) -> Floats:
        """See :class:`Basis`."""
        return self.kernel.factor_new(self.factor, items)

    @property
    def left_out(self) -> float:
        """See :class:`Basis`."""
        return float(self.factor.residual)


@dataclass(frozen=True, eq=False)
class Features(Basis):
    """The encoded features themselves."""

    table: FeatureTable
    stored: ClassVar[Tests] = {"table": of(FeatureTable)}

    @property
    def size(self) -> tuple[int, int]:
        """See :class:`Basis`."""
        return self.table.n, self.table.width

    def _fits_together(self) -> bool:
        """New items have the features of the known ones."""
        return self.table.width == self.table.new_width

    def known(self, items: Index | None) -> Floats:
        """See :class:`Basis`."""
        return _dense(self.table.values if items is None else self.table.values[items])

    def new(self, items: Any) -> Floats:
        """See :class:`Basis`."""
        return _dense(self.table.encode(items))


def _dense(values: Any) -> Floats:
    """Features as an array."""
    if not sp.issparse(values):
        return np.asarray(values)
    n, width = values.shape
    advice = "Use fewer features, or a kernel: kf.KMC(kf.kernels.linear(features), ...)."
    require_memory(8 * n * width, f"{width} features of {n} items as a dense matrix", advice)
    return np.asarray(values.toarray())


@dataclass(frozen=True, eq=False)
class Combined(Basis):
    """Linear combinations of another basis: Phi' = Phi coef."""

    basis: Basis
    coef: Floats
    stored: ClassVar[Tests] = {"basis": of(Basis), "coef": floats(2)}

    @property
    def size(self) -> tuple[int, int]:
        """See :class:`Basis`."""
        return self.basis.size[0], self.coef.shape[1]

    def _fits_together(self) -> bool:
        return self.basis.size[1] == len(self.coef)

    def known(self, items: Index | None) -> Floats:
        """See :class:`Basis`."""
        return np.asarray(self.basis.known(items) @ self.coef)

    def new(self, items: Any) -> Floats:
        """See :class:`Basis`."""
        return np.asarray(self.basis.new(items) @ self.coef)

    @property
    def left_out(self) -> float:
        """See :class:`Basis`: with fewer columns than there are the rest is not asked for."""
        count, columns = self.coef.shape
        return self.basis.left_out if columns == count else 0.0


@dataclass(frozen=True, eq=False)
class ValueBasis(Basis):
    """Values with nothing behind them: a new item gets zeros."""

    values: Floats
    stored: ClassVar[Tests] = {"values": floats(2)}
    stored_as: ClassVar[str] = "Table"

    @property
    def size(self) -> tuple[int, int]:
        """See :class:`Basis`."""
        n, columns = self.values.shape
        return n, columns

    def known(self, items: Index | None) -> Floats:
        """See :class:`Basis`."""
        return self.values if items is None else self.values[items]

    def new(self, items: Any) -> Floats:
        """See :class:`Basis`."""
        count = items if isinstance(items, int | np.integer) else np.shape(items)[0]
        return np.zeros((int(count), self.values.shape[1]))


def _is_narrow(value: Any) -> bool:
    """Features alone may be sparse and very wide; what combines them has a number for each."""
    return isinstance(value, Basis) and not isinstance(value, Features)


@dataclass(frozen=True, eq=False)
class Bilinear(Stored):
    """F[i, j] = row_basis[i] @ core @ col_basis[j] + effects; ``core`` None is the identity."""

    row_basis: Basis
    col_basis: Basis
    core: Floats | sp.csr_array | None
    effects: AdditiveEffects | None
    shape: tuple[int, int]
    stored: ClassVar[Tests] = {
        "row_basis": _is_narrow,
        "col_basis": _is_narrow,
        "core": optional(either(floats(2), sparse_floats)),
        "effects": optional(of(AdditiveEffects)),
        "shape": tuple_of(count, 2),
    }

    def _fits_together(self) -> bool:
        (n, a), (l, b) = self.row_basis.size, self.col_basis.size
        effects = self.effects
        return (
            self.shape == (n, l)
            and (a == b if self.core is None else self.core.shape == (a, b))
            and (effects is None or (effects.row.shape, effects.col.shape) == ((n,), (l,)))
        )

    def block(self, rows: Index | None, cols: Index | None) -> Floats:
        """Dense block of known rows and columns."""
        out = self._product(self.row_basis.known(rows), self.col_basis.known(cols))
        return self._add_effects(out, self._row_effects(rows), self._col_effects(cols))

    def extended(self, new_rows: Any, new_cols: Any) -> Floats:
        """Block of new rows and columns; None stands for all the known ones."""
        left = self.row_basis.known(None) if new_rows is None else self.row_basis.new(new_rows)
        right = self.col_basis.known(None) if new_cols is None else self.col_basis.new(new_cols)
        out = self._product(left, right)
        row = self._row_effects(None) if new_rows is None else np.zeros(len(left))
        col = self._col_effects(None) if new_cols is None else np.zeros(len(right))
        return self._add_effects(out, row, col)

    def pairs(self, rows: Index, cols: Index) -> Floats:
        """Values at index pairs, in chunks of rows."""
        out = np.empty(len(rows))
        items_c, at_c = np.unique(cols, return_inverse=True)
        items_r, at_r = np.unique(rows, return_inverse=True)
        right = self._times_core(self.col_basis.known(items_c))
        order = np.argsort(at_r, kind="stable")
        step = max(1, PAIR_FLOATS // max(1, right.shape[1]))
        for first in range(0, len(items_r), step):
            last = min(first + step, len(items_r))
            left = self.row_basis.known(items_r[first:last])
            start, end = np.searchsorted(at_r, [first, last], sorter=order)
            part = order[start:end]
            out[part] = pair_products(left, right, at_r[part] - first, at_c[part])
        return out if self.effects is None else out + self.effects.at(rows, cols)

    def _times_core(self, right: Floats) -> Floats:
        """Rows of right core^T."""
        if self.core is None:
            return right
        return np.asarray((self.core @ right.T).T)

    def _product(self, left: Floats, right: Floats) -> Floats:
        if self.core is None:
            return np.asarray(left @ right.T)
        if sp.issparse(self.core) or len(right) * right.shape[1] < len(left) * left.shape[1]:
            return np.asarray(left @ (self.core @ right.T))
        return np.asarray((left @ self.core) @ right.T)

    def _row_effects(self, rows: Index | None) -> Floats:
        row = np.zeros(self.shape[0]) if self.effects is None else self.effects.row
        return row if rows is None else row[rows]

    def _col_effects(self, cols: Index | None) -> Floats:
        col = np.zeros(self.shape[1]) if self.effects is None else self.effects.col
        return col if cols is None else col[cols]

    def _add_effects(self, out: Floats, row: Floats, col: Floats) -> Floats:
        if self.effects is None:
            return out
        out += self.effects.outer(row, col)
        return out

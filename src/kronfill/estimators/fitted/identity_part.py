"""The fitted form for kernels with an identity part, K = Phi Phi^T + e I.

From F = K_w D K_h with the sparse matrix D of the dual vector,

    F = (Phi_w C + e_w Y) Phi_h^T + e_h Phi_w Z + e_w e_h D,

C = Phi_w^T D Phi_h, Y = D Phi_h, Z = Phi_w^T D: no table is larger than the factors. A new row has
no identity part with the known ones: it gets Phi_w C Phi_h^T + e_h Phi_w Z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from kronfill._stored import Stored, Tests, floats, of, sparse_floats, tuple_of
from kronfill._types import Floats, Index
from kronfill.core.loops.tables import SparseTables
from kronfill.estimators.fitted.bilinear import Basis, Bilinear, FactorBasis, ValueBasis
from kronfill.kernels.algebra import Parts
from kronfill.kernels.base import Kernel
from kronfill.ridge.effects import AdditiveEffects
from kronfill.ridge.problem import FactorPlusIdentityLike, Sampled

__all__ = ["FORMS", "IdentityForm", "SmoothBasis", "Stacked"]


class SmoothBasis(FactorBasis):
    """The factor of a kernel without its identity part."""

    stored_as: ClassVar[str] = "Smooth"

    def new(self, items: Any) -> Floats:
        """See :class:`Basis`."""
        if self.factor.pivots is not None:  # the identity part is zero between new and known items
            return np.asarray(self.factor.extend(self.kernel.cross(items, self.factor.pivots)))
        smooth, _ = self.kernel.split()
        if smooth is None:
            return np.zeros((len(self.kernel.cross(items)), 0))
        if isinstance(items, Parts):
            parts = getattr(self.kernel, "parts", (self.kernel,))
            items = next(
                item for item, part in zip(items, parts, strict=True) if part.split()[0] is not None
            )
        return smooth.factor_new(self.factor, items)


@dataclass(frozen=True, eq=False)
class IdentityForm(Stored):
    """F from the dual vector, for kernels that were split."""

    row_part: Bilinear
    """(Phi_w C + e_w Y) Phi_h^T and the effects."""
    col_part: Bilinear
    """e_h Phi_w Z."""
    own: sp.csr_array
    """e_w e_h D: what an observed entry has to itself."""
    stored: ClassVar[Tests] = {
        "row_part": of(Bilinear),
        "col_part": of(Bilinear),
        "own": sparse_floats,
    }
    stored_as: ClassVar[str] = "SplitModel"

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the matrix."""
        return self.row_part.shape

    def _fits_together(self) -> bool:
        return self.row_part.shape == self.col_part.shape == tuple(self.own.shape)

    @classmethod
    def of(
        cls,
        kernels: tuple[Kernel, Kernel],
        splits: tuple[FactorPlusIdentityLike, FactorPlusIdentityLike],
        sampled: Sampled,
        dual: Floats,
        effects: AdditiveEffects | None,
    ) -> IdentityForm:
        """Sum over the observations once for each table."""
        row, col = (SmoothBasis(k, s.factor) for k, s in zip(kernels, splits, strict=True))
        ew, eh = (split.identity for split in splits)
        mask = sampled.mask
        tables = SparseTables(mask.by_rows, mask.by_cols)
        d = mask.by_rows.gather(dual)
        y = tables.sums(np.ascontiguousarray(col.known(None)), d, 0)
        z = tables.sums(np.ascontiguousarray(row.known(None)), d, 1)
        phi = row.known(None)
        left = _Extended(row, phi.T @ y, ew * y)
        first = Bilinear(left, col, None, effects, sampled.shape)
        second = Bilinear(row, ValueBasis(eh * z), None, None, sampled.shape)
        return cls(first, second, sampled.sparse(ew * eh * dual))

    @property
    def kernels(self) -> tuple[Kernel, Kernel]:
        """The kernels that it was fitted with."""
        row, col = self.col_part.row_basis, self.row_part.col_basis
        assert isinstance(row, SmoothBasis)
        assert isinstance(col, SmoothBasis)
        return row.kernel, col.kernel

    def block(self, rows: Index | None, cols: Index | None) -> Floats:
        """Dense block of known rows and columns."""
        out = self.row_part.block(rows, cols) + self.col_part.block(rows, cols)
        own = self.own if rows is None else self.own[rows]
        out += (own if cols is None else own[:, cols]).toarray()
        return out

    def pairs(self, rows: Index, cols: Index) -> Floats:
        """Values at index pairs."""
        out = self.row_part.pairs(rows, cols) + self.col_part.pairs(rows, cols)
        return np.asarray(out + np.asarray(self.own[rows, cols]).ravel())

    def extended(self, new_rows: Any, new_cols: Any) -> Floats:
        """Block of new rows and columns; None stands for all the known ones."""
        out = self.row_part.extended(new_rows, new_cols)
        if new_cols is None:  # a new column has no part of its own
            out += self.col_part.extended(new_rows, None)
        if new_rows is None and new_cols is None:
            out += self.own.toarray()
        return out


@dataclass(frozen=True, eq=False)
class Stacked(Stored):
    """Fitted forms of several targets; predictions have a last axis for them."""

    forms: tuple[Any, ...]
    stored: ClassVar[Tests] = {"forms": tuple_of(of(Bilinear, IdentityForm))}

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the matrix."""
        shape: tuple[int, int] = self.forms[0].shape
        return shape

    def _fits_together(self) -> bool:
        return len({form.shape for form in self.forms}) == 1

    def block(self, rows: Index | None, cols: Index | None) -> Floats:
        """Dense blocks of known rows and columns."""
        return np.stack([form.block(rows, cols) for form in self.forms], axis=-1)

    def pairs(self, rows: Index, cols: Index) -> Floats:
        """Values at index pairs."""
        return np.stack([form.pairs(rows, cols) for form in self.forms], axis=-1)

    def extended(self, new_rows: Any, new_cols: Any) -> Floats:
        """Blocks of new rows and columns."""
        return np.stack([form.extended(new_rows, new_cols) for form in self.forms], axis=-1)


@dataclass(frozen=True, eq=False)
class _Extended(Basis):
    """Phi_w C, and for known items e_w Y besides."""

    basis: Basis
    core: Floats
    own: Floats
    stored: ClassVar[Tests] = {"basis": of(Basis), "core": floats(2), "own": floats(2)}

    @property
    def size(self) -> tuple[int, int]:
        """See :class:`Basis`."""
        return self.basis.size[0], self.core.shape[1]

    def _fits_together(self) -> bool:
        return self.basis.size[1] == len(self.core) and self.own.shape == self.size

    def known(self, items: Index | None) -> Floats:
        """See :class:`Basis`."""
        own = self.own if items is None else self.own[items]
        return np.asarray(self.basis.known(items) @ self.core + own)

    def new(self, items: Any) -> Floats:
        """See :class:`Basis`."""
        return np.asarray(self.basis.new(items) @ self.core)


FORMS: tuple[type[Stored], ...] = (SmoothBasis, _Extended, IdentityForm, Stacked)
"""What model files may hold of these."""

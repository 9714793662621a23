"""New kernels from old ones: sums, products, multiples, and a unit diagonal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from kronfill._stored import Tests, floats, of, positive, tuple_of
from kronfill._types import Floats, Index
from kronfill.core.low_rank import LowRankFactor
from kronfill.errors import KernelError, LabelError, ParameterError, ShapeError
from kronfill.kernels.base import Kernel, inherited
from kronfill.kernels.given import Identity

__all__ = ["Normalized", "Parts", "Product", "Scaled", "Sum"]

_FEW_PARTS = 8
"""Parts of a sum in which the one that has an explicit factor is looked for."""


class Parts(tuple[Any, ...]):
    """One description of the new items for each part of a sum or product of kernels.

    Needed only when the parts want different things, such as features for one and similarities
    for another. The parts of ``a + b + c`` are a, b and c, in that order.

    Parameters
    ----------
    *new : object
        The new items as the first part wants them, as the second wants them, and so on.

    Examples
    --------
    >>> import numpy as np
    >>> import kronfill as kf
    >>> kernel = kf.kernels.linear([[1.0], [2.0]]) + kf.kernels.precomputed(np.eye(2))
    >>> kernel.cross(kf.kernels.Parts([[3.0]], [[0.5, 0.5]]))
    array([[3.5, 6.5]])
    """

    __slots__ = ()

    def __new__(cls, *new: Any) -> Parts:  # noqa: D102 - documented on the class
        return super().__new__(cls, new)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return f"Parts({', '.join(repr(part) for part in self)})"


class _Composite(Kernel):
    """Several kernels over the same items, combined entry by entry."""

    parts: tuple[Kernel, ...]
    stored: ClassVar[Tests] = {**Kernel.stored, "parts": tuple_of(of(Kernel))}
    _combine: Callable[..., Any]
    _symbol: str

    def __init__(self, *parts: Kernel) -> None:
        flat: list[Kernel] = []
        for part in parts:
            # a + (b + c) has three parts, so that Parts(...) can be written in one line.
            flat.extend(part.parts if isinstance(part, type(self)) else (part,))
        sizes = [part.n for part in flat]
        if len(set(sizes)) != 1:
            msg = (
                f"Kernels over different numbers of items cannot be combined with "
                f"'{self._symbol}', got {sizes}; bring them to the same items with kernel.take."
            )
            raise KernelError(msg)
        self._set(n=sizes[0], labels=_common_labels(flat), parts=tuple(flat), **inherited(*parts))

    def _merge(self, pieces: Iterator[Floats]) -> Floats:
        merged: Floats = reduce(type(self)._combine, pieces)
        return merged

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        return self._merge(part._block(rows, cols) for part in self.parts)

    def _diagonal(self, rows: Index | None) -> Floats:
        return self._merge(part._diagonal(rows) for part in self.parts)

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        pairs = zip(self.parts, self._split(new), strict=True)
        return self._merge(_same_length(part._cross(given, cols) for part, given in pairs))

    def _new_diagonal(self, new: Any) -> Floats:
        pairs = zip(self.parts, self._split(new), strict=True)
        return self._merge(_same_length(part._new_diagonal(given) for part, given in pairs))

    def _split(self, new: Any) -> tuple[Any, ...]:
        if not isinstance(new, Parts):
            return (new,) * len(self.parts)
        if len(new) != len(self.parts):
            msg = (
                f"Parts has {len(new)} descriptions of the new items but {self!r} has "
                f"{len(self.parts)} parts; give one for each."
            )
            raise KernelError(msg)
        return new

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return type(self)(*(part.take(items) for part in self.parts))

    def _fits_together(self) -> bool:
        return super()._fits_together() and {part.n for part in self.parts} == {self.n}

    def __repr__(self) -> str:
        shown = [f"({part!r})" if isinstance(part, Sum) else repr(part) for part in self.parts]
        return f" {self._symbol} ".join(shown)


class Sum(_Composite):
    """``k1 + k2``: items are similar when they are in one way or the other."""

    _combine = staticmethod(np.add)
    _symbol = "+"

    @property
    def by_products(self) -> bool:
        """See :attr:`Kernel.by_products`."""
        return any(part.by_products for part in self.parts)

    def _apply(self, V: Floats) -> Floats:
        return self._merge(part._apply(V) for part in self.parts)

    def split(self) -> tuple[Kernel | None, float]:
        """See :meth:`Kernel.split`."""
        halves = [part.split() for part in self.parts]
        rest = [kernel for kernel, _ in halves if kernel is not None]
        ridge = float(sum(ridge for _, ridge in halves))
        return (Sum(*rest) if len(rest) > 1 else rest[0] if rest else None), ridge

    @property
    def explicit_rank(self) -> int | None:
        """See :attr:`Kernel.explicit_rank`: that of the one part beside identities."""
        if len(self.parts) > _FEW_PARTS:
            return None
        smooth = [part for part in self.parts if not _is_identity(part)]
        return smooth[0].explicit_rank if len(smooth) == 1 else None


class Product(_Composite):
    """``k1 * k2``, entry by entry: items are similar when they are in both ways."""

    _combine = staticmethod(np.multiply)
    _symbol = "*"


class Scaled(Kernel):
    """A positive multiple of a kernel."""

    base: Kernel
    scale: float
    stored: ClassVar[Tests] = {**Kernel.stored, "base": of(Kernel), "scale": positive}

    def __init__(self, base: Kernel, scale: float) -> None:
        if not (np.isfinite(scale) and scale > 0):
            msg = f"A kernel can be multiplied by a positive finite number, got {scale!r}."
            raise ParameterError(msg)
        inner, before = (base.base, base.scale) if isinstance(base, Scaled) else (base, 1.0)
        self._set(n=base.n, labels=base.labels, base=inner, scale=before * scale, **inherited(base))

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        return self.scale * self.base._block(rows, cols)

    def _diagonal(self, rows: Index | None) -> Floats:
        return self.scale * self.base._diagonal(rows)

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        return self.scale * self.base._cross(new, cols)

    def _new_diagonal(self, new: Any) -> Floats:
        return self.scale * self.base._new_diagonal(new)

    def _apply(self, V: Floats) -> Floats:
        return self.scale * self.base._apply(V)

    @property
    def by_products(self) -> bool:
        """See :attr:`Kernel.by_products`."""
        return self.base.by_products

    @property
    def known_rank(self) -> int | None:
        """See :attr:`Kernel.known_rank`."""
        return self.base.known_rank

    @property
    def explicit_rank(self) -> int | None:
        """See :attr:`Kernel.explicit_rank`."""
        return self.base.explicit_rank

    def _fits_together(self) -> bool:
        return super()._fits_together() and self.base.n == self.n

    def split(self) -> tuple[Kernel | None, float]:
        """See :meth:`Kernel.split`."""
        kernel, ridge = self.base.split()
        return None if kernel is None else Scaled(kernel, self.scale), self.scale * ridge

    def _factor(self, rtol: float, max_rank: int | None) -> LowRankFactor:
        factor = self.base._factor(rtol, max_rank)
        return LowRankFactor(np.sqrt(self.scale) * factor.phi, factor.pivots, factor.residual)

    def _factor_new(self, factor: LowRankFactor, new: Any) -> Floats:
        if factor.pivots is not None:
            return super()._factor_new(factor, new)
        root = np.sqrt(self.scale)
        unscaled = LowRankFactor(factor.phi / root, None, factor.residual)
        fresh: Floats = root * self.base._factor_new(unscaled, new)
        return fresh

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return Scaled(self.base.take(items), self.scale)

    def __repr__(self) -> str:
        inner = f"({self.base!r})" if isinstance(self.base, Sum) else repr(self.base)
        return f"{self.scale:.6g} * {inner}"


class Normalized(Kernel):
    """``K[i, j] / sqrt(K[i, i] * K[j, j])``."""

    base: Kernel
    _weights: Floats
    stored: ClassVar[Tests] = {**Kernel.stored, "base": of(Kernel), "_weights": floats(1)}

    def __init__(self, base: Kernel) -> None:
        weights = _inverse_root(base._diagonal(None), "", base)
        self._set(n=base.n, labels=base.labels, base=base, _weights=weights, **inherited(base))

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        left, right = _pick(self._weights, rows), _pick(self._weights, cols)
        return self.base._block(rows, cols) * left[:, None] * right

    def _diagonal(self, rows: Index | None) -> Floats:
        return np.ones(self.n if rows is None else rows.size)

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        left = _inverse_root(self.base._new_diagonal(new), "new ", self.base)
        return self.base._cross(new, cols) * left[:, None] * _pick(self._weights, cols)

    def _new_diagonal(self, new: Any) -> Floats:
        return np.ones(self.base._new_diagonal(new).size)

    def _apply(self, V: Floats) -> Floats:
        weights = self._weights[:, None]
        product: Floats = weights * self.base._apply(weights * V)
        return product

    @property
    def explicit_rank(self) -> int | None:
        """See :attr:`Kernel.explicit_rank`."""
        return self.base.explicit_rank

    def _fits_together(self) -> bool:
        sizes = (self.base.n, *self._weights.shape)
        return super()._fits_together() and sizes == (self.n, self.n)

    def split(self) -> tuple[Kernel | None, float]:
        """See :meth:`Kernel.split`: there is an identity part where the diagonal is constant."""
        weight = float(self._weights[0])
        if not np.all(self._weights == weight):
            return self, 0.0
        return Scaled(self.base, weight**2).split()

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return Normalized(self.base.take(items))

    def __repr__(self) -> str:
        return f"Normalized({self.base!r})"


def _is_identity(kernel: Kernel) -> bool:
    while isinstance(kernel, Scaled | Normalized):
        kernel = kernel.base
    return isinstance(kernel, Identity)


def _pick(values: Floats, items: Index | None) -> Floats:
    return values if items is None else values[items]


def _inverse_root(diagonal: Floats, kind: str, base: Kernel) -> Floats:
    (zero,) = np.nonzero(~(diagonal > 0))
    if zero.size:
        first = ", ".join(str(i) for i in zero[:5]) + (", ..." if zero.size > 5 else "")
        msg = (
            f"{base!r} cannot be normalized: {zero.size} {kind}items have no similarity with "
            f"themselves ({kind}items {first}); leave them out (kernel.take) or add "
            "kronfill.kernels.identity(n)."
        )
        raise KernelError(msg)
    root: Floats = 1.0 / np.sqrt(diagonal)
    return root


def _common_labels(parts: list[Kernel]) -> tuple[Any, ...] | None:
    labelled = [part.labels for part in parts if part.labels is not None]
    for labels in labelled[1:]:
        if labels != labelled[0]:
            pairs = zip(labelled[0], labels, strict=True)
            where, (one, other) = next((i, p) for i, p in enumerate(pairs) if p[0] != p[1])
            msg = (
                f"The kernels are over differently labelled items: item {where} is {one!r} in one "
                f"and {other!r} in the other; bring them into the same order with kernel.take."
            )
            raise LabelError(msg)
    return labelled[0] if labelled else None


def _same_length(pieces: Iterator[Floats]) -> Iterator[Floats]:
    """Pass the pieces on, refusing numbers of new items that differ between the parts."""
    length: int | None = None
    for piece in pieces:
        if length is not None and piece.shape[0] != length:
            msg = (
                f"The parts of the kernel were given {length} and {piece.shape[0]} new items; "
                "give each part the same ones."
            )
            raise ShapeError(msg)
        length = piece.shape[0]
        yield piece

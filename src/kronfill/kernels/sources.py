"""What one of several sources says about the items of an axis, some of which it does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kronfill._stored import Tests, indices, of, text
from kronfill._types import Floats, Index
from kronfill.kernels.base import Kernel, inherited

__all__ = ["UNKNOWN", "NewItems", "SourceKernel"]

UNKNOWN = -1
"""Place of an item that a source does not know."""


class NewItems:
    """New items, each known by one or more sources.

    Parameters
    ----------
    count : int
        Number of new items.
    pieces : mapping of str to pair
        For each source what it says about new items, as its kernel wants it, and the positions of
        these among all new items.

    Examples
    --------
    >>> import kronfill as kf
    >>> from kronfill.kernels.sources import NewItems, SourceKernel
    >>> size = SourceKernel(kf.kernels.linear([[1.0], [2.0]]), [0, -1, 1], "size")
    >>> size.cross(NewItems(2, {"size": ([[3.0]], [1])}))
    array([[0., 0., 0.],
           [3., 0., 6.]])
    """

    def __init__(self, count: int, pieces: Mapping[str, tuple[Any, npt.ArrayLike]]) -> None:
        self.count = count
        self.pieces = {
            name: (piece, np.asarray(at, dtype=np.intp)) for name, (piece, at) in pieces.items()
        }

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, some: Any) -> NewItems:
        """Return some of them, by position."""
        chosen = np.arange(self.count)[some]
        pieces = {}
        for name, (piece, at) in self.pieces.items():
            place = np.full(self.count, UNKNOWN)
            place[at] = np.arange(at.size)
            inside = place[chosen]
            known = np.flatnonzero(inside != UNKNOWN)
            pieces[name] = (_picked(piece, inside[known]), known)
        return NewItems(chosen.size, pieces)


def _picked(piece: Any, at: Index) -> Any:
    if isinstance(piece, tuple):
        return tuple(part[at] for part in piece)
    return piece.iloc[at] if hasattr(piece, "iloc") else piece[at]


class SourceKernel(Kernel):
    """The kernel of a source over all items of an axis: zero for those that it does not know.

    Parameters
    ----------
    base : Kernel
        The kernel of the items that the source knows.
    place : array_like of int
        Position of each item of the axis in ``base``, -1 where the source does not know it.
    name : str
        What the source is called where new items are described by several.
    labels : tuple, optional
        Names of the items.

    Examples
    --------
    >>> import kronfill as kf
    >>> from kronfill.kernels.sources import SourceKernel
    >>> SourceKernel(kf.kernels.linear([[1.0], [2.0]]), [1, -1, 0], "size").to_array()
    array([[4., 0., 2.],
           [0., 0., 0.],
           [2., 0., 1.]])
    """

    base: Kernel
    place: Index
    name: str
    stored: ClassVar[Tests] = {**Kernel.stored, "base": of(Kernel), "place": indices, "name": text}

    def __init__(
        self, base: Kernel, place: npt.ArrayLike, name: str, labels: tuple[Any, ...] | None = None
    ) -> None:
        at = np.array(place, dtype=np.intp)
        if isinstance(base, SourceKernel) and not base.name:
            at = np.where(at == UNKNOWN, UNKNOWN, base.place[np.maximum(at, 0)])
            base = base.base
        self._set(n=at.size, labels=labels, base=base, place=at, name=name, **inherited(base))

    @property
    def known(self) -> Index:
        """Positions of the items that the source knows."""
        return np.flatnonzero(self.place != UNKNOWN)

    def _places(self, items: Index | None) -> tuple[Index, Index]:
        """Which of the items are known, and where they are in the base."""
        place = self.place if items is None else self.place[items]
        known = np.flatnonzero(place != UNKNOWN)
        return known, place[known]

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        left, at = self._places(rows)
        right, across = self._places(cols)
        out = np.zeros(
            (self.n if rows is None else rows.size, self.n if cols is None else cols.size)
        )
        if left.size and right.size:
            out[np.ix_(left, right)] = self.base._block(at, across)
        return out

    def _diagonal(self, rows: Index | None) -> Floats:
        known, at = self._places(rows)
        out = np.zeros(self.n if rows is None else rows.size)
        if known.size:
            out[known] = self.base._diagonal(at)
        return out

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        piece, at, count = self._piece(new)
        right, across = self._places(cols)
        width = self.n if cols is None else cols.size
        if at is None:
            found = self.base._cross(piece, across)
            at, count = np.arange(len(found)), len(found)
        elif at.size:
            found = self.base._cross(piece, across)
        else:
            found = np.zeros((0, right.size))
        out = np.zeros((count, width))
        out[np.ix_(at, right)] = found
        return out

    def _new_diagonal(self, new: Any) -> Floats:
        piece, at, count = self._piece(new)
        if at is None:
            return self.base._new_diagonal(piece)
        out = np.zeros(count)
        if at.size:
            out[at] = self.base._new_diagonal(piece)
        return out

    def _piece(self, new: Any) -> tuple[Any, Index | None, int]:
        """What this source says about new items, about which of them, and how many there are."""
        if not isinstance(new, NewItems):
            return new, None, 0
        nothing: tuple[Any, Index] = (None, np.empty(0, dtype=np.intp))
        return *new.pieces.get(self.name, nothing), len(new)

    def _apply(self, V: Floats) -> Floats:
        known, at = self._places(None)
        inner = np.zeros((self.base.n, V.shape[1]))
        np.add.at(inner, at, V[known])
        out = np.zeros(V.shape)
        out[known] = self.base._apply(inner)[at]
        return out

    @property
    def by_products(self) -> bool:
        """See :attr:`Kernel.by_products`."""
        return self.base.by_products

    @property
    def known_rank(self) -> int | None:
        """See :attr:`Kernel.known_rank`."""
        return self.base.known_rank

    def _fits_together(self) -> bool:
        place = self.place
        inside = not place.size or bool(place.min() >= UNKNOWN and place.max() < self.base.n)
        return super()._fits_together() and place.shape == (self.n,) and inside

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return self._with(n=items.size, labels=labels, place=self.place[items])

    def _parameters(self) -> dict[str, Any]:
        return {"name": self.name, "base": self.base}

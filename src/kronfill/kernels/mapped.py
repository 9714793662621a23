"""A kernel over features that are computed from what describes an item."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kronfill._stored import Stored, Tests, of, positive
from kronfill._types import Floats, Index
from kronfill.kernels.base import Kernel, inherited

__all__ = ["FeatureMap", "Mapped", "SimilarityRows"]


class FeatureMap(Stored):
    """From what describes new items to their features."""

    @abstractmethod
    def new(self, items: Any) -> Floats:
        """Features of new items, one row for each."""


@dataclass(frozen=True, eq=False)
class SimilarityRows(FeatureMap):
    """The similarities of an item with all known ones are its features."""

    kernel: Kernel
    scale: float
    stored: ClassVar[Tests] = {"kernel": of(Kernel), "scale": positive}

    def new(self, items: Any) -> Floats:
        """See :class:`FeatureMap`."""
        return self.scale * self.kernel.cross(items)


class Mapped(Kernel):
    """A kernel over the features of the known items; those of new ones come from a map."""

    base: Kernel
    image: FeatureMap
    stored: ClassVar[Tests] = {**Kernel.stored, "base": of(Kernel), "image": of(FeatureMap)}

    def __init__(self, base: Kernel, image: FeatureMap, labels: Any = None) -> None:
        self._set(n=base.n, labels=labels, base=base, image=image, **inherited(base))

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        return self.base.block(rows, cols)

    def _diagonal(self, rows: Index | None) -> Floats:
        return self.base.diagonal(rows)

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        return self.base.cross(self.image.new(new), cols)

    def _new_diagonal(self, new: Any) -> Floats:
        return self.base.new_diagonal(self.image.new(new))

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return Mapped(self.base.take(items), self.image, labels)

    def _apply(self, V: Floats) -> Floats:
        return self.base.apply(np.asarray(V))

"""What is known about the items of an axis, as weighted parts of one kernel."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from kronfill._stored import Tests, floats, of, real, tuple_of, whole
from kronfill._types import Flags, Floats, Index
from kronfill.auto.part_arrays import PartArrays, StretchedArray
from kronfill.errors import KernelError, ParameterError, argument
from kronfill.kernels import Kernel, as_kernel, rbf
from kronfill.kernels.algebra import Normalized, Parts, Scaled
from kronfill.kernels.base import inherited
from kronfill.kernels.columns.single_columns import FingerprintEncoder, KmerEncoder
from kronfill.kernels.features import FeatureKernel
from kronfill.kernels.given import Precomputed
from kronfill.kernels.mapped import FeatureMap, Mapped, SimilarityRows
from kronfill.kernels.sources import SourceKernel
from kronfill.kernels.stationary import RBF
from kronfill.kernels.stretching import (
    feature_groups,
    localized,
    roughened,
    straightened,
    stretchable,
    stretched,
)
from kronfill.kernels.thin import Thin, thin

__all__ = [
    "CONSTANT", "MANY", "OWN", "THIN_RANK", "AxisParts", "FactorMap", "WeightedSources",
    "latent_kernel",
]  # fmt: skip

CONSTANT, OWN = 1.0, 0.1
"""First weights of the constant and the identity part beside a sum of weight 1."""
MANY = 4000
"""From so many items on, a kernel is cut to a thin factor."""
THIN_RANK = 64
"""Columns of that factor."""
MEDIAN_ITEMS = 1000
"""Items among which the median distance of latent factors is taken."""
SHORTER = 4.0
"""So much shorter than the median distance is, at first, the length of what is alike near by."""
NEGLIGIBLE = 1e-4
"""A part with a smaller share of the diagonal is left out."""
ALL = -1


@dataclass(frozen=True, eq=False)
class AxisParts:
    """Parts of the kernel of one axis: its sources, what is made of them, and latent factors.

    Attributes
    ----------
    n : int or None
        Number of items; None where nothing is known about them.
    labels : tuple of str
        What each part is called.
    kernels : tuple of Kernel
        The parts, all of mean diagonal 1; a constant and an identity come in addition.
    source : tuple of int
        Which of the sources describes new items to each part; ALL for all of them together.
    """

    n: int | None
    labels: tuple[str, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    source: tuple[int, ...] = ()

    @classmethod
    def of(cls, given: Any, name: str) -> AxisParts:
        """From what was given for an axis: nothing, a kernel, or several with or without labels."""
        sources = _labelled(given, name)
        if not sources:
            return cls(None)
        kernels = {
            label: as_kernel(kernel, f"{name}[{label!r}]") for label, kernel in sources.items()
        }
        sizes = {kernel.n for kernel in kernels.values()}
        if len(sizes) > 1:
            each = ", ".join(f"{label!r} {kernel.n:,}" for label, kernel in kernels.items())
            msg = f"{name} must all have the same items, in the same order; got {each}."
            raise KernelError(msg)
        labels, parts, source = list(kernels), [], list(range(len(kernels)))
        for kernel in kernels.values():
            parts.append(_unit(_cut(kernel)))
        for k, (label, kernel) in enumerate(kernels.items()):
            if _compares_items(kernel):
                labels.append(label + PROFILE)
                parts.append(_profile(kernel))
                source.append(k)
            elif isinstance(stretchable(kernel), RBF) and kernel.n < MANY:
                labels += [label + ROUGH, label + LINEAR]
                parts += [roughened(parts[k], SHORTER), _unit(straightened(parts[k]))]
                source += [k, k]
                place = localized(parts[k])
                if place is not None:
                    labels += [label + PLACE, label + PLACE + ROUGH]
                    parts += [place, roughened(place, SHORTER)]
                    source += [k, k]
        return cls(parts[0].n, tuple(labels), tuple(parts), tuple(source))

    @property
    def together(self) -> Kernel | None:
        """The sources as they describe new items, None if there are none."""
        given = [
            kernel
            for kernel, label in zip(self.kernels, self.labels, strict=True)
            if not label.endswith((PROFILE, ROUGH, LINEAR, PLACE))
        ]
        return reduce(operator.add, given) if given else None

    @property
    def source_labels(self) -> tuple[str, ...]:
        """What the sources are called."""
        return self.labels[: max(self.source, default=ALL) + 1]

    def kept_without(self, label: str) -> tuple[Flags, Flags]:
        """Which parts, and which of their scales, are made of other sources than this one."""
        gone = self.source_labels.index(label)
        parts = np.array([at != gone for at in self.source], bool)
        return parts, np.repeat(parts, self.scales)

    def without(self, label: str) -> AxisParts:
        """The axis without one of its sources."""
        gone = self.source_labels.index(label)
        parts = [k for k, at in enumerate(self.source) if at != gone]
        return AxisParts(
            self.n,
            tuple(self.labels[k] for k in parts),
            tuple(self.kernels[k] for k in parts),
            tuple(self.source[k] - (self.source[k] > gone) for k in parts),
        )

    @property
    def are_known(self) -> bool:
        """Whether anything is known about the items."""
        return bool(self.kernels)

    def resized(self, n: int) -> AxisParts:
        """With the number of items, where it was not known."""
        return self if self.n is not None else AxisParts(n)

    def with_latent(self, kernel: Kernel) -> AxisParts:
        """With a part for latent factors."""
        return AxisParts(
            kernel.n, (*self.labels, LATENT), (*self.kernels, _cut(kernel)), (*self.source, ALL)
        )

    def arrays(self, items: Index) -> PartArrays:
        """All parts among some items."""
        parts = [
            StretchedArray.of(kernel, items)
            if stretchable(kernel) is not None
            else np.asarray(kernel.block(items, items))
            for kernel in self.kernels
        ]
        return PartArrays(len(items), tuple(parts))

    @property
    def scales(self) -> tuple[int, ...]:
        """Number of scales of each part."""
        return tuple(
            0 if stretchable(kernel) is None else int(feature_groups(kernel).max()) + 1
            for kernel in self.kernels
        )

    def first(self) -> Floats:
        """Weights before anything is learned: parts alike, as much constant, little of its own."""
        p = len(self.kernels)
        return np.array([*np.full(p, 1.0 / max(p, 1)), CONSTANT, OWN if p else 1.0])

    def kernel(self, weights: Floats, scales: Floats) -> Kernel:
        """The whole kernel."""
        assert self.n is not None
        ends = np.cumsum(self.scales)
        kernels = tuple(
            stretched(kernel, scales[end - count : end]) if count else kernel
            for kernel, count, end in zip(self.kernels, self.scales, ends, strict=True)
        )
        return WeightedSources(self.n, kernels, self.source, weights)

    def smooth(self, weights: Floats, scales: Floats) -> Kernel | None:
        """The sources alone, None if there are none."""
        if not self.are_known:
            return None
        return self.kernel(np.array([*weights[: len(self.kernels)], 0.0, 0.0]), scales)

    def smoothest(self, weights: Floats, scales: Floats) -> Kernel | None:
        """The sources alone as they were given, each with the weight of all that is made of it."""
        if not self.are_known:
            return None
        of_source = np.bincount(self.source, weights[: len(self.source)])
        gathered = np.zeros(len(self.kernels))
        gathered[: len(of_source)] = of_source
        return self.smooth(gathered, scales)


LATENT, PROFILE = "latent factors", ", by profile"
ROUGH, LINEAR, PLACE = ", near by", ", linear", ", place"


def _labelled(given: Any, name: str) -> dict[str, Any]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(label): kernel for label, kernel in given.items()}
    if isinstance(given, Kernel | np.ndarray) or hasattr(given, "columns"):
        return {"similarity": given}
    if isinstance(given, Sequence) and all(isinstance(one, Kernel) for one in given):
        return {f"source {k + 1}": kernel for k, kernel in enumerate(given)}
    if isinstance(given, Sequence) and given and np.ndim(given[0]) == 1:
        return {"similarity": given}
    msg = (
        f"{argument(name)} must be a kernel, a list of kernels or a dict of kernels by label, got "
        f"{type(given).__name__}."
    )
    raise ParameterError(msg)


def _compares_items(kernel: Kernel) -> bool:
    """Whether it says how alike items are as a whole: as a matrix, of molecules, of sequences.

    All similarities of an item together then say more than single ones.
    """
    while isinstance(kernel, Scaled | Normalized | SourceKernel):
        kernel = kernel.base
    if isinstance(kernel, FeatureKernel):
        known = isinstance(kernel.table.encoder, FingerprintEncoder | KmerEncoder)
    else:
        known = isinstance(kernel, Precomputed)
    return known and kernel.n < MANY


def _profile(kernel: Kernel) -> Kernel:
    """Items are alike whose similarities with all the others are."""
    rows = kernel.block()
    size = float(np.sqrt(np.mean(kernel.diagonal() ** 2))) or 1.0
    features = np.array(rows) / size
    return Mapped(rbf(features, _length(features)), SimilarityRows(kernel, 1.0 / size))


def _cut(kernel: Kernel) -> Kernel:
    return thin(kernel, THIN_RANK) if kernel.n >= MANY and not kernel.by_products else kernel


def _unit(kernel: Kernel) -> Kernel:
    """Of mean diagonal 1 over the items that it knows."""
    diagonal = kernel.diagonal()
    known = diagonal > 0
    size = float(diagonal[known].mean()) if known.any() else 1.0
    return kernel if abs(size - 1.0) < 1e-12 else (1.0 / size) * kernel


def _length(features: Floats) -> float:
    """A length at which half of the pairs have a similarity of at least 1 / e."""
    n = len(features)
    some = features if n <= MEDIAN_ITEMS else features[:: -(-n // MEDIAN_ITEMS)]
    squares = np.maximum(
        (some**2).sum(axis=1)[:, None] + (some**2).sum(axis=1) - 2 * some @ some.T, 0.0
    )
    apart = squares[np.triu_indices(len(some), 1)]
    apart = apart[apart > 1e-12 * max(float(apart.max(initial=0.0)), np.finfo(float).tiny)]
    return float(np.sqrt(np.median(apart) / 2)) if apart.size else 1.0


@dataclass(frozen=True, eq=False)
class FactorMap(FeatureMap):
    """Latent factors of new items, scaled by the size of their partners."""

    basis: Any
    scale: Floats
    stored: ClassVar[Tests] = {"basis": of(object), "scale": floats(1)}

    def new(self, items: Any) -> Floats:
        """See :class:`FeatureMap`."""
        return np.asarray(self.basis.new(items)[:, : len(self.scale)] * self.scale)


def latent_kernel(factors: Floats, partners: Floats, basis: Any) -> Kernel:
    """Items are alike whose factors are, each counted by the size of its partner's.

    Parameters
    ----------
    factors, partners : ndarray of shape (N, p) and (L, p)
        Factors of the items of this axis and of the other.
    basis : Basis
        Knows the factors of new items.
    """
    scale = np.sqrt((partners**2).mean(axis=0))
    features = factors * scale
    return Mapped(rbf(features, _length(features)), FactorMap(basis, scale))


class WeightedSources(Kernel):
    """A weighted sum of parts, a constant and an identity; new items are described by source.

    One source takes the description as it is; of several, each takes its own of
    :class:`~kronfill.kernels.Parts`.
    """

    parts: tuple[Kernel, ...]
    source: tuple[int, ...]
    weights: Floats
    constant: float
    own: float
    stored: ClassVar[Tests] = {
        **Kernel.stored,
        "parts": tuple_of(of(Kernel)),
        "source": tuple_of(whole),
        "weights": floats(1),
        "constant": real,
        "own": real,
    }

    def __init__(
        self, n: int, parts: tuple[Kernel, ...], source: tuple[int, ...], weights: Floats
    ) -> None:
        """``weights`` are those of the parts, of the constant and of the identity."""
        shares = weights[:-2]
        keep = shares > NEGLIGIBLE * float(weights.sum())
        self._set(
            n=n,
            labels=None,
            parts=tuple(part for part, kept in zip(parts, keep, strict=True) if kept),
            source=tuple(at for at, kept in zip(source, keep, strict=True) if kept),
            weights=np.array(shares[keep]),
            constant=float(weights[-2]),
            own=float(weights[-1]),
            **inherited(*parts),
        )

    def _fits_together(self) -> bool:
        return (
            super()._fits_together()
            and len(self.parts) == len(self.source) == len(self.weights)
            and all(part.n == self.n for part in self.parts)
            and bool((self.weights >= 0).all())
            and min(self.constant, self.own) >= 0
            and min(self.source, default=ALL) >= ALL
        )

    @property
    def by_products(self) -> bool:
        """See :attr:`Kernel.by_products`."""
        return any(part.by_products for part in self.parts)

    @property
    def known_rank(self) -> int | None:
        """See :attr:`Kernel.known_rank`."""
        if self.own > 0 or not all(isinstance(part, Thin) for part in self.parts):
            return None
        return sum(int(part.known_rank or 0) for part in self.parts) + (self.constant > 0)

    def split(self) -> tuple[Kernel | None, float]:
        """See :meth:`Kernel.split`."""
        if self.own == 0:
            return self, 0.0
        rest = None if not self.parts and self.constant == 0 else self._with(own=0.0)
        return rest, self.own

    def _sum(self, each: Any, shape: tuple[int, ...]) -> Floats:
        out = np.full(shape, self.constant)
        for weight, part, at in zip(self.weights, self.parts, self.source, strict=True):
            out += weight * each(part, at)
        return out

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        left, right = (np.arange(self.n) if index is None else index for index in (rows, cols))
        out = self._sum(lambda part, at: part.block(rows, cols), (len(left), len(right)))
        if self.own > 0:
            out += self.own * (left[:, None] == right)
        return out

    def _diagonal(self, rows: Index | None) -> Floats:
        size = self.n if rows is None else len(rows)
        return self.own + self._sum(lambda part, at: part.diagonal(rows), (size,))

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        size = self.n if cols is None else len(cols)
        describe = _descriptions(new)
        return self._sum(
            lambda part, at: part.cross(describe(at), cols), (_count(new, self.parts), size)
        )

    def _new_diagonal(self, new: Any) -> Floats:
        describe = _descriptions(new)
        return self.own + self._sum(
            lambda part, at: part.new_diagonal(describe(at)), (_count(new, self.parts),)
        )

    def _apply(self, V: Floats) -> Floats:
        out = self._sum(lambda part, at: part.apply(V), V.shape)
        out += self.own * V + self.constant * (V.sum(axis=0) - 1.0)
        return out

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        taken: Kernel = self._with(
            n=len(items), labels=labels, parts=tuple(part.take(items) for part in self.parts)
        )
        return taken

    def _parameters(self) -> dict[str, Any]:
        return {"parts": len(self.parts), "constant": self.constant, "own": self.own}


def _descriptions(new: Any) -> Any:
    return lambda at: new[at] if isinstance(new, Parts) and at != ALL else new


def _count(new: Any, parts: tuple[Kernel, ...]) -> int:
    first = new[0] if isinstance(new, tuple) else new
    return int(first) if isinstance(first, int) else len(first)

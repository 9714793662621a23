"""What is known about one axis of a table, matched with its labels and made into a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill import kernels
from kronfill.data import Labels
from kronfill.data.amounts import count_of
from kronfill.data.reading.side_files import HOLDS
from kronfill.errors import LabelError, NotPSDError, NotSymmetricError, ParameterError
from kronfill.estimators.base import fitted_kernels
from kronfill.estimators.imc import feature_tables
from kronfill.kernels import Kernel
from kronfill.kernels.algebra import Normalized, Product, Scaled, Sum
from kronfill.kernels.encoding import FrameEncoder
from kronfill.kernels.features import FeatureKernel
from kronfill.kernels.given import Constant, Identity
from kronfill.kernels.thin import Thin, thin

__all__ = [
    "IDENTITY", "NOTHING", "LabelledAxis", "Match", "feature_categories", "feature_kinds",
    "internal_features", "is_thin", "kernel_of", "leaves", "match", "read_axis",
    "side_labels", "some_of",
]  # fmt: skip

IDENTITY = 0.1
"""Weight of the identity part that is added to a kernel made from features or a graph."""
NOTHING = "nothing known"
MANY = 4000
"""From so many items on, a kernel made from features is cut to a thin factor."""
RANK = 64
"""Columns of that factor."""
KNOWN, CONSTANT = "(known)", "(constant)"
"""Columns that are added to a table of features."""


@dataclass(frozen=True)
class Match:
    """Which labels the table and the side information of one axis have in common.

    Attributes
    ----------
    axis : {"row", "column"}
        The axis.
    both : int
        Number of labels in both.
    only_table, only_side : tuple
        Labels that only one of them has.
    """

    axis: str
    both: int
    only_table: tuple[Any, ...]
    only_side: tuple[Any, ...]

    def words(self, unmatched: str = "error") -> str:
        """Say what matched, and what becomes of the rest."""
        total = self.both + len(self.only_table)
        fate = {"keep": ": kept, known by entries only", "drop": ": dropped"}.get(unmatched, "")
        verb = "is" if total == 1 else "are"
        there = f"{self.both:,} of {count_of(total, self.axis)} of the table {verb}"
        parts = [f"{there} in the side information"]
        for labels, where, then in (
            (self.only_table, "the table", fate),
            (self.only_side, "the side information", ": to be extrapolated"),
        ):
            if labels:
                parts.append(f"{len(labels):,} only in {where}, {some_of(labels)}{then}")
        return "; ".join(parts)

    def __str__(self) -> str:
        return self.words()


def some_of(labels: Sequence[Any]) -> str:
    """Up to three labels, and whether these are all."""
    return "such as " * (len(labels) > 3) + ", ".join(map(repr, labels[:3]))


@dataclass(frozen=True)
class LabelledAxis:
    """Labels of one axis and what is known about its items."""

    labels: Any
    kernel: Kernel | None
    features: Any
    words: str


def match(side: Any, labels: Any, name: str) -> Match | None:
    """Compare labels; None where nothing is matched by label."""
    known = side_labels(side)
    if known is None:
        return None
    there, here = set(known), set(labels)
    only_table = tuple(label for label in labels if label not in there)
    only_side = tuple(label for label in known if label not in here)
    return Match(name, len(here) - len(only_table), only_table, only_side)


def side_labels(side: Any) -> Any:
    """The labels of the items that side information describes, None if it has none."""
    if isinstance(side, Kernel):
        return side.labels
    if _is_graph(side):
        return list(side.nodes)
    return list(side.index) if _is_frame(side) else None


def _is_graph(side: Any) -> bool:
    return hasattr(side, "adjacency") and hasattr(side, "nodes")


def _is_frame(side: Any) -> bool:
    return hasattr(side, "columns") and hasattr(side, "index")


def read_axis(
    side: Any,
    labels: Any,
    size: int,
    name: str,
    identity: float = IDENTITY,
    many: int | None = None,
) -> LabelledAxis:
    """Match the side information of one axis with the labels of the table.

    Labels that only the table has share nothing with the others but a constant: they are known by
    their entries only. From ``many`` items on (MANY by default) a kernel is cut to a thin factor.
    """
    many = MANY if many is None else many
    if side is None:
        # Nothing is shared but a general level: a constant and an identity part.
        both = kernels.constant(size) + kernels.identity(size)
        return LabelledAxis(labels, both, None, NOTHING)
    if isinstance(side, Kernel):
        return _matched(side, labels, size, name, f"kernel {side!r}")
    if _is_graph(side):
        kernel = kernels.diffusion(_with_nodes(side, labels))
        words = f"graph of {count_of(len(side.nodes), 'node')}"
        return _with_parts(_matched(kernel, labels, size, name, words), identity, many)
    if _is_frame(side):
        if _is_similarity(side):
            kernel = _similar(_padded(side, labels), name)
            matched = _matched(kernel, labels, size, name, "similarity matrix")
            return _with_parts(matched, identity, many)
        return _with_parts(_featured(side, labels, name), identity, many)
    if hasattr(side, "to_frame") or hasattr(side, "to_pandas"):
        msg = (
            f"What is known about the {name}s is a {type(side).__name__}, which has no labels to "
            "match or no columns: give a pandas DataFrame whose index holds the labels "
            "(Series.to_frame(), to_pandas().set_index(...))."
        )
        raise ParameterError(msg)
    kernel = kernels.as_kernel(side, f"{name}s")
    matched = _matched(kernel, labels, size, name, "similarity matrix")
    return _with_parts(matched, identity, many)


def _is_similarity(side: Any) -> bool:
    """Whether a data frame has the same labels on both axes, and was not said to hold features."""
    if getattr(side, "attrs", {}).get(HOLDS) == "features":
        return False
    return len(side.index) == len(side.columns) and set(side.index) == set(side.columns)


def _with_nodes(graph: Any, labels: Any) -> Any:
    """The graph with a node without edges for each label that it lacks."""
    missing = [label for label in labels if label not in graph]
    if missing:
        graph = graph.copy()
        graph.add_nodes_from(missing)
    return graph


def _padded(similar: Any, labels: Any) -> Any:
    """The matrix with zeros for each label that it lacks."""
    known = set(similar.index)
    missing = [label for label in labels if label not in known]
    if not missing:
        return similar
    index = similar.index.append(type(similar.index)(missing))
    return similar.reindex(index=index, columns=index, fill_value=0.0)


def _similar(similar: Any, name: str) -> Kernel:
    """The kernel of a labelled matrix; what is wrong with it is told by label."""
    try:
        return kernels.precomputed(similar, labels=similar.index.tolist())
    except NotSymmetricError:
        values = similar.loc[:, similar.index].to_numpy(dtype=float)
        i, j = np.unravel_index(np.argmax(np.abs(values - values.T)), values.shape)
        one, two = similar.index[i], similar.index[j]
        msg = (
            f"The similarities of the {name}s are not symmetric: that of {one!r} and {two!r} is "
            f"{values[i, j]:.6g}, that of {two!r} and {one!r} {values[j, i]:.6g}. They must be the "
            "same; take their mean if that is what is meant."
        )
        raise NotSymmetricError(msg) from None
    except NotPSDError as error:
        rest = error.args[0].removeprefix("kernel ")
        msg = f"The matrix of similarities of the {name}s {rest}"
        raise NotPSDError(msg, error.smallest_eigenvalue, advice=error.advice) from None


def _featured(side: Any, labels: Any, name: str) -> LabelledAxis:
    words = f"{count_of(side.shape[1], 'feature')} of {count_of(len(side), 'item')}"
    order, merged = _order(Labels(side.index, axis=name), labels)
    known = order >= 0
    if known.all():
        ordered = side.iloc[order]
        # A constant feature gives IMC the effects of the other axis, as the constant part does
        # kernels.
        return LabelledAxis(merged, kernels.rbf(ordered), ordered.assign(**{CONSTANT: True}), words)
    # The place of items without features in the kernel does not matter: it is multiplied by 0.
    base = kernels.rbf(side.reset_index(drop=True)).take(np.maximum(order, 0))
    flags = type(side)({KNOWN: known})
    return LabelledAxis(merged, base * kernels.linear(flags), None, words)


def _matched(kernel: Kernel, labels: Any, size: int, name: str, words: str) -> LabelledAxis:
    if kernel.labels is None:
        if kernel.n != size:
            msg = (
                f"The {name} kernel has {count_of(kernel.n, 'item')} without labels, the table has "
                f"{count_of(size, name)}: give one item per {name} in the order of the table, or "
                "labels."
            )
            raise LabelError(msg)
        return LabelledAxis(labels, kernel, None, words)
    order, merged = _order(Labels(kernel.labels, axis=name), labels)
    if order.min() < 0:
        msg = f"A kernel object must describe every {name} of the table; drop the others from it."
        raise LabelError(msg)
    return LabelledAxis(merged, kernel.take(order), None, words)


def _order(known: Labels, labels: Any) -> tuple[NDArray[np.intp], tuple[Any, ...]]:
    """Positions in the side information (-1: none) of the table's labels, then of its own."""
    own = set(labels)
    more = tuple(label for label in known if label not in own)
    place = {label: k for k, label in enumerate(known)}
    merged = (*labels, *more)
    return np.array([place.get(label, -1) for label in merged], dtype=np.intp), merged


def _with_parts(axis: LabelledAxis, identity: float, many: int) -> LabelledAxis:
    """Add a constant and an identity part; with many items the rest is cut to a thin factor."""
    kernel = axis.kernel
    if kernel is None:
        return axis
    size = float(kernel.diagonal().mean()) or 1.0
    if kernel.n >= many and not kernel.by_products:
        kernel = thin(kernel, RANK)
        # What the factor leaves out of an item is its own: it goes to the identity part.
        identity += kernel.residual if isinstance(kernel, Thin) and identity > 0 else 0.0
    parts = kernel + size * kernels.constant(kernel.n)
    if identity > 0:
        parts = parts + identity * size * kernels.identity(kernel.n)
    return replace(axis, kernel=parts)


def is_thin(kernel: Kernel | None) -> bool:
    """Whether a kernel consists of thin factors, constants and identity parts only."""
    parts = kernel.parts if isinstance(kernel, Sum) else (kernel,)
    inner = (part.base if isinstance(part, Scaled) else part for part in parts)
    return all(isinstance(part, Thin | Constant | Identity) for part in inner)


def feature_kinds(model: Any, axis: int) -> dict[str, str] | None:
    """What each feature is by which a fitted method knows its rows (0) or columns (1), or None."""
    kinds = {
        name: kind
        for encoder in _encoders(model, axis)
        for kind, names in encoder.kinds.items()
        for name in names
    }
    if not kinds:
        return None
    return {name: kind for name, kind in kinds.items() if name not in (KNOWN, CONSTANT)}


def feature_categories(model: Any, axis: int) -> dict[str, tuple[str, ...]]:
    """The categories that a fitted method knows, by feature of its rows (0) or columns (1)."""
    return {
        name: values
        for encoder in _encoders(model, axis)
        for name, values in zip(encoder.kinds["category"], encoder.categories, strict=True)
    }


def internal_features(model: Any, axis: int) -> dict[str, bool]:
    """What was added to the features by which a fitted method knows an axis: new items have it."""
    names = (name for encoder in _encoders(model, axis) for name in encoder.columns)
    return {name: True for name in names if name in (KNOWN, CONSTANT)}


def kernel_of(model: Any, axis: int) -> Kernel | None:
    """The kernel by which a fitted method knows its rows (0) or columns (1), or None."""
    return fitted_kernels(model)[axis]


def leaves(kernel: Kernel | None) -> Iterator[Kernel]:
    """The kernels of which a kernel is made up."""
    if isinstance(kernel, Sum | Product):
        for part in kernel.parts:
            yield from leaves(part)
    elif isinstance(kernel, Scaled | Normalized | Thin):
        yield from leaves(kernel.base)
    elif kernel is not None:
        yield kernel


def _encoders(model: Any, axis: int) -> Iterator[Any]:
    """What encodes the features of data frames by which a fitted method knows an axis."""
    tables: Any = feature_tables(model)
    if tables is None:
        parts = leaves(kernel_of(model, axis))
        tables = [part.table for part in parts if isinstance(part, FeatureKernel)]
    else:
        tables = [tables[axis]]
    for table in tables:
        if table is not None and isinstance(table.encoder, FrameEncoder):
            yield table.encoder

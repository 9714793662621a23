"""What is known about one axis of a table, matched with its labels and made into a kernel."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kronfill import kernels
from kronfill.auto.sources import MANY, THIN_RANK
from kronfill.completion.feature_sources import Source, date_sources, feature_sources
from kronfill.completion.likelihood import described_method
from kronfill.data import Labels
from kronfill.data.amounts import count_of
from kronfill.data.reading.side_files import HOLDS
from kronfill.errors import LabelError, NotPSDError, NotSymmetricError, ParameterError
from kronfill.estimators.base import fitted_kernels
from kronfill.estimators.imc import feature_tables
from kronfill.kernels import Kernel
from kronfill.kernels.algebra import Normalized, Product, Scaled, Sum
from kronfill.kernels.columns.dates import are_dates
from kronfill.kernels.columns.encoding import ColumnEncoder, FrameEncoder
from kronfill.kernels.columns.gaps import GappyEncoder
from kronfill.kernels.features import FeatureKernel
from kronfill.kernels.given import Constant, Identity
from kronfill.kernels.sources import SourceKernel
from kronfill.kernels.thin import Thin, thin

__all__ = [
    "DATES", "IDENTITY", "NOTHING", "LabelledAxis", "Match", "Source", "encoders_by_axis",
    "encoders_of", "feature_categories", "feature_kinds",
    "internal_features", "is_several", "is_thin", "kernel_of", "kinds_of", "leaves",
    "match", "parts_by_source", "pieces_of", "read_axis", "side_labels", "some_of",
]  # fmt: skip

IDENTITY = 0.1
"""Weight of the identity part that is added to a kernel made from features or a graph."""
NOTHING = "nothing known"
SIMILARITIES = "similarity matrix"
THE_ONE, DATES = "1", "date"
"""What sources are called where one was given and the labels are dates."""
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
    """Labels of one axis and what is known about its items.

    Attributes
    ----------
    labels : sequence
        Those of the table, then those that only the side information has.
    kernel : Kernel or None
        What methods with one kernel per axis take: the average of the sources, with a constant and
        an identity part.
    features : DataFrame or None
        The table of features, where that is all that is known.
    words : str
        What is known, in words.
    sources : tuple of Source
        What is known, one by one.
    """

    labels: Any
    kernel: Kernel | None
    features: Any
    words: str
    sources: tuple[Source, ...] = ()


def match(side: Any, labels: Any, name: str) -> Match | None:
    """Compare labels; None where nothing is matched by label."""
    given = pieces_of(side)
    known = [side_labels(piece) for piece in given.values()]
    if all(some is None for some in known):
        return None
    # What has no labels is in the order of the table and describes all of it.
    own = labels if any(some is None for some in known) else ()
    there = {label: None for some in (own, *known) for label in some or ()}
    here = set(labels)
    only_table = tuple(label for label in labels if label not in there)
    only_side = tuple(label for label in there if label not in here)
    return Match(name, len(here) - len(only_table), only_table, only_side)


def side_labels(side: Any) -> Any:
    """The labels of the items that side information describes, None if it has none."""
    if isinstance(side, Kernel):
        return side.labels
    if _is_graph(side):
        return list(side.nodes)
    if _is_frame(side):
        return list(side.index)
    if is_several(side):
        known = [side_labels(piece) for piece in pieces_of(side).values()]
        return list(dict.fromkeys(chain(*(some for some in known if some is not None)))) or None
    return None


def is_several(side: Any) -> bool:
    """Whether what is known comes from several sources: a dict, or a list of such."""
    if isinstance(side, Mapping) and not _is_graph(side):
        return True
    return (
        isinstance(side, list | tuple)
        and len(side) > 0
        and all(_is_piece(piece) or getattr(piece, "ndim", 0) == 2 for piece in side)
    )


def _is_piece(side: Any) -> bool:
    return isinstance(side, Kernel) or _is_graph(side) or _is_frame(side)


def pieces_of(side: Any) -> dict[str, Any]:
    """What is known, by the name of the source; those of a list are called by their number."""
    if side is None:
        return {}
    if not is_several(side):
        return {"": side}
    if not isinstance(side, Mapping):
        return {str(k + 1): piece for k, piece in enumerate(side)}
    for name, piece in side.items():
        if not isinstance(name, str) or not name.strip():
            msg = f"Sources are called by some text, such as 'structure'; got {name!r}."
            raise ParameterError(msg)
        if piece is None or is_several(piece):
            msg = f"The source {name!r} must be one thing that is known, got {piece!r:.60}."
            raise ParameterError(msg)
    return dict(side)


def _is_graph(side: Any) -> bool:
    return hasattr(side, "adjacency") and hasattr(side, "nodes")


def _is_frame(side: Any) -> bool:
    return hasattr(side, "columns") and hasattr(side, "index")


@dataclass(frozen=True, eq=False)
class _Said:
    """What one piece of side information says, about its own items."""

    labels: Any
    sources: tuple[Source, ...]
    words: str
    features: Any = None


class _How(NamedTuple):
    """How side information is read, see :func:`read_axis`."""

    repair: bool
    kinds: Mapping[Any, str] | None
    impute: str | None


def read_axis(
    side: Any,
    labels: Any,
    size: int,
    name: str,
    identity: float = IDENTITY,
    many: int | None = None,
    *,
    repair: bool = False,
    kinds: Mapping[Any, str] | None = None,
    impute: str | None = None,
    dates: bool = True,
) -> LabelledAxis:
    """Match the side information of one axis with the labels of the table.

    Labels that only the table has share nothing with the others but a constant: they are known by
    their entries only. From ``many`` items on (MANY by default) a kernel is cut to a thin factor.

    Parameters
    ----------
    side : object
        What is known.
    labels : sequence
        Labels of the table.
    size : int
        Their number.
    name : {"row", "column"}
        The axis.
    identity : float
        Weight of the identity part.
    many : int, optional
        See above.
    repair : bool, default=False
        Whether similarities that no items can have are replaced by the nearest possible ones.
    kinds : mapping, optional
        What columns of features hold, where that is not to be found out.
    impute : {None, "mean", "error"}
        What to do with missing features.
    dates : bool, default=True
        Whether labels that are dates tell something.
    """
    many = MANY if many is None else many
    given = pieces_of(side)
    how = _How(repair, kinds, impute)
    read = {key: _read(piece, labels, size, name, how) for key, piece in given.items()}
    merged = tuple(dict.fromkeys(chain(labels, *(one.labels for one in read.values()))))
    if dates and not _know_dates(given, read) and are_dates(merged):
        found = date_sources(merged)
        said = _Said(merged, found, found[0].words)
        # New items are described by both, where something else is known.
        alone = {THE_ONE if key == "" else key: one for key, one in read.items()}
        read = {**alone, DATES: said} if read else {"": said}
        given = dict(zip(read, [*given.values(), merged], strict=True))
    if not given:
        # Nothing is shared but a general level: a constant and an identity part.
        both = kernels.constant(size) + kernels.identity(size)
        return LabelledAxis(labels, both, None, NOTHING)
    placed = {
        key: [_placed(source, one.labels, merged, key) for source in one.sources]
        for key, one in read.items()
    }
    sources = _told_apart(placed, isinstance(side, Mapping))
    words = "; ".join(one.words for one in read.values())
    first, piece = next(iter(read.values())), next(iter(given.values()))
    features = _all_features(first, merged) if len(given) == 1 else None
    if len(sources) > 1 or "" not in given:
        total = reduce(operator.add, (source.kernel for source in sources))
        kernel = total * (1.0 / len(sources))
    elif isinstance(piece, Kernel):
        kernel = _matched(piece, first.labels, merged, name)
        return LabelledAxis(merged, kernel, None, words, sources)
    elif _is_graph(piece):  # a node without edges is similar to itself, in this kernel
        kernel = kernels.diffusion(_with_nodes(piece, labels))
        kernel = _matched(kernel, kernel.labels, merged, name)
    else:
        kernel = placed[""][0].kernel
    return _with_parts(LabelledAxis(merged, kernel, features, words, sources), identity, many)


def _all_features(one: _Said, merged: Any) -> Any:
    """The table of features in the order of the axis, if it has a line for each item.

    A constant feature gives IMC the effects of the other axis, as the constant part does kernels.
    """
    order = _order(one.labels, merged)
    if one.features is None or order.min() < 0:
        return None
    return one.features.iloc[order].assign(**{CONSTANT: True})


def _know_dates(given: dict[str, Any], read: dict[str, _Said]) -> bool:
    """Whether dates are among what was given, or a kernel that is taken as it is."""
    sources = (source for one in read.values() for source in one.sources)
    as_is = len(given) == 1 and isinstance(given.get(""), Kernel)
    return as_is or any(source.label.endswith(": trend") for source in sources)


def _told_apart(placed: dict[str, list[Source]], named: bool) -> tuple[Source, ...]:
    """All sources, each with a label of its own and a unit mean diagonal."""
    found: list[Source] = []
    taken: set[str] = set()
    for key, some in placed.items():
        for source in some:
            label = source.label
            if named and key != DATES:
                label = key if len(some) == 1 else f"{key}: {label}"
            number = 1
            while label in taken:
                number += 1
                label = f"{source.label} ({number})"
            taken.add(label)
            found.append(replace(source, label=label, kernel=_unit(source.kernel)))
    return tuple(found)


def _unit(kernel: Kernel) -> Kernel:
    """The kernel with a mean diagonal of one over the items that it knows."""
    diagonal = kernel.diagonal()
    known = diagonal > 0
    size = float(diagonal[known].mean()) if known.any() else 1.0
    return kernel if size == 1.0 else kernel * (1.0 / size)


def _placed(source: Source, own: Any, merged: Any, key: str) -> Source:
    """The source over all labels of the axis."""
    order = _order(own, merged)
    kernel = source.kernel
    if key or order.min() < 0:
        return replace(source, kernel=SourceKernel(kernel, order, key))
    same = len(order) == kernel.n and (order == np.arange(kernel.n)).all()
    return source if same else replace(source, kernel=kernel.take(order))


def _read(side: Any, labels: Any, size: int, name: str, how: _How) -> _Said:
    """What one piece of side information says."""
    if isinstance(side, Kernel):
        own = _own_labels(side, labels, size, name)
        smooth, _ = side.split()
        source = Source("kernel", side if smooth is None else smooth, f"kernel {side!r}")
        return _Said(own, (source,), source.words)
    if _is_graph(side):
        words = f"graph of {count_of(len(side.nodes), 'node')}"
        kernel = kernels.diffusion(side)
        return _Said(kernel.labels, (Source("graph", kernel, words),), words)
    if _is_frame(side):
        if _is_similarity(side):
            padded = _padded(side, labels)
            kernel, words = _similar(padded, name, how.repair)
            return _Said(list(padded.index), (Source("similarity", kernel, words),), words)
        ordered = _as_in_table(side, labels, name)
        sources, told = feature_sources(ordered, how.kinds, how.impute)
        words = f"{count_of(side.shape[1], 'feature')} of {count_of(len(side), 'item')}{told}"
        return _Said(tuple(ordered.index), sources, words, ordered)
    if hasattr(side, "to_frame") or hasattr(side, "to_pandas"):
        msg = (
            f"What is known about the {name}s is a {type(side).__name__}, which has no labels to "
            "match or no columns: give a pandas DataFrame whose index holds the labels "
            "(Series.to_frame(), to_pandas().set_index(...))."
        )
        raise ParameterError(msg)
    kernel, words = _similar(side, name, how.repair)
    own = _own_labels(kernel, labels, size, name)
    return _Said(own, (Source("similarity", kernel, words),), words)


def _as_in_table(side: Any, labels: Any, name: str) -> Any:
    """The lines in the order of the table, if it has one for each item of it; the others behind."""
    own = tuple(Labels(side.index, axis=name))
    there = set(own)
    if not all(label in there for label in labels):
        return side
    return side.iloc[_order(own, dict.fromkeys(chain(labels, own)))]


def _own_labels(kernel: Kernel, labels: Any, size: int, name: str) -> Any:
    """The labels of the items of a kernel: those of the table where it has none."""
    if kernel.labels is not None:
        return kernel.labels
    if kernel.n != size:
        msg = (
            f"The {name} kernel has {count_of(kernel.n, 'item')} without labels, the table has "
            f"{count_of(size, name)}: give one item per {name} in the order of the table, or "
            "labels."
        )
        raise LabelError(msg)
    return labels


def _matched(kernel: Kernel, own: Any, merged: Any, name: str) -> Kernel:
    """The kernel in the order of the axis, if it describes all of its items."""
    order = _order(own, merged)
    if order.min() < 0:
        msg = f"A kernel object must describe every {name} of the table; drop the others from it."
        raise LabelError(msg)
    return kernel if kernel.labels is None else kernel.take(order)


def _order(own: Any, merged: Any) -> NDArray[np.intp]:
    """Positions of labels among those of some side information, -1 where it lacks them."""
    place = {label: k for k, label in enumerate(own)}
    return np.array([place.get(label, -1) for label in merged], dtype=np.intp)


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


def _similar(similar: Any, name: str, repair: bool) -> tuple[Kernel, str]:
    """The kernel of a matrix of similarities, and words; what is wrong is told by label."""
    labelled = _is_frame(similar)
    try:
        if labelled:
            return kernels.precomputed(similar, similar.index.tolist()), SIMILARITIES
        return kernels.as_kernel(similar, f"{name}s"), SIMILARITIES
    except NotSymmetricError:
        if not labelled:
            raise
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
        if repair:
            return _repaired(similar)
        if not labelled:
            raise
        rest = error.args[0].removeprefix("kernel ")
        msg = f"The matrix of similarities of the {name}s {rest}"
        raise NotPSDError(msg, error.smallest_eigenvalue, advice=error.advice) from None


def _repaired(similar: Any) -> tuple[Kernel, str]:
    """The kernel of the nearest possible similarities, and how far these are."""
    if sparse.issparse(similar):
        similar = similar.toarray()
    ordered = similar.loc[:, similar.index] if _is_frame(similar) else np.asarray(similar)
    values = np.linalg.eigvalsh(np.asarray(ordered, dtype=np.float64))
    share = float(-values[values < 0].sum() / np.abs(values).sum())
    kernel = kernels.precomputed(kernels.nearest_psd(ordered))
    return kernel, f"{SIMILARITIES}, repaired: {100 * share:.2g}% of its spectrum was negative"


def _with_parts(axis: LabelledAxis, identity: float, many: int) -> LabelledAxis:
    """Add a constant and an identity part; with many items the rest is cut to a thin factor."""
    kernel = axis.kernel
    if kernel is None:
        return axis
    size = float(kernel.diagonal().mean()) or 1.0
    if kernel.n >= many and not kernel.by_products:
        kernel = thin(kernel, THIN_RANK)
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
    return kinds_of(encoders_by_axis(model, axis))


def kinds_of(encoders: Iterable[Any]) -> dict[str, str] | None:
    """What each feature is that some encoders take; None if there are none."""
    kinds = {
        name: kind
        for encoder in encoders
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
        for encoder in encoders_by_axis(model, axis)
        if isinstance(encoder, FrameEncoder | GappyEncoder)
        for name, values in zip(encoder.kinds["category"], encoder.categories, strict=True)
    }


def internal_features(encoders: Iterable[Any]) -> dict[str, bool]:
    """What was added to the features by which a fitted method knows an axis: new items have it."""
    names = (name for one in encoders for some in one.kinds.values() for name in some)
    return {name: True for name in names if name in (KNOWN, CONSTANT)}


def kernel_of(model: Any, axis: int) -> Kernel | None:
    """The kernel by which a fitted method knows its rows (0) or columns (1), or None."""
    return fitted_kernels(described_method(model))[axis]


def parts_by_source(kernel: Kernel | None) -> dict[str, list[Kernel]]:
    """The kernels of each of several sources, by its name; empty where there is but one."""
    found: dict[str, list[Kernel]] = {}
    for part in leaves(kernel, SourceKernel):
        if isinstance(part, SourceKernel) and part.name:
            found.setdefault(part.name, []).append(part.base)
    return found


def leaves(kernel: Kernel | None, *whole: type[Kernel]) -> Iterator[Kernel]:
    """The kernels of which a kernel is made up; those of the classes given are not taken apart."""
    if kernel is not None and isinstance(kernel, whole):
        yield kernel
    elif isinstance(kernel, Sum | Product):
        for part in kernel.parts:
            yield from leaves(part, *whole)
    elif isinstance(kernel, Scaled | Normalized | Thin | SourceKernel):
        yield from leaves(kernel.base, *whole)
    elif kernel is not None:
        yield kernel


def category_of_items(model: Any, axis: int, name: str) -> list[str] | None:
    """The category of each row (0) or column (1) in a feature of data frames, or None."""
    for table in _tables(model, axis):
        encoder = table.encoder
        if name in encoder.kinds.get("category", ()):
            k = list(encoder.kinds["category"]).index(name)
            values = encoder.categories[k]
            first = encoder.width - sum(map(len, encoder.categories[k:]))
            block = table.values[:, first : first + len(values)]
            dense = np.asarray(block.todense() if sparse.issparse(block) else block)
            named = [*values, "(none)"]
            at = np.where(dense.any(axis=1), dense.argmax(axis=1), len(values))
            return [named[j] for j in at]
    return None


def encoders_by_axis(model: Any, axis: int) -> Iterator[Any]:
    """What encodes the features of data frames by which a fitted method knows an axis."""
    return (table.encoder for table in _tables(model, axis))


def _tables(model: Any, axis: int) -> Iterator[Any]:
    """The features from data frames by which a fitted method knows an axis."""
    tables: Any = feature_tables(described_method(model))
    if tables is None:
        yield from _tables_of([kernel_of(model, axis)])
    elif tables[axis] is not None and isinstance(tables[axis].encoder, FrameEncoder):
        yield tables[axis]


def encoders_of(some: Iterable[Kernel | None]) -> Iterator[Any]:
    """What encodes the features of data frames of which kernels are made."""
    return (table.encoder for table in _tables_of(some))


def _tables_of(some: Iterable[Kernel | None]) -> Iterator[Any]:
    """The features from data frames of which kernels are made."""
    for kernel in some:
        for part in leaves(kernel):
            if isinstance(part, FeatureKernel) and isinstance(part.table.encoder, ColumnEncoder):
                yield part.table

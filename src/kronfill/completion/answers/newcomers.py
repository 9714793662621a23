"""New rows or columns of a completed table: what describes them, as its method wants it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill._types import Floats
from kronfill.completion.likelihood import described_method
from kronfill.completion.sides import (
    DATES,
    encoders_by_axis,
    encoders_of,
    feature_kinds,
    internal_features,
    is_several,
    kernel_of,
    kinds_of,
    leaves,
    parts_by_source,
)
from kronfill.data.amounts import count_of
from kronfill.data.arrays import listing
from kronfill.data.reading.frames import as_pandas, is_frame
from kronfill.errors import FeatureError, LabelError, ParameterError
from kronfill.estimators import MC
from kronfill.estimators.base import inner_method
from kronfill.estimators.imc import feature_tables
from kronfill.kernels import Kernel, Parts
from kronfill.kernels.columns.dates import are_dates
from kronfill.kernels.columns.single_columns import DateEncoder
from kronfill.kernels.given import Constant, Identity, SimilarityKernel
from kronfill.kernels.new_items import check_possible, similarities, too_similar
from kronfill.kernels.sources import NewItems

__all__ = ["Newcomers", "given_kernel", "knows_nothing", "newcomers", "ways_to_describe"]

ALIKE = 1e-9
"""Share by which similarities of items with themselves may differ and count as the same."""


@dataclass(frozen=True, eq=False)
class Newcomers:
    """New items of one axis.

    Attributes
    ----------
    given : object
        What describes them, as the fitted method wants it.
    labels : pandas.Index or None
        Their labels, if they have any.
    """

    given: Any
    labels: Any

    def __len__(self) -> int:
        return len(self.given[0] if isinstance(self.given, tuple) else self.given)

    def take(self, some: Any) -> Any:
        """What describes some of them."""
        if isinstance(self.given, tuple):
            return tuple(part[some] for part in self.given)
        return self.given.iloc[some] if hasattr(self.given, "iloc") else self.given[some]


def newcomers(model: Any, axis: int, known: Sequence[Any], new: Any) -> Newcomers | None:
    """Read what describes new rows or columns of a completed table.

    Parameters
    ----------
    model : estimator
        The fitted method.
    axis : int
        0 for rows, 1 for columns.
    known : sequence
        Labels of the known rows or columns.
    new : object or None
        Features or similarities, in the form in which they were given for the known ones; labels
        or a number where nothing is known about these.

    Returns
    -------
    Newcomers or None
    """
    if new is None:
        return None
    name = ("row", "column")[axis]
    sources = parts_by_source(kernel_of(model, axis))
    if sources:
        return _by_sources(sources, known, new, name)
    given = given_kernel(model, axis)
    if given is not None:
        return _by_similarities(given, known, new, name)
    if isinstance(inner_method(model), MC) and is_frame(new):
        return _by_number(new.index, name)  # it takes no notice of what is known
    if knows_nothing(model, axis):
        return _by_number(new, name)
    return _by_features(list(encoders_by_axis(model, axis)), new, name)


def ways_to_describe(
    model: Any, axis: int
) -> dict[str, tuple[dict[str, str] | None, SimilarityKernel | None]]:
    """How new rows (0) or columns (1) are described, for each source by its name.

    By the features that it wants, and what each of them is, or by similarities with the items of a
    kernel; neither where there is nothing to say. A single source is called "".
    """
    sources = parts_by_source(kernel_of(model, axis))
    found = {
        key: (kinds_of(encoders_of(some)), _given(some))
        for key, some in sources.items()
        if key != DATES
    }
    return found or {"": (feature_kinds(model, axis), given_kernel(model, axis))}


def knows_nothing(model: Any, axis: int) -> bool:
    """Whether a fitted method knows nothing about its rows (0) or columns (1)."""
    tables = feature_tables(described_method(model))
    if tables is not None:
        return tables[axis] is None
    return not _telling([kernel_of(model, axis)])


def given_kernel(model: Any, axis: int) -> SimilarityKernel | None:
    """The similarities by which a fitted method knows its rows (0) or columns (1), or None.

    A similarity matrix or a graph, whatever constants and identity parts are added to it.
    """
    return _given([kernel_of(model, axis)])


def _given(some: Iterable[Kernel | None]) -> SimilarityKernel | None:
    found = _telling(some)
    alone = found[0] if len(found) == 1 else None
    return alone if isinstance(alone, SimilarityKernel) else None


def _telling(some: Iterable[Kernel | None]) -> list[Kernel]:
    """The parts of kernels that tell something about single items."""
    parts = (part for kernel in some for part in leaves(kernel))
    return [part for part in parts if not isinstance(part, Constant | Identity)]


def _by_sources(
    sources: dict[str, list[Kernel]], known: Sequence[Any], new: Any, name: str
) -> Newcomers:
    """What each of several sources says about new items; an item may be in some of them only."""
    pd = needed("pandas", "New rows and columns")
    others = {key: some for key, some in sources.items() if key != DATES}
    if DATES in sources and _are_labels(new):  # known by their dates alone
        labels = pd.Index(list(new), tupleize_cols=False)
        return Newcomers(NewItems(len(labels), {DATES: (labels, np.arange(len(labels)))}), labels)
    if DATES not in sources:
        pieces = _in_pieces(others, new, name)
    elif len(others) == 1 and not is_several(new):  # the dates are the labels of what is given
        pieces = dict(zip(others, [new], strict=True))
    else:
        pieces = _in_pieces(others, new, name)
    read = {key: _of_source(others[key], known, piece, name) for key, piece in pieces.items()}
    labelled = [one.labels for one in read.values() if one.labels is not None]
    if not labelled:
        count = max(len(one) for one in read.values())
        merged = pd.RangeIndex(count)
    else:
        merged = pd.Index(list(dict.fromkeys(chain(*labelled))), tupleize_cols=False)
    place = {label: k for k, label in enumerate(merged)}
    pieces = {DATES: (merged, np.arange(len(merged)))} if DATES in sources else {}
    if DATES in sources and not labelled:
        msg = f"The {name}s are known by their dates: give those of new ones as the index."
        raise LabelError(msg)
    for key, one in read.items():
        if one.labels is None and len(one) != len(merged):
            msg = (
                f"Source {key!r} describes {count_of(len(one), f'new {name}')} without labels, the "
                f"others {len(merged)}: give labels (a data frame), or as many in the same order."
            )
            raise LabelError(msg)
        own = merged if one.labels is None else one.labels
        pieces[key] = (one.given, [place[label] for label in own])
    return Newcomers(NewItems(len(merged), pieces), merged if labelled else None)


def _are_labels(new: Any) -> bool:
    """Whether new items are given by labels that are dates, and nothing else."""
    pd = needed("pandas", "New rows and columns")
    plain = isinstance(new, list | tuple | np.ndarray | pd.Index)
    return plain and are_dates(list(new), fewest=1)


def _of_source(some: list[Kernel], known: Sequence[Any], new: Any, name: str) -> Newcomers:
    given = _given(some)
    if given is not None:
        return _by_similarities(given, known, new, name)
    return _by_features(list(encoders_of(some)), new, name)


def _in_pieces(sources: dict[str, list[Kernel]], new: Any, name: str) -> dict[str, Any]:
    """What is said about new items, by the name of the source that says it."""
    wanted = listing([repr(key) for key in list(sources)[:8]], len(sources))
    if isinstance(new, Mapping):
        strange = [key for key in new if key not in sources]
        given = {key: piece for key, piece in new.items() if piece is not None}
        if not strange and given:
            return given
        got = f"a dict with {', '.join(map(repr, new)) or 'nothing in it'}"
    elif isinstance(new, list | tuple) and len(new) == len(sources):
        pairs = zip(sources, new, strict=True)
        return {key: piece for key, piece in pairs if piece is not None}
    else:
        got = f"{type(new).__name__}"
    msg = (
        f"New {name}s are described as the known ones were, by several sources: a dict with one or "
        f"more of {wanted}, or a list of {len(sources)} in this order with None for a source that "
        f"says nothing; got {got}."
    )
    raise ParameterError(msg)


def _by_features(encoders: list[Any], new: Any, name: str) -> Newcomers:
    """Features by name, with what was added to those of the known items."""
    kinds = kinds_of(encoders)
    frame = as_pandas(new) if is_frame(new) else None
    if encoders and all(isinstance(one, DateEncoder) and one.by_label for one in encoders):
        return _by_dates(encoders[0], frame.index if frame is not None else new)
    if kinds is None or isinstance(new, Parts):
        return Newcomers(new, None if frame is None else frame.index)
    there = [] if frame is None else list(frame.columns)
    missing = [repr(feature) for feature in kinds if feature not in there]
    if missing:
        wanted = listing([repr(feature) for feature in list(kinds)[:8]], len(kinds))
        msg = (
            f"New {name}s are described by a data frame with the features of the known ones, "
            f"{wanted}; got {type(new).__name__} without {listing(missing[:3], len(missing))}. "
            f"One new {name} is a data frame with one line: frame.iloc[[0]]."
        )
        raise FeatureError(msg)
    assert frame is not None
    return Newcomers(frame.assign(**internal_features(encoders)), frame.index)


def _by_dates(encoder: DateEncoder, new: Any) -> Newcomers:
    """Items of which nothing is known but their labels, which are dates."""
    pd = needed("pandas", "New rows and columns")
    encoder.encode(new)  # says what is no date
    labels = new if isinstance(new, pd.Index) else pd.Index(list(new), tupleize_cols=False)
    return Newcomers(labels, labels)


def _by_number(new: Any, name: str) -> Newcomers:
    """Items of which nothing is known; they may have labels."""
    pd = needed("pandas", "New rows and columns")
    if is_frame(new) and new.shape[1]:
        msg = (
            f"Nothing is known about the {name}s of this table, so that what is said about new "
            f"ones ({count_of(new.shape[1], 'column')}) changes nothing: give their labels or "
            f"their number, or complete the table with what is known about its {name}s."
        )
        raise ParameterError(msg)
    items = new.index if is_frame(new) else [new] if isinstance(new, str) else new
    if isinstance(items, Sequence | pd.Index) and all(isinstance(k, Hashable) for k in items):
        return Newcomers(range(len(items)), pd.Index(items, tupleize_cols=False))
    return Newcomers(new, None)


def _by_similarities(
    kernel: SimilarityKernel, known: Sequence[Any], new: Any, name: str
) -> Newcomers:
    """Similarities in the order of the kernel, with those of the new items with themselves."""
    frame = new[0] if isinstance(new, tuple) and len(new) == 2 else new
    if not is_frame(frame):
        _refuse_unlabelled(kernel, frame, name)
    labels = known if kernel.labels is None else kernel.labels
    cross, selves = similarities(new, kernel, labels)
    names = frame.index if is_frame(frame) else None
    check_possible(kernel, cross, selves, names)
    selves = np.where(np.isnan(selves), _usual_selves(kernel, cross), selves)
    return Newcomers(cross if np.isnan(selves).any() else (cross, selves), names)


def _refuse_unlabelled(kernel: SimilarityKernel, new: Any, name: str) -> None:
    """Raise where it cannot be told which similarity is with which item."""
    if hasattr(new, "nodes"):
        msg = (
            f"New {name}s of a table that was completed with a graph are described by their "
            f"similarities with the known ones, for an edge more changes the similarities of all. "
            f"Put the new nodes into the graph that is given to kronfill.complete."
        )
        raise ParameterError(msg)
    if kernel.labels is not None:
        some = listing([repr(label) for label in kernel.labels[:3]], kernel.n)
        msg = (
            f"New {name}s are described by a data frame whose columns have the labels of the known "
            f"ones, {some}: the similarities of these were matched by label, so that an array does "
            f"not tell which number belongs to which {name}. Got {type(new).__name__}."
        )
        raise LabelError(msg)


def _usual_selves(kernel: SimilarityKernel, cross: Floats) -> Floats:
    """What all known items are similar to themselves, NaN if they differ or it cannot be."""
    usual = np.full(len(cross), np.nan)
    if kernel.by_products:  # the diagonal of a large graph takes long, and is not constant
        return usual
    known = kernel.diagonal()
    some = known[known > 0]  # the others have no similarity with anything
    if some.size and np.ptp(some) <= ALIKE * some.max():
        usual[:] = some.max()
        usual[too_similar(cross, usual, known).any(axis=1)] = np.nan
    return usual

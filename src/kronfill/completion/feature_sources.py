"""A table of features as sources: numbers and categories together, every other column by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill.data.amounts import count_of
from kronfill.data.reading.column_kinds import PLAIN, FeatureKind, feature_words, recognise
from kronfill.errors import FeatureError, ParameterError, argument
from kronfill.kernels.base import Kernel
from kronfill.kernels.columns.dates import date_parts
from kronfill.kernels.columns.gaps import gappy_rbf
from kronfill.kernels.columns.single_columns import (
    BITS,
    LENGTHS,
    RADIUS,
    BagEncoder,
    DateEncoder,
    FingerprintEncoder,
    KmerEncoder,
    SingleColumn,
    column_table,
)
from kronfill.kernels.dotproduct import Linear, Tanimoto
from kronfill.kernels.features import FeatureTable
from kronfill.kernels.sources import UNKNOWN, SourceKernel

__all__ = ["IMPUTE", "Source", "date_sources", "feature_sources"]

IMPUTE = (None, "mean", "error")
"""What may be done with missing features: do without them, take the mean, refuse."""


@dataclass(frozen=True)
class Source:
    """One thing that is known about the items of an axis.

    Attributes
    ----------
    label : str
        What it is called.
    kernel : Kernel
        How similar it says that the items of the axis are: on average 1 with themselves, over the
        items that it knows, and 0 for the others. Without a constant or an identity part.
    words : str
        What it is, in words.
    """

    label: str
    kernel: Kernel
    words: str


def feature_sources(
    frame: Any, kinds: Mapping[Any, str] | None = None, impute: str | None = None
) -> tuple[tuple[Source, ...], str]:
    """Return what the columns of a table of features say about its items, and words about them.

    Parameters
    ----------
    frame : DataFrame
        A line for each item.
    kinds : mapping, optional
        What some columns hold, see :func:`~kronfill.data.reading.column_kinds.recognise`.
    impute : {None, "mean", "error"}
        What to do with missing numbers and categories.

    Examples
    --------
    >>> import pandas as pd
    >>> films = pd.DataFrame({"year": [1999, 2004, 2004], "genres": ["War|Drama", "Drama", None]})
    >>> sources, words = feature_sources(films)
    >>> [source.label for source in sources], words
    (['features', 'genres'], ': year (numbers), genres (2 labels, up to 2 each, 1 missing)')
    >>> sources[1].kernel.to_array().round(2)
    array([[1.  , 0.71, 0.  ],
           [0.71, 1.  , 0.  ],
           [0.  , 0.  , 0.  ]])
    """
    if impute not in IMPUTE:
        msg = f"{argument('impute')} must be one of {IMPUTE}, got {impute!r}."
        raise ParameterError(msg)
    found = recognise(frame, {name: k for name, k in (kinds or {}).items() if name in frame})
    words = feature_words(found)
    plain = [name for name, one in found.items() if one.kind in PLAIN]
    special = [name for name, one in found.items() if one.kind not in (*PLAIN, "ignore")]
    if not plain and not special:
        msg = (
            f"No column tells which items are alike: {words or 'there is none'}. Say so if one "
            "does: kinds={...}; otherwise leave the table out."
        )
        raise FeatureError(msg)
    _refuse_gaps(frame, found, impute)
    sources = []
    if plain:
        codes = tuple(name for name in plain if found[name].kind in ("category", "code"))
        numeric = [name for name in codes if _is_numeric(frame[name])]
        kernel = gappy_rbf(frame[plain], tuple(numeric), impute=impute == "mean")
        told = feature_words({name: found[name] for name in plain})
        sources.append(Source("features", kernel, told))
    for name in special:
        sources += _column_sources(frame[name], name, found[name])
    return tuple(sources), f": {words}"


def _is_numeric(column: Any) -> bool:
    return column.dtype.kind in "iufb" or column.map(lambda v: isinstance(v, int | float)).any()


def _refuse_gaps(frame: Any, found: Mapping[Any, FeatureKind], impute: str | None) -> None:
    if impute != "error":
        return
    for name, one in found.items():
        if one.gaps and one.kind != "ignore":
            at = frame.index[frame[name].isna()][0]
            msg = (
                f"Column {name!r} has {count_of(one.gaps, 'missing value')}, the first at {at!r}. "
                "Fill it in, or do without "
                f"({argument('impute')}: None leaves it out of the similarities of the items that "
                "lack it, 'mean' takes the mean)."
            )
            raise FeatureError(msg)


def _column_sources(column: Any, name: Any, found: FeatureKind) -> list[Source]:
    """The sources of one column; items without a value are unknown to them."""
    place = np.full(len(column), UNKNOWN)
    known = np.flatnonzero(column.notna().to_numpy())
    place[known] = np.arange(known.size)
    values = column.iloc[known]
    made = {
        part: kernel if known.size == len(column) else SourceKernel(kernel, place, "")
        for part, kernel in _column_kernels(values, name, found.kind).items()
    }
    return [
        Source(f"{name}: {part}" if part else str(name), kernel, found.told(name))
        for part, kernel in made.items()
    ]


def _column_kernels(values: Any, name: Any, kind: str) -> dict[str, Kernel]:
    encoder: SingleColumn
    if kind == "date":
        return date_parts(column_table(DateEncoder(name, False), values))
    if kind == "smiles":
        encoder = FingerprintEncoder(name, RADIUS, BITS, False)
        return {"": Tanimoto(column_table(encoder, values))}
    if kind in LENGTHS:
        encoder = KmerEncoder.usual(name, kind)
    else:
        encoder = BagEncoder.fit(values, name, kind)
    return {"": Linear(column_table(encoder, values))}


def date_sources(labels: Any) -> tuple[Source, ...]:
    """What the labels of an axis say about its items, where they are dates."""
    encoder = DateEncoder(None, True)
    table = FeatureTable(encoder.encode(labels), None, encoder)
    words = f"dates of {count_of(len(labels), 'item')}"
    return tuple(
        Source(f"date: {part}", kernel, words) for part, kernel in date_parts(table).items()
    )

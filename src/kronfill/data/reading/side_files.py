"""What is known about one axis, from a file: features, edges of a graph, or similarities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.data.amounts import count_of
from kronfill.data.arrays import listing
from kronfill.data.reading.column_kinds import PLAIN, feature_words, recognise
from kronfill.data.reading.file_table import MISSING, FileTable, label_text
from kronfill.errors import (
    DataError,
    FeatureError,
    LabelError,
    ParameterError,
)

__all__ = ["HOLDS", "SIDES", "SideFile", "read_new_similarities", "read_side"]

SIDES = ("features", "edges", "similarity")
HOLDS = "kronfill holds"
"""Attribute of a data frame that says what it holds, where that was settled."""
IMPUTE = ("none", "mean", "error")
ENDS = (("source", "target"), ("from", "to"), ("node1", "node2"), ("a", "b"))
"""Names of the first two columns by which an edge list is known."""
DATE_FORMATS = ("ISO8601", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
SEVERAL = 5
"""From so many lines on, a text that never repeats is likely to be a name."""
MOSTLY = 0.5
"""With up to this share of other text, a column was likely meant to hold numbers or dates."""
_AS_TEXT = ("category", "code", "labels", "text", "smiles", "protein", "nucleotide")
"""What is read as it is written."""


@dataclass(frozen=True, eq=False)
class SideFile:
    """Side information as it stands in a file; labels are text.

    Attributes
    ----------
    table : FileTable
        The file.
    kind : {"features", "edges", "similarity"}
        What it holds.
    labels : list of str
        The items it tells something about.
    words : str
        What was found, in words.
    doubts : tuple of str
        What looks as if it were not meant so.
    """

    table: FileTable
    kind: str
    labels: list[str]
    words: str
    _make: Callable[[list[Any]], Any]
    doubts: tuple[str, ...] = ()

    def build(self, numbers: bool = False) -> Any:
        """Return a DataFrame of features, a networkx graph or a DataFrame of similarities.

        Parameters
        ----------
        numbers : bool, default=False
            Whether labels become whole numbers.
        """
        return self._make([int(label) for label in self.labels] if numbers else self.labels)


def read_side(
    table: FileTable,
    kind: str | None = None,
    *,
    index: str | None = None,
    ignore: Sequence[str] = (),
    impute: str = "error",
    kinds: Mapping[str, str] | None = None,
    said: Mapping[str, str] | None = None,
) -> SideFile:
    r"""Read side information, whatever its kind.

    Parameters
    ----------
    table : FileTable
        The file.
    kind : {"features", "edges", "similarity"}, optional
        What it holds. By default similarities if the columns are called as the lines are, edges if
        the first two columns have names such as "source" and "target", or hold labels that repeat
        and occur in both; otherwise features.
    index : str, optional
        Column with the labels; the first by default.
    ignore : sequence of str
        Columns that are no features.
    impute : {"error", "mean", "none"}, default="error"
        What to do with missing features: "mean" takes the mean of numbers and dates and the most
        frequent of categories, "none" leaves the gaps.
    kinds : mapping of str to str, optional
        What each feature is, such as "number" or "category", where that is known already: new
        items are read as the known ones were.
    said : mapping of str to str, optional
        What some features are, where they would be taken for something else.

    Returns
    -------
    SideFile

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from kronfill.data.reading.table_files import open_file
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "users.csv"
    >>> _ = path.write_text("id,age,since\n007,31,2024-01-31\n008,28,2024-02-01\n")
    >>> side = read_side(open_file(path))
    >>> side.kind, side.labels, side.words
    ('features', ['007', '008'], '2 features of 2 items: age (numbers), since (dates)')
    >>> side.build(numbers=False).loc["007", "age"]
    np.float64(31.0)
    """
    if kind not in (None, *SIDES):
        msg = f"What is known must be one of {SIDES}, got {kind!r}."
        raise ParameterError(msg)
    if impute not in IMPUTE:
        msg = f"impute must be one of {IMPUTE}, got {impute!r}."
        raise ParameterError(msg)
    for name in (*ignore, *([] if index is None else [index])):
        table.position(name)
    if len(table) == 0 or len(table.names) < 2:
        msg = (
            f"{table.path} tells nothing: it has {count_of(len(table), 'line')} and "
            f"{count_of(len(table.names), 'column')}."
        )
        raise DataError(msg)
    if kind == "edges" or (kind is None and index is None and _are_edges(table)):
        return _edges(table)
    labels, names = _items(table, index)
    if kind == "similarity" or (kind is None and set(names) == set(labels) and not ignore):
        return _similarity(table, labels, names)
    return _features(
        table, labels, [n for n in names if n not in ignore], impute, kinds or {}, said or {}
    )


def read_new_similarities(
    table: FileTable, known: Sequence[Any], *, index: str | None = None
) -> SideFile:
    r"""Read the similarities of new items with known ones.

    Parameters
    ----------
    table : FileTable
        The file: a line for each new item, a column for each known one. A column with the label of
        a new item has its similarity with itself.
    known : sequence
        Labels of the known items; a column is theirs if it is called as they are written.
    index : str, optional
        Column with the labels of the new items; the first by default.

    Returns
    -------
    SideFile
        It builds a DataFrame of similarities, whatever columns there are.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from kronfill.data.reading.table_files import open_file
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "new.csv"
    >>> _ = path.write_text("id,1,2\nx,0.5,0.1\n")
    >>> side = read_new_similarities(open_file(path), [1, 2])
    >>> side.words
    'similarities of 1 new item'
    >>> list(side.build().columns)
    [1, 2]
    """
    labels, names = _items(table, index)
    written = {label_text(label): label for label in known}
    columns = [written.get(name, name) for name in names]
    words = f"similarities of {count_of(len(labels), 'new item')}"
    return SideFile(table, "similarity", labels, words, _filled(table, labels, names, columns))


def _items(table: FileTable, index: str | None) -> tuple[list[str], list[str]]:
    """The labels of the lines, each once, and the names of the other columns."""
    at = 0 if index is None else table.position(index)
    advice = (
        "every item needs one line. If this is a list of edges or the labels are in another "
        "column, say so (--rows-as, --rows-index, or --cols-...)."
    )
    labels = table.names_of_lines(at, "label", advice)
    return labels, [name for j, name in enumerate(table.names) if j != at]


# Features.


def _features(
    table: FileTable,
    labels: list[str],
    names: list[str],
    impute: str,
    kinds: Mapping[str, str],
    said: Mapping[str, str],
) -> SideFile:
    pd = needed("pandas", "Side information")
    if not names:
        msg = f"{table.path} has no column of features besides the labels."
        raise FeatureError(msg)
    unknown = [name for name in kinds if name not in names]
    if unknown:
        named = listing([repr(name) for name in unknown[:5]], len(unknown))
        msg = f"{table.path} lacks the columns by which the known items are described: {named}."
        raise FeatureError(msg)
    names = list(kinds) or names
    wanted = {name: kind for name, kind in {**said, **kinds}.items() if name in names}
    raw: dict[str, str] = {}
    columns = {}
    for name in names:
        raw[name], columns[name] = _column(table, name, wanted.get(name), pd)
    found = recognise(pd.DataFrame(columns), wanted)
    for name, one in found.items():
        if one.kind == "code" and raw[name] == "number":  # as it is written: 01234
            raw[name], columns[name] = _column(table, name, "code", pd)
        if one.kind in (*PLAIN, "date") or impute == "error":
            columns[name] = _imputed(table, name, columns[name], raw[name], impute)
    doubts = [
        doubt
        for name, one in found.items()
        if one.kind == "category" and name not in wanted
        for doubt in _doubts(table, name, columns[name].dropna(), pd)
    ]
    count = f"{count_of(len(names), 'feature')} of {count_of(len(labels), 'item')}"
    words = f"{count}: {feature_words(found)}"

    def make(index: list[Any]) -> Any:
        frame = pd.DataFrame(columns).set_axis(pd.Index(index, tupleize_cols=False), axis=0)
        frame.attrs[HOLDS] = "features"  # even if columns and lines have the same labels
        return frame

    return SideFile(table, "features", labels, words, make, tuple(doubts))


def _doubts(table: FileTable, name: str, texts: Any, pd: Any) -> Iterator[str]:
    """Say what is odd about a column of categories; raise where a cell can only be a gap."""
    if texts.nunique() == len(texts) >= SEVERAL:
        yield (
            f"{table.path}: column {name!r} has another text in every line, which tells nothing "
            f"about who is similar: leave it out if it is a name (--ignore {name!r})."
        )
    plain = texts.str.replace(",", ".") if table.decimal == "," else texts
    numbers = pd.to_numeric(plain, errors="coerce").notna()
    read = (pd.to_datetime(texts, format=f, errors="coerce", utc=True) for f in DATE_FORMATS)
    dates = max((column.notna() for column in read), key=sum)
    for fits, what in ((numbers, "numbers"), (dates & ~numbers, "dates")):
        odd = np.flatnonzero(~fits.to_numpy())
        if not 0 < odd.size <= MOSTLY * len(texts):
            continue
        line, cell = texts.index[odd[0]] + 2, texts.iloc[odd[0]]
        if not any(letter.isalnum() for letter in cell):
            msg = (
                f"{table.path}, column {name!r}, line {line}: {cell!r} stands among {what}. Leave "
                "the cell blank if the value is missing."
            )
            raise FeatureError(msg)
        yield (
            f"{table.path}: column {name!r} holds {what} but for {count_of(odd.size, 'line')}, "
            f"such as {cell!r} at line {line}, and is taken as categories. Leave such cells blank "
            "if the value is missing."
        )


def _column(table: FileTable, name: str, wanted: str | None, pd: Any) -> tuple[str, Any]:
    """The kind of a feature and its values, missing ones as NaN, NaT or None."""
    import pyarrow as pa

    j = table.position(name)
    column = table.column(j)
    if wanted in _AS_TEXT:
        return "category", _texts(table, j, pd)
    if pa.types.is_boolean(column.type):
        return "bool", pd.Series(column.to_pylist(), dtype=object)
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return "date", pd.to_datetime(pd.Series(column.to_pandas()))
    if table.is_numeric(j):
        numbers = table.numbers(j)
        if wanted == "bool":
            return "bool", pd.Series(numbers).map({0.0: False, 1.0: True}).astype(object)
        return "number", pd.Series(numbers)
    if wanted == "number":
        table.numbers(j)  # says which cell is none
    texts = _texts(table, j, pd)
    if wanted == "bool":
        return "bool", texts.str.lower().map({"true": True, "false": False}).astype(object)
    dates = _dates(table, name, texts, pd)
    if dates is not None:
        return "date", dates
    if wanted == "date":
        msg = f"{table.path}: column {name!r} holds no dates, but for the known items it does."
        raise FeatureError(msg)
    lowered = set(texts.dropna().str.lower())
    if lowered and lowered <= {"true", "false"}:
        return "bool", texts.str.lower().map({"true": True, "false": False}).astype(object)
    return "category", texts


def _texts(table: FileTable, j: int, pd: Any) -> Any:
    """A column as text, None where there is nothing."""
    cells = (None if cell is None else label_text(cell) for cell in table.column(j).to_pylist())
    return pd.Series([None if cell in (None, *MISSING) else cell for cell in cells], dtype=object)


def _dates(table: FileTable, name: str, texts: Any, pd: Any) -> Any:
    """A column of dates, or None if it is something else."""
    filled = texts.dropna()
    if filled.empty or not filled.str.contains(r"\d").all() or filled.str.len().min() < 6:
        return None
    read = {}
    for form in DATE_FORMATS:
        try:
            read[form] = pd.to_datetime(texts, format=form, utc=True).dt.tz_localize(None)
        except (ValueError, TypeError, OverflowError):
            continue
    both = [read[form] for form in DATE_FORMATS[3:] if form in read]
    if len(both) == 2 and not both[0].equals(both[1]):
        msg = (
            f"{table.path}: the dates of column {name!r}, such as {filled.iloc[0]!r}, may have the "
            "day or the month first. Write them as 2024-01-31, or leave the column out "
            f"(--ignore {name!r})."
        )
        raise FeatureError(msg)
    return next(iter(read.values()), None)


def _imputed(table: FileTable, name: str, column: Any, kind: str, impute: str) -> Any:
    missing = np.flatnonzero(column.isna().to_numpy())
    if missing.size and impute == "none":
        return column
    if not missing.size:
        return column.astype(bool) if kind == "bool" else column
    if impute == "error":
        lines = listing([str(k + 2) for k in missing[:3].tolist()], missing.size)
        msg = (
            f"{table.path}: column {name!r} has no value at line {lines}. Fill the gaps in, do "
            "without what is missing (--impute none), let it be replaced by the mean of the column "
            f"(--impute mean), or leave the column out (--ignore {name!r})."
        )
        raise FeatureError(msg)
    if missing.size == len(column):
        msg = f"{table.path}: column {name!r} is empty: leave it out (--ignore {name!r})."
        raise FeatureError(msg)
    if kind in ("number", "date"):
        return column.fillna(column.mean())
    filled = column.fillna(column.mode().iloc[0])
    return filled.astype(bool) if kind == "bool" else filled


# Graphs and similarities.


def _are_edges(table: FileTable) -> bool:
    """Whether this looks like a list of edges: two columns of the same labels, and a weight."""
    if len(table.names) not in (2, 3):
        return False
    if tuple(name.lower() for name in table.names[:2]) in ENDS:
        return True
    if len(table.names) == 3 and not table.is_numeric(2):
        return False
    try:
        (codes, left), (_, right) = table.labels(0), table.labels(1)
    except DataError:
        return False
    if len(left) == len(codes) and (table.is_numeric(1) or len(right) < len(codes)):
        return False  # one line for each label: a feature of it
    return len(set(left) & set(right)) >= 0.5 * min(len(left), len(right))


def _edges(table: FileTable) -> SideFile:
    nx = needed("networkx", "A list of edges")
    if len(table.names) > 3:
        msg = (
            f"{table.path}: a list of edges has two columns of labels and at most one of weights, "
            f"got {', '.join(map(repr, table.names))}."
        )
        raise DataError(msg)
    (at_a, left), (at_b, right) = table.labels(0), table.labels(1)
    weights = table.numbers(2) if len(table.names) == 3 else np.ones(len(table))
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        msg = (
            f"{table.path}, line {bad[0] + 2}: the weight of an edge is {weights[bad[0]]:g}; "
            "weights say how similar the two are: 0 or larger."
        )
        raise DataError(msg)
    labels = list(dict.fromkeys([*left, *right]))
    place = {label: k for k, label in enumerate(labels)}
    from_a = np.array([place[label] for label in left], dtype=np.intp)[at_a]
    from_b = np.array([place[label] for label in right], dtype=np.intp)[at_b]

    def make(index: list[Any]) -> Any:
        graph = nx.Graph()
        graph.add_nodes_from(index)
        graph.add_weighted_edges_from(_merged(from_a, from_b, weights, index))
        return graph

    weighted = "" if len(table.names) == 2 else f", weights from {table.names[2]!r}"
    words = f"graph of {count_of(len(labels), 'node')} and {count_of(len(table), 'edge')}{weighted}"
    return SideFile(table, "edges", labels, words, make)


def _merged(a: Index, b: Index, weights: Floats, index: list[Any]) -> Any:
    """Edges without direction; of several between the same two the heaviest counts."""
    best: dict[tuple[int, int], float] = {}
    for i, j, w in zip(a.tolist(), b.tolist(), weights.tolist(), strict=True):
        key = (min(i, j), max(i, j))
        best[key] = max(w, best.get(key, 0.0))
    return [(index[i], index[j], w) for (i, j), w in best.items()]


def _similarity(table: FileTable, labels: list[str], names: list[str]) -> SideFile:
    odd = sorted(set(names) ^ set(labels))
    if odd:
        msg = (
            f"{table.path}: a similarity matrix has the same labels in its lines and columns, but "
            f"{listing([repr(label) for label in odd[:3]], len(odd))} is in one of them only."
        )
        raise LabelError(msg)
    return SideFile(
        table, "similarity", labels, f"similarities of {count_of(len(labels), 'item')}",
        _filled(table, labels, labels),
    )  # fmt: skip


def _filled(
    table: FileTable, labels: list[str], names: list[str], columns: list[Any] | None = None
) -> Callable[[list[Any]], Any]:
    """What makes a DataFrame of similarities; by default columns are called as the lines are."""
    pd = needed("pandas", "Side information")
    values = np.column_stack([table.numbers(table.position(name)) for name in names])
    if np.isnan(values).any():
        i, j = np.argwhere(np.isnan(values))[0]
        msg = (
            f"{table.path}: the similarity of {labels[i]!r} and {names[j]!r} is missing; a "
            "similarity matrix must be filled."
        )
        raise DataError(msg)

    def make(index: list[Any]) -> Any:
        across = index if columns is None else columns
        lines, above = (pd.Index(some, tupleize_cols=False) for some in (index, across))
        return pd.DataFrame(values, index=lines, columns=above)

    return make

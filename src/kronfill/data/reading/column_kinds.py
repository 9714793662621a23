"""What the columns of a table of features hold: numbers, categories, lists of labels, text, ...

The rules look at the values, and at names for codes, identifiers, molecules and sequences only.
Whoever knows better says so (``kinds=``, ``--as``); what was found is told in words either way.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill.data.amounts import count_of
from kronfill.errors import FeatureError, ParameterError

__all__ = [
    "CHOICES", "PLAIN", "SEPARATORS", "FeatureKind", "as_days", "code_text", "feature_words",
    "is_date_text", "labels_in", "place_columns", "recognise", "separator_of", "word_list",
]  # fmt: skip

PLAIN = ("number", "bool", "category", "code")
"""Kinds that become one kernel together."""
CHOICES = (*PLAIN, "date", "labels", "text", "smiles", "protein", "nucleotide", "ignore")
"""What may be said about a column."""
SEPARATORS = ("|", ";", ",")
"""What stands between the labels of an item; the first that occurs in a column counts."""
MANY = 20
"""From so many values on it is told whether they repeat."""
NEARLY = 0.9
"""With more different values than this share, each item has nearly one of its own."""
SHORT_LABEL, FEW_WORDS = 30, 4
"""Characters and words of a label, at most."""
PROSE = 2.0
"""Words from which on, on average, different texts are told apart by their words."""
SAMPLE = 5000
"""Values that are looked at, of more a random sample."""
LONG_SEQUENCE, SHORT_SEQUENCE = 20, 6
"""Letters of a protein or a nucleotide sequence, at least; the second where it is called so."""

_CODE = re.compile(
    r"(^|[_\W])(zip|zip_?code|post_?code|postal(_?code)?|plz|area_?code)($|[_\W])", re.IGNORECASE
)
_IDENTIFIER = re.compile(r"((^|[_\W])(id|uuid|guid|key)|[a-z]I[dD])$")
_MOLECULE = re.compile(r"smiles|molecule", re.IGNORECASE)
_SEQUENCE = re.compile(r"sequence|fasta|peptide", re.IGNORECASE)
_WORD = re.compile(r"\w\w+")
_ATOMS = re.compile(r"(\[[^\[\]\s]+\]|Br|Cl|[BCNOPSFI]|[bcnops]|[()=#\-+\\/:~.*$]|%\d\d|\d)+")
_BONDS = re.compile(r"[()=#\d\[]")
_PROTEIN = re.compile(r"[ACDEFGHIKLMNPQRSTVWYBJOUXZ*\-]+", re.IGNORECASE)
_NUCLEOTIDE = re.compile(r"[ACGTUNRYKMSWBDHV\-]+", re.IGNORECASE)
_BASES = re.compile(r"[ACGTUN]", re.IGNORECASE)
_PLACES = ({"lat": 0, "latitude": 0, "lon": 1, "lng": 1, "long": 1, "longitude": 1},
           {"x": 0, "y": 1, "z": 2},
           {"east": 0, "easting": 0, "north": 1, "northing": 1})  # fmt: skip
"""Names of the coordinates of a place; the first two of each kind are needed."""
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True)
class FeatureKind:
    """What a column was taken for.

    Attributes
    ----------
    kind : str
        One of :data:`CHOICES`; "ignore" is left out.
    words : str
        The same for readers, such as "9 labels".
    gaps : int
        Number of items without a value.
    """

    kind: str
    words: str
    gaps: int = 0

    def told(self, name: Any) -> str:
        """What is said about the column."""
        gaps = f", {self.gaps:,} missing" if self.gaps and self.kind != "ignore" else ""
        return f"{name} ({self.words}{gaps})"


def recognise(frame: Any, kinds: Mapping[Any, str] | None = None) -> dict[Any, FeatureKind]:
    """Tell what each column of a data frame holds.

    Parameters
    ----------
    frame : pandas.DataFrame
        A line for each item.
    kinds : mapping of column to str, optional
        What is known about columns already, one of :data:`CHOICES`.

    Returns
    -------
    dict of column to FeatureKind

    Examples
    --------
    >>> import pandas as pd
    >>> films = pd.DataFrame({"year": [1999, 2004], "genres": ["Action|Comedy", "Comedy"]})
    >>> {name: found.kind for name, found in recognise(films).items()}
    {'year': 'number', 'genres': 'labels'}
    """
    said = dict(kinds or {})
    for name, kind in said.items():
        if kind not in CHOICES:
            msg = f"A column can be read as one of {', '.join(CHOICES)}; got {name}={kind!r}."
            raise ParameterError(msg)
    found = {}
    for name in frame.columns:
        column = frame[name]
        if getattr(column, "ndim", 1) != 1:
            msg = f"The table has more than one column called {name!r}; rename them."
            raise FeatureError(msg)
        found[name] = _column(name, column, said.get(name))
    return found


def feature_words(found: Mapping[Any, FeatureKind], most: int = 8) -> str:
    """What the columns of a table were taken for, in one line."""
    told = [kind.told(name) for name, kind in list(found.items())[:most]]
    more = f", and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(told) + more


def _column(name: Any, column: Any, said: str | None) -> FeatureKind:
    pd = needed("pandas", "A data frame")
    gaps = int(column.isna().sum())
    values = column.dropna()
    if said == "ignore":
        return FeatureKind("ignore", "left out", gaps)
    if values.empty:
        return FeatureKind("ignore", "empty, left out", gaps)
    kind = said or _guess(name, values, pd)
    if kind == "identifier":
        what = "code" if _CODE.search(str(name)) else "value"
        return FeatureKind("ignore", f"another {what} for nearly every item, left out", gaps)
    return FeatureKind(kind, _WORDS[kind](values), gaps)


def _guess(name: Any, values: Any, pd: Any) -> str:
    inside = pd.api.types.infer_dtype(values, skipna=True)
    if isinstance(values.dtype, pd.CategoricalDtype):
        return "category"
    if inside == "boolean":
        return "bool"
    if inside in {"integer", "floating", "mixed-integer-float", "decimal"}:
        return _guess_number(name, values)
    if inside in {"timedelta", "timedelta64"}:
        return "number"
    if inside in {"date", "datetime", "datetime64"}:
        return "date"
    if all(isinstance(value, list | tuple | set | frozenset) for value in values):
        return "labels"
    if inside == "string":
        return _guess_text(name, values.astype(str))
    msg = (
        f"Column {name!r} holds {inside} values ({values.dtype}); allowed are numbers, booleans, "
        "dates, strings, categories and lists of labels: convert or drop it."
    )
    raise FeatureError(msg)


def _guess_number(name: Any, values: Any) -> str:
    numbers = values.to_numpy(dtype=np.float64)
    whole = bool((numbers == np.floor(numbers)).all())
    if whole and _CODE.search(str(name)):
        return "identifier" if _is_own(values) else "code"
    if whole and _IDENTIFIER.search(str(name)) and _is_own(values):
        return "identifier"
    return "number"


def _guess_text(name: Any, all_texts: Any) -> str:
    texts = _some(all_texts)
    if texts.str.fullmatch(_ISO).all():
        return "date"
    sequence = _sequence_kind(name, texts)
    if sequence:
        return sequence
    if _are_smiles(name, texts):
        return "smiles"
    if separator_of(texts):
        return "labels"
    if texts.str.fullmatch(r"\d+").all() and texts.str.startswith("0").any():
        return "identifier" if _is_own(all_texts) else "code"
    share = all_texts.nunique() / len(all_texts)
    if len(texts) < MANY or share <= 0.5:
        return "category"
    # With more categories than that most items would have one of their own.
    counts = [len(found) for found in map(_WORD.findall, texts)]
    if np.mean(counts) >= PROSE and _words_repeat(texts):
        return "text"
    return "identifier" if share > NEARLY else "category"


def _some(values: Any) -> Any:
    return values if len(values) <= SAMPLE else values.sample(SAMPLE, random_state=0)


def _is_own(values: Any) -> bool:
    return len(values) >= MANY and values.nunique() > NEARLY * len(values)


def _words_repeat(texts: Any) -> bool:
    """Whether words are in several texts, so that they tell which are alike."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update({word.lower() for word in _WORD.findall(text)})
    return sum(counts.values()) >= 1.5 * len(counts)


def separator_of(texts: Any) -> str | None:
    """What stands between labels that items share, None if the texts are no lists of labels."""
    texts = _some(texts)
    for mark in SEPARATORS:
        listed = texts.str.contains(mark, regex=False)
        if not listed.any():
            continue
        parts = [labels_in(text, mark) for text in texts]
        counts = Counter(label for some in parts for label in some)
        short = sum(
            len(label) <= SHORT_LABEL and len(label.split()) <= FEW_WORDS for label in counts
        )
        # Commas are in sentences too: labels are short, and most are in several items.
        shared = sum(counts.values()) >= (1 if len(texts) < MANY else 2) * len(counts)
        often = listed.mean() >= (0.02 if mark == "|" else 0.1)
        if short == len(counts) and shared and often:
            return mark
    return None


def labels_in(cell: Any, separator: str) -> list[str]:
    """The labels of one item."""
    parts = cell.split(separator) if isinstance(cell, str) else map(str, cell)
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def word_list(text: str) -> list[str]:
    """The words of a text, in lower case; numbers and single letters are none."""
    return [word.lower() for word in _WORD.findall(text)]


def _sequence_kind(name: Any, texts: Any) -> str | None:
    """Whether these are nucleotide or protein sequences."""
    least = SHORT_SEQUENCE if _SEQUENCE.search(str(name)) else LONG_SEQUENCE
    if texts.str.len().median() < least or texts.nunique() < 2:
        return None
    stripped = texts.str.strip()
    if stripped.str.fullmatch(_NUCLEOTIDE).all():
        bases = stripped.str.count(_BASES).sum() / stripped.str.len().sum()
        if bases > NEARLY:
            return "nucleotide"
    return "protein" if stripped.str.fullmatch(_PROTEIN).all() else None


def _are_smiles(name: Any, texts: Any) -> bool:
    """Whether these are molecules: atoms and bonds only, and more than a plain word."""
    if not texts.str.fullmatch(_ATOMS).all() or not texts.str.contains(r"[BCNOPSFIbcnops]").all():
        return False
    long = texts.str.len().median() >= 5 and texts.str.contains(_BONDS).mean() > 0.5
    return bool(long or _MOLECULE.search(str(name)))


def code_text(value: Any) -> str:
    """A code as text: whole numbers without a decimal point."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def is_date_text(text: str) -> bool:
    """Whether a text is a date such as 2024-01-31 or 2024-01-31 18:00."""
    return _ISO.fullmatch(text) is not None


def as_days(values: Any, name: Any = None) -> Any:
    """Dates as days since 1970, NaN where there is none; what is no date is refused."""
    pd = needed("pandas", "Dates")
    try:
        stamps = pd.to_datetime(pd.Series(values), utc=True, format=None)
    except (ValueError, TypeError, OverflowError) as error:
        where = "The labels" if name is None else f"Column {name!r}"
        msg = f"{where} must hold dates, such as 2024-01-31 or 2024-01-31 18:00: {error}."
        raise FeatureError(msg) from None
    epoch = pd.Timestamp("1970-01-01", tz="UTC")
    return ((stamps - epoch) / pd.Timedelta(days=1)).to_numpy(dtype=np.float64)


def _label_words(values: Any) -> str:
    mark = "" if not isinstance(values.iloc[0], str) else separator_of(values.astype(str)) or "|"
    if mark:
        values = values.drop_duplicates()
    sets = [labels_in(cell, mark) for cell in values]
    different = len({label for some in sets for label in some})
    most = max(map(len, sets), default=0)
    return f"{count_of(different, 'label')}, up to {most} each"


def _plain(text: str) -> Callable[[Any], str]:
    return lambda _values: text


def _count_words(values: Any) -> str:
    return count_of(values.map(code_text).nunique(), "category", "categories")


_WORDS: dict[str, Callable[[Any], str]] = {
    "number": _plain("numbers"), "bool": _plain("yes or no"), "date": _plain("dates"),
    "text": _plain("text"), "smiles": _plain("molecules, SMILES"),
    "protein": _plain("protein sequences"), "nucleotide": _plain("nucleotide sequences"),
    "category": _count_words, "code": lambda values: f"codes, {_count_words(values)}",
    "labels": _label_words,
}  # fmt: skip


def place_columns(names: Iterable[Any]) -> tuple[Any, ...]:
    """Those of the columns that together say where an item is, by their names.

    Examples
    --------
    >>> from kronfill.data.reading.column_kinds import place_columns
    >>> place_columns(["lat", "lon", "height", "X"])
    ('lat', 'lon')
    >>> place_columns(["Station_Longitude", "capacity", "station_latitude"])
    ('Station_Longitude', 'station_latitude')
    >>> place_columns(["latitude", "capacity"])
    ()
    """
    found: dict[tuple[int, tuple[str, ...]], dict[int, Any]] = {}
    for name in names:
        *before, last = re.split(r"[\W_]+", str(name).strip().lower())
        for kind, known in enumerate(_PLACES):
            if last in known:
                found.setdefault((kind, tuple(before)), {})[known[last]] = name
    whole = {name for one in found.values() if {0, 1} <= one.keys() for name in one.values()}
    return tuple(name for name in names if name in whole)

"""Encoders of one column each: labels, text, sequences, molecules, dates.

What they learned is plain data: words and their weights, or only settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kronfill._optional import needed
from kronfill._stored import Tests, anything, count, flag, floats, one_of, text, tuple_of
from kronfill._types import Floats
from kronfill.data.reading.column_kinds import as_days, labels_in, separator_of, word_list
from kronfill.data.reading.frames import as_pandas, frame_labels, is_frame
from kronfill.errors import FeatureError
from kronfill.kernels.columns.encoding import ColumnEncoder, columns_of
from kronfill.kernels.features import FeatureTable

__all__ = [
    "BagEncoder", "DateEncoder", "FingerprintEncoder", "KmerEncoder", "SingleColumn",
    "column_table",
]  # fmt: skip

MOST_WORDS = 2**16
"""With more different words than this they are hashed to so many columns."""
ALPHABETS = {"protein": "ACDEFGHIKLMNPQRSTVWY", "nucleotide": "ACGT"}
ALIKE = ("AST", "C", "DENQ", "FWY", "G", "HKR", "ILMV", "P")
"""Amino acids that often stand for one another count as one letter."""
GROUPS = {"protein": ALIKE, "nucleotide": tuple(ALPHABETS["nucleotide"])}
"""Letters that count as one, by kind."""
LENGTHS = {"protein": 6, "nucleotide": 6}
"""Letters of the pieces by which sequences are compared; chosen on training entries of Davis."""
RADIUS, BITS = 2, 2048
"""Neighbourhoods of atoms that a fingerprint looks at, and its length: ECFP4."""


class SingleColumn(ColumnEncoder):
    """Encodes one column; new items are a data frame that has it, or its values."""

    column: Any
    kind: str

    @property
    def kinds(self) -> dict[str, list[Any]]:  # type: ignore[override]
        """The column that it needs, by what it holds."""
        return {self.kind: [self.column]}

    def _values(self, new: Any) -> Any:
        pd = needed("pandas", "Text, dates and lists")
        if is_frame(new) and hasattr(new, "columns"):
            return columns_of(new, [self.column])[self.column]
        if isinstance(new, str) or not hasattr(new, "__len__"):
            msg = f"New items are a data frame with the column {self.column!r}, got {new!r:.60}."
            raise FeatureError(msg)
        return pd.Series(list(new), dtype=object)


def column_table(encoder: SingleColumn, values: Any) -> FeatureTable:
    """The encoded features of known items; their index names them."""
    encoded = encoder.encode(values.to_frame(encoder.column))
    return FeatureTable(encoded, frame_labels(values), encoder)


@dataclass(frozen=True)
class BagEncoder(SingleColumn):
    """Counts labels or words and brings each item to length one.

    Words are weighted by how few items have them, ``1 + log((1 + n) / (1 + n_w))``; a word that
    occurs t times in a text counts ``1 + log t``. Very many words are hashed.
    """

    column: Any
    kind: str
    separator: str
    """What stands between labels; "" for words, and for labels that come as lists."""
    vocabulary: tuple[str, ...]
    """The labels or words, sorted; empty where they are hashed."""
    weights: Floats
    stored: ClassVar[Tests] = {
        "column": anything,
        "kind": one_of("labels", "text"),
        "separator": text,
        "vocabulary": tuple_of(text),
        "weights": floats(1),
    }

    def _fits_together(self) -> bool:
        return len(self.vocabulary) in (0, self.weights.size) and self.weights.size > 0

    @property
    def width(self) -> int:  # type: ignore[override]
        """Number of labels or words, or of the columns to which they are hashed."""
        return int(self.weights.size)

    @classmethod
    def fit(cls, values: Any, column: Any, kind: str) -> BagEncoder:
        """Learn the labels or words of a column."""
        filled = values.dropna()
        separator = ""
        if kind == "labels" and filled.map(lambda cell: isinstance(cell, str)).all():
            separator = separator_of(filled) or "|"
        seen: Counter[str] = Counter()
        tokens = _splitter(kind, separator)
        for cell in filled:
            seen.update(set(tokens(cell)))
        if not seen:
            msg = f"Column {column!r} has no {'labels' if kind == 'labels' else 'words'} in it."
            raise FeatureError(msg)
        words = tuple(sorted(seen))
        if len(words) > MOST_WORDS:
            blank = cls(column, kind, separator, (), np.ones(MOST_WORDS))
            found = np.bincount(blank._counts(filled).indices, minlength=MOST_WORDS)
            return cls(column, kind, separator, (), _rarity(kind, found, len(filled)))
        found = np.array([seen[word] for word in words])
        return cls(column, kind, separator, words, _rarity(kind, found, len(filled)))

    def encode(self, new: Any) -> Any:
        """Return a row of length one for each item, zeros for those without a known word."""
        counts = self._counts(self._values(new))
        counts.data = (1.0 + np.log(counts.data)) * self.weights[counts.indices]
        return _unit_rows(counts)

    def _counts(self, values: Any) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

        tokens = _splitter(self.kind, self.separator)
        missing = values.isna().to_numpy()
        cells = [[] if gone else tokens(cell) for cell, gone in zip(values, missing, strict=True)]
        if self.vocabulary:
            tool = CountVectorizer(analyzer=_as_is, vocabulary=self.vocabulary, dtype=np.float64)
        else:
            tool = HashingVectorizer(
                analyzer=_as_is, n_features=self.width, alternate_sign=False, norm=None
            )
        found = sparse.csr_array(tool.transform(cells))
        found.sum_duplicates()
        return found


def _as_is(tokens: list[str]) -> list[str]:
    return tokens


def _splitter(kind: str, separator: str) -> Callable[[Any], list[str]]:
    if kind == "text":
        return lambda cell: word_list(str(cell))
    return lambda cell: labels_in(cell, separator)


def _rarity(kind: str, found: Any, items: int) -> Floats:
    """What a word counts: the more, the fewer items have it. Labels count alike."""
    if kind == "labels":
        return np.ones(found.size)
    return np.asarray(1.0 + np.log((1.0 + items) / (1.0 + found)))


def _rows(lengths: list[int], columns: Any, data: Floats, width: int) -> Any:
    """A sparse matrix with so many entries in each row; indices as small as they can be."""
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    small = np.int32 if max(ends[-1], width) < 2**31 else np.int64
    shape = (len(lengths), width)
    parts = (data, columns.astype(small), ends.astype(small))
    return sparse.csr_array(parts, shape=shape)


def _unit_rows(matrix: Any) -> Any:
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    matrix.data *= np.repeat(scale, np.diff(matrix.indptr))
    return matrix


@dataclass(frozen=True)
class KmerEncoder(SingleColumn):
    """Counts the pieces of k letters of a sequence and brings each item to length one.

    The kernel is the normalised spectrum kernel [1]_, of the roots of the counts, so that a piece
    that repeats often does not outweigh the others. Pieces with other letters than those of the
    alphabet are left out. Letters of a group count as one: two pieces that differ by amino acids of
    the same kind are the same, as most mismatches of related proteins are.

    References
    ----------
    .. [1] C. Leslie, E. Eskin, W. S. Noble (2002), "The spectrum kernel: a string kernel for SVM
       protein classification", Pacific Symposium on Biocomputing 7, 564-575.
    """

    column: Any
    kind: str
    length: int
    groups: tuple[str, ...] = ()
    """Letters that count as one, by group; without groups each letter counts by itself."""
    stored: ClassVar[Tests] = {
        "column": anything,
        "kind": one_of(*ALPHABETS),
        "length": lambda value: count(value) and value <= 8,
    }
    stored_at_times: ClassVar[Tests] = {"groups": tuple_of(text)}

    def _fits_together(self) -> bool:
        return not self.groups or sorted("".join(self.groups)) == list(ALPHABETS[self.kind])

    @classmethod
    def usual(cls, column: Any, kind: str) -> KmerEncoder:
        """The one for a kind of sequences."""
        return cls(column, kind, LENGTHS[kind], GROUPS[kind])

    @property
    def _letters(self) -> tuple[str, ...]:
        return self.groups or tuple(ALPHABETS[self.kind])

    @property
    def width(self) -> int:  # type: ignore[override]
        """Number of pieces that there can be."""
        return int(len(self._letters) ** self.length)

    def encode(self, new: Any) -> Any:
        """Return a row of length one for each sequence, zeros for those without any piece."""
        values = self._values(new)
        filled = values.where(values.notna(), "").astype(str)
        codes = [self._codes(sequence) for sequence in filled]
        flat = np.concatenate([*codes, np.empty(0, dtype=np.int64)])
        counts = _rows([len(some) for some in codes], flat, np.ones(flat.size), self.width)
        counts.sum_duplicates()
        counts.data = np.sqrt(counts.data)
        return _unit_rows(counts)

    def _codes(self, sequence: str) -> Any:
        """The number of each piece, in base of the alphabet."""
        letters = self._letters
        table = np.full(256, -1, dtype=np.int64)
        for k, group in enumerate(letters):
            for letter in group + group.lower():
                table[ord(letter)] = k
        if self.kind == "nucleotide":
            table[[ord("U"), ord("u")]] = table[ord("T")]
        digits = table[np.frombuffer(sequence.encode("latin-1", "replace"), dtype=np.uint8)]
        if digits.size < self.length:
            return np.empty(0, dtype=np.int64)
        windows = np.lib.stride_tricks.sliding_window_view(digits, self.length)
        powers = len(letters) ** np.arange(self.length - 1, -1, -1)
        return (windows @ powers)[(windows >= 0).all(axis=1)]


@dataclass(frozen=True)
class FingerprintEncoder(SingleColumn):
    """Morgan (ECFP) fingerprints of molecules that are given as SMILES [1]_, by RDKit.

    References
    ----------
    .. [1] D. Rogers, M. Hahn (2010), "Extended-connectivity fingerprints", Journal of Chemical
       Information and Modeling 50, 742-754.
    """

    column: Any
    radius: int
    width: int
    counted: bool
    """Whether it says how often each neighbourhood occurs, or only that it does."""
    stored: ClassVar[Tests] = {
        "column": anything,
        "radius": count,
        "width": count,
        "counted": flag,
    }

    @property
    def kind(self) -> str:  # type: ignore[override]
        """What the column holds."""
        return "smiles"

    def encode(self, new: Any) -> Any:
        """Return the fingerprint of each molecule, NaN where there is none."""
        chem = needed("rdkit.Chem", "Reading molecules")
        making = needed("rdkit.Chem.rdFingerprintGenerator", "Reading molecules")
        values = self._values(new)
        tool = making.GetMorganGenerator(radius=self.radius, fpSize=self.width)
        columns: list[Any] = []
        data: list[Any] = []
        for label, smiles in values.items():
            if smiles is None or smiles != smiles:
                columns.append([0])
                data.append([np.nan])
                continue
            molecule = _molecule(chem, smiles, self.column, label)
            counts = tool.GetCountFingerprint(molecule).GetNonzeroElements()
            at = sorted(counts)
            columns.append(at)
            data.append([float(counts[k]) if self.counted else 1.0 for k in at])
        flat = np.array([k for some in columns for k in some], dtype=np.int64)
        kept = np.array([v for some in data for v in some], dtype=np.float64)
        return _rows([len(some) for some in columns], flat, kept, self.width)


def _molecule(chem: Any, smiles: Any, column: Any, label: Any) -> Any:
    from rdkit import rdBase

    with rdBase.BlockLogs():
        molecule = chem.MolFromSmiles(str(smiles))
    if molecule is None:
        msg = (
            f"Column {column!r} has {smiles!r:.80} at {label!r}, which is no molecule that RDKit "
            "can read. Correct it or leave it empty; if the column holds something else, say so "
            f"({column}=category, text or ignore)."
        )
        raise FeatureError(msg)
    return molecule


@dataclass(frozen=True)
class DateEncoder(SingleColumn):
    """Dates as days since 1970; those of a column, or the labels of the items themselves."""

    column: Any
    by_label: bool
    stored: ClassVar[Tests] = {"column": anything, "by_label": flag}

    @property
    def kind(self) -> str:  # type: ignore[override]
        """What the column holds."""
        return "date"

    @property
    def width(self) -> int:  # type: ignore[override]
        """One: the day."""
        return 1

    @property
    def kinds(self) -> dict[str, list[Any]]:  # type: ignore[override]
        """The column that it needs; none for labels."""
        return {} if self.by_label else super().kinds

    def encode(self, new: Any) -> Any:
        """Return the days as a column, NaN where there is no date."""
        values = new
        if not self.by_label:
            values = self._values(new)
        elif is_frame(new) and hasattr(new, "columns"):
            values = as_pandas(new).index
        if isinstance(values, str) or not hasattr(values, "__len__"):
            msg = f"New items are known by their dates, got {values!r:.60}: give a list of dates."
            raise FeatureError(msg)
        return as_days(list(values), None if self.by_label else self.column)[:, None]

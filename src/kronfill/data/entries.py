"""Sets of entries: together they must describe a partly observed matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.data.arrays import (
    check_finite,
    check_shape,
    first_positions,
    is_finite,
    listing,
    own_floats,
    own_index,
)
from kronfill.data.labels import Labels
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    EmptyDataError,
    LabelError,
    NonFiniteError,
    ParameterError,
    ShapeError,
    argument,
)

__all__ = ["Entries", "LabelledShape", "check_policy"]

_MANY = 2**21
_BITMAP_BYTES_PER_ENTRY = 8  # as much memory as sorting the codes would take, and faster


@dataclass(frozen=True)
class LabelledShape:
    """The matrix that entries lie in: its shape and the labels of both sides."""

    shape: tuple[int, int]
    row_labels: Labels | None = None
    col_labels: Labels | None = None

    @classmethod
    def build(cls, shape: Any, row_labels: Any, col_labels: Any) -> LabelledShape:
        """Check the shape and the labels."""
        n_rows, n_cols = check_shape(shape)
        return cls(
            (n_rows, n_cols),
            _axis_labels(row_labels, "row", n_rows),
            _axis_labels(col_labels, "column", n_cols),
        )

    def entry(self, row: int, col: int) -> str:
        """Name an entry for an error message."""
        both = zip((self.row_labels, self.col_labels), (row, col), strict=True)
        names = ["" if own is None or own[k] == k else f" {own[k]!r}" for own, k in both]
        return f"(row {row}{names[0]}, column {col}{names[1]})"


def _axis_labels(labels: Iterable[Any] | None, axis: str, size: int) -> Labels | None:
    """Return the labels of one side, checked against its size."""
    if labels is None:
        return None
    found = labels if isinstance(labels, Labels) else Labels(labels, axis=axis)
    if len(found) != size:
        msg = f"Got {len(found)} {axis} labels for {size} {axis}s; give one label per {axis}."
        raise LabelError(msg)
    return found


def check_policy(duplicates: str) -> None:
    """Raise unless `duplicates` names a known way to treat repeated entries."""
    if duplicates not in ("error", "mean"):
        msg = f"duplicates must be 'error' or 'mean', got {duplicates!r}."
        raise ParameterError(msg)


@dataclass(frozen=True, eq=False)
class Entries:
    """Observed entries of a matrix; the arrays are read-only and belong to us."""

    rows: Index
    cols: Index
    values: Floats
    weights: Floats | None
    grid: LabelledShape

    @classmethod
    def build(cls, rows: Any, cols: Any, values: Any, weights: Any, grid: LabelledShape) -> Entries:
        """Check everything but duplicates."""
        entries = cls(
            own_index(rows, "rows", grid.shape[0]),
            own_index(cols, "cols", grid.shape[1]),
            own_floats(values, "values"),
            None if weights is None else own_floats(weights, "weights"),
            grid,
        )
        return entries.checked()

    def arrays(self) -> dict[str, Any]:
        """Return what there is for each entry, by name."""
        found = {"rows": self.rows, "cols": self.cols, "values": self.values}
        return found if self.weights is None else {**found, "weights": self.weights}

    def take(self, chosen: Index) -> Entries:
        """Return the entries at some positions."""
        return replace(self, **{name: array[chosen] for name, array in self.arrays().items()})

    def checked(self) -> Entries:
        """Return the entries if all arrays have the same positive length and fitting numbers."""
        sizes = {name: array.size for name, array in self.arrays().items()}
        if len(set(sizes.values())) > 1:
            got = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            msg = f"One row, column and value per observation is needed, but {got} entries."
            raise ShapeError(msg)
        if self.values.size == 0:
            msg = "There is no observation; at least one entry must be observed."
            raise EmptyDataError(msg)
        if not is_finite(self.values):
            shown, total = first_positions(~np.isfinite(self.values))
            named = [f"{self.values[k]} at position {k} {self.name(k)}" for k in shown]
            msg = (
                f"values must be finite, got {listing(named, total)}; "
                "leave missing entries out, or use Observations.from_matrix, where NaN is missing."
            )
            raise NonFiniteError(msg)
        if self.weights is not None:
            _check_weights(self.weights)
        return self

    def name(self, k: int) -> str:
        """Name the entry at a position for an error message."""
        return self.grid.entry(self.rows[k], self.cols[k])

    def settled(self, duplicates: str) -> Entries:
        """Refuse or merge repeated entries."""
        if duplicates == "mean":
            return self._averaged()
        self._check_duplicates()
        return self

    def same(self, other: Entries) -> bool:
        """Return whether all arrays are equal, in the same matrix."""
        mine, theirs = self.arrays(), other.arrays()
        return (
            self.grid == other.grid
            and mine.keys() == theirs.keys()
            and all(
                a is theirs[name] or np.array_equal(a, theirs[name]) for name, a in mine.items()
            )
        )

    def _codes(self) -> Index:
        """Return row * L + column, which numbers the entries of the matrix row by row."""
        codes = self.rows.astype(np.intp)
        codes *= self.grid.shape[1]
        codes += self.cols
        return codes

    def _check_duplicates(self) -> None:
        """Raise if an entry occurs twice."""
        shape = self.grid.shape
        if self.rows.size >= _MANY:
            from kronfill.data.distinct import are_distinct  # compiled: not worth it for few

            if are_distinct(self.rows, self.cols, shape):
                return
        elif _is_distinct(self._codes(), shape[0] * shape[1]):
            return
        repeats = self.repeats()
        named = [f"{self.name(j)} at positions {i} and {j}" for i, j in repeats[:3]]
        msg = (
            f"Every entry may be observed once, got repeats: {listing(named, len(repeats))}; "
            f"merge them first, or read the table with {argument('duplicates', 'mean')}."
        )
        raise DuplicateEntryError(msg)

    def repeats(self) -> Index:
        """Return the positions of each entry that came before, and of where it came last."""
        codes = self._codes()
        order = np.argsort(codes, kind="stable")
        again = np.flatnonzero(codes[order][1:] == codes[order][:-1])
        pairs: Index = np.column_stack([order[again], order[again + 1]])
        return pairs[np.argsort(pairs[:, 1])]

    def _averaged(self) -> Entries:
        """Merge repeats into their weighted mean; the weight becomes the sum (or the count).

        Entries keep the order in which they first appear. Repeats that all weigh zero get their
        plain mean and weight zero.
        """
        _, first, inverse = np.unique(self._codes(), return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        group, first = rank[inverse], first[order]
        count = np.bincount(group).astype(np.float64)
        mean = np.bincount(group, weights=self.values) / count
        weight: Floats = count
        if self.weights is not None:
            weight = np.bincount(group, weights=self.weights).astype(np.float64, copy=False)
            total = np.bincount(group, weights=self.weights * self.values)
            mean = np.divide(total, weight, out=mean, where=weight > 0)
        single = count == 1
        mean[single] = self.values[first[single]]  # w x / w may differ from x in the last bit
        return replace(self.take(first), values=mean, weights=weight).checked()


def _check_weights(weights: Floats) -> None:
    check_finite(weights, "weights", "a weight of 0 leaves an entry out")
    if weights.min() < 0:
        shown, total = first_positions(weights < 0)
        named = listing([f"{weights[k]} at position {k}" for k in shown], total)
        msg = f"weights must not be negative, got {named}."
        raise DataError(msg)
    if weights.max() == 0:
        msg = f"All {weights.size} weights are zero; at least one must be positive."
        raise DataError(msg)


def _is_distinct(codes: Index, n_codes: int) -> bool:
    """Return whether no code occurs twice; may reorder `codes`."""
    if codes.size > n_codes:
        return False
    if (codes[1:] > codes[:-1]).all():
        return True
    if n_codes <= _BITMAP_BYTES_PER_ENTRY * codes.size:
        seen = np.zeros(n_codes, dtype=bool)
        seen[codes] = True
        return int(np.count_nonzero(seen)) == codes.size
    codes.sort()
    return bool((codes[1:] > codes[:-1]).all())

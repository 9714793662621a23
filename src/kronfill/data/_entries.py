"""Checks of whole sets of entries: together they must describe a partly observed matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.data._arrays import (
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
)

__all__ = ["Entries", "LabelledShape", "average_duplicates", "check_duplicates", "check_policy"]

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
        row_name = "" if self.row_labels is None else f" {self.row_labels[row]!r}"
        col_name = "" if self.col_labels is None else f" {self.col_labels[col]!r}"
        return f"(row {row}{row_name}, column {col}{col_name})"


def _axis_labels(labels: Iterable[Any] | None, axis: str, size: int) -> Labels | None:
    """Return the labels of one side, checked against its size."""
    if labels is None:
        return None
    found = labels if isinstance(labels, Labels) else Labels(labels, axis=axis)
    if len(found) != size:
        msg = f"Got {len(found)} {axis} labels for {size} {axis}s; give one label per {axis}."
        raise LabelError(msg)
    return found


@dataclass(frozen=True, eq=False)
class Entries:
    """Observed entries, validated; the arrays are read-only and belong to us."""

    rows: Index
    cols: Index
    values: Floats
    weights: Floats | None

    @classmethod
    def build(cls, rows: Any, cols: Any, values: Any, weights: Any, grid: LabelledShape) -> Entries:
        """Check everything but duplicates."""
        entries = cls(
            own_index(rows, "rows", grid.shape[0]),
            own_index(cols, "cols", grid.shape[1]),
            own_floats(values, "values"),
            None if weights is None else own_floats(weights, "weights"),
        )
        entries.check_lengths()
        entries.check_numbers(grid)
        return entries

    def check_lengths(self) -> None:
        """Raise unless all arrays have the same positive length."""
        sizes = {"rows": self.rows.size, "cols": self.cols.size, "values": self.values.size}
        if self.weights is not None:
            sizes["weights"] = self.weights.size
        if len(set(sizes.values())) > 1:
            got = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            msg = f"One row, column and value per observation is needed, but {got} entries."
            raise ShapeError(msg)
        if self.values.size == 0:
            msg = "There is no observation; at least one entry must be observed."
            raise EmptyDataError(msg)

    def check_numbers(self, grid: LabelledShape) -> None:
        """Raise unless values are finite and weights finite, not negative and not all zero."""
        if not is_finite(self.values):
            shown, total = first_positions(~np.isfinite(self.values))
            named = [
                f"{self.values[k]} at position {k} {grid.entry(self.rows[k], self.cols[k])}"
                for k in shown
            ]
            msg = (
                f"values must be finite, got {listing(named, total)}; "
                "leave missing entries out, or use Observations.from_matrix, where NaN is missing."
            )
            raise NonFiniteError(msg)
        if self.weights is not None:
            self._check_weights(self.weights)

    def same(self, other: Entries) -> bool:
        """Return whether all arrays are equal."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return all(
            a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs
        )

    @staticmethod
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


def check_policy(duplicates: str) -> None:
    """Raise unless `duplicates` names a known way to treat repeated entries."""
    if duplicates not in ("error", "mean"):
        msg = f"duplicates must be 'error' or 'mean', got {duplicates!r}."
        raise ParameterError(msg)


def _codes(entries: Entries, grid: LabelledShape) -> Index:
    """Return row * L + column, which numbers the entries of the matrix row by row."""
    codes = entries.rows.astype(np.intp)
    codes *= grid.shape[1]
    codes += entries.cols
    return codes


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


def check_duplicates(entries: Entries, grid: LabelledShape) -> None:
    """Raise if an entry occurs twice."""
    if entries.rows.size >= _MANY:
        from kronfill.data._distinct import are_distinct  # compiled: not worth it for few

        if are_distinct(entries.rows, entries.cols, grid.shape):
            return
    elif _is_distinct(_codes(entries, grid), grid.shape[0] * grid.shape[1]):
        return
    codes = _codes(entries, grid)
    order = np.argsort(codes, kind="stable")
    repeat = np.flatnonzero(codes[order][1:] == codes[order][:-1])
    earlier, later = order[repeat], order[repeat + 1]
    first = np.argsort(later)[:3]
    named = [
        f"{grid.entry(entries.rows[j], entries.cols[j])} at positions {i} and {j}"
        for i, j in zip(earlier[first].tolist(), later[first].tolist(), strict=True)
    ]
    msg = (
        f"Every entry may be observed once, got repeats: {listing(named, repeat.size)}; "
        "merge them first, or read the table with duplicates='mean'."
    )
    raise DuplicateEntryError(msg)


def average_duplicates(entries: Entries, grid: LabelledShape) -> Entries:
    """Merge repeats into their weighted mean; the weight becomes the sum (or the count).

    Entries keep the order in which they first appear. Repeats that all weigh zero get their plain
    mean and weight zero.
    """
    codes = _codes(entries, grid)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    group, first = rank[inverse], first[order]
    count = np.bincount(group).astype(np.float64)
    mean = np.bincount(group, weights=entries.values) / count
    weight: Floats = count
    if entries.weights is not None:
        weight = np.bincount(group, weights=entries.weights).astype(np.float64, copy=False)
        total = np.bincount(group, weights=entries.weights * entries.values)
        mean = np.divide(total, weight, out=mean, where=weight > 0)
    single = count == 1
    mean[single] = entries.values[first[single]]  # w x / w may differ from x in the last bit
    merged = Entries(entries.rows[first], entries.cols[first], mean, weight)
    merged.check_numbers(grid)
    return merged

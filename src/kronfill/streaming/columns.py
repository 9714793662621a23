"""What a line of a long table holds: a row, a column, a value, perhaps a weight; all checked.

Rows and columns are given by integer codes, or by labels where the axis has some.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kronfill._optional import needed
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    IndexRangeError,
    LabelError,
    NonFiniteError,
    ParameterError,
)

__all__ = ["Batch", "Columns", "TableAxis", "arrow", "repeated_entry"]


class Batch(NamedTuple):
    """Observed entries; no weights if all are 1."""

    rows: NDArray[np.int32]
    cols: NDArray[np.int32]
    values: NDArray[np.float64]
    weights: NDArray[np.float64] | None


@dataclass(frozen=True)
class TableAxis:
    """The items that a column of the table may name."""

    name: str
    """"row" or "column"."""
    size: int
    labels: tuple[Any, ...] | None = None

    def codes(self, column: Any, where: str, line: int) -> NDArray[np.int32]:
        """Positions of the items that an Arrow column names."""
        pa, pc = arrow()
        if column.null_count:
            at = line + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            msg = f"{where}: the {self.name} is missing on line {at}; drop such lines."
            raise LabelError(msg)
        if pa.types.is_dictionary(column.type):
            known = self.codes(column.dictionary, f"{where}, dictionary", 0)
            return np.asarray(known[column.indices.to_numpy()])
        whole = pa.types.is_integer(column.type)
        if self._labels is not None and (not whole or pa.types.is_integer(self._labels.type)):
            return self._looked_up(pc, column, where, line)
        if not whole:
            msg = (
                f"{where}: {self.name}s must be integers from 0 to {self.size - 1}, or labels of a "
                f"kernel made from a table with an index; got {column.type}."
            )
            raise IndexRangeError(msg)
        index = column.to_numpy().copy()  # first ours, then checked: compiled code trusts it
        bad = (index < 0) | (index >= self.size)
        if bad.any():
            at = int(np.argmax(bad))
            msg = (
                f"{where}: {self.name} {index[at]} on line {line + at} is outside the matrix, "
                f"which has {self.size} {self.name}s (0 to {self.size - 1}). Give one kernel item "
                f"per {self.name}."
            )
            raise IndexRangeError(msg)
        return np.asarray(index, np.int32)

    @cached_property
    def _labels(self) -> Any:
        if self.labels is None:
            return None
        pa, _ = arrow()
        try:
            return pa.array(self.labels)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            msg = f"The labels of the {self.name}s are of several kinds ({error}); use one."
            raise LabelError(msg) from None

    def _looked_up(self, pc: Any, column: Any, where: str, line: int) -> NDArray[np.int32]:
        pa, _ = arrow()
        try:
            found = pc.index_in(column.cast(self._labels.type), value_set=self._labels)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            msg = (
                f"{where}: {self.name}s of type {column.type} cannot be compared with the labels, "
                f"which are {self._labels.type}."
            )
            raise LabelError(msg) from None
        if found.null_count:
            at = int(np.argmax(found.is_null().to_numpy(zero_copy_only=False)))
            msg = (
                f"{where}: the {self.name} {column[at].as_py()!r} on line {line + at} is none of "
                f"the {self.size} labels, which begin with {self.labels[0]!r}."  # type: ignore[index]
            )
            raise LabelError(msg)
        codes: NDArray[np.int32] = found.to_numpy()
        return codes


def repeated_entry(
    axes: tuple[TableAxis, TableAxis], pair: tuple[int, int], where: list[str]
) -> DuplicateEntryError:
    """Return an error that says where the lines of an entry are that occurs twice."""
    names = ", ".join(
        f"{axis.name} {item if axis.labels is None else repr(axis.labels[item])}"
        for axis, item in zip(axes, pair, strict=True)
    )
    return DuplicateEntryError(
        f"The entry at {names} occurs more than once: {'; '.join(where)}. Each entry may be "
        "observed once; merge repeats first."
    )


@dataclass(frozen=True)
class Columns:
    """Names of the columns that are read."""

    row: str
    col: str
    value: str
    weight: str | None = None

    @classmethod
    def of(
        cls,
        names: list[str],
        value: Any = None,
        weight: Any = None,
        row: Any = None,
        col: Any = None,
    ) -> Columns:
        """The first three columns, but for those that are named."""
        named = [name for name in (value, weight, row, col) if name is not None]
        for name in named:
            if name not in names:
                msg = f"The table has no column {name!r}; its columns are {names}."
                raise ParameterError(msg)
        rest = iter([name for name in names if name not in named])
        row, col, value = (name or next(rest, None) for name in (row, col, value))
        if value is None or col is None:
            msg = f"A table needs a row, a column and a value on each line; its columns: {names}."
            raise DataError(msg)
        return cls(row, col, value, weight)

    @property
    def names(self) -> list[str]:
        """All of them, in order."""
        return [n for n in (self.row, self.col, self.value, self.weight) if n is not None]

    def decode(
        self, table: Any, axes: tuple[TableAxis, TableAxis], where: str, line: int = 0
    ) -> Batch:
        """Checked observations of an Arrow table that begins at ``line`` of ``where``."""
        columns = {name: _whole(table, name, where) for name in self.names}
        rows = axes[0].codes(columns[self.row], where, line)
        cols = axes[1].codes(columns[self.col], where, line)
        values = _numbers(columns[self.value], "values", where, line)
        if self.weight is None:
            return Batch(rows, cols, values, None)
        weights = _numbers(columns[self.weight], "weights", where, line)
        if (weights < 0).any():
            at = int(np.argmax(weights < 0))
            msg = f"{where}: weights must not be negative, got {weights[at]} on line {line + at}."
            raise DataError(msg)
        keep = weights > 0  # entries of no weight have no part in the sum
        if keep.all():
            return Batch(rows, cols, values, weights)
        return Batch(rows[keep], cols[keep], values[keep], weights[keep])


def _whole(table: Any, name: str, where: str) -> Any:
    """One column of a table, in one piece."""
    if name not in table.schema.names:
        msg = (
            f"{where}: there is no column {name!r}, the columns are {table.schema.names}. All "
            "parts of the data need the same columns."
        )
        raise DataError(msg)
    column = table.column(name)
    chunks = getattr(column, "chunks", None)
    if chunks is None:
        return column
    return column.chunk(0) if len(chunks) == 1 else column.combine_chunks()


def _numbers(column: Any, what: str, where: str, line: int) -> NDArray[np.float64]:
    pa, _ = arrow()
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
            or pa.types.is_boolean(kind)):  # fmt: skip
        msg = f"{where}: {what} must be numbers, got {kind}."
        raise DataError(msg)
    numbers: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(
        zero_copy_only=False
    )
    finite = np.isfinite(numbers)
    if not finite.all():
        at = int(np.argmin(finite))
        msg = (
            f"{where}: {what} must be finite, got {numbers[at]} on line {line + at}; drop missing "
            "entries."
        )
        raise NonFiniteError(msg)
    return numbers


def arrow() -> tuple[Any, Any]:
    """pyarrow and its functions, or say how to get them."""
    purpose = "Reading Parquet"
    return needed("pyarrow", purpose), needed("pyarrow.compute", purpose)

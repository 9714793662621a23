"""What a worker of a Dask cluster does with its share of the observations."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats
from kronfill.core.grouping import Grouped
from kronfill.core.loops.lanes import lined
from kronfill.streaming.columns import Batch, Columns, TableAxis
from kronfill.streaming.long_table import LongTable, arrow_table
from kronfill.streaming.storage.sorting import first_repeat
from kronfill.streaming.system import moments_of, normal_of

__all__ = [
    "Block", "InnerFactor", "added", "block_of", "counted", "decoded", "frame_of", "moments",
    "normal", "nothing", "one_at_a_time", "piece_of", "repeat_of", "same", "times",
]  # fmt: skip

READ = 1 << 20
"""Lines that are read at a time."""
_MOST_THREADS: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
one_at_a_time = threading.Lock()
"""Compiled loops bring their own threads: those of Dask take turns."""


@dataclass(frozen=True, eq=False)
class Block:
    """Observations of a range of outer items, on a worker."""

    items: slice
    grouped: Grouped
    values: Floats

    @property
    def repeat(self) -> tuple[int, int] | None:
        """Outer and inner item of an entry that occurs twice."""
        found = first_repeat(self.grouped)
        return None if found is None else (found[0] + self.items.start, found[1])


class InnerFactor:
    """The inner factor, laid out anew where it arrives."""

    def __init__(self, factor: Floats) -> None:
        self.columns = factor.shape[1]
        self.table = lined(factor, np.float64)

    def __reduce__(self) -> tuple[Any, ...]:
        return InnerFactor, (np.ascontiguousarray(self.table[:, : self.columns]),)


@contextmanager
def _alone() -> Iterator[None]:
    """One pass at a time in a worker, with as many threads as the worker has."""
    from distributed import get_worker

    threads = min(get_worker().state.nthreads, _MOST_THREADS)
    with one_at_a_time:
        before = numba.get_num_threads()
        numba.set_num_threads(threads)
        try:
            yield
        finally:
            numba.set_num_threads(before)


def same(value: Any) -> Any:
    """As a task, a value that Dask can bring back if it is lost."""
    return value


def piece_of(table: LongTable, piece: int) -> Any:
    """A piece of the table, in one part."""
    import pyarrow as pa

    return pa.Table.from_batches(list(table.read(piece, READ)))


def decoded(part: Any, shared: tuple[Columns, tuple[TableAxis, TableAxis], int], where: str) -> Any:
    """A piece as a frame of outer items, inner items, values and weights."""
    import pyarrow as pa

    columns, axes, by = shared
    table = part if isinstance(part, pa.Table) else arrow_table(part)
    return frame_of(columns.decode(table, axes, where), by)


def nothing(weighted: bool) -> tuple[Batch, int]:
    """No observations."""
    none, numbers = np.empty(0, np.int32), np.empty(0)
    return Batch(none, none, numbers, numbers if weighted else None), 0


def frame_of(batch: Batch, by: int) -> Any:
    """Observations as a frame, outer items first."""
    import pandas as pd

    columns = {"outer": batch[by], "inner": batch[1 - by], "value": batch.values}
    if batch.weights is not None:
        columns["weight"] = batch.weights
    return pd.DataFrame(columns)


def _parts(frame: Any) -> tuple[Any, Any, Floats, Floats | None]:
    """Outer and inner items, values and weights of a frame."""
    weights = frame["weight"].to_numpy() if "weight" in frame else None
    return frame["outer"].to_numpy(), frame["inner"].to_numpy(), frame["value"].to_numpy(), weights


def counted(frame: Any, sizes: tuple[int, int], by: int) -> tuple[NDArray[Any], ...]:
    """Observations of each outer item, weight of each row and column, sums of w y^2 and w y."""
    outer, inner, values, weights = _parts(frame)
    numbers = np.bincount(outer, minlength=sizes[by])
    pair = (outer, inner) if by == 0 else (inner, outer)
    rows, cols = (np.bincount(pair[k], weights, sizes[k]).astype(float) for k in range(2))
    weighted = values if weights is None else weights * values
    return numbers, rows, cols, np.array([weighted @ values, weighted.sum()])


def block_of(frame: Any, first: int, last: int) -> Block:
    """The observations of a range of outer items, grouped."""
    outer, inner, values, weights = _parts(frame.reset_index())
    with _alone():
        grouped = Grouped.by(outer - first, inner, last - first, weights)
        values = grouped.gather(values)
    kept = Grouped(np.empty(0, np.int32), grouped.indptr, grouped.inner, grouped.weights)
    return Block(slice(first, last), kept, values)


def repeat_of(block: Block) -> tuple[int, int] | None:
    """See :class:`Block`."""
    return block.repeat


def times(frame: Any, repeat: tuple[int, int]) -> int:
    """How often an entry occurs."""
    outer, inner, *_ = _parts(frame)
    return int(((outer == repeat[0]) & (inner == repeat[1])).sum())


def normal(block: Block, outer: Floats, inner: InnerFactor, x: Floats) -> tuple[Floats]:
    """Share of a block in a pass."""
    with _alone():
        return (normal_of(outer[block.items], inner.table, block.grouped, x),)


def moments(block: Block, outer: Floats, inner: InnerFactor, x: None) -> tuple[Floats]:
    """Share of a block in the right-hand side."""
    with _alone():
        p, q = outer[block.items], inner.table
        return (moments_of(p, q, block.grouped, block.values, inner.columns),)


def added(terms: list[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
    """Sums of what the terms have in the same place."""
    return tuple(np.sum(parts, axis=0) for parts in zip(*terms, strict=True))

"""Some lines of a long table, always the same ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kronfill.streaming.columns import Batch, TableAxis
from kronfill.streaming.long_table import LongTable

__all__ = ["SAMPLE", "sample_lines"]

SAMPLE = 100_000
"""Lines of a long table on which mu="auto" is chosen."""
READ = 1 << 16
"""Lines that are read at a time."""
ENOUGH = 20_000_000
"""Once so many lines have been read, the rest of the table is left unread."""


def sample_lines(
    table: LongTable,
    axes: tuple[TableAxis, TableAxis],
    most: int,
    enough: int = ENOUGH,
    notice: Callable[[int, int], None] = lambda done, total: None,
) -> Batch:
    """Draw lines of a long table.

    Parameters
    ----------
    table : LongTable
        The observations.
    axes : pair of TableAxis
        Rows and columns.
    most : int
        Number of lines, fewer if the table has fewer.
    enough : int, optional
        Pieces of the table are read in random order until they have so many lines together.
    notice : callable, optional
        Called with how many pieces were read and how many there are.

    Returns
    -------
    Batch
        In the order of rows and columns.

    Notes
    -----
    Of all lines read, those with the smallest digest of (row, column) are taken. Where the whole
    table is read, the sample depends on the observations alone, not on files or their order.

    Examples
    --------
    >>> import numpy as np, pandas as pd, tempfile
    >>> from kronfill.streaming.columns import TableAxis
    >>> from kronfill.streaming.long_table import ParquetTable
    >>> from kronfill.streaming.samples import sample_lines
    >>> path = tempfile.mkdtemp() + "/a.parquet"
    >>> i, j = np.divmod(np.arange(600), 20)
    >>> pd.DataFrame({"i": i, "j": j, "y": 1.0 * i}).to_parquet(path)
    >>> batch = sample_lines(ParquetTable(path), (TableAxis("row", 30), TableAxis("column", 20)), 5)
    >>> len(batch.values), bool((batch.values == batch.rows).all())
    (5, True)
    """
    kept = _Smallest(most, axes[1].size)
    lines = 0
    for count, piece in enumerate(np.random.default_rng(0).permutation(table.pieces)):
        notice(count, table.pieces)
        where, line = table.named(int(piece)), 0
        for part in table.read(int(piece), READ):
            kept.add(table.columns.decode(part, axes, where, line))
            line += part.num_rows
        lines += line
        if lines >= enough:
            break
    notice(table.pieces, table.pieces)
    return kept.batch()


class _Smallest:
    """The lines with the smallest digests of those seen so far."""

    def __init__(self, most: int, width: int) -> None:
        self._most, self._width = most, width
        self._parts: list[Batch] = []
        self._count = 0
        self._limit: int = 2**64 - 1

    def add(self, batch: Batch) -> None:
        """Look at more lines."""
        near = _digest(batch, self._width) <= np.uint64(self._limit)
        if near.any():
            self._parts.append(_some(batch, near))
            self._count += int(near.sum())
        if self._count >= 3 * self._most:
            self._cut()

    def _cut(self) -> Batch:
        whole = _joined(self._parts)
        digests = _digest(whole, self._width)
        if len(digests) > self._most:
            self._limit = int(np.partition(digests, self._most - 1)[self._most - 1])
            whole = _some(whole, digests <= np.uint64(self._limit))
        self._parts, self._count = [whole], len(whole.values)
        return whole

    def batch(self) -> Batch:
        """The lines, each entry once, in the order of rows and columns."""
        if not self._parts:
            none = np.empty(0, np.int32)
            return Batch(none, none, np.empty(0), None)
        whole = self._cut()
        code = whole.rows.astype(np.int64) * self._width + whole.cols
        return _some(whole, np.unique(code, return_index=True)[1])


def _some(batch: Batch, which: NDArray[np.bool_] | NDArray[np.intp]) -> Batch:
    weights = None if batch.weights is None else batch.weights[which]
    return Batch(batch.rows[which], batch.cols[which], batch.values[which], weights)


def _joined(parts: list[Batch]) -> Batch:
    rows, cols, values = (np.concatenate([part[k] for part in parts]) for k in range(3))
    weights = None
    if parts[0].weights is not None:
        weights = np.concatenate([part.weights for part in parts if part.weights is not None])
    return Batch(rows, cols, values, weights)


def _digest(batch: Batch, width: int) -> NDArray[np.uint64]:
    """A number for each entry, one to one, that looks random: the finaliser of SplitMix64."""
    z = batch.rows.astype(np.uint64) * np.uint64(width) + batch.cols.astype(np.uint64)
    z += np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))

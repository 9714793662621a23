"""Entries of a completed table one by one: value, status and interval."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.completion.intervals import Intervals, intervals_for
from kronfill.completion.newcomers import Newcomers, newcomers
from kronfill.data import Observations
from kronfill.data.arrays import plain_array
from kronfill.errors import ParameterError, argument
from kronfill.estimators.base import MatrixRegressor, check_rank

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "BLOCK_FLOATS",
    "CHUNK",
    "STATUS",
    "EntryDetails",
    "as_index",
    "best_lines",
    "check_level",
]

Both = tuple[Newcomers | None, Newcomers | None]

STATUS = ("observed", "filled", "extrapolated")
CHUNK = 500_000
"""Entries that are described together."""
BLOCK_FLOATS = 4_000_000
"""Numbers in a block of new rows or columns."""


class EntryDetails:
    """Adds what can be said about single entries to a completed table."""

    model: MatrixRegressor
    observations: Observations

    @property
    @abstractmethod
    def _index(self) -> tuple[Any, Any]:
        """Labels of rows and columns as pandas indices."""

    def locate(self, pairs: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and column indices of entries given by labels.

        Parameters
        ----------
        pairs : iterable of (row label, column label)
            The entries; a DataFrame with two columns will do.

        Returns
        -------
        rows, cols : ndarray of int
        """
        obs = self.observations
        if hasattr(pairs, "iloc") and len(pairs.columns) == 2:
            return obs.row_index(list(pairs.iloc[:, 0])), obs.col_index(list(pairs.iloc[:, 1]))
        both = [pair if isinstance(pair, tuple | list) else () for pair in _items(pairs)]
        if any(len(pair) != 2 for pair in both):
            msg = (
                "pairs must be a list of (row label, column label), one pair per entry, such as "
                f"[{(obs.row_labels or ('',))[0]!r}, ...]; got {pairs!r}."
            )
            raise ParameterError(msg)
        at_r, at_c = [pair[0] for pair in both], [pair[1] for pair in both]
        return obs.row_index(at_r), obs.col_index(at_c)

    def predict(self, pairs: Any) -> Floats:
        """Predict entries given by labels.

        Parameters
        ----------
        pairs : iterable of (row label, column label)
            The entries; a DataFrame with two columns will do.

        Returns
        -------
        ndarray of shape (len(pairs),)
        """
        return self.model.predict(np.column_stack(self.locate(pairs)))

    def details(
        self, pairs: Any = None, *, level: float = 0.9, intervals: str = "auto"
    ) -> DataFrame:
        """Value, status and interval of each entry, one line per entry.

        Parameters
        ----------
        pairs : iterable of (row label, column label), optional
            The entries; all by default.
        level : float, default=0.9
            Share of the values that the intervals are to contain.
        intervals : {"auto", "gaussian", "calibrated", "none"}, default="auto"
            "gaussian" is the standard deviation of KKMCEX and RRMCEX, noise included. "calibrated"
            takes the width from the errors of one more fit, from which rows, columns and entries
            were hidden: one width for each kind of entry. "auto" takes the first where it can be
            had in about a minute.

        Returns
        -------
        DataFrame
            Columns "row", "column", "value", "status" ("observed", "filled" or "extrapolated"),
            "lower", "upper" and "std". An observed value stands as it is and has no interval.
            "std" is empty for calibrated intervals.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> table = pd.DataFrame({"mon": [1.0, 2.0, 3.0], "tue": [2.0, 3.0, np.nan]})
        >>> places = pd.DataFrame({"x": [0.0, 1.0, 2.0]})
        >>> details = kf.complete(table, places, mu=0.1).details([(0, "mon"), (2, "tue")])
        >>> list(details["status"]), bool(details["lower"][1] < details["value"][1])
        (['observed', 'filled'], True)
        """
        pd = needed("pandas", "Details")
        blocks = list(self.iter_details(pairs, level=level, intervals=intervals))
        return cast("DataFrame", pd.concat(blocks, ignore_index=True) if blocks[1:] else blocks[0])

    def iter_details(
        self,
        pairs: Any = None,
        *,
        level: float = 0.9,
        intervals: str | Intervals = "auto",
        chunk: int = CHUNK,
    ) -> Iterator[DataFrame]:
        """Go through :meth:`details` block by block: no more than a block is in memory.

        Parameters
        ----------
        pairs : iterable of (row label, column label), or pair of index arrays, optional
            The entries; all by default, row by row. ``(rows, cols)`` as two arrays are indices.
        level, intervals : object
            As for :meth:`details`; intervals that were made before are used again.
        chunk : int, default=500000
            Number of entries in a block.

        Yields
        ------
        DataFrame
        """
        check_level(level)
        check_rank(chunk, "chunk")
        index = self._indices(pairs)
        if not isinstance(intervals, Intervals):
            intervals = intervals_for(self.model, self._count(index), intervals)
        for at_r, at_c in self._blocks(index, chunk):
            yield self._described(at_r, at_c, level, intervals)

    def _blocks(self, pairs: Any, chunk: int) -> Iterator[tuple[Index, Index]]:
        """Row and column indices of entries, all of them by default, some at a time."""
        l = self.observations.shape[1]
        index = self._indices(pairs)
        count = self._count(index)
        for first in range(0, max(count, 1), chunk):
            part = slice(first, min(first + chunk, count))
            if index is None:
                yield np.divmod(np.arange(part.start, part.stop), l)
            else:
                yield index[0][part], index[1][part]

    def _indices(self, pairs: Any) -> tuple[Index, Index] | None:
        """Indices of entries given by them or by labels; None for all entries."""
        index = as_index(pairs)
        return self.locate(pairs) if pairs is not None and index is None else index

    def _count(self, index: tuple[Index, Index] | None) -> int:
        n, l = self.observations.shape
        return n * l if index is None else len(index[0])

    def intervals(
        self, pairs: Any = None, level: float = 0.9, method: str = "auto"
    ) -> NDArray[np.float64]:
        """Lower and upper end of the interval of each entry.

        Parameters
        ----------
        pairs : iterable of (row label, column label), optional
            The entries; all by default, row by row.
        level : float, default=0.9
            Share of the values that the intervals are to contain.
        method : {"auto", "gaussian", "calibrated", "none"}, default="auto"
            As ``intervals`` of :meth:`details`.

        Returns
        -------
        ndarray of shape (number of entries, 2)
            NaN for observed entries.
        """
        found = self.details(pairs, level=level, intervals=method)
        return np.asarray(found[["lower", "upper"]].to_numpy())

    def _described(
        self, at_r: NDArray[np.intp], at_c: NDArray[np.intp], level: float, intervals: Intervals
    ) -> DataFrame:
        pd = needed("pandas", "Details")
        obs = self.observations
        value = self.model.predict(np.column_stack([at_r, at_c])) if len(at_r) else np.empty(0)
        status, seen = self._status_at(at_r, at_c)
        ends = np.full((3, len(value)), np.nan)
        open_ = np.flatnonzero(status)
        if len(open_):
            ends[:, open_] = intervals.at(at_r[open_], at_c[open_], value[open_], level)
        value[status == 0] = obs.values[seen]
        index, columns = self._index
        return cast(
            "DataFrame",
            pd.DataFrame(
                {
                    "row": index.take(at_r),
                    "column": columns.take(at_c),
                    "value": value,
                    "status": pd.Categorical.from_codes(status, categories=list(STATUS)),
                    "lower": ends[0],
                    "upper": ends[1],
                    "std": ends[2],
                }
            ),
        )

    def _status_at(
        self, at_r: NDArray[np.intp], at_c: NDArray[np.intp]
    ) -> tuple[NDArray[np.int8], NDArray[np.intp]]:
        """Status of each entry as a code, and the observations that those observed are."""
        obs = self.observations
        codes, order = self._observed_codes
        wanted = at_r * obs.shape[1] + at_c
        at = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        is_seen = codes[at] == wanted
        cold = (obs.row_counts[at_r] == 0) | (obs.col_counts[at_c] == 0)
        status = np.where(is_seen, 0, np.where(cold, 2, 1)).astype(np.int8)
        return status, order[at[is_seen]]

    @cached_property
    def _observed_codes(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Observed entries as sorted numbers, and which observation each is."""
        obs = self.observations
        codes = obs.rows.astype(np.intp) * obs.shape[1] + obs.cols
        order = np.argsort(codes, kind="stable")
        return codes[order], order

    def iter_predictions(
        self,
        pairs: tuple[Index, Index] | None = None,
        *,
        rows: Any = None,
        cols: Any = None,
        level: float = 0.9,
        intervals: str = "auto",
        chunk: int = CHUNK,
    ) -> Iterator[DataFrame]:
        """Go through entries of which some belong to new rows and columns.

        Parameters
        ----------
        pairs : pair of index arrays, optional
            The entries. New rows (columns) are numbered behind the known ones. By default all
            entries of the new rows and columns.
        rows, cols : DataFrame, optional
            What is known about the new rows and columns, as for :meth:`Completion.extrapolate`.
        level, intervals, chunk : object
            As for :meth:`iter_details`.

        Yields
        ------
        DataFrame
            As for :meth:`details`; entries of new rows and columns are "extrapolated".
        """
        check_level(level)
        n, l = self.observations.shape
        new = self._newcomers(rows, cols)
        at_r, at_c = _all_new(n, l, new) if pairs is None else pairs
        count = len(at_r) if rows is None and cols is None else max(len(at_r), _width(n, l, new))
        made = intervals_for(self.model, count, intervals)
        for first in range(0, max(len(at_r), 1), chunk):
            part = slice(first, first + chunk)
            yield self._mixed(at_r[part], at_c[part], new, level, made)

    def _newcomers(self, rows: Any, cols: Any) -> Both:
        """New rows and columns as the model wants them described."""
        obs = self.observations
        return (
            newcomers(self.model, 0, obs.row_labels or (), rows),
            newcomers(self.model, 1, obs.col_labels or (), cols),
        )

    def _extended(self, method: Callable[[Any, Any], Any], rows: Any, cols: Any) -> DataFrame:
        """What a method of the model says about new rows and columns, labelled."""
        pd = needed("pandas", "Extrapolated tables")
        new = self._newcomers(rows, cols)
        values = method(*(None if part is None else part.given for part in new))
        index, columns = (
            own if part is None else part.labels for part, own in zip(new, self._index, strict=True)
        )
        return cast("DataFrame", pd.DataFrame(values, index=index, columns=columns))

    def _mixed(
        self, at_r: Index, at_c: Index, new: Both, level: float, made: Intervals
    ) -> DataFrame:
        pd = needed("pandas", "Predictions")
        n, l = self.observations.shape
        known = (at_r < n) & (at_c < l)
        parts = [self._described(at_r[known], at_c[known], level, made)]
        order = [np.flatnonzero(known)]
        names = [
            own if part is None else own.append(pd.Index(list(part.labels), tupleize_cols=False))
            for own, part in zip(self._index, new, strict=True)
        ]
        for cold_r, cold_c in ((True, False), (False, True), (True, True)):
            at = np.flatnonzero(((at_r >= n) == cold_r) & ((at_c >= l) == cold_c))
            if not len(at):
                continue
            ends = self._outside(at_r[at], at_c[at], (cold_r, cold_c), new, level, made)
            status = pd.Categorical.from_codes(np.full(len(at), 2), categories=list(STATUS))
            labels = {"row": names[0].take(at_r[at]), "column": names[1].take(at_c[at])}
            found = {"value": ends[0], "status": status, "lower": ends[1], "upper": ends[2]}
            parts.append(pd.DataFrame({**labels, **found, "std": ends[3]}))
            order.append(at)
        filled = [part for part in parts if len(part)] or parts[:1]
        whole = pd.concat(filled, ignore_index=True) if filled[1:] else filled[0]
        return cast(
            "DataFrame", whole.iloc[np.argsort(np.concatenate(order))].reset_index(drop=True)
        )

    def _outside(
        self,
        at_r: Index,
        at_c: Index,
        cold: tuple[bool, bool],
        new: Both,
        level: float,
        made: Intervals,
    ) -> Floats:
        """Value, lower, upper and std of entries of new rows, new columns, or both."""
        n, l = self.observations.shape
        out = np.empty((4, len(at_r)))
        lead, size = (at_r - n, l) if cold[0] else (at_c - l, n)
        leading, other = new[0 if cold[0] else 1], new[1] if all(cold) else None
        assert leading is not None
        size = size if other is None else len(other)
        items, place = np.unique(lead, return_inverse=True)
        step = max(1, BLOCK_FLOATS // size)
        for first in range(0, len(items), step):
            some = items[first : first + step]
            mine = np.flatnonzero((place >= first) & (place < first + step))
            described = leading.take(some)
            left, right = (described, None) if cold[0] else (None, described)
            right = right if other is None else other.given
            middle = self.model.extrapolate(left, right)
            block = np.stack([middle, *made.outside(left, right, middle, level)])
            i = place[mine] - first
            j = (at_c[mine] - l if all(cold) else at_c[mine]) if cold[0] else at_r[mine]
            out[:, mine] = block[:, i, j] if cold[0] else block[:, j, i]
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_observed_codes"}


def _all_new(n: int, l: int, new: Both) -> tuple[Index, Index]:
    """All entries of the new rows, then those of the known rows in the new columns."""
    k, q = (0 if part is None else len(part) for part in new)
    first = np.divmod(np.arange(k * (l + q)), l + q)
    second = np.divmod(np.arange(n * q), max(q, 1))
    return (
        np.concatenate([first[0] + n, second[0]]),
        np.concatenate([first[1], second[1] + l]),
    )


def _width(n: int, l: int, new: Both) -> int:
    k, q = (0 if part is None else len(part) for part in new)
    return k * (l + q) + n * q


def check_level(level: Any) -> None:
    """Raise unless ``level`` lies between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < float(level) < 1:
        msg = f"{argument('level')} must lie between 0 and 1, such as 0.9, got {level!r}."
        raise ParameterError(msg)


def _items(pairs: Any) -> Any:
    return pairs.itertuples(index=False) if hasattr(pairs, "itertuples") else pairs


def best_lines(
    rows: Sequence[Any], cols: Sequence[Any], values: Floats, n: int
) -> list[tuple[Any, int, Any, float]]:
    """Row, rank, column and value of the n largest values of each row; -inf does not compete."""
    take = np.argsort(-values, axis=1, kind="stable")[:, :n]
    return [
        (row, place + 1, cols[j], own[j])
        for row, own, best in zip(rows, values, take, strict=True)
        for place, j in enumerate(best)
        if own[j] > -np.inf
    ]


def as_index(pairs: Any) -> Any:
    """Two index arrays, if that is what was given."""
    two = isinstance(pairs, tuple) and len(pairs) == 2
    if not two or not all(isinstance(p, np.ndarray) and p.dtype.kind in "iu" for p in pairs):
        return None
    return plain_array(pairs[0], "rows"), plain_array(pairs[1], "cols")

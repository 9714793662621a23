"""Entries of a completed table one by one: value, status and interval."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.completion.entries.groups import GroupCoverage, coverage_by, grouping
from kronfill.completion.entries.intervals import NAMES, Calibrated, Intervals, intervals_for
from kronfill.completion.likelihood import level_names
from kronfill.completion.values import InOriginalUnits, base_of, is_scaled, unscaled
from kronfill.data import Observations
from kronfill.data.arrays import plain_array
from kronfill.errors import ParameterError, argument
from kronfill.estimators.base import Kernels, MatrixRegressor, check_rank
from kronfill.estimators.transformed.regressor import TransformedRegressor

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
    "interval_names",
]

STATUS = ("observed", "filled", "extrapolated")
CHUNK = 500_000
"""Entries that are described together."""
FOUND_ANEW = ("_observed_codes", "_forecast_errors")
"""What a copy of a completed table or a file of it does without."""
BLOCK_FLOATS = 4_000_000
"""Numbers in a block of new rows or columns."""


class EntryDetails:
    """Adds what can be said about single entries to a completed table."""

    model: MatrixRegressor
    observations: Observations
    _side_kernels: Kernels = (None, None)
    """What is known about rows and columns, where the method makes no use of it."""

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
        self, pairs: Any = None, *, level: float = 0.9, intervals: str = "auto", by: Any = None
    ) -> DataFrame:
        """Value, status and interval of each entry, one line per entry.

        Parameters
        ----------
        pairs : iterable of (row label, column label), optional
            The entries; all by default.
        level : float, default=0.9
            Share of the values that the intervals are to contain.
        intervals : {"auto", "gaussian", "calibrated", "none"}, default="auto"
            "gaussian" is the standard deviation of KKMCEX and RRMCEX, noise included: it holds if
            the model does. "calibrated" is conformal: widths from errors on what was hidden from
            one more fit for each kind of entry, so that they hold for uneven masks (entries count
            by their odds of being missing) and for new rows and columns (each hidden row counts
            once); see :doc:`/uncertainty`. "auto" calibrates from 200 observations on, and takes
            the first with fewer.
        by : {"row", "column", "observations"}, str, mapping or Series, optional
            Groups within which calibrated intervals are to hold: by row, by column, by the number
            of observations of the row, by a category of the features, or by a group for each row
            (column) label. A row of the table without observations is judged by hidden rows of its
            group, a new column likewise; elsewhere groups are for known rows and columns.

        Returns
        -------
        DataFrame
            Columns "row", "column", "value", "status" ("observed", "filled" or "extrapolated"),
            "lower", "upper", "std" and "interval", which says what the interval is: its method,
            and for conformal ones the kind of entry. An observed value stands as it is and has no
            interval. "std" is empty where it cannot be had. Of yes or no, counts and ordered levels
            "value" is the expected value, "lower" and "upper" are the least and the largest value
            that are possible at this level (0 to 1 where either may be), and ordered levels have
            a column of probabilities each, "P(1)", "P(2)", ... of entries that were not observed.
            ``attrs["intervals"]`` has in words what the intervals rest on, and whether the mask is
            even.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> table = pd.DataFrame({"mon": [1.0, 2.0, 3.0], "tue": [2.0, 3.0, np.nan]})
        >>> places = pd.DataFrame({"x": [0.0, 1.0, 2.0]})
        >>> done = kf.complete(table, places, method="kkmcex", mu=0.1)
        >>> details = done.details([(0, "mon"), (2, "tue")])
        >>> list(details["status"]), bool(details["lower"][1] < details["value"][1])
        (['observed', 'filled'], True)
        """
        pd = needed("pandas", "Details")
        check_level(level)
        index = self._indices(pairs)
        made = self.intervals_for(self._count(index), intervals, by)
        blocks = list(self.iter_details(index, level=level, intervals=made))
        found = pd.concat(blocks, ignore_index=True) if blocks[1:] else blocks[0]
        found.attrs["intervals"] = made.words
        return cast("DataFrame", found)

    def iter_details(
        self,
        pairs: Any = None,
        *,
        level: float = 0.9,
        intervals: str | Intervals = "auto",
        chunk: int = CHUNK,
        by: Any = None,
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
        by : object
            As for :meth:`details`.

        Yields
        ------
        DataFrame
        """
        check_level(level)
        check_rank(chunk, "chunk")
        index = self._indices(pairs)
        if not isinstance(intervals, Intervals):
            intervals = self.intervals_for(self._count(index), intervals, by)
        for at_r, at_c in self._blocks(index, chunk):
            yield self._described(at_r, at_c, level, intervals)

    def intervals_for(self, count: int, method: str = "auto", by: Any = None) -> Intervals:
        """Return intervals for ``count`` entries; what was calibrated is kept, also in a file.

        Parameters
        ----------
        count : int
            Number of entries that they are for.
        method, by : object
            As ``intervals`` and ``by`` of :meth:`details`.

        Returns
        -------
        Intervals
            Its ``words`` say what they are.
        """
        model = unscaled(self.model)
        if by is not None:
            if method not in ("auto", "calibrated"):
                msg = (
                    f"{argument('by')} is for calibrated intervals: leave it out, or leave "
                    f"{argument('intervals', method)} out."
                )
                raise ParameterError(msg)
            groups = grouping(by, self.model, self.observations)
            return self._in_units(
                intervals_for(model, count, "calibrated", groups.pair, self._side_kernels)
            )
        made = intervals_for(model, count, method, kernels=self._side_kernels)
        if isinstance(made, Calibrated):
            kept: Calibrated | None = vars(self).get("_calibrated")
            if kept is not None and kept.serves(count):
                return self._in_units(kept)
            self._calibrated = made
        return self._in_units(made)

    def _in_units(self, made: Intervals) -> Intervals:
        """Intervals in the units of the values."""
        model = self.model
        return InOriginalUnits(made, model) if isinstance(model, TransformedRegressor) else made

    def coverage(self, by: Any = "observations", level: float = 0.9) -> DataFrame:
        """How often calibrated intervals hold in each group of known rows and columns.

        Parameters
        ----------
        by : {"row", "column", "observations"}, str, mapping or Series, default="observations"
            The groups, as for :meth:`details`; by default rows by their number of observations.
        level : float, default=0.9
            Share of the values that the intervals are to contain.

        Returns
        -------
        DataFrame
            Columns "group", "entries" (hidden ones that it was measured on), "coverage" and
            "width" (the median). Entries count by their odds of being missing; each is held
            against the interval that the other hidden entries give.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> rng = np.random.default_rng(0)
        >>> table = np.add.outer(np.arange(20.0), np.arange(30.0)) + rng.standard_normal((20, 30))
        >>> table[rng.random(table.shape) < 0.4] = np.nan
        >>> region = pd.Series(["north", "south"] * 10)
        >>> found = kf.complete(pd.DataFrame(table), method="mc", rank=2).coverage(by=region)
        >>> list(found["group"]), bool((found["coverage"] > 0.7).all())
        (['north', 'south'], True)
        """
        pd = needed("pandas", "Coverage by group")
        names = ["group", "entries", "coverage", "width"]
        found = self.measured_coverage(by, level)
        lines = [[getattr(one, name) for name in names] for one in found]
        return cast("DataFrame", pd.DataFrame(lines, columns=names))

    def measured_coverage(self, by: Any, level: float = 0.9) -> list[GroupCoverage]:
        """Return :meth:`coverage` as a list; empty where intervals cannot be calibrated."""
        check_level(level)
        groups = grouping(by, self.model, self.observations)
        made = base_of(self.intervals_for(0, "calibrated"))
        part = made.part(0) if isinstance(made, Calibrated) else ""
        if isinstance(part, str):
            return []
        found = coverage_by(self.model, part, groups, level)
        if is_scaled(self.model):  # widths on another scale are none of the values
            return [replace(one, width=float("nan")) for one in found]
        return found

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
        named = np.full(len(value), -1)
        open_ = np.flatnonzero(status)
        if len(open_):
            where = (at_r[open_], at_c[open_])
            ends[:, open_] = intervals.at(*where, value[open_], level)
            named[open_] = intervals.kinds(*where)
        value[status == 0] = obs.values[seen]
        index, columns = self._index
        shares = self._shares(at_r, at_c, open_)
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
                    "interval": interval_names(intervals, named, ends[0]),
                    **shares,
                }
            ),
        )

    def _shares(self, at_r: Index, at_c: Index, open_: Index) -> dict[str, Floats]:
        """Probabilities of ordered levels at the entries that are open."""
        names = level_names(self.model)
        if not names:
            return {}
        out = np.full((len(names), len(at_r)), np.nan)
        if len(open_):
            model: Any = self.model
            out[:, open_] = model.predict_proba(np.column_stack([at_r[open_], at_c[open_]])).T
        return dict(zip(names, out, strict=True))

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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in FOUND_ANEW}


def interval_names(intervals: Intervals, kinds: Index, lower: Floats) -> Any:
    """What the interval of each entry is: its method, and the kind of entry if that matters."""
    pd = needed("pandas", "Details")
    by_kind = isinstance(base_of(intervals), Calibrated)
    names = [f"{intervals.kind}, {name}" if by_kind else intervals.kind for name in NAMES]
    codes = np.where(np.isnan(lower), -1, kinds if by_kind else np.minimum(kinds, 0))
    return pd.Categorical.from_codes(codes, categories=names if by_kind else names[:1])


def check_level(level: Any) -> None:
    """Raise unless ``level`` lies between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < float(level) < 1:
        msg = f"{argument('level')} must lie between 0 and 1, such as 0.9, got {level!r}."
        raise ParameterError(msg)


def _items(pairs: Any) -> Any:
    return pairs.itertuples(index=False) if hasattr(pairs, "itertuples") else pairs


def best_lines(
    rows: Sequence[Any], cols: Sequence[Any], values: Floats, n: int, order: Floats | None = None
) -> list[tuple[Any, int, Any, float]]:
    """Row, rank, column and value of the n best of each row, by order; -inf does not compete."""
    take = np.argsort(-(values if order is None else order), axis=1, kind="stable")[:, :n]
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

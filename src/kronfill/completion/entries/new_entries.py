"""New rows and columns of a completed table: their values, how sure these are, entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kronfill._optional import needed
from kronfill._types import Floats, Index
from kronfill.completion.answers.newcomers import Newcomers, newcomers
from kronfill.completion.entries.details import (
    BLOCK_FLOATS,
    CHUNK,
    STATUS,
    EntryDetails,
    check_level,
    interval_names,
)
from kronfill.completion.entries.intervals import Intervals
from kronfill.completion.likelihood import level_names
from kronfill.completion.tables import with_labels
from kronfill.errors import ParameterError, argument

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["NewEntries"]

Both = tuple[Newcomers | None, Newcomers | None]


class NewEntries(EntryDetails):
    """Adds what can be said about rows and columns that are not in a completed table."""

    def extrapolate(self, rows: Any = None, cols: Any = None) -> DataFrame:
        """Predict rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : DataFrame or other, optional
            What is known about the new items, in the form in which it was given for the others:

            * features: a DataFrame with the same columns;
            * a similarity matrix, or a graph: the similarities with the known items, a DataFrame
              with a line for each new item and a column for each known one, matched by label (a
              matrix that was given as an array takes an array too, in the order of the table);
            * a kernel: as the kernel wants them;
            * nothing: labels of the new items, or their number.

            None stands for all the rows (columns) of the table.

        Returns
        -------
        DataFrame
            Labelled with the index of what was given.

        See Also
        --------
        extrapolate_std : How sure that is.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> names = ["ann", "bob", "cid"]
        >>> alike = pd.DataFrame([[1, 0.8, 0], [0.8, 1, 0], [0, 0, 1.0]], names, names)
        >>> table = pd.DataFrame({"x": [1.0, 1.2, 9.0], "y": [2.0, np.nan, 8.0]}, index=names)
        >>> done = kf.complete(table, rows=alike, method="kkmcex", mu=0.1)
        >>> new = pd.DataFrame({"bob": [0.1], "cid": [0.9], "ann": [0.0]}, index=["dan"])
        >>> done.extrapolate(rows=new).round(1)
               x    y
        dan  7.9  7.3
        """
        return self._extended(self.model.extrapolate, rows, cols)

    def extrapolate_std(self, rows: Any = None, cols: Any = None) -> DataFrame:
        """Standard deviation of the latent values of rows and columns that are not in the table.

        Parameters
        ----------
        rows, cols : DataFrame or other, optional
            As for :meth:`extrapolate`. Where items are known by similarities, those of the new
            items with themselves are needed: the DataFrame has a column for each new item too, or
            is the first of a pair, ``(similarities, diagonal)``. If all known items are equally
            similar to themselves, new ones are taken to be so too and neither is needed.

        Returns
        -------
        DataFrame
            Labelled with the index of what was given. Without the noise, of which the variance is
            ``done.model.noise_variance_``. KKMCEX, RRMCEX and BayesianKMC can tell it.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> table = pd.DataFrame({"x": [1.0, 1.2, 9.0], "y": [2.0, np.nan, 8.0]})
        >>> sizes = pd.DataFrame({"size": [1.0, 2.0, 9.0]})
        >>> done = kf.complete(table, rows=sizes, method="kkmcex", mu=0.1)
        >>> new = pd.DataFrame({"size": [2.0, 30.0]}, index=["near", "far"])
        >>> done.extrapolate_std(rows=new).round(1)
                x    y
        near  1.6  1.8
        far   5.3  5.4
        """
        if not hasattr(self.model, "extrapolate_std"):
            msg = (
                f"{type(self.model).__name__} has no standard deviation of its own: use "
                "method='kkmcex', 'rrmcex' or 'bayesiankmc', or "
                f"{argument('intervals', 'calibrated')} of details()."
            )
            raise ParameterError(msg)
        return self._extended(self.model.extrapolate_std, rows, cols)

    def iter_predictions(
        self,
        pairs: tuple[Index, Index] | None = None,
        *,
        rows: Any = None,
        cols: Any = None,
        level: float = 0.9,
        intervals: str = "auto",
        chunk: int = CHUNK,
        by: Any = None,
    ) -> Iterator[DataFrame]:
        """Go through entries of which some belong to new rows and columns.

        Parameters
        ----------
        pairs : pair of index arrays, optional
            The entries. New rows (columns) are numbered behind the known ones. By default all
            entries of the new rows and columns.
        rows, cols : DataFrame, optional
            What is known about the new rows and columns, as for :meth:`Completion.extrapolate`.
        level, intervals, chunk, by : object
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
        made = self.intervals_for(count, intervals, by)
        for first in range(0, max(len(at_r), 1), chunk):
            part = slice(first, first + chunk)
            yield self._mixed(at_r[part], at_c[part], new, level, made)

    def _newcomers(self, rows: Any, cols: Any) -> Both:
        """New rows and columns as the model wants them described."""
        obs = self.observations
        return (
            newcomers(self.model, 0, obs.row_labels or (), with_labels(rows)),
            newcomers(self.model, 1, obs.col_labels or (), with_labels(cols)),
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
            kind = made.kinds_outside(at_r[at], at_c[at], (cold_r, cold_c))
            told = interval_names(made, kind, ends[1])
            more = dict(zip(level_names(self.model), ends[4:], strict=True))
            parts.append(
                pd.DataFrame({**labels, **found, "std": ends[3], "interval": told, **more})
            )
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
        """Value, lower, upper, std and probabilities where the row, the column or both are new."""
        n, l = self.observations.shape
        levels = len(level_names(self.model))
        out = np.empty((4 + levels, len(at_r)))
        lead, size = (at_r - n, l) if cold[0] else (at_c - l, n)
        leading, other = new[0 if cold[0] else 1], new[1] if all(cold) else None
        assert leading is not None
        size = size if other is None else len(other)
        items, place = np.unique(lead, return_inverse=True)
        step = max(1, BLOCK_FLOATS // (size * (1 + levels)))
        for first in range(0, len(items), step):
            some = items[first : first + step]
            mine = np.flatnonzero((place >= first) & (place < first + step))
            described = leading.take(some)
            left, right = (described, None) if cold[0] else (None, described)
            right = right if other is None else other.given
            middle = self.model.extrapolate(left, right)
            block = np.stack([middle, *made.outside(left, right, middle, level)])
            if levels:
                model: Any = self.model
                shares = np.moveaxis(model.extrapolate_proba(left, right), -1, 0)
                block = np.concatenate([block, shares])
            i = place[mine] - first
            j = (at_c[mine] - l if all(cold) else at_c[mine]) if cold[0] else at_r[mine]
            out[:, mine] = block[:, i, j] if cold[0] else block[:, j, i]
        return out


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

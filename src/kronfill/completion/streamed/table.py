"""Labelled tables that are never in memory: completed where they are, described block by block."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from kronfill._optional import needed
from kronfill._types import Index
from kronfill.completion.entries.details import BLOCK_FLOATS, CHUNK, STATUS, best_lines
from kronfill.completion.entries.intervals import Intervals, NoIntervals
from kronfill.completion.entries.new_entries import NewEntries
from kronfill.completion.sides import kernel_of
from kronfill.completion.streamed.problem import StreamedProblem
from kronfill.data import Labels
from kronfill.errors import ParameterError, argument
from kronfill.estimators.base import check_rank
from kronfill.estimators.longtables import without_observations
from kronfill.streaming.columns import TableAxis
from kronfill.streaming.distributed import Distributed
from kronfill.streaming.pairs import ParquetPairs
from kronfill.streaming.storage.lookup import find_entries
from kronfill.streaming.storage.partitions import Partitions
from kronfill.streaming.storage.work_directory import WorkDirectory
from kronfill.streaming.system import outer_axis

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["StreamedCompletion", "complete_streamed"]


def complete_streamed(
    table: Any,
    rows: Any,
    cols: Any,
    method: str = "auto",
    *,
    mu: Any = "auto",
    center: Any = "mean",
    row: str | None = None,
    col: str | None = None,
    value: str | None = None,
    weight: str | None = None,
    kinds: Any = None,
    impute: str | None = None,
    solver: Any = "auto",
    resume: bool = True,
) -> StreamedCompletion:
    """Complete a long table that is never held in memory.

    :func:`kronfill.complete` does this for paths and data sets.

    Parameters
    ----------
    table : str, path or pyarrow.dataset.Dataset
        Parquet files with an entry in each line: a file, a folder, a pattern such as
        ``"big/*.parquet"``, a data set.
    rows, cols : DataFrame, networkx graph, Kernel or array-like
        What is known about each axis, as for :func:`kronfill.complete`; both are needed. Their
        items are the rows and columns of the result. The table names them by their labels, or, if
        these are not whole numbers themselves, by integer codes: positions from 0.
    method : {"auto", "kkmcex", "rrmcex"}, default="auto"
        The method; "auto" is "kkmcex", which can be streamed.
    mu : float or "auto", default="auto"
        Ridge weight; "auto" chooses it on a sample of 100,000 lines.
    center : {None, "mean"}, default="mean"
        Whether a mean is fitted without a penalty.
    row, col, value, weight : str, optional
        Columns of the table; the first three are row, column and value by default, and there are
        no weights.
    kinds, impute : object
        How features are read, see :func:`kronfill.complete`.
    solver : "auto", Streamed or Distributed, default="auto"
        Where the observations go: ``kf.Streamed(work_dir=, memory=)`` sorts them into a folder,
        ``kf.Distributed(client)`` sends them to a Dask cluster. "auto" takes a temporary folder.
    resume : bool, default=True
        Whether to go on with what the ``work_dir`` of the solver holds. An unfinished fit goes on
        with its own settings only.

    Returns
    -------
    StreamedCompletion

    See Also
    --------
    StreamedProblem : What is settled before the fit, and what the fit will take.

    Examples
    --------
    >>> import numpy as np, pandas as pd, tempfile
    >>> import kronfill as kf
    >>> folder = tempfile.mkdtemp()
    >>> i, j = np.nonzero(np.random.default_rng(0).random((30, 20)) < 0.5)
    >>> sold = np.sin(i / 9) + np.cos(j / 9)
    >>> pd.DataFrame({"town": i, "day": j, "sold": sold}).to_parquet(folder + "/big.parquet")
    >>> towns = pd.DataFrame({"x": np.arange(30.0)})
    >>> days = pd.DataFrame({"day": np.arange(20.0)})
    >>> with kf.complete(folder + "/*.parquet", rows=towns, cols=days, mu=0.01) as done:
    ...     done.predict([(0, 0), (29, 19)]).round(1)
    ...     list(done.details([(0, 0)]).columns)
    array([ 1. , -0.6])
    ['row', 'column', 'value', 'status']
    """
    problem = StreamedProblem.of(
        table, rows, cols, method, mu=mu, center=center, row=row, col=col, value=value,
        weight=weight, kinds=kinds, impute=impute,
    )  # fmt: skip
    return StreamedCompletion.of(problem, solver, resume=resume)


@dataclass(frozen=True, eq=False)
class _Items:
    """Labels and numbers of rows and columns, in place of observations."""

    axes: tuple[TableAxis, TableAxis]

    @property
    def shape(self) -> tuple[int, int]:
        return self.axes[0].size, self.axes[1].size

    @property
    def row_labels(self) -> Any:
        return _labels(self.axes[0])

    @property
    def col_labels(self) -> Any:
        return _labels(self.axes[1])

    def row_index(self, labels: Any) -> Index:
        return self._places[0].index(labels)

    def col_index(self, labels: Any) -> Index:
        return self._places[1].index(labels)

    @cached_property
    def _places(self) -> tuple[Labels, Labels]:
        row, col = (Labels(_labels(axis), axis=axis.name) for axis in self.axes)
        return row, col


def _labels(axis: TableAxis) -> Any:
    return range(axis.size) if axis.labels is None else axis.labels


class StreamedCompletion(NewEntries):
    """A completed table whose observations are not in memory.

    Entries are described without intervals; "status" tells observed entries from others where the
    sorted observations are at hand: after a fit on this machine, not on a cluster or of a model
    that was loaded. A temporary folder with them is removed by :meth:`close`, at the end of a
    ``with`` block, or with this object.

    Attributes
    ----------
    model : KKMCEX or RRMCEX
        The fitted method.

    Examples
    --------
    >>> import pandas as pd, tempfile, kronfill as kf
    >>> path = tempfile.mkdtemp() + "/big.parquet"
    >>> seen = {"user": ["ann", "bob", "ann"], "item": [0, 1, 2], "stars": [4.0, 3.0, 5.0]}
    >>> pd.DataFrame(seen).to_parquet(path)
    >>> users = pd.DataFrame({"age": [31.0, 28.0]}, index=["ann", "bob"])
    >>> items = pd.DataFrame({"size": [1.0, 2.0, 3.0]})
    >>> done = kf.complete(path, rows=users, cols=items, mu=0.2)
    >>> done
    Completion of 2 rows x 3 columns by KKMCEX (mu = 0.2)
      observed      3 entries
      filled        3 entries
      extrapolated  0 entries
      rows: 1 feature of 2 items: age (numbers); columns: 1 feature of 3 items: size (numbers)
    >>> done.best(1)[["row", "column"]].to_numpy().tolist()
    [['ann', 1], ['bob', 2]]
    """

    def __init__(
        self,
        model: Any,
        axes: tuple[TableAxis, TableAxis],
        known: tuple[str, str] | None = None,
        partitions: Partitions | None = None,
    ) -> None:
        self.model = model
        self.observations: Any = _Items(axes)
        self.partitions = partitions
        self._known = known
        self._remove: Callable[[], object] | None = None

    @classmethod
    def of(
        cls,
        problem: StreamedProblem,
        solver: Any = "auto",
        *,
        resume: bool = True,
        settings: Mapping[str, Any] | None = None,
    ) -> StreamedCompletion:
        """Fit the method of a problem and return the completed table.

        Parameters
        ----------
        problem : StreamedProblem
            The table, what is known, the method.
        solver, resume : object
            As for :func:`complete_streamed`.
        settings : mapping of str to object, optional
            What a work directory is to compare, by the names that messages use; by default
            ``problem.settings``.

        Returns
        -------
        StreamedCompletion
        """
        chosen = problem.solver(solver)
        kept = getattr(chosen, "work_dir", None)
        work = WorkDirectory(Path(tempfile.mkdtemp(prefix="kronfill-") if kept is None else kept))
        settings = problem.settings if settings is None else settings
        try:
            work.check(settings, resume)
            problem.plan(chosen).require(work)
            work.note(settings, done=False)
            model = problem.fit(chosen.in_folder(work.path))
            work.note(settings, done=True)
            parts = None
            if not isinstance(chosen, Distributed):
                parts = Partitions.open(work.partitions(outer_axis(problem.ranks)))
        except BaseException:
            if kept is None:
                shutil.rmtree(work.path, ignore_errors=True)
            raise
        made = cls(model, problem.axes, problem.known, parts)
        if kept is None:
            made._remove = weakref.finalize(made, shutil.rmtree, work.path, ignore_errors=True)
        return made

    @classmethod
    def from_model(cls, model: Any) -> StreamedCompletion:
        """Return the completed table of a fitted method that keeps no observations."""
        kernels = (kernel_of(model, axis) for axis in (0, 1))
        row, col = (
            TableAxis(name, size, None if kernel is None else kernel.labels)
            for name, size, kernel in zip(("row", "column"), model.shape_, kernels, strict=True)
        )
        return cls(model, (row, col))

    def close(self) -> None:
        """Remove the sorted observations, if they are in a temporary folder."""
        if self._remove is not None:
            self._remove()
        self.partitions = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @cached_property
    def _index(self) -> tuple[Any, Any]:
        pd = needed("pandas", "Details")
        row, col = (
            pd.RangeIndex(axis.size)
            if axis.labels is None
            else pd.Index(list(axis.labels), tupleize_cols=False)
            for axis in self.observations.axes
        )
        return row, col

    def iter_details(
        self,
        pairs: Any = None,
        *,
        level: float = 0.9,
        intervals: str | Intervals = "auto",
        chunk: int | None = None,
        by: Any = None,
    ) -> Iterator[DataFrame]:
        """Value and status of entries, block by block: no more than a block is in memory.

        Parameters
        ----------
        pairs : path, iterable of (row label, column label), or pair of index arrays, optional
            The entries; all by default, row by row. A Parquet file has a row and a column label in
            its first two columns.
        level, intervals : object
            There are no intervals: "auto" and "none" are the only kinds.
        chunk : int, optional
            Number of entries in a block; 500,000 by default.
        by : None
            There are no intervals to be calibrated within groups.

        Yields
        ------
        DataFrame
            Columns "row", "column", "value" and "status"; without the last where it is not known.
        """
        self._refuse(intervals if by is None else "calibrated")
        for rows, cols in self._blocks(pairs, CHUNK if chunk is None else chunk):
            yield self._shown(self._described(rows, cols, level, NoIntervals()))

    def _indices(self, pairs: Any) -> Any:
        if isinstance(pairs, str | os.PathLike):
            return ParquetPairs(pairs, self.observations.axes)
        return pairs if isinstance(pairs, ParquetPairs) else super()._indices(pairs)

    def _count(self, index: Any) -> int:
        return 0 if isinstance(index, ParquetPairs) else super()._count(index)  # no intervals

    def _blocks(self, pairs: Any, chunk: int) -> Iterator[tuple[Index, Index]]:
        pairs = self._indices(pairs)
        if isinstance(pairs, ParquetPairs):
            return pairs.blocks(chunk)
        return super()._blocks(pairs, chunk)

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
    ) -> Iterator[Any]:
        """See :class:`NewEntries`: without intervals."""
        self._refuse(intervals if by is None else "calibrated")
        blocks = super().iter_predictions(
            pairs, rows=rows, cols=cols, level=level, intervals="none", chunk=chunk
        )
        return (self._shown(block) for block in blocks)

    def intervals_for(self, count: int, method: str = "auto", by: Any = None) -> Intervals:
        """See :class:`EntryDetails`: there are none."""
        self._refuse(method if by is None else "calibrated")
        return NoIntervals()

    def measured_coverage(self, by: Any, level: float = 0.9) -> Any:
        """Refuse: single observations are not in memory."""
        self._refuse("calibrated")

    def intervals(self, pairs: Any = None, level: float = 0.9, method: str = "auto") -> Any:
        """Refuse: single observations are not in memory."""
        self._refuse("gaussian" if method in ("auto", "none") else method)

    def _refuse(self, intervals: str | Intervals) -> None:
        if not isinstance(intervals, NoIntervals) and intervals not in ("auto", "none"):
            msg = (
                f"The model has no intervals, for {without_observations(self.model)}: leave "
                f"{argument('intervals', intervals)} out."
            )
            raise ParameterError(msg)

    def _shown(self, block: Any) -> Any:
        names = ["row", "column", "value", *["status"] * (self.partitions is not None)]
        return block[names]

    def _described(self, at_r: Index, at_c: Index, level: float, intervals: Intervals) -> Any:
        pd = needed("pandas", "Details")
        value = self.model.predict(np.column_stack([at_r, at_c])) if len(at_r) else np.empty(0)
        status = np.ones(len(value), np.int8)
        if self.partitions is not None:
            seen, observed = find_entries(self.partitions, at_r, at_c)
            value[seen] = observed[seen]
            counts = self.partitions.counts
            cold = (counts[0][at_r] == 0) | (counts[1][at_c] == 0)
            status = np.where(seen, 0, np.where(cold, 2, 1)).astype(np.int8)
        index, columns = self._index
        found = {
            "row": index.take(at_r),
            "column": columns.take(at_c),
            "value": value,
            "status": pd.Categorical.from_codes(status, categories=pd.Index(STATUS)),
        }
        return pd.DataFrame(found | dict.fromkeys(("lower", "upper", "std"), np.nan))

    def best(self, n: int = 5, rows: Any = None, *, observed: bool = False) -> DataFrame:
        """Return the n columns with the highest predictions for each row.

        Parameters
        ----------
        n : int, default=5
            How many columns per row.
        rows : iterable of labels, optional
            Which rows; all by default.
        observed : bool, default=False
            Whether observed entries compete too, with their observed values. Where it is not known
            which are observed, all compete with their predictions.

        Returns
        -------
        DataFrame
            Columns "row", "rank", "column" and "value", best first.
        """
        pd = needed("pandas", "Best columns per row")
        check_rank(n, "n")
        items = self.observations
        rows = [rows] if isinstance(rows, str) else rows
        at = np.arange(items.shape[0]) if rows is None else items.row_index(list(rows))
        width = items.shape[1]
        lines: list[tuple[Any, ...]] = []
        step = max(1, BLOCK_FLOATS // width)
        for first in range(0, len(at), step):
            some = at[first : first + step]
            values = self.model.predict_matrix(rows=some)
            if self.partitions is not None:
                cols = np.tile(np.arange(width), len(some))
                seen, found = find_entries(self.partitions, np.repeat(some, width), cols)
                flat = values.reshape(-1)
                flat[seen] = found[seen] if observed else -np.inf
            labels = [items.row_labels[i] for i in some]
            lines += best_lines(labels, items.col_labels, values, n)
        return cast("DataFrame", pd.DataFrame(lines, columns=["row", "rank", "column", "value"]))

    def save(self, path: Any) -> None:
        """Write the model to a file, which :func:`kronfill.load` reads.

        Parameters
        ----------
        path : str or path
            The file, by custom with the ending ``.kf``.
        """
        self.model.save(path)

    def __repr__(self) -> str:
        n, l = self.observations.shape
        title = (
            f"{n:,} rows x {l:,} columns by {type(self.model).__name__} (mu = {self.model.mu_:.3g})"
        )
        if self._known is None:
            return f"{title}; {without_observations(self.model)}"
        lines = [f"Completion of {title}"]
        parts = self.partitions
        if parts is not None:
            warm = int((parts.counts[0] > 0).sum()) * int((parts.counts[1] > 0).sum())
            counts = {"observed": parts.m, "filled": warm - parts.m, "extrapolated": n * l - warm}
            lines += [f"  {name:<13} {count:,} entries" for name, count in counts.items()]
        return "\n".join([*lines, f"  rows: {self._known[0]}; columns: {self._known[1]}"])

"""Labelled tables in, labelled tables out."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from kronfill._optional import needed
from kronfill.completion.details import BLOCK_FLOATS, STATUS, EntryDetails, best_lines
from kronfill.completion.problem import METHODS, CompletionProblem, labelled
from kronfill.completion.streamed_table import StreamedCompletion, complete_streamed
from kronfill.data import Observations
from kronfill.data.amounts import count_of
from kronfill.errors import KronfillWarning, ParameterError, argument
from kronfill.estimators.base import MatrixRegressor, check_rank
from kronfill.estimators.gaussian_process import GaussianProcessRegressor
from kronfill.streaming.long_table import is_long_table

if TYPE_CHECKING:
    from pathlib import Path

    from pandas import DataFrame

__all__ = ["METHODS", "STATUS", "Completion", "complete"]

SHOWN = 8
"""Rows and columns of a completed table that a notebook shows."""


@overload
def complete(table: str | PathLike[str], *args: Any, **settings: Any) -> StreamedCompletion: ...


@overload
def complete(table: Any, *args: Any, **settings: Any) -> Completion: ...


def complete(
    table: Any,
    rows: Any = None,
    cols: Any = None,
    method: str = "kkmcex",
    *,
    mu: Any = "auto",
    rank: int = 10,
    center: Any = "mean",
    random_state: Any = 0,
    unmatched: str = "error",
    row: Any = None,
    col: Any = None,
    value: Any = None,
    solver: Any = "auto",
) -> Completion | StreamedCompletion:
    """Fill in the missing entries of a table from what is known about its rows and columns.

    What estimators leave to the user is chosen here: the ridge weight, a mean, and two parts that
    are added to kernels made from features, graphs and similarity matrices: a constant, so that
    what is known about an axis can tell the general level of its items, and an identity part, so
    that an item may differ from what its description says. An axis of which nothing is known has
    these two parts alone. A kernel object is taken as it is.

    Parameters
    ----------
    table : DataFrame, array-like or Observations
        Rows and columns with missing entries (NaN); index and columns (of an xarray the
        coordinates) are the labels. Or a long table, each line of which is an entry: say so with
        ``row``, ``col`` and ``value``. Or one that is not held in memory: Parquet files (a path, a
        folder, a pattern such as ``"big/*.parquet"``) or a pyarrow data set.
    rows, cols : DataFrame, networkx graph, Kernel, array-like or None
        What is known about each axis, matched by label: a table of features (numbers, categories,
        dates), a graph whose nodes are the labels, a kernel, a similarity matrix (as a DataFrame
        with equal index and columns, or an array in the order of the table), or nothing. Items
        that appear only here become rows (columns) of the result.
    method : {"kkmcex", "rrmcex", "kmc", "imc", "mc"}, default="kkmcex"
        The method. "imc" takes tables of features only, "mc" ignores what is known.
    mu : float or "auto", default="auto"
        Ridge weight; "auto" chooses it by leave-one-out or held-out entries.
    rank : int, default=10
        Latent factors of "kmc", "imc" and "mc".
    center : {None, "mean", "rows", "cols", "both"}, default="mean"
        Additive effects without a penalty. Row effects cannot be told for rows without an entry.
    random_state : int, Generator or None, default=0
        Seed of random starting points.
    unmatched : {"error", "keep", "drop"}, default="error"
        What to do with rows (columns) of the table that the side information lacks: "keep" takes
        them as known by their entries only, "drop" leaves them out.
    row, col, value : hashable, optional
        The columns of a long table that hold the row label, the column label and the value; all
        three or none. A table that could be either is refused unless they are given;
        ``Observations.from_matrix(table)`` says that it is wide.
    solver : "auto", Streamed or Distributed, default="auto"
        For a table that is not in memory, see :func:`kronfill.completion.complete_streamed`.

    Returns
    -------
    Completion
        A :class:`~kronfill.completion.StreamedCompletion` for a table that is not in memory.

    See Also
    --------
    KKMCEX : The default method, without these additions.

    Examples
    --------
    >>> import numpy as np, pandas as pd, kronfill as kf
    >>> table = pd.DataFrame(
    ...     {"mon": [10.0, 12.0, np.nan], "tue": [11.0, np.nan, np.nan]}, index=["a", "b", "c"]
    ... )
    >>> places = pd.DataFrame({"x": [0.0, 1.0, 1.1, 5.0]}, index=["a", "b", "c", "d"])
    >>> done = kf.complete(table, rows=places, mu=0.01)
    >>> done.filled.shape, int(done.filled.isna().sum().sum())
    ((4, 2), 0)
    >>> done.status.loc["d", "tue"]
    'extrapolated'

    A long table:

    >>> seen = pd.DataFrame({"user": [7, 7, 8], "film": [1, 2, 1], "stars": [5.0, 3.0, 4.0]})
    >>> kf.complete(seen, method="mc", rank=1, row="user", col="film", value="stars").filled.shape
    (2, 2)
    """
    if is_long_table(table):
        _refuse_unmatched(unmatched)
        return complete_streamed(
            table, rows, cols, method, mu=mu, center=center, row=row, col=col, value=value,
            solver=solver,
        )  # fmt: skip
    if solver != "auto":
        msg = (
            f"{argument('solver')} says how a table that is not in memory is fitted: give a path, "
            f"or leave it out; got {solver!r}."
        )
        raise ParameterError(msg)
    table = _entries(table, row, col, value)
    problem = CompletionProblem.of(
        table, rows, cols, method, mu=mu, rank=rank, center=center,
        random_state=random_state, unmatched=unmatched,
    )  # fmt: skip
    if problem.is_blind:
        message = (
            f"Nothing is known about rows or columns, so {problem.method!r} can only predict "
            "effects. Give rows= or cols=, or use method='mc'."
        )
        warnings.warn(message, KronfillWarning, stacklevel=2)
    return Completion.of(problem)


def _refuse_unmatched(unmatched: str) -> None:
    if unmatched != "error":
        msg = (
            f"{argument('unmatched', unmatched)} needs all labels beforehand: a table that is not "
            "in memory may only have rows and columns that the side information describes."
        )
        raise ParameterError(msg)


def _entries(table: Any, row: Any, col: Any, value: Any) -> Any:
    """The table as it is, or the entries of a long one."""
    named = {"row": row, "col": col, "value": value}
    if all(name is None for name in named.values()):
        return table
    missing = [f"{role}=" for role, name in named.items() if name is None]
    if missing:
        msg = (
            f"A long table needs the names of its three columns; {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing beside row=, col= or value=."
        )
        raise ParameterError(msg)
    return Observations.from_long(table, row, col, value)


class Completion(EntryDetails):
    """A completed table.

    Attributes
    ----------
    model : estimator
        The fitted method.
    observations : Observations
        What was observed, over all rows and columns of the result.

    Examples
    --------
    >>> import numpy as np, pandas as pd, kronfill as kf
    >>> table = pd.DataFrame([[1.0, 2.0], [2.0, np.nan]], index=["a", "b"], columns=["x", "y"])
    >>> done = kf.complete(table, method="mc", rank=1, mu=0.01, center=None)
    >>> done.predict([("b", "y")]).round(1)
    array([3.8])
    >>> done
    Completion of 2 rows x 2 columns by MC (mu = 0.01)
      observed      3 entries
      filled        1 entry
      extrapolated  0 entries
      rows: nothing known; columns: nothing known
    """

    def __init__(
        self,
        model: MatrixRegressor,
        observations: Observations,
        words: tuple[str, str],
        known: tuple[Any, Any] = (None, None),
    ) -> None:
        self.model = model
        self.observations = observations
        self._told = words
        self._known = known

    @property
    def side_information(self) -> tuple[str, str]:
        """What is known about rows and columns, in words."""
        return self._told

    @classmethod
    def of(cls, problem: CompletionProblem) -> Completion:
        """Fit the method of a problem and return the completed table."""
        model = problem.fit()
        words = (problem.row.words, problem.col.words)
        return cls(model, problem.observations, words, problem.known)

    @classmethod
    def from_model(cls, model: MatrixRegressor) -> Completion:
        """Return the completed table of a fitted method, by index where it has no labels."""
        obs = labelled(model.observations_)
        return cls(model, obs, ("as the method was given", "as the method was given"))

    @property
    def _index(self) -> tuple[Any, Any]:
        """Index and columns of the results: those of the table, and what came in addition."""
        labels = (self.observations.row_labels or (), self.observations.col_labels or ())
        index, columns = (_longer(own, part) for own, part in zip(self._known, labels, strict=True))
        return index, columns

    @property
    def filled(self) -> DataFrame:
        """The whole table: observed values as they were, the others predicted."""
        values = self.model.predict_matrix()
        obs = self.observations
        values[obs.rows, obs.cols] = obs.values
        return self._frame(values)

    def iter_filled(self, floats: int = BLOCK_FLOATS) -> Iterator[DataFrame]:
        """Go through :attr:`filled` in blocks of rows of up to ``floats`` entries together.

        Parameters
        ----------
        floats : int, default=4000000
            Most entries of a block; a block has one row at least.

        Yields
        ------
        DataFrame

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> done = kf.complete(np.eye(3), method="mc", rank=1, mu=1.0)
        >>> [block.shape for block in done.iter_filled(6)]
        [(2, 3), (1, 3)]
        """
        pd = needed("pandas", "Completed tables")
        n, l = self.observations.shape
        observed = self.observations.to_sparse()
        index, columns = self._index
        step = max(1, floats // l)
        for first in range(0, n, step):
            part = np.arange(first, min(first + step, n))
            values = self.model.predict_matrix(rows=part)
            known = observed[part].tocoo()
            values[known.row, known.col] = known.data
            yield pd.DataFrame(values, index=index[part], columns=columns)

    @property
    def predicted(self) -> DataFrame:
        """The prediction for every entry, observed ones included."""
        return self._frame(self.model.predict_matrix())

    @property
    def status(self) -> DataFrame:
        """For each entry "observed", "filled", or "extrapolated" in a row or column without any."""
        obs = self.observations
        status = np.full(obs.shape, "filled", dtype=object)
        status[obs.cold_rows] = "extrapolated"
        status[:, obs.cold_cols] = "extrapolated"
        status[obs.rows, obs.cols] = "observed"
        return self._frame(status)

    def _corner(self, size: int) -> DataFrame:
        """The first rows and columns of the filled table; no others are predicted for it."""
        obs = self.observations
        rows, cols = (np.arange(min(size, whole)) for whole in obs.shape)
        values = self.model.predict_matrix(rows, cols)
        there = (obs.rows < size) & (obs.cols < size)
        values[obs.rows[there], obs.cols[there]] = obs.values[there]
        return self._frame(values)

    def _frame(self, values: NDArray[Any]) -> DataFrame:
        """Values of the first rows and columns, or of all, with their labels."""
        pd = needed("pandas", "Completed tables")
        index, columns = (own[:size] for own, size in zip(self._index, values.shape, strict=True))
        return cast("DataFrame", pd.DataFrame(values, index=index, columns=columns))

    def best(self, n: int = 5, rows: Any = None, *, observed: bool = False) -> DataFrame:
        """Return the n columns with the highest predictions for each row.

        Parameters
        ----------
        n : int, default=5
            How many columns per row.
        rows : iterable of labels, optional
            Which rows; all by default.
        observed : bool, default=False
            Whether observed entries compete too, with their observed values.

        Returns
        -------
        DataFrame
            Columns "row", "rank", "column" and "value", best first.
        """
        pd = needed("pandas", "Best columns per row")
        check_rank(n, "n")
        obs = self.observations
        rows = [rows] if isinstance(rows, str) else rows
        labels = list(obs.row_labels or ()) if rows is None else list(rows)
        at = obs.row_index(labels)
        values = self.model.predict_matrix(rows=at)
        known = obs.to_sparse()[at].tocoo()
        values[known.row, known.col] = known.data if observed else -np.inf
        lines = best_lines(labels, obs.col_labels or (), values, n)
        names = ["row", "rank", "column", "value"]
        return cast("DataFrame", pd.DataFrame(lines, columns=names))

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
        >>> done = kf.complete(table, rows=alike, mu=0.1)
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
            ``done.model.noise_variance_``. Of the methods KKMCEX and RRMCEX can tell it.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> table = pd.DataFrame({"x": [1.0, 1.2, 9.0], "y": [2.0, np.nan, 8.0]})
        >>> done = kf.complete(table, rows=pd.DataFrame({"size": [1.0, 2.0, 9.0]}), mu=0.1)
        >>> new = pd.DataFrame({"size": [2.0, 30.0]}, index=["near", "far"])
        >>> done.extrapolate_std(rows=new).round(1)
                x    y
        near  1.6  1.8
        far   5.3  5.4
        """
        if not isinstance(self.model, GaussianProcessRegressor):
            msg = (
                f"{type(self.model).__name__} has no standard deviation of its own: use "
                f"method='kkmcex' or 'rrmcex', or {argument('intervals', 'calibrated')} of "
                "details()."
            )
            raise ParameterError(msg)
        return self._extended(self.model.extrapolate_std, rows, cols)

    def certificate(self, value_range: tuple[float, float], **settings: Any) -> Any:
        """Bound the loss on the entries that were not observed.

        Parameters
        ----------
        value_range : tuple of float
            Range that all values are known to obey, whatever was observed.
        **settings : object
            As for :func:`kronfill.bounds.certificate`.

        Returns
        -------
        Certificate
        """
        from kronfill.bounds import certificate

        return certificate(self.model, value_range, **settings)

    def report(self, path: Any, **settings: Any) -> Path:
        """Write a page about this completion: one HTML file that needs nothing but a browser.

        Parameters
        ----------
        path : str or path
            The file, such as ``report.html``.
        **settings : object
            As for :func:`kronfill.report.write_report`: ``value_range`` for the certificate,
            ``evaluation``, ``seed``, ``progress``.

        Returns
        -------
        Path
            The file.

        Examples
        --------
        >>> import tempfile, numpy as np, pandas as pd, kronfill as kf
        >>> table = pd.DataFrame([[1.0, 2.0], [2.0, np.nan]], index=["a", "b"], columns=["x", "y"])
        >>> done = kf.complete(table, method="mc", rank=1, mu=0.01, center=None)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done.report(f"{folder}/report.html").name
        'report.html'
        """
        from kronfill.report import write_report

        return write_report(self, path, **settings)

    def save(self, path: Any) -> None:
        """Write the completion, its model and labels included, to a file.

        Parameters
        ----------
        path : str or path
            The file, by custom with the ending ``.kf``; :func:`kronfill.load` reads it. One that is
            there is replaced, in one step, once the new one is complete.

        Examples
        --------
        >>> import tempfile, pathlib, pandas as pd, kronfill as kf
        >>> table = pd.DataFrame([[1.0, 2.0], [2.0, None]], index=["a", "b"], columns=["x", "y"])
        >>> done = kf.complete(table, method="mc", rank=1, mu=0.01, center=None)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done.save(pathlib.Path(folder) / "model.kf")
        ...     kf.load(pathlib.Path(folder) / "model.kf").predict([("b", "y")]).round(1)
        array([3.8])
        """
        from kronfill.io import save

        save(self, path)

    def _summary(self) -> tuple[str, list[tuple[str, int]], str]:
        obs = self.observations
        n, l = obs.shape
        warm = (n - len(obs.cold_rows)) * (l - len(obs.cold_cols))
        counts = [("observed", obs.m), ("filled", warm - obs.m), ("extrapolated", n * l - warm)]
        title = (
            f"Completion of {count_of(n, 'row')} x {count_of(l, 'column')} by "
            f"{type(self.model).__name__} (mu = {self.model.mu_:.3g})"
        )
        return title, counts, f"rows: {self._told[0]}; columns: {self._told[1]}"

    def __repr__(self) -> str:
        title, counts, words = self._summary()
        lines = [f"  {name:<13} {count_of(k, 'entry', 'entries')}" for name, k in counts]
        return "\n".join([title, *lines, f"  {words}"])

    def _repr_html_(self) -> str:
        title, counts, words = self._summary()
        cells = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td>{k:,}</td></tr>" for name, k in counts
        )
        corner = self._corner(SHOWN)
        if hasattr(corner.columns, "strftime"):
            corner = corner.set_axis(corner.columns.strftime("%Y-%m-%d"), axis=1)
        head = corner.to_html(float_format=lambda v: f"{v:.4g}")
        return (
            f"<div><p><b>{escape(title)}</b><br>{escape(words)}</p>"
            f"<table>{cells}</table><p>First rows and columns, filled:</p>{head}</div>"
        )


def _longer(own: Any, labels: tuple[Any, ...]) -> Any:
    """The index of the table, kept as it is, with further labels behind."""
    pd = needed("pandas", "Completed tables")
    if not isinstance(own, pd.Index):
        return pd.Index(list(labels), tupleize_cols=False)
    more = list(labels[len(own) :])
    if not more:
        return own
    if isinstance(own, pd.MultiIndex):
        return own.append(pd.MultiIndex.from_tuples(more, names=own.names))
    return own.append(pd.Index(more, tupleize_cols=False)).rename(own.name)

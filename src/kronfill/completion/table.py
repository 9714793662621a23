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
from kronfill._progress import as_progress, told_to
from kronfill.completion import certified
from kronfill.completion.answers.plots import Plots
from kronfill.completion.answers.questions import Questions
from kronfill.completion.certified import certify_new_items, check_certify
from kronfill.completion.effort import Effort
from kronfill.completion.entries.details import BLOCK_FLOATS, STATUS, best_lines
from kronfill.completion.likelihood import MEANINGS, likelihood_of, method_words
from kronfill.completion.problem import METHODS, CompletionProblem, labelled
from kronfill.completion.sides import NOTHING
from kronfill.completion.streamed.table import StreamedCompletion, complete_streamed
from kronfill.completion.tables import as_entries, with_coordinates, with_labels
from kronfill.completion.values import as_range, value_words
from kronfill.data import Observations
from kronfill.data.amounts import count_of
from kronfill.errors import KronfillWarning, ParameterError, argument
from kronfill.estimators.base import MatrixRegressor, check_rank, fitted_kernels
from kronfill.estimators.transformed.regressor import TransformedRegressor
from kronfill.streaming.long_table import is_long_table

if TYPE_CHECKING:
    from pathlib import Path

    from pandas import DataFrame

    from kronfill.auto.plan import Plan
    from kronfill.bounds import Certificate
    from kronfill.bounds.new_rows import NewItemsCertificate
    from kronfill.completion.judging.comparison import Comparison
    from kronfill.completion.judging.evaluation import Evaluation

__all__ = ["METHODS", "STATUS", "Completion", "complete"]

INTERNAL = ("intervals_for", "locate", "measured_coverage", "of")
"""What a completed table has for other modules."""
OTHERWISE = "kinds={column: kind} or --as COLUMN=KIND reads a column otherwise"
"""What is said where columns of features were taken for something."""
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
    method: str = "auto",
    *,
    mu: Any = "auto",
    rank: Any = "auto",
    center: Any = "auto",
    random_state: Any = 0,
    unmatched: str = "error",
    kinds: Any = None,
    impute: str | None = None,
    likelihood: str = "gaussian",
    negatives: str | None = None,
    row: Any = None,
    col: Any = None,
    value: Any = None,
    solver: Any = "auto",
    value_range: tuple[float, float] | None = None,
    certify: float | None = None,
    certify_new: str | None = None,
    transform: str | None = "auto",
    round: bool = False,
    budget: float | None = None,
    plan: Plan | None = None,
    on_interrupt: str = "raise",
    progress: Any = False,
) -> Completion | StreamedCompletion:
    """Fill in the missing entries of a table from what is known about its rows and columns.

    By default everything is chosen, see :class:`AutoMC`. The other methods take the ridge weight,
    a rank and effects, or choose them too. Two parts are added to kernels made from features,
    graphs and similarity matrices: a constant, so that what is known about an axis can tell the
    general level of its items, and an identity part, so that an item may differ from what its
    description says. An axis of which nothing is known has these two parts alone. A kernel object
    is taken as it is, but by the default, which has its own constant and identity.

    Parameters
    ----------
    table : DataFrame, array-like or Observations
        Rows and columns with missing entries (NaN); index and columns are the labels (of an xarray
        the coordinates, further ones being features; of polars the first column, if it is text).
        Or a long table, each line of which is an entry: say so with ``row``, ``col`` and ``value``,
        unless its names tell (user, item, rating). Or one that is not held in memory: Parquet files
        (a path, a folder, a pattern such as ``"big/*.parquet"``) or a pyarrow data set.
    rows, cols : DataFrame, networkx graph, Kernel, array-like, list or dict of these, or None
        What is known about each axis, matched by label: a table of features (numbers, categories,
        dates, text, lists of labels, molecules, sequences), a graph whose nodes are the labels, a
        kernel, a similarity matrix (as a DataFrame with equal index and columns, or an array in
        the order of the table), several of these (a list, or a dict that names them), or nothing.
        Items that appear only here become rows (columns) of the result. Labels that are dates
        tell something in any case.
    method : {"auto", "kkmcex", "rrmcex", "kmc", "imc", "mc", "bayesiankmc"}, default="auto"
        The method. "auto" mixes kernels and low rank and chooses everything, see
        :class:`AutoMC`; a table that is not in memory is completed by "kkmcex". "imc" takes tables
        of features only, "mc" ignores what is known, "bayesiankmc" learns noise, effects and the
        number of factors, whatever ``rank`` and ``center`` are.
    mu : float or "auto", default="auto"
        Ridge weight of a ``method`` that takes one; "auto" chooses it by leave-one-out or held-out
        entries.
    rank : int or "auto", default="auto"
        Latent factors of "kmc", "imc" and "mc"; "auto" are 10.
    center : {"auto", None, "mean", "rows", "cols", "both"}, default="auto"
        Additive effects without a penalty, of a ``method`` that takes them; "auto" is the mean. Row
        effects cannot be told for rows without an entry.
    random_state : int, Generator or None, default=0
        Seed of random starting points.
    unmatched : {"error", "keep", "drop"}, default="error"
        What to do with rows (columns) of the table that the side information lacks: "keep" takes
        them as known by their entries only, "drop" leaves them out.
    kinds : mapping of column to str, optional
        What columns of features hold, where they would be taken for something else: "number",
        "bool", "category", "code", "date", "labels" (several per item: ``"Action|Comedy"``),
        "text", "smiles", "protein", "nucleotide" or "ignore".
    impute : {None, "mean", "error"}, default=None
        What to do with missing numbers and categories: do without them, take the mean as if it
        were known, or refuse.
    likelihood : {"gaussian", "bernoulli", "poisson", "ordinal", "auto"}, default="gaussian"
        What values are: numbers, yes or no (0 and 1), counts, or ordered levels such as stars.
        Predictions are expected values in any case: probabilities of 1, expected counts, expected
        ratings; :meth:`Completion.details` has intervals of possible values and the probability of
        each level. "auto" takes 0 and 1 for yes or no and small whole numbers from 0 on for counts,
        and says so in what is printed; ratings from 1 to 5 stay numbers. See :doc:`/likelihoods`.
    negatives : {None, "sample"}, default=None
        "sample" where ones alone are recorded: as many zeros are drawn among the other entries.
    row, col, value : hashable, optional
        The columns of a long table that hold the row label, the column label and the value; all
        three or none, where names such as userId, movieId and rating tell. A table that could be
        either is refused unless they are given;
        ``Observations.from_matrix(table)`` says that it is wide.
    solver : "auto", Streamed or Distributed, default="auto"
        For a table that is not in memory, see :func:`kronfill.completion.complete_streamed`.
    value_range : tuple of float, optional
        Range (low, high) that all values, observed or not, are known to obey, such as (1, 5).
        Predictions and intervals are kept inside: by clipping, or by a fit to log odds within the
        range where that predicts hidden entries better. It is the range of certificates, too.
    certify : float, optional
        Share of the observed entries, such as 0.1, that is set aside at random before anything is
        chosen, to bound the loss on the entries that were not observed. Then the method is fitted
        anew to all entries; the certificate, ``done.certified``, speaks of the first fit.
    certify_new : {"rows", "cols"}, optional
        Set that share of the rows (columns) aside as well, whole, for another certificate,
        ``done.certified_new``: it bounds the loss on rows without any observation.
    transform : {"auto", "log", "sqrt", "ranks", None}, default="auto"
        A scale on which values are fitted; predictions are in their own units in any case, and
        without bias. "auto" is for ``method="auto"``: where values are positive and skewed (counts,
        prices, concentrations) a logarithm, a square root and the normal score of their rank are
        tried, and what has the least error on hidden entries, in the units of the values, is
        taken. None takes values as they are, as "auto" does beside ``certify``.
    round : bool, default=False
        Whether predictions are whole numbers. Columns are ranked by what was rounded.
    budget : float, optional
        Seconds that the default may take, about: its plan is cut down until it takes no more,
        before anything is done. Too little is refused. There is no limit by default.
    plan : Plan, optional
        How much the default is to do, as ``done.model.plan_`` of another table; with the same
        ``random_state`` the same result.
    on_interrupt : {"raise", "keep"}, default="raise"
        What Ctrl-C does while the default chooses: "keep" goes on with the best model so far, if
        there is one.
    progress : bool or callable, default=False
        Say on the standard error stream how far it is, with the time that is left where it can be
        told; or call this with what is being done, how much of it is done, and of how much.

    Returns
    -------
    Completion
        A :class:`~kronfill.completion.StreamedCompletion` for a table that is not in memory.

    See Also
    --------
    AutoMC : The default method, for kernels.
    KKMCEX : Kronecker kernel ridge regression, without these additions.

    Examples
    --------
    >>> import numpy as np, pandas as pd, kronfill as kf
    >>> table = pd.DataFrame(
    ...     {"mon": [10.0, 12.0, np.nan], "tue": [11.0, np.nan, np.nan]}, index=["a", "b", "c"]
    ... )
    >>> places = pd.DataFrame({"x": [0.0, 1.0, 1.1, 5.0]}, index=["a", "b", "c", "d"])
    >>> done = kf.complete(table, rows=places)
    >>> done.filled.shape, int(done.filled.isna().sum().sum())
    ((4, 2), 0)
    >>> done.status.loc["d", "tue"]
    'extrapolated'

    A long table:

    >>> seen = pd.DataFrame({"user": [7, 7, 8], "film": [1, 2, 1], "stars": [5.0, 3.0, 4.0]})
    >>> kf.complete(seen, method="mc", rank=1, row="user", col="film", value="stars").filled.shape
    (2, 2)
    """
    check_certify(value_range, certify, certify_new)
    if certify is not None:
        certified.check_as_they_are(transform, round)
    value_range = as_range(value_range)
    if is_long_table(table):
        _refuse_values(value_range, transform, round)
        _refuse_unmatched(unmatched)
        _refuse_certify(certify)
        _refuse_likelihood(likelihood)
        Effort(budget, plan, on_interrupt).refuse_streamed()
        return complete_streamed(
            table, rows, cols, method, mu=mu, center=center, row=row, col=col, value=value,
            kinds=kinds, impute=impute, solver=solver,
        )  # fmt: skip
    if solver != "auto":
        msg = (
            f"{argument('solver')} says how a table that is not in memory is fitted: give a path, "
            f"or leave it out; got {solver!r}."
        )
        raise ParameterError(msg)
    table, rows, cols = with_coordinates(table, with_labels(rows), with_labels(cols))
    table = as_entries(table, row, col, value)
    problem = CompletionProblem.of(
        table, rows, cols, method, mu=mu, rank=rank, center=center,
        random_state=random_state, unmatched=unmatched, kinds=kinds, impute=impute,
        likelihood=likelihood, negatives=negatives,
        transform=None if certify is not None and transform == "auto" else transform,
        value_range=value_range, rounded=round, effort=Effort(budget, plan, on_interrupt),
    )  # fmt: skip
    if problem.is_blind:
        message = (
            f"Nothing is known about rows or columns, so {problem.method!r} can only predict "
            "effects. Give rows= or cols=, or use method='mc'."
        )
        warnings.warn(message, KronfillWarning, stacklevel=2)
    with told_to(as_progress(progress, "Completing")):
        return Completion.of(problem, value_range, certify, random_state, certify_new)


def _refuse_certify(certify: float | None) -> None:
    if certify is not None:
        msg = (
            f"{argument('certify')} needs a table that is in memory. Read a part of it into a data "
            "frame and complete that."
        )
        raise ParameterError(msg)


def _refuse_likelihood(likelihood: str) -> None:
    if likelihood != "gaussian":
        msg = (
            f"{argument('likelihood', likelihood)} needs a table that is in memory. Read a part of "
            "it into a data frame and complete that, or take the values as numbers."
        )
        raise ParameterError(msg)


def _refuse_values(value_range: Any, transform: Any, rounded: Any) -> None:
    if value_range is not None or transform not in ("auto", None) or rounded:
        msg = (
            f"{argument('value_range')}, {argument('transform')} and {argument('round')} need a "
            "table that is in memory. Leave them out, and change predictions where they are used."
        )
        raise ParameterError(msg)


def _refuse_unmatched(unmatched: str) -> None:
    if unmatched != "error":
        msg = (
            f"{argument('unmatched', unmatched)} needs all labels beforehand: a table that is not "
            "in memory may only have rows and columns that the side information describes."
        )
        raise ParameterError(msg)


class Completion(Plots, Questions):
    """A completed table.

    Attributes
    ----------
    model : estimator
        The fitted method.
    observations : Observations
        What was observed, over all rows and columns of the result.
    certified : Certificate or None
        What was proved about the method on entries set aside, if that was asked for.
    certified_new : NewItemsCertificate or None
        The same on whole rows or columns set aside.

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

    certified: Certificate | None = None
    certified_new: NewItemsCertificate | None = None
    _parts: DataFrame | None = None

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
    def likelihood(self) -> str:
        """What values are: "gaussian", "bernoulli", "poisson" or "ordinal"."""
        return likelihood_of(self.model)

    @property
    def side_information(self) -> tuple[str, str]:
        """What is known about rows and columns, in words."""
        return self._told

    @classmethod
    def of(
        cls,
        problem: CompletionProblem,
        value_range: tuple[float, float] | None = None,
        certify: float | None = None,
        seed: Any = 0,
        certify_new: str | None = None,
    ) -> Completion:
        """Fit the method of a problem, certified before if asked for; the completed table."""
        found = new = None
        if value_range is not None and certify is not None:
            found = certified.certify(problem, value_range, certify, seed)
            if certify_new is not None:
                new = certify_new_items(problem, value_range, certify, certify_new, seed)
        model = problem.fit()
        words = (problem.row.words, problem.col.words)
        done = cls(model, problem.observations, words, problem.known)
        if all(kernel is None for kernel in fitted_kernels(model)):
            row, col = (
                None if axis.words == NOTHING else axis.kernel
                for axis in (problem.row, problem.col)
            )
            done._side_kernels = (row, col)
        if found is not None:
            done.certified = found
        if new is not None:
            done.certified_new = new
        return done

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
        """The whole table: observed values as they were, the others predicted.

        Predictions are expected values: of yes or no the probability of 1.
        """
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
        order = values
        if isinstance(self.model, TransformedRegressor):
            order = self.model.ranking_matrix(at)
        known = obs.to_sparse()[at].tocoo()
        values[known.row, known.col] = known.data if observed else -np.inf
        if order is not values:
            seen = self.model.scale_.forward(known.data) if observed else -np.inf
            order[known.row, known.col] = seen
        lines = best_lines(labels, obs.col_labels or (), values, n, order)
        names = ["row", "rank", "column", "value"]
        return cast("DataFrame", pd.DataFrame(lines, columns=names))

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

        See Also
        --------
        complete : With ``certify`` a part is set aside, which proves far more.
        """
        from kronfill.bounds import certificate

        return certificate(self._certifiable(), value_range, **settings)

    def _certifiable(self) -> MatrixRegressor:
        """The method of which bounds speak: what is only clipped errs no more than before."""
        model = self.model
        if not isinstance(model, TransformedRegressor):
            return model
        if model.scale_.kind != "none" or model.rounded:
            raise certified.other_scale(value_words(model))
        inner: MatrixRegressor = model.estimator_
        return inner

    def evaluate(
        self, *, folds: int = 5, seed: int = 0, progress: Any = False
    ) -> Comparison | Evaluation:
        """Compare the method with others on entries, rows and columns that are hidden from all.

        Effects, MC, KMC, KKMCEX and the default are asked four questions: missing entries of known
        rows and columns, new rows, new columns, both new. Everything that a method chooses it
        chooses without what is hidden.

        Parameters
        ----------
        folds : int, default=5
            Number of folds, up to 3,000 observations; beyond, a tenth of the rows, of the columns
            and of the other entries is hidden once.
        seed : int, default=0
            Seed of what is hidden.
        progress : bool or callable, default=False
            True says on the standard error stream how far it is, with the time left; a function is
            called with what is being done and the share that is done.

        Returns
        -------
        Comparison or Evaluation
            ``scores``, a DataFrame with standard errors, and a ``recommendation``. Of yes or no,
            counts and ordered levels, for which other methods are not asked, the hidden entries of
            each kind, whose ``scores()`` have the deviance; of yes or no ``ranking`` has recall,
            NDCG and AUC. See :func:`kronfill.report.evaluate`.

        Examples
        --------
        >>> import numpy as np, kronfill as kf
        >>> table = np.add.outer(np.arange(8.0), np.arange(6.0)) + np.eye(8, 6)
        >>> found = kf.complete(table, method="mc", rank=1, mu=1.0).evaluate(folds=2)
        >>> sorted(found.scores["method"].unique())
        ['KKMCEX', 'KMC', 'MC', 'auto', 'effects']
        """
        if self.likelihood != "gaussian":
            from kronfill.completion.judging.evaluation import evaluate

            return evaluate(self, seed=seed, progress=progress)
        from kronfill.completion.judging.comparison import compare

        return compare(self, folds=folds, seed=seed, progress=progress)

    @property
    def parts(self) -> DataFrame:
        """What each source is worth to the default method; computed when it is first asked for.

        A line for each source of rows and of columns, for latent factors (what the entries say
        about each other), and for what an axis has beside them. "share" is the share of the
        predicted variance; "loss" is by how much the root mean square error on hidden entries of
        known rows and columns grows when the source is left out, "loss, new" the same for hidden
        rows (columns) of its axis, each with a standard error; "weight" is that in the kernel.

        Examples
        --------
        >>> import numpy as np, pandas as pd, kronfill as kf
        >>> x, rng = np.linspace(0, 1, 30), np.random.default_rng(0)
        >>> table = pd.DataFrame(np.sin(6 * x)[:, None] * rng.standard_normal(20))
        >>> known = pd.DataFrame({"x": x})
        >>> parts = kf.complete(table.mask(rng.random(table.shape) < 0.5), rows=known).parts
        >>> float(parts.loc[("rows", "features"), "loss, new"]) > 0.1
        True
        """
        if self._parts is None:
            from kronfill.completion.answers.parts import parts_frame

            self._parts = parts_frame(self.model)
        return self._parts

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
            f"{method_words(self.model)} (mu = {self.model.mu_:.3g})"
        )
        told = [f"rows: {self._told[0]}", f"columns: {self._told[1]}"]
        words, values = MEANINGS.get(self.likelihood), value_words(self.model)
        told += [words] if words is not None else []
        told += [f"values: {values}"] if values else []
        told += [OTHERWISE] if any(" (" in one for one in self._told) else []
        return title, counts, "; ".join(told)

    def __dir__(self) -> list[str]:
        """What there is to ask; what only other modules need is left out."""
        names = {*object.__dir__(self), "certified"}
        return sorted(name for name in names if name[0] != "_" and name not in INTERNAL)

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

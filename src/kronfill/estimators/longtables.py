"""Fits to tables that are not in memory, and predictions for them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kronfill._types import Floats
from kronfill.criteria.exact import best_mu
from kronfill.errors import EmptyDataError, ParameterError
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.fitted.bilinear import Basis, Bilinear
from kronfill.kernels.base import Kernel
from kronfill.online.running import SOLVER
from kronfill.ridge.effects import AdditiveEffects, EffectsDesign
from kronfill.ridge.problem import CoreResult, Mask, RidgeProblem, Sampled
from kronfill.ridge.trust import factored_size, vouched_by_size
from kronfill.solvers.auto import Auto, as_solver
from kronfill.solvers.half_steps import GivenFactor
from kronfill.solvers.iterative import Iterative
from kronfill.solvers.pcg import PCG
from kronfill.streaming.columns import Batch, Columns, TableAxis
from kronfill.streaming.distributed import Distributed, has_client
from kronfill.streaming.long_table import (
    LongTable,
    arrow_table,
    is_frame,
    is_long_table,
    long_table,
)
from kronfill.streaming.samples import sample_lines
from kronfill.streaming.streamed import Streamed, TableSolver
from kronfill.streaming.workers import one_at_a_time

__all__ = ["LongTables", "choice_memory", "without_observations"]

_OF_OBSERVATIONS = ("observations_", "dual_coef_")
"""What a fit sets only to observations in memory."""
SAMPLE = 100_000
"""Lines of a long table on which mu="auto" is chosen."""


class LongTables(MatrixRegressor):
    """A method that is fitted in the space of two factors, to observations in memory or not."""

    mu: Any
    center: Any
    solver: Any
    _kernels: tuple[Kernel | None, Kernel | None]

    @abstractmethod
    def _table_bases(self) -> tuple[Basis, Basis]:
        """What Phi is on each axis."""

    def _keep(self, bases: tuple[Basis, Basis], result: CoreResult) -> None:
        """Set the fitted attributes."""
        n, l = self.shape_
        effects = result.effects or AdditiveEffects(0.0, np.zeros(n), np.zeros(l))
        self.mean_, self.row_effects_, self.col_effects_ = effects.mean, effects.row, effects.col
        self.solution_ = result.solution
        self.n_iter_ = max(1, result.solution.iterations)
        self._model = Bilinear(*bases, result.core, result.effects, self.shape_)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to observed entries.

        Parameters
        ----------
        X : array-like of shape (m, 2), Observations, path, pyarrow data set or Dask DataFrame
            Row and column index of each observed entry, the observations themselves, or a long
            table of them: Parquet files (a path, a folder, a pattern such as ``"big/*.parquet"``, a
            ``pyarrow.dataset``) or a Dask DataFrame. A long table has a row, a column and a value
            on each line, in its first three columns; rows and columns are integer codes, or the
            labels of a kernel that was made from a table with an index. It is never held in memory
            as a whole: see :class:`~kronfill.solvers.Streamed` and
            :class:`~kronfill.solvers.Distributed`. ``mu="auto"`` chooses on a sample of 100,000
            lines.
        y : array-like of shape (m,), optional
            Observed values; left out when ``X`` is an :class:`~kronfill.Observations`. KKMCEX also
            takes several targets, shape (m, t), and solves for them together. For a long table the
            name of the column with the values.
        sample_weight : array-like of shape (m,), optional
            How much each entry counts. The objective is sum of w (y - f)^2 plus the penalty. For a
            long table the name of the column with the weights.

        Returns
        -------
        self
        """
        self.__dict__.pop("_from_table", None)
        if not is_long_table(X):
            return super().fit(X, y, sample_weight)
        sizes = self._axis_sizes()
        _check_center(self.center)
        solver = _table_solver(self.solver, X)
        axes = self._axes(sizes)
        table = long_table(X, y, sample_weight)
        self.__dict__.pop("_model", None)  # a fit that fails from here on leaves nothing half new
        for name in ("observations_", "dual_coef_"):
            self.__dict__.pop(name, None)
        self.shape_ = (axes[0].size, axes[1].size)
        self.n_features_in_ = 2
        bases = self._table_bases()
        phis = bases[0].known(None), bases[1].known(None)
        chosen = ""
        if self.mu == "auto":
            sample = _sample(table, axes, solver)
            self.mu_ = _mu_of(sample, phis, self.center)
            chosen = f"; mu chosen on {len(sample.values):,} lines"
        else:
            self.mu_ = float(self.mu)
        result = solver.solve_table(table, axes, phis, self.mu_, self.center)
        left_out = sum(basis.left_out for basis in bases)
        solution = vouched_by_size(result.solution, factored_size(*phis), self.mu_, left_out)
        told = replace(solution, reason=solution.reason + chosen)
        self._keep(bases, replace(result, solution=told))
        self._from_table = True
        self.solution_.warn()
        return self

    def predict(self, X: Any) -> Any:
        """Predict values at index pairs.

        Parameters
        ----------
        X : array-like of shape (t, 2), Observations or Dask DataFrame
            Row and column index of each entry asked for. A Dask DataFrame has them, or their
            labels, in its first two columns.

        Returns
        -------
        ndarray of shape (t,), or Dask Series
            A Dask DataFrame is predicted where its partitions are.
        """
        if not is_frame(X):
            return super().predict(X)
        check_is_fitted(self)
        from dask.delayed import delayed

        names = list(X.columns)[:2]
        columns = Columns.of([*names, ""])
        model = delayed(self._model)
        return X[names].map_partitions(
            _predicted, model, columns, self._axes(self.shape_), meta=("prediction", "f8")
        )

    def _axes(self, sizes: tuple[int | None, int | None]) -> tuple[TableAxis, TableAxis]:
        made = []
        for size, kernel, name in zip(sizes, self._kernels, ("row", "column"), strict=True):
            if size is None:
                msg = (
                    f"A long table needs a kernel for the {name}s: their number is not known "
                    "beforehand. kf.kernels.identity(n) says that nothing is known about n of them."
                )
                raise ParameterError(msg)
            made.append(TableAxis(name, size, None if kernel is None else kernel.labels))
        return made[0], made[1]

    def __getattr__(self, name: str) -> Any:
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        # A property that asks for observations ends here too.
        if name in _OF_OBSERVATIONS or hasattr(type(self), name):
            why = without_observations(self)
            msg += why and (
                f": {why}. Predictions need nothing else; for what asks for single observations "
                "fit a part of them as an Observations."
            )
        raise AttributeError(msg)


def without_observations(model: Any) -> str:
    """Why a fitted method has kept no observations; empty if it has, or was not fitted."""
    has = vars(model)
    if "_from_table" not in has:
        return ""
    if getattr(has.get("solution_"), "solver", None) == SOLVER:
        return (
            "its observations are not in memory any more, for partial_fit adds them to sums and "
            "lets them go"
        )
    return "it was fitted to a table that is not in memory"


def _check_center(center: Any) -> None:
    """Raise before a long table is read."""
    if center not in (None, "mean"):
        msg = (
            f'center must be None or "mean" for a table that is not in memory, got {center!r}. '
            "Take the effects of rows and columns off the values beforehand."
        )
        raise ParameterError(msg)


def _sample(table: LongTable, axes: tuple[TableAxis, TableAxis], solver: TableSolver) -> Batch:
    """The lines on which mu is chosen."""
    what = "row groups looked at to choose mu"
    sample = sample_lines(
        table, axes, SAMPLE, notice=lambda done, total: solver.notice(what, done, total)
    )
    if not len(sample.values):
        msg = "The table has no line with an observation."
        raise EmptyDataError(msg)
    return sample


def _mu_of(sample: Batch, phis: tuple[Floats, Floats], center: Any) -> float:
    """The mu that a fit of the sample in memory would choose: by leave-one-out or a hold-out.

    mu is the variance of the noise over that of the signal, however many observations there are.
    """
    (row_items, rows), (col_items, cols) = (
        np.unique(index, return_inverse=True) for index in (sample.rows, sample.cols)
    )
    shape = (len(row_items), len(col_items))
    design = None
    if center is not None:
        design = EffectsDesign(rows, cols, shape, center, sample.weights)
    sampled = Sampled(Mask(rows, cols, shape, sample.weights), sample.values, design)
    factors = GivenFactor(phis[0][row_items]), GivenFactor(phis[1][col_items])
    return best_mu(RidgeProblem(*factors, sampled, 1.0))


def choice_memory(shape: tuple[int, int], ranks: tuple[int, int]) -> tuple[int, int]:
    """Bytes that choosing mu takes at most beside the factors, and that are not given back, about.

    As copies of the factors at the items of the sample: four, and two.
    """
    sizes = (min(n, SAMPLE) * rank for n, rank in zip(shape, ranks, strict=True))
    copy = 8 * sum(sizes)
    return 4 * copy, 2 * copy


def _predicted(
    frame: Any, model: Bilinear, columns: Columns, axes: tuple[TableAxis, TableAxis]
) -> Any:
    """Predictions for the lines of a pandas frame."""
    import pandas as pd

    table = arrow_table(frame)
    where = "the pairs"
    rows, cols = (
        axis.codes(table.column(name).combine_chunks(), where, 0).astype(np.intp)
        for axis, name in zip(axes, (columns.row, columns.col), strict=True)
    )
    with one_at_a_time:
        return pd.Series(model.pairs(rows, cols), frame.index, name="prediction")


def _table_solver(solver: Any, X: Any) -> TableSolver:
    """The solver that was asked for, or the settings of a general one: on the cluster, if any."""
    chosen = as_solver(solver)
    if isinstance(chosen, TableSolver):
        return chosen
    if not isinstance(chosen, Auto | PCG):
        msg = (
            "A long table is fitted by kf.Streamed(...) or kf.Distributed(...); solver='auto' "
            f"takes one of them. Got {solver!r}."
        )
        raise ParameterError(msg)
    settings = {field.name: getattr(chosen, field.name) for field in fields(Iterative)}
    return Distributed(**settings) if is_frame(X) and has_client() else Streamed(**settings)

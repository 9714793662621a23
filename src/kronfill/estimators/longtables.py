"""Fits to tables that are not in memory, and predictions for them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kronfill._types import Floats
from kronfill.criteria.exact import best_mu
from kronfill.errors import EmptyDataError, ParameterError
from kronfill.estimators.fitted.bilinear import Basis, Bilinear
from kronfill.estimators.inputs import as_sampled
from kronfill.kernels.base import Kernel
from kronfill.online.running import SOLVER
from kronfill.ridge.problem import RidgeProblem
from kronfill.ridge.solution import Solution
from kronfill.ridge.trust import factored_size, vouched_by_size
from kronfill.solvers.auto import Auto, as_solver
from kronfill.solvers.half_steps import FactorKernel
from kronfill.solvers.iterative import Iterative
from kronfill.solvers.pcg import PCG
from kronfill.streaming.columns import Batch, Columns, TableAxis
from kronfill.streaming.distributed import Distributed, has_client
from kronfill.streaming.long_table import (
    LongTable,
    arrow_table,
    is_frame,
    long_table,
)
from kronfill.streaming.samples import SAMPLE, sample_lines
from kronfill.streaming.streamed import Streamed, TableSolver
from kronfill.streaming.workers import one_at_a_time

__all__ = [
    "fit_long_table", "open_table", "predict_frame", "table_axes", "without_observations",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class TableFit:
    """What a fit to a long table has found."""

    form: Bilinear
    mu: float
    solution: Solution


@dataclass(frozen=True, eq=False)
class OpenTable:
    """A long table that a method can be fitted to, and what reads it."""

    lines: LongTable
    axes: tuple[TableAxis, TableAxis]
    center: Any
    solver: TableSolver


def open_table(
    table: tuple[Any, Any, Any],
    kernels: tuple[Kernel | None, Kernel | None],
    center: Any,
    solver: Any,
) -> OpenTable:
    """Check what ``fit`` was given: the table, the names of its values and of its weights."""
    X, y, sample_weight = table
    if center not in (None, "mean"):
        msg = (
            f'center must be None or "mean" for a table that is not in memory, got {center!r}. '
            "Take the effects of rows and columns off the values beforehand."
        )
        raise ParameterError(msg)
    by = _table_solver(solver, X)
    axes = table_axes((None, None), kernels)
    return OpenTable(long_table(X, y, sample_weight), axes, center, by)


def fit_long_table(table: OpenTable, bases: tuple[Basis, Basis], mu: Any) -> TableFit:
    """Fit in the space of two factors to a table that is never held in memory as a whole."""
    phis = bases[0].known(None), bases[1].known(None)
    chosen = ""
    if mu == "auto":
        sample = _sample(table.lines, table.axes, table.solver)
        mu = _mu_of(sample, phis, table.center)
        chosen = f"; mu chosen on {len(sample.values):,} lines"
    mu = float(mu)
    result = table.solver.solve_table(table.lines, table.axes, phis, mu, table.center)
    left_out = sum(basis.left_out for basis in bases)
    solution = vouched_by_size(result.solution, factored_size(*phis), mu, left_out)
    solution = replace(solution, reason=solution.reason + chosen)
    shape = (table.axes[0].size, table.axes[1].size)
    return TableFit(Bilinear(*bases, result.core, result.effects, shape), mu, solution)


def predict_frame(X: Any, form: Any, axes: tuple[TableAxis, TableAxis]) -> Any:
    """Predictions for a Dask DataFrame, where its partitions are."""
    from dask.delayed import delayed

    names = list(X.columns)[:2]
    columns = Columns.of([*names, ""])
    return X[names].map_partitions(
        _predicted, delayed(form), columns, axes, meta=("prediction", "f8")
    )


def table_axes(
    sizes: tuple[int | None, int | None], kernels: tuple[Kernel | None, Kernel | None]
) -> tuple[TableAxis, TableAxis]:
    """Items and labels of both axes: those of the kernels, or else so many."""
    made = []
    for size, kernel, name in zip(sizes, kernels, ("row", "column"), strict=True):
        count = size if kernel is None else kernel.n
        if count is None:
            msg = (
                f"A long table needs a kernel for the {name}s: their number is not known "
                "beforehand. kf.kernels.identity(n) says that nothing is known about n of them."
            )
            raise ParameterError(msg)
        made.append(TableAxis(name, count, None if kernel is None else kernel.labels))
    return made[0], made[1]


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
    entries = as_sampled(rows, cols, sample.values, shape, sample.weights, center)
    factors = FactorKernel(phis[0][row_items]), FactorKernel(phis[1][col_items])
    return best_mu(RidgeProblem(*factors, entries, 1.0))


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

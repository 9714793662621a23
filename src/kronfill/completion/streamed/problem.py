"""A table that is not in memory and what is known about its axes: all that is settled before a fit.

Rows and columns are the items that the side information describes. Kernels are those of a table in
memory without the identity part, which has no place in a fit in the space of two factors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kronfill.auto.sources import THIN_RANK
from kronfill.completion.problem import LARGE, fitted_center
from kronfill.completion.sides import is_several, pieces_of, read_axis, side_labels
from kronfill.errors import ParameterError, argument
from kronfill.estimators import KKMCEX, RRMCEX
from kronfill.estimators.gaussian_process.regressor import GaussianProcessRegressor, table_factors
from kronfill.kernels.base import Kernel
from kronfill.streaming.columns import TableAxis
from kronfill.streaming.distributed import Distributed
from kronfill.streaming.long_table import LongTable, ParquetTable, is_frame
from kronfill.streaming.plan import StreamingPlan
from kronfill.streaming.storage.checkpoint import digest
from kronfill.streaming.storage.work_directory import TABLE
from kronfill.streaming.streamed import Streamed, TableSolver

__all__ = ["METHODS", "StreamedProblem"]

METHODS = {"kkmcex": KKMCEX, "rrmcex": RRMCEX}
FINE, USUAL = 1e-8, 1e-6
"""Relative residual at which the solve stops, up to LARGE observations and beyond.

The rounding errors of a sum over very many observations do not allow much less."""


@dataclass(frozen=True, eq=False)
class StreamedProblem:
    """A long table, its rows and columns, and the method that is fitted to it.

    Attributes
    ----------
    table : ParquetTable
        The observations.
    axes : pair of TableAxis
        The rows and columns: the items that the side information describes.
    kernels : pair of Kernel
        How alike they are.
    known : pair of str
        What is known about them, in words.
    method, mu, center : object
        As for :func:`complete_streamed`.

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> from kronfill.completion import StreamedProblem
    >>> path = tempfile.mkdtemp() + "/big.parquet"
    >>> seen = {"user": ["ann", "bob", "ann"], "item": [0, 1, 2], "stars": [4.0, 3.0, 5.0]}
    >>> pd.DataFrame(seen).to_parquet(path)
    >>> users = pd.DataFrame({"age": [31.0, 28.0]}, index=["ann", "bob"])
    >>> items = pd.DataFrame({"size": [1.0, 2.0, 3.0]})
    >>> problem = StreamedProblem.of(path, users, items, mu=0.2)
    >>> problem.shape, problem.plan().disk_bytes
    ((2, 3), 72)
    """

    table: ParquetTable
    axes: tuple[TableAxis, TableAxis]
    kernels: tuple[Kernel, Kernel]
    known: tuple[str, str]
    method: str
    mu: Any
    center: Any

    @classmethod
    def of(
        cls,
        table: Any,
        rows: Any,
        cols: Any,
        method: str = "auto",
        *,
        mu: Any = "auto",
        center: Any = "auto",
        row: str | None = None,
        col: str | None = None,
        value: str | None = None,
        weight: str | None = None,
        kinds: Any = None,
        impute: str | None = None,
    ) -> StreamedProblem:
        """Read what the files say about themselves and build kernels; see above."""
        method = method.lower() if isinstance(method, str) else method
        method = "kkmcex" if method == "auto" else method  # what can be streamed
        center = "mean" if isinstance(center, str) and center == "auto" else center
        if method not in METHODS:
            msg = (
                f"A table that is not in memory is completed by {argument('method', 'kkmcex')} or "
                f"'rrmcex', got {method!r}."
            )
            raise ParameterError(msg)
        if is_frame(table):
            msg = (
                "A Dask DataFrame has no labels to match: fit it by KKMCEX(row_kernel, "
                "col_kernel).fit(frame), or complete the Parquet files that it was read from."
            )
            raise ParameterError(msg)
        if not isinstance(table, LongTable):
            table = ParquetTable(table, value, weight, row, col)
        rank_from = 2 * THIN_RANK if table.lines > LARGE else None
        axes = [
            _axis(side, name, table.kind(column), rank_from, kinds, impute)
            for side, name, column in (
                (rows, "row", table.columns.row), (cols, "column", table.columns.col),
            )
        ]  # fmt: skip
        (row_axis, row_kernel, row_known), (col_axis, col_kernel, col_known) = axes
        kernels, known = (row_kernel, col_kernel), (row_known, col_known)
        return cls(table, (row_axis, col_axis), kernels, known, method, mu, center)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.axes[0].size, self.axes[1].size

    @property
    def names(self) -> tuple[str, str, str]:
        """What rows, columns and values are called."""
        return self.table.columns.row, self.table.columns.col, self.table.columns.value

    def estimator(self) -> GaussianProcessRegressor:
        """Return the method, not fitted yet.

        As in memory, the constant parts of thin kernels carry the mean of very many observations.
        """
        center = self.center
        if self.method == "kkmcex":
            center = fitted_center(center, self.table.lines, self.kernels)
        made: GaussianProcessRegressor = METHODS[self.method](
            *self.kernels, mu=self.mu, center=center
        )
        return made

    @property
    def ranks(self) -> tuple[int, int]:
        """Columns of the two factors in which it will be fitted."""
        return self._factors[0]

    @property
    def settings(self) -> dict[str, Any]:
        """All that the answer depends on; a work directory keeps it."""
        row, col = self._factors[1]
        return {
            TABLE: self.table.fingerprint(), "rows": row, "cols": col, "method": self.method,
            "mu": str(self.mu), "center": self.center,
        }  # fmt: skip

    @cached_property
    def _factors(self) -> tuple[tuple[int, int], tuple[str, str]]:
        """Ranks and digests of the two factors."""
        row, col = table_factors(self.estimator(), self.shape)
        ranks = row.shape[1], col.shape[1]
        return ranks, (digest([row]).hex(), digest([col]).hex())

    def solver(self, chosen: Any = "auto") -> TableSolver:
        """Return the solver; "auto" streams from the disk, as exactly as it makes sense."""
        if isinstance(chosen, TableSolver):
            return chosen
        if chosen != "auto":
            msg = (
                f"{argument('solver')} must be kf.Streamed(...) or kf.Distributed(...) for a table "
                f"that is not in memory, or 'auto'; got {chosen!r}."
            )
            raise ParameterError(msg)
        return Streamed(tol=self.tol)

    @property
    def tol(self) -> float:
        """Relative residual at which the solve stops if nothing is said about it."""
        return FINE if self.table.lines <= LARGE else USUAL

    def plan(self, solver: Any = "auto", memory: Any = None) -> StreamingPlan:
        """Return what the fit will take; ``memory`` limits it where the solver does not."""
        chosen = self.solver(solver)
        return StreamingPlan(
            self.table.lines,
            self.shape,
            self.ranks,
            self.table.columns.weight is not None,
            self.mu == "auto",
            memory=chosen.memory if isinstance(chosen, Streamed) else memory,
            work_dir=getattr(chosen, "work_dir", None),
            scheduler=_address(chosen) if isinstance(chosen, Distributed) else None,
        )

    def fit(self, solver: TableSolver) -> GaussianProcessRegressor:
        """Fit the method; the solver belongs to this run, not to the model."""
        estimator = self.estimator().set_params(solver=solver).fit(self.table)
        fitted: GaussianProcessRegressor = estimator.set_params(solver="auto")
        return fitted


def _address(solver: Distributed) -> Any:
    return "the current client" if solver.client is None else solver.client


def _axis(
    side: Any, name: str, kind: str, rank_from: int | None, kinds: Any, impute: str | None
) -> tuple[TableAxis, Kernel, str]:
    """Items, kernel and what is known.

    Where the table has whole numbers and the items other labels, the numbers are positions.
    """
    if side is None:
        option = "rows" if name == "row" else "cols"
        msg = (
            "A table that is streamed is fitted in the space of what is known about its rows and "
            f"its columns: give {argument(option, ...)} too."
        )
        raise ParameterError(msg)
    labels = side_labels(side)
    items = range(_count(side)) if labels is None else labels
    found = read_axis(side, items, len(items), name, 0.0, rank_from, kinds=kinds, impute=impute)
    assert found.kernel is not None
    numbered = kind == "integer" and not all(isinstance(label, int) for label in items)
    named = None if labels is None or numbered else tuple(found.labels)
    return TableAxis(name, len(items), named), found.kernel, found.words


def _count(side: Any) -> int:
    if is_several(side):
        return _count(next(iter(pieces_of(side).values())))
    return side.n if isinstance(side, Kernel) else len(side)

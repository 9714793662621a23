"""A long table and its side information, made into a method that can be fitted to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kronfill.cli.inputs import Sides, read_sides
from kronfill.cli.longfiles import TableArgument
from kronfill.cli.session import Session
from kronfill.completion.problem import LARGE, fitted_center
from kronfill.completion.sides import RANK, read_axis
from kronfill.data.reading.entry_files import Roles, are_numbers
from kronfill.data.reading.side_files import SideFile
from kronfill.errors import ParameterError
from kronfill.estimators import KKMCEX, RRMCEX
from kronfill.estimators.gaussian_process import GaussianProcessRegressor, table_ranks
from kronfill.kernels.base import Kernel
from kronfill.streaming.columns import TableAxis
from kronfill.streaming.long_table import ParquetTable

__all__ = ["LongProblem"]

WEIGHTS = ("weight", "weights")


@dataclass(frozen=True, eq=False)
class LongProblem:
    """What is settled before a long table is read.

    Attributes
    ----------
    table : ParquetTable
        The observations.
    axes : pair of TableAxis
        The rows and columns: the items of the side files.
    kernels : pair of Kernel
        How alike they are.
    told : pair of str
        What is known about them, in words.
    """

    table: ParquetTable
    axes: tuple[TableAxis, TableAxis]
    kernels: tuple[Kernel, Kernel]
    told: tuple[str, str]

    @classmethod
    def of(cls, session: Session, given: TableArgument, roles: Roles, sides: Sides) -> LongProblem:
        """Read the side files, and of the table what its files say about themselves."""
        table = _opened(given, roles)
        names = table.columns
        weight = "" if names.weight is None else f", weights from {names.weight!r}"
        session.note(
            f"{given.told}: long table of {table.lines:,} lines: rows from {names.row!r}, columns "
            f"from {names.col!r}, values from {names.value!r}{weight}. It is streamed, never held "
            "in memory."
        )
        read = read_sides(session, sides)
        many = 2 * RANK if table.lines > LARGE else None
        made = []
        for side, name, column, option in zip(
            read, ("row", "column"), (names.row, names.col), ("--rows", "--cols"), strict=True
        ):
            if side is None:
                msg = (
                    f"A table that is streamed is fitted in the space of what is known about its "
                    f"rows and its columns: give {option} FILE too."
                )
                raise ParameterError(msg)
            made.append(_axis(session, side, name, table.kind(column), many))
        (row, row_kernel, row_told), (col, col_kernel, col_told) = made
        session.fact(
            table={"path": given.told, "files": len(given.paths), "lines": table.lines},
            side_information={
                name: {"path": side.table.path, "kind": side.kind, "found": side.told}
                for name, side in zip(("rows", "columns"), read, strict=True)
                if side is not None
            },
        )
        return cls(table, (row, col), (row_kernel, col_kernel), (row_told, col_told))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.axes[0].size, self.axes[1].size

    @property
    def names(self) -> tuple[str, str, str]:
        """What rows, columns and values are called."""
        return self.table.columns.row, self.table.columns.col, self.table.columns.value

    @property
    def weighted(self) -> bool:
        """Whether lines have weights."""
        return self.table.columns.weight is not None

    def estimator(
        self, method: str, mu: float | str, center: str | None
    ) -> GaussianProcessRegressor:
        """Return the method, not fitted yet, with the same effects as in memory."""
        if method == "kkmcex":
            center = fitted_center(center, self.table.lines, self.kernels)
        settings = {"mu": mu, "center": center}
        if method == "rrmcex":
            return RRMCEX(*self.kernels, **settings)
        return KKMCEX(*self.kernels, **settings)

    def ranks(self, estimator: GaussianProcessRegressor) -> tuple[int, int]:
        """Columns of the two factors in which it will be fitted."""
        return table_ranks(estimator, self.shape)


def _opened(given: TableArgument, roles: Roles) -> ParquetTable:
    """The files as one table; a column called weight has weights, as in a table in memory."""
    paths = [str(path.absolute()) for path in given.paths]
    weight = roles.weight or _weights(paths[0], (roles.row, roles.col, roles.value))
    return ParquetTable(paths, roles.value, weight, roles.row, roles.col)


def _weights(path: str, taken: tuple[str | None, ...]) -> str | None:
    """The column that is called weight, if any."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = [str(name) for name in pq.read_schema(path).names]
    except (pa.ArrowException, OSError):
        return None  # ParquetTable says what is wrong
    free = (name for name in names if name not in taken)
    return next((name for name in free if name.lower() in WEIGHTS), None)


def _axis(
    session: Session, side: SideFile, name: str, kind: str, many: int | None
) -> tuple[TableAxis, Kernel, str]:
    """Items, kernel and what is known, from one side file.

    Labels are numbers where the table has numbers and the file nothing else. Where the table has
    whole numbers and the file other labels, the numbers are positions in the file.
    """
    numbers = kind in ("integer", "number") and are_numbers(side.labels)
    labels: list[Any] = [int(label) for label in side.labels] if numbers else side.labels
    found = read_axis(side.build(numbers), labels, len(labels), name, 0.0, many)
    assert found.kernel is not None
    coded = kind == "integer" and not numbers
    if coded:
        session.note(
            f"The table names its {name}s by integer codes: 0 is {labels[0]!r}, the first of "
            f"{side.table.path}."
        )
    axis = TableAxis(name, len(labels), None if coded else tuple(found.labels))
    return axis, found.kernel, found.told

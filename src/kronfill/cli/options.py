"""The options that commands share, with what ``--help`` says about them.

A group of options is a dataclass; :func:`~kronfill.cli.helps.grouped` makes its fields options of a
command that has such a parameter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from kronfill.cli.session import Session
from kronfill.data.reading.entry_files import Roles
from kronfill.errors import ParameterError

__all__ = [
    "LARGEST_SEED", "ColColumn", "ColsIndex", "Debug", "Impute", "ImputeOption",
    "IntervalOptions", "MessageOptions", "MethodOptions", "ModelFile", "RowColumn", "RowsIndex",
    "Seed", "Sheet", "SideOptions", "StreamingOptions", "TableFile", "TableFiles", "TableOptions",
]  # fmt: skip

TABLE, SIDES, MODEL, OTHER = "The table", "Side information", "The model", "Messages"
LARGE = "More than memory: Parquet files that are streamed"


Layout = Literal["wide", "long"]
SideKind = Literal["features", "edges", "similarity"]
MethodName = Literal["kkmcex", "rrmcex", "kmc", "imc", "mc"]
Center = Literal["mean", "rows", "cols", "both", "none"]
Unmatched = Literal["error", "keep", "drop"]
Duplicates = Literal["error", "mean"]
Impute = Literal["error", "mean"]
IntervalKind = Literal["auto", "gaussian", "calibrated", "none"]


def _options_of(panel: str) -> Callable[..., object]:
    def option(*names: str, text: str, **more: Any) -> object:
        return typer.Option(*names, help=text, rich_help_panel=panel, **more)

    return option


_of_table, _of_sides, _of_model = map(_options_of, (TABLE, SIDES, MODEL))
_of_streaming, _of_messages = map(_options_of, (LARGE, OTHER))

_TABLE = (
    "The table: CSV, TSV, Parquet, Feather or Excel; wide (blank cells are the missing ones) or "
    "long (row, column, value)."
)
TableFile = Annotated[Path, typer.Argument(help=_TABLE, metavar="TABLE")]
TableFiles = Annotated[
    list[Path],
    typer.Argument(
        help=f"{_TABLE} Several Parquet files, a folder of them or a quoted pattern are one long "
        "table, which is streamed and never held in memory.",
        metavar="TABLE",
    ),
]
ModelFile = Annotated[
    Path, typer.Argument(help="A model written by 'kronfill complete --save'.", metavar="MODEL")
]
RowColumn = Annotated[
    str | None,
    _of_table(
        "--row-column",
        text="Long table: column of the row labels; the first by default.",
        metavar="COLUMN",
    ),
]
ColColumn = Annotated[
    str | None,
    _of_table(
        "--col-column",
        text="Long table: column of the column labels; the second by default.",
        metavar="COLUMN",
    ),
]
Sheet = Annotated[
    str | None,
    _of_table("--sheet", text="Sheet of an Excel table; the first by default.", metavar="NAME"),
]
RowsIndex = Annotated[
    str | None,
    _of_sides(
        "--rows-index",
        text="Column of the labels in the file about rows; the first by default.",
        metavar="COLUMN",
    ),
]
ColsIndex = Annotated[
    str | None,
    _of_sides(
        "--cols-index",
        text="Column of the labels in the file about columns; the first by default.",
        metavar="COLUMN",
    ),
]
ImputeOption = Annotated[
    Impute,
    _of_sides(
        "--impute", text="Missing features: refuse, or take the mean (the most frequent category)."
    ),
]
LARGEST_SEED = 2**32 - 1
Seed = Annotated[
    int,
    _of_model("--seed", text="Root of all random numbers.", min=0, max=LARGEST_SEED),
]
Debug = Annotated[bool, _of_messages("--debug", text="Show the traceback of an error.")]


@dataclass(frozen=True)
class TableOptions:
    """How the table is read."""

    layout: Annotated[
        Layout | None,
        _of_table("--layout", text="Layout of the table; found out if not given."),
    ] = None
    row_column: RowColumn = None
    col_column: ColColumn = None
    value_column: Annotated[
        str | None,
        _of_table(
            "--value-column",
            text="Long table: column of the values; the third by default.",
            metavar="COLUMN",
        ),
    ] = None
    weight_column: Annotated[
        str | None,
        _of_table(
            "--weight-column",
            text="Long table: column of weights; by default one that is called 'weight'.",
            metavar="COLUMN",
        ),
    ] = None
    index: Annotated[
        str | None,
        _of_table(
            "--index",
            text="Wide table: column of the row labels, the first by default; 'none' numbers the "
            "rows.",
            metavar="COLUMN",
        ),
    ] = None
    sheet: Sheet = None
    duplicates: Annotated[
        Duplicates,
        _of_table("--duplicates", text="Several lines for one entry: refuse, or take the mean."),
    ] = "error"

    @property
    def roles(self) -> Roles:
        """What is said about the columns of the table."""
        return Roles(
            self.layout, self.row_column, self.col_column, self.value_column, self.weight_column,
            self.index,
        )  # fmt: skip

    @property
    def pair_roles(self) -> Roles:
        """What is said about the columns of a file of pairs."""
        return Roles(row=self.row_column, col=self.col_column)


@dataclass(frozen=True)
class SideOptions:
    """What is known about rows and columns, and how it is read."""

    rows: Annotated[
        Path | None,
        _of_sides(
            "--rows",
            text="What is known about the rows: a table of features, a list of edges or a matrix "
            "of similarities, with the labels in the first column.",
            metavar="FILE",
        ),
    ] = None
    cols: Annotated[
        Path | None,
        _of_sides("--cols", text="What is known about the columns.", metavar="FILE"),
    ] = None
    rows_as: Annotated[
        SideKind | None,
        _of_sides("--rows-as", text="What the file about rows holds; found out if not given."),
    ] = None
    cols_as: Annotated[SideKind | None, _of_sides("--cols-as", text="The same for columns.")] = None
    rows_index: RowsIndex = None
    cols_index: ColsIndex = None
    ignore: Annotated[
        list[str] | None,
        _of_sides(
            "--ignore",
            text="A column that is no feature, such as a name; may be given several times.",
            metavar="COLUMN",
        ),
    ] = None
    impute: ImputeOption = "error"
    unmatched: Annotated[
        Unmatched,
        _of_sides(
            "--unmatched",
            text="Rows and columns of the table that the side information lacks: refuse, keep them "
            "as known by their entries only, or drop them.",
        ),
    ] = "error"

    @property
    def paths(self) -> tuple[Path | None, Path | None]:
        """The files about rows and columns."""
        return self.rows, self.cols

    @property
    def kinds(self) -> tuple[str | None, str | None]:
        """What they hold."""
        return self.rows_as, self.cols_as

    @property
    def indices(self) -> tuple[str | None, str | None]:
        """The columns with their labels."""
        return self.rows_index, self.cols_index

    @property
    def ignored(self) -> list[str]:
        """Columns that are no features."""
        return self.ignore or []


@dataclass(frozen=True)
class MethodOptions:
    """What is fitted."""

    method: Annotated[
        MethodName,
        _of_model("--method", text="The method; 'mc' uses no side information."),
    ] = "kkmcex"
    mu: Annotated[
        str,
        _of_model(
            "--mu",
            text="Weight of the penalty; 'auto' chooses it by leaving entries out.",
            metavar="NUMBER|auto",
        ),
    ] = "auto"
    rank: Annotated[
        int,
        _of_model(
            "--rank",
            text="Factors of kmc, imc and mc.",
            min=1,
        ),
    ] = 10
    center: Annotated[Center, _of_model("--center", text="Effects that are not penalised.")] = (
        "mean"
    )
    seed: Seed = 0

    @property
    def effects(self) -> str | None:
        """The parameter ``center``."""
        return None if self.center == "none" else self.center

    @property
    def weight(self) -> float | str:
        """The parameter ``mu``: a number or "auto"."""
        if self.mu == "auto":
            return self.mu
        try:
            mu = float(self.mu)
        except ValueError:
            mu = math.nan
        if 0 < mu < math.inf:
            return mu
        msg = f"--mu must be a positive number or 'auto', got {self.mu!r}."
        raise ParameterError(msg)

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of :func:`kronfill.complete`."""
        return {
            "method": self.method, "mu": self.weight, "rank": self.rank,
            "center": self.effects, "random_state": self.seed,
        }  # fmt: skip


@dataclass(frozen=True)
class IntervalOptions:
    """Which intervals are wanted."""

    level: Annotated[
        float,
        _of_model(
            "--level",
            text="Share of the values that intervals are to contain.",
        ),
    ] = 0.9
    intervals: Annotated[
        IntervalKind,
        _of_model(
            "--intervals",
            text="gaussian: the model's standard deviation; calibrated: measured on hidden "
            "entries.",
        ),
    ] = "auto"


@dataclass(frozen=True)
class StreamingOptions:
    """How a table is streamed."""

    memory: Annotated[
        str | None,
        _of_streaming(
            "--memory",
            text="Most memory to use, such as 2GB; by default what 16 million lines at a time "
            "take. Streams TABLE.",
            metavar="SIZE",
        ),
    ] = None
    work_dir: Annotated[
        Path | None,
        _of_streaming(
            "--work-dir",
            text="Folder for the sorted observations (24 bytes each) and for what --resume needs; "
            "a temporary one by default. Streams TABLE.",
            metavar="DIR",
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        _of_streaming(
            "--scheduler",
            text="Fit on the Dask cluster with this scheduler, such as tcp://10.0.0.1:8786, whose "
            "workers see the same files.",
            metavar="ADDRESS",
        ),
    ] = None
    resume: Annotated[
        bool,
        _of_streaming(
            "--resume",
            text="Go on with what --work-dir holds, after a run that was stopped or killed.",
        ),
    ] = False

    @property
    def wanted(self) -> bool:
        """Whether any of them is given."""
        return self.resume or any((self.memory, self.work_dir, self.scheduler))


@dataclass(frozen=True)
class MessageOptions:
    """What is said and how."""

    quiet: Annotated[
        bool,
        _of_messages("--quiet", "-q", text="Say nothing but results, notes and errors."),
    ] = False
    as_json: Annotated[
        bool, _of_messages("--json", text="Print one JSON object on standard output.")
    ] = False
    debug: Debug = False

    def session(self) -> Session:
        """Return a run of the command that says so much."""
        return Session(self.quiet, self.as_json, self.debug)

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
from kronfill.data.reading.column_kinds import CHOICES
from kronfill.data.reading.entry_files import Roles
from kronfill.data.reading.side_files import SIDES as SIDE_KINDS
from kronfill.errors import ParameterError

__all__ = [
    "LARGEST_SEED", "ColColumn", "ColsIndex", "Debug", "Impute", "ImputeOption",
    "IntervalOptions", "MessageOptions", "MethodOptions", "ModelFile", "RowColumn", "RowsIndex",
    "Seed", "Sheet", "SideOptions", "StreamingOptions", "TableFile", "TableFiles", "TableOptions",
    "named_files",
]  # fmt: skip

TABLE, SIDES, MODEL, OTHER = "The table", "Side information", "The model", "Messages"
LARGE = "More than memory: Parquet files that are streamed"


Layout = Literal["wide", "long"]
MethodName = Literal["auto", "kkmcex", "rrmcex", "kmc", "imc", "mc", "bayesiankmc"]
LikelihoodName = Literal["gaussian", "bernoulli", "poisson", "ordinal", "auto"]
Center = Literal["auto", "mean", "rows", "cols", "both", "none"]
Negatives = Literal["none", "sample"]
Transform = Literal["auto", "log", "sqrt", "ranks", "none"]
Unmatched = Literal["error", "keep", "drop"]
Duplicates = Literal["error", "mean"]
Impute = Literal["none", "mean", "error"]
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
        "--impute",
        text="Missing features: do without them, take the mean (the most frequent category), or "
        "refuse.",
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
        list[str] | None,
        _of_sides(
            "--rows",
            text="What is known about the rows: a table of features, a list of edges or a matrix "
            "of similarities, with the labels in the first column. May be given several times, "
            "with a name for each source if you like.",
            metavar="[NAME=]FILE",
        ),
    ] = None
    cols: Annotated[
        list[str] | None,
        _of_sides("--cols", text="What is known about the columns.", metavar="[NAME=]FILE"),
    ] = None
    rows_as: Annotated[
        list[str] | None,
        _of_sides(
            "--rows-as",
            text="What the file about rows holds; found out if not given. For several files as "
            "many times, in their order.",
            metavar="|".join(SIDE_KINDS),
        ),
    ] = None
    cols_as: Annotated[
        list[str] | None,
        _of_sides("--cols-as", text="The same for columns.", metavar="|".join(SIDE_KINDS)),
    ] = None
    columns_as: Annotated[
        list[str] | None,
        _of_sides(
            "--as",
            text="What a column of features holds, such as genres=labels: number, category, code, "
            "date, labels, text, smiles, protein, nucleotide or ignore. May be given several "
            "times.",
            metavar="COLUMN=KIND",
        ),
    ] = None
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
    impute: ImputeOption = "none"
    unmatched: Annotated[
        Unmatched,
        _of_sides(
            "--unmatched",
            text="Rows and columns of the table that the side information lacks: refuse, keep them "
            "as known by their entries only, or drop them.",
        ),
    ] = "error"

    @property
    def files(self) -> tuple[list[tuple[str, Path]], list[tuple[str, Path]]]:
        """Name ("" if it has none) and path of the files about rows, and about columns."""
        return named_files("--rows", self.rows), named_files("--cols", self.cols)

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files."""
        return tuple(path for some in self.files for _, path in some)

    @property
    def kinds(self) -> tuple[list[str], list[str]]:
        """What they hold, in their order; empty if nothing is said."""
        both = self.rows_as or [], self.cols_as or []
        for option, some in zip(("--rows-as", "--cols-as"), both, strict=True):
            for kind in some:
                if kind not in SIDE_KINDS:
                    msg = f"{option} takes one of {', '.join(SIDE_KINDS)}; got {kind!r}."
                    raise ParameterError(msg)
        return both

    @property
    def feature_kinds(self) -> dict[str, str]:
        """What columns of features hold, where that is said."""
        found = {}
        for text in self.columns_as or []:
            name, mark, kind = text.rpartition("=")
            if not mark or not name or kind not in CHOICES:
                msg = f"--as takes COLUMN=KIND with a kind of {', '.join(CHOICES)}; got {text!r}."
                raise ParameterError(msg)
            found[name] = kind
        return found

    @property
    def indices(self) -> tuple[str | None, str | None]:
        """The columns with their labels."""
        return self.rows_index, self.cols_index

    @property
    def ignored(self) -> list[str]:
        """Columns that are no features."""
        return self.ignore or []


def named_files(option: str, given: list[str] | None) -> list[tuple[str, Path]]:
    """Name and path of each file of an option; a name stands before an equals sign."""
    found: list[tuple[str, Path]] = []
    for text in given or []:
        name, mark, path = text.partition("=")
        if not mark or Path(text).exists() or "/" in name or "\\" in name:
            name, path = "", text
        elif not name.strip() or not path:
            msg = f"{option} takes FILE or NAME=FILE, got {text!r}."
            raise ParameterError(msg)
        if name and name in (other for other, _ in found):
            msg = f"{option}: two sources are called {name!r}; give each a name of its own."
            raise ParameterError(msg)
        found.append((name, Path(path)))
    return found


@dataclass(frozen=True)
class MethodOptions:
    """What is fitted."""

    method: Annotated[
        MethodName,
        _of_model(
            "--method",
            text="The method; 'auto' mixes kernels and low rank and chooses everything, 'kkmcex' "
            "uses kernels alone, 'mc' no side information. For streamed tables 'auto' is 'kkmcex'.",
        ),
    ] = "auto"
    mu: Annotated[
        str,
        _of_model(
            "--mu",
            text="Weight of the penalty, if --method takes one; 'auto' chooses it by leaving "
            "entries out.",
            metavar="NUMBER|auto",
        ),
    ] = "auto"
    rank: Annotated[
        str,
        _of_model("--rank", text="Factors of kmc, imc and mc.", metavar="NUMBER|auto"),
    ] = "auto"
    center: Annotated[
        Center,
        _of_model(
            "--center",
            text="Effects that are not penalised, if --method takes them; 'auto' is the mean.",
        ),
    ] = "auto"
    likelihood: Annotated[
        LikelihoodName,
        _of_model(
            "--likelihood",
            text="What values are: numbers (gaussian), 0 and 1 (bernoulli), counts (poisson), "
            "ordered levels such as stars (ordinal); 'auto' recognises 0 and 1 and small counts.",
        ),
    ] = "gaussian"
    negatives: Annotated[
        Negatives,
        _of_model(
            "--negatives",
            text="'sample' where ones alone are recorded (clicks, purchases): zeros are drawn "
            "among the other entries.",
        ),
    ] = "none"
    value_range: Annotated[
        tuple[float, float] | None,
        _of_model(
            "--range",
            text="Range that all values obey, whatever is observed, such as 1 5: predictions and "
            "intervals are kept inside. It is the range of --certify, too.",
            metavar="LOW HIGH",
        ),
    ] = None
    transform: Annotated[
        Transform,
        _of_model(
            "--transform",
            text="Scale on which values are fitted; predictions stay in their units. 'auto', with "
            "--method auto, tries all where values are positive and skewed.",
        ),
    ] = "auto"
    budget: Annotated[
        float | None,
        _of_model(
            "--budget",
            text="Seconds that --method auto may take, about; no limit by default. It does less "
            "then: what, is settled before it begins.",
            metavar="SECONDS",
        ),
    ] = None
    rounded: Annotated[bool, _of_model("--round", text="Predict whole numbers, such as stars.")] = (
        False
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
    def factors(self) -> int | str:
        """The parameter ``rank``: a number or "auto"."""
        if self.rank == "auto":
            return self.rank
        if self.rank.isdigit() and int(self.rank) > 0:
            return int(self.rank)
        msg = f"--rank must be a positive number or 'auto', got {self.rank!r}."
        raise ParameterError(msg)

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of :func:`kronfill.complete`."""
        from kronfill.completion.effort import Effort

        return {
            "method": self.method, "mu": self.weight, "rank": self.factors,
            "center": self.effects, "random_state": self.seed, "likelihood": self.likelihood,
            "negatives": None if self.negatives == "none" else self.negatives,
            "value_range": self.value_range,
            "transform": None if self.transform == "none" else self.transform,
            "rounded": self.rounded, "effort": Effort(self.budget),
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
            "entries, for uneven masks and new rows too.",
        ),
    ] = "auto"
    by: Annotated[
        str | None,
        _of_model(
            "--by",
            text="Groups in each of which intervals are to hold: row, column, observations (of the "
            "row), or a category among the features.",
            metavar="GROUP",
        ),
    ] = None


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

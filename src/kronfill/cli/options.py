"""The options that commands share, with what ``--help`` says about them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "LARGEST_SEED",
    "Center",
    "CenterOption",
    "ColColumn",
    "ColsAs",
    "ColsFile",
    "ColsIndex",
    "Debug",
    "Duplicates",
    "DuplicatesOption",
    "Ignore",
    "Impute",
    "ImputeOption",
    "IntervalsOption",
    "Json",
    "KindOfInterval",
    "KindOfSide",
    "Layout",
    "LayoutOption",
    "Level",
    "Memory",
    "MethodName",
    "MethodOption",
    "ModelFile",
    "Mu",
    "Quiet",
    "Rank",
    "Resume",
    "RowColumn",
    "RowsAs",
    "RowsFile",
    "RowsIndex",
    "Scheduler",
    "Seed",
    "Sheet",
    "TableFile",
    "TableFiles",
    "TableIndex",
    "Unmatched",
    "UnmatchedOption",
    "ValueColumn",
    "WeightColumn",
    "WorkDir",
]  # fmt: skip

TABLE, SIDES, MODEL, OTHER = "The table", "Side information", "The model", "Messages"
LARGE = "More than memory: Parquet files that are streamed"


class Layout(StrEnum):
    """How entries are laid out."""

    wide = "wide"
    long = "long"


class KindOfSide(StrEnum):
    """What a file of side information holds."""

    features = "features"
    edges = "edges"
    similarity = "similarity"


class MethodName(StrEnum):
    """The five methods."""

    kkmcex = "kkmcex"
    rrmcex = "rrmcex"
    kmc = "kmc"
    imc = "imc"
    mc = "mc"


class Center(StrEnum):
    """Effects without a penalty."""

    mean = "mean"
    rows = "rows"
    cols = "cols"
    both = "both"
    none = "none"


class Unmatched(StrEnum):
    """Rows and columns of the table that the side information lacks."""

    error = "error"
    keep = "keep"
    drop = "drop"


class Duplicates(StrEnum):
    """Several lines for one entry."""

    error = "error"
    mean = "mean"


class Impute(StrEnum):
    """Missing features."""

    error = "error"
    mean = "mean"


class KindOfInterval(StrEnum):
    """Kinds of intervals."""

    auto = "auto"
    gaussian = "gaussian"
    calibrated = "calibrated"
    none = "none"


def _option(*names: str, panel: str, text: str, metavar: str | None = None) -> object:
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar)


TableFile = Annotated[
    Path,
    typer.Argument(
        help="The table: CSV, TSV, Parquet, Feather or Excel; wide (blank cells are the missing "
        "ones) or long (row, column, value).",
        metavar="TABLE",
    ),
]
TableFiles = Annotated[
    list[Path],
    typer.Argument(
        help="The table: CSV, TSV, Parquet, Feather or Excel; wide (blank cells are the missing "
        "ones) or long (row, column, value). Several Parquet files, a folder of them or a quoted "
        "pattern are one long table, which is streamed and never held in memory.",
        metavar="TABLE",
    ),
]
Memory = Annotated[
    str | None,
    _option(
        "--memory",
        panel=LARGE,
        metavar="SIZE",
        text="Most memory to use, such as 2GB; by default what 16 million lines at a time take. "
        "Streams TABLE.",
    ),
]
WorkDir = Annotated[
    Path | None,
    _option(
        "--work-dir",
        panel=LARGE,
        metavar="DIR",
        text="Folder for the sorted observations (24 bytes each) and for what --resume needs; a "
        "temporary one by default. Streams TABLE.",
    ),
]
Scheduler = Annotated[
    str | None,
    _option(
        "--scheduler",
        panel=LARGE,
        metavar="ADDRESS",
        text="Fit on the Dask cluster with this scheduler, such as tcp://10.0.0.1:8786, whose "
        "workers see the same files.",
    ),
]
Resume = Annotated[
    bool,
    _option(
        "--resume",
        panel=LARGE,
        text="Go on with what --work-dir holds, after a run that was stopped or killed.",
    ),
]
ModelFile = Annotated[
    Path, typer.Argument(help="A model written by 'kronfill complete --save'.", metavar="MODEL")
]
LayoutOption = Annotated[
    Layout | None,
    _option("--layout", panel=TABLE, text="Layout of the table; found out if not given."),
]
RowColumn = Annotated[
    str | None,
    _option(
        "--row-column",
        panel=TABLE,
        metavar="COLUMN",
        text="Long table: column of the row labels; the first by default.",
    ),
]
ColColumn = Annotated[
    str | None,
    _option(
        "--col-column",
        panel=TABLE,
        metavar="COLUMN",
        text="Long table: column of the column labels; the second by default.",
    ),
]
ValueColumn = Annotated[
    str | None,
    _option(
        "--value-column",
        panel=TABLE,
        metavar="COLUMN",
        text="Long table: column of the values; the third by default.",
    ),
]
WeightColumn = Annotated[
    str | None,
    _option(
        "--weight-column",
        panel=TABLE,
        metavar="COLUMN",
        text="Long table: column of weights; by default one that is called 'weight'.",
    ),
]
TableIndex = Annotated[
    str | None,
    _option(
        "--index",
        panel=TABLE,
        metavar="COLUMN",
        text="Wide table: column of the row labels, the first by default; 'none' numbers the rows.",
    ),
]
Sheet = Annotated[
    str | None,
    _option(
        "--sheet",
        panel=TABLE,
        metavar="NAME",
        text="Sheet of an Excel table; the first by default.",
    ),
]
DuplicatesOption = Annotated[
    Duplicates,
    _option(
        "--duplicates", panel=TABLE, text="Several lines for one entry: refuse, or take the mean."
    ),
]
RowsFile = Annotated[
    Path | None,
    _option(
        "--rows",
        panel=SIDES,
        metavar="FILE",
        text="What is known about the rows: a table of features, a list of edges or a matrix of "
        "similarities, with the labels in the first column.",
    ),
]
ColsFile = Annotated[
    Path | None,
    _option("--cols", panel=SIDES, metavar="FILE", text="What is known about the columns."),
]
RowsAs = Annotated[
    KindOfSide | None,
    _option(
        "--rows-as", panel=SIDES, text="What the file about rows holds; found out if not given."
    ),
]
ColsAs = Annotated[
    KindOfSide | None, _option("--cols-as", panel=SIDES, text="The same for columns.")
]
RowsIndex = Annotated[
    str | None,
    _option(
        "--rows-index",
        panel=SIDES,
        metavar="COLUMN",
        text="Column of the labels in the file about rows; the first by default.",
    ),
]
ColsIndex = Annotated[
    str | None,
    _option(
        "--cols-index",
        panel=SIDES,
        metavar="COLUMN",
        text="Column of the labels in the file about columns; the first by default.",
    ),
]
Ignore = Annotated[
    list[str] | None,
    _option(
        "--ignore",
        panel=SIDES,
        metavar="COLUMN",
        text="A column that is no feature, such as a name; may be given several times.",
    ),
]
ImputeOption = Annotated[
    Impute,
    _option(
        "--impute",
        panel=SIDES,
        text="Missing features: refuse, or take the mean (the most frequent category).",
    ),
]
UnmatchedOption = Annotated[
    Unmatched,
    _option(
        "--unmatched",
        panel=SIDES,
        text="Rows and columns of the table that the side information lacks: refuse, keep them as "
        "known by their entries only, or drop them.",
    ),
]
MethodOption = Annotated[
    MethodName, _option("--method", panel=MODEL, text="The method; 'mc' uses no side information.")
]
Mu = Annotated[
    str,
    _option(
        "--mu",
        panel=MODEL,
        text="Weight of the penalty; 'auto' chooses it by leaving entries out.",
        metavar="NUMBER|auto",
    ),
]
Rank = Annotated[
    int, typer.Option("--rank", help="Factors of kmc, imc and mc.", min=1, rich_help_panel=MODEL)
]
CenterOption = Annotated[
    Center, _option("--center", panel=MODEL, text="Effects that are not penalised.")
]
LARGEST_SEED = 2**32 - 1
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        help="Root of all random numbers.",
        min=0,
        max=LARGEST_SEED,
        rich_help_panel=MODEL,
    ),
]
Level = Annotated[
    float,
    typer.Option(
        "--level", help="Share of the values that intervals are to contain.", rich_help_panel=MODEL
    ),
]
IntervalsOption = Annotated[
    KindOfInterval,
    _option(
        "--intervals",
        panel=MODEL,
        text="gaussian: the model's standard deviation; calibrated: measured on hidden entries.",
    ),
]
Quiet = Annotated[
    bool, _option("--quiet", "-q", panel=OTHER, text="Say nothing but results, notes and errors.")
]
Json = Annotated[
    bool, _option("--json", panel=OTHER, text="Print one JSON object on standard output.")
]
Debug = Annotated[bool, _option("--debug", panel=OTHER, text="Show the traceback of an error.")]

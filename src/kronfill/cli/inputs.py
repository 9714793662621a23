"""From files and options to a problem that can be fitted, saying what was found on the way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kronfill.cli.options import SideOptions, TableOptions
from kronfill.cli.session import Session
from kronfill.completion.likelihood import MEANINGS, recognised
from kronfill.completion.problem import CompletionProblem
from kronfill.completion.sides import some_of
from kronfill.data import Observations
from kronfill.data.amounts import count_of
from kronfill.data.arrays import listing
from kronfill.data.reading.entry_files import (
    EntryFile,
    Roles,
    are_numbers,
    read_entries,
    read_pairs,
)
from kronfill.data.reading.file_table import label_text
from kronfill.data.reading.side_files import SideFile, read_side
from kronfill.data.reading.table_files import open_file
from kronfill.errors import LabelError, ParameterError

__all__ = [
    "AxisFiles", "Tables", "ask_pairs", "check_range", "read_sides", "read_tables", "say_matches",
]  # fmt: skip


OTHERWISE = " Say otherwise with --as COLUMN=KIND."


@dataclass(frozen=True, eq=False)
class Tables:
    """A table and its side information, read and ready to be put together."""

    entries: EntryFile
    table: Any
    rows: Any
    cols: Any

    kinds: dict[str, str]

    def problem(self, **settings: Any) -> CompletionProblem:
        """Match labels and choose the method."""
        return CompletionProblem.of(
            self.table, self.rows, self.cols, **settings, kinds=self.kinds or None
        )


@dataclass(frozen=True, eq=False)
class AxisFiles:
    """What is known about one axis: one or more files, and the names of the sources."""

    files: tuple[SideFile, ...]
    names: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """The items that any of them tells something about."""
        return list(dict.fromkeys(label for side in self.files for label in side.labels))

    @property
    def facts(self) -> Any:
        """What they are, for the JSON object."""
        told = [
            {"path": side.table.path, "kind": side.kind, "found": side.words}
            | ({"name": name} if name else {})
            for name, side in zip(self.names, self.files, strict=True)
        ]
        return told[0] if len(told) == 1 else told

    def build(self, numbers: bool = False) -> Any:
        """Return what they hold, for :func:`kronfill.complete`."""
        built = [side.build(numbers) for side in self.files]
        if not any(self.names):
            return built[0] if len(built) == 1 else built
        names = [name or str(k + 1) for k, name in enumerate(self.names)]
        return dict(zip(names, built, strict=True))


def read_tables(session: Session, path: Path, options: TableOptions, sides: SideOptions) -> Tables:
    """Read all files and say what they are."""
    file = open_file(path, options.sheet)
    entries = read_entries(file, options.roles)
    session.note(f"{path}: {file.words}, {entries.words}.")
    read = read_sides(session, sides)
    numbers = tuple(
        are_numbers(own, [] if side is None else side.labels)
        for own, side in zip((entries.row_labels, entries.col_labels), read, strict=True)
    )
    observations = entries.observations((numbers[0], numbers[1]), options.duplicates)
    n, l = observations.shape
    session.note(
        f"{count_of(n, 'row')} x {count_of(l, 'column')}, "
        f"{count_of(observations.m, 'entry', 'entries')} observed "
        f"({100 * observations.density:.3g}%){_without_entries(observations)}."
    )
    session.fact(
        table={
            "path": path, "format": file.words, "layout": entries.layout, "rows": n, "columns": l,
            "observed": observations.m,
        },
        side_information={
            axis: side and side.facts
            for axis, side in zip(("rows", "columns"), read, strict=True)
        },
    )  # fmt: skip
    built = [
        None if side is None else side.build(whole)
        for side, whole in zip(read, numbers, strict=True)
    ]
    return Tables(entries, observations, built[0], built[1], sides.feature_kinds)


def _without_entries(obs: Observations) -> str:
    """Which rows and columns of the table have no entry."""
    text = ""
    for at, labels, name in (
        (obs.cold_rows, obs.row_labels, "row"),
        (obs.cold_cols, obs.col_labels, "column"),
    ):
        if len(at) and labels is not None:
            some = some_of([labels[k] for k in at])
            text += f"; {count_of(len(at), name)} without any entry, {some}"
    return text


def say_matches(session: Session, problem: CompletionProblem, unmatched: str) -> None:
    """Say which labels of the table and of its side information are the same."""
    for found in problem.matches:
        if found is None:
            continue
        session.note(f"{found.words(unmatched)}.")
        session.fact(
            **{
                f"matched_{found.axis}s": {
                    "both": found.both,
                    "only_in_table": len(found.only_table),
                    "only_in_side_information": len(found.only_side),
                }
            }
        )
    say_likelihood(session, problem)
    if problem.is_blind:
        session.warn(
            f"Nothing is known about rows or columns, so {problem.method!r} can only predict "
            "effects of rows and columns. Give --rows or --cols, or use --method mc."
        )


def say_likelihood(session: Session, problem: CompletionProblem) -> None:
    """Say what values are taken for, and if they look like something else."""
    kind = problem.likelihood
    if problem.why:
        told = MEANINGS.get(kind, "they are taken as numbers")
        session.note(f"{problem.why[0].upper()}{problem.why[1:]}: {told} (--likelihood {kind}).")
    elif kind == "gaussian":
        found, why = recognised(problem.observations.values)
        if found != "gaussian":
            session.note(
                f"{why[0].upper()}{why[1:]}, and are taken as numbers; --likelihood {found} "
                f"predicts {MEANINGS[found].rpartition('are ')[2]}."
            )


def read_sides(session: Session, sides: SideOptions) -> list[AxisFiles | None]:
    """Read what is known about rows and columns, and say what it is."""
    read = [_side(session, sides, axis) for axis in (0, 1)]
    known = {name for one in read if one for side in one.files for name in side.table.names}
    for option, names in (("--ignore", sides.ignored), ("--as", sides.feature_kinds)):
        for name in names:
            if name not in known:
                msg = f"{option} {name}: no file of side information has such a column."
                raise ParameterError(msg)
    return read


def _side(session: Session, sides: SideOptions, axis: int) -> AxisFiles | None:
    named, kinds, index = sides.files[axis], sides.kinds[axis], sides.indices[axis]
    option = ("rows", "cols")[axis]
    if not named:
        if kinds or index is not None:
            msg = (
                f"--{option}-as and --{option}-index say how to read a file: give it with "
                f"--{option}."
            )
            raise ParameterError(msg)
        return None
    if kinds and len(kinds) != len(named):
        msg = (
            f"--{option} names {count_of(len(named), 'file')} and --{option}-as says what "
            f"{len(kinds)} of them hold: say it for each, in their order."
        )
        raise ParameterError(msg)
    read = [
        _side_file(session, sides, path, kinds[k] if kinds else None, index, len(named) > 1)
        for k, (_, path) in enumerate(named)
    ]
    return AxisFiles(tuple(read), tuple(name for name, _ in named))


def _side_file(
    session: Session,
    sides: SideOptions,
    path: Path,
    kind: str | None,
    index: str | None,
    one_of_several: bool,
) -> SideFile:
    file = open_file(path)
    ignore = [name for name in sides.ignored if name in file.names]
    if one_of_several and index not in file.names:
        index = None
    side = read_side(
        file, kind, index=index, ignore=ignore, impute=sides.impute, said=sides.feature_kinds
    )
    session.note(f"{path}: {file.words}, {side.words}.{OTHERWISE * (side.kind == 'features')}")
    for doubt in side.doubts:
        session.warn(doubt)
    return side


def check_range(value_range: tuple[float, float] | None) -> None:
    """Raise unless --range has two numbers, the smaller one first."""
    if value_range is None:
        return
    low, high = value_range
    if not -math.inf < low < high < math.inf:
        msg = f"--range takes the smallest and the largest possible value, got {low:g} {high:g}."
        raise ParameterError(msg)


def ask_pairs(
    path: Path,
    roles: Roles,
    labels: tuple[Any, Any],
    new: tuple[Any, Any] = ((), ()),
    takes_new: bool = True,
) -> tuple[Any, Any]:
    """Positions of the entries that a file asks for among known labels and, behind them, new ones.

    Labels are compared by how they are written, so that it does not matter what type they have.
    ``takes_new`` says whether the command could be told about new rows and columns.
    """
    columns = read_pairs(open_file(path), roles)
    places = [
        {label_text(label): k for k, label in enumerate([*known, *more])}
        for known, more in zip(labels, new, strict=True)
    ]
    found = []
    for axis, (codes, texts) in enumerate(columns):
        at = np.array([places[axis].get(text, -1) for text in texts], dtype=np.intp)
        unknown = [texts[k] for k in np.flatnonzero(at < 0)]
        if unknown:
            raise LabelError(_unknown(path, unknown, axis, places, takes_new))
        found.append(at[codes] if codes.size else np.empty(0, dtype=np.intp))
    return found[0], found[1]


def _unknown(
    path: Path, unknown: list[str], axis: int, places: list[dict[str, int]], takes_new: bool
) -> str:
    """Say which labels are not known, and what to do about them."""
    name, place = ("row", "column")[axis], places[axis]
    if all(text in places[1 - axis] for text in unknown):
        advice = (
            f"The table has such {('columns', 'rows')[axis]}: say which column of the file holds "
            "which labels (--row-column, --col-column)."
        )
    elif takes_new:
        advice = f"A new {name} needs side information: --{name[:3]}s FILE."
    else:
        advice = f"Only {name}s of the model can be chosen."
    known = listing([repr(text) for text in list(place)[:3]], len(place))
    return (
        f"{path} asks for {count_of(len(unknown), f'unknown {name} label')}, {some_of(unknown)}. "
        f"Known are {known}. {advice}"
    )

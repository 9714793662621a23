"""From files and options to a problem that can be fitted, saying what was found on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kronfill.cli.session import Session
from kronfill.data.entry_files import EntryFile, Roles, are_numbers, read_entries, read_pairs
from kronfill.data.side_files import SideFile, read_side
from kronfill.data.table_files import label_text, open_file
from kronfill.errors import LabelError, ParameterError
from kronfill.problem import Problem

__all__ = ["Sides", "Tables", "as_mu", "ask_pairs", "read_tables"]


@dataclass(frozen=True)
class Sides:
    """What the options say about side information: one entry for rows, one for columns."""

    paths: tuple[Path | None, Path | None] = (None, None)
    kinds: tuple[str | None, str | None] = (None, None)
    indices: tuple[str | None, str | None] = (None, None)
    ignore: list[str] = field(default_factory=list)
    impute: str = "error"


@dataclass(frozen=True, eq=False)
class Tables:
    """A table and its side information, read and ready to be put together."""

    entries: EntryFile
    table: Any
    rows: Any
    cols: Any

    def problem(self, **settings: Any) -> Problem:
        """Match labels and choose the method."""
        return Problem.of(self.table, self.rows, self.cols, **settings)


def read_tables(
    session: Session,
    path: Path,
    roles: Roles,
    sides: Sides,
    sheet: str | None = None,
    duplicates: str = "error",
) -> Tables:
    """Read all files and say what they are."""
    file = open_file(path, sheet)
    entries = read_entries(file, roles)
    session.note(f"{path}: {file.told}, {entries.told}.")
    read: list[SideFile | None] = []
    for axis in (0, 1):
        read.append(_side(session, sides, axis))
    _check_ignored(read, sides)
    numbers = tuple(
        are_numbers(own, [] if side is None else side.labels)
        for own, side in zip((entries.row_labels, entries.col_labels), read, strict=True)
    )
    observations = entries.observations((numbers[0], numbers[1]), duplicates)
    n, l = observations.shape
    session.note(
        f"{n:,} rows x {l:,} columns, {observations.m:,} entries observed "
        f"({100 * observations.density:.3g}%)."
    )
    session.fact(
        table={
            "path": path, "format": file.told, "layout": entries.layout, "rows": n, "columns": l,
            "observed": observations.m,
        },
        side_information={
            axis: side and {"path": side.table.path, "kind": side.kind, "found": side.told}
            for axis, side in zip(("rows", "columns"), read, strict=True)
        },
    )  # fmt: skip
    built = [
        None if side is None else side.build(whole)
        for side, whole in zip(read, numbers, strict=True)
    ]
    return Tables(entries, observations, built[0], built[1])


def _side(session: Session, sides: Sides, axis: int) -> SideFile | None:
    path = sides.paths[axis]
    if path is None:
        if sides.kinds[axis] is not None or sides.indices[axis] is not None:
            name = ("rows", "cols")[axis]
            msg = f"--{name}-as and --{name}-index say how to read a file: give it with --{name}."
            raise ParameterError(msg)
        return None
    file = open_file(path)
    ignore = [name for name in sides.ignore if name in file.names]
    side = read_side(
        file, sides.kinds[axis], index=sides.indices[axis], ignore=ignore, impute=sides.impute
    )
    session.note(f"{path}: {file.told}, {side.told}.")
    return side


def _check_ignored(read: list[SideFile | None], sides: Sides) -> None:
    known = {name for side in read if side is not None for name in side.table.names}
    for name in sides.ignore:
        if name not in known:
            msg = f"--ignore {name}: no file of side information has such a column."
            raise ParameterError(msg)


def as_mu(text: str) -> float | str:
    """The option --mu as a number or "auto"."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        msg = f"--mu must be a positive number or 'auto', got {text!r}."
        raise ParameterError(msg) from None


def ask_pairs(
    path: Path, roles: Roles, labels: tuple[Any, Any], new: tuple[Any, Any] = ((), ())
) -> tuple[Any, Any]:
    """Positions of the entries that a file asks for among known labels and, behind them, new ones.

    Labels are compared by how they are written, so that it does not matter what type they have.
    """
    columns = read_pairs(open_file(path), roles)
    found = []
    for (codes, texts), known, more, name in zip(
        columns, labels, new, ("row", "column"), strict=True
    ):
        place = {label_text(label): k for k, label in enumerate([*known, *more])}
        at = np.array([place.get(text, -1) for text in texts], dtype=np.intp)
        if at.size and at.min() < 0:
            unknown = [texts[k] for k in np.flatnonzero(at < 0)]
            msg = (
                f"{path} asks for unknown {name} labels ({len(unknown):,} of them), such as "
                f"{', '.join(map(repr, unknown[:3]))}. Known are "
                f"{', '.join(map(repr, list(place)[:3]))}, ... ({len(place):,} in all). A new "
                f"{name} needs side information: --{name[:3]}s FILE."
            )
            raise LabelError(msg)
        found.append(at[codes] if codes.size else np.empty(0, dtype=np.intp))
    return found[0], found[1]

"""The files that TABLE stands for, and whether they are one table that is streamed."""

from __future__ import annotations

import fnmatch
import glob
import os
from dataclasses import dataclass
from pathlib import Path

from kronfill.data.amounts import size_of
from kronfill.errors import DataError, MemoryLimitError, ParameterError

__all__ = ["TableArgument", "check_fits", "find_table", "is_parquet"]

ENDINGS = (".parquet", ".pq")
LINE = 60
"""Bytes that a line takes in memory beside what is read of the file, at least."""


@dataclass(frozen=True)
class TableArgument:
    """What stands for TABLE.

    Attributes
    ----------
    paths : tuple of Path
        The files, in the order of their names.
    several : bool
        Whether they are more than a file: several of them, a folder or a pattern.
    name : str
        What outputs are called after.
    sources : tuple of str
        The folders and patterns among what was given.
    """

    paths: tuple[Path, ...]
    several: bool
    name: str
    sources: tuple[str, ...]

    @property
    def description(self) -> str:
        """The files in words."""
        if len(self.paths) == 1:
            return str(self.paths[0])
        return f"{len(self.paths):,} Parquet files, {self.paths[0]} to {self.paths[-1]}"

    def require_parquet(self, why: str) -> None:
        """Raise unless all files are Parquet."""
        for path in self.paths:
            if not path.exists():
                msg = f"There is no file {path}."
                raise DataError(msg)
            if not is_parquet(path):
                msg = (
                    f"{path} is not a Parquet file, and {why}. Write it as Parquet first, or give "
                    "one table without such options."
                )
                raise DataError(msg)

    def refuse_inside(self, option: str, path: Path | None) -> None:
        """Raise if a file written there would be read as a part of the table the next time."""
        if path is None:
            return
        real = os.path.realpath(path)
        for source in self.sources:
            within = os.path.join(os.path.realpath(source), "")
            hit = real.startswith(within) and path.suffix.lower() in ENDINGS
            if hit or fnmatch.fnmatch(real, os.path.realpath(source)):
                msg = (
                    f"{option} {path} lies in {source}, where it would be read as a part of the "
                    "table the next time; write to another folder."
                )
                raise ParameterError(msg)


def find_table(arguments: list[Path]) -> TableArgument:
    """Find the files that arguments stand for: files, folders of Parquet files, patterns."""
    found: dict[str, None] = {}
    sources = []
    for argument in arguments:
        text = str(argument)
        if argument.is_dir():
            sources.append(text)
            inside = [path for path in argument.rglob("*") if path.suffix.lower() in ENDINGS]
            more = sorted(str(path) for path in inside if path.is_file())
            missing = "has no Parquet files (.parquet, .pq)"
        elif glob.has_magic(text) and not argument.exists():
            sources.append(text)
            more = sorted(path for path in glob.glob(text) if os.path.isfile(path))
            missing = "matches no file"
        else:
            more, missing = [text], ""
        if not more:
            msg = f"{text} {missing}."
            raise DataError(msg)
        found.update(dict.fromkeys(more))
    if len(arguments) > 1 and not any(is_parquet(Path(path)) for path in found):
        msg = (
            f"Got {len(arguments)} tables: {', '.join(map(str, arguments[:3]))}. Only Parquet "
            "files can be several; what is known about rows and columns is given with --rows and "
            "--cols."
        )
        raise ParameterError(msg)
    several = len(arguments) > 1 or bool(sources)
    paths = tuple(Path(path) for path in (sorted(found) if several else found))
    return TableArgument(paths, several, _name(paths, several), tuple(sources))


def _name(paths: tuple[Path, ...], several: bool) -> str:
    if not several:
        return paths[0].stem
    common = Path(os.path.commonpath([os.path.realpath(path.parent) for path in paths]))
    return common.name or "table"


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet files do."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        return False


def check_fits(path: Path) -> None:
    """Raise if a Parquet file is larger than memory, before it is read as a whole."""
    from kronfill.core import memory

    if not is_parquet(path):
        return
    import pyarrow as pa
    from pyarrow import parquet

    try:
        about = parquet.read_metadata(path)
    except (pa.ArrowException, OSError):
        return  # whoever reads it says what is wrong
    size = sum(about.row_group(k).total_byte_size for k in range(about.num_row_groups))
    needed, free = size + LINE * about.num_rows, memory.available_memory()
    if free is not None and needed > free:
        msg = (
            f"{path} has {about.num_rows:,} lines, which take more than {size_of(needed)}; "
            f"{size_of(free)} are available. A long table is streamed from the disk with "
            "--memory 2GB --work-dir DIR."
        )
        raise MemoryLimitError(msg)

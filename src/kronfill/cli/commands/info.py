"""``kronfill info``: versions and threads, or what a file is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from kronfill.cli import options as o
from kronfill.cli.helps import grouped
from kronfill.cli.session import Session
from kronfill.data.amounts import count_of, size_of
from kronfill.errors import ParameterError

__all__ = ["info"]

PACKAGES = (
    "numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "pandas", "pyarrow", "openpyxl",
    "networkx", "matplotlib", "typer", "rich", "dask",
)  # fmt: skip
MODEL_SIGN = ".kf"

File = Annotated[
    Path | None, typer.Argument(help="A table or a model; versions if not given.", metavar="FILE")
]


@grouped
def info(
    file: File = None,
    *,
    sheet: o.Sheet = None,
    messages: o.MessageOptions,
) -> None:
    """Show versions and threads, or what a file is."""
    with messages.session() as session:
        if file is None:
            _environment(session)
        elif not file.exists():
            msg = f"There is no file {file}."
            raise ParameterError(msg)
        elif file.is_dir():
            msg = f"{file} is a folder; give the name of a file."
            raise ParameterError(msg)
        elif file.suffix == MODEL_SIGN:
            _model(session, file)
        else:
            _table(session, file, sheet)


def _environment(session: Session) -> None:
    import os
    import platform

    import numba

    import kronfill
    from kronfill.core.memory import available_memory

    free = available_memory()
    facts: dict[str, Any] = {
        "kronfill": kronfill.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        "numba threads": numba.get_num_threads(),
        "memory available": "unknown" if free is None else size_of(free),
    }
    for name in PACKAGES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = "not installed"
    session.fact(**facts)
    session.result("\n".join(f"{name:<18}{value}" for name, value in facts.items()))


def _model(session: Session, path: Path) -> None:
    from kronfill.io import load

    found = load(path)
    session.fact(path=path, kind="model", summary=repr(found))
    session.result(f"{path}: a model of kronfill\n{found!r}")


def _table(session: Session, path: Path, sheet: str | None) -> None:
    from kronfill.data.reading.entry_files import read_entries
    from kronfill.data.reading.side_files import read_side
    from kronfill.data.reading.table_files import open_file
    from kronfill.errors import KronfillError

    file = open_file(path, sheet)
    session.result(
        f"{path}: {file.words}, {count_of(len(file), 'line')}, "
        f"{count_of(len(file.names), 'column')}: "
        f"{', '.join(repr(name) for name in file.names[:8])}{', ...' * (len(file.names) > 8)}"
    )
    session.fact(path=path, kind="table", format=file.words, lines=len(file), columns=file.names)
    for role, read in (("as the table", read_entries), ("as side information", read_side)):
        try:
            summary = read(file).words
        except KronfillError as error:
            summary = f"cannot be used as it is: {error}"
        session.fact(**{role: summary})
        session.result(f"{role}: {summary}")

"""Where finished cells are kept: Parquet files that are either whole or absent.

A process that is killed at any moment leaves no half-written cell. Many small files are merged into
one now and then; the parts are removed only once the merged file is in place, and where a cell is
found in both, the part, which is newer, counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kronfill._atomic import written_whole
from kronfill._optional import needed
from kronfill.errors import DataError
from kronfill.paper.running.work import CellSettings, versions

__all__ = ["Store"]

MERGE_FROM = 2000
"""Number of parts from which on they are merged when a store is opened."""


class Store:
    """Finished cells of one experiment in a folder.

    Parameters
    ----------
    path : Path
        The folder; made if it is not there.
    settings : CellSettings
        Seed and constants of the run. A folder that was begun with others is refused: their numbers
        do not belong together.

    Raises
    ------
    DataError
        If the folder holds cells of another seed or other constants.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from kronfill.paper.running.spec import Cell
    >>> from kronfill.paper.running.store import Store
    >>> from kronfill.paper.running.work import CellSettings, run_cell
    >>> settings = CellSettings(0, 1.35, 0.45, {"a": {"kkmcex": 1e-6}})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(pathlib.Path(folder), settings)
    ...     store.put(run_cell(Cell("kkmcex", 100, "a", 0), settings))
    ...     store.done()
    {'a-100-0-kkmcex'}
    """

    def __init__(self, path: Path, settings: CellSettings) -> None:
        _pyarrow()
        self.path = Path(path)
        self._parts = self.path / "parts"
        self._merged = self.path / "cells.parquet"
        self._parts.mkdir(parents=True, exist_ok=True)
        self._claim(settings)
        if sum(1 for _ in self._parts.glob("*.parquet")) >= MERGE_FROM:
            self.merge()

    def _claim(self, settings: CellSettings) -> None:
        """Write down what the cells are made with, or compare it with what is written."""
        note = self.path / "run.json"
        wanted = json.loads(json.dumps(asdict(settings)))
        if not note.exists():
            text = json.dumps({**wanted, "begun_with": versions()}, indent=2) + "\n"
            with written_whole(note) as file:
                file.write(text.encode("utf-8"))
            return
        found = json.loads(note.read_text(encoding="utf-8"))
        differing = [name for name, value in wanted.items() if found.get(name) != value]
        if differing:
            unlike = "; ".join(f"{k} is {found.get(k)} there, {wanted[k]} here" for k in differing)
            msg = f"{self.path} holds cells of another run ({unlike}). Use another folder."
            raise DataError(msg)

    def put(self, record: Mapping[str, Any]) -> None:
        """Write one cell; an earlier record of it is replaced."""
        pa, pq = _pyarrow()
        with written_whole(self._parts / f"{record['key']}.parquet") as file:
            pq.write_table(pa.Table.from_pylist([dict(record)]), file)

    def records(self) -> list[dict[str, Any]]:
        """All cells, failed ones included, ordered by their key."""
        _, pq = _pyarrow()
        found: dict[str, dict[str, Any]] = {}
        if self._merged.exists():
            found = {row["key"]: row for row in pq.read_table(self._merged).to_pylist()}
        for path in self._parts.glob("*.parquet"):
            row = pq.ParquetFile(path).read().to_pylist()[0]
            found[row["key"]] = row
        return [found[key] for key in sorted(found)]

    def done(self) -> set[str]:
        """Keys of the cells that need not be done again; failed ones are not among them."""
        return {row["key"] for row in self.records() if row["status"] == "done"}

    def failed(self) -> list[dict[str, Any]]:
        """Cells whose last attempt failed."""
        return [row for row in self.records() if row["status"] == "failed"]

    def merge(self) -> None:
        """Put all cells into one file."""
        pa, pq = _pyarrow()
        parts = list(self._parts.glob("*.parquet"))
        records = self.records()
        if not parts:
            return
        with written_whole(self._merged) as file:
            pq.write_table(pa.Table.from_pylist(records), file)
        for path in parts:
            path.unlink()


def _pyarrow() -> tuple[Any, Any]:
    purpose = "Storing an experiment"
    return needed("pyarrow", purpose), needed("pyarrow.parquet", purpose)

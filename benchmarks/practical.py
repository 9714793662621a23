"""Tables like those that people have, everything chosen, beside other libraries, in one run.

Every measurement is a child process of its own. What is found goes to ``results/practical.json``,
to the tables of ``docs/speed.md`` and to ``docs/figures/practical.png``.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import peers, practical_report
from benchmarks.practical_data import REAL, write
from benchmarks.practical_problems import TABLES, TINY, Practical

PARTS = ("complete", "smurff", "myfm", "cmfrec", "kmc", "fixed", "botorch", "evaluate")
"""What is measured of every table, one after the other; libraries by their names."""
PEERS = ("smurff", "myfm", "cmfrec", "botorch")
LIMIT = 120.0
"""Seconds that a measurement gets, imports included."""


@dataclass
class PracticalRun:
    """One run: keeps what it found so far, and can go on from there."""

    tables: tuple[Practical | str, ...]
    out: Path
    parts: tuple[str, ...] = PARTS
    found: list[dict] = field(default_factory=list)

    def everything(self) -> dict:
        """Measure all tables; what is there already is not measured again."""
        with tempfile.TemporaryDirectory() as folder:
            for part in self.parts:
                for number, table in enumerate(self.tables):
                    row = self._row(table)
                    if part not in row and "failed" not in row:
                        self._measure(part, table, row, Path(folder) / f"{number}.npz")
        return self.results()

    def _row(self, table: Practical | str) -> dict:
        name = table if isinstance(table, str) else table.name
        for row in self.found:
            if row["name"] == name:
                return row
        self.found.append({"name": name})
        return self.found[-1]

    def _measure(self, part: str, table: Practical | str, row: dict, path: Path) -> None:
        if not path.exists():
            try:
                row |= write(table, path)
            except (OSError, ImportError) as error:  # the data are not here
                row["failed"] = str(error)
                return
        if part in PEERS:
            found = peers.run("practical_peers", part, str(path), peer=part, timeout=LIMIT)
        else:
            found = peers.run("practical_ours", part, str(path), timeout=LIMIT)
        row[part] = found
        peers.keep("practical", self.results(), self.out)
        shown = {key: value for key, value in found.items() if key != "fits"}
        fits = [f"{fit['seconds']:.2f} s" for fit in found.get("fits", [])]
        print(f"{row['name']:22s} {part:10s} {fits or ''} {shown or ''}", flush=True)

    def results(self) -> dict:
        """What was found so far."""
        return {"tables": self.found}


def main(
    out: Path, docs: Path, *, small: bool = False, with_peers: bool = True, resume: bool = False
) -> dict:
    """Measure, keep, write the page and draw the picture."""
    tables = TINY if small else (*TABLES, *REAL)
    parts = tuple(part for part in PARTS if with_peers or part not in PEERS)
    run = PracticalRun(tables, out, parts)
    kept = out / "practical.json"
    if resume and kept.exists():
        run.found = json.loads(kept.read_text())["tables"]
    results = run.everything()
    peers.keep("practical", results, out)
    practical_report.publish(results, docs)
    return results


def redraw(out: Path, docs: Path) -> None:
    """Write page and picture again from what an earlier run kept, if there is one."""
    kept = out / "practical.json"
    if kept.exists():
        practical_report.publish(json.loads(kept.read_text()), docs)

"""Tables like those that people have, everything chosen, beside other libraries, in one run.

Every measurement is a child process of its own. What is found goes to ``results/practical.json``,
to the tables of ``docs/speed.md`` and to ``docs/figures/practical.png``.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from benchmarks import peers, practical_report
from benchmarks.practical_data import REAL, write
from benchmarks.practical_problems import TABLES, TINY, Practical
from benchmarks.speed import machine

LIMITS = {
    "complete": 60.0, "default": 120.0, "smurff": 60.0, "myfm": 60.0, "kmc": 60.0, "fixed": 60.0,
    "evaluate": 120.0, "folds": 120.0, "tuner": 60.0, "cmfrec": 60.0, "botorch": 60.0,
}  # fmt: skip
"""What is measured of every table, one after the other, and the seconds that each gets.

Libraries by their names; imports are included in the seconds.
"""
PARTS = tuple(LIMITS)
PEERS = ("smurff", "myfm", "cmfrec", "botorch")
COMPILING = 900.0
ON_SOME = {"evaluate": ("features", "Davis", "tiny"), "folds": ("features", "Davis", "tiny")}
"""What is measured of these tables only: many fits each."""
WHOLE = 35 * 60.0
"""Seconds after which nothing new is begun; ``--resume`` goes on."""
ENDED = ("over ", "exit 1: no axis of numbers")
"""How failures begin that are results: they are not tried again."""


@dataclass
class PracticalRun:
    """One run: keeps what it found so far, and can go on from there."""

    tables: tuple[Practical | str, ...]
    out: Path
    parts: tuple[str, ...] = PARTS
    found: list[dict] = field(default_factory=list)
    whole: float = WHOLE

    def everything(self) -> dict:
        """Measure all tables; what is there already is not measured again."""
        end = time.monotonic() + self.whole
        with tempfile.TemporaryDirectory() as folder:
            missing = list(self._missing())
            if any(part not in PEERS for part, *_ in missing):
                self._compile(Path(folder) / "compiled.npz")
            for part, number, table, row in missing:
                if time.monotonic() > end:
                    print(f"Stopped after {self.whole / 60:.0f} minutes; --resume goes on.")
                    break
                self._measure(part, table, row, Path(folder) / f"{number}.npz")
        return self.results()

    def _compile(self, path: Path) -> None:
        """What is compiled on first use is compiled before the first measurement."""
        write(next(table for table in self.tables if not isinstance(table, str)), path)
        found = peers.run("practical_ours", "compiled", str(path), timeout=COMPILING)
        print(found.get("failed", "compiled"), flush=True)

    def _missing(self) -> Iterator[tuple[str, int, Practical | str, dict]]:
        """What is still to be measured, in this order."""
        now = {part: fingerprint(part) for part in self.parts}
        rows = [self._row(table) for table in self.tables]
        for part in self.parts:
            for number, (table, row) in enumerate(zip(self.tables, rows, strict=True)):
                if row["name"] not in ON_SOME.get(part, (row["name"],)):
                    continue
                if not _stands(row.get(part), now[part]):
                    row.pop(part, None)
                    yield part, number, table, row

    def _row(self, table: Practical | str) -> dict:
        name = table if isinstance(table, str) else table.name
        for row in self.found:
            if row["name"] == name:
                row.pop("failed", None)  # the data may be here by now
                return row
        self.found.append({"name": name})
        return self.found[-1]

    def _measure(self, part: str, table: Practical | str, row: dict, path: Path) -> None:
        if "failed" in row:
            return
        if not path.exists():
            try:
                row |= write(table, path)
            except (OSError, ImportError) as error:  # the data are not here
                row["failed"] = str(error)
                return
        module, peer = ("practical_peers", part) if part in PEERS else ("practical_ours", "")
        code = fingerprint(part)
        found = peers.run(module, part, str(path), peer=peer, timeout=LIMITS[part])
        row[part] = found | {"code": code}
        peers.keep("practical", self.results(), self.out)
        shown = {key: value for key, value in found.items() if key != "fits"}
        fits = [f"{fit['seconds']:.2f} s" for fit in found.get("fits", [])]
        print(f"{row['name']:22s} {part:10s} {fits or ''} {shown or ''}", flush=True)

    def results(self) -> dict:
        """What was found so far."""
        return {"machine": machine(), "tables": self.found}


def fingerprint(part: str) -> str:
    """Tells the code that a measurement rests on; another code is measured anew."""
    own = peers.ROOT.parent / "src" / "kronfill"
    modules = ("practical_problems", "practical_data")
    modules += ("practical_peers",) if part in PEERS else ("practical_ours",)
    files = [peers.ROOT / f"{name}.py" for name in modules]
    files += [] if part in PEERS else sorted(own.rglob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _stands(found: dict | None, code: str) -> bool:
    """Whether an earlier measurement need not be made again."""
    if found is None or found.get("code") != code:
        return False
    return "failed" not in found or found["failed"].startswith(ENDED)


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

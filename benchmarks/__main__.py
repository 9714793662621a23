"""Run all measurements: ``python -m benchmarks [--quick] [--no-peers] [--out FOLDER]``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks import practical, practical_report, report, speed
from benchmarks.peers import ROOT


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=speed.__doc__)
    parser.add_argument("--quick", action="store_true", help="a tiny problem, to try the harness")
    parser.add_argument("--no-peers", action="store_true", help="kronfill alone")
    parser.add_argument(
        "--out", type=Path, help="folder for JSON, page and picture; results/ and docs/ by default"
    )
    parser.add_argument(
        "--redraw", action="store_true", help="measure nothing: page and picture from the JSON"
    )
    parser.add_argument(
        "--only", choices=("speed", "practical"), help="one of the two benchmarks of the page"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with what an earlier run of practical kept"
    )
    options = parser.parse_args()
    if options.quick and options.out is None:  # its times mean nothing: not into the page
        options.out = Path(tempfile.gettempdir()) / "kronfill-quick"
        print(f"Results go to {options.out}.")
    out = options.out or ROOT / "results"
    docs = options.out or ROOT.parent / "docs"
    how = {"small": options.quick, "with_peers": not options.no_peers}
    if options.only != "practical":
        results = speed.redraw(out, docs) if options.redraw else speed.main(out, docs, **how)
        print("\n" + report.tables(results))
    if options.redraw:
        practical.redraw(out, docs)
    elif options.only != "speed":
        found = practical.main(out, docs, **how, resume=options.resume)
        print("\n" + practical_report.tables(found))


if __name__ == "__main__":
    main()

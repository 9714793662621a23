"""Run all measurements: ``python -m benchmarks [--quick] [--no-peers] [--out FOLDER]``."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import report, speed
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
    options = parser.parse_args()
    out = options.out or ROOT / "results"
    docs = options.out or ROOT.parent / "docs"
    if options.redraw:
        results = speed.redraw(out, docs)
    else:
        results = speed.main(out, docs, small=options.quick, with_peers=not options.no_peers)
    print("\n" + report.tables(results))


if __name__ == "__main__":
    main()

"""``kronfill demo`` and ``kronfill bench``: what the library does on real data."""

from __future__ import annotations

from typing import Annotated

import typer

from kronfill.cli import options as o
from kronfill.cli.helps import grouped
from kronfill.cli.session import Session

__all__ = ["bench", "demo"]

# As in kronfill.bench.run, which is not loaded for the sake of --help.
DATASETS = ("bixi", "seattle", "drug response")
METHODS = ("effects", "mc", "imc", "kmc", "rrmcex", "kkmcex")
SPLITS = ("entries", "new rows", "new columns", "both")


def demo(debug: o.Debug = False) -> None:
    """Fit every method to real data (bike sharing in Montreal) and draw the result.

    Takes a minute or two and writes the picture to demo-output/bixi.png.
    """
    with Session(debug=debug):
        from kronfill.demo import main

        main()


@grouped
def bench(
    *,
    datasets: Annotated[
        str | None,
        typer.Option(
            help=f"Of {', '.join(DATASETS)}; those that are there by default.", metavar="NAME,..."
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(help=f"Of {', '.join(METHODS)}; all by default.", metavar="NAME,..."),
    ] = None,
    splits: Annotated[
        str | None,
        typer.Option(help=f"Of {', '.join(SPLITS)}; all by default.", metavar="NAME,..."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Whole tables and every fold, not just a minute or two.")
    ] = False,
    seed: Annotated[
        int,
        typer.Option("--seed", help="Root of all random numbers.", min=0, max=o.LARGEST_SEED),
    ] = 0,
    messages: o.MessageOptions,
) -> None:
    """Measure methods on public data sets, with published figures beside ours."""
    with messages.session() as session:
        from kronfill.bench.run import run, show

        names = [None if text is None else _items(text) for text in (datasets, methods, splits)]
        with session.stage("Measuring") as step:
            found = run(
                names[0],
                names[1],
                names[2],
                lambda done, total, text: step(f"{done} of {total}, now {text}"),
                seed,
                quick=not full,
            )
        session.fact(lines=found.to_records(), absent=found.absent)
        if not session.as_json:
            show(found, session.out)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]

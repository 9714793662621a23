"""``kronfill reproduce``: results of the paper."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from kronfill.cli import options as o
from kronfill.cli.helps import Command, Group
from kronfill.cli.progress import progress_bar
from kronfill.cli.session import INTERRUPTED, Session

if TYPE_CHECKING:
    from kronfill.paper.running.spec import RunPlan

__all__ = ["reproduce_app"]

reproduce_app = typer.Typer(cls=Group, no_args_is_help=True, help="Reproduce results of the paper.")
console = Console()

Sizes = Annotated[str | None, typer.Option(help="N, separated by commas.", metavar="N,N,...")]
Realizations = Annotated[
    str | None,
    typer.Option(
        help="How many for every method, or for each: kkmcex=300,kmc-rowwise=30.", metavar="COUNT"
    ),
]
Workers = Annotated[int, typer.Option(help="Processes; 0 for one per core.", min=0)]
RootSeed = Annotated[
    int, typer.Option(help="Root of all random numbers.", min=0, max=o.LARGEST_SEED)
]


@reproduce_app.callback()
def _about_reproduce() -> None:
    """Reproduce results of the paper."""


@reproduce_app.command("fig1", cls=Command)
def reproduce_fig1(
    quick: Annotated[
        bool, typer.Option("--quick", help="About a minute: N up to 1000, a few realisations.")
    ] = False,
    sizes: Sizes = None,
    realizations: Realizations = None,
    snr: Annotated[
        str | None, typer.Option(help="Signal to noise ratios: inf,4.", metavar="X,X,...")
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Of kkmcex, mc, mc-0.1, mc-0.1-gaussian, kmc, kmc-rowwise, kmc-rowwise-400; all "
            "by default.",
            metavar="NAME,...",
        ),
    ] = None,
    workers: Workers = 0,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a running Dask scheduler.", metavar="ADDRESS")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for cells, table, figures and page.")] = Path(
        "fig1"
    ),
    seed: RootSeed = 0,
    debug: o.Debug = False,
) -> None:
    """Training loss, test loss and generalization error of MC, KMC and KKMCEX against N.

    A run that was interrupted goes on where it was: call the same command again.
    """
    with Session(debug=debug):
        _reproduce_fig1(quick, sizes, realizations, snr, methods, workers, scheduler, out, seed)


@reproduce_app.command("referee", cls=Command)
def reproduce_referee(
    quick: Annotated[
        bool, typer.Option("--quick", help="Seconds: small matrices, few realisations.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for page, tables and pictures.")] = Path(
        "referee"
    ),
    seed: RootSeed = 0,
    debug: o.Debug = False,
) -> None:
    """What a referee of the paper would ask, answered by experiments.

    Exact complexities beside every bound, wrong side information, how many observations each
    method needs, and whether a bound ranks methods or kernels as their losses do.
    """
    with Session(debug=debug):
        from kronfill.paper.referee.study import (
            RefereePlan,
            quick_referee,
            run_referee,
            write_referee,
        )

        plan = quick_referee(seed) if quick else RefereePlan(seed=seed)
        with progress_bar(console) as progress:
            study = run_referee(plan, progress)
        page = write_referee(study, out)
        for question, _, answer in study.answers:
            console.print(f"[bold]{question}[/bold]\n{answer}", highlight=False)
        console.print(f"Page:  {page}", highlight=False)


@reproduce_app.command("constants", cls=Command)
def reproduce_constants(
    quick: Annotated[
        bool, typer.Option("--quick", help="N up to 400, a few realisations.")
    ] = False,
    sizes: Sizes = None,
    realizations: Realizations = None,
    workers: Workers = 0,
    out: Annotated[Path, typer.Option(help="Folder for cells, table and picture.")] = Path(
        "constants"
    ),
    seed: RootSeed = 0,
    debug: o.Debug = False,
) -> None:
    """Figure 1 for other values of the two constants that the paper does not state.

    A run that was interrupted goes on where it was: call the same command again.
    """
    with Session(debug=debug):
        from kronfill.paper.pairs import pairs_plan, run_pairs, what_hangs_on_it, write_pairs
        from kronfill.paper.running.backends import backend_for
        from kronfill.paper.running.runner import RunWatcher

        plan = _plan(pairs_plan(quick, seed), sizes, realizations, None, None)
        backend = backend_for(workers or os.cpu_count() or 1, None)
        with progress_bar(console) as progress:
            found = run_pairs(plan, out, backend, RunWatcher(progress))
        page = write_pairs(found, out)
        console.print(f"{what_hangs_on_it(found)}\nPage:  {page}", highlight=False)


def _reproduce_fig1(
    quick: bool,
    sizes: str | None,
    realizations: str | None,
    snr: str | None,
    methods: str | None,
    workers: int,
    scheduler: str | None,
    out: Path,
    seed: int,
) -> None:
    from kronfill.paper.fig1 import quick_plan, reproduce
    from kronfill.paper.running.backends import backend_for
    from kronfill.paper.running.runner import RunWatcher
    from kronfill.paper.running.spec import RunPlan

    base = quick_plan(seed) if quick else RunPlan(seed=seed)
    plan = _plan(base, sizes, realizations, snr, methods)
    backend = backend_for(workers or os.cpu_count() or 1, scheduler)
    try:
        with progress_bar(console) as progress:
            report = reproduce(plan, out, backend, RunWatcher(progress))
    except KeyboardInterrupt:
        console.print("Stopped; what was done is kept. The same command goes on from here.")
        raise typer.Exit(INTERRUPTED) from None
    for verdict in report.verdicts:
        where = f"({verdict.panel}) {verdict.algorithm:<7}{verdict.metric:<6}"
        console.print(f"{where}[bold]{verdict.word}[/bold]. {verdict.sentence}", highlight=False)
    console.print(f"Table: {report.table}\nPage:  {report.page}", highlight=False)
    for record in report.failed:
        console.print(f"[red]failed[/red] {record['key']}: {record['error'].strip()}")
    if report.failed:
        raise typer.Exit(1)


def _plan(
    base: RunPlan, sizes: str | None, realizations: str | None, snr: str | None, methods: str | None
) -> RunPlan:
    """The plan that was asked for; what is not said is taken from `base`."""
    from kronfill.paper.running.spec import RunPlan, panel_of

    chosen = tuple(base.counts) if methods is None else tuple(_items(methods))
    counts = {name: base.counts.get(name, 1) for name in chosen}
    counts |= _counts(realizations, chosen)
    return RunPlan(
        sizes=base.sizes if sizes is None else tuple(_number(x, int) for x in _items(sizes)),
        panels=base.panels
        if snr is None
        else tuple(panel_of(_number(x, float)) for x in _items(snr)),
        counts=counts,
        seed=base.seed,
    )


def _counts(realizations: str | None, chosen: tuple[str, ...]) -> dict[str, int]:
    if realizations is None:
        return {}
    if "=" not in realizations:
        return dict.fromkeys(chosen, _number(realizations, int))
    pairs = (item.partition("=") for item in _items(realizations))
    return {name: _number(count, int) for name, _, count in pairs}


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _number(text: str, kind: type[Any]) -> Any:
    try:
        return kind(text)
    except ValueError:
        message = f"{text!r} is not {'a whole number' if kind is int else 'a number'}"
        raise typer.BadParameter(message) from None

"""All commands, put together."""

from __future__ import annotations

import sys
from typing import Annotated, Any

try:
    import rich  # noqa: F401
    import typer
except ImportError:  # pragma: no cover - depends on what is installed
    msg = "The command line needs: pip install 'kronfill[cli,tables]'"
    raise SystemExit(msg) from None

from kronfill.cli.commands.complete import complete
from kronfill.cli.commands.evaluate import evaluate
from kronfill.cli.commands.info import info
from kronfill.cli.commands.model import bound, predict, suggest
from kronfill.cli.commands.reproduce import reproduce_app
from kronfill.cli.commands.showcase import bench, demo
from kronfill.cli.helps import Command, Group
from kronfill.cli.session import FAILED, flush_results

__all__ = ["app", "run"]

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from kronfill import __version__

        typer.echo(f"kronfill {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Complete a partly observed matrix from what is known about its rows and columns.

    kronfill complete ratings.csv --rows users.csv --cols items.csv --report report.html
    """


for _command in (complete, predict, evaluate, suggest, bound, info, bench, demo):
    app.command(cls=Command)(_command)
app.add_typer(reproduce_app, name="reproduce")


def run() -> None:
    """Run the command that was asked for, and leave with its exit code."""
    code: Any = 0
    failed = None
    try:
        app()
    except SystemExit as end:
        code = end.code
    except OSError as error:  # what is printed outside of a session, such as --help
        failed = error
    trouble = flush_results(failed)
    if trouble:
        typer.echo(f"Error: {trouble}", err=True)
    sys.exit(FAILED if trouble else code)

"""What every command shares: what is said and where, progress, errors, exit codes."""

from __future__ import annotations

import json
import math
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kronfill.errors import KronfillError, KronfillWarning, MemoryLimitError

__all__ = ["FAILED", "INTERRUPTED", "MISUSED", "Session"]

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
"""Exit codes: the work failed, the input or the options cannot be used, Ctrl-C."""
SECOND = 1.0


class Session:
    """One run of a command, as a context: errors become messages and exit codes.

    Results go to standard output; what is found and done, progress and errors to standard error.
    With ``--json`` standard output is one JSON object.
    """

    def __init__(self, quiet: bool = False, as_json: bool = False, debug: bool = False) -> None:
        self.out = Console(highlight=False, soft_wrap=True)
        self.err = Console(stderr=True, highlight=False, soft_wrap=True)
        self.quiet = quiet or as_json
        self.as_json = as_json
        self.debug = debug
        self.facts: dict[str, Any] = {}
        self._caught: warnings.catch_warnings[Any] | None = None

    # What is said.

    def note(self, text: str) -> None:
        """Say what was found or is done, unless the command is to be quiet."""
        if not self.quiet:
            self.err.print(escape(text))

    def warn(self, text: str) -> None:
        """Say what the user should look at, quiet or not."""
        self.facts.setdefault("warnings", []).append(text)
        if not self.as_json:
            self.err.print(f"[yellow]Note:[/yellow] {escape(text)}")

    def fact(self, **facts: Any) -> None:
        """Keep something for the JSON object."""
        self.facts.update(facts)

    def result(self, text: str) -> None:
        """Print a result."""
        if not self.as_json:
            self.out.print(escape(text))

    def table(self, title: str, names: list[str], lines: list[list[Any]]) -> None:
        """Print a table of results."""
        if self.as_json:
            return
        grid = Table(title=title or None, title_justify="left", header_style="bold", box=None)
        for j, name in enumerate(names):
            numeric = bool(lines) and all(isinstance(line[j], int | float) for line in lines)
            grid.add_column(escape(name), justify="right" if numeric else "left", no_wrap=True)
        for line in lines:
            grid.add_row(*(escape(_cell(value)) for value in line))
        width = max(self.out.width, 20 + sum(12 + len(name) for name in names))
        self.out.print(grid, width=None if self.out.is_terminal else width)

    @contextmanager
    def stage(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show that something goes on, and for how long; what takes a second leaves a line.

        The function that is handed out says which part of it is being done.
        """
        begun = time.perf_counter()
        with self._spinner(what) as say:
            yield say
        seconds = time.perf_counter() - begun
        if seconds >= SECOND:
            self.note(f"{what}: {seconds:.1f} s")

    @contextmanager
    def _spinner(self, what: str) -> Iterator[Callable[[str], None]]:
        if self.quiet or not self.err.is_terminal:
            yield lambda _part: None
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self.err, transient=True) as progress:
            task = progress.add_task(escape(what), total=None)
            yield lambda part: progress.update(task, description=escape(f"{what}: {part}"))

    # The run as a whole.

    def __enter__(self) -> Self:
        self._caught = warnings.catch_warnings()
        self._caught.__enter__()
        warnings.simplefilter("default", KronfillWarning)
        warnings.showwarning = self._show
        return self

    def _show(self, message: Any, category: Any, *rest: Any, **more: Any) -> None:
        if issubclass(category, KronfillWarning):
            self.warn(str(message))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._caught is not None:
            self._caught.__exit__(kind, error, trace)
        code, text = _verdict(error)
        if code is None:
            return
        if self.as_json:
            whole = {"ok": error is None, **self.facts} | ({"error": text} if text else {})
            sys.stdout.write(json.dumps(_plain(whole), indent=2, ensure_ascii=False) + "\n")
        if error is None:
            return
        if self.debug:
            self.err.print("".join(traceback.format_exception(error)), markup=False)
        self.err.print(f"[red]Error:[/red] {escape(text)}")
        raise typer.Exit(code) from None


def _verdict(error: BaseException | None) -> tuple[int | None, str]:
    """Exit code and message of what went wrong; no code for what is not ours to handle."""
    if error is None:
        return 0, ""
    if isinstance(error, MemoryLimitError):
        return FAILED, str(error)
    if isinstance(error, KronfillError):
        return MISUSED, _as_options(str(error))
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "Interrupted; nothing was written."
    if isinstance(error, MemoryError):
        return FAILED, "There is not enough memory; --dry-run tells how much is needed."
    if isinstance(error, OSError):
        return (
            FAILED,
            f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}.",
        )
    if isinstance(error, typer.Exit | typer.Abort | SystemExit) or _is_usage(error):
        return None, ""
    text = (
        f"{type(error).__name__}: {error}. This should not happen: please report it, with what "
        "--debug shows."
    )
    return FAILED, text


def _is_usage(error: BaseException) -> bool:
    return type(error).__module__.split(".")[0] in ("click", "typer")


_SPELLINGS = {
    "unmatched='keep'": "--unmatched keep",
    "unmatched='drop'": "--unmatched drop",
    "duplicates='mean'": "--duplicates mean",
    "intervals='calibrated'": "--intervals calibrated",
    "center='mean'": "--center mean",
    "Give rows= or cols=, or use method='mc'.": "Give --rows or --cols, or use --method mc.",
    "method='imc'": "--method imc",
    "for rows=": "for --rows",
    "for cols=": "for --cols",
}


def _as_options(text: str) -> str:
    """The library names its parameters as Python spells them; here they are options."""
    for python, option in _SPELLINGS.items():
        text = text.replace(python, option)
    return text


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    """What JSON can say: numpy scalars as numbers, no NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)

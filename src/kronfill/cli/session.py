"""What every command shares: what is said and where, progress, errors, exit codes."""

from __future__ import annotations

import json
import math
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from kronfill._progress import Progress, TimeLeft, told_to
from kronfill.errors import (
    KronfillError,
    KronfillWarning,
    MemoryLimitError,
    ModelFileError,
    NotPSDError,
    StorageError,
)

__all__ = ["FAILED", "INTERRUPTED", "MISUSED", "SECOND", "Session", "flush_results"]

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
"""Exit codes: the work failed, the input or the options cannot be used, Ctrl-C."""
SECOND = 1.0
EVERY = 5.0
"""Seconds between two lines about progress where one cannot be written over another."""
LABEL = 12
"""Width of a column of labels below which a terminal breaks lines instead."""
DIGITS = 1e4
"""Numbers of a column are written alike if the largest is less than so many times the least."""
SMALL = 1e-6
"""Columns of smaller numbers are written with powers of ten."""


class Session:
    """One run of a command, as a context: errors become messages and exit codes.

    Results go to standard output; what is found and done, progress and errors to standard error.
    With ``--json`` standard output is one JSON object.
    """

    def __init__(self, quiet: bool = False, as_json: bool = False, debug: bool = False) -> None:
        self.out, self.err = _console(stderr=False), _console(stderr=True)
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
            self._print(escape(text))

    def table(self, title: str, names: list[str], lines: list[list[Any]]) -> None:
        """Print a table of results."""
        if self.as_json:
            return
        grid = Table(title=title or None, title_justify="left", header_style="bold", box=None)
        columns: list[list[str]] = []
        needed = 0
        for j, name in enumerate(names):
            values = [line[j] for line in lines]
            numeric = bool(lines) and all(isinstance(value, int | float) for value in values)
            cells = _cells(values)
            columns.append(cells)
            width = max(cell_len(cell) for cell in (name, *cells))
            if numeric:  # on a narrow terminal labels are broken, numbers never cut
                grid.add_column(escape(name), justify="right", min_width=width)
            else:
                grid.add_column(escape(name), overflow="fold")
                width = min(width, LABEL) if self.out.is_terminal else width
            needed += width + 2
        for line_cells in zip(*columns, strict=True):
            grid.add_row(*map(escape, line_cells))
        there = self.out.width
        self.out.width = max(there, needed)
        self._print(grid)
        self.out.width = there

    def _print(self, what: Any) -> None:
        try:
            self.out.print(what)
        except OSError as error:
            raise StorageError(flush_results(error)) from error

    @contextmanager
    def stage(self, what: str) -> Iterator[Callable[[str], None]]:
        """Show that something goes on, and for how long; what takes a second leaves a line.

        The function that is handed out says which part of it is being done.
        """
        begun = time.perf_counter()
        with self._spinner(what) as say, told_to(_in_words(say)):
            yield say
        seconds = time.perf_counter() - begun
        if seconds >= SECOND:
            self.note(f"{what}: {seconds:.1f} s")

    @contextmanager
    def _spinner(self, what: str) -> Iterator[Callable[[str], None]]:
        if self.quiet:
            yield lambda _part: None
            return
        if not self.err.is_terminal:
            yield self._now_and_then(what)
            return
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self.err, transient=True) as progress:
            task = progress.add_task(escape(what), total=None)
            yield lambda part: progress.update(task, description=escape(f"{what}: {part}"))

    def _now_and_then(self, what: str) -> Callable[[str], None]:
        """Write a line where nothing can be written over, if some seconds have passed."""
        begun = last = time.perf_counter()

        def say(part: str) -> None:
            nonlocal last
            now = time.perf_counter()
            if now - last >= EVERY:
                last = now
                self.note(f"{what}: {part} ({now - begun:.0f} s)")

        return say

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
        failed = self._write_json(error is None, text) if self.as_json else None
        lost = flush_results(failed)
        if lost:
            code, text = code or FAILED, f"{text} {lost}".strip()
        if not text:
            return
        with suppress(OSError):  # where nothing can be said, the exit code says it
            if self.debug and error is not None:
                trace_text = "".join(traceback.format_exception(error))
                self.err.print(trace_text, markup=False, soft_wrap=True)
            self.err.print(f"[red]Error:[/red] {escape(text)}")
        raise typer.Exit(code) from None

    def _write_json(self, ok: bool, text: str) -> OSError | None:
        """Print the JSON object; what went wrong if that failed."""
        whole = {"ok": ok, **self.facts} | ({"error": text} if text else {})
        try:
            typer.echo(json.dumps(_plain(whole), indent=2, ensure_ascii=False))
        except OSError as error:
            return error
        return None


def _in_words(say: Callable[[str], None]) -> Progress:
    """Whatever is done says how far it is, with the time left where that can be told."""
    left = TimeLeft()

    def show(what: str, done: float, total: float | None) -> None:
        rest = left(what, done, total)
        share = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        say(f"{what}: {share}" + ("" if rest is None else f", about {rest:.0f} s left"))

    return show


def flush_results(failed: OSError | None = None) -> str:
    """Have standard output written; a sentence if it cannot be, or could not be before.

    What it was to hold is dropped then: Python would try to write it once more at the end.
    """
    try:
        if failed is None and sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        failed = error
    if failed is None:
        return ""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"Standard output cannot be written: {failed.strerror or failed}."


def _console(stderr: bool) -> Console:
    """On a terminal lines break between words; in files and pipes they stay whole."""
    console = Console(stderr=stderr, highlight=False)
    console.soft_wrap = not console.is_terminal
    return console


def _verdict(error: BaseException | None) -> tuple[int | None, str]:
    """Exit code and message of what went wrong; no code for what is not ours to handle."""
    if error is None:
        return 0, ""
    if isinstance(error, MemoryLimitError | StorageError):
        return FAILED, _message(error)
    if isinstance(error, KronfillError):
        return MISUSED, _message(error)
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


_OPTIONS = {
    "value_range": "--range", "work_dir": "folder (--work-dir)", "rows=...": "--rows FILE",
    "cols=...": "--cols FILE", "mu=...": "--mu NUMBER",
}  # fmt: skip
"""Parameters that are not called here as in Python, or of which the kind of value is said."""
_ADVICE: dict[type[KronfillError], str] = {
    ModelFileError: "Give one that was written with 'kronfill complete --save'.",
    NotPSDError: "No items can be as similar as it says. Take its lines as features (--rows-as "
    "features, --cols-as features), or project it in Python with kronfill.kernels.nearest_psd.",
}
"""What to try where the library says what to try in Python."""


def _message(error: KronfillError) -> str:
    """What the library says, with options in place of parameters."""
    return error.spelled(_option, _ADVICE.get(type(error)))


def _option(parameter: str) -> str:
    """The option for a parameter that is spelt as in Python."""
    name, _, value = parameter.partition("=")
    value = "" if value == "True" else value.strip("'")
    return _OPTIONS.get(parameter) or f"--{name.replace('_', '-')} {value}".strip()


def _cells(values: list[Any]) -> list[str]:
    """A column of a table: numbers of about the same size have the same number of decimals."""
    sizes = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v) and v != 0]
    form = ".4g"
    if sizes and SMALL < max(sizes) < DIGITS and max(sizes) < DIGITS * min(sizes):
        whole = all(float(size).is_integer() for size in sizes)
        form = f".{0 if whole else max(0, 3 - math.floor(math.log10(max(sizes))))}f"
    return [_cell(value, form) for value in values]


def _cell(value: Any, form: str) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:{form}}"
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

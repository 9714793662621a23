"""Progress that is shown in a way of its own: passes over a long table, cells of an experiment."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from kronfill._progress import Progress, ShareProgress, TimeLeft
from kronfill.cli.session import SECOND, Session
from kronfill.streaming.watching import Watcher

__all__ = ["PassProgress", "progress_bar", "with_time_left"]


class PassProgress(Watcher):
    """Says how far a fit is; a pass that takes a second leaves a line.

    Parameters
    ----------
    session : Session
        Where lines go.
    say : callable
        Shows what is being done now.
    """

    def __init__(self, session: Session, say: Callable[[str], None]) -> None:
        self._session, self._say = session, say
        self._number = self._iteration = 0
        self._begun = time.perf_counter()
        self._residual = ""

    @property
    def passes(self) -> int:
        """Number of the last pass."""
        return self._number

    def preparing(self, what: str, done: int, total: int) -> None:
        """See :class:`Watcher`."""
        self._say(f"{what}: {done:,} of {total:,}")

    def passing(self, number: int, done: int, total: int) -> None:
        """See :class:`Watcher`."""
        if number != self._number:
            self._number, self._begun = number, time.perf_counter()
        self._say(f"pass {number}, {done:,} of {total:,} partitions{self._residual}")

    def iterated(self, iteration: int, residual: float) -> None:
        """See :class:`Watcher`."""
        self._residual = f", residual {residual:.1e}"
        seconds = time.perf_counter() - self._begun
        if seconds >= SECOND:
            self._session.note(f"Pass {self._number}: residual {residual:.1e}, {seconds:.1f} s")


@contextmanager
def progress_bar(console: Console) -> Iterator[Progress]:
    """Show a bar with the time left."""
    from rich import progress as rich

    columns = (
        rich.TextColumn("{task.description}"), rich.BarColumn(),
        rich.TextColumn("{task.percentage:>3.0f}%"), rich.TimeElapsedColumn(),
        rich.TextColumn("elapsed,"), rich.TimeRemainingColumn(), rich.TextColumn("left"),
    )  # fmt: skip
    with rich.Progress(*columns, console=console, speed_estimate_period=120.0) as bar:
        task = bar.add_task("", total=None, visible=False)

        def show(what: str, done: float, total: float | None) -> None:
            bar.update(task, description=what, completed=done, total=total, visible=True)

        yield show


def with_time_left(say: Callable[[str], None]) -> ShareProgress:
    """Say what is being done, which share is done, and about how long the rest will take."""
    left = TimeLeft()

    def show(what: str, share: float) -> None:
        rest = left("", share, 1.0)
        say(f"{what}, {100 * share:.0f}%" + ("" if rest is None else f", about {rest:.0f} s left"))

    return show

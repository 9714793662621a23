"""Progress of a fit to a long table: what is done before, then pass by pass."""

from __future__ import annotations

import time
from collections.abc import Callable

from kronfill.cli.session import SECOND, Session
from kronfill.streaming.watching import Watcher

__all__ = ["PassProgress"]


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

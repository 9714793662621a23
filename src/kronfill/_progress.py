"""How far a piece of work is: one protocol for all who do long work, one printer for who asks.

Whoever does the work calls a :class:`Progress`; whoever shows it is one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

__all__ = [
    "Progress", "ProgressPrinter", "ShareProgress", "TimeLeft", "as_progress", "silent", "tell",
    "told_to",
]  # fmt: skip

SECOND = 1.0
"""What takes less is not worth a word about the time left."""
EVERY = 5.0
"""Seconds between two lines where one line cannot be written over another."""


class Progress(Protocol):
    """Is told how far a piece of work is."""

    def __call__(self, what: str, done: float, total: float | None) -> None:
        """Take notice: of ``what``, ``done`` out of ``total`` is through (None: nobody knows)."""


def silent(what: str, done: float, total: float | None) -> None:
    """Say nothing: a :class:`Progress` for nobody."""


_listener: ContextVar[Progress] = ContextVar("progress", default=silent)


@contextmanager
def told_to(progress: Progress) -> Iterator[None]:
    """Whatever is done in this context, and says how far it is, says so to ``progress``.

    Examples
    --------
    >>> from kronfill._progress import tell, told_to
    >>> with told_to(lambda what, done, total: print(what, done, "of", total)):
    ...     tell("files read", 1, 3)
    files read 1 of 3
    """
    before = _listener.set(progress)
    try:
        yield
    finally:
        _listener.reset(before)


def tell(what: str, done: float, total: float | None) -> None:
    """Say how far a piece of work is, to whoever has asked."""
    _listener.get()(what, done, total)


def as_progress(progress: Any, name: str) -> Progress:
    """What a parameter ``progress`` stands for: True, False or a :class:`Progress`."""
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    return ProgressPrinter(name) if progress else _listener.get()


ShareProgress = Callable[[str, float], None]
"""Is told what is being done and which share of the whole, from 0 to 1, is done."""


class TimeLeft:
    """Guesses the seconds that are left from those that have passed.

    Parameters
    ----------
    clock : callable, optional
        Tells the time in seconds.

    Examples
    --------
    >>> from kronfill._progress import TimeLeft
    >>> left = TimeLeft(clock=iter([0.0, 3.0]).__next__)
    >>> left("files read", 0, 8), left("files read", 2, 8)
    (None, 9.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._what: str | None = None

    def __call__(self, what: str, done: float, total: float | None) -> float | None:
        """Return the seconds left, None where there is nothing to tell it from."""
        now = self._clock()
        if what != self._what:
            self._what, self._begun, self._first = what, now, done
        if total is None or done <= self._first:
            return None
        return (now - self._begun) * (total - done) / (done - self._first)


class ProgressPrinter:
    """Writes progress to standard error: a line that changes, or a line now and then in a pipe.

    Parameters
    ----------
    name : str
        What each line begins with.
    clock : callable, optional
        Tells the time in seconds.

    Examples
    --------
    >>> import contextlib, io
    >>> from kronfill._progress import ProgressPrinter
    >>> with contextlib.redirect_stderr(io.StringIO()) as pipe:
    ...     show = ProgressPrinter("Sorting")
    ...     for done in range(5):
    ...         show("files read", done, 4)
    >>> pipe.getvalue().splitlines()
    ['Sorting: files read: 0 of 4', 'Sorting: files read: 4 of 4']
    """

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock = name, clock
        self._left = TimeLeft(clock)
        self._next = -float("inf")

    def __call__(self, what: str, done: float, total: float | None) -> None:
        """See :class:`Progress`."""
        left = self._left(what, done, total)
        share = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        rest = f", about {left:.0f} s left" if left is not None and left >= SECOND else ""
        self.line(f"{what}: {share}{rest}", last=done == total)

    def line(self, text: str, last: bool = False) -> None:
        """Write a line; ``last`` if nothing will be written over it."""
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{self._name}: {text}" + "\n" * last)
        elif last or self._clock() >= self._next:
            sys.stderr.write(f"{self._name}: {text}\n")
            self._next = self._clock() + EVERY
        sys.stderr.flush()

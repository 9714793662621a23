"""Whoever wants to know how far a long fit is."""

from __future__ import annotations

from kronfill._progress import Progress, silent

__all__ = ["Watcher"]


class Watcher:
    """Is told how far a fit to a long table is, and passes it on.

    Parameters
    ----------
    progress : callable, optional
        Called with what is being done, how much of it is done, and of how much.

    Examples
    --------
    >>> from kronfill.streaming.watching import Watcher
    >>> Watcher(lambda what, done, total: print(f"{what}: {done} of {total}")).passing(3, 1, 8)
    pass 3, partitions: 1 of 8
    >>> class Loud(Watcher):
    ...     def passing(self, number, done, total):
    ...         print(f"pass {number}, {done} of {total} partitions")
    >>> Loud().passing(3, 1, 8)
    pass 3, 1 of 8 partitions
    """

    _progress: Progress = staticmethod(silent)

    def __init__(self, progress: Progress = silent) -> None:
        self._progress = progress

    def preparing(self, what: str, done: int, total: int) -> None:
        """Before the first pass: ``done`` of ``total`` pieces or partitions are ready."""
        self._progress(what, done, total)

    def passing(self, number: int, done: int, total: int) -> None:
        """During pass ``number`` over the observations, from 1: ``done`` partitions are through."""
        self._progress(f"pass {number}, partitions", done, total)

    def iterated(self, iteration: int, residual: float) -> None:
        """After an iteration: its number and the relative residual."""

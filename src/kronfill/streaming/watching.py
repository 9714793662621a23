"""Whoever wants to know how far a long fit is."""

from __future__ import annotations

__all__ = ["Watcher"]


class Watcher:
    """Is told how far a fit to a long table is; says nothing by itself.

    Examples
    --------
    >>> from kronfill.streaming.watching import Watcher
    >>> class Loud(Watcher):
    ...     def passing(self, number, done, total):
    ...         print(f"pass {number}, {done} of {total} partitions")
    >>> Loud().passing(3, 1, 8)
    pass 3, 1 of 8 partitions
    """

    def preparing(self, what: str, done: int, total: int) -> None:
        """Before the first pass: ``done`` of ``total`` pieces or partitions are ready."""

    def passing(self, number: int, done: int, total: int) -> None:
        """During pass ``number`` over the observations, from 1: ``done`` partitions are through."""

    def iterated(self, iteration: int, residual: float) -> None:
        """After an iteration: its number and the relative residual."""

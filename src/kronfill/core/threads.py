"""Who works: compiled loops on threads of our own, BLAS kept from fighting with them.

The compiled loops release Python's global lock, so that ordinary threads can run them. Numba's own
parallel loops would take seconds more to compile, and may not be called by two threads at once.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import numba

__all__ = ["WIDE", "each", "one_blas_thread", "one_thread", "over"]

GRAIN = 1 << 15
"""Elements below which a thread is not worth waking."""
WIDE = 600
"""Below this width of a matrix the threads of BLAS cost more than they save."""


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, int(numba.config.NUMBA_NUM_THREADS) - 1), "kronfill")  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):  # a forked process has no threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def each(count: int, job: Callable[[int], None]) -> None:
    """Call job(0), ..., job(count - 1) on as many threads as ``numba.set_num_threads`` allows.

    The calling thread does its share; whoever is free takes the next number.
    """
    numbers = iter(range(count))

    def work() -> None:
        for i in numbers:
            job(i)

    helpers = range(min(count, numba.get_num_threads()) - 1)
    others = [_pool().submit(work) for _ in helpers]
    try:
        work()
    finally:
        deque(numbers, 0)  # after an error or an interrupt nobody begins anything more
        for other in others:
            if not other.cancel():
                other.result()


def over(n: int, job: Callable[[int, int], None]) -> None:
    """Call job(first, last) on ranges that cover 0, ..., n - 1."""
    pieces = max(1, min(32, n // GRAIN))
    each(pieces, lambda i: job(n * i // pieces, n * (i + 1) // pieces))


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread(when: bool = True) -> Iterator[None]:
    """Keep BLAS to one thread inside; what was set before comes back when the last one leaves.

    Nothing is done unless ``when`` holds.
    """
    if not when:
        yield
        return
    _single.enter()
    try:
        yield
    finally:
        _single.leave()


class _Single:
    """The setting belongs to the process: whoever comes first sets it, the last one resets it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _blas().limit(limits=1, user_api="blas")
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_single = _Single()


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread altogether: for problems so small that waking others costs more."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        numba.set_num_threads(before)

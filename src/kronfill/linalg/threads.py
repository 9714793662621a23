"""How many threads work: BLAS's own would fight with those of the compiled loops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numba

__all__ = ["one_blas_thread", "one_thread"]

_inside = threading.local()


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread inside; what was set before comes back afterwards."""
    if getattr(_inside, "blas", False):
        yield
        return
    with _blas().limit(limits=1, user_api="blas"):
        _inside.blas = True
        try:
            yield
        finally:
            _inside.blas = False


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

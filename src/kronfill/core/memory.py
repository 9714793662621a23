"""Memory is predicted before work starts; what would not fit is refused."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, ClassVar, Generic, TypeVar

from kronfill.data.amounts import size_of
from kronfill.errors import MemoryLimitError

__all__ = ["KEPT_BYTES", "Kept", "available_memory", "require_memory"]

KEPT_BYTES = 300_000_000
"""What fits leave for later use takes up to this in all: the factor of a system of 6,000."""
T = TypeVar("T")


def available_memory() -> int | None:
    """Bytes that can be allocated now, or None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as info:
            for line in info:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def require_memory(needed: float, what: str, advice: str) -> None:
    """Raise :class:`MemoryLimitError` if ``needed`` bytes are more than there are."""
    free = available_memory()
    if free is not None and needed > free:
        msg = f"{what} needs {size_of(needed)}, {size_of(free)} are available. {advice}"
        raise MemoryLimitError(msg)


class Kept(Generic[T]):
    """Something large that is kept for later use, and could be made again.

    It goes with whoever holds this object. All of them together take up to KEPT_BYTES: when one
    more would be too much, older ones are let go, and their ``value`` is None.
    """

    _alive: ClassVar[list[weakref.ref[Kept[Any]]]] = []
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, value: T, nbytes: int) -> None:
        self.value: T | None = value
        self._nbytes = nbytes
        with Kept._lock:
            others = (ref() for ref in Kept._alive)
            total, alive = 0, [self, *(one for one in others if one is not None)]
            for one in alive:
                if total + one._nbytes > KEPT_BYTES:
                    one.value = None
                else:
                    total += one._nbytes
            Kept._alive = [weakref.ref(one) for one in alive if one.value is not None]

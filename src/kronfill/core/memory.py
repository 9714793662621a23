"""Memory is predicted before work starts; what would not fit is refused."""

from __future__ import annotations

import os

from kronfill.data._counts import size_of
from kronfill.errors import MemoryLimitError

__all__ = ["available_memory", "require_memory"]


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

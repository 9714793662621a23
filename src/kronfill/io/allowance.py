"""How much a model file may become in memory: a small multiple of its own size.

Ten letters of a manifest can name an array of a megabyte, and a list of them can do so a million
times. Whatever is made from a file is therefore counted while it is made, each time that it is
named, and a file that would become too much is refused before it does.
"""

from __future__ import annotations

from kronfill.data._counts import size_of

__all__ = ["FREE", "TIMES", "Allowance", "Inconsistent"]

FREE = 2**26
"""Bytes that every file may take, however small it is."""
TIMES = 32
"""Bytes that it may take besides for each of its own; the manifest as JSON takes as many again."""


class Inconsistent(Exception):
    """What a file says does not fit together; its message becomes a part of ModelFileError's."""


class Allowance:
    """What a file of so many bytes may still take.

    Time follows memory: whatever is looked through is counted too, whether or not it is copied.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._left = FREE + TIMES * size

    def spend(self, amount: int) -> None:
        """Count some bytes."""
        self._left -= amount
        if self._left < 0:
            msg = (
                f"its {self.size} bytes stand for more than {size_of(FREE + TIMES * self.size)} of "
                "values, more than any model of this size has"
            )
            raise Inconsistent(msg)

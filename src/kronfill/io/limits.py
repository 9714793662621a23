"""What a file may not do: become far more than it is, or make a search endless.

Ten letters of a manifest can name an array of a megabyte, and a list of them can do so a million
times. Whatever is made from a file is therefore counted while it is made, each time that it is
named, and a file that would become too much is refused before it does.

Python finds an item in a dictionary by its hash, and different numbers can be chosen to have the
same one: multiples of 2^61 - 1, and tuples of them. Among thousands of those every search looks at
all, so that a dictionary of them takes hours to build. Nothing that was not made for this purpose
has more than a few.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np

from kronfill.data.amounts import size_of

__all__ = ["FREE", "TIMES", "Allowance", "Inconsistent", "distinguishable", "refuse"]

FREE = 2**26
"""Bytes that every file may take, however small it is."""
TIMES = 32
"""Bytes that it may take besides for each of its own; the manifest as JSON takes as many again."""
FEW = 100
"""Items that may share a hash."""


class Inconsistent(Exception):
    """What a file says does not fit together; its message becomes a part of ModelFileError's."""


def refuse(what: str) -> NoReturn:
    """Say what is wrong, in words that go on after a colon."""
    raise Inconsistent(what)


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
            refuse(
                f"its {self.size} bytes stand for more than {size_of(FREE + TIMES * self.size)} of "
                "values, more than any model of this size has"
            )


def distinguishable(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the items, if not more than a few different ones share a hash."""
    if len(items) <= FEW:
        return items
    hashes = np.fromiter(map(_hash, items), np.int64, len(items))
    found, counts = np.unique(hashes, return_counts=True)
    often = set(found[counts > FEW].tolist())
    if often and _have_many(zip(items, hashes.tolist(), strict=True), often):
        refuse("it has items that differ but have the same hash, as if to make a search endless")
    return items


def _have_many(pairs: Iterable[tuple[Any, int]], often: set[int]) -> bool:
    """Whether more than a few different items have one of the hashes that occur often."""
    different: dict[int, list[Any]] = {key: [] for key in often}
    for item, key in pairs:
        if key in often and item not in different[key]:
            different[key].append(item)
            if len(different[key]) > FEW:
                return True
    return False


def _hash(item: Any) -> int:
    try:
        return hash(item)
    except TypeError:  # a list, an array: no key of any dictionary
        return id(item)

"""Items made to be mistaken for each other by dictionaries.

Python finds an item in a dictionary by its hash, and different numbers can be chosen to have the
same one: multiples of 2^61 - 1, and tuples of them. Among thousands of those every search looks at
all, so that a dictionary of them takes hours to build. Nothing that was not made for this purpose
has more than a few.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kronfill.io.allowance import Inconsistent

__all__ = ["distinguishable"]

FEW = 100


def distinguishable(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the items, if not more than a few different ones share a hash."""
    if len(items) <= FEW:
        return items
    hashes = np.fromiter(map(_hash, items), np.int64, len(items))
    found, counts = np.unique(hashes, return_counts=True)
    often = set(found[counts > FEW].tolist())
    if often and _have_many(zip(items, hashes.tolist(), strict=True), often):
        msg = "it has items that differ but have the same hash, as if to make a search endless"
        raise Inconsistent(msg)
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

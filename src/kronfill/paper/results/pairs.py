"""Two methods on the same realisations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Pair", "paired", "ratio"]

Rows = list[Mapping[str, Any]]
Pair = tuple[Rows, Rows]


def paired(
    records: Iterable[Mapping[str, Any]], first: str, second: str
) -> dict[tuple[str, int], Pair]:
    """Cells of two methods on the realisations that both have.

    Parameters
    ----------
    records : iterable of mapping
        Rows of a store.
    first, second : str
        The methods.

    Returns
    -------
    dict
        From (panel, N) to the rows of the first and of the second method, in the same order.

    Examples
    --------
    >>> from kronfill.paper.results.pairs import paired
    >>> cell = {"status": "done", "panel": "a", "N": 100, "realization": 0}
    >>> found = paired([{**cell, "method": "mc"}, {**cell, "method": "kmc"}], "mc", "kmc")
    >>> [rows[0]["method"] for rows in found["a", 100]]
    ['mc', 'kmc']
    """
    found: dict[tuple[str, int], dict[int, dict[str, Mapping[str, Any]]]] = {}
    for row in records:
        if row["status"] == "done" and row["method"] in (first, second):
            where = found.setdefault((row["panel"], row["N"]), {})
            where.setdefault(row["realization"], {})[row["method"]] = row
    out = {}
    for key in sorted(found):
        both = [pair for _, pair in sorted(found[key].items()) if len(pair) == 2]
        if both:
            out[key] = ([pair[first] for pair in both], [pair[second] for pair in both])
    return out


def ratio(pair: Pair, column: str) -> tuple[float, float]:
    """How many times larger a number is for the first method than for the second.

    Parameters
    ----------
    pair : Pair
        Rows of both.
    column : str
        A positive number of theirs.

    Returns
    -------
    tuple of float
        Geometric mean of the ratios, and the factor of one standard error (NaN for one pair).

    Examples
    --------
    >>> from kronfill.paper.results.pairs import ratio
    >>> pair = [{"test": 2.0}, {"test": 8.0}], [{"test": 1.0}, {"test": 1.0}]
    >>> round(ratio(pair, "test")[0], 6)
    4.0
    """
    logs = np.log(_column(pair[0], column)) - np.log(_column(pair[1], column))
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return math.exp(float(logs.mean())), math.exp(error)


def _column(rows: Sequence[Mapping[str, Any]], column: str) -> Any:
    return np.array([row[column] for row in rows])

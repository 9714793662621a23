"""The 198 numbers of the paper's Figure 1."""

from __future__ import annotations

import csv
import math
from functools import cache
from importlib import resources

__all__ = ["ALGORITHMS", "METRICS", "PANELS", "REALIZATIONS", "SIZES", "paper_values"]

SIZES = tuple(range(100, 3101, 300))
"""N of the figure."""
PANELS = {"a": math.inf, "b": 4.0}
"""Signal to noise ratio of each panel."""
ALGORITHMS = ("MC", "KMC", "KKMCEX")
METRICS = ("train", "test", "ge")
REALIZATIONS = 1000
"""Over how many the paper's values are means."""


@cache
def _table() -> dict[tuple[str, str, str], dict[int, float]]:
    text = resources.files("kronfill.paper").joinpath("files", "fig1.csv").read_text("utf-8")
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for row in csv.DictReader(text.splitlines()):
        curve = found.setdefault((row["panel"], row["algorithm"], row["metric"]), {})
        curve[int(row["N"])] = float(row["value"])
    return found


def paper_values(panel: str, algorithm: str, metric: str) -> dict[int, float]:
    """One curve of the figure: from N to the printed value.

    Examples
    --------
    >>> from kronfill.paper.published import paper_values
    >>> round(paper_values("a", "KMC", "test")[1000], 4)
    0.0089
    """
    return dict(_table()[panel, algorithm, metric])

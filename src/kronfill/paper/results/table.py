"""Means over realisations, beside the paper's values."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kronfill.paper.methods import METHODS
from kronfill.paper.published import ALGORITHMS, METRICS, PANELS, paper_values

__all__ = ["Point", "curves", "summarize", "to_csv"]


@dataclass(frozen=True)
class Point:
    """One point of a curve: a row of the table.

    Attributes
    ----------
    panel, snr : str, float
        Which panel.
    algorithm : str
        Label of the method, see :data:`kronfill.paper.methods.METHODS`.
    metric : {"train", "test", "ge"}
        What is measured.
    N : int
        Size of the matrix.
    value, stderr : float
        Mean over realisations and its standard error (NaN for a single one).
    realizations : int
        How many.
    paper : float
        The paper's value, NaN where it has none.
    """

    panel: str
    snr: float
    algorithm: str
    metric: str
    N: int
    value: float
    stderr: float
    realizations: int
    paper: float

    @property
    def relative(self) -> float:
        """Deviation from the paper, as a share of its value."""
        return self.value / self.paper - 1.0

    @property
    def deviation(self) -> float:
        """Deviation from the paper in standard errors of ours."""
        return (self.value - self.paper) / self.stderr if self.stderr > 0 else math.nan


def summarize(records: Iterable[Mapping[str, Any]]) -> list[Point]:
    """Average the cells that are done.

    Parameters
    ----------
    records : iterable of mapping
        Rows of a store, in any order.

    Returns
    -------
    list of Point
        Ordered by panel, method, metric and size.
    """
    groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(records, key=lambda row: (row["realization"], row["key"])):
        if row["status"] == "done":
            groups[row["panel"], row["method"], row["N"]].append(row)
    order = list(METHODS)
    points = []
    for panel, method, size in sorted(groups, key=lambda k: (k[0], order.index(k[1]), k[2])):
        rows = groups[panel, method, size]
        for metric in METRICS:
            values = np.array([row[metric] for row in rows])
            points.append(_point(panel, method, size, metric, rows[0]["snr"], values))
    rank = {metric: k for k, metric in enumerate(METRICS)}
    labels = [method.label for method in METHODS.values()]
    points.sort(key=lambda p: (p.panel, labels.index(p.algorithm), rank[p.metric], p.N))
    return points


def _point(panel: str, method: str, size: int, metric: str, snr: float, values: Any) -> Point:
    count = len(values)
    error = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    paper = math.nan
    if panel in PANELS:
        paper = paper_values(panel, METHODS[method].algorithm, metric).get(size, math.nan)
    label = METHODS[method].label
    return Point(panel, snr, label, metric, size, float(values.mean()), error, count, paper)


def curves(points: Iterable[Point]) -> dict[tuple[str, str, str], list[Point]]:
    """Points of each curve, by panel, label of the method and metric.

    Parameters
    ----------
    points : iterable of Point
        What :func:`summarize` gives.

    Returns
    -------
    dict
        From (panel, label, metric) to the points in order of N.
    """
    found: dict[tuple[str, str, str], list[Point]] = defaultdict(list)
    for point in points:
        found[point.panel, point.algorithm, point.metric].append(point)
    return {key: sorted(row, key=lambda p: p.N) for key, row in found.items()}


def to_csv(points: Iterable[Point]) -> str:
    r"""The table as text, numbers in full so that equal runs give equal files.

    Parameters
    ----------
    points : iterable of Point
        What :func:`summarize` gives.

    Returns
    -------
    str

    Examples
    --------
    >>> from kronfill.paper.results.table import to_csv
    >>> to_csv([])
    'panel,snr,algorithm,metric,N,value,stderr,realizations,paper\n'
    """
    out = io.StringIO()
    names = [field.name for field in fields(Point)]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for point in points:
        row = [getattr(point, name) for name in names]
        writer.writerow(["" if isinstance(x, float) and math.isnan(x) else x for x in row])
    return out.getvalue()


def algorithms_shown() -> dict[str, str]:
    """Label of the method that stands for each algorithm of the paper in the figure."""
    return dict(zip(ALGORITHMS, ("MC (mu = 0.1)", "KMC (row-wise)", "KKMCEX"), strict=True))

"""The cells of a store put together: means beside the paper's values, pairs, costs."""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kronfill.paper.methods import METHODS
from kronfill.paper.published import ALGORITHMS, METRICS, PANELS, paper_values

__all__ = [
    "SOLVER_COLUMNS",
    "Point",
    "Records",
    "algorithms_shown",
    "costs",
    "curves",
    "from_csv",
    "in_order",
    "paired",
    "ratio",
    "samples_csv",
    "solver_means",
    "summarize",
    "to_csv",
]

Records = Sequence[Mapping[str, Any]]
"""Rows of a store."""
Pair = tuple[Records, Records]
SOLVER_COLUMNS = tuple(
    f"{what}, {how}"
    for what in ("objective", "sweeps", "test loss")
    for how in ("row-wise", "exact")
)
"""What :func:`solver_means` gives for the two solvers of KMC."""
SAMPLES = 3
"""Realisations of each point that are published one by one, to be run again from their seeds."""


@dataclass(frozen=True)
class Point:
    """One point of a curve: a row of the table."""

    panel: str
    snr: float
    algorithm: str
    """Label of the method, see :data:`kronfill.paper.methods.METHODS`."""
    metric: str
    """One of "train", "test" and "ge"."""
    N: int
    value: float
    """Mean over realisations."""
    stderr: float
    """Its standard error, NaN for a single realisation."""
    realizations: int
    paper: float
    """The paper's value, NaN where it has none."""

    @property
    def relative(self) -> float:
        """Deviation from the paper, as a share of its value."""
        return self.value / self.paper - 1.0

    @property
    def deviation(self) -> float:
        """Deviation from the paper in standard errors of ours."""
        return (self.value - self.paper) / self.stderr if self.stderr > 0 else math.nan


def summarize(records: Records) -> list[Point]:
    """Average the cells that are done; ordered by panel, method, metric and size."""
    groups: dict[tuple[str, str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(records, key=lambda row: (row["realization"], row["key"])):
        if row["status"] == "done":
            groups[row["panel"], row["method"], row["N"]].append(row)
    points = []
    for (panel, method, size), rows in groups.items():
        for metric in METRICS:
            values = np.array([row[metric] for row in rows])
            points.append(_point(panel, method, size, metric, rows[0]["snr"], values))
    return in_order(points)


def in_order(points: Iterable[Point]) -> list[Point]:
    """Points by panel, method, metric and size: the order of the table."""
    labels = [method.label for method in METHODS.values()]
    return sorted(
        points,
        key=lambda p: (p.panel, labels.index(p.algorithm), METRICS.index(p.metric), p.N),
    )


def _point(panel: str, method: str, size: int, metric: str, snr: float, values: Any) -> Point:
    count = len(values)
    error = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    paper = math.nan
    if panel in PANELS:
        paper = paper_values(panel, METHODS[method].algorithm, metric).get(size, math.nan)
    label = METHODS[method].label
    return Point(panel, snr, label, metric, size, float(values.mean()), error, count, paper)


def curves(points: Iterable[Point]) -> dict[tuple[str, str, str], list[Point]]:
    """Points of each curve in order of N, by panel, label of the method and metric."""
    found: dict[tuple[str, str, str], list[Point]] = defaultdict(list)
    for point in points:
        found[point.panel, point.algorithm, point.metric].append(point)
    return {key: sorted(row, key=lambda p: p.N) for key, row in found.items()}


def to_csv(points: Iterable[Point]) -> str:
    r"""The table as text, numbers in full so that equal runs give equal files.

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


def from_csv(text: str) -> list[Point]:
    """The points of a table that :func:`to_csv` wrote.

    Examples
    --------
    >>> from kronfill.paper.results.table import from_csv, to_csv
    >>> from_csv(to_csv([]))
    []
    """
    kinds = {"panel": str, "algorithm": str, "metric": str, "N": int, "realizations": int}
    found = []
    for row in csv.DictReader(text.splitlines()):
        values = {name: kinds.get(name, float)(x or "nan") for name, x in row.items()}
        found.append(Point(**values))
    return found


def samples_csv(records: Records) -> str:
    r"""The losses of the first realisations of every point, numbers in full.

    Examples
    --------
    >>> from kronfill.paper.results.table import samples_csv
    >>> cell = {"status": "done", "panel": "a", "N": 100, "realization": 0, "method": "kkmcex"}
    >>> print(samples_csv([{**cell, "train": 0.0, "test": 0.25, "ge": 0.25}]))
    panel,method,N,realization,train,test,ge
    a,kkmcex,100,0,0.0,0.25,0.25
    <BLANKLINE>
    """
    names = ("panel", "method", "N", "realization", *METRICS)
    first = [row for row in records if row["status"] == "done" and row["realization"] < SAMPLES]
    order = list(METHODS)
    first.sort(key=lambda r: (r["panel"], order.index(r["method"]), r["N"], r["realization"]))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([row[name] for name in names] for row in first)
    return out.getvalue()


def algorithms_shown() -> dict[str, str]:
    """Label of the method that stands for each algorithm of the paper in the figure."""
    return dict(zip(ALGORITHMS, ("MC (mu = 0.1)", "KMC (row-wise)", "KKMCEX"), strict=True))


def paired(records: Records, first: str, second: str) -> dict[tuple[str, int], Pair]:
    """Cells of two methods on the realisations that both have, in the same order, by panel and N.

    Examples
    --------
    >>> from kronfill.paper.results.table import paired
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
    out: dict[tuple[str, int], Pair] = {}
    for key in sorted(found):
        both = [pair for _, pair in sorted(found[key].items()) if len(pair) == 2]
        if both:
            out[key] = ([pair[first] for pair in both], [pair[second] for pair in both])
    return out


def ratio(pair: Pair, column: str) -> tuple[float, float]:
    """How many times larger a positive number is for the first method than for the second.

    The geometric mean of the ratios, and the factor of one standard error (NaN for one pair).

    Examples
    --------
    >>> from kronfill.paper.results.table import ratio
    >>> pair = [{"test": 2.0}, {"test": 8.0}], [{"test": 1.0}, {"test": 1.0}]
    >>> round(ratio(pair, "test")[0], 6)
    4.0
    """
    first, second = (np.log([row[column] for row in rows]) for rows in pair)
    logs = first - second
    error = float(logs.std(ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return math.exp(float(logs.mean())), math.exp(error)


def solver_means(pair: Pair, form: str) -> list[str]:
    """Means of the numbers of :data:`SOLVER_COLUMNS`, written in a format."""
    return [
        format(np.mean([row[column] for row in rows]), form)
        for column in ("objective", "sweeps", "test")
        for rows in pair
    ]


def costs(records: Records) -> list[tuple[str, int, float, float, float]]:
    """Median processor seconds of a cell: label of the method, N, data, fit, losses."""
    done = [row for row in records if row["status"] == "done"]
    found = []
    for name, method in METHODS.items():
        for size in sorted({row["N"] for row in done if row["method"] == name}):
            rows = [row for row in done if row["method"] == name and row["N"] == size]
            times = [
                float(np.median([row[f"seconds_{part}"] for row in rows]))
                for part in ("data", "fit", "losses")
            ]
            found.append((method.label, size, times[0], times[1], times[2]))
    return found

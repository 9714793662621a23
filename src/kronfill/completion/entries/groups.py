"""Groups of rows and columns, and how often intervals hold in each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kronfill._types import Floats, Index
from kronfill.completion.likelihood import possible_ends
from kronfill.completion.sides import category_of_items
from kronfill.data import Observations
from kronfill.errors import ParameterError, argument
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.conformal.left_out_errors import Around

__all__ = ["GroupCoverage", "Grouping", "coverage_by", "grouping"]


@dataclass(frozen=True, eq=False)
class Grouping:
    """The group of each row (axis 0) or column (1) as a number, and what groups are called."""

    axis: int
    codes: Index
    names: tuple[Any, ...]

    @property
    def pair(self) -> tuple[Index | None, Index | None]:
        """As for :class:`kronfill.ConformalRegressor`."""
        return (self.codes, None) if self.axis == 0 else (None, self.codes)

    def at(self, rows: Index, cols: Index) -> Index:
        """The group of each entry."""
        return np.asarray(self.codes[(rows, cols)[self.axis]])


@dataclass(frozen=True)
class GroupCoverage:
    """How often intervals hold in a group of entries.

    Attributes
    ----------
    group : object
        What it is called.
    entries : int
        Number of hidden entries in it.
    coverage : float
        Share of them inside the interval that the other hidden entries give; they count by their
        odds of being missing.
    width : float
        Median width of these intervals.
    """

    group: Any
    entries: int
    coverage: float
    width: float


def grouping(by: Any, model: MatrixRegressor, obs: Observations) -> Grouping:
    """Groups by row, by column, by a category in the side information, or by given labels.

    Parameters
    ----------
    by : {"row", "column", "observations"}, str, mapping or Series
        "observations": rows by quarters of their number of observations. Another text names a
        category in the features of rows or columns; a mapping or Series has a group for each
        label of the rows, or of the columns.
    model : estimator
        The fitted method, which knows the features.
    obs : Observations
        The labels.

    Returns
    -------
    Grouping
    """
    labels = [
        tuple(range(size)) if own is None else own
        for own, size in zip((obs.row_labels, obs.col_labels), obs.shape, strict=True)
    ]
    if isinstance(by, str):
        if by in ("row", "column"):
            axis = ("row", "column").index(by)
            return Grouping(axis, np.arange(obs.shape[axis]), labels[axis])
        if by == "observations":
            return _by_counts(obs)
        for axis in (0, 1):
            found = category_of_items(model, axis, by)
            if found is not None and len(found) == obs.shape[axis]:
                return _named(axis, found)
    elif hasattr(by, "items") or isinstance(by, Mapping):
        known = dict(by.items())
        for axis in (0, 1):
            if all(label in known for label in labels[axis]):
                return _named(axis, [known[label] for label in labels[axis]])
    msg = (
        f"{argument('by')} must be 'row', 'column', 'observations', the name of a category among "
        "the features of rows or columns, or a Series (or dict) with a group for every row, or for "
        f"every column, by label; got {by!r}."
    )
    raise ParameterError(msg)


def coverage_by(
    model: MatrixRegressor, part: Around, groups: Grouping, level: float
) -> list[GroupCoverage]:
    """How often the intervals of each group hold, from the errors that calibrate them."""
    if part.rows is None or part.cols is None:
        return []
    inside, weights = part.covered(level), part.counts()
    label = groups.at(part.rows, part.cols)
    low, high = part.at(np.column_stack([part.rows, part.cols]), level)
    finite = np.isfinite(low) & np.isfinite(high)  # too few errors make an end infinite
    middle = np.add(low, high, out=np.zeros(len(low)), where=finite) / 2
    low, high = possible_ends(model, low, high, middle)
    out = []
    for group in np.unique(label):
        mine = label == group
        share = float(weights[mine] @ inside[mine] / weights[mine].sum())
        width = float(np.median((high - low)[mine]))
        count = int(np.count_nonzero(mine))
        out.append(GroupCoverage(groups.names[int(group)], count, share, width))
    return out


def _by_counts(obs: Observations) -> Grouping:
    counts = obs.row_counts
    seen: Floats = counts[counts > 0].astype(float)
    edges = np.unique(np.quantile(seen, [0.25, 0.5, 0.75])) if len(seen) else np.zeros(0)
    codes = np.searchsorted(edges, counts, side="left")
    names = []
    for k in range(len(edges) + 1):
        mine = counts[(codes == k) & (counts > 0)]
        span = (int(mine.min()), int(mine.max())) if len(mine) else (0, 0)
        names.append(f"rows with {span[0]} to {span[1]} observations")
    return Grouping(0, codes.astype(np.intp), tuple(names))


def _named(axis: int, labels: Any) -> Grouping:
    names = sorted(set(labels), key=str)
    place = {name: k for k, name in enumerate(names)}
    return Grouping(axis, np.array([place[name] for name in labels], np.intp), tuple(names))

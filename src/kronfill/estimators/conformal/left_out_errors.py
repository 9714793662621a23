"""A fitted method and its errors on observations that it has not seen: ends of intervals follow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats, Index
from kronfill.estimators.base import MatrixRegressor, few_threads, index_pairs
from kronfill.estimators.gaussian_process.regressor import gaussian_process
from kronfill.masks import MaskModel
from kronfill.ridge.problem import RidgeProblem
from kronfill.uncertainty.posterior import DualPosterior
from kronfill.uncertainty.ranks import plus_ends, threshold

__all__ = [
    "Around",
    "LeavingFoldsOut",
    "LeavingItemsOut",
    "LeavingOneOut",
    "LeftOutErrors",
    "dual_problem",
    "joint_label",
]

CHUNK_FLOATS = 8_000_000
Ends = tuple[Floats, Floats]


class LeftOutErrors(ABC):
    """A fitted method and its errors on observations left out: ends of intervals follow."""

    model: Any

    @abstractmethod
    def errors(self) -> Floats:
        """Absolute errors on the observations left out, over the scale if there is one."""

    @abstractmethod
    def at(self, X: Any, coverage: float) -> Ends:
        """Lower and upper ends at index pairs."""


@dataclass(frozen=True, eq=False)
class Around(LeftOutErrors):
    """An interval around the prediction of one fit, as wide as errors on the rest were.

    Attributes
    ----------
    model : estimator
        The fit.
    scores : ndarray
        Errors over the scale, sorted.
    weights : ndarray, optional
        What each counts, 1 by default: odds of being missing, or 1 / n_k in a row left out.
    scale : Scale, optional
        What widths follow.
    mask : MaskModel, optional
        Tells what the entry asked about counts; 1 by default.
    groups : tuple of (ndarray or None), optional
        Group of each row and of each column: widths are those of the group of the entry.
    label : ndarray, optional
        Group of each error.
    rows, cols : ndarray, optional
        Where the errors were made.
    """

    model: Any
    scores: Floats
    weights: Floats | None = None
    scale: Any = None
    mask: MaskModel | None = None
    groups: tuple[Index | None, Index | None] | None = None
    label: Index | None = None
    rows: Index | None = None
    cols: Index | None = None

    def errors(self) -> Floats:
        """See :class:`LeftOutErrors`."""
        return self.scores

    def at(self, X: Any, coverage: float) -> Ends:
        """See :class:`LeftOutErrors`."""
        rows, cols = index_pairs(self.model, X)
        width = self._threshold(rows, cols, coverage)
        middle = self.model.predict(np.column_stack([rows, cols]))
        width = width if self.scale is None else _times(width, self.scale.at(rows, cols))
        return middle - width, middle + width

    def outside(self, rows: Any, cols: Any, coverage: float) -> Ends:
        """Ends for the block of new rows and columns; None stands for all known ones."""
        middle = self.model.extrapolate(rows, cols)
        width = threshold(self.scores, self.counts(), 1.0, coverage)
        if self.scale is not None:
            width = _times(width, self.scale.outside(rows, cols, middle.shape))
        return middle - width, middle + width

    def counts(self) -> Floats:
        """What each error counts."""
        return np.ones(len(self.scores)) if self.weights is None else self.weights

    def covered(self, coverage: float) -> NDArray[np.bool_]:
        """Whether each entry left out is inside the interval that the others give it.

        It is unless the others of smaller error weigh ``coverage`` of the whole; those of a group
        alone where there are groups.
        """
        inside, weights = np.empty(len(self.scores), bool), self.counts()
        label = np.zeros(len(self.scores), np.intp) if self.label is None else self.label
        for group in np.unique(label):
            mine = label == group
            w = weights[mine]
            inside[mine] = np.cumsum(w) - w < (coverage - 1e-12) * w.sum()
        return inside

    def _threshold(self, rows: Index, cols: Index, coverage: float) -> Floats:
        own = np.ones(len(rows)) if self.mask is None else self.mask.odds(rows, cols)
        if self.groups is None or self.label is None:
            return threshold(self.scores, self.counts(), own, coverage)
        out, wanted = np.empty(len(rows)), joint_label(self.groups, rows, cols)
        for group in np.unique(wanted):
            mine, errors = wanted == group, self.label == group
            scores, weights = self.scores[errors], self.counts()[errors]
            out[mine] = threshold(scores, weights, own[mine], coverage)
        return out


@dataclass(frozen=True, eq=False)
class LeavingOneOut(LeftOutErrors):
    """Jackknife+ from the residuals r: f^(-i)(t) = f(t) - lambda_ti r_i.

    Where an observation is the only one to tell an effect (``lonely``), r is 0 and the error any.
    """

    model: Any
    residuals: Floats
    lonely: NDArray[np.bool_]

    def errors(self) -> Floats:
        """See :class:`LeftOutErrors`."""
        return np.where(self.lonely, np.inf, np.abs(self.residuals))

    @cached_property
    def _posterior(self) -> DualPosterior:
        return DualPosterior(dual_problem(self.model), gaussian_process(self.model).dual_factor)

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "_posterior"}

    def at(self, X: Any, coverage: float) -> Ends:
        """See :class:`LeftOutErrors`."""
        rows, cols = index_pairs(self.model, X)
        middle, targets = self.model.predict(X), gaussian_process(self.model).targets(rows, cols)
        errors, low, high = self.errors(), np.empty(len(rows)), np.empty(len(rows))
        with few_threads(len(errors)):
            for part in _slices(len(rows), len(errors)):
                moved = self._posterior.influence(targets.take(part)) * self.residuals
                low[part], high[part] = _plus(middle[part, None] - moved, errors, coverage)
        return low, high


@dataclass(frozen=True, eq=False)
class LeavingFoldsOut(LeftOutErrors):
    """CV+: the fit without the fold of i in place of that without i."""

    model: Any
    scores: Floats
    models: tuple[MatrixRegressor, ...]
    label: Index

    def errors(self) -> Floats:
        """See :class:`LeftOutErrors`."""
        return self.scores

    def at(self, X: Any, coverage: float) -> Ends:
        """See :class:`LeftOutErrors`."""
        predicted = np.column_stack([one.predict(X) for one in self.models])
        low, high = np.empty(len(predicted)), np.empty(len(predicted))
        for part in _slices(len(predicted), len(self.label)):
            left_out = predicted[part][:, self.label]
            low[part], high[part] = _plus(left_out, self.scores, coverage)
        return low, high


@dataclass(frozen=True, eq=False)
class LeavingItemsOut(LeftOutErrors):
    """Jackknife+ over rows (columns), each of which counts 1 whatever its number of entries.

    Each item is left out of one of the fits, whose scales go with them; ``label`` tells of which.
    """

    model: Any
    scores: Floats
    weights: Floats
    label: Index
    models: tuple[MatrixRegressor, ...]
    scales: tuple[Any, ...]

    def errors(self) -> Floats:
        """See :class:`LeftOutErrors`."""
        return self.scores

    def at(self, X: Any, coverage: float) -> Ends:
        """See :class:`LeftOutErrors`."""
        rows, cols = index_pairs(self.model, X)
        pairs = np.column_stack([rows, cols])
        middle = np.column_stack([one.predict(pairs) for one in self.models])
        scale = np.column_stack([one.at(rows, cols) for one in self.scales])
        return self._ends(middle, scale, coverage)

    def outside(self, rows: Any, cols: Any, coverage: float) -> Ends:
        """Ends for the block of new rows and columns; None stands for all known ones."""
        middle = [one.extrapolate(rows, cols) for one in self.models]
        shape = middle[0].shape
        scale = [one.outside(rows, cols, shape).ravel() for one in self.scales]
        flat = np.column_stack([part.ravel() for part in middle])
        low, high = self._ends(flat, np.column_stack(scale), coverage)
        return low.reshape(shape), high.reshape(shape)

    def _ends(self, middle: Floats, scale: Floats, coverage: float) -> Ends:
        low, high = np.empty(len(middle)), np.empty(len(middle))
        for part in _slices(len(middle), 4 * len(self.label)):
            centre, half = middle[part][:, self.label], scale[part][:, self.label] * self.scores
            low[part], high[part] = plus_ends(
                centre - half, centre + half, self.weights, 1.0, coverage
            )
        return low, high


def joint_label(groups: tuple[Index | None, Index | None], rows: Index, cols: Index) -> Index:
    """One number for the group of the row and that of the column of each entry."""
    by_row, by_col = groups
    row = np.zeros(len(rows), np.intp) if by_row is None else by_row[rows]
    if by_col is None:
        return row
    return np.asarray(row * (int(by_col.max(initial=0)) + 1) + by_col[cols], np.intp)


def dual_problem(model: Any) -> RidgeProblem:
    """The problem that a fitted method has solved."""
    process = gaussian_process(model)
    row, col = process.priors
    return RidgeProblem(row.kernel, col.kernel, process.sampled, process.mu)


def _times(width: Floats, scale: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(np.isinf(width), np.inf, width * scale))


def _rank(count: int, coverage: float) -> int:
    """The least k with k / (count + 1) >= coverage."""
    return int(np.ceil(round((count + 1) * coverage, 9)))


def _plus(left_out: Floats, scores: Floats, coverage: float) -> Ends:
    """Jackknife+: k-th largest of f^(-i) - s_i and k-th smallest of f^(-i) + s_i, row by row."""
    m = len(scores)
    k = _rank(m, coverage)
    if k > m:
        return np.full(len(left_out), -np.inf), np.full(len(left_out), np.inf)
    low = np.partition(left_out - scores, m - k, axis=1)[:, m - k]
    return low, np.partition(left_out + scores, k - 1, axis=1)[:, k - 1]


def _slices(count: int, width: int) -> Iterator[slice]:
    step = max(1, CHUNK_FLOATS // max(1, width))
    return (slice(first, min(first + step, count)) for first in range(0, count, step))

"""An interval for every entry of a completed table, cold rows and columns included."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from kronfill._types import Floats, Index
from kronfill.completion.evaluation import KINDS, LEAST, Evaluation, counted, hold_out, kinds_of
from kronfill.core.limits import DENSE_POSTERIOR
from kronfill.data.amounts import count_of
from kronfill.errors import DataError, ParameterError, argument
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.gaussian_process import GaussianProcessRegressor, gaussian_process

__all__ = [
    "METHODS",
    "Calibrated",
    "Gaussian",
    "Intervals",
    "NoIntervals",
    "intervals_for",
    "std_work",
    "wants_hidden",
]


METHODS = ("auto", "gaussian", "calibrated", "none")
WORK = 5e11
"""Multiplications that "auto" may spend on standard deviations."""


class Intervals(ABC):
    """Intervals for index pairs."""

    words: str
    """What kind of interval it is, in words."""

    @abstractmethod
    def at(self, rows: Index, cols: Index, middle: Floats, level: float) -> tuple[Floats, ...]:
        """Lower end, upper end and standard deviation of each entry, NaN where there is none."""

    @abstractmethod
    def outside(
        self, rows: Any, cols: Any, middle: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        """Return the same for the block of new rows and columns; None stands for all known."""


class Gaussian(Intervals):
    """By the model's own standard deviation, noise included; infinite where nothing tells it."""

    words = "Gaussian: the model's standard deviation, noise included"

    def __init__(self, model: GaussianProcessRegressor) -> None:
        self._model = model

    def at(self, rows: Index, cols: Index, middle: Floats, level: float) -> tuple[Floats, ...]:
        """See :class:`Intervals`."""
        return self._around(middle, self._model.predict_std(np.column_stack([rows, cols])), level)

    def outside(
        self, rows: Any, cols: Any, middle: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        """See :class:`Intervals`."""
        return self._around(middle, self._model.extrapolate_std(rows, cols), level)

    def _around(
        self, middle: Floats, latent: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        std = np.sqrt(latent**2 + self._model.noise_variance_)
        half = float(ndtri(0.5 + level / 2)) * std
        return middle - half, middle + half, std


class Calibrated(Intervals):
    """By the errors on entries, rows and columns that were hidden from one more fit.

    Four kinds of entries have a width each: those of known rows and columns, of new rows, of new
    columns, and of both. Widths hold on average over the entries of a kind, if new rows (columns)
    are like the known ones; the k-th smallest of c errors with k = ceil(level (c + 1)).
    """

    def __init__(self, model: MatrixRegressor, found: Evaluation | None = None) -> None:
        """Take the errors of a hold-out that was made already, or make one."""
        self._obs = counted(model.observations_)
        found = found or hold_out(model, self._obs)
        parts = found.parts
        errors = {kind: np.abs(part.observed - part.predicted) for kind, part in parts.items()}
        self._errors = [np.sort(errors.get(kind, np.empty(0))) for kind in KINDS]
        counts = ", ".join(
            f"{len(part):,} in {name}"
            for part, name in zip(self._errors, _KINDS, strict=True)
            if len(part)
        )
        self.words = f"calibrated: errors on hidden entries ({counts}), one width for each kind"
        if found.doubts:
            self.words += f"; not to be relied on, as {next(iter(found.doubts.values()))}"

    def at(self, rows: Index, cols: Index, middle: Floats, level: float) -> tuple[Floats, ...]:
        """See :class:`Intervals`."""
        return self._around(middle, kinds_of(self._obs, rows, cols), level)

    def outside(
        self, rows: Any, cols: Any, middle: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        """See :class:`Intervals`."""
        cold_r = self._obs.row_counts == 0 if rows is None else np.ones(len(middle), bool)
        cold_c = self._obs.col_counts == 0 if cols is None else np.ones(middle.shape[1], bool)
        return self._around(middle, cold_r[:, None] + 2 * cold_c[None, :], level)

    def _around(
        self, middle: Floats, kinds: NDArray[Any], level: float
    ) -> tuple[Floats, Floats, Floats]:
        width = np.array([_quantile(part, level) for part in self._errors])[kinds]
        return middle - width, middle + width, np.full(middle.shape, np.nan)


class NoIntervals(Intervals):
    """No interval for any entry."""

    def __init__(self, words: str = "none") -> None:
        self.words = words

    def at(self, rows: Index, cols: Index, middle: Floats, level: float) -> tuple[Floats, ...]:
        """See :class:`Intervals`."""
        return self.outside(rows, cols, middle, level)

    def outside(
        self, rows: Any, cols: Any, middle: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        """See :class:`Intervals`."""
        nothing = np.full(middle.shape, np.nan)
        return nothing, nothing, nothing


_KINDS = ("known rows and columns", "new rows", "new columns", "new rows and columns")


def intervals_for(
    model: MatrixRegressor, count: int, method: str = "auto", evaluation: Evaluation | None = None
) -> Intervals:
    """Return intervals of the kind asked for, for ``count`` entries.

    "auto" takes the model's own standard deviation where it has one and can be had in about a
    minute, and calibrates otherwise. Errors of a hold-out that was made already are used again.
    """
    if method not in METHODS:
        msg = f"intervals must be one of {METHODS}, got {method!r}."
        raise ParameterError(msg)
    if method == "none":
        return NoIntervals()
    measured = evaluation is not None and evaluation.scheme == "hold-out"
    if measured and wants_hidden(model, count, method):
        return Calibrated(model, evaluation)
    if isinstance(model, GaussianProcessRegressor):
        return _of_gaussian(model, count, method)
    if method == "gaussian":
        msg = (
            f"{type(model).__name__} has no standard deviation of its own; use "
            f"{argument('intervals', 'calibrated')}, or the method 'kkmcex' or 'rrmcex'."
        )
        raise ParameterError(msg)
    return _calibrated(model)


def wants_hidden(model: MatrixRegressor, count: int, method: str) -> bool:
    """Whether intervals of this kind take their width from errors on hidden entries."""
    if method == "auto" and isinstance(model, GaussianProcessRegressor):
        return std_work(model, count) > WORK
    return method in ("auto", "calibrated")


def _of_gaussian(model: GaussianProcessRegressor, count: int, method: str) -> Intervals:
    if not wants_hidden(model, count, method):
        if gaussian_process(model).dof:
            return Gaussian(model)
        return NoIntervals("none: the effects take up every observation, nothing tells the noise")
    return _calibrated(model)


def _calibrated(model: MatrixRegressor) -> Intervals:
    if model.observations_.m < LEAST:
        few = count_of(model.observations_.m, "observation")
        return NoIntervals(f"none: too few to measure errors, {few}")
    try:
        return Calibrated(model)
    except DataError as error:  # nothing left to fit, or to measure
        return NoIntervals(f"none: {error}")


def std_work(model: GaussianProcessRegressor, count: int) -> float:
    """Multiplications of a factorisation and one solve for each entry."""
    m = model.observations_.m
    ranks = getattr(model, "row_rank_", m) * getattr(model, "col_rank_", 1)
    size = min(m, ranks)
    return np.inf if size > DENSE_POSTERIOR else float(size**3 / 3 + count * size**2)


def _quantile(errors: Floats, level: float) -> float:
    """The k-th smallest error; NaN where there are too few for this level."""
    k = int(np.ceil(round((len(errors) + 1) * level, 9)))
    return float(errors[k - 1]) if 0 < k <= len(errors) else float("nan")

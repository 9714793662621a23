"""What values are: within a range, whole numbers, or better seen on another scale."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kronfill._types import Floats, Index
from kronfill.completion.entries.intervals import Intervals
from kronfill.errors import ParameterError, argument
from kronfill.estimators.base import MatrixRegressor
from kronfill.estimators.bayesian_kmc import BayesianKMC
from kronfill.estimators.transformed.regressor import TransformedRegressor
from kronfill.estimators.transformed.scales import SCALES, WORDS, are_skewed

__all__ = [
    "TRANSFORMS", "InOriginalUnits", "as_range", "base_of", "in_units",
    "is_scaled", "refuse_beside_likelihood", "unscaled", "value_words", "valued",
]  # fmt: skip

TRANSFORMS = ("auto", *SCALES, None)


def as_range(value_range: Any) -> tuple[float, float] | None:
    """Return a range as two numbers, or None; what is none is refused."""
    if value_range is None:
        return None
    try:
        low, high = value_range
        fine = all(isinstance(end, Real) and np.isfinite(float(end)) for end in (low, high))
    except (TypeError, ValueError):
        fine = False
    if not fine or not float(low) < float(high):
        msg = (
            f"{argument('value_range')} must be two numbers (low, high), the first of them "
            f"smaller, such as (1, 5); got {value_range!r}."
        )
        raise ParameterError(msg)
    return float(low), float(high)


def valued(
    method: MatrixRegressor,
    kernels: tuple[Any, Any],
    values: Floats,
    *,
    chooses: bool,
    transform: Any,
    value_range: Any,
    rounded: bool,
) -> MatrixRegressor:
    """Return the method that takes values for what they are; as it is where there is nothing to do.

    Parameters
    ----------
    method : estimator
        The method.
    kernels : tuple of Kernel or None
        One for each axis, by which scales are compared where the method takes long.
    values : ndarray
        What was observed.
    chooses : bool
        Whether the method is the one that chooses everything: "auto" is for it.
    transform, value_range, rounded : object
        As for :func:`kronfill.complete`, the last called ``round`` there.
    """
    if transform not in TRANSFORMS:
        msg = f"{argument('transform')} must be one of {TRANSFORMS}, got {transform!r}."
        raise ParameterError(msg)
    if not isinstance(rounded, bool):
        msg = f"{argument('round')} must be True or False, got {rounded!r}."
        raise ParameterError(msg)
    if transform == "auto" and not chooses:
        transform = "auto" if value_range is not None else None
    idle = transform is None or (transform == "auto" and not are_skewed(values))
    if idle and value_range is None and not rounded:
        return method
    trial = BayesianKMC(*kernels, random_state=0) if chooses else None
    return TransformedRegressor(method, transform, value_range, rounded, trial)


def refuse_beside_likelihood(likelihood: str, transform: Any, rounded: Any) -> None:
    """Raise for what is done with numbers, where values are something else."""
    if transform not in ("auto", None) or rounded:
        msg = (
            f"{argument('likelihood', likelihood)} says itself what values can be: leave "
            f"{argument('transform')} and {argument('round')} out."
        )
        raise ParameterError(msg)


def unscaled(model: Any) -> Any:
    """The method as it was fitted, on another scale or not."""
    return model.estimator_ if isinstance(model, TransformedRegressor) else model


def is_scaled(model: Any) -> bool:
    """Whether a fitted method is on another scale than the values."""
    return isinstance(model, TransformedRegressor) and model.scale_.kind != "none"


def value_words(model: Any) -> str:
    """What was done with values, in words; nothing if they were taken as they are."""
    if not isinstance(model, TransformedRegressor):
        return ""
    told = []
    kind, trials = model.scale_.kind, model.trials_
    if kind != "none":
        beside = ""
        if kind in trials:
            beside = (
                f" (error on hidden entries {trials[kind]:.4g}; {trials['none']:.4g} as they are)"
            )
        told.append(f"fitted as {WORDS[kind]}{beside}")
    elif trials:
        others = ", ".join(WORDS[name] for name in trials if name != "none")
        told.append(f"as they are ({others} predict no better)")
    if model.value_range is not None:
        low, high = model.value_range
        told.append(f"kept within {low:g} to {high:g}")
    if model.rounded:
        told.append("rounded")
    return ", ".join(told)


def base_of(intervals: Intervals) -> Intervals:
    """The intervals as they were made, on whatever scale."""
    return intervals.base if isinstance(intervals, InOriginalUnits) else intervals


def in_units(
    model: Any, scaled: Floats, ends: tuple[Floats, ...], middle: Floats
) -> tuple[Floats, Floats, Floats]:
    """Lower end, upper end and standard deviation around predictions, in the units of the values.

    Parameters
    ----------
    model : estimator
        The method, on whatever scale it was fitted.
    scaled, ends : ndarray
        Predictions, and the same three, on the scale.
    middle : ndarray
        Predictions in the units of the values.
    """
    low, high, std = ends
    if not isinstance(model, TransformedRegressor):
        return low, high, std
    inverse = model.scale_.inverse
    low, high = np.fmin(inverse(low), middle), np.fmax(inverse(high), middle)
    if model.value_range is not None:
        low, high = (np.clip(end, *model.value_range) for end in (low, high))
    return low, high, model.spread(scaled, std)


class InOriginalUnits(Intervals):
    """Intervals on another scale, told in the units of the values.

    A scale rises with the values, so that one interval contains the one exactly where the other
    contains the other.
    """

    def __init__(self, base: Intervals, model: TransformedRegressor) -> None:
        self.base = base
        self._model = model
        self.kind = base.kind

    @property
    def words(self) -> str:  # type: ignore[override]
        """See :class:`Intervals`; what was calibrated meanwhile is among them."""
        return self.base.words

    def at(self, rows: Index, cols: Index, middle: Floats, level: float) -> tuple[Floats, ...]:
        """See :class:`Intervals`."""
        inner = unscaled(self._model).predict(np.column_stack([rows, cols]))
        return in_units(self._model, inner, self.base.at(rows, cols, inner, level), middle)

    def outside(
        self, rows: Any, cols: Any, middle: Floats, level: float
    ) -> tuple[Floats, Floats, Floats]:
        """See :class:`Intervals`."""
        inner = unscaled(self._model).extrapolate(rows, cols)
        return in_units(self._model, inner, self.base.outside(rows, cols, inner, level), middle)

    def kinds(self, rows: Index, cols: Index) -> NDArray[np.intp]:
        """See :class:`Intervals`."""
        return self.base.kinds(rows, cols)

    def kinds_outside(self, rows: Index, cols: Index, new: tuple[bool, bool]) -> NDArray[np.intp]:
        """See :class:`Intervals`."""
        return self.base.kinds_outside(rows, cols, new)

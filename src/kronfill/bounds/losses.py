"""Losses that know their range and their Lipschitz constant, and the generalization error.

A transductive bound needs both: every loss value in one interval of width B, and
``|l(M, F) - l(M, F')| <= gamma |F - F'|``. The square loss has neither on the real line; clipping
the predictions to the known range of the values, or truncating the loss, gives it both. Clipping is
1-Lipschitz, so it costs nothing in the complexity of the class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Self

import numpy as np

from kronfill._types import Floats
from kronfill.data import Observations
from kronfill.data.arrays import finite_array
from kronfill.errors import DataError, ParameterError, ShapeError
from kronfill.estimators.base import MatrixRegressor

__all__ = [
    "Absolute",
    "Loss",
    "Square",
    "Truncated",
    "as_loss",
    "as_value_range",
    "generalization_error",
]


@dataclass(frozen=True)
class Loss(ABC):
    """A loss with its range B and its Lipschitz constant gamma.

    ``loss(values, predictions)`` gives one number per entry; ``loss / 4`` and ``2 * loss`` are the
    same loss on another scale.

    Attributes
    ----------
    scale : float
        Factor by which the loss is multiplied.
    """

    scale: float = field(default=1.0, kw_only=True)

    @property
    @abstractmethod
    def bound(self) -> float:
        """B: all values of the loss lie in [0, B]; infinite if there is no such B."""

    @property
    @abstractmethod
    def lipschitz(self) -> float:
        """Gamma, as a function of the prediction; infinite if there is none."""

    @abstractmethod
    def _raw(self, values: Floats, predictions: Floats) -> Floats: ...

    @abstractmethod
    def __str__(self) -> str: ...

    def __call__(self, values: Any, predictions: Any) -> Floats:
        """Loss of each entry."""
        checked = finite_array(values, "values"), finite_array(predictions, "predictions")
        return self.scale * self._raw(*checked)

    def mean(self, values: Any, predictions: Any) -> float:
        """Mean loss."""
        return float(np.mean(self(values, predictions)))

    def of_constant(self, value_range: tuple[float, float]) -> float:
        """The loss that a constant prediction, the middle of the range, never exceeds.

        Parameters
        ----------
        value_range : tuple of float
            Range (low, high) that all values obey.

        Returns
        -------
        float
            The least that any constant can guarantee: (high - low)^2 / 4 for the square loss,
            (high - low) / 2 for the absolute one, or where it is cut off.

        Examples
        --------
        >>> from kronfill.bounds import Absolute, Square, Truncated
        >>> Square().of_constant((0, 10)), Absolute().of_constant((0, 10))
        (25.0, 5.0)
        >>> Truncated(Square(), 4.0).of_constant((0, 10))
        4.0
        """
        middle = 0.5 * value_range[0] + 0.5 * value_range[1]
        return float(np.max(self(value_range, (middle, middle))))

    def ceilings(self, predictions: Any, value_range: tuple[float, float]) -> Floats:
        """The largest loss of each prediction, whatever the value in the range.

        Parameters
        ----------
        predictions : array-like
            Predictions.
        value_range : tuple of float
            Range (low, high) that all values obey.

        Returns
        -------
        ndarray
            max(high - f, f - low)^2 for the square loss: losses grow with the distance, so that the
            worst value is an end of the range.

        Examples
        --------
        >>> from kronfill.bounds import Square
        >>> Square(clip=(0, 10)).ceilings([5.0, 9.0, 12.0], (0, 10))
        array([ 25.,  81., 100.])
        """
        shape = np.shape(predictions)
        low, high = (self(np.full(shape, end), predictions) for end in value_range)
        return np.maximum(low, high)

    @property
    @abstractmethod
    def takes(self) -> tuple[float, float]:
        """Range of the values for which the loss is meant; without limits unless it clips."""

    def __mul__(self, factor: float) -> Self:
        if not isinstance(factor, Real) or not 0 < float(factor) < np.inf:
            msg = f"A loss can be multiplied by a positive finite number only, got {factor!r}."
            raise ParameterError(msg)
        return replace(self, scale=self.scale * float(factor))

    __rmul__ = __mul__

    def __truediv__(self, factor: float) -> Self:
        return self * (1.0 / factor)

    def _scaled(self, text: str) -> str:
        return text if self.scale == 1.0 else f"{text} (times {self.scale:g})"


@dataclass(frozen=True)
class _Clipped(Loss):
    """A loss whose predictions may be clipped to the range of the values."""

    clip: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.clip is not None:
            object.__setattr__(self, "clip", as_value_range(self.clip, "clip"))

    @property
    def takes(self) -> tuple[float, float]:
        """See :class:`Loss`."""
        return (-np.inf, np.inf) if self.clip is None else self.clip

    @property
    def width(self) -> float:
        """Width of the range, infinite without one."""
        return np.inf if self.clip is None else self.clip[1] - self.clip[0]

    def _prepared(self, values: Floats, predictions: Floats) -> Floats:
        """Difference of values and clipped predictions."""
        if self.clip is None:
            return np.asarray(values - predictions)
        low, high = self.clip
        bad = np.flatnonzero(~((values >= low) & (values <= high)).ravel())
        if len(bad):
            msg = (
                f"All values must lie in the stated range [{low:g}, {high:g}], got "
                f"{values.ravel()[bad[0]]:g} at position {bad[0]} ({len(bad)} outside). State a "
                "range that all values, observed or not, are known to obey."
            )
            raise DataError(msg)
        return np.asarray(values - np.clip(predictions, low, high))

    def _where(self) -> str:
        if self.clip is None:
            return ""
        return f" with predictions clipped to [{self.clip[0]:g}, {self.clip[1]:g}]"


@dataclass(frozen=True)
class Square(_Clipped):
    """The square loss (M - F)^2.

    Parameters
    ----------
    clip : tuple of float, optional
        Range (low, high) that all values are known to obey: predictions are clipped to it, and
        with D = high - low the loss has range D^2 and Lipschitz constant 2 D. Without it the
        loss has neither.

    Examples
    --------
    >>> from kronfill.bounds import Square
    >>> loss = Square(clip=(-1, 1)) / 4
    >>> loss([1.0, 0.0], [3.0, 1.0]), loss.bound, loss.lipschitz
    (array([0.  , 0.25]), 1.0, 1.0)
    """

    @property
    def bound(self) -> float:
        """See :class:`Loss`."""
        return float(self.scale * self.width**2)

    @property
    def lipschitz(self) -> float:
        """See :class:`Loss`."""
        return float(self.scale * 2 * self.width)

    def _raw(self, values: Floats, predictions: Floats) -> Floats:
        return self._prepared(values, predictions) ** 2

    def __str__(self) -> str:
        return self._scaled(f"square loss{self._where()}")


@dataclass(frozen=True)
class Absolute(_Clipped):
    """The absolute loss abs(M - F): Lipschitz constant 1, range D if clipped.

    Parameters
    ----------
    clip : tuple of float, optional
        As for :class:`Square`.

    Examples
    --------
    >>> from kronfill.bounds import Absolute
    >>> Absolute(clip=(0, 5)).bound, Absolute().lipschitz
    (5.0, 1.0)
    """

    @property
    def bound(self) -> float:
        """See :class:`Loss`."""
        return float(self.scale * self.width)

    @property
    def lipschitz(self) -> float:
        """See :class:`Loss`."""
        return self.scale

    def _raw(self, values: Floats, predictions: Floats) -> Floats:
        return np.abs(self._prepared(values, predictions))

    def __str__(self) -> str:
        return self._scaled(f"absolute loss{self._where()}")


@dataclass(frozen=True)
class Truncated(Loss):
    """A square or absolute loss cut off at a level: bounded whatever the values are.

    Parameters
    ----------
    of : Square or Absolute
        The loss to cut off.
    level : float
        Where. The range is ``level``; the Lipschitz constant is ``2 sqrt(level)`` for the square
        loss and 1 for the absolute loss (or what clipping gives, where that is smaller).

    Examples
    --------
    >>> from kronfill.bounds import Absolute, Square, Truncated
    >>> loss = Truncated(Square(), 4.0)
    >>> loss([0.0, 0.0], [1.0, 9.0]), loss.bound, loss.lipschitz
    (array([1., 4.]), 4.0, 4.0)
    >>> Truncated(Absolute(), 1.0).lipschitz
    1.0
    """

    of: _Clipped
    level: float

    def __post_init__(self) -> None:
        if not isinstance(self.of, _Clipped):
            msg = f"of must be Square(...) or Absolute(...), got {self.of!r}."
            raise ParameterError(msg)
        if not isinstance(self.level, Real) or not 0 < float(self.level) < np.inf:
            msg = f"level must be a positive finite number, got {self.level!r}."
            raise ParameterError(msg)

    @property
    def bound(self) -> float:
        """See :class:`Loss`."""
        return float(self.scale * min(self.level, self.of.bound))

    @property
    def lipschitz(self) -> float:
        """See :class:`Loss`."""
        if isinstance(self.of, Absolute):
            return float(self.scale * self.of.lipschitz)
        # d/dx s x^2 = 2 s x <= 2 sqrt(s level) where s x^2 <= level
        steepest = 2.0 * np.sqrt(self.of.scale * self.level)
        return float(self.scale * min(steepest, self.of.lipschitz))

    @property
    def takes(self) -> tuple[float, float]:
        """See :class:`Loss`."""
        return self.of.takes

    def _raw(self, values: Floats, predictions: Floats) -> Floats:
        return np.minimum(self.of(values, predictions), self.level)

    def __str__(self) -> str:
        return self._scaled(f"{self.of}, cut off at {self.level:g}")


def as_loss(loss: Any) -> Loss:
    """Return a loss; "square" and "absolute" are names of unclipped ones."""
    if isinstance(loss, Loss):
        return loss
    if loss == "square":
        return Square()
    if loss == "absolute":
        return Absolute()
    msg = (
        'loss must be "square", "absolute" or a loss such as Square(clip=(low, high)), got '
        f"{loss!r}."
    )
    raise ParameterError(msg)


def as_value_range(limits: Any, name: str = "value_range") -> tuple[float, float]:
    """Return a range (low, high) of finite numbers with low < high."""
    try:
        low, high = (float(value) for value in limits)
    except (TypeError, ValueError):
        low, high = np.nan, np.nan
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        msg = f"{name} must be two finite numbers (low, high) with low < high, got {limits!r}."
        raise ParameterError(msg)
    return low, high


def generalization_error(
    model: Any, train: Observations, test: Observations, loss: Any = "square"
) -> float:
    """Mean loss on test entries less mean loss on training entries, equation (8) of the paper.

    Parameters
    ----------
    model : estimator, array-like of shape (N, L), or pair of arrays
        A fitted model, a matrix of predictions, or the predictions at the training and at the test
        entries.
    train, test : Observations
        The entries with their values.
    loss : Loss, "square" or "absolute", default="square"
        Such as ``Square(clip=(low, high))`` or ``Truncated(Square(), 4.0)``.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, kronfill as kf
    >>> train = kf.Observations([0], [0], [1.0], shape=(2, 2))
    >>> test = kf.Observations([0, 1], [1, 1], [2.0, 0.0], shape=(2, 2))
    >>> kf.bounds.generalization_error(np.ones((2, 2)), train, test)
    1.0
    """
    chosen = as_loss(loss)
    for name, part in (("train", train), ("test", test)):
        if not isinstance(part, Observations):
            msg = f"{name} must be an Observations, got {type(part).__name__}."
            raise DataError(msg)
    predicted = _predictions(model, train, test)
    return chosen.mean(test.values, predicted[1]) - chosen.mean(train.values, predicted[0])


def _predictions(model: Any, train: Observations, test: Observations) -> tuple[Any, Any]:
    if isinstance(model, MatrixRegressor):
        return model.predict(train), model.predict(test)
    if isinstance(model, tuple) and len(model) == 2:
        pair = tuple(finite_array(part, "predictions") for part in model)
        if pair[0].shape != train.values.shape or pair[1].shape != test.values.shape:
            msg = (
                f"predictions must have shapes {train.values.shape} and {test.values.shape}, got "
                f"{pair[0].shape} and {pair[1].shape}."
            )
            raise ShapeError(msg)
        return pair[0], pair[1]
    matrix = finite_array(model, "model")
    if matrix.shape != train.shape:
        msg = (
            f"model must be a fitted estimator, a matrix of shape {train.shape} or a pair of "
            f"predictions, got shape {matrix.shape}."
        )
        raise ShapeError(msg)
    return matrix[train.rows, train.cols], matrix[test.rows, test.cols]

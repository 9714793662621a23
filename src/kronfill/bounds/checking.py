"""What a certificate is asked about: a loss for the range, values inside, labels that agree."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from kronfill.bounds.losses import Loss
from kronfill.data import Observations
from kronfill.errors import DataError, LabelError, ParameterError

__all__ = ["check_labels", "check_loss", "check_values"]


def check_loss(loss: Loss, limits: tuple[float, float]) -> None:
    """Raise if the loss is not for all values in the range."""
    low, high = loss.takes
    if limits[0] < low or limits[1] > high:
        msg = (
            f"The {loss} is for values in [{low:g}, {high:g}], but value_range says that they lie "
            f"in [{limits[0]:g}, {limits[1]:g}]: one outside would cost more than any bound on "
            "this loss allows. Clip to the whole range, or cut a loss off that does not clip, "
            "Truncated(Square(), level)."
        )
        raise ParameterError(msg)


def check_values(observations: Any, limits: tuple[float, float], name: str) -> None:
    """Raise unless these are observations with values in the range."""
    if not isinstance(observations, Observations):
        msg = (
            f"holdout must be an Observations (rows, cols, values, shape), got "
            f"{type(observations).__name__}."
        )
        raise DataError(msg)
    low, high = float(observations.values.min()), float(observations.values.max())
    if low < limits[0] or high > limits[1]:
        msg = (
            f"The {name} values go from {low:g} to {high:g}, outside the stated range "
            f"[{limits[0]:g}, {limits[1]:g}]. State a range that all values are known to obey."
        )
        raise DataError(msg)


def check_labels(train: Observations, holdout: Observations) -> None:
    """Raise if a row or column of the hold-out is another one in the training entries."""
    for axis, labels, others in (
        ("row", train.row_labels, holdout.row_labels),
        ("column", train.col_labels, holdout.col_labels),
    ):
        if labels is None or others is None or labels[: len(others)] == others:
            continue
        at, (one, other) = next(
            (at, pair) for at, pair in enumerate(zip_longest(others, labels)) if pair[0] != pair[1]
        )
        msg = (
            f"The hold-out has other {axis}s than the model, or in another order: {axis} {at} is "
            f"{one!r} in the one and {other!r} in the other. Build it with the model's labels."
        )
        raise LabelError(msg)

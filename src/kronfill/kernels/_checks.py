"""Checks of the numbers that users set."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from kronfill._types import Floats
from kronfill.data._arrays import plain_array
from kronfill.errors import NonFiniteError, ParameterError

__all__ = ["positive_integer", "positive_values", "real_at_least"]


def real_at_least(value: Any, lowest: float, name: str, *, strict: bool = False) -> float:
    """Check a finite number that is at least (if `strict`, above) the lowest allowed."""
    number = float(value) if isinstance(value, Real) else np.nan
    if not np.isfinite(number) or number < lowest or (strict and number == lowest):
        bound = "above" if strict else "at least"
        msg = f"{name} must be a finite number {bound} {lowest:g}, got {value!r}"
        raise ParameterError(msg)
    return number


def positive_integer(value: Any, name: str) -> int:
    """Check a whole number of at least one."""
    if type(value) is bool or not isinstance(value, Integral) or value < 1:
        msg = f"{name} must be a positive integer, got {value!r}"
        raise ParameterError(msg)
    return int(value)


def positive_values(value: Any, width: int, name: str) -> float | Floats:
    """Check a positive number, or one for each of `width` features."""
    try:
        array = np.array(plain_array(value, name), dtype=np.float64)
    except NonFiniteError:
        raise
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if not (np.isfinite(array) & (array > 0)).all() or array.shape not in {(), (width,)}:
        shape = "" if array.ndim == 0 else f" of shape {array.shape}"
        msg = (
            f"{name} must be a positive number or {width} of them, one per encoded feature; "
            f"got {value!r}{shape}"
        )
        raise ParameterError(msg)
    return array if array.ndim else float(array)

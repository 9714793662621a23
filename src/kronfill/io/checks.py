"""Tests of single values that are read from a model file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

__all__ = [
    "Test",
    "anything",
    "count",
    "either",
    "flag",
    "floats",
    "indices",
    "inside",
    "of",
    "optional",
    "positive",
    "real",
    "sparse_floats",
    "text",
    "truths",
    "tuple_of",
    "whole",
]  # fmt: skip

Test = Callable[[Any], bool]


def anything(_value: Any) -> bool:
    """A parameter: it is looked at when it is used."""
    return True


def count(value: Any) -> bool:
    """A positive integer."""
    return type(value) is int and value >= 1


def whole(value: Any) -> bool:
    """An integer."""
    return type(value) is int


def real(value: Any) -> bool:
    """A number."""
    return type(value) in (int, float)


def positive(value: Any) -> bool:
    """A positive finite number."""
    return type(value) in (int, float) and 0 < value < np.inf


def text(value: Any) -> bool:
    """Text."""
    return type(value) is str


def flag(value: Any) -> bool:
    """Yes or no."""
    return type(value) is bool


def floats(ndim: int) -> Test:
    """An array of floats."""
    return lambda v: isinstance(v, np.ndarray) and v.dtype == np.float64 and v.ndim == ndim


def indices(value: Any) -> bool:
    """A list of positions."""
    return isinstance(value, np.ndarray) and value.dtype == np.intp and value.ndim == 1


def truths(value: Any) -> bool:
    """An array of yes and no."""
    return isinstance(value, np.ndarray) and value.dtype == np.bool_ and value.ndim == 1


def sparse_floats(value: Any) -> bool:
    """A sparse matrix."""
    return bool(sparse.issparse(value) and value.dtype == np.float64 and value.ndim == 2)


def of(*kinds: type) -> Test:
    """An object of one of these classes."""
    return lambda value: isinstance(value, kinds)


def either(*tests: Test) -> Test:
    """What passes one of the tests."""
    return lambda value: any(test(value) for test in tests)


def optional(test: Test) -> Test:
    """None, or what passes the test."""
    return lambda value: value is None or test(value)


def tuple_of(test: Test, length: int | None = None) -> Test:
    """A tuple whose items all pass the test."""

    def passes(value: Any) -> bool:
        right = type(value) is tuple and length in (None, len(value))
        return right and all(test(item) for item in value)

    return passes


def inside(items: Any, size: int) -> bool:
    """Whether all positions are below a size."""
    return items.size == 0 or bool(items.min() >= 0 and items.max() < size)

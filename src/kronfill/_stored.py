"""What a class says about itself so that model files can hold its objects.

A class that is :class:`Stored` lists the names of its state, with a test that each value must pass
when it is read back, and tells whether all of them fit together. Which classes a file may name is
settled in :mod:`kronfill.io.classes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

__all__ = [
    "Stored",
    "Test",
    "Tests",
    "anything",
    "count",
    "either",
    "flag",
    "floats",
    "indices",
    "inside",
    "label_tuple",
    "of",
    "one_of",
    "optional",
    "positions",
    "positive",
    "positive_floats",
    "real",
    "result",
    "sparse_floats",
    "text",
    "truths",
    "tuple_of",
    "whole",
]  # fmt: skip

Test = Callable[[Any], bool]
Tests = Mapping[str, Test]
"""What the value of each name must pass."""

MAX_WHOLE, MAX_REAL = 2**63, 2**1023
"""Integers beyond are none of NumPy; beyond are no floats either."""


class Stored:
    """A class whose objects have a place in model files.

    Attributes
    ----------
    stored : mapping of str to callable
        The names of its state, and a test of each value.
    stored_at_times : mapping of str to callable
        The same for what may be missing.
    stored_as : str
        What the class is called in files, where that is not its name.
    """

    stored: ClassVar[Tests] = {}
    stored_at_times: ClassVar[Tests] = {}
    stored_as: ClassVar[str] = ""

    def fits_together(self) -> bool:
        """Tell whether the parts of an object that was read from a file go with each other."""
        return self._fits_together()

    def _fits_together(self) -> bool:
        return True


def anything(_value: Any) -> bool:
    """A parameter: it is looked at when it is used."""
    return True


def whole(value: Any) -> bool:
    """An integer."""
    return type(value) is int and -MAX_WHOLE <= value < MAX_WHOLE


def count(value: Any) -> bool:
    """A positive integer."""
    return whole(value) and bool(value >= 1)


def result(value: Any) -> bool:
    """A number that came out of a computation: not always a finite one."""
    return type(value) is float or (type(value) is int and abs(value) < MAX_REAL)


def real(value: Any) -> bool:
    """A finite number."""
    return result(value) and math.isfinite(value)


def positive(value: Any) -> bool:
    """A positive finite number."""
    return real(value) and bool(value > 0)


def text(value: Any) -> bool:
    """Text."""
    return type(value) is str


def flag(value: Any) -> bool:
    """Yes or no."""
    return type(value) is bool


def one_of(*values: Any) -> Test:
    """One of these values, of the same type."""
    return lambda v: any(type(v) is type(value) and v == value for value in values)


def floats(ndim: int) -> Test:
    """An array of floats."""
    return lambda v: isinstance(v, np.ndarray) and v.dtype == np.float64 and v.ndim == ndim


def positive_floats(value: Any) -> bool:
    """A list of positive numbers."""
    return floats(1)(value) and bool((value > 0).all())


def indices(value: Any) -> bool:
    """A list of positions."""
    return isinstance(value, np.ndarray) and value.dtype == np.intp and value.ndim == 1


def positions(value: Any) -> bool:
    """A list of positions, with 4 bytes for each where they are very many."""
    return indices(value) or (
        isinstance(value, np.ndarray) and value.dtype == np.int32 and value.ndim == 1
    )


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


label_tuple = optional(of(tuple))
"""Names of items, or none."""

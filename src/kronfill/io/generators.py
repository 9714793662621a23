"""Random generators in a model file: their state, number by number.

NumPy takes most of a state as it comes, and compiled code then looks for the next number where the
state says that it is: a position beyond the end is foreign memory. And there are states from which
nothing but zeros come, in which some distributions search forever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kronfill._stored import Test, real
from kronfill.io.limits import refuse
from kronfill.io.values import Codec, Node, Reader, Writer, fields

__all__ = ["GENERATORS"]


def _below(limit: int) -> Test:
    return lambda value: type(value) is int and 0 <= value < limit


def _words(count: int) -> Test:
    return lambda v: isinstance(v, np.ndarray) and v.dtype == np.uint64 and v.shape == (count,)


def _is_odd(value: Any) -> bool:
    """The step of a congruential generator; with an even one it runs in short circles."""
    return _below(2**128)(value) and value % 2 == 1


def _is_key(value: Any) -> bool:
    """The 624 words of a Mersenne twister, of which 19937 bits count and are not all zero."""
    right = isinstance(value, np.ndarray) and value.dtype == np.uint32 and value.shape == (624,)
    return right and bool(value[0] >> 31 or value[1:].any())


Tests = dict[str, Any]
"""A test for each key of a state, or the tests of what is nested there."""

_HALF: Tests = {"has_uint32": _below(2), "uinteger": _below(2**32)}
_CONGRUENTIAL: Tests = {"state": {"state": _below(2**128), "inc": _is_odd}, **_HALF}
_STATES: dict[str, Tests] = {
    "PCG64": _CONGRUENTIAL,
    "PCG64DXSM": _CONGRUENTIAL,
    "MT19937": {"state": {"key": _is_key, "pos": _below(625)}},
    "Philox": {
        "state": {"counter": _words(4), "key": _words(2)},
        "buffer": _words(4),
        "buffer_pos": _below(5),
        **_HALF,
    },
    "SFC64": {"state": {"state": _words(4)}, **_HALF},
}
_OLD: Tests = {"has_gauss": _below(2), "gauss": real}
"""What a RandomState keeps besides."""


def _fits(state: Any, tests: Tests | Callable[[Any], bool]) -> bool:
    if callable(tests):
        return tests(state)
    right = isinstance(state, dict) and state.keys() == tests.keys()
    return right and all(_fits(state[key], test) for key, test in tests.items())


def _write(writer: Writer, value: Any) -> Node:
    old = isinstance(value, np.random.RandomState)
    state = value.get_state(legacy=False) if old else value.bit_generator.state
    return [old, writer.node(state)]


def _read(reader: Reader, node: Node) -> Any:
    old, inner = fields(node, bool, Any)
    state = reader.value(inner)
    kind = state.pop("bit_generator", None) if isinstance(state, dict) else None
    if type(kind) is not str or kind not in _STATES:
        refuse("a random generator is of an unknown kind")
    if not _fits(state, {**_STATES[kind], **(_OLD if old else {})}):
        refuse(f"a random generator {kind} is in a state that it cannot be in")
    bits = getattr(np.random, kind)(0)
    bits.state = {"bit_generator": kind, **{key: state[key] for key in _STATES[kind]}}
    if not old:
        return np.random.Generator(bits)
    generator = np.random.RandomState(bits)
    generator.set_state({"bit_generator": kind, **state})
    return generator


GENERATORS = Codec(
    "random",
    lambda value: type(value) in (np.random.Generator, np.random.RandomState),
    _write,
    _read,
    weight=2**16,
)
"""The codec of random generators."""

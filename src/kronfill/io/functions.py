"""Functions of users in a model file: a name, never code.

What a name stands for is handed over when the file is loaded. Nothing is looked up or imported
because a file says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from kronfill.errors import ModelFileError, ParameterError
from kronfill.io.values import Codec, Reader, Writer, fields
from kronfill.kernels.functions import SimilarityFunction

__all__ = ["FUNCTIONS", "Functions", "by_name"]

Functions = Mapping[str, Callable[..., Any]]


def by_name(functions: Functions | Iterable[Callable[..., Any]] | None) -> Functions:
    """Return functions by the names that they have in files."""
    if functions is None:
        return {}
    try:
        named = dict(functions) if isinstance(functions, Mapping) else {}
        named = named or {_name(function): function for function in functions}
        right = all(isinstance(name, str) and callable(named[name]) for name in named)
    except (TypeError, AttributeError):
        right = False
    if not right:
        msg = (
            "functions must be a list of functions, or a dictionary that has a function for each "
            f"name such as 'module:function', got {functions!r:.80}."
        )
        raise ParameterError(msg)
    return named


def _name(function: Any) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _is_found(function: Any) -> bool:
    """Whether the function is what its module has under its name, as an import would find it."""
    try:
        home = sys.modules[function.__module__]
        return reduce(getattr, function.__qualname__.split("."), home) is function
    except (AttributeError, KeyError):
        return False


def _write(_writer: Writer, value: SimilarityFunction) -> list[Any]:
    if not _is_found(value.function):
        msg = (
            f"The function {value.name} of a kernel cannot be saved: a file keeps its name only, "
            "so it must be one that can be imported, defined with def at the top level of a "
            "module; not a lambda, not inside another function, not a method or a partial. Move "
            "it there and build the kernel from it, or save the model with "
            "kronfill.kernels.precomputed(kernel.to_array()), which knows no new items."
        )
        raise ModelFileError(msg)
    return [_name(value.function), value.vectorized]


def _read(reader: Reader, node: Any) -> SimilarityFunction:
    name, vectorized = fields(node, str, bool)
    if name not in reader.functions:
        short = name.rpartition(":")[2]
        msg = (
            f"The model has a kernel of the function {name[:200]!r} (kronfill.kernels."
            "from_function), which a file cannot bring with it. Hand it over: "
            f"kronfill.load(path, functions=[{short[:80]}]), or under this name if it is called "
            f"otherwise now: functions={{{name[:80]!r}: ...}}."
        )
        raise ModelFileError(msg)
    return SimilarityFunction(reader.functions[name], vectorized)


FUNCTIONS = Codec("function", lambda value: type(value) is SimilarityFunction, _write, _read)

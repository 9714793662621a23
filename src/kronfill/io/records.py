"""Objects of kronfill in a model file: a class from a fixed list, and its state by name.

No object is made from state that does not fit together: every value is tested, then the whole.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kronfill._stored import Stored, Test, Tests
from kronfill.data import Observations
from kronfill.errors import ModelFileError
from kronfill.estimators.mc import MC
from kronfill.io.limits import refuse
from kronfill.io.values import Codec, Reader, Writer, fields
from kronfill.kernels.base import Kernel

__all__ = ["Record", "object_codec", "public", "read_object"]

MAX_KERNEL = 5000
"""Parts of parts of a kernel: each is evaluated wherever the whole is."""


@dataclass(frozen=True)
class Record:
    """How objects of one class are stored.

    Attributes
    ----------
    kind : type
        The class.
    state : dict of str to callable
        The names of its state, and a test of each value.
    at_times : dict of str to callable
        The same for what may be missing; a parameter then has its default.
    forgotten : tuple of str
        State that is not stored, because it is made again when it is needed.
    fits : callable
        A test of the whole object.
    tidy : callable
        What is done to the state before it is stored.
    bare : bool
        Whether an object may lack all of its state: a method that was not fitted.
    cost : callable
        About how many bytes are made for an object, from its state.
    called : str
        What the class is called in files, where that is not its name.
    constructed : bool
        Whether the constructor takes the state by name, as that of a dataclass does.
    """

    kind: type
    state: Tests
    at_times: Tests = field(default_factory=dict)
    forgotten: tuple[str, ...] = ()
    fits: Test = lambda _: True
    tidy: Callable[[dict[str, Any]], dict[str, Any]] = lambda state: state
    bare: bool = False
    cost: Callable[[dict[str, Any]], int] = lambda _: 0
    called: str = ""
    constructed: bool = False

    @classmethod
    def of(cls, kind: type[Stored]) -> Record:
        """Return the record of a class that says itself what it is made of."""
        fits = operator.methodcaller("fits_together")
        return cls(kind, kind.stored, kind.stored_at_times, fits=fits, called=kind.stored_as)

    @property
    def name(self) -> str:
        """What the class is called in files."""
        return self.called or public(self.kind.__name__)

    def read_state(self, value: Any) -> dict[str, Any]:
        """Return the state of an object, if all of it has a place in the file."""
        if self.constructed:
            found = {name: getattr(value, name) for name in self.state}
        elif dataclasses.is_dataclass(value):
            parts = [part.name for part in dataclasses.fields(value) if part.init]
            found = {name: getattr(value, name) for name in parts}
        else:
            found = dict(value.__getstate__())
        found = {name: item for name, item in found.items() if not self._is_forgotten(name)}
        unknown = set(found) - set(self.state) - set(self.at_times)
        if unknown:
            msg = (
                f"{self.name} has the attribute {min(unknown)!r}, for which a model file has no "
                "place. Delete it, or keep it elsewhere."
            )
            raise ModelFileError(msg)
        return self.tidy(found)

    def _is_forgotten(self, name: str) -> bool:
        return name in self.forgotten or isinstance(getattr(self.kind, name, None), cached_property)

    def make(self, state: dict[str, Any]) -> Any:
        """Make an object from state that was tested."""
        if self.constructed or dataclasses.is_dataclass(self.kind):
            return self.kind(**state)
        # The parameters of a method that are missing are as its constructor has them.
        value: Any = self.kind() if self.bare else object.__new__(self.kind)
        restore = getattr(value, "__setstate__", value.__dict__.update)
        restore(state)
        return value


def public(name: str) -> str:
    """What an attribute or a class is called in files."""
    return name.lstrip("_")


def object_codec(records: Mapping[type, Record]) -> Codec:
    """{"object": number}, the number of a line in the manifest's list of objects."""

    def write(writer: Writer, value: Any) -> int:
        return writer.once(value, lambda: _line(writer, records[type(value)], value))

    def read(reader: Reader, node: Any) -> Any:
        return reader.refer(*fields([node], int))

    return Codec("object", lambda value: type(value) in records, write, read)


def _line(writer: Writer, record: Record, value: Any) -> dict[str, Any]:
    state = {}
    for name, item in record.read_state(value).items():
        writer.where.append(f"{record.name}.{name}" if not writer.where else name)
        state[public(name)] = writer.node(item)
        writer.where.pop()
    return {"class": record.name, "state": state}


def read_object(reader: Reader, line: Any, records: Mapping[str, Record]) -> Any:
    """Read one line of the list of objects."""
    if not isinstance(line, dict) or set(line) != {"class", "state"}:
        refuse(f"an object is written as {str(line)[:60]!r}")
    if line["class"] not in records or not isinstance(line["state"], dict):
        refuse(f"it has an object of the unknown class {line['class']!r:.60}")
    record = records[line["class"]]
    state = _state(reader, record, line["state"])
    reader.spend(record.cost(state))
    made = record.make(state)
    if not record.fits(made):
        refuse(f"the parts of a {record.name} do not fit together")
    items = _items(made)
    if items > reader.length:
        refuse(f"a {record.name} has {items} items, more than the file has bytes")
    if isinstance(made, Kernel) and reader.expanded > MAX_KERNEL:
        refuse(f"a kernel stands for {reader.expanded} parts")
    return made


def _items(made: Any) -> int:
    """The number of rows, or of columns, that an object speaks of; the file has more for each."""
    sized = isinstance(made, Kernel | Observations | MC) and made.shape is not None
    return max(made.shape) if sized else 0


def _shown(value: Any) -> str:
    """A value in a message: what is large is not written out to be cut."""
    plain = value is None or isinstance(value, bool | int | float | str)
    return f"{value!r:.80}" if plain else f"this {type(value).__name__}"


def _state(reader: Reader, record: Record, nodes: dict[str, Any]) -> dict[str, Any]:
    """Read and test the state of an object."""
    tests = {**record.state, **record.at_times}
    names = {public(name): name for name in tests}
    missing = {public(name) for name in record.state} - set(nodes)
    if record.bare and len(missing) == len(record.state):
        missing = set()
    unknown = set(nodes) - set(names)
    if missing or unknown:
        refuse(
            f"the state of a {record.name} is not what it should be: {sorted(missing | unknown)}"
        )
    state = {}
    for name, node in nodes.items():
        value = reader.value(node)
        if not tests[names[name]](value) or not reader.is_finite(value):
            refuse(f"{name} of a {record.name} cannot be {_shown(value)}")
        state[names[name]] = value
    return state

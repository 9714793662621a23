"""Labels of the rows or the columns: what every index is called, and the way back."""

from __future__ import annotations

import datetime
import difflib
import itertools
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from kronfill._types import Index
from kronfill.data.arrays import listing
from kronfill.errors import LabelError

__all__ = ["Labels"]

_MAX_HINTED = 50_000  # difflib compares with every known label: too slow beyond this


class Labels:
    """An immutable sequence of distinct labels that knows the position of each.

    Parameters
    ----------
    values : iterable of hashable
        The labels in order: a list, an array, a pandas Index. None, NaN and repeats are errors.
    axis : str, default="row"
        What is labelled; used in error messages only.

    Raises
    ------
    LabelError
        If a label is missing, repeated or not hashable.

    Examples
    --------
    >>> from kronfill.data import Labels
    >>> labels = Labels(["apple", "pear", "plum"])
    >>> labels.index(["plum", "apple"])
    array([2, 0])
    >>> labels[1], len(labels), "fig" in labels
    ('pear', 3, False)
    """

    __slots__ = ("_axis", "_positions", "_values")

    _axis: str
    _positions: dict[Hashable, int]
    _values: tuple[Any, ...]

    def __init__(self, values: Iterable[Any], *, axis: str = "row") -> None:
        items = tuple(plain_items(values, axis))
        object.__setattr__(self, "_axis", axis)
        object.__setattr__(self, "_values", items)
        object.__setattr__(self, "_positions", _positions(items, axis))

    @property
    def values(self) -> tuple[Any, ...]:
        """The labels, in order."""
        return self._values

    def index(self, labels: Iterable[Any]) -> Index:
        """Return the positions of these labels.

        Parameters
        ----------
        labels : iterable of hashable
            Known labels, in any order, repeats allowed.

        Returns
        -------
        ndarray of int
            One position per label.

        Raises
        ------
        LabelError
            If a label is unknown; the message names the first ones and the closest known label.
        """
        wanted = plain_items(labels, self._axis)
        get = self._positions.get
        try:
            found = np.fromiter((get(label, -1) for label in wanted), np.intp, len(wanted))
        except TypeError:
            raise _unhashable(self._axis) from None
        if found.size and found.min() < 0:
            unknown = list(dict.fromkeys(wanted[k] for k in np.flatnonzero(found < 0)))
            raise LabelError(self._unknown_text(unknown))
        return found

    def _unknown_text(self, unknown: list[Any]) -> str:
        """Say which labels are unknown, and what they may have been meant to be."""
        named = listing([f"{label!r}{self._hint(label)}" for label in unknown[:3]], len(unknown))
        known = listing([repr(label) for label in self._values[:3]], len(self._values))
        return f"Unknown {self._axis} label {named}; the {self._axis} labels are {known}."

    def _hint(self, label: Any) -> str:
        """Return the closest known label as a question, or nothing."""
        if len(self._values) > _MAX_HINTED:
            return ""
        texts = {str(known): known for known in self._values}
        close = difflib.get_close_matches(str(label), texts, n=1)
        return f" (did you mean {texts[close[0]]!r}?)" if close else ""

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __getitem__(self, position: int) -> Any:
        return self._values[position]

    def __contains__(self, label: object) -> bool:
        return label in self._positions

    def __eq__(self, other: object) -> bool:
        return self._values == other._values if isinstance(other, Labels) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values)

    def __setattr__(self, name: str, value: object) -> None:
        msg = f"Labels are immutable: cannot set {name!r}."
        raise AttributeError(msg)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._values, self._axis)

    def __repr__(self) -> str:
        return f"Labels([{listing([repr(v) for v in self._values[:3]], len(self))}])"


def _rebuild(values: tuple[Any, ...], axis: str) -> Labels:
    """Unpickle a :class:`Labels`."""
    return Labels(values, axis=axis)


def plain_items(values: Iterable[Any], axis: str) -> list[Any]:
    """Return the labels as a list of Python objects (text, int, float, datetime)."""
    if isinstance(values, (str, bytes)):
        msg = f"The {axis} labels must be a sequence, got one text {values!r}; pass a list."
        raise LabelError(msg)
    if not isinstance(values, np.ndarray):
        return list(values)
    if values.ndim != 1:
        msg = f"The {axis} labels must be one-dimensional, got an array of shape {values.shape}."
        raise LabelError(msg)
    if values.dtype.kind == "M":
        return _plain_dates(values)
    items: list[Any] = values.tolist()
    return items


def _plain_dates(array: npt.NDArray[Any]) -> list[Any]:
    """Return datetimes, which hash like pandas Timestamps; datetime64 where that would round."""
    micro = array.astype("datetime64[us]")
    items: list[Any] = micro.tolist()
    exact = bool(((micro == array) | np.isnat(array)).all())
    in_range = all(item is None or isinstance(item, datetime.datetime) for item in items)
    return items if exact and in_range else list(array)


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN, NaT, NA or masked."""
    if label is None or label is np.ma.masked:
        return True
    try:
        return bool(label != label)  # true of NaN and NaT only
    except TypeError:  # the truth of pandas.NA is undefined
        return True


def _positions(items: tuple[Any, ...], axis: str) -> dict[Hashable, int]:
    """Map every label to its position, or say which are missing, repeated or unhashable."""
    missing = [k for k, label in enumerate(items) if is_missing(label)]
    if missing:
        where = listing([f"position {k} ({items[k]!r})" for k in missing[:3]], len(missing))
        msg = f"Missing {axis} label at {where}; give every {axis} a label of its own."
        raise LabelError(msg)
    try:
        positions = {label: k for k, label in enumerate(items)}
    except TypeError:
        raise _unhashable(axis) from None
    if len(positions) < len(items):
        # The dict holds the last position of each label: any other position is a repeat's first.
        repeats = (label for k, label in enumerate(items) if positions[label] != k)
        first = list(itertools.islice(dict.fromkeys(repeats), 3))
        named = ", ".join(f"{r!r} (positions {_where(items, r)})" for r in first)
        msg = f"The {axis} labels must be distinct, got repeats: {named}; rename or merge them."
        raise LabelError(msg)
    return positions


def _unhashable(axis: str) -> LabelError:
    return LabelError(f"The {axis} labels must be hashable (text, numbers, dates, tuples).")


def _where(items: tuple[Any, ...], label: Any) -> str:
    """Return the first two positions of a repeated label."""
    first = items.index(label)
    return f"{first} and {items.index(label, first + 1)}"

"""New items of a given kernel, described by their similarities: an array, or a labelled table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kronfill._types import Floats
from kronfill.data.amounts import count_of
from kronfill.data.arrays import listing, own_sparse
from kronfill.data.reading.frames import as_pandas, is_frame
from kronfill.errors import KernelError, LabelError, NonFiniteError, ShapeError
from kronfill.kernels.arguments import finite_numbers
from kronfill.kernels.base import Kernel

__all__ = ["check_possible", "is_pair", "new_diagonal", "similarities", "too_similar"]

_ROUNDING = 1e-9
"""Share of a similarity by which two may differ that are meant to be the same."""
_SLACK = 0.01
"""Share by which the square of a similarity may be too large: many are written with two digits."""


def is_pair(new: Any) -> bool:
    """Tell a pair (similarities, diagonal) from a plain sequence."""
    return isinstance(new, tuple) and len(new) == 2 and np.ndim(new[0]) == 2


def similarities(
    new: Any, kernel: Kernel, labels: Sequence[Any] | None = None
) -> tuple[Floats, Floats]:
    """Read and check what describes new items of a given kernel.

    Parameters
    ----------
    new : array_like, scipy.sparse matrix or data frame, or a pair
        Similarities with the known items, or these and the new items' similarities with themselves.
    kernel : Kernel
        The kernel of the known items.
    labels : sequence, optional
        Their labels; those of the kernel by default, or else their positions.

    Returns
    -------
    cross : ndarray of shape (k, n)
        Similarities with the known items.
    selves : ndarray of shape (k,)
        Similarity of each new item with itself, NaN where it is not told.
    """
    diagonal: Any
    given, diagonal = new if is_pair(new) else (new, None)
    if is_frame(given):
        labels = kernel.labels if labels is None else labels
        labels = range(kernel.n) if labels is None else labels
        cross, selves = _labelled_similarities(given, kernel, labels)
        if is_frame(diagonal):  # a Series, matched by label
            diagonal = diagonal.reindex(given.index)
    else:
        if sparse.issparse(given):
            given = own_sparse(given, "The similarities of new items").toarray()
        cross = finite_numbers(given, "The similarities of new items").copy()
        if cross.ndim != 2 or cross.shape[1] != kernel.n:
            msg = (
                f"New items of {kernel!r} are described by their similarities with its {kernel.n} "
                f"items, an array of shape (k, {kernel.n}); got shape {cross.shape}."
            )
            raise ShapeError(msg)
        selves = np.full(len(cross), np.nan)
    if diagonal is None:
        return cross, selves
    selves = finite_numbers(diagonal, "The diagonal of new items").copy()
    if selves.shape != (cross.shape[0],) or (selves < 0).any():
        msg = (
            f"The diagonal must hold {cross.shape[0]} numbers that are not negative, one for each "
            f"new item; got shape {selves.shape}, smallest {selves.min(initial=0.0):g}."
        )
        raise ShapeError(msg)
    return cross, selves


def _labelled_similarities(
    frame: Any, kernel: Kernel, labels: Sequence[Any]
) -> tuple[Floats, Floats]:
    """Read a line for each new item, with a column for each known one.

    A column with the label of a new item has its similarity with itself. A line with the label of
    a known item that repeats the similarities of that item describes its twin, as similar to
    itself. Items that have no similarity with themselves, and so with no other, need no column.

    Parameters
    ----------
    frame : data frame
        The similarities.
    kernel : Kernel
        The kernel of the known items.
    labels : sequence
        Their labels, in its order.

    Returns
    -------
    cross : ndarray of shape (k, n)
        Similarities with the known items.
    selves : ndarray of shape (k,)
        Similarity of each new item with itself, NaN where it is not told.
    """
    table = as_pandas(frame)
    items, columns = list(table.index), list(table.columns)
    _check_columns(items, columns, kernel, labels)
    values = _numbers(table)
    place = {label: j for j, label in enumerate(columns)}
    padded = np.column_stack([values, np.zeros(len(items))])  # the last one is for those without
    cross = padded[:, [place.get(label, -1) for label in labels]]
    known = {label: k for k, label in enumerate(labels)}
    selves = np.full(len(items), np.nan)
    for i, item in enumerate(items):
        if item in known:
            selves[i] = _self_of_twin(kernel, known[item], cross[i])
        elif item in place:
            selves[i] = values[i, place[item]]
    return cross, selves


def too_similar(cross: Floats, selves: Floats, known: Floats) -> NDArray[np.bool_]:
    """Where k(a, b)^2 > k(a, a) k(b, b), which no kernel has: a variance would be negative.

    Parameters
    ----------
    cross : ndarray of shape (k, n)
        Similarities of new items with known ones.
    selves, known : ndarray of shape (k,) and (n,)
        Similarities of both with themselves; where one is NaN, nothing is.
    """
    return np.asarray(cross**2 > np.outer(selves, known) * (1 + _SLACK))


def check_possible(
    kernel: Kernel, cross: Floats, selves: Floats, names: Sequence[Any] | None = None
) -> None:
    """Raise if new items are too similar to known ones for what they are to themselves.

    Parameters
    ----------
    kernel : Kernel
        The kernel of the known items.
    cross, selves : ndarray of shape (k, n) and (k,)
        Similarities of the new items with the known ones and with themselves.
    names : sequence, optional
        What to call the new items; their numbers by default.
    """
    if kernel.by_products:  # its diagonal takes long
        return
    known = kernel.diagonal()
    bad = np.argwhere(too_similar(cross, selves, known))
    if len(bad):
        i, j = (int(at) for at in bad[0])
        one = i if names is None else names[i]
        other = j if kernel.labels is None else kernel.labels[j]
        msg = (
            f"The new item {one!r} has the similarity {selves[i]:.6g} with itself and "
            f"{cross[i, j]:.6g} with {other!r}, which has {known[j]:.6g} with itself; that of two "
            f"items can be at most the root of the product of their own, here "
            f"{np.sqrt(selves[i] * known[j]):.6g}. Are all of them on the same scale?"
        )
        raise KernelError(msg)


def new_diagonal(kernel: Kernel, new: Any) -> Floats:
    """Return the similarity of new items with themselves, if it goes with their others."""
    selves = kernel.new_diagonal(new)
    check_possible(kernel, kernel.cross(new), selves)
    return selves


def _check_columns(
    items: list[Any], columns: list[Any], kernel: Kernel, labels: Sequence[Any]
) -> None:
    """Raise unless there is a column for each known item, and none for anything else."""
    there, allowed = set(columns), {*labels, *items}
    if len(there) < len(columns):
        twice = next(label for label in columns if columns.count(label) > 1)
        msg = f"The similarities of new items have two columns for {twice!r}; give one for each."
        raise LabelError(msg)
    wanted = (
        "New items are described by a table with a line for each and their similarities with "
        "the known ones, a column for each"
    )
    lacking = np.array([k for k, label in enumerate(labels) if label not in there], dtype=np.intp)
    lacking = lacking[kernel.diagonal(lacking) > 0] if lacking.size else lacking
    if lacking.size:
        some = listing([repr(labels[k]) for k in lacking[:3]], lacking.size)
        msg = f"{wanted}; there is none for {some}. Write 0 where two have nothing in common."
        raise LabelError(msg)
    strange = [label for label in columns if label not in allowed]
    if strange:
        some = listing([repr(label) for label in strange[:3]], len(strange))
        msg = (
            f"{wanted}; {count_of(len(strange), 'column')} too many, neither known items nor new "
            f"ones: {some}. Leave them out."
        )
        raise LabelError(msg)


def _numbers(table: Any) -> Floats:
    """The table as an array; what is missing is told by label."""
    try:
        values: Floats = table.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        msg = f"The similarities of new items must be numbers: {error}."
        raise KernelError(msg) from error
    if not np.isfinite(values).all():
        i, j = np.argwhere(~np.isfinite(values))[0]
        msg = (
            f"The similarities of new items must be finite; that of {table.index[i]!r} and "
            f"{table.columns[j]!r} is {values[i, j]}."
        )
        raise NonFiniteError(msg)
    return values


def _self_of_twin(kernel: Kernel, item: int, similarities: Floats) -> float:
    """Similarity with itself of what has the similarities of a known item; NaN otherwise."""
    own = kernel.block([item])[0]
    if np.allclose(similarities, own, rtol=0.0, atol=_ROUNDING * np.abs(own).max()):
        return float(kernel.diagonal([item])[0])
    return float("nan")

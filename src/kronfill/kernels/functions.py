"""Kernels of a user's own function of two items, whatever these are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kronfill._stored import Tests, floats, of, optional
from kronfill._types import Floats, Index
from kronfill.core.psd import check_symmetric_psd
from kronfill.data.arrays import finite_array, frozen, own_sparse, plain_array
from kronfill.data.reading.frames import as_pandas, frame_labels, is_frame
from kronfill.errors import KernelError, ParameterError, ShapeError
from kronfill.kernels.arguments import finite_numbers
from kronfill.kernels.base import Kernel
from kronfill.kernels.given import checked_labels, matrix_block

__all__ = ["FunctionKernel", "SimilarityFunction", "from_function"]

_FEW, _MANY = 200, 1000
"""Items of which all pairs are evaluated at once, by a function of two of them or of many."""
_TOGETHER = 32
"""Items whose similarity with themselves is asked for together, from a function of many."""


def from_function(
    function: Callable[[Any, Any], Any],
    items: Any,
    *,
    vectorized: bool = False,
    labels: Sequence[Any] | None = None,
) -> Kernel:
    """Return the kernel of a function of your own.

    Parameters
    ----------
    function : callable
        ``function(a, b)`` is the similarity of two items, a finite number. It must be symmetric
        and positive semidefinite: sums, products and positive multiples of such functions are,
        and whatever is an inner product of something that is computed from each item alone.
    items : ndarray, scipy.sparse matrix, data frame or sequence
        The known items. An array or a sparse matrix has an item in each row, a data frame in each
        line, which the function gets as a Series; those of any other sequence (a list of strings,
        a Series) are what it holds. What is in a list is not copied: do not change it.
    vectorized : bool, default=False
        Whether the function takes many items at once: ``function(A, B)`` then is an array of shape
        (len(A), len(B)), where A and B are some of the items in the form in which they were given
        (of a sequence, a list).
    labels : sequence, optional
        Names of the items. Those of the data frame or Series by default.

    Returns
    -------
    Kernel
        New items are described in the same form as the known ones.

    Raises
    ------
    NotSymmetricError, NotPSDError
        If it is no kernel. All pairs are looked at for up to 200 items (1000 if `vectorized`), and
        their similarities are kept; of more, those of so many items, chosen at random.

    Notes
    -----
    Beyond that the function is asked for what is needed only: a thin factor of n items takes about
    n calls for each of its columns, and no n x n array is formed. It should return the same number
    whenever it is asked for the same items.

    A model with such a kernel is saved by the name of the function, "module:name", which therefore
    must be one that can be imported: no lambda, and not defined inside another function. A file
    brings no code with it: to load the model hand the function over,
    ``kronfill.load(path, functions=[function])``.

    See Also
    --------
    kronfill.kernels.precomputed : From a matrix of similarities.

    Examples
    --------
    >>> import kronfill as kf
    >>> def shared(a, b):
    ...     return len(set(a) & set(b))
    >>> words = kf.kernels.from_function(shared, ["kernel", "colonel", "matrix"])
    >>> words.to_array()
    array([[5., 3., 1.],
           [3., 5., 0.],
           [1., 0., 6.]])
    >>> words.cross(["metric"])
    array([[2., 2., 4.]])
    """
    if not callable(function):
        msg = (
            "function must be something to call with two items, got "
            f"{type(function).__name__}; a matrix of similarities is kronfill.kernels.precomputed."
        )
        raise ParameterError(msg)
    if not isinstance(vectorized, bool):
        msg = f"vectorized must be True or False, got {vectorized!r}."
        raise ParameterError(msg)
    known, found = _known_items(items)
    n = _count(known)
    if n == 0:
        msg = "items is empty; a kernel needs at least one item."
        raise KernelError(msg)
    names = found if labels is None else checked_labels(labels, n)
    return FunctionKernel(SimilarityFunction(function, vectorized), known, names)


@dataclass(frozen=True)
class SimilarityFunction:
    """What :func:`from_function` was given, and how it is called."""

    function: Callable[[Any, Any], Any]
    vectorized: bool

    @property
    def name(self) -> str:
        """What it is called."""
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))

    @property
    def affordable(self) -> int:
        """Number of items of which all pairs are evaluated."""
        return _MANY if self.vectorized else _FEW

    def block(self, left: Any, right: Any) -> Floats:
        """Return the similarities between two collections of items."""
        shape = (_count(left), _count(right))
        if 0 in shape:
            return np.zeros(shape)
        if self.vectorized:
            return self._numbers(self.function(left, right), shape)
        others = _one_by_one(right)
        found = [[self.function(a, b) for b in others] for a in _one_by_one(left)]
        return self._numbers(found, shape)

    def diagonal(self, items: Any) -> Floats:
        """Return the similarity of each item with itself."""
        n = _count(items)
        if not self.vectorized:
            return self._numbers([self.function(a, a) for a in _one_by_one(items)], (n,))
        out = np.empty(n)
        for start in range(0, n, _TOGETHER):
            some = _picked(items, np.arange(start, min(start + _TOGETHER, n)))
            out[start : start + _TOGETHER] = np.diagonal(self.block(some, some))
        return out

    def _numbers(self, values: Any, shape: tuple[int, ...]) -> Floats:
        numbers = finite_numbers(values, f"What the function {self.name} returns")
        if numbers.shape != shape:
            wanted = f"an array of shape {shape}" if self.vectorized else "one number"
            got = numbers.shape if self.vectorized else numbers.shape[len(shape) :]
            msg = (
                f"The function {self.name} must return {wanted} for {self._given(shape)}, got "
                f"shape {got}. A function that takes two collections of items is declared by "
                "vectorized=True, one that takes two items by vectorized=False."
            )
            raise ShapeError(msg)
        return numbers

    def _given(self, shape: tuple[int, ...]) -> str:
        return f"{shape[0]} and {shape[-1]} items" if self.vectorized else "two items"


class FunctionKernel(Kernel):
    """See :func:`from_function`."""

    _function: SimilarityFunction
    _items: Any
    _K: Floats | None
    stored: ClassVar[Tests] = {
        **Kernel.stored,
        "_function": of(SimilarityFunction),
        "_items": lambda value: _is_own(value),
        "_K": optional(floats(2)),
    }

    def __init__(
        self, function: SimilarityFunction, items: Any, labels: tuple[Any, ...] | None
    ) -> None:
        n, most, name = _count(items), function.affordable, f"The kernel of {function.name}"
        if n <= most:
            matrix = check_symmetric_psd(function.block(items, items), name)
        else:
            matrix = None
            chosen = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
            some = _picked(items, chosen)
            check_symmetric_psd(function.block(some, some), f"{name} ({most} of its {n} items)")
        self._set(n=n, labels=labels, _function=function, _items=items, _K=matrix)

    def _fits_together(self) -> bool:
        whole = self._K is None or self._K.shape == self.shape
        return whole and super()._fits_together() and _count(self._items) == self.n

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        if self._K is not None:
            return matrix_block(self._K, rows, cols)
        return self._function.block(_picked(self._items, rows), _picked(self._items, cols))

    def _diagonal(self, rows: Index | None) -> Floats:
        if self._K is not None:
            diagonal = np.diagonal(self._K)
            return diagonal.copy() if rows is None else diagonal[rows]
        return self._function.diagonal(_picked(self._items, rows))

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        fresh = _new_items(new, self._items)
        return self._function.block(fresh, _picked(self._items, cols))

    def _new_diagonal(self, new: Any) -> Floats:
        return self._function.diagonal(_new_items(new, self._items))

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        matrix = None if self._K is None else matrix_block(self._K, items, items)
        kept = _own(_picked(self._items, items))
        return self._with(n=items.size, labels=labels, _items=kept, _K=matrix)

    def _parameters(self) -> dict[str, Any]:
        return {"function": self._function.name}


# Items of any form. Ours are read-only arrays, csr matrices, data frames of pandas and tuples.


def _known_items(items: Any) -> tuple[Any, tuple[Any, ...] | None]:
    """Return a copy of the items, and their labels where they have some."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(items, pandas.Series):
        return tuple(items), frame_labels(items)
    if is_frame(items):
        frame = as_pandas(items).copy()
        return frame, frame_labels(frame)
    if sparse.issparse(items):
        matrix = sparse.csr_array(own_sparse(items, "items"))
        finite_array(matrix.data, "items")
        return frozen(matrix), None
    if isinstance(items, np.ndarray):
        return frozen(_array(items, "items").copy()), None
    return tuple(_sequence(items, "items")), None


def _new_items(new: Any, known: Any) -> Any:
    """Return new items in the form of the known ones."""
    if isinstance(known, tuple):
        return _sequence(new, "new items")
    if is_frame(known):
        wanted = list(known.columns)
        there = list(new.columns) if is_frame(new) and hasattr(new, "columns") else []
        if any(name not in there for name in wanted):
            msg = (
                "New items must be a data frame with the columns of the known ones, "
                f"{', '.join(map(repr, wanted))}; got {type(new).__name__}"
                f"{f' with {there}' if there else ''}."
            )
            raise KernelError(msg)
        return as_pandas(new)[wanted]
    if sparse.issparse(new):
        array: Any = sparse.csr_array(own_sparse(new, "new items"))
        array = array if sparse.issparse(known) else array.toarray()
    else:
        array = _array(new, "new items")
        array = sparse.csr_array(array) if sparse.issparse(known) and array.ndim == 2 else array
    if array.ndim != known.ndim or array.shape[1:] != known.shape[1:]:
        wanted_shape = ", ".join(["k", *map(str, known.shape[1:])])
        msg = (
            f"New items must have the form of the known ones, an array of shape ({wanted_shape}"
            f"{',' * (known.ndim == 1)}); got shape {array.shape}."
        )
        raise ShapeError(msg)
    return array


def _array(items: Any, name: str) -> Any:
    array = plain_array(items, name)
    if array.ndim == 0:
        msg = f"{name} must be an array with an item in each row, got the single value {array!r}."
        raise ShapeError(msg)
    return finite_array(array, name) if array.dtype.kind == "f" else array


def _sequence(items: Any, name: str) -> list[Any]:
    in_order = hasattr(items, "__len__") and hasattr(items, "__getitem__")
    if not in_order or isinstance(items, str | bytes | Mapping) or hasattr(items, "columns"):
        msg = (
            f"{name} must be a sequence with an element for each item, such as a list, got "
            f"{type(items).__name__}; a single item is a list of one."
        )
        raise KernelError(msg)
    return list(items)


def _own(items: Any) -> Any:
    return tuple(items) if isinstance(items, list) else items


def _is_own(items: Any) -> bool:
    if isinstance(items, np.ndarray):
        return items.ndim >= 1
    return isinstance(items, tuple) or sparse.issparse(items) or hasattr(items, "iterrows")


def _count(items: Any) -> int:
    return int(items.shape[0]) if sparse.issparse(items) else len(items)


def _picked(items: Any, positions: Index | None) -> Any:
    """Return some of the items, all for None, as a function of many gets them."""
    if isinstance(items, tuple):
        return list(items) if positions is None else [items[k] for k in positions]
    if positions is None:
        return items
    return items.iloc[positions] if is_frame(items) else items[positions]


def _one_by_one(items: Any) -> list[Any]:
    """Return the items as a function of two gets them."""
    if is_frame(items):
        return [line for _, line in items.iterrows()]
    if sparse.issparse(items):
        return [items[[k]] for k in range(items.shape[0])]
    return list(items)

"""Kernels that are given: a matrix of similarities, or no similarity at all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kronfill._stored import Tests, floats
from kronfill._types import Floats, Index
from kronfill.core.low_rank import LowRankFactor
from kronfill.core.memory import require_memory
from kronfill.core.psd import check_square, check_symmetric_psd
from kronfill.data.arrays import own_sparse
from kronfill.data.labels import is_missing
from kronfill.data.reading.frames import is_frame
from kronfill.errors import KernelError, LabelError
from kronfill.kernels.arguments import labelled_square
from kronfill.kernels.base import Kernel
from kronfill.kernels.new_items import is_pair, similarities

__all__ = [
    "MatrixKernel",
    "Precomputed",
    "SimilarityKernel",
    "as_kernel",
    "checked_labels",
    "constant",
    "identity",
    "matrix_block",
    "precomputed",
]


def precomputed(K: Any, labels: Sequence[Any] | None = None) -> Kernel:
    """Return the kernel with a given matrix, after checking it.

    Parameters
    ----------
    K : array_like, scipy.sparse matrix or data frame of shape (n, n)
        Finite, symmetric and positive semidefinite; see :func:`nearest_psd` for one that almost
        is. The rows and columns of a data frame must have the same labels; columns in another
        order are brought into that of the rows.
    labels : sequence, optional
        Names of the items. Those of the data frame by default.

    Returns
    -------
    Kernel
        It keeps a copy of the matrix. New items are described by their similarities with the known
        ones: an array of shape (k, n), or a data frame whose columns are matched with the labels.
        Where their similarity with themselves is needed (standard deviations) they are described
        by the pair ``(similarities, diagonal)``, or by a data frame that has a column for each new
        item too.

    Examples
    --------
    >>> import kronfill as kf
    >>> kernel = kf.kernels.precomputed([[1.0, 0.5], [0.5, 1.0]])
    >>> kernel[0, 1]
    0.5
    >>> kernel.cross([[0.2, 0.3]])
    array([[0.2, 0.3]])
    >>> import pandas as pd
    >>> towns = kf.kernels.precomputed([[1.0, 0.5], [0.5, 1.0]], labels=["Oslo", "Rome"])
    >>> new = pd.DataFrame({"Rome": [0.3], "Oslo": [0.2], "Bonn": [1.0]}, index=["Bonn"])
    >>> towns.cross(new), towns.new_diagonal(new)
    (array([[0.2, 0.3]]), array([1.]))
    """
    return _precomputed(K, labels, "kernel")


def identity(n: int | Sequence[Any]) -> Kernel:
    """Return the kernel in which every item is similar to itself only.

    Parameters
    ----------
    n : int or sequence
        Number of items, or their labels.

    Returns
    -------
    Kernel
        A new item shares nothing with the known ones; new items are described by how many they
        are, or by anything that has a length.

    Examples
    --------
    >>> import kronfill as kf
    >>> kf.kernels.identity(2).to_array()
    array([[1., 0.],
           [0., 1.]])
    >>> kf.kernels.identity(["Oslo", "Rome"]).labels
    ('Oslo', 'Rome')
    """
    return Identity(*_size_and_labels(n))


def constant(n: int | Sequence[Any]) -> Kernel:
    """Return the kernel in which all items are alike.

    Added to the kernel of one axis it makes room for effects of the other: with a constant part in
    the column kernel, what is known about a row can tell its general level.

    Parameters
    ----------
    n : int or sequence
        Number of items, or their labels.

    Returns
    -------
    Kernel
        New items are as similar as the known ones; they are described by how many they are, or by
        anything that has a length.

    Examples
    --------
    >>> import kronfill as kf
    >>> kf.kernels.constant(2).to_array()
    array([[1., 1.],
           [1., 1.]])
    """
    return Constant(*_size_and_labels(n))


def _size_and_labels(n: int | Sequence[Any]) -> tuple[int, tuple[Any, ...] | None]:
    labels: tuple[Any, ...] | None = None
    if isinstance(n, int | np.integer):
        size = int(n)
    elif isinstance(n, str) or not hasattr(n, "__len__"):
        msg = f"n must be a number of items or a sequence of labels, got {n!r}."
        raise KernelError(msg)
    else:
        labels = checked_labels(n, len(n))
        size = len(labels)
    if size < 1:
        msg = f"A kernel needs at least one item, got {n!r}."
        raise KernelError(msg)
    return size, labels


def as_kernel(obj: Any, name: str = "row_kernel") -> Kernel:
    """Return a kernel as it is, and a matrix as a checked kernel.

    Parameters
    ----------
    obj : Kernel, array_like, scipy.sparse matrix or data frame
        A kernel, or a symmetric positive semidefinite matrix. An array is not copied: do not
        change it while the kernel is in use.
    name : str, default="row_kernel"
        What to call it in an error message.

    Returns
    -------
    Kernel

    Examples
    --------
    >>> import kronfill as kf
    >>> kf.kernels.as_kernel([[1.0, 0.0], [0.0, 1.0]])
    Precomputed(n=2)
    """
    if isinstance(obj, Kernel):
        return obj
    known = isinstance(obj, np.ndarray | list | tuple) or sparse.issparse(obj) or is_frame(obj)
    if not known:
        msg = (
            f"{name} must be a kernel (kronfill.kernels.rbf(features), ...) or a symmetric positive"
            f" semidefinite matrix (array, scipy.sparse, data frame), got {type(obj).__name__}."
        )
        raise KernelError(msg)
    return _precomputed(obj, None, name, copy=False)


def matrix_block(K: Floats, rows: Index | None, cols: Index | None) -> Floats:
    """Return ``K[rows][:, cols]`` of a symmetric matrix; None stands for all."""
    if rows is not None:
        return K[rows] if cols is None else K[np.ix_(rows, cols)]
    # Rows of the symmetric matrix are contiguous, columns are not.
    return K if cols is None else K[cols].T


class SimilarityKernel(Kernel):
    """A kernel whose new items come with their similarities."""

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        given, _ = similarities(new, self)
        return given if cols is None else given[:, cols]

    def _new_diagonal(self, new: Any) -> Floats:
        _, diagonal = similarities(new, self)
        if np.isnan(diagonal).any():
            msg = (
                f"The similarity of the new items with themselves is needed, and {self!r} cannot "
                "know it; describe new items by the pair (similarities, diagonal), or by a table "
                "with a column for each new item beside those of the known ones. Predictions "
                "without standard deviations do without it."
            )
            raise KernelError(msg)
        return diagonal


class MatrixKernel(SimilarityKernel):
    """A kernel kept as an n x n array."""

    @abstractmethod
    def _matrix(self) -> Floats:
        """Return the whole matrix."""

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        return matrix_block(self._matrix(), rows, cols)

    def _diagonal(self, rows: Index | None) -> Floats:
        diagonal = np.diagonal(self._matrix())
        return diagonal.copy() if rows is None else diagonal[rows]

    def _apply(self, V: Floats) -> Floats:
        product: Floats = self._matrix() @ V
        return product

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return Precomputed(self._block(items, items), labels)


class Precomputed(MatrixKernel):
    """See :func:`precomputed`."""

    _K: Floats
    stored: ClassVar[Tests] = {**Kernel.stored, "_K": floats(2)}

    def __init__(self, K: Floats, labels: tuple[Any, ...] | None) -> None:
        self._set(n=int(K.shape[0]), labels=labels, _K=K)  # which was checked

    def _matrix(self) -> Floats:
        return self._K

    def _fits_together(self) -> bool:
        return super()._fits_together() and self._K.shape == self.shape


class _Alike(Kernel):
    """All items have the similarity 1 with themselves, and are described by their number."""

    def __init__(self, n: int, labels: tuple[Any, ...] | None) -> None:
        self._set(n=n, labels=labels)

    def _diagonal(self, rows: Index | None) -> Floats:
        return np.ones(self.n if rows is None else rows.size)

    def _new_diagonal(self, new: Any) -> Floats:
        return np.ones(_count(new))


class Constant(_Alike):
    """See :func:`constant`."""

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        return np.ones(
            (self.n if rows is None else rows.size, self.n if cols is None else cols.size)
        )

    @property
    def known_rank(self) -> int | None:
        """See :attr:`Kernel.known_rank`."""
        return 1

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        return np.ones((_count(new), self.n if cols is None else cols.size))

    def _apply(self, V: Floats) -> Floats:
        return np.tile(V.sum(axis=0), (self.n, 1))

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return Constant(items.size, labels)


class Identity(_Alike):
    """See :func:`identity`."""

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        if rows is None and cols is None:
            return np.eye(self.n)
        everything = np.arange(self.n)
        left = everything if rows is None else rows
        right = everything if cols is None else cols
        same: Floats = (left[:, None] == right).astype(np.float64)
        return same

    def _cross(self, new: Any, cols: Index | None) -> Floats:
        return np.zeros((_count(new), self.n if cols is None else cols.size))

    def _apply(self, V: Floats) -> Floats:
        return V.copy()

    def _factor(self, rtol: float, max_rank: int | None) -> LowRankFactor:
        if max_rank is not None and max_rank < self.n:
            return super()._factor(rtol, max_rank)
        return LowRankFactor(np.eye(self.n), np.arange(self.n), 0.0)

    def _factor_new(self, factor: LowRankFactor, new: Any) -> Floats:
        return np.zeros((_count(new), factor.rank))

    def split(self) -> tuple[Kernel | None, float]:
        """See :meth:`Kernel.split`."""
        return None, 1.0

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        if np.unique(items).size == items.size:
            return Identity(items.size, labels)
        # An item that is taken twice is fully similar to its copy.
        return Precomputed(self._block(items, items), labels)


def _precomputed(K: Any, labels: Sequence[Any] | None, name: str, *, copy: bool = True) -> Kernel:
    found: tuple[Any, ...] | None = None
    if is_frame(K):
        K, found = labelled_square(K, name)
    elif sparse.issparse(K):
        check_square(K.shape, name)
        advice = "Use fewer items, or build the kernel from features."
        require_memory(2 * 8 * K.shape[0] ** 2, f"{name} as a dense matrix", advice)
        K = own_sparse(K, name).toarray()
    checked = check_symmetric_psd(K, name, copy=copy)
    if labels is not None:
        found = checked_labels(labels, checked.shape[0])
    return Precomputed(checked, found)


def checked_labels(given: Sequence[Any], n: int) -> tuple[Any, ...]:
    """Return the labels of n items, if there is one for each and none twice."""
    labels = tuple(given)
    if len(labels) != n:
        msg = f"Got {len(labels)} labels for {n} items; give one for each."
        raise LabelError(msg)
    seen: set[Any] = set()
    for label in labels:
        if is_missing(label):
            msg = f"The label of item {len(seen)} is missing ({label!r}); give every item one."
            raise LabelError(msg)
        if label in seen:
            msg = f"The label {label!r} appears twice; every item may appear only once."
            raise LabelError(msg)
        seen.add(label)
    return labels


def _count(new: Any) -> int:
    """Count the new items in whatever describes them."""
    if isinstance(new, int | np.integer):
        count = int(new)
    elif sparse.issparse(new):
        count = int(new.shape[0])
    elif is_pair(new):
        count = len(new[0])
    elif hasattr(new, "__len__"):
        count = len(new)
    else:
        count = -1
    if count < 0:
        msg = f"New items must be a number of items or something with a length, got {new!r}."
        raise KernelError(msg)
    return count

"""Four questions, four splits: what has the training part seen of the rows and columns tested.

============================  =================================================
known rows, known columns     :class:`EntryKFold`
new rows                      :class:`RowKFold`
new columns                   :class:`ColumnKFold`
new rows and new columns      :class:`RowColumnKFold`
============================  =================================================

Each is a splitter of scikit-learn for X of (row, column) pairs: ``cross_val_score(est, X, y,
cv=RowKFold(5))`` tells how well rows without any observation are predicted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from kronfill._types import Index
from kronfill.data import Observations
from kronfill.data.arrays import plain_array
from kronfill.data.labels import is_missing
from kronfill.errors import IndexRangeError, ParameterError, ShapeError

__all__ = ["ColumnKFold", "EntryKFold", "RowColumnKFold", "RowKFold"]


def _pairs(X: Any) -> NDArray[Any]:
    """The (m, 2) array of index pairs."""
    pairs = X.X if isinstance(X, Observations) else plain_array(X, "X")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        msg = f"X must have shape (m, 2), one (row, column) pair per entry; got {pairs.shape}."
        raise ShapeError(msg)
    if pairs.dtype.kind in "iu":
        return pairs
    gaps = [at for at, pair in enumerate(pairs.tolist()) if any(map(is_missing, pair))]
    if gaps:
        msg = f"X has no row or no column at position {gaps[0]}; leave such entries out."
        raise IndexRangeError(msg)
    return pairs


def _folds(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 2:
        msg = f"{name} must be an integer of at least 2, got {value!r}."
        raise ParameterError(msg)
    return int(value)


def _labels(count: int, folds: int, rng: np.random.RandomState | None, what: str) -> Index:
    """A fold for each of ``count`` things, of sizes that differ by at most one."""
    if count < folds:
        msg = f"{folds} folds need at least as many {what}, got {count}. Use fewer folds."
        raise ParameterError(msg)
    label = np.arange(count) * folds // count
    return label if rng is None else rng.permutation(label)


class _PairSplitter(BaseCrossValidator):  # type: ignore[misc]
    """A splitter of index pairs; subclasses say which entries are tested and which dropped."""

    shuffle: bool
    random_state: Any

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Index, Index]]:
        """Positions of the training and of the test entries of each fold.

        Parameters
        ----------
        X : array-like of shape (m, 2) or Observations
            Row and column of each entry.
        y, groups : object, optional
            Not used.

        Yields
        ------
        train, test : ndarray of int
        """
        pairs = _pairs(X)
        rng = check_random_state(self.random_state) if self.shuffle else None
        for train, test in self._masks(pairs, rng):
            if train.any() and test.any():
                yield np.flatnonzero(train), np.flatnonzero(test)
                continue
            part = "training" if not train.any() else "test"
            msg = (
                f"{self!r}: a fold has no {part} entries. Use fewer folds, or another random_state."
            )
            raise ParameterError(msg)

    @abstractmethod
    def _masks(
        self, pairs: NDArray[Any], rng: np.random.RandomState | None
    ) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """Training and test part of each fold."""


class _KFold(_PairSplitter):
    """Folds of things, each entry belonging to one."""

    _what: str

    def __init__(self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = 0) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds.

        Parameters
        ----------
        X, y, groups : object, optional
            Not used.

        Returns
        -------
        int
        """
        return _folds(self.n_splits, "n_splits")

    @abstractmethod
    def _things(self, pairs: NDArray[Any]) -> NDArray[Any]:
        """What each entry belongs to."""

    def _masks(
        self, pairs: NDArray[Any], rng: np.random.RandomState | None
    ) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        label = _fold_of(self._things(pairs), self.get_n_splits(), rng, self._what)
        for fold in range(self.get_n_splits()):
            yield label != fold, label == fold


def _fold_of(
    things: NDArray[Any], folds: int, rng: np.random.RandomState | None, what: str
) -> Index:
    """Fold of each entry, all entries of one thing in the same."""
    items, at = np.unique(things, return_inverse=True)
    return np.asarray(_labels(len(items), folds, rng, what)[at])


class EntryKFold(_KFold):
    """Folds of entries: rows and columns of a test entry mostly have others in training.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=True
        Whether entries are dealt out at random; otherwise in order.
    random_state : int, RandomState or None, default=0
        Seed of the deal.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.selection import EntryKFold
    >>> X = np.argwhere(np.ones((3, 2)))
    >>> [len(test) for train, test in EntryKFold(3).split(X)]
    [2, 2, 2]
    """

    _what = "entries"

    def _things(self, pairs: NDArray[Any]) -> NDArray[Any]:
        return np.arange(len(pairs))


class RowKFold(_KFold):
    """Folds of rows: no row of a test entry has an entry in training.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=True
        Whether rows are dealt out at random; otherwise in order.
    random_state : int, RandomState or None, default=0
        Seed of the deal.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.selection import RowKFold
    >>> X = np.argwhere(np.ones((4, 2)))
    >>> [np.unique(X[test, 0]).tolist() for train, test in RowKFold(2, shuffle=False).split(X)]
    [[0, 1], [2, 3]]
    """

    _what = "rows"

    def _things(self, pairs: NDArray[Any]) -> NDArray[Any]:
        return pairs[:, 0]


class ColumnKFold(_KFold):
    """Folds of columns: no column of a test entry has an entry in training.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds.
    shuffle : bool, default=True
        Whether columns are dealt out at random; otherwise in order.
    random_state : int, RandomState or None, default=0
        Seed of the deal.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.selection import ColumnKFold
    >>> X = np.argwhere(np.ones((2, 4)))
    >>> [np.unique(X[test, 1]).tolist() for train, test in ColumnKFold(2, shuffle=False).split(X)]
    [[0, 1], [2, 3]]
    """

    _what = "columns"

    def _things(self, pairs: NDArray[Any]) -> NDArray[Any]:
        return pairs[:, 1]


class RowColumnKFold(_PairSplitter):
    """Folds of rows times folds of columns: neither row nor column of a test entry is in training.

    A fold tests the entries of one set of rows and one set of columns. Entries that share a row or
    a column with them, but not both, belong to neither part. Blocks without entries are left out.

    Parameters
    ----------
    n_row_splits, n_col_splits : int, default=3
        Number of sets of rows and of columns; their product is the number of folds.
    shuffle : bool, default=True
        Whether rows and columns are dealt out at random; otherwise in order.
    random_state : int, RandomState or None, default=0
        Seed of the deal.

    Examples
    --------
    >>> import numpy as np
    >>> from kronfill.selection import RowColumnKFold
    >>> X = np.argwhere(np.ones((4, 4)))
    >>> folds = list(RowColumnKFold(2, 2).split(X))
    >>> [(len(train), len(test)) for train, test in folds]
    [(4, 4), (4, 4), (4, 4), (4, 4)]
    """

    def __init__(
        self,
        n_row_splits: int = 3,
        n_col_splits: int = 3,
        *,
        shuffle: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.n_row_splits = n_row_splits
        self.n_col_splits = n_col_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds.

        Parameters
        ----------
        X : array-like of shape (m, 2), optional
            Row and column of each entry. If given, only blocks with entries are counted.
        y, groups : object, optional
            Not used.

        Returns
        -------
        int
        """
        if X is None:
            return self._sizes()[0] * self._sizes()[1]
        return sum(1 for _ in self.split(X))

    def _sizes(self) -> tuple[int, int]:
        return _folds(self.n_row_splits, "n_row_splits"), _folds(self.n_col_splits, "n_col_splits")

    def _masks(
        self, pairs: NDArray[Any], rng: np.random.RandomState | None
    ) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        row_folds, col_folds = self._sizes()
        row = _fold_of(pairs[:, 0], row_folds, rng, "rows")
        col = _fold_of(pairs[:, 1], col_folds, rng, "columns")
        for i in range(row_folds):
            for j in range(col_folds):
                test = (row == i) & (col == j)
                if test.any():
                    yield (row != i) & (col != j), test

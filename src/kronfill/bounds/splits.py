"""The setting of the transductive bounds: n entries, of which m are drawn for training.

Entries are described, never listed where they are a whole grid: counts, sums and draws of a grid of
N L entries cost N + L plus what is drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import gammaln, polygamma

from kronfill._types import Floats, Index
from kronfill.data import Observations
from kronfill.data.arrays import plain_array
from kronfill.errors import DataError, DuplicateEntryError, ParameterError, ShapeError
from kronfill.estimators.inputs import as_indices

__all__ = ["EntrySet", "Grid", "Listed", "Sizes", "Split", "as_split"]

LISTABLE = 1_000_000
LARGE = 1_000_000
"""From here on sums of 1 / j^2 are bounded by an integral, to 12 digits."""


@dataclass(frozen=True)
class Sizes:
    """Numbers of training entries m and test entries u, with the constants they determine.

    Examples
    --------
    >>> from kronfill.bounds import Sizes
    >>> sizes = Sizes(m=450, u=450)
    >>> sizes.n, sizes.k, round(sizes.q, 5), sizes.p0
    (900, 450, 0.00444, 0.25)
    """

    m: int
    u: int

    def __post_init__(self) -> None:
        for name, value in (("m", self.m), ("u", self.u)):
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                msg = (
                    f"{name} must be a positive integer, got {value!r}: a generalization error "
                    "needs training and test entries."
                )
                raise ParameterError(msg)
            object.__setattr__(self, name, int(value))  # one of NumPy's would overflow

    @property
    def n(self) -> int:
        """All entries, m + u."""
        return self.m + self.u

    @property
    def k(self) -> int:
        """The smaller of m and u."""
        return min(self.m, self.u)

    @property
    def q(self) -> float:
        """1/m + 1/u, of Definition 1."""
        return 1.0 / self.m + 1.0 / self.u

    @property
    def p0(self) -> float:
        """Probability m u / (m + u)^2 of each sign in the law of El-Yaniv and Pechyony."""
        return self.m * self.u / self.n**2

    @property
    def s(self) -> float:
        """S of El-Yaniv and Pechyony, above 1."""
        return self.n / ((self.n - 0.5) * (1 - 0.5 / max(self.m, self.u)))

    @cached_property
    def v(self) -> float:
        """V of the concentration step, at most S m u / n.

        Revealing the training entries one by one gives martingale differences of range at most
        q B u / (n - i); V = u^2 times the sum of 1 / j^2 over j = u .. n - 1, or the same with m.
        """
        return min(value**2 * self._inverse_squares(value) for value in (self.m, self.u))

    def _inverse_squares(self, first: int) -> float:
        """Sum of 1 / j^2 over j = first .. n - 1."""
        if first < LARGE:
            return float(polygamma(1, float(first)) - polygamma(1, float(self.n)))
        # 1 / j^2 is at most its mean from j - 1/2 to j + 1/2, and less by 1 / (4 j^2) of it only;
        # the difference of the two trigammas would lose its digits.
        return (self.n - first) / ((first - 0.5) * (self.n - 0.5))

    @cached_property
    def mean_deviation(self) -> float:
        """E of abs(Bin(n, m/n) - m), at most sqrt(m u / n).

        De Moivre: it is 2 (m u / n) P(Bin = m), and in Stirling's form of that probability all
        large numbers cancel, for any n.
        """
        tail = _stirling_rest(self.n) - _stirling_rest(self.m) - _stirling_rest(self.u)
        return float(np.sqrt(2 / np.pi * (self.m / self.n) * self.u) * np.exp(tail))

    def deviation(self, delta: float) -> float:
        """Q sqrt(V ln(1/delta) / 2): the confidence term for a loss of range 1."""
        return float(self.q * np.sqrt(self.v * np.log(1.0 / delta) / 2.0))


class EntrySet(ABC):
    """A set S_n of entries of an N x L matrix."""

    shape: tuple[int, int]

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of entries."""

    @abstractmethod
    def row_sums(self, weights: Floats) -> Floats:
        """Sum of ``weights[j]`` over the entries (i, j) of each row i."""

    @abstractmethod
    def col_sums(self, weights: Floats) -> Floats:
        """Sum of ``weights[i]`` over the entries (i, j) of each column j."""

    @abstractmethod
    def at(self, positions: Index) -> tuple[Index, Index]:
        """Rows and columns of the entries at these positions, 0 <= position < n."""

    @property
    def row_counts(self) -> Floats:
        """Entries per row."""
        return self.row_sums(np.ones(self.shape[1]))

    @property
    def col_counts(self) -> Floats:
        """Entries per column."""
        return self.col_sums(np.ones(self.shape[0]))

    def total(self, row: Floats, col: Floats) -> float:
        """Sum of ``row[i] col[j]`` over the entries: the trace of a sampled Kronecker kernel."""
        return float(row @ self.row_sums(col))

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Index, Index]:
        """Draw ``count`` distinct entries uniformly."""
        return self.at(_distinct(rng, self.n, count))


@dataclass(frozen=True, eq=False)
class Grid(EntrySet):
    """All entries of a matrix but a few."""

    shape: tuple[int, int]
    without: Index
    """Entries left out, as sorted row-major positions i L + j."""

    @property
    def n(self) -> int:
        """See :class:`EntrySet`."""
        return self.shape[0] * self.shape[1] - len(self.without)

    @cached_property
    def left_out(self) -> Listed:
        """The entries left out."""
        return Listed(self.shape, *np.divmod(self.without, self.shape[1]))

    def row_sums(self, weights: Floats) -> Floats:
        """See :class:`EntrySet`."""
        return np.asarray(float(weights.sum()) - self.left_out.row_sums(weights))

    def col_sums(self, weights: Floats) -> Floats:
        """See :class:`EntrySet`."""
        return np.asarray(float(weights.sum()) - self.left_out.col_sums(weights))

    def at(self, positions: Index) -> tuple[Index, Index]:
        """See :class:`EntrySet`."""
        # position p is p + (number of left-out entries at or before it) in the whole grid
        gaps = self.without - np.arange(len(self.without))
        return np.divmod(positions + np.searchsorted(gaps, positions, "right"), self.shape[1])


@dataclass(frozen=True, eq=False)
class Listed(EntrySet):
    """Entries given one by one."""

    shape: tuple[int, int]
    rows: Index
    cols: Index

    @property
    def n(self) -> int:
        """See :class:`EntrySet`."""
        return len(self.rows)

    def row_sums(self, weights: Floats) -> Floats:
        """See :class:`EntrySet`."""
        sums = np.bincount(self.rows, weights=weights[self.cols], minlength=self.shape[0])
        return sums.astype(float, copy=False)

    def col_sums(self, weights: Floats) -> Floats:
        """See :class:`EntrySet`."""
        sums = np.bincount(self.cols, weights=weights[self.rows], minlength=self.shape[1])
        return sums.astype(float, copy=False)

    def at(self, positions: Index) -> tuple[Index, Index]:
        """See :class:`EntrySet`."""
        return self.rows[positions], self.cols[positions]


@dataclass(frozen=True, eq=False)
class Split:
    """Training entries drawn from a set of entries; the rest is the test set.

    Use :meth:`of` to build one.

    Attributes
    ----------
    rows, cols : ndarray of shape (m,)
        The training entries S_m.
    entries : EntrySet
        S_n, training and test entries together.

    Examples
    --------
    >>> import kronfill as kf
    >>> train = kf.Observations([0, 1], [0, 2], [1.0, 2.0], shape=(3, 4))
    >>> split = kf.bounds.Split.of(train)
    >>> split.sizes
    Sizes(m=2, u=10)
    >>> kf.bounds.Split.of(train, test=([2, 2], [0, 1])).sizes
    Sizes(m=2, u=2)
    """

    rows: Index
    cols: Index
    entries: EntrySet

    @property
    def shape(self) -> tuple[int, int]:
        """Size of the matrix."""
        return self.entries.shape

    @cached_property
    def sizes(self) -> Sizes:
        """M and u with their constants."""
        return Sizes(len(self.rows), self.entries.n - len(self.rows))

    @classmethod
    def of(
        cls,
        train: Any,
        test: Any = None,
        *,
        shape: tuple[int, int] | None = None,
        without: Any = None,
    ) -> Split:
        """Build a split.

        Parameters
        ----------
        train : Observations or pair of index arrays
            The training entries.
        test : Observations or pair of index arrays, optional
            The test entries; by default all other entries of the matrix.
        shape : tuple of int, optional
            Size of the matrix, needed if ``train`` is a pair of arrays.
        without : Observations or pair of index arrays, optional
            With ``test=None``: entries that are in neither set, such as a hold-out.

        Returns
        -------
        Split
        """
        rows, cols = _pairs(train)
        size = train.shape if isinstance(train, Observations) else shape
        if size is None:
            msg = "shape must be given when train is a pair of index arrays, got None."
            raise ParameterError(msg)
        own = _codes(rows, cols, size, "train")
        if test is not None:
            other = _pairs(test)
            codes = np.concatenate([own, _codes(*other, size, "test")])
            _check_distinct(codes, size, "train and test")
            both = np.concatenate([rows, other[0]]), np.concatenate([cols, other[1]])
            return cls(rows, cols, Listed(size, *both))
        empty = np.empty(0, np.intp)
        left = empty if without is None else np.sort(_codes(*_pairs(without), size, "without"))
        _check_distinct(np.concatenate([own, left]), size, "train and without")
        return cls(rows, cols, Grid(size, left))


def as_split(split: Any, shape: tuple[int, int] | None = None) -> Split:
    """Return a split, of a matrix of this shape if one is named."""
    if not isinstance(split, Split):
        msg = f"split must be a Split (see Split.of(train, test)), got {type(split).__name__}."
        raise ParameterError(msg)
    if shape is not None and split.shape != shape:
        msg = (
            f"The split is of a {split.shape[0]} x {split.shape[1]} matrix, the class of "
            f"{shape[0]} x {shape[1]} matrices."
        )
        raise ShapeError(msg)
    return split


def _pairs(entries: Any) -> tuple[Index, Index]:
    if isinstance(entries, Observations):
        return entries.rows, entries.cols
    parts = list(entries) if hasattr(entries, "__iter__") else []
    if len(parts) != 2:
        got = type(entries).__name__
        msg = f"entries must be an Observations or a pair (rows, cols), got {got}."
        raise DataError(msg)
    rows, cols = plain_array(parts[0], "rows"), plain_array(parts[1], "cols")
    if rows.ndim != 1 or rows.shape != cols.shape:
        msg = f"rows and cols must be two vectors of equal length, got {rows.shape}, {cols.shape}."
        raise ShapeError(msg)
    return as_indices(rows, "row"), as_indices(cols, "column")


def _codes(rows: Index, cols: Index, shape: tuple[int, int], name: str) -> Index:
    """Row-major position of each entry."""
    inside = (rows >= 0) & (rows < shape[0]) & (cols >= 0) & (cols < shape[1])
    if not inside.all():
        at = int(np.flatnonzero(~inside)[0])
        where = f"({rows[at]}, {cols[at]}) of {name}"
        msg = f"Entry {where} is outside the {shape[0]} x {shape[1]} matrix."
        raise DataError(msg)
    return np.asarray(np.asarray(rows, np.int64) * shape[1] + cols)


def _check_distinct(codes: Index, shape: tuple[int, int], names: str) -> None:
    values, counts = np.unique(codes, return_counts=True)
    if len(values) < len(codes):
        i, j = divmod(int(values[counts > 1][0]), shape[1])
        msg = f"{names} must not share or repeat an entry; entry ({i}, {j}) comes twice."
        raise DuplicateEntryError(msg)


def _stirling_rest(n: int) -> float:
    """What Stirling's formula leaves of ln n!: ln n! - ln(sqrt(2 pi n) (n / e)^n)."""
    if n < 20:
        return float(gammaln(n + 1) - (n + 0.5) * np.log(n) + n - 0.5 * np.log(2 * np.pi))
    inverse = 1.0 / n
    return inverse * (1 / 12 - inverse**2 * (1 / 360 - inverse**2 * (1 / 1260 - inverse**2 / 1680)))


def _distinct(rng: np.random.Generator, n: int, count: int) -> Index:
    """Uniform random subset of range(n); memory proportional to ``count`` where n is large."""
    if n <= LISTABLE or count > n // 4:
        return np.asarray(rng.choice(n, size=count, replace=False, shuffle=False), dtype=np.intp)
    found = np.empty(0, np.intp)
    while len(found) < count:
        more = rng.integers(0, n, size=count + count // 4 + 16)
        found = np.unique(np.concatenate([found, more]))
    # Any rule that does not look at the values keeps the subset uniform.
    return np.asarray(rng.permutation(found)[:count])

"""What every kernel can do: blocks, diagonal, similarity with new items, low-rank factors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from kronfill._stored import Stored, Tests, count, label_tuple
from kronfill._types import Floats, Index
from kronfill.core.low_rank import LowRankFactor, check_limits, pivoted_cholesky
from kronfill.core.memory import require_memory
from kronfill.data.arrays import frozen, nbytes_of
from kronfill.errors import IndexRangeError, KernelError, ShapeError
from kronfill.kernels.arguments import as_positions, finite_numbers, positions_from_key

__all__ = ["Kernel", "inherited"]

# Entries of a block from which on it is worth asking whether there is memory for it.
_LARGE = 2**24
# Entries of the kernel that a product looks at together.
_CHUNK = 2**22


class Immutable:
    """Arrays are read-only, attributes cannot be set; copying returns the same object."""

    def _set(self, **attributes: Any) -> None:
        for value in attributes.values():
            if isinstance(value, np.ndarray) or sparse.issparse(value):
                frozen(value)
        self.__dict__.update(attributes)

    def _with(self, **changes: Any) -> Self:
        """Return the same kind of kernel with some attributes replaced."""
        other = object.__new__(type(self))
        other._set(**{**self.__dict__, **changes})
        return other

    def __setattr__(self, name: str, value: object) -> None:
        msg = f"A kernel cannot be changed (setting {name!r}); build a new one instead."
        raise AttributeError(msg)

    def __delattr__(self, name: str) -> None:
        msg = f"A kernel cannot be changed (deleting {name!r}); build a new one instead."
        raise AttributeError(msg)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**state)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self


class Kernel(Immutable, Stored, ABC):
    """Similarity between `n` known items, and between them and new ones.

    A kernel is immutable: its arrays are read-only, its attributes cannot be set, and copying or
    cloning it returns the same object. No n x n matrix is formed unless it is asked for.

    Attributes
    ----------
    n : int
        Number of known items; also ``len(kernel)``.
    labels : tuple or None
        Names of the items, where the kernel was built from something that has them.
    learned : bool
        Whether it was learned from observed values, as :class:`~kronfill.selection.KernelTuner`
        does, or made of kernels that were: what is proved for kernels that were chosen without
        looking does not hold for it.

    See Also
    --------
    kronfill.kernels.rbf : From features.
    kronfill.kernels.diffusion : From a graph.
    kronfill.kernels.precomputed : From a matrix.

    Examples
    --------
    >>> import kronfill as kf
    >>> kernel = kf.kernels.rbf([[0.0], [1.0], [3.0]], length_scale=1.0)
    >>> kernel.block([0, 1], [0, 2]).round(3)
    array([[1.   , 0.011],
           [0.607, 0.135]])
    >>> kernel.cross([[2.0]]).round(3)
    array([[0.135, 0.607, 0.607]])
    >>> 0.5 * kernel + kf.kernels.identity(3)
    0.5 * RBF(n=3, length_scale=1) + Identity(n=3)
    """

    n: int
    labels: tuple[Any, ...] | None
    learned: bool = False
    stored: ClassVar[Tests] = {"n": count, "labels": label_tuple}
    stored_at_times: ClassVar[Tests] = {"learned": lambda value: value is True}
    # A numpy array on the left of + or * leaves the operation to the kernel.
    __array_ufunc__ = None

    # What a kind of kernel has to say; arguments are checked, None means all items.

    @abstractmethod
    def _block(self, rows: Index | None, cols: Index | None) -> Floats: ...

    @abstractmethod
    def _diagonal(self, rows: Index | None) -> Floats: ...

    @abstractmethod
    def _cross(self, new: Any, cols: Index | None) -> Floats: ...

    @abstractmethod
    def _new_diagonal(self, new: Any) -> Floats: ...

    @abstractmethod
    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel: ...

    # Hooks with a default: kernels that know a shorter way answer themselves.

    @property
    def _title(self) -> str:
        return type(self).__name__

    def _parameters(self) -> dict[str, Any]:
        own = (name for name in self.stored if name not in Kernel.stored and name[0] != "_")
        return {name: getattr(self, name) for name in own}

    def _apply(self, V: Floats) -> Floats:
        out = np.empty(V.shape)
        rows = max(1, _CHUNK // self.n)
        for start in range(0, self.n, rows):
            some = np.arange(start, min(start + rows, self.n))
            out[some] = self._block(some, None) @ V
        return out

    def _factor(self, rtol: float, max_rank: int | None) -> LowRankFactor:
        return pivoted_cholesky(
            lambda idx: self._block(idx, None).T,
            self._diagonal(None),
            submatrix=self._block,
            rtol=rtol,
            max_rank=max_rank,
        )

    def _factor_new(self, factor: LowRankFactor, new: Any) -> Floats:
        if factor.pivots is None:
            msg = f"{self!r} has no explicit factor; hand in the one that kernel.factor() returned."
            raise KernelError(msg)
        return factor.extend(self._cross(new, factor.pivots))

    # What users and the other rooms call.

    def block(self, rows: npt.ArrayLike | None = None, cols: npt.ArrayLike | None = None) -> Floats:
        """Return ``K[rows][:, cols]``, computing no more than that.

        Parameters
        ----------
        rows, cols : array_like of int, optional
            Positions of items. All of them by default.

        Returns
        -------
        ndarray of shape (len(rows), len(cols))
            It may be read-only; copy it before changing it.
        """
        left = as_positions(rows, self.n, "rows")
        right = left if cols is rows else as_positions(cols, self.n, "cols")
        self._require_room(left, right)
        return self._block(left, right)

    def diagonal(self, rows: npt.ArrayLike | None = None) -> Floats:
        """Return the similarity of items with themselves.

        Parameters
        ----------
        rows : array_like of int, optional
            Positions of items. All of them by default.

        Returns
        -------
        ndarray of shape (len(rows),)
        """
        return self._diagonal(as_positions(rows, self.n, "rows"))

    def cross(self, new: Any, cols: npt.ArrayLike | None = None) -> Floats:
        """Return the similarity of new items with known ones.

        Parameters
        ----------
        new : object
            What describes `k` new items: features for a kernel built from features, a (k, n) array
            of similarities for a given kernel or a graph, see the function that built the kernel.
        cols : array_like of int, optional
            Positions of known items. All of them by default.

        Returns
        -------
        ndarray of shape (k, len(cols))
        """
        return self._cross(new, as_positions(cols, self.n, "cols"))

    def new_diagonal(self, new: Any) -> Floats:
        """Return the similarity of new items with themselves.

        Parameters
        ----------
        new : object
            The new items, as in :meth:`cross`.

        Returns
        -------
        ndarray of shape (k,)
        """
        return self._new_diagonal(new)

    def apply(self, V: npt.ArrayLike) -> Floats:
        """Return the product ``K @ V`` without forming the n x n matrix.

        Parameters
        ----------
        V : array_like of shape (n,) or (n, k)
            Finite numbers, one row for each item.

        Returns
        -------
        ndarray of the shape of V

        Notes
        -----
        Kernels with structure use it: sparse products for a large graph, two thin products for
        :func:`linear`. The others work through blocks of rows of bounded size.

        Examples
        --------
        >>> import numpy as np
        >>> import kronfill as kf
        >>> kernel = kf.kernels.rbf([[0.0], [1.0], [3.0]], length_scale=1.0)
        >>> kernel.apply([1.0, 0.0, -1.0]).round(3)
        array([ 0.989,  0.471, -0.989])
        >>> V = np.eye(3)[:, :2]
        >>> bool(np.allclose(kernel.apply(V), kernel.block()[:, :2]))
        True
        """
        array = np.asarray(finite_numbers(V, "V", "an array of numbers"), order="C")
        if array.ndim not in {1, 2} or array.shape[0] != self.n:
            msg = (
                f"A kernel of {self.n} items multiplies an array of shape ({self.n},) or "
                f"({self.n}, k), got {array.shape}."
            )
            raise ShapeError(msg)
        product = self._apply(array.reshape(self.n, -1))
        return product.reshape(array.shape)

    def factor(self, rtol: float = 1e-13, max_rank: int | None = None) -> LowRankFactor:
        """Return a thin factor ``phi`` with ``K ~= phi @ phi.T``.

        Parameters
        ----------
        rtol : float, default=1e-13
            Share of the trace of K that may be left out.
        max_rank : int, optional
            Largest number of columns; the `residual` of the result tells what that leaves out.

        Returns
        -------
        LowRankFactor

        Examples
        --------
        >>> import numpy as np
        >>> import kronfill as kf
        >>> kf.kernels.rbf(np.linspace(0, 1, 1000)).factor().rank < 20
        True
        """
        check_limits(rtol, max_rank)
        return self._factor(rtol, max_rank)

    def factor_new(self, factor: LowRankFactor, new: Any) -> Floats:
        """Return the rows that new items have in a factor of this kernel.

        Parameters
        ----------
        factor : LowRankFactor
            What :meth:`factor` of this kernel returned.
        new : object
            The new items, as in :meth:`cross`.

        Returns
        -------
        ndarray of shape (k, d)
            ``phi_new`` with ``phi_new @ factor.phi.T ~= kernel.cross(new)``.
        """
        if factor.n != self.n:
            msg = f"The factor has {factor.n} items but the kernel {self.n}; they do not belong."
            raise KernelError(msg)
        return self._factor_new(factor, new)

    def split(self) -> tuple[Kernel | None, float]:
        """Take the identity part off.

        Returns
        -------
        kernel : Kernel or None
            What is left; None for nothing.
        ridge : float
            The multiple of the identity: ``K = kernel + ridge * I``.

        Examples
        --------
        >>> import kronfill as kf
        >>> (kf.kernels.constant(3) + 0.5 * kf.kernels.identity(3)).split()
        (Constant(n=3), 0.5)
        """
        return self, 0.0

    def take(self, items: npt.ArrayLike) -> Kernel:
        """Return the kernel of the given items, in the given order.

        Parameters
        ----------
        items : array_like of int
            Positions of the items to keep.

        Returns
        -------
        Kernel
            With ``len(items)`` items; new items are described as before (a given kernel or a graph
            wants similarities with the kept items only).
        """
        where = as_positions(items, self.n, "items")
        if where is None or where.size == 0:
            msg = "items is empty; a kernel needs at least one item."
            raise KernelError(msg)
        labels = None if self.labels is None else tuple(self.labels[i] for i in where)
        taken = self._take(where, labels)
        return taken.as_learned() if self.learned else taken

    def as_learned(self) -> Kernel:
        """Return the same kernel, marked as learned from observed values."""
        return self._with(learned=True)

    def to_array(self) -> Floats:
        """Return the whole n x n matrix (it may be read-only)."""
        return self.block()

    def normalized(self) -> Kernel:
        """Return the kernel ``K[i, j] / sqrt(K[i, i] * K[j, j])``, whose diagonal is one."""
        from kronfill.kernels.algebra import Normalized

        return Normalized(self)

    @property
    def by_products(self) -> bool:
        """Whether products with vectors are cheap and single entries are not."""
        return False

    @property
    def known_rank(self) -> int | None:
        """Bound of the rank that is known without any work, or None."""
        return None

    @property
    def explicit_rank(self) -> int | None:
        """Number of columns of its factors that have no pivots, or None where it may be any."""
        return None

    def is_factored_by(self, factor: LowRankFactor) -> bool:
        """Whether a factor may be one of this kernel, as far as sizes tell: for new items too."""
        rank = self.explicit_rank if factor.pivots is None else None
        return factor.n == self.n and rank in (None, factor.rank)

    def _fits_together(self) -> bool:
        return self.labels is None or len(self.labels) == self.n

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix, (n, n)."""
        return (self.n, self.n)

    @property
    def nbytes(self) -> int:
        """Bytes that the kernel keeps in arrays."""
        return sum(_nbytes(value) for value in self.__dict__.values())

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, key: Any) -> Floats | float:
        if not isinstance(key, tuple) or len(key) != 2:
            msg = f"A kernel takes two positions, kernel[rows, cols]; got {key!r}."
            raise IndexRangeError(msg)
        rows, one_row = positions_from_key(key[0], self.n, "rows")
        cols, one_col = positions_from_key(key[1], self.n, "cols")
        self._require_room(rows, cols)
        block = self._block(rows, cols)
        if one_row and one_col:
            return float(block[0, 0])
        picked: Floats = block[0] if one_row else block[:, 0] if one_col else block
        return picked

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        array = self.to_array()
        array = array if dtype is None else array.astype(dtype, copy=False)
        return array.copy() if copy else array

    def __add__(self, other: object) -> Kernel:
        from kronfill.kernels.algebra import Sum

        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: object) -> Kernel:
        # The built-in sum() starts from 0.
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __mul__(self, other: object) -> Kernel:
        from kronfill.kernels.algebra import Product, Scaled

        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, float(other)) if isinstance(other, Real) else NotImplemented

    def __rmul__(self, other: object) -> Kernel:
        return self.__mul__(other)

    def __repr__(self) -> str:
        given = {"n": self.n, **self._parameters()}
        return f"{self._title}({', '.join(f'{k}={_short(v)}' for k, v in given.items())})"

    def _require_room(self, rows: Index | None, cols: Index | None) -> None:
        left = self.n if rows is None else rows.size
        right = self.n if cols is None else cols.size
        if left * right > _LARGE:
            advice = "Ask for smaller blocks, or for a low-rank factor (kernel.factor())."
            require_memory(8 * left * right, f"A {left} x {right} block of the kernel", advice)


def inherited(*parts: Kernel) -> dict[str, bool]:
    """Return what a kernel that is made of others has to remember of them."""
    return {"learned": True} if any(part.learned for part in parts) else {}


def _nbytes(value: Any) -> int:
    if sparse.issparse(value):
        return nbytes_of(value)
    if isinstance(value, tuple) and value and isinstance(value[0], Kernel):
        return sum(part.nbytes for part in value)
    size = getattr(value, "nbytes", 0)
    return int(size)


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=4, separator=", ", threshold=6)
    return f"{value:.6g}" if isinstance(value, float) else repr(value)

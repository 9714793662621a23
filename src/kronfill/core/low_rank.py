"""Low-rank factors of a positive semidefinite matrix whose columns are computed on demand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack, solve_triangular

from kronfill._stored import Stored, Tests, floats, indices, inside, optional, real
from kronfill._types import Floats, Index
from kronfill.core.memory import require_memory
from kronfill.core.products import row_major
from kronfill.core.threads import WIDE, one_blas_thread
from kronfill.errors import KernelError, NonFiniteError, ParameterError, ShapeError

__all__ = ["LowRankFactor", "check_limits", "pivoted_cholesky"]

Columns = Callable[[Index], Floats]
Submatrix = Callable[[Index, Index], Floats]

# A residual diagonal entry below this share of its original is rounding error, not information.
_ROUNDING = 32 * float(np.finfo(np.float64).eps)
# A candidate is kept while at least this share of the mean residual is left of it.
_KEEP = 0.2
_FIRST_CAPACITY = 96


@dataclass(frozen=True, eq=False)
class LowRankFactor(Stored):
    """A thin factor ``phi`` with ``K ~= phi @ phi.T``.

    Attributes
    ----------
    phi : ndarray of shape (n, d)
        The factor, C-contiguous and read-only.
    pivots : ndarray of shape (d,) or None
        The items whose columns span the factor, in the order they were chosen; ``phi[pivots]`` is
        lower triangular. None when `phi` was given explicitly (features of a linear kernel).
    residual : float
        Trace of ``K - phi @ phi.T`` divided by the trace of ``K`` (for large graph kernels an upper
        bound of it).

    Examples
    --------
    >>> import numpy as np
    >>> K = np.array([[4.0, 2.0], [2.0, 1.0]])
    >>> factor = pivoted_cholesky(lambda idx: K[:, idx], np.diagonal(K))
    >>> factor.rank
    1
    >>> bool(np.allclose(factor.phi @ factor.phi.T, K))
    True
    """

    phi: Floats
    pivots: Index | None
    residual: float
    stored: ClassVar[Tests] = {"phi": floats(2), "pivots": optional(indices), "residual": real}

    def __post_init__(self) -> None:
        self.phi.flags.writeable = False
        if self.pivots is not None:
            self.pivots.flags.writeable = False

    def __setstate__(self, state: dict[str, object]) -> None:
        # A pickled array comes back writeable.
        self.__dict__.update(state)
        self.__post_init__()

    def _fits_together(self) -> bool:
        """New items follow from a system with a solution."""
        if self.pivots is None:
            return True
        right = len(self.pivots) == self.rank and inside(self.pivots, self.n)
        return right and bool((self.phi[self.pivots, np.arange(self.rank)] > 0).all())

    @property
    def n(self) -> int:
        """Number of items."""
        return int(self.phi.shape[0])

    @property
    def rank(self) -> int:
        """Number of columns of the factor."""
        return int(self.phi.shape[1])

    def __repr__(self) -> str:
        kind = "explicit" if self.pivots is None else "pivoted"
        return f"LowRankFactor(n={self.n}, rank={self.rank}, {kind}, residual={self.residual:.2g})"

    def extend(self, cross_to_pivots: npt.ArrayLike) -> Floats:
        """Return the rows of the factor that belong to new items.

        Parameters
        ----------
        cross_to_pivots : array_like of shape (k, d)
            Similarity of the new items with the items `pivots`, in that order.

        Returns
        -------
        ndarray of shape (k, d)
            ``phi_new`` with ``phi_new @ phi.T`` close to the similarity with all known items.

        Notes
        -----
        The rows of `phi` obey ``phi @ L.T = K[:, pivots]`` with ``L = phi[pivots]``, so those of
        new items follow from the same triangular solve.
        """
        if self.pivots is None:
            msg = (
                "This factor was given explicitly and has no pivots to extend it from: use "
                "kernel.factor_new(factor, new)."
            )
            raise KernelError(msg)
        cross = np.asarray(cross_to_pivots, dtype=np.float64)
        if cross.ndim != 2 or cross.shape[1] != self.rank:
            msg = f"cross_to_pivots must have shape (k, {self.rank}), got {cross.shape}."
            raise ShapeError(msg)
        if cross.size == 0:
            return np.zeros(cross.shape)
        lower = self.phi[self.pivots]
        solved = solve_triangular(lower, cross.T, lower=True, check_finite=False)
        return np.ascontiguousarray(solved.T)


def pivoted_cholesky(
    columns: Columns,
    diagonal: npt.ArrayLike,
    *,
    submatrix: Submatrix | None = None,
    rtol: float = 1e-13,
    max_rank: int | None = None,
    block_size: int = 192,
    seed: int = 0,
    deadline: float = float("inf"),
) -> LowRankFactor:
    """Factor a positive semidefinite matrix by a blocked, randomly pivoted Cholesky.

    Parameters
    ----------
    columns : callable
        ``columns(idx)`` returns the columns ``K[:, idx]`` as an (n, len(idx)) array.
    diagonal : array_like of shape (n,)
        The diagonal of K.
    submatrix : callable, optional
        ``submatrix(rows, cols)`` returns ``K[rows][:, cols]``. Without it candidates that are
        not kept cost a full column.
    rtol : float, default=1e-13
        Stop when the trace of the residual is at most `rtol` times the trace of K.
    max_rank : int, optional
        Largest number of columns. All that are needed by default.
    block_size : int, default=192
        Largest number of candidates looked at together.
    seed : int, default=0
        Seed of the random choice of pivots; the same seed gives the same factor.
    deadline : float, default=inf
        No round starts after this moment of ``time.monotonic``, but for the first one.

    Returns
    -------
    LowRankFactor

    Notes
    -----
    Each round draws a block of candidates with probability proportional to the residual diagonal
    [1]_, and keeps those that a greedy Cholesky *inside* the block still finds informative [2]_:
    a near copy of another candidate is left behind, so that no tiny pivot is ever divided by.
    Work is O(n d^2) in matrix products and the memory that of the factor.

    References
    ----------
    .. [1] E. N. Epperly, J. A. Tropp, R. J. Webber (2024), "Embrace rejection: kernel matrix
       approximation by accelerated randomly pivoted Cholesky", arXiv:2410.03969.
    .. [2] Y. Dong, C. Chen, P.-G. Martinsson, K. Pearce (2023), "Robust blockwise random pivoting:
       fast and accurate adaptive interpolative decomposition", arXiv:2309.16002.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 500)[:, None]
    >>> K = np.exp(-((x - x.T) ** 2))
    >>> factor = pivoted_cholesky(lambda idx: K[:, idx], np.ones(500))
    >>> factor.rank < 20
    True
    >>> bool(np.abs(K - factor.phi @ factor.phi.T).max() < 1e-11)
    True
    """
    diag = _checked_diagonal(diagonal)
    check_limits(rtol, max_rank)
    limit = diag.size if max_rank is None else min(int(max_rank), diag.size)
    if submatrix is None:

        def submatrix(rows: Index, cols: Index) -> Floats:
            return columns(cols)[rows]

    state = _Factorisation(diag, limit, rtol, np.random.default_rng(seed))
    while not state.finished:
        candidates = state.draw(block_size)
        if candidates.size == 0:
            break
        with one_blas_thread():
            kept, lower = state.filter(candidates, submatrix(candidates, candidates))
        with one_blas_thread(state.rank < WIDE):
            if kept.size:
                state.append(kept, columns(kept), lower)
        if time.monotonic() > deadline:
            break
    return state.result()


def check_limits(rtol: float, max_rank: int | None) -> None:
    """Refuse a tolerance or rank that makes no sense.

    Parameters
    ----------
    rtol : float
        At least 0 and below 1.
    max_rank : int or None
        At least 1.
    """
    if not isinstance(rtol, Real) or not 0 <= float(rtol) < 1:
        msg = f"rtol must be at least 0 and below 1, got {rtol!r}. The default is 1e-13."
        raise ParameterError(msg)
    if max_rank is not None and (not isinstance(max_rank, Integral) or max_rank < 1):
        msg = f"max_rank must be a positive integer or None, got {max_rank!r}."
        raise ParameterError(msg)


class _Factorisation:
    """The factor as it grows, and the diagonal of what is left of the matrix."""

    def __init__(self, diagonal: Floats, limit: int, rtol: float, rng: np.random.Generator) -> None:
        self.n = diagonal.size
        self.limit = limit
        self.rng = rng
        self.trace = float(diagonal.sum())
        self.goal = rtol * self.trace
        self.floor = _ROUNDING * diagonal
        self.left = diagonal.copy()
        self.rank = 0
        # Columns are added at the end of a column-major array, so the used part is contiguous.
        self.buffer: Floats = np.empty((self.n, min(limit, _FIRST_CAPACITY)), order="F")
        self.pivots = np.empty(limit, dtype=np.intp)

    @property
    def phi(self) -> Floats:
        return self.buffer[:, : self.rank]

    @property
    def finished(self) -> bool:
        return self.rank >= self.limit or float(self.left.sum()) <= self.goal

    def draw(self, block_size: int) -> Index:
        """Draw distinct candidates with probability proportional to the residual diagonal."""
        self.left[self.left <= self.floor] = 0.0
        (alive,) = np.nonzero(self.left)
        size = min(block_size, max(32, self.rank), alive.size)
        if size == alive.size:
            return alive
        # The smallest of independent exponential times with these rates are such a draw.
        times = self.rng.standard_exponential(alive.size) / self.left[alive]
        return alive[np.argpartition(times, size - 1)[:size]]

    def filter(self, candidates: Index, gram: Floats) -> tuple[Index, Floats]:
        """Keep the candidates that a greedy Cholesky of their residual finds informative."""
        rows = self.phi[candidates]
        residual = np.array(gram, order="F")
        residual -= rows @ rows.T
        fresh = np.clip(np.diagonal(residual), 0.0, None)
        self.left[candidates] = fresh
        smallest = float(self.floor[candidates].max())
        largest = float(fresh.max())
        if largest <= smallest:
            # Nothing here but rounding error (some items may be of a far smaller scale).
            self.left[candidates[fresh <= smallest]] = 0.0
            return candidates[:0], residual[:0, :0]
        mean = float(self.left.sum()) / np.count_nonzero(self.left)
        tol = max(smallest, min(_KEEP * mean, 0.5 * largest))
        lower, order, rank, _ = lapack.dpstrf(residual, tol=tol, lower=1, overwrite_a=1)
        rank = min(int(rank), self.limit - self.rank)
        kept = candidates[order[:rank] - 1]
        return kept, np.tril(lower[:rank, :rank])

    def append(self, kept: Index, columns: Floats, lower: Floats) -> None:
        """Add the columns of the pivots `kept`, whose residual is ``lower @ lower.T``."""
        fresh = np.array(columns, order="F")
        if self.rank:
            fresh = blas.dgemm(
                -1.0, self.phi, self.phi[kept], beta=1.0, c=fresh, trans_b=1, overwrite_c=1
            )
        fresh = blas.dtrsm(1.0, lower, fresh, side=1, lower=1, trans_a=1, overwrite_b=1)
        if not np.isfinite(fresh).all():
            msg = "The kernel has NaN or infinite values. Check the features it was built from."
            raise NonFiniteError(msg)
        # The residual of a pivot is zero from then on: phi[pivots] is exactly lower triangular.
        fresh[self.pivots[: self.rank]] = 0.0
        fresh[kept] = lower
        count = self._columns_needed(fresh)
        fresh, kept = fresh[:, :count], kept[:count]
        start, stop = self.rank, self.rank + count
        self._reserve(stop)
        self.buffer[:, start:stop] = fresh
        self.pivots[start:stop] = kept
        self.rank = stop
        self.left -= np.einsum("ij,ij->i", fresh, fresh)
        np.clip(self.left, 0.0, None, out=self.left)
        self.left[kept] = 0.0

    def _columns_needed(self, fresh: Floats) -> int:
        """Count the leading columns of the last block that are enough to reach the goal."""
        removed = np.cumsum(np.einsum("ij,ij->j", fresh, fresh))
        enough = float(self.left.sum()) - removed <= self.goal
        return int(np.argmax(enough)) + 1 if enough.any() else int(fresh.shape[1])

    def _reserve(self, columns: int) -> None:
        capacity = self.buffer.shape[1]
        if columns <= capacity:
            return
        capacity = min(self.limit, max(columns, 2 * capacity))
        require_memory(
            8 * self.n * capacity,
            f"A factor of {self.n} items and rank {capacity}",
            "Allow a larger residual (rtol) or limit the rank (max_rank).",
        )
        larger: Floats = np.empty((self.n, capacity), order="F")
        larger[:, : self.rank] = self.phi
        self.buffer = larger

    def result(self) -> LowRankFactor:
        residual = float(self.left.sum()) / self.trace if self.trace > 0 else 0.0
        return LowRankFactor(row_major(self.phi), self.pivots[: self.rank].copy(), residual)


def _checked_diagonal(diagonal: npt.ArrayLike) -> Floats:
    """Return the diagonal as a float array, or say what is wrong with it."""
    diag = np.asarray(diagonal, dtype=np.float64)
    if diag.ndim != 1:
        msg = f"The diagonal must be one-dimensional, got shape {diag.shape}."
        raise ShapeError(msg)
    (bad,) = np.nonzero(~np.isfinite(diag))
    if bad.size:
        msg = f"The diagonal of the kernel is {diag[bad[0]]} at item {bad[0]}. It must be finite."
        raise NonFiniteError(msg)
    (bad,) = np.nonzero(diag < 0)
    if bad.size:
        msg = (
            f"The diagonal of the kernel is {diag[bad[0]]:.3g} at item {bad[0]}. A positive "
            "semidefinite matrix has none below 0: repair it with kronfill.kernels.nearest_psd(K)."
        )
        raise KernelError(msg)
    return diag

"""Kernels of the nodes of a graph: diffusion, regularised Laplacian, random walk."""

from __future__ import annotations

import threading
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from kronfill._stored import Tests, either, floats, indices, inside, of, optional, sparse_floats
from kronfill._types import Floats, Index
from kronfill.core.low_rank import LowRankFactor
from kronfill.core.memory import require_memory
from kronfill.kernels.arguments import positive_integer, real_at_least
from kronfill.kernels.base import Kernel
from kronfill.kernels.given import MatrixKernel, Precomputed, SimilarityKernel
from kronfill.kernels.graphs.adjacency import read_graph
from kronfill.kernels.graphs.laplacian import (
    Diffusion,
    LaplacianFunction,
    Operator,
    RandomWalk,
    RegularizedLaplacian,
    SparseLaplacian,
    dense_laplacian,
)

__all__ = ["diffusion", "random_walk", "regularized_laplacian"]

# Up to so many nodes an n x n array is small, and quicker than sparse products.
_DENSE_UP_TO = 3000
# Entries of the vectors that are multiplied together.
_CHUNK = 2**22


def diffusion(graph: Any, t: float = 1.0, normalized: bool = True) -> Kernel:
    """Return the diffusion (heat) kernel ``exp(-t L)`` of a graph.

    Parameters
    ----------
    graph : networkx.Graph, scipy.sparse matrix, array_like or data frame
        An undirected graph, or its symmetric adjacency matrix of weights that are not negative.
        The diagonal (self loops) is ignored. Nodes of a networkx graph become the labels.
    t : float, default=1.0
        How long heat spreads; the longer, the more distant nodes are similar.
    normalized : bool, default=True
        Use ``I - D^-1/2 A D^-1/2`` for the Laplacian L instead of ``D - A``, with the weights A
        and the degrees D.

    Returns
    -------
    Kernel
        New nodes are described by their similarities with the known ones, as in
        :func:`precomputed`.

    Notes
    -----
    A small graph (up to 3000 nodes), or one given as a dense array, has its n x n matrix computed
    when that is first needed. For a larger sparse graph no such array is formed:
    :meth:`Kernel.apply` works by sparse products (by a sparse factorisation for the regularised
    Laplacian of a graph that is nearly planar), blocks are products with unit vectors, and factors
    come from the leading eigenvectors; their `residual` is an upper bound. The diagonal costs as
    much as n products; it is kept. :meth:`Kernel.take` keeps the whole graph: the similarity of
    two nodes still counts the ways through those not taken.

    References
    ----------
    R. I. Kondor, J. Lafferty (2002), "Diffusion kernels on graphs and other discrete structures",
    ICML. A. Smola, R. Kondor (2003), "Kernels and regularization on graphs", COLT.

    Examples
    --------
    >>> import kronfill as kf
    >>> path = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> kf.kernels.diffusion(path, t=0.5, normalized=False).block([0]).round(3)
    array([[0.674, 0.259, 0.067]])
    """
    time = real_at_least(t, 0.0, "t", strict=True)
    return _graph_kernel(graph, Diffusion(time, bool(normalized)))


def regularized_laplacian(graph: Any, sigma: float = 1.0, normalized: bool = True) -> Kernel:
    """Return the regularised Laplacian kernel ``(I + sigma^2 L)^-1`` of a graph.

    Parameters
    ----------
    graph : networkx.Graph, scipy.sparse matrix, array_like or data frame
        As in :func:`diffusion`.
    sigma : float, default=1.0
        The larger, the more distant nodes are similar.
    normalized : bool, default=True
        As in :func:`diffusion`.

    Returns
    -------
    Kernel
        As in :func:`diffusion`.

    Examples
    --------
    >>> import kronfill as kf
    >>> kf.kernels.regularized_laplacian([[0, 1], [1, 0]], normalized=False).to_array().round(3)
    array([[0.667, 0.333],
           [0.333, 0.667]])
    """
    spread = real_at_least(sigma, 0.0, "sigma", strict=True)
    return _graph_kernel(graph, RegularizedLaplacian(spread, bool(normalized)))


def random_walk(graph: Any, steps: int = 2, a: float = 2.0) -> Kernel:
    """Return the random walk kernel ``(a I - L)^steps`` of a graph, with the normalised L.

    Parameters
    ----------
    graph : networkx.Graph, scipy.sparse matrix, array_like or data frame
        As in :func:`diffusion`.
    steps : int, default=2
        Length of the walks, at least 1.
    a : float, default=2.0
        At least 2, the largest eigenvalue that L can have; larger values keep walks nearer home.

    Returns
    -------
    Kernel
        As in :func:`diffusion`.

    Examples
    --------
    >>> import kronfill as kf
    >>> kf.kernels.random_walk([[0, 1], [1, 0]], steps=1).to_array()
    array([[1., 1.],
           [1., 1.]])
    """
    # Below 2 it would not be positive semidefinite for every graph.
    walk = RandomWalk(positive_integer(steps, "steps"), real_at_least(a, 2.0, "a"))
    return _graph_kernel(graph, walk)


def _graph_kernel(graph: Any, function: LaplacianFunction) -> Kernel:
    weights, labels = read_graph(graph)
    n = int(weights.shape[0])
    if sparse.issparse(weights) and n > _DENSE_UP_TO:
        return SparseGraphKernel(function, SparseLaplacian.of(weights, function.normalized), labels)
    require_memory(
        3 * 8 * n**2,
        f"A kernel of a graph with {n} nodes given as a dense array",
        "Give the adjacency as a scipy.sparse matrix or a networkx graph.",
    )
    return GraphKernel(function, weights, labels)


class _OfLaplacian(SimilarityKernel):
    """A function of a graph Laplacian, of which something is computed when it is first needed."""

    _function: Any
    _lock: Any
    _made_again: ClassVar[tuple[str, ...]] = ()
    stored: ClassVar[Tests] = {**Kernel.stored, "_function": of(LaplacianFunction)}

    @property
    def _title(self) -> str:
        return type(self._function).__name__

    def _parameters(self) -> dict[str, Any]:
        function = self._function
        return {part.name: getattr(function, part.name) for part in fields(function) if part.init}

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_lock", *self._made_again)
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**{**state, **dict.fromkeys(self._made_again), "_lock": threading.Lock()})


class GraphKernel(_OfLaplacian, MatrixKernel):
    """A function of a graph Laplacian as an array, computed once, when it is first needed."""

    _weights: Any
    _K: Floats | None
    stored: ClassVar[Tests] = {
        **_OfLaplacian.stored,
        "_weights": optional(either(floats(2), sparse_floats)),
        "_K": optional(floats(2)),
    }

    def __init__(
        self, function: LaplacianFunction, weights: Any, labels: tuple[Any, ...] | None
    ) -> None:
        self._set(
            n=int(weights.shape[0]),
            labels=labels,
            _function=function,
            _weights=weights,
            _K=None,
            _lock=threading.Lock(),
        )

    def _fits_together(self) -> bool:
        matrix, weights = self._K, self._weights
        if not super()._fits_together() or (matrix is None) == (weights is None):
            return False
        if matrix is not None:
            return matrix.shape == self.shape
        stored = weights.data if sparse.issparse(weights) else weights
        return weights.shape == self.shape and bool(np.min(stored, initial=0.0) >= 0)

    def _matrix(self) -> Floats:
        with self._lock:
            if self._K is None:
                laplacian = dense_laplacian(self._weights, self._function.normalized)
                # From here on the weights are not needed any more.
                self._set(_K=self._function.dense(laplacian), _weights=None)
            kernel: Floats = self.__dict__["_K"]
        return kernel


class SparseGraphKernel(_OfLaplacian):
    """A function of the sparse Laplacian of a large graph, known by its products."""

    _laplacian: SparseLaplacian
    _operator: Operator | None
    _selves: Floats | None
    _made_again: ClassVar[tuple[str, ...]] = ("_operator",)  # a factorisation cannot be pickled
    stored: ClassVar[Tests] = {
        **_OfLaplacian.stored,
        "_laplacian": of(SparseLaplacian),
        "_selves": optional(floats(1)),
    }

    def __init__(
        self,
        function: LaplacianFunction,
        laplacian: SparseLaplacian,
        labels: tuple[Any, ...] | None,
    ) -> None:
        self._set(
            n=laplacian.n,
            labels=labels,
            _function=function,
            _laplacian=laplacian,
            _operator=None,
            _selves=None,
            _lock=threading.Lock(),
        )

    def _fits_together(self) -> bool:
        right = self._selves is None or self._selves.shape == (self.n,)
        return right and super()._fits_together() and self._laplacian.n == self.n

    def _prepared(self) -> Operator:
        with self._lock:
            if self._operator is None:
                self._set(_operator=self._function.operator(self._laplacian))
            operator: Operator = self.__dict__["_operator"]
        return operator

    @property
    def by_products(self) -> bool:
        """See :attr:`Kernel.by_products`."""
        return True

    def _apply(self, V: Floats) -> Floats:
        operator, out = self._prepared(), np.empty(V.shape)
        for some in _chunks(V.shape[1], self.n):
            out[:, some] = operator(np.ascontiguousarray(V[:, some]))
        return out

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        if cols is None and rows is None:
            cols = np.arange(self.n)
        if cols is None or (rows is not None and rows.size < cols.size):
            return self._columns(rows, cols).T
        return self._columns(cols, rows)

    def _columns(self, items: Index | None, keep: Index | None) -> Floats:
        """Return ``K[keep][:, items]``, by products with unit vectors."""
        operator, where = self._prepared(), _everything(items, self.n)
        out = np.empty((self.n if keep is None else keep.size, where.size))
        for some in _chunks(where.size, self.n):
            columns = operator(_units(where[some], self.n))
            out[:, some] = columns if keep is None else columns[keep]
        return out

    def _diagonal(self, rows: Index | None) -> Floats:
        if self._selves is None:
            found = self._selves_of(_everything(rows, self.n))
            if rows is not None:
                return found
            self._set(_selves=found)
        kept: Floats = self.__dict__["_selves"]
        return kept.copy() if rows is None else kept[rows]

    def _selves_of(self, items: Index) -> Floats:
        operator, out = self._prepared(), np.empty(items.size)
        for some in _chunks(items.size, self.n):
            where = items[some]
            out[some] = operator(_units(where, self.n))[where, np.arange(where.size)]
        return out

    def _factor(self, rtol: float, max_rank: int | None) -> LowRankFactor:
        from kronfill.kernels.graphs.lanczos import SpectralFactor

        factor = SpectralFactor(self._laplacian, self._function, rtol, max_rank).compute()
        if factor is not None:
            return factor
        K = self._function.dense(self._laplacian.matrix.toarray())
        return Precomputed(K, None).factor(rtol, max_rank)

    def _factor_new(self, factor: LowRankFactor, new: Any) -> Floats:
        if factor.pivots is not None:
            return super()._factor_new(factor, new)
        # phi = U f^(1/2), and cross = phi_new phi^T gives phi_new = cross U f^(-1/2).
        values = np.einsum("ij,ij->j", factor.phi, factor.phi)
        fresh: Floats = (self._cross(new, None) @ factor.phi) / values
        return fresh

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        if items.size == self.n and np.unique(items).size == self.n:
            return SparseGraphKernel(self._function, self._laplacian.reordered(items), labels)
        return GraphSection(self, items, labels)


class GraphSection(SimilarityKernel):
    """The kernel of a large graph, seen at some of its nodes."""

    _whole: SparseGraphKernel
    _items: Index
    stored: ClassVar[Tests] = {
        **Kernel.stored,
        "_whole": of(SparseGraphKernel),
        "_items": indices,
    }

    def __init__(
        self, whole: SparseGraphKernel, items: Index, labels: tuple[Any, ...] | None
    ) -> None:
        self._set(n=int(items.size), labels=labels, _whole=whole, _items=items.copy())

    @property
    def by_products(self) -> bool:
        """See :attr:`Kernel.by_products`."""
        return True

    def _apply(self, V: Floats) -> Floats:
        out = np.empty(V.shape)
        for some in _chunks(V.shape[1], self._whole.n):
            scattered = np.zeros((self._whole.n, V[:, some].shape[1]))
            np.add.at(scattered, self._items, V[:, some])  # an item may be taken twice
            out[:, some] = self._whole._apply(scattered)[self._items]
        return out

    def _block(self, rows: Index | None, cols: Index | None) -> Floats:
        return self._whole._block(self._at(rows), self._at(cols))

    def _diagonal(self, rows: Index | None) -> Floats:
        return self._whole._diagonal(self._at(rows))

    def _fits_together(self) -> bool:
        within = len(self._items) == self.n and inside(self._items, self._whole.n)
        return within and super()._fits_together()

    def _at(self, items: Index | None) -> Index:
        return self._items if items is None else self._items[items]

    def _take(self, items: Index, labels: tuple[Any, ...] | None) -> Kernel:
        return self._whole._take(self._items[items], labels)

    def _parameters(self) -> dict[str, Any]:
        return {"nodes": self._whole.n, **self._whole._parameters()}

    @property
    def _title(self) -> str:
        return self._whole._title


def _everything(items: Index | None, n: int) -> Index:
    return np.arange(n) if items is None else items


def _chunks(count: int, n: int) -> list[slice]:
    """Cut `count` vectors of length n into pieces of bounded size."""
    width = max(1, _CHUNK // n)
    return [slice(start, start + width) for start in range(0, count, width)]


def _units(items: Index, n: int) -> Floats:
    units = np.zeros((n, items.size))
    units[items, np.arange(items.size)] = 1.0
    return units

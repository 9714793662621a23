"""Kernels of the nodes of a graph: diffusion, regularised Laplacian, random walk."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, lapack

from kronfill.errors import (
    KernelError,
    NonFiniteError,
    NotSymmetricError,
    ShapeError,
)
from kronfill.kernels._checks import positive_integer, real_at_least
from kronfill.kernels._frames import is_frame, labelled_square, optional_import
from kronfill.kernels._indexing import FloatArray, frozen
from kronfill.kernels.base import Kernel
from kronfill.kernels.given import MatrixKernel
from kronfill.linalg.memory import require_memory
from kronfill.linalg.psd import as_real

__all__ = ["diffusion", "random_walk", "regularized_laplacian"]


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
        The n x n matrix is computed when it is first needed. New nodes are described by their
        similarities with the known ones, as in :func:`precomputed`.

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
    weights, labels = _adjacency(graph)
    return GraphKernel("Diffusion", weights, labels, {"t": time, "normalized": bool(normalized)})


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
    weights, labels = _adjacency(graph)
    parameters = {"sigma": spread, "normalized": bool(normalized)}
    return GraphKernel("RegularizedLaplacian", weights, labels, parameters)


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
    given = {"steps": positive_integer(steps, "steps"), "a": real_at_least(a, 2.0, "a")}
    weights, labels = _adjacency(graph)
    return GraphKernel("RandomWalk", weights, labels, given)


class GraphKernel(MatrixKernel):
    """A matrix function of a graph Laplacian, computed once, when it is first needed."""

    _name: str
    _weights: Any
    _given: dict[str, Any]
    _K: FloatArray | None
    _lock: Any

    def __init__(
        self,
        name: str,
        weights: Any,
        labels: tuple[Any, ...] | None,
        parameters: dict[str, Any],
    ) -> None:
        self._set(
            n=int(weights.shape[0]),
            labels=labels,
            _name=name,
            _weights=weights,
            _given=parameters,
            _K=None,
            _lock=threading.Lock(),
        )

    def _matrix(self) -> FloatArray:
        with self._lock:
            if self._K is None:
                laplacian = _laplacian(self._weights, self._given.get("normalized", True))
                # From here on the weights are not needed any more.
                self._set(_K=_FUNCTIONS[self._name](laplacian, self._given), _weights=None)
            kernel: FloatArray = self.__dict__["_K"]
        return kernel

    def _parameters(self) -> dict[str, Any]:
        return dict(self._given)

    def __repr__(self) -> str:
        return super().__repr__().replace("GraphKernel", self._name, 1)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**state, _lock=threading.Lock())


def _diffusion(laplacian: FloatArray, given: dict[str, Any]) -> FloatArray:
    values, vectors = eigh(laplacian, overwrite_a=True, check_finite=False)
    # exp(-t L) = (V exp(-t lambda / 2)) (V exp(-t lambda / 2))^T
    vectors *= np.exp(-0.5 * given["t"] * np.clip(values, 0.0, None))
    kernel: FloatArray = vectors @ vectors.T
    return kernel


def _regularized_laplacian(laplacian: FloatArray, given: dict[str, Any]) -> FloatArray:
    laplacian *= given["sigma"] ** 2
    laplacian.flat[:: laplacian.shape[0] + 1] += 1.0
    lower, info = lapack.dpotrf(laplacian, lower=1, overwrite_a=1)
    inverse, failed = lapack.dpotri(lower, lower=1, overwrite_c=1)
    if info or failed:
        msg = f"I + sigma^2 L cannot be inverted for sigma = {given['sigma']:g}; choose it smaller"
        raise KernelError(msg)
    inverse = np.tril(inverse)
    kernel: FloatArray = inverse + np.tril(inverse, -1).T
    return kernel


def _random_walk(laplacian: FloatArray, given: dict[str, Any]) -> FloatArray:
    step = -laplacian
    step.flat[:: step.shape[0] + 1] += given["a"]
    power = np.linalg.matrix_power(step, given["steps"])
    kernel: FloatArray = 0.5 * (power + power.T)
    return kernel


_FUNCTIONS: dict[str, Callable[[FloatArray, dict[str, Any]], FloatArray]] = {
    "Diffusion": _diffusion,
    "RegularizedLaplacian": _regularized_laplacian,
    "RandomWalk": _random_walk,
}


def _laplacian(weights: Any, normalized: bool) -> FloatArray:
    """Return L as a dense array; an isolated node has a row of zeros."""
    laplacian: FloatArray = -(weights.toarray() if sparse.issparse(weights) else weights)
    np.fill_diagonal(laplacian, 0.0)
    degree = -laplacian.sum(axis=1)
    if normalized:
        root = np.sqrt(degree)
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        laplacian *= inverse
        laplacian *= inverse[:, None]
        degree = (degree > 0).astype(np.float64)
    laplacian.flat[:: laplacian.shape[0] + 1] = degree
    return laplacian


def _adjacency(graph: Any) -> tuple[Any, tuple[Any, ...] | None]:
    """Read a graph as checked symmetric weights (dense or sparse) and its labels."""
    networkx = sys.modules.get("networkx")
    labels: tuple[Any, ...] | None = None
    if networkx is not None and isinstance(graph, networkx.Graph):
        if graph.is_directed():
            msg = "the graph is directed; kernels need similarity both ways: graph.to_undirected()"
            raise KernelError(msg)
        labels = tuple(graph.nodes)
        if labels:
            networkx = optional_import("networkx", "graphs")
            graph = networkx.to_scipy_sparse_array(graph, dtype=np.float64, format="csr")
        else:
            graph = np.zeros((0, 0))
    elif is_frame(graph):
        graph, labels = labelled_square(graph, "the adjacency matrix")
    if sparse.issparse(graph):
        weights = sparse.csr_array(graph, dtype=np.float64, copy=True)
        weights.sum_duplicates()
    else:
        try:
            weights = as_real(graph).copy()
        except (TypeError, ValueError) as error:
            msg = (
                "graph must be a networkx graph or an adjacency matrix (array, scipy.sparse, data "
                f"frame), got {type(graph).__name__}"
            )
            raise KernelError(msg) from error
    _check_weights(weights)
    require_memory(
        3 * 8 * weights.shape[0] ** 2,
        f"a kernel of a graph with {weights.shape[0]} nodes",
        "Use a smaller graph, or features of the nodes with kronfill.kernels.rbf.",
    )
    return frozen(weights), labels


def _check_weights(weights: Any) -> None:
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or weights.shape[0] == 0:
        msg = f"an adjacency matrix must be square with at least one node, got {weights.shape}"
        raise ShapeError(msg)
    stored = weights.data if sparse.issparse(weights) else weights
    if not np.isfinite(stored).all():
        msg = "an edge weight is NaN or infinite; all weights must be finite"
        raise NonFiniteError(msg)
    if stored.size and stored.min() < 0:
        msg = f"an edge weight is {stored.min():g}; weights are similarities, 0 or larger"
        raise KernelError(msg)
    gap = abs(weights - weights.T)
    worst = float(gap.max()) if stored.size else 0.0
    if stored.size and worst > 1e-10 * float(stored.max()):
        i, j = (int(where[0]) for where in np.nonzero(gap == worst))
        msg = (
            f"the adjacency matrix is not symmetric: entries ({i}, {j}) and ({j}, {i}) differ by "
            f"{worst:g}; for an undirected graph use "
            "np.maximum(A, A.T) or (A + A.T) / 2"
        )
        raise NotSymmetricError(msg)

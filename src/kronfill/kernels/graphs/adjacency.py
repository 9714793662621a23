"""Graphs of any form, read as checked symmetric weights."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy import sparse

from kronfill._optional import needed
from kronfill.core.psd import as_real
from kronfill.data.arrays import frozen, own_sparse
from kronfill.data.reading.frames import is_frame
from kronfill.errors import KernelError, NonFiniteError, NotSymmetricError, ShapeError
from kronfill.kernels.arguments import labelled_square

__all__ = ["read_graph"]


def read_graph(graph: Any) -> tuple[Any, tuple[Any, ...] | None]:
    """Read a graph as checked symmetric weights (an array or csr) and its labels."""
    networkx = sys.modules.get("networkx")
    labels: tuple[Any, ...] | None = None
    if networkx is not None and isinstance(graph, networkx.Graph):
        if graph.is_directed():
            msg = "The graph is directed; kernels need similarity both ways: graph.to_undirected()."
            raise KernelError(msg)
        labels = tuple(graph.nodes)
        if labels:
            networkx = needed("networkx", "A graph")
            graph = networkx.to_scipy_sparse_array(graph, dtype=np.float64, format="csr")
        else:
            graph = np.zeros((0, 0))
    elif is_frame(graph):
        graph, labels = labelled_square(graph, "The adjacency matrix")
    if sparse.issparse(graph):
        weights = sparse.csr_array(own_sparse(graph, "The adjacency matrix"), dtype=np.float64)
        weights.sum_duplicates()
    else:
        try:
            weights = as_real(graph, "The adjacency matrix").copy()
        except TypeError as error:
            msg = (
                "graph must be a networkx graph or an adjacency matrix (array, scipy.sparse, data "
                f"frame), got {type(graph).__name__}."
            )
            raise KernelError(msg) from error
    _check_weights(weights)
    return frozen(weights), labels


def _check_weights(weights: Any) -> None:
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or weights.shape[0] == 0:
        msg = f"An adjacency matrix must be square with at least one node, got {weights.shape}."
        raise ShapeError(msg)
    stored = weights.data if sparse.issparse(weights) else weights
    if not np.isfinite(stored).all():
        msg = "An edge weight is NaN or infinite; all weights must be finite."
        raise NonFiniteError(msg)
    if stored.size and stored.min() < 0:
        msg = f"An edge weight is {stored.min():g}; weights are similarities, 0 or larger."
        raise KernelError(msg)
    gap = abs(weights - weights.T)
    worst = float(gap.max()) if stored.size else 0.0
    if stored.size and worst > 1e-10 * float(stored.max()):
        i, j = (int(where[0]) for where in np.nonzero(gap == worst))
        msg = (
            f"The adjacency matrix is not symmetric: entries ({i}, {j}) and ({j}, {i}) differ by "
            f"{worst:g}; for an undirected graph use "
            "np.maximum(A, A.T) or (A + A.T) / 2."
        )
        raise NotSymmetricError(msg)

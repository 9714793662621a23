"""Kernels of the nodes of a graph, and the sparse linear algebra that they need."""

from kronfill.kernels.graphs.nodes import diffusion, random_walk, regularized_laplacian

__all__ = ["diffusion", "random_walk", "regularized_laplacian"]

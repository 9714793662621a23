"""The problem's kernels as kronfill takes them."""

from __future__ import annotations

import numpy as np

from benchmarks.problems import Problem


def make(problem: Problem):
    """Both kernels, anew: nothing is remembered from an earlier fit."""
    return [_KINDS[problem.kind](problem, axis) for axis in range(2)]


def _rbf(problem: Problem, axis: int):
    import kronfill as kf

    kernel = kf.kernels.rbf(problem.points()[axis], length_scale=problem.scales[axis])
    if problem.identity:
        kernel = kernel + problem.identity * kf.kernels.identity(problem.size)
    return kernel


def _tanimoto(problem: Problem, axis: int):
    """Similarity of 1024-bit fingerprints in which about 30 bits are set, in families of ten."""
    import kronfill as kf

    rng = np.random.default_rng(10 + axis)
    family = rng.random((problem.size // 10 + 1, 1024)) < 0.03
    bits = family[np.arange(problem.size) // 10] ^ (rng.random((problem.size, 1024)) < 0.005)
    return kf.kernels.tanimoto(bits.astype(float))


def _exponential(problem: Problem, axis: int) -> np.ndarray:
    """A dense matrix of full rank: an exponential kernel of the points, whose spectrum is slow."""
    points = problem.points()[axis]
    away = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=-1))
    return np.exp(-away / problem.scales[axis])


def _graph(problem: Problem, axis: int):
    """Regularised Laplacian of the graph that joins each point to its eight nearest."""
    import scipy.sparse as sp
    from scipy.spatial import cKDTree

    import kronfill as kf

    points = problem.points()[axis]
    _, near = cKDTree(points).query(points, k=9)
    rows = np.repeat(np.arange(problem.size), 8)
    graph = sp.csr_array(
        (np.ones(rows.size), (rows, near[:, 1:].ravel())), shape=(problem.size,) * 2
    )
    return kf.kernels.regularized_laplacian(graph.maximum(graph.T), sigma=2.0)


_KINDS = {"rbf": _rbf, "tanimoto": _tanimoto, "given": _exponential, "graph": _graph}

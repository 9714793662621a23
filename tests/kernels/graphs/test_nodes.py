"""Kernels of graphs."""

from __future__ import annotations

import pickle
import threading
import tracemalloc

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import expm

from kronfill import kernels as kk
from kronfill.errors import (
    KernelError,
    LabelError,
    MemoryLimitError,
    NonFiniteError,
    NotSymmetricError,
    ParameterError,
    ShapeError,
)
from kronfill.kernels.graphs import nodes as graphs


def laplacian(graph, normalized):
    graph = graph.copy()
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    build = nx.normalized_laplacian_matrix if normalized else nx.laplacian_matrix
    return build(graph).toarray().astype(float)


@pytest.mark.parametrize("normalized", [True, False])
def test_diffusion_is_the_matrix_exponential(graph, normalized):
    kernel = kk.diffusion(graph, t=0.7, normalized=normalized)
    assert_allclose(kernel.to_array(), expm(-0.7 * laplacian(graph, normalized)), atol=1e-12)


@pytest.mark.parametrize("normalized", [True, False])
def test_regularized_laplacian_is_the_inverse(graph, normalized):
    kernel = kk.regularized_laplacian(graph, sigma=1.5, normalized=normalized)
    expected = np.linalg.inv(np.eye(30) + 2.25 * laplacian(graph, normalized))
    assert_allclose(kernel.to_array(), expected, atol=1e-12)


def test_random_walk_is_a_power(graph):
    step = 2.5 * np.eye(30) - laplacian(graph, True)
    assert_allclose(kk.random_walk(graph, steps=3, a=2.5).to_array(), step @ step @ step)


@pytest.mark.parametrize("build", [kk.diffusion, kk.regularized_laplacian, kk.random_walk])
def test_every_form_of_a_graph(graph, build):
    A = nx.to_numpy_array(graph)
    expected = build(graph).to_array()
    labelled = build(nx.to_pandas_adjacency(graph))
    assert_allclose(build(A).to_array(), expected)
    assert_allclose(build(sparse.coo_matrix(A)).to_array(), expected)
    assert_allclose(build(A.tolist()).to_array(), expected)
    assert_allclose(labelled.to_array(), expected)
    assert build(graph).labels == labelled.labels == tuple(graph.nodes)
    assert build(A).labels is None


def test_weights_count():
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=3.0)
    assert_allclose(kk.diffusion(graph, normalized=False).to_array()[0, 1], (1 - np.exp(-6)) / 2)


def test_edgeless_graph_is_identity():
    assert_array_equal(kk.diffusion(sparse.csr_array((3, 3))).to_array(), np.eye(3))
    assert_array_equal(kk.diffusion([[0]]).to_array(), [[1.0]])


def test_computed_once_by_many_threads(graph):
    kernel = kk.diffusion(graph)
    assert kernel.nbytes < 30 * 30 * 8  # nothing computed yet
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(kernel.to_array())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(K is seen[0] for K in seen)
    assert not seen[0].flags.writeable


BAD = {
    "directed": (nx.DiGraph([(0, 1)]), KernelError, r"graph.to_undirected\(\)"),
    "no nodes": (nx.Graph(), ShapeError, "at least one node"),
    "negative": ([[0, -1], [-1, 0]], KernelError, "An edge weight is -1"),
    "asymmetric": ([[0, 1], [0, 0]], NotSymmetricError, r"entries \(0, 1\) and \(1, 0\) differ"),
    "sparse": (sparse.csr_array([[0, 1.0], [0, 0]]), NotSymmetricError, "differ by 1"),
    "square": (np.ones((2, 3)), ShapeError, r"square with at least one node, got \(2, 3\)"),
    "nan": ([[0, np.nan], [np.nan, 0]], NonFiniteError, "NaN or infinite"),
    "what": ("graph", KernelError, "networkx graph or an adjacency matrix"),
    "labels": (pd.DataFrame([[0, 1], [1, 0]], columns=["a", "b"]), LabelError, "same items"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_graphs(name):
    graph, error, text = BAD[name]
    with pytest.raises(error, match=text):
        kk.diffusion(graph)


def test_bad_parameters(graph):
    with pytest.raises(ParameterError, match="t must be a finite number above 0, got 0"):
        kk.diffusion(graph, t=0)
    with pytest.raises(ParameterError, match="sigma must be"):
        kk.regularized_laplacian(graph, sigma=np.nan)
    with pytest.raises(ParameterError, match="a must be a finite number at least 2"):
        kk.random_walk(graph, a=1.5)
    with pytest.raises(ParameterError, match="steps must be a positive integer"):
        kk.random_walk(graph, steps=1.5)


def test_new_nodes_need_similarities(graph):
    with pytest.raises(ShapeError, match=r"array of shape \(k, 30\)"):
        kk.diffusion(graph).cross(np.ones((2, 3)))


# Large sparse graphs: products instead of an n x n array.

KINDS = {
    "diffusion": (kk.diffusion, {"t": 1.0}),
    "diffusion_far": (kk.diffusion, {"t": 30.0}),
    "diffusion_plain": (kk.diffusion, {"t": 0.7, "normalized": False}),
    "regularized": (kk.regularized_laplacian, {"sigma": 3.0}),
    "regularized_plain": (kk.regularized_laplacian, {"sigma": 2.0, "normalized": False}),
    "walk": (kk.random_walk, {"steps": 3, "a": 2.5}),
}


def _random(n, degree, seed=0):
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, n, size=(2, n * degree // 2))
    upper = sparse.coo_array((rng.uniform(0.2, 2.0, i.size), (i, j)), shape=(n, n))
    return sparse.csr_array(upper + upper.T)


def _grid(side):
    path = sparse.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1])
    return sparse.csr_array(sparse.kronsum(path, path))


def _pieces():
    parts = [_random(60, 4), _grid(5), _grid(5), _grid(5), sparse.csr_array((7, 7))]
    return sparse.csr_array(sparse.block_diag(parts))


GRAPHS = {
    "random": _random(150, 6),
    "grid": _grid(12),
    "pieces": _pieces(),
    "star": sparse.csr_array(nx.to_scipy_sparse_array(nx.star_graph(90), dtype=float)),
    "edgeless": sparse.csr_array((40, 40)),
}


def pair(graph, kind):
    """Return the kernel by products and the same one by its matrix."""
    build, given = KINDS[kind]
    return build(graph, **given), build(graph.toarray(), **given)


@pytest.fixture
def large(monkeypatch):
    """Take graphs of more than ten nodes for large ones."""
    monkeypatch.setattr(graphs, "_DENSE_UP_TO", 10)


@pytest.fixture(params=[(g, k) for g in GRAPHS for k in KINDS], ids=lambda pair: "-".join(pair))
def both(request, large):
    name, kind = request.param
    return pair(GRAPHS[name], kind)


def test_products_agree_with_the_matrix(both):
    kernel, dense = both
    K, n = dense.to_array(), dense.n
    assert isinstance(kernel, graphs.SparseGraphKernel)
    assert isinstance(dense, graphs.GraphKernel)
    scale = np.abs(K).max()
    V = np.random.default_rng(1).normal(size=(n, 3))
    V[:, 1] = 0.0
    assert_allclose(kernel.apply(V), K @ V, atol=1e-11 * scale)
    assert_allclose(kernel.apply(V[:, 0]), K @ V[:, 0], atol=1e-11 * scale)
    assert_allclose(kernel.to_array(), K, atol=1e-12 * scale)
    rows, cols = np.array([3, 0, 3]), np.arange(n)[::-2]
    assert_allclose(kernel.block(rows, cols), K[np.ix_(rows, cols)], atol=1e-12 * scale)
    assert_allclose(kernel.block(cols, rows), K[np.ix_(cols, rows)], atol=1e-12 * scale)
    assert_allclose(kernel.block(rows), K[rows], atol=1e-12 * scale)
    assert_allclose(kernel.diagonal(rows), np.diag(K)[rows], atol=1e-12 * scale)
    assert_allclose(kernel.diagonal(), np.diag(K), atol=1e-12 * scale)
    assert_array_equal(kernel.diagonal(rows), kernel.diagonal()[rows])
    assert repr(kernel) == repr(dense)


def test_factors_agree_with_the_matrix(both):
    kernel, dense = both
    K = dense.to_array()
    trace = np.trace(K)
    for rtol in (1e-13, 1e-3):
        factor = kernel.factor(rtol)
        assert_allclose(factor.phi @ factor.phi.T, K, atol=(rtol + 1e-13) * trace)
        assert trace - np.sum(factor.phi**2) <= (factor.residual + 1e-13) * trace
        assert factor.residual <= rtol


@pytest.mark.parametrize("rank", [1, 9, 30])
def test_factors_of_limited_rank_are_the_best(both, rank):
    kernel, dense = both
    K = dense.to_array()
    lam = np.linalg.eigvalsh(K)[::-1]
    factor = kernel.factor(max_rank=rank)
    assert factor.rank <= rank
    assert kernel.factor(max_rank=rank).phi.tobytes() == factor.phi.tobytes()
    if factor.pivots is None:
        kept = lam[: factor.rank]
        assert_allclose(np.linalg.norm(factor.phi, axis=0) ** 2, kept, atol=1e-10 * lam[0])
        left = np.linalg.eigvalsh(K - factor.phi @ factor.phi.T)
        assert left[0] > -1e-10 * lam[0]
        assert left[-1] < (lam[factor.rank] if factor.rank < lam.size else 0.0) + 1e-10 * lam[0]
        assert factor.residual >= 1 - kept.sum() / lam.sum() - 1e-12


@pytest.mark.parametrize("t", [1e10, 1e40])
def test_heat_that_spreads_without_end(t, large):
    """The series has as many terms as the root of t: none is made to find that out."""
    kernel = kk.diffusion(sparse.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(30))), t=t)
    with pytest.raises(KernelError, match="too large for a kernel"):
        kernel.apply(np.ones(30))


def test_lanczos_reaches_the_tolerance(large):
    kernel, dense = kk.diffusion(_grid(24), t=150.0), kk.diffusion(_grid(24).toarray(), t=150.0)
    factor, K = kernel.factor(), dense.to_array()
    assert factor.pivots is None
    assert factor.rank < kernel.n // 4
    assert_allclose(factor.phi @ factor.phi.T, K, atol=1e-13 * np.trace(K))
    assert factor.residual <= 1e-13
    cross = 0.5 * K[:4] + 0.25 * K[4:8]
    new = kernel.factor_new(factor, cross)
    assert_allclose(new, 0.5 * factor.phi[:4] + 0.25 * factor.phi[4:8], atol=1e-7)
    assert_allclose(new @ factor.phi.T, cross, atol=1e-12)
    scaled = 4.0 * kernel
    assert_allclose(scaled.factor_new(scaled.factor(), cross), 2.0 * new, atol=1e-9)


def test_new_nodes_of_a_factor_by_pivots(large):
    kernel, dense = pair(_random(60, 5), "regularized")
    cross = 0.5 * dense.to_array()[:3]
    factor = kernel.factor()
    assert factor.pivots is not None
    assert_allclose(kernel.factor_new(factor, cross) @ factor.phi.T, cross, atol=1e-12)
    assert_allclose(kernel.cross(cross, [4, 2]), cross[:, [4, 2]])


@pytest.mark.parametrize("kind", KINDS)
def test_taken_nodes_still_see_the_whole_graph(large, kind):
    kernel, dense = pair(_random(90, 3), kind)
    items = np.array([5, 80, 5, 17, 2, 44])
    some, K = kernel.take(items), dense.to_array()[np.ix_(items, items)]
    V = np.random.default_rng(2).normal(size=(6, 2))
    scale = np.abs(K).max()
    assert_allclose(some.to_array(), K, atol=1e-12 * scale)
    assert_allclose(some.apply(V), K @ V, atol=1e-12 * scale)
    assert_allclose(some.diagonal([2, 0]), np.diag(K)[[2, 0]], atol=1e-12 * scale)
    assert_allclose(some.block([1], [0, 3]), K[[1]][:, [0, 3]], atol=1e-12 * scale)
    assert_allclose(some.take([4, 1]).to_array(), K[np.ix_([4, 1], [4, 1])], atol=1e-12 * scale)
    factor = some.factor()
    assert_allclose(factor.phi @ factor.phi.T, K, atol=1e-12 * scale)
    assert_allclose(some.factor_new(factor, 0.5 * K) @ factor.phi.T, 0.5 * K, atol=1e-9 * scale)
    assert repr(some).startswith(repr(dense).split("(")[0] + "(n=6, nodes=90, ")
    back = pickle.loads(pickle.dumps(some))
    assert_allclose(back.to_array(), K, atol=1e-12 * scale)


def test_reordered_nodes_are_the_same_graph(large):
    kernel, dense = pair(_pieces(), "diffusion_plain")
    order = np.random.default_rng(3).permutation(kernel.n)
    turned = kernel.take(order)
    assert isinstance(turned, graphs.SparseGraphKernel)
    assert_allclose(turned.to_array(), dense.to_array()[np.ix_(order, order)], atol=1e-12)
    assert turned.factor(max_rank=12).pivots is None
    # A node twice is not a graph any more.
    twice = kernel.take(np.r_[order[:-1], order[0]])
    assert isinstance(twice, graphs.GraphSection)


def test_large_graphs_keep_labels_pickle_and_do_not_change(large, graph):
    kernel = kk.regularized_laplacian(graph)
    assert kernel.labels == tuple(graph.nodes)
    assert kernel.take([3, 29]).labels == (3, "alone")
    column = kernel.block(None, [2])
    back = pickle.loads(pickle.dumps(kernel))
    assert_array_equal(back.block(None, [2]), column)
    assert repr(back) == "RegularizedLaplacian(n=30, sigma=1, normalized=True)"
    with pytest.raises(ValueError, match="read-only"):
        back._laplacian.matrix.data[0] = 3.0
    with pytest.raises(AttributeError, match="cannot be changed"):
        kernel._selves = None
    with pytest.raises(ShapeError, match=r"array of shape \(k, 30\)"):
        kernel.cross(np.ones((2, 3)))


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_of_products(large, kind, monkeypatch):
    kernel, dense = pair(_random(50, 4), kind)
    monkeypatch.setattr(graphs, "_CHUNK", 120)  # two vectors at a time
    K = dense.to_array()
    scale = np.abs(K).max()
    assert_allclose(kernel.apply(np.eye(50)[:, :7]), K[:, :7], atol=1e-12 * scale)
    assert_allclose(kernel.block([1, 2, 3]), K[1:4], atol=1e-12 * scale)
    assert_allclose(kernel.diagonal(), np.diag(K), atol=1e-12 * scale)
    some = kernel.take(np.arange(5))
    assert_allclose(some.apply(np.eye(5)), K[:5, :5], atol=1e-12 * scale)


def test_small_and_dense_graphs_keep_their_matrix():
    assert isinstance(kk.diffusion(_random(50, 4)), graphs.GraphKernel)
    graph = _random(graphs._DENSE_UP_TO + 1, 4)
    assert isinstance(kk.diffusion(graph), graphs.SparseGraphKernel)
    assert isinstance(kk.diffusion(graph.toarray()), graphs.GraphKernel)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_stays_far_below_the_matrix(kind):
    n = 50_000
    build, given = KINDS[kind]
    graph = _random(n, 6)
    V = np.ones((n, 3))
    tracemalloc.start()
    try:
        kernel = build(graph, **given)
        product, block = kernel.apply(V), kernel.block(None, np.arange(5))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert product.shape == (n, 3)
    assert_allclose(block[:5], block[:5].T, atol=1e-12 * np.abs(block).max())
    assert peak < 8 * n**2 / 100


def test_a_factor_without_decay_is_refused():
    kernel = kk.diffusion(_random(200_000, 4), t=0.1)
    with pytest.raises(MemoryLimitError, match=r"about \d+ eigenpairs .* solver=kf.DualPCG"):
        kernel.factor()


def test_too_wide_a_kernel_is_refused(large):
    with pytest.raises(KernelError, match="choose t smaller"):
        kk.diffusion(_random(60, 5), t=1e12).apply(np.ones(60))

"""Kernels of graphs."""

from __future__ import annotations

import threading

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
    NonFiniteError,
    NotSymmetricError,
    ParameterError,
    ShapeError,
)


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
    "negative": ([[0, -1], [-1, 0]], KernelError, "an edge weight is -1"),
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

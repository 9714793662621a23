"""One example of every kernel: the table that drives the laws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel

from kronfill import kernels as kk

N = 30


@dataclass(frozen=True)
class Case:
    """A kernel, how its known items would be described if they were new, and some new ones."""

    kernel: kk.Kernel
    known: Any
    new: Any


def _points() -> np.ndarray:
    x = np.random.default_rng(0).normal(size=(N, 3)) + 5.0
    x[7] = x[3]  # a duplicate item
    return x


def _counts() -> np.ndarray:
    x = np.random.default_rng(1).poisson(1.0, size=(N, 12)).astype(float)
    x[4] = 0.0
    return x


def _frame(n: int = N, seed: int = 2) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": rng.normal(100, 20, n),
            "rooms": rng.integers(1, 6, n),
            "town": rng.choice(["Oslo", "Rome", "Lima"], n),
            "kind": pd.Categorical(rng.choice([1, 2], n)),
            "open": rng.random(n) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
        },
        index=[f"item{i}" for i in range(n)],
    )


def _new_frame() -> pd.DataFrame:
    new = _frame(4, seed=5)
    new.loc["item1", "town"] = "Paris"  # unseen
    return new[list(new.columns[::-1])]


def _gram() -> np.ndarray:
    x = _points()
    return x @ x.T


def _graph() -> nx.Graph:
    graph = nx.gnm_random_graph(N - 1, 50, seed=3)
    graph.add_node("alone")
    graph.add_edge(2, 2)  # a self loop
    return graph


def _build() -> dict[str, Case]:
    x, new, counts = _points(), np.random.default_rng(9).normal(size=(4, 3)) + 5.0, _counts()
    bits, sp = (counts > 0).astype(float), sparse.csr_matrix(counts)
    frame, new_frame = _frame(), _new_frame()
    given, similar = kk.precomputed(_gram()), (new @ x.T, (new**2).sum(1))
    known_similar = (_gram(), np.diag(_gram()))
    rbf, numbers = kk.rbf(x), frame[["size", "rooms"]]

    def graph(kernel: kk.Kernel) -> Case:
        K = kernel.to_array()
        return Case(kernel, (K, np.diag(K)), (0.5 * K[:4], np.ones(4)))

    return {
        "rbf": Case(rbf, x, new),
        "rbf_ard": Case(kk.rbf(x, [0.5, 1.0, 2.0]), x, new),
        "rbf_sparse": Case(kk.rbf(sp, 2.0), sp, counts[:4] + 1),
        "rbf_ard_sparse": Case(kk.rbf(sp, np.arange(1, 13) / 4), sp, sp[:2]),
        "rbf_wide": Case(kk.rbf(np.hstack([x] * 15)), np.hstack([x] * 15), np.hstack([new] * 15)),
        "rbf_frame": Case(kk.rbf(frame), frame, new_frame),
        "matern_half": Case(kk.matern(x, nu=0.5), x, new),
        "matern_3half": Case(kk.matern(x, 0.7), x, new),
        "matern_5half": Case(kk.matern(x, nu=2.5), x, new),
        "matern_sparse": Case(kk.matern(sp), counts, sp[:3]),
        "linear": Case(kk.linear(x), x, new),
        "linear_wide": Case(kk.linear(np.random.default_rng(4).normal(size=(N, 50))), None, None),
        "linear_sparse": Case(kk.linear(sp), sp, sp[:3]),
        "linear_frame": Case(kk.linear(frame), frame, new_frame),
        "polynomial": Case(kk.polynomial(x, degree=2, coef0=0.5), x, new),
        "periodic": Case(kk.periodic(x, [1.0, 2.0, 3.0], 0.8), x, new),
        "periodic_dates": Case(kk.periodic(frame[["since"]], 365.25), frame, new_frame),
        "tanimoto_bits": Case(kk.tanimoto(bits), bits, bits[:3]),
        "tanimoto_counts": Case(kk.tanimoto(counts), counts, counts[3:6] * 2),
        "tanimoto_sparse": Case(kk.tanimoto(sp), sp, sp[:3]),
        "diffusion": graph(kk.diffusion(_graph(), t=2.0)),
        "diffusion_plain": graph(kk.diffusion(_graph(), t=0.3, normalized=False)),
        "regularized_laplacian": graph(kk.regularized_laplacian(_graph(), sigma=2.0)),
        "random_walk": graph(kk.random_walk(_graph(), steps=3)),
        "precomputed": Case(given, known_similar, similar),
        "precomputed_zero": Case(kk.precomputed(np.zeros((N, N))), None, None),
        "identity": Case(kk.identity(N), None, 4),
        "constant": Case(kk.constant(N), None, 4),
        "sum_constant": Case(rbf + kk.constant(N), None, new),
        "sum": Case(rbf + kk.linear(x), x, new),
        "sum_parts": Case(rbf + given, kk.Parts(x, known_similar), kk.Parts(new, similar)),
        "sum_identity": Case(rbf + 0.1 * kk.identity(N), None, new),
        "product": Case(rbf * kk.polynomial(x), x, new),
        "scaled": Case(0.3 * rbf, x, new),
        "scaled_linear": Case(4.0 * kk.linear(x), x, new),
        "normalized": Case(kk.polynomial(x).normalized(), x, new),
        "normalized_given": Case(given.normalized(), known_similar, similar),
        "function": Case(kk.from_function(np.dot, x), x, new),
        "function_many": Case(kk.from_function(rbf_kernel, x, vectorized=True), x, new),
        "function_sparse": Case(kk.from_function(linear_kernel, sp, vectorized=True), sp, sp[:3]),
        "function_objects": Case(kk.from_function(math.gcd, range(1, N + 1)), range(1, N + 1), [7]),
        "function_frame": Case(
            kk.from_function(linear_kernel, numbers, vectorized=True), numbers, numbers[:3]
        ),
        "one_item": Case(kk.rbf([[3.0]]), [[3.0]], [[3.0], [4.0]]),
        "copies": Case(kk.rbf(np.ones((5, 2))), np.ones((5, 2)), np.zeros((1, 2))),
    }


CASES = _build()


@pytest.fixture(params=CASES, scope="session")
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def frame() -> pd.DataFrame:
    return _frame()


@pytest.fixture
def graph() -> nx.Graph:
    return _graph()

"""The preconditioner of two dense kernels against what it stands for, written out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.ridge.problem import Mask, RidgeProblem, Sampled
from kronfill.solvers import full_scale
from kronfill.solvers.dual_pcg import DualPCG
from kronfill.solvers.full_scale import FullScale, Modes, leading_modes


def similarities(n, rng, rough=0.5):
    x = rng.random((n, 2))
    distance = np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=-1))
    return np.exp(-distance / rough)


def entries(shape, m, rng):
    """Uneven, every row and column with at least one entry."""
    n, l = shape
    share = rng.gamma(1.0, size=(n, 1)) * rng.gamma(1.0, size=l)
    grid = np.zeros(shape, bool)
    grid[np.arange(n), np.arange(n) % l] = True
    grid[np.arange(l) % n, np.arange(l)] = True
    chosen = rng.choice(n * l, min(m, n * l), replace=False, p=(share / share.sum()).ravel())
    grid.ravel()[chosen] = True
    return np.nonzero(grid)


@pytest.mark.parametrize("n", [1, 5, 40])
@pytest.mark.parametrize("most", [1, 3, 60])
@pytest.mark.parametrize("whole", [True, False])
def test_modes_stay_below_the_kernel(n, most, whole, monkeypatch):
    if not whole:
        monkeypatch.setattr(full_scale, "WHOLE", 0)
        monkeypatch.setattr(full_scale, "OVERSAMPLING", 2)
    rng = np.random.default_rng(n)
    kernel, counts = similarities(n, rng), rng.integers(1, 9, n).astype(float)
    phi = leading_modes(kernel, counts, most)
    assert phi.shape[1] <= min(n, most)
    assert np.linalg.eigvalsh(kernel - phi @ phi.T)[0] > -1e-12 * n
    gram = phi.T @ (counts[:, None] * phi)
    assert_allclose(gram, np.diag(np.diagonal(gram)), atol=1e-9 * gram.max())
    assert np.all(np.diff(np.diagonal(gram)) <= 1e-9)


@pytest.mark.parametrize("shape", [(1, 6), (7, 1), (9, 9), (30, 12), (8, 40)])
@pytest.mark.parametrize("modes", [1, 20, 1000])
@pytest.mark.parametrize("largest", [512, 3])
@pytest.mark.parametrize("width", [3, 128])
def test_it_is_the_inverse_of_modes_plus_blocks(shape, modes, largest, width, monkeypatch):
    monkeypatch.setattr(full_scale, "LARGEST_BLOCK", largest)
    monkeypatch.setattr(full_scale, "BAND_WIDTH", width)
    rng = np.random.default_rng(modes)
    kernels = similarities(shape[0], rng), similarities(shape[1], rng)
    at = entries(shape, shape[0] * shape[1] // 2, rng)
    m = len(at[0])
    noise = rng.uniform(0.05, 0.2, m)
    made = FullScale(Modes(kernels, at), noise, modes)
    inverse = np.column_stack([made(unit) for unit in np.eye(m)])
    assert_allclose(inverse, inverse.T, atol=1e-9 * np.abs(inverse).max())
    kbar = kernels[0][np.ix_(at[0], at[0])] * kernels[1][np.ix_(at[1], at[1])]
    exact = kbar + np.diag(noise)
    approximate = np.linalg.inv(inverse)
    outer = at[0] if shape[0] >= shape[1] else at[1]
    same = outer[:, None] == outer
    if largest > max(shape):  # within a group nothing is left out
        assert_allclose(approximate[same], exact[same], atol=1e-8)
    assert_allclose(np.diagonal(approximate), np.diagonal(exact), atol=1e-8)
    if made.modes == np.prod(shape):
        assert_allclose(approximate, exact, atol=1e-8)


def graph_kernel(n, rng):
    x = rng.random((n, 2))
    near = np.argsort(((x[:, None] - x[None]) ** 2).sum(axis=-1), axis=1)[:, 1:6]
    edges = np.zeros((n, n))
    edges[np.arange(n)[:, None], near] = 1.0
    edges = np.maximum(edges, edges.T)
    return 2.0 * np.linalg.inv(np.eye(n) + 0.5 * (np.diag(edges.sum(axis=0)) - edges))


def bits_kernel(n, rng):
    bits = (rng.random((n // 5 + 1, 64)) < 0.3)[rng.integers(n // 5 + 1, size=n)]
    bits = (bits ^ (rng.random((n, 64)) < 0.05)).astype(float)
    both = bits @ bits.T
    size = np.diagonal(both)
    return both / (size[:, None] + size - both + 1e-9)


GRID = {
    # Kernels of rows and columns, shape, m, and iterations at mu = 1, 0.1, 0.01 when it was made.
    "distances": (similarities, similarities, (300, 40), 4000, (15, 39, 67)),
    "bits": (bits_kernel, similarities, (400, 60), 6000, (19, 40, 52)),
    "graphs": (graph_kernel, graph_kernel, (150, 260), 4000, (11, 13, 13)),
    "short and dense": (graph_kernel, similarities, (20, 500), 6000, (15, 38, 59)),
}


@pytest.mark.parametrize("mask", ["even", "rows absent"])
@pytest.mark.parametrize("name", GRID)
def test_iterations_stay_few(name, mask):
    """A fixed grid of problems of full rank: tens of iterations, whatever mu and the mask are."""
    first, second, shape, m, recorded = GRID[name]
    rng = np.random.default_rng(0)
    kernels = [
        kf.kernels.precomputed(1.0 + make(n, rng) + 0.1 * np.eye(n))
        for make, n in zip((first, second), shape, strict=True)
    ]
    if mask == "even":
        rows, cols = np.divmod(rng.choice(shape[0] * shape[1], m, replace=False), shape[1])
    else:
        rows, cols = entries(shape, m, rng)
    if mask == "rows absent":
        there = rng.random(shape[0]) > 0.1
        rows, cols = rows[there[rows]], cols[there[rows]]
    values = rng.standard_normal(len(rows))
    for mu, before in zip((1.0, 0.1, 0.01), recorded, strict=True):
        problem = RidgeProblem(*kernels, Sampled(Mask(rows, cols, shape), values), mu)
        solution = DualPCG(rank=200).solve(problem).solution
        assert solution.converged
        assert solution.iterations <= 1.5 * before + 5, (mu, solution.iterations)


def test_the_same_bits_for_any_number_of_threads():
    import numba

    rng = np.random.default_rng(1)
    kernels = similarities(50, rng), similarities(20, rng)
    at = entries((50, 20), 400, rng)
    noise, v = np.full(len(at[0]), 0.1), rng.standard_normal(len(at[0]))
    found = []
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        numba.set_num_threads(threads)
        found.append(FullScale(Modes(kernels, at), noise, 100)(v))
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    np.testing.assert_array_equal(*found)

"""The trace of Theorem 4 against brute force."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.bounds.classes.nystrom import TrainingKernel, nystrom_trace

B = kf.bounds


def psd(rng, n, rank):
    """Random kernel of this rank whose nonzero eigenvalues lie between 1 and 3."""
    basis = np.linalg.qr(rng.normal(size=(n, rank)))[0]
    return basis * rng.uniform(1, 3, rank) @ basis.T


def brute(row, col, train, entries):
    """With the N L x N L kernel formed; vec in row-major order, hence K_w (x) K_h."""
    l = len(col)
    whole = np.kron(row, col)
    s = train[0] * l + train[1]
    n = entries[0] * l + entries[1]
    kbar = whole[np.ix_(s, s)]
    lam, vec = np.linalg.eigh(kbar)
    keep = lam > len(lam) * np.finfo(float).eps * lam[-1]
    inverse = vec[:, keep] / lam[keep] @ vec[:, keep].T
    cross = whole[np.ix_(s, n)]
    return float(np.trace(cross.T @ inverse @ cross))


@pytest.mark.parametrize("ranks", [(7, 6), (2, 6), (2, 2)])
@pytest.mark.parametrize("m", [1, 11, 42])
def test_the_trace_equals_brute_force(ranks, m):
    rng = np.random.default_rng(m)
    row, col = psd(rng, 7, ranks[0]), psd(rng, 6, ranks[1])
    flat = rng.permutation(42)
    train = np.divmod(flat[:m], 6)
    kernel = TrainingKernel(kf.kernels.precomputed(row), kf.kernels.precomputed(col), *train)
    everything = np.divmod(np.arange(42), 6)
    exact = brute(row, col, train, everything)
    assert_allclose(kernel.grid_trace(), exact, rtol=1e-12)
    assert_allclose(kernel.streamed_trace(*everything), exact, rtol=1e-12)
    if m < 42:
        left = np.divmod(flat[-1:], 6)
        grid = B.Split.of(train, shape=(7, 6), without=left if m < 41 else None)
        rest = np.divmod(flat[: 42 - (m < 41)], 6)
        assert_allclose(
            nystrom_trace(kernel, grid.entries), brute(row, col, train, rest), rtol=1e-12
        )
        split = B.Split.of(train, np.divmod(flat[m:30] if m < 30 else flat[m:], 6), shape=(7, 6))
        listed = brute(row, col, train, (split.entries.rows, split.entries.cols))
        assert_allclose(nystrom_trace(kernel, split.entries), listed, rtol=1e-12)


def test_smooth_kernels_are_traced_accurately():
    """Kbar is singular to working precision; dividing rounding errors by it would cost 4 digits."""
    rng = np.random.default_rng(3)
    kernel = kf.kernels.rbf(np.linspace(0, 1, 60), length_scale=0.5)
    gathered = TrainingKernel(kernel, kernel, *np.divmod(rng.permutation(3600)[:1000], 60))
    assert gathered.half.shape[1] < 100
    streamed = gathered.streamed_trace(*np.divmod(np.arange(3600), 60))
    assert_allclose(gathered.grid_trace(), streamed, rtol=1e-11)
    assert abs(gathered._gathered_trace() / streamed - 1) > 1e-6
    assert streamed < 3600 * (1 + 1e-12)


def test_wide_factors_are_gathered_instead():
    rng = np.random.default_rng(4)
    row, col = psd(rng, 40, 40) + 9 * np.eye(40), psd(rng, 30, 30) + 9 * np.eye(30)
    train = np.divmod(rng.permutation(1200)[:25], 30)
    kernel = TrainingKernel(kf.kernels.precomputed(row), kf.kernels.precomputed(col), *train)
    exact = brute(row, col, train, np.divmod(np.arange(1200), 30))
    assert_allclose(kernel.grid_trace(), exact, rtol=1e-12)
    assert kernel.grid_trace() == kernel._gathered_trace()


def test_the_trace_is_below_that_of_the_whole_kernel_and_equal_if_all_is_observed():
    rng = np.random.default_rng(0)
    row, col = psd(rng, 7, 7), psd(rng, 6, 6)
    total = np.trace(row) * np.trace(col)
    flat = rng.permutation(42)
    traces = [
        TrainingKernel(
            kf.kernels.precomputed(row), kf.kernels.precomputed(col), *np.divmod(flat[:m], 6)
        ).grid_trace()
        for m in (5, 20, 42)
    ]
    assert traces[0] < traces[1] < total * (1 - 1e-6)
    assert_allclose(traces[2], total, rtol=1e-12)


def test_the_grid_trace_equals_the_streamed_one_on_a_medium_grid():
    rng = np.random.default_rng(1)
    kernel = kf.kernels.rbf(np.linspace(0, 1, 150), length_scale=0.02)
    train = TrainingKernel(kernel, kernel, *np.divmod(rng.permutation(22_500)[:200], 150))
    streamed = train.streamed_trace(*np.divmod(np.arange(22_500), 150))
    assert_allclose(train.grid_trace(), streamed, rtol=1e-12)
    assert_allclose(train._gathered_trace(), streamed, rtol=1e-10)


def test_a_full_grid_of_3200_rows_needs_no_object_of_its_size():
    size, m = 3200, 1000
    rng = np.random.default_rng(2)
    kernel = kf.kernels.rbf(np.linspace(0, 1, size), length_scale=0.05)
    flat = rng.permutation(np.unique(rng.integers(0, size**2, m + 50)))[:m]
    rows, cols = np.divmod(flat, size)
    values = np.clip(np.sin(6 * rows / size) * np.cos(5 * cols / size), -1, 1)
    train = kf.Observations(rows, cols, values, (size, size))
    est = kf.KKMCEX(kernel, kernel, mu=0.01).fit(train)
    split = B.Split.of(train)
    tracemalloc.start()
    printed = B.theorem_4(B.TrainingSpan(kernel, kernel, 1.0, train), split)
    found = B.RKHSBall(kernel, kernel, 1.0).monte_carlo(split, "eyp", draws=10)
    nuclear = B.NuclearBall((size, size), 1.0).monte_carlo(split, "sub", draws=3)
    proved = B.certificate(est, (-1, 1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # N L floats are 82 MB, and N x m blocks of the kernels 26 MB each.
    assert peak < 8 * size**2 * 1.5
    assert_allclose((printed.value, printed.corrected.value), (3.199, 0.0447), rtol=2e-3)
    assert_allclose(found.value, 0.0447, rtol=0.05)
    assert 0 < nuclear.value < nuclear.upper
    assert proved.valid
    assert proved.value < proved.loss.bound

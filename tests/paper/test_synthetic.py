"""Data kept as factors against the arrays that the data room makes."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from kronfill.data.datasets import make_paper_matrix
from kronfill.paper.circulant import paper_kernel
from kronfill.paper.running.seeds import Purpose, data_seed, start_seed
from kronfill.paper.synthetic import draw


@pytest.mark.parametrize("snr", [np.inf, 4.0])
@pytest.mark.parametrize("size", [33, 64])
def test_the_same_matrix_as_make_paper_matrix(size, snr):
    made = draw(size, snr, 3, exponent=1.3, power=0.5, samples=100)
    dense = make_paper_matrix(size, snr, m=100, exponent=1.3, power=0.5, random_state=3)
    np.testing.assert_allclose(made.kernel.to_array(), dense.row_kernel, atol=1e-14)
    np.testing.assert_allclose(made.left @ made.right.T, dense.truth, atol=1e-12)
    np.testing.assert_array_equal(made.observations.rows, dense.observations.rows)
    np.testing.assert_array_equal(made.observations.cols, dense.observations.cols)
    np.testing.assert_allclose(made.observations.values, dense.observations.values, atol=1e-12)
    if made.noise is not None:
        np.testing.assert_allclose(made.noise, dense.data - dense.truth, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_circulant_products_and_blocks(size):
    kernel = paper_kernel(size, 1.35)
    dense = kernel.to_array()
    rng = np.random.default_rng(0)
    values = rng.standard_normal((size, 3))
    np.testing.assert_allclose(kernel.times(values), dense @ values, atol=1e-12)
    np.testing.assert_allclose(kernel.times(values.T, axis=1), values.T @ dense, atol=1e-12)
    np.testing.assert_allclose(kernel.squared().to_array(), dense @ dense, atol=1e-12)
    rows, cols = rng.integers(0, size, 5), rng.integers(0, size, 4)
    np.testing.assert_array_equal(kernel.block(rows, cols), dense[np.ix_(rows, cols)])
    np.testing.assert_array_equal(kernel.take(rows).to_array(), dense[np.ix_(rows, rows)])
    np.testing.assert_array_equal(kernel.diagonal(), np.diag(dense))
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_array_equal(dense, scipy.linalg.circulant(kernel.column))


@pytest.mark.parametrize("exponent", [0.05, 0.5, 1.0, 1.335, 3.0])
@pytest.mark.parametrize("size", [5, 40, 41])
def test_the_absolute_value_is_positive_definite(size, exponent):
    assert paper_kernel(size, exponent).spectrum.min() > 0


def test_streams_differ_by_everything_but_the_method():
    seen = {
        (*seed.spawn_key, seed.entropy, *seed.generate_state(2))
        for make in (data_seed, start_seed)
        for purpose in Purpose
        for root in (0, 1)
        for panel in ("a", "b", "snr=2")
        for size in (100, 400)
        for k in (0, 1)
        for seed in [make(root, panel, size, k, purpose)]
    }
    assert len({tuple(state[-2:]) for state in seen}) == 2 * 3 * 2 * 3 * 2 * 2


def test_the_same_seed_gives_the_same_data():
    first, again = (draw(40, 4.0, data_seed(5, "b", 40, 2), exponent=1.35, power=0.45, samples=50)
                    for _ in range(2))  # fmt: skip
    np.testing.assert_array_equal(first.observations.values, again.observations.values)
    np.testing.assert_array_equal(first.noise, again.noise)

"""Products in blocks of rows against plain NumPy."""

import numpy as np
import pytest

from kronfill.core.products import gram, matmul, row_major, transposed_matmul

SHAPES = [(0, 3), (1, 1), (5, 0), (255, 4), (257, 3), (9000, 7)]


def close(got, wanted):
    np.testing.assert_allclose(
        got, wanted, rtol=1e-12, atol=1e-12 * (1 + np.abs(wanted).max(initial=0.0))
    )


@pytest.mark.parametrize("shape", SHAPES[1:])
def test_products_are_those_of_numpy(shape):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(shape), rng.standard_normal((shape[1], 4))
    weights = rng.random(shape[0]) * (rng.random(shape[0]) < 0.8)
    close(matmul(a, b), a @ b)
    close(gram(a, weights), a.T @ (weights[:, None] * a))
    close(transposed_matmul(a, a[:, :1]), a.T @ a[:, :1])


def test_a_gram_of_nothing_is_zero():
    np.testing.assert_array_equal(gram(np.empty((0, 3)), np.empty(0)), np.zeros((3, 3)))


@pytest.mark.parametrize("shape", SHAPES)
def test_turning_to_row_major_changes_no_number(shape):
    a = np.asfortranarray(np.random.default_rng(1).standard_normal(shape))
    turned = row_major(a)
    assert turned.flags.c_contiguous
    np.testing.assert_array_equal(turned, a)

"""The blocked inverse against NumPy's."""

import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from kronfill.core import inverse as module
from kronfill.core.inverse import inverse


def positive(n, rng):
    root = rng.standard_normal((n, n + 2))
    return root @ root.T + 0.1 * np.eye(n)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 17])
@pytest.mark.parametrize("step", [1, 4, 256])
def test_inverse(n, step, monkeypatch):
    monkeypatch.setattr(module, "STEP", step)
    a = positive(n, np.random.default_rng(n))
    found = inverse(np.tril(a))
    assert_allclose(found @ a, np.eye(n), atol=1e-9)
    assert_array_equal(found, found.T)


def test_the_same_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(module, "STEP", 16)
    a = positive(90, np.random.default_rng(0))
    found = []
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        numba.set_num_threads(threads)
        found.append(inverse(np.tril(a)))
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    assert_array_equal(*found)

"""Products with a kernel, without its matrix."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kronfill import kernels as kk
from kronfill.errors import KernelError, NonFiniteError, ShapeError
from kronfill.kernels import base


@pytest.mark.parametrize("chunk", [1, 70, 2**22])
def test_every_kernel_multiplies(case, chunk, monkeypatch):
    monkeypatch.setattr(base, "_CHUNK", chunk)
    kernel = case.kernel
    K = kernel.to_array()
    V = np.random.default_rng(0).normal(size=(kernel.n, 4))
    atol = 1e-12 * max(1e-300, float(np.abs(K).sum(axis=1).max()))
    for given in (V, V[:, 0], V[:, ::2], np.asfortranarray(V), V[:, :0]):
        product = kernel.apply(given)
        assert product.shape == given.shape
        assert_allclose(product, K @ given, atol=atol)
    if kernel.n > 1:
        unit = kernel.apply([1] + [0] * (kernel.n - 1))
        assert_allclose(unit, K[:, 0], atol=atol)


def test_the_argument_is_not_changed(case):
    V = np.ones((case.kernel.n, 2))
    product = case.kernel.apply(V)
    assert (V == 1.0).all()
    assert not np.shares_memory(product, V)


def test_bad_arrays():
    kernel = kk.identity(3)
    with pytest.raises(ShapeError, match=r"shape \(3,\) or \(3, k\), got \(2, 3\)"):
        kernel.apply(np.ones((2, 3)))
    with pytest.raises(ShapeError, match=r"got \(\)"):
        kk.identity(1).apply(1.0)
    with pytest.raises(NonFiniteError, match=r"got nan at \(1,\)"):
        kernel.apply([0.0, np.nan, 0.0])
    with pytest.raises(KernelError, match="V must be an array of numbers"):
        kernel.apply(["a", "b", "c"])

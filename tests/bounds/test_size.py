"""How the bounds depend on the size of the matrix, the number of observed entries being fixed."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import kronfill as kf

B = kf.bounds


def test_theorem_4_as_printed_grows_and_the_corrected_one_does_not():
    printed, corrected, sub = [], [], []
    for size in (30, 60, 120, 240):
        rng = np.random.default_rng(size)
        kernel = kf.kernels.rbf(np.linspace(0, 1, size), length_scale=0.1)
        train = np.divmod(rng.permutation(size**2)[:300], size)
        split = B.Split.of(train, shape=(size, size))
        bound = B.theorem_4(B.TrainingSpan(kernel, kernel, 1.0, train), split)
        printed.append(bound.value)
        corrected.append(bound.corrected.value)
        sub.append(B.RKHSBall(kernel, kernel, 1.0).complexity(split, "sub").value)
    assert_allclose(printed, [0.150, 0.218, 0.408, 0.804], rtol=0.02)
    assert_allclose(corrected, [0.100, 0.085, 0.083, 0.082], rtol=0.01)
    assert_allclose(sub, 0.115, rtol=0.01)
    assert np.all(np.diff(printed) > 0)
    assert np.all(np.diff(corrected) <= 0)

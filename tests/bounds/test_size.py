"""How the bounds depend on the size of the matrix, the number of observed entries being fixed."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
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


@pytest.mark.parametrize(
    ("m", "u"), [(1, 1), (1, 7), (3, 5), (19, 20), (21, 300), (1, 2000), (1000, 1000), (700, 3)]
)
def test_constants_of_the_sizes_are_those_of_their_definitions(m, u):
    n, sizes = m + u, B.Sizes(m, u)
    # E |Bin - m| = 2 sum over j < m of (m - j) P(j), in fractions
    below = sum((m - j) * comb(n, j) * m**j * u ** (n - j) for j in range(m))
    assert_allclose(sizes.mean_deviation, float(Fraction(2 * below, n**n)), rtol=1e-12)
    sums = [value**2 * np.sum(1.0 / np.arange(value, n) ** 2.0) for value in (m, u)]
    assert_allclose(sizes.v, min(sums), rtol=1e-9)


@pytest.mark.parametrize("n", [10**10, 10**12, 10**14, 10**17, 10**24])
@pytest.mark.parametrize("m", [1, 30, 10**6 - 1, 10**6 + 1, 10**9])
def test_constants_of_the_sizes_keep_their_digits(m, n):
    for one, other in ((m, n - m), (n - m, m)):
        sizes = B.Sizes(one, other)
        normal = np.sqrt(2 / np.pi * m * (1 - m / n))
        # For m = 1 Bin is nearly a Poisson variable, whose mean deviation is 2 / e.
        expected = 2 / np.e if m == 1 else normal * np.exp(-1 / (12 * m))
        assert_allclose(sizes.mean_deviation, expected, rtol=1e-6)
        assert_allclose(sizes.v, m * (1 - m / n), rtol=1e-6)
        assert sizes.v <= sizes.s * m * (1 - m / n) * (1 + 1e-9)


def test_sizes_of_numpy_do_not_overflow():
    big = np.int64(4 * 10**9)
    assert_allclose(B.Sizes(big, big).p0, 0.25)
    assert B.Sizes(big, big) == B.Sizes(int(big), int(big))

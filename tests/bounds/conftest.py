"""Small problems whose complexities can be enumerated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import comb

import numpy as np
import pytest

import kronfill as kf
from kronfill.core.threads import one_blas_thread


@pytest.fixture(autouse=True)
def _one_blas_thread():
    """Problems are small: threads of BLAS would only wait for each other."""
    with one_blas_thread():
        yield


def random_psd(rng, n, rank):
    x = rng.normal(size=(n, rank))
    return x @ x.T / rank


@dataclass(frozen=True)
class Tiny:
    """A 3 x 4 matrix with n of its entries, m of them for training; kernels may be singular."""

    row_kernel: np.ndarray
    col_kernel: np.ndarray
    rows: np.ndarray
    cols: np.ndarray
    m: int

    @property
    def n(self):
        return len(self.rows)

    @property
    def train(self):
        return self.rows[: self.m], self.cols[: self.m]

    @property
    def split(self):
        test = self.rows[self.m :], self.cols[self.m :]
        return kf.bounds.Split.of(self.train, test, shape=(3, 4))

    @property
    def entry_kernel(self):
        """S_n K_f S_n^T, formed entry by entry."""
        return (
            self.row_kernel[np.ix_(self.rows, self.rows)]
            * self.col_kernel[np.ix_(self.cols, self.cols)]
        )


@pytest.fixture
def tiny():
    def make(seed, n=8):
        rng = np.random.default_rng(seed)
        m = (2, 4, 6, 3)[seed % 4] * n // 8
        flat = rng.permutation(12)[:n]
        return Tiny(
            random_psd(rng, 3, (3, 2)[seed % 2]),
            random_psd(rng, 4, (4, 3, 2)[seed % 3]),
            flat // 4,
            flat % 4,
            m,
        )

    return make


@dataclass(frozen=True)
class SignTable:
    """All patterns in {-1, 0, 1}^n with their probabilities under each law."""

    patterns: np.ndarray
    m: int

    @property
    def n(self):
        return self.patterns.shape[1]

    def weights(self, law):
        m, u, n = self.m, self.n - self.m, self.n
        kept = np.abs(self.patterns).sum(axis=1)
        if law == "paper":
            return (kept == n) * 0.5**n
        if law == "eyp":
            p = m * u / n**2
            return p**kept * (1 - 2 * p) ** (n - kept)
        k = min(m, u)
        return (kept == k) / (comb(n, k) * 2.0**k)

    def expectation(self, values, law):
        """c E f: the exact complexity from the suprema of all patterns."""
        m, u = self.m, self.n - self.m
        scale = 2 / min(m, u) if law == "sub" else 1 / m + 1 / u
        return scale * float(self.weights(law) @ values)


@pytest.fixture
def sign_table():
    def make(n, m):
        return SignTable(np.array(list(product((-1.0, 0.0, 1.0), repeat=n))), m)

    return make


@dataclass(frozen=True)
class Smooth:
    """The 30 x 30 problem: RBF kernels on [0, 1], a Gaussian draw in the RKHS, noise, clipping."""

    kernel: object
    values: np.ndarray

    def split(self, m, seed):
        n, l = self.values.shape
        order = np.random.default_rng(seed).permutation(n * l)
        parts = []
        for chosen in (order[:m], order[m:]):
            i, j = np.divmod(chosen, l)
            parts.append(kf.Observations(i, j, self.values[i, j], (n, l)))
        return parts


@pytest.fixture
def smooth():
    def make(size=30, length_scale=0.5, noise=0.1, seed=0):
        rng = np.random.default_rng(seed)
        kernel = kf.kernels.rbf(np.linspace(0, 1, size), length_scale=length_scale)
        phi = kernel.factor().phi
        truth = phi @ rng.standard_normal((phi.shape[1], phi.shape[1])) @ phi.T
        truth *= 0.8 / np.abs(truth).max()
        values = np.clip(truth + noise * rng.standard_normal(truth.shape), -1, 1)
        return Smooth(kernel, values)

    return make

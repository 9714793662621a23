"""Passes in two precisions: the answer is that of double precision alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from kronfill.core.grouping import Grouped
from kronfill.core.loops.lanes import lined
from kronfill.solvers.pcg import PCG
from kronfill.streaming.system import (
    PartitionedSystem,
    Sums,
    Totals,
    moments_of,
    normal_of,
)

MU = 0.01


class Here(Sums):
    """One partition in memory, which notes the precision of its passes."""

    def __init__(self, rows, cols, values, weights, shape):
        self.grouped = Grouped.by(rows, cols, shape[0], weights)
        self.values = values[self.grouped.order]
        w = np.ones(len(values)) if weights is None else weights
        counts = (np.bincount(rows, w, shape[0]), np.bincount(cols, w, shape[1]))
        self.totals = Totals(len(values), shape, counts, w @ values**2, w @ values)
        self.singles = []

    def place(self, outer, inner):
        self.factors = outer, inner

    def normal(self, x, single=False):
        self.singles.append(single)
        p, q = self.factors
        return normal_of(p, lined(q, np.float32 if single else np.float64), self.grouped, x)

    def moments(self):
        p, q = self.factors
        return moments_of(p, lined(q, np.float64), self.grouped, self.values, q.shape[1])


def problem(weighted, shape=(60, 50), ranks=(9, 5)):
    rng = np.random.default_rng(0)
    phis = [
        rng.standard_normal((n, r)) / 3 ** np.arange(r) for n, r in zip(shape, ranks, strict=True)
    ]
    rows, cols = np.nonzero(rng.random(shape) < 0.5)
    weights = rng.random(len(rows)) if weighted else None
    return phis, (rows, cols, rng.standard_normal(len(rows)), weights, shape)


class Dense:
    """The same by dense algebra."""

    def __init__(self, phis, rows, cols, values, weights):
        self.psi = np.einsum("ki,kj->kij", phis[0][rows], phis[1][cols]).reshape(len(rows), -1)
        self.values = values
        self.weights = np.ones(len(rows)) if weights is None else weights
        self.shape = phis[0].shape[1], phis[1].shape[1]

    def answer(self):
        left = self.psi.T * self.weights
        gram = left @ self.psi + MU * np.eye(self.psi.shape[1])
        return np.linalg.solve(gram, left @ self.values).reshape(self.shape)

    def residual(self, core):
        """||Psi r|| / (mu ||y||), weighted."""
        x = core.ravel()
        r = self.psi.T @ (self.weights * (self.values - self.psi @ x)) - MU * x
        size = np.sqrt(self.weights @ (self.psi @ r) ** 2)
        return size / (MU * np.sqrt(self.weights @ self.values**2))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_late_passes_are_in_single_precision(weighted, scale, tol):
    phis, (rows, cols, values, weights, shape) = problem(weighted)
    values = values * scale
    found, singles = [], []
    for goal in (MU * tol, 0.0):
        sums = Here(rows, cols, values, weights, shape)
        system = PartitionedSystem(tuple(phis), sums, None, goal)
        (result,) = PCG(tol=tol).solve_all(system, MU)
        assert result.solution.converged
        found.append(result)
        singles.append(sums.singles)
    assert not any(singles[1])
    mixed = singles[0]
    assert len(mixed) == len(singles[1])  # no pass more
    first = mixed.index(True)
    assert first > 0
    assert mixed[first:-2] == [True] * (len(mixed) - 2 - first)
    assert mixed[-2:] == [False, True]  # the residual, and its norm
    dense = Dense(phis, rows, cols, values, weights)
    answer = dense.answer()
    near = 10 * tol * np.abs(answer).max()
    for result in found:
        assert_allclose(result.core, answer, rtol=0, atol=near)
        assert_allclose(result.solution.residual, dense.residual(result.core), 1e-4, 1e-11)


def test_a_tolerance_beyond_single_precision_is_met():
    phis, data = problem(False)
    sums = Here(*data)
    system = PartitionedSystem(tuple(phis), sums, "mean", MU * 1e-12)
    (result,) = PCG(tol=1e-12).solve_all(system, MU)
    assert result.solution.converged
    assert result.solution.residual <= 1e-12


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nothing_in_nothing_out(dtype):
    p, q = np.ones((3, 2)), lined(np.ones((4, 5)), dtype)
    none = np.empty(0, np.intp)
    empty = Grouped.by(none, none, 3)
    x = np.ones((2, 5))
    assert not normal_of(p, q, empty, x).any()
    assert moments_of(p, q, empty, np.empty(0), 5).shape == (2, 2, 5)
    one = Grouped.by(np.array([1]), np.array([2]), 3)
    assert not normal_of(p, q, one, np.zeros((2, 5))).any()
    assert_allclose(normal_of(p, q, one, x), np.full((2, 5), 10.0))

"""Fits far out of the ordinary range against 200-digit arithmetic: none is silently wrong."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import kronfill as kf
from kronfill.errors import KronfillError

from ..oracles.exact import exact_predictions, leading_part

pytestmark = pytest.mark.slow

CASES = 150
WRONG = 1e-2
"""An error beyond this, relative to the largest value or prediction, must not go unsaid."""
CENTERS = (None, "mean", "rows", "cols", "both")
SOLVERS = {
    "auto": "auto",
    "cholesky": kf.Cholesky(),
    "grid": kf.GridEigen(),
    "primal": kf.PrimalDirect(),
    "pcg": kf.PCG(),
    "pcg single": kf.PCG(dtype="float32"),
    "pcg fine": kf.PCG(tol=1e-10),
    "dual": kf.DualPCG(),
    "dual fine": kf.DualPCG(tol=1e-10),
}


def kernel(rng, n):
    """A positive semidefinite matrix, of the kinds on which solvers stumble."""
    kind = rng.integers(10)
    points = rng.standard_normal((n, 2))
    if kind == 0:
        return np.ones((n, n))
    if kind == 1:
        return np.eye(n)
    if kind == 2:  # whole numbers: singular without rounding, zero at times
        column = rng.integers(-3, 4, (n, 1)).astype(float)
        return column @ column.T
    if kind == 3:
        return points @ points.T
    if kind == 4:  # all but equal items
        close = np.full((n, n), 1 - 10.0 ** rng.uniform(-17, -8))
        np.fill_diagonal(close, 1.0)
        return close
    if kind == 5:
        many = rng.standard_normal((n, n + 1))
        return many @ many.T
    if kind == 6:
        x = rng.random(n) * rng.choice([0.1, 1.0, 10.0])
        return np.exp(-((x[:, None] - x) ** 2) / 2)
    if kind == 7:
        return np.diag(10.0 ** rng.uniform(-4, 4, n))
    if kind == 8:  # features that nobody scaled
        return 1e8 * (points @ points.T) + np.eye(n)
    return np.ones((n, n)) + 10.0 ** rng.uniform(-12, 2) * np.eye(n)


def _given(matrix, rng):
    """The symmetric part; one of four has an identity part beside it."""
    matrix = (matrix + matrix.T) / 2
    if rng.random() < 0.75:
        return matrix
    identity = 10.0 ** rng.uniform(-14, 1) * kf.kernels.identity(len(matrix))
    return kf.kernels.precomputed(matrix) + identity


@dataclass(frozen=True)
class Problem:
    """Kernels, observations and mu."""

    row: Any
    col: Any
    given: tuple[Any, Any]
    """The kernels as they are handed over: at times with an identity part that is known."""
    X: Any
    y: Any
    mu: float
    center: Any
    weights: Any

    @classmethod
    def draw(cls, seed):
        rng = np.random.default_rng(seed)
        shape = tuple(1 if rng.random() < 0.1 else int(rng.integers(1, 6)) for _ in range(2))
        cells = shape[0] * shape[1]
        m = cells if rng.random() < 0.3 else int(rng.integers(1, cells + 1))
        X = np.column_stack(np.divmod(rng.choice(cells, m, replace=False), shape[1]))
        y = rng.standard_normal(m) + rng.choice([0.0, 2.0])
        if rng.random() < 0.3:
            y *= 10.0 ** rng.uniform(-90, 90)
        mu = 10.0 ** (rng.uniform(-20, 20) if rng.random() < 0.5 else rng.uniform(-17, 2))
        spread = rng.choice([0.0, 1.0, 6.0, 12.0], p=[0.5, 0.1, 0.3, 0.1])
        weights = 10.0 ** rng.uniform(-spread, spread, m) if spread else None
        center = CENTERS[rng.integers(len(CENTERS))]
        given = tuple(_given(kernel(rng, n), rng) for n in shape)
        dense = (k if isinstance(k, np.ndarray) else k.to_array() for k in given)
        return cls(*dense, given, X, y, mu, center, weights)

    @property
    def complete(self):
        return self.weights is None and len(self.y) == len(self.row) * len(self.col)

    def exact(self, row=None, col=None):
        kernels = (self.row if row is None else row, self.col if col is None else col)
        return exact_predictions(*kernels, self.X, self.y, self.mu, self.center, self.weights)

    @property
    def ordinary(self):
        """Whether mu and the weights are what they are in practice."""
        size = self.row.diagonal().max() * self.col.diagonal().max()
        w = np.ones(1) if self.weights is None else self.weights
        return size * w.max() < 1e6 * self.mu and w.max() < 1e3 * w.min()

    def fitted(self, estimator):
        """Predictions and whether all was said to be well, None where the fit is refused."""
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                estimator.fit(self.X, self.y, sample_weight=self.weights)
            except KronfillError:
                return None
            return estimator.predict_matrix(), estimator.solution_.converged and not told

    def check(self, estimator, exact, strict=True):
        """The error of a fit that says that all is well, None for one that does not.

        With a tolerance near rounding (not ``strict``) an ordinary problem may fail to reach it.
        """
        found = self.fitted(estimator)
        if found is None or not found[1]:
            assert not (strict and self.ordinary), found
            return None
        error = np.abs(found[0] - exact).max() / max(np.abs(exact).max(), np.abs(self.y).max())
        assert error <= (1e-5 if self.ordinary else WRONG), f"{error:.1e}: {self}"
        return error


@pytest.mark.parametrize("block", range(8))
def test_kkmcex_with_every_solver(block):
    silent = 0
    for seed in range(block * CASES, (block + 1) * CASES):
        problem = Problem.draw(seed)
        exact = problem.exact()
        for name, solver in SOLVERS.items():
            if name != "grid" or problem.complete:
                est = kf.KKMCEX(*problem.given, problem.mu, problem.center, solver=solver)
                silent += problem.check(est, exact, strict="fine" not in name) is not None
    assert silent > 5 * CASES  # most of them are right, and not a word is said


@pytest.mark.parametrize("solver", ["auto", "primal", "pcg"])
def test_rrmcex(solver):
    silent = 0
    for seed in range(100_000, 100_000 + CASES):
        problem = Problem.draw(seed)
        rng = np.random.default_rng(seed)
        ranks = [int(rng.integers(1, len(k) + 1)) for k in (problem.row, problem.col)]
        dense = (problem.row, problem.col)
        cut = [leading_part(k, rank) for k, rank in zip(dense, ranks, strict=True)]
        if all(part is not None for part in cut):
            est = kf.RRMCEX(
                *problem.given, *ranks, problem.mu, problem.center, solver=SOLVERS[solver]
            )
            silent += problem.check(est, problem.exact(*cut)) is not None
    assert silent > CASES / 4


@pytest.mark.parametrize("method", [kf.KKMCEX, kf.RRMCEX])
def test_online(method):
    silent = 0
    for seed in range(200_000, 200_000 + CASES):
        problem = Problem.draw(seed)
        est = method(*problem.given, mu=problem.mu, center=problem.center)
        if method is kf.RRMCEX:
            est.set_params(row_rank=len(problem.row), col_rank=len(problem.col))
        silent += problem.check(_Online(est), problem.exact()) is not None
    assert silent > CASES / 4


class _Online:
    """A fit in two parts."""

    def __init__(self, estimator):
        self._estimator = estimator

    def fit(self, X, y, sample_weight):
        half = (len(y) + 1) // 2
        for part in (slice(half), slice(half, None)):
            if len(y[part]):
                w = None if sample_weight is None else sample_weight[part]
                self._estimator.partial_fit(X[part], y[part], w)

    def __getattr__(self, name):
        return getattr(self._estimator, name)

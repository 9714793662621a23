"""Kernels with identity parts and free effects: dense truth, and as few iterations as without."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf

N, L, M = 40, 30, 700


def problem(identity=(0.1, 0.2)):
    rng = np.random.default_rng(0)
    kernels = [kf.kernels.rbf(rng.random((n, 2)), length_scale=0.5) for n in (N, L)]
    kernels = [
        kernel + part * kf.kernels.identity(kernel.n) if part else kernel
        for kernel, part in zip(kernels, identity, strict=True)
    ]
    X = np.column_stack(np.divmod(rng.choice(N * L, M, replace=False), L))
    y = 3.0 + np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(M)
    return kernels, X, y, rng.random(M) + 0.5


@pytest.mark.parametrize("center", ["rows", "cols", "both"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("identity", [(0.1, 0.2), (0.0, 0.3), (0.3, 0.0)])
def test_effects_and_predictions_are_those_of_the_dense_solver(center, weighted, identity):
    kernels, X, y, weights = problem(identity)
    given = weights if weighted else None
    pcg, dense = (
        kf.KKMCEX(*kernels, mu=0.05, center=center, solver=solver).fit(X, y, sample_weight=given)
        for solver in (kf.PCG(tol=1e-12, max_iter=2000), kf.Cholesky())
    )
    assert_allclose(pcg.predict_matrix(), dense.predict_matrix(), atol=1e-8)
    assert pcg.mean_ == pytest.approx(dense.mean_, abs=1e-8)
    assert_allclose(pcg.row_effects_, dense.row_effects_, atol=1e-8)
    assert_allclose(pcg.col_effects_, dense.col_effects_, atol=1e-8)


@pytest.mark.parametrize("center", ["rows", "cols", "both"])
def test_free_effects_take_no_more_iterations(center):
    kernels, X, y, _ = problem()

    def iterations(center):
        est = kf.KKMCEX(*kernels, mu=0.05, center=center, solver=kf.PCG())
        return est.fit(X, y).n_iter_

    assert iterations(center) <= 1.5 * iterations(None)

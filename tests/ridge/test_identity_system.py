"""Kernels with identity parts and free effects: dense truth, and as few iterations as without."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.estimators.gaussian_process.regressor import gaussian_process
from kronfill.estimators.inputs import sampled_entries
from kronfill.ridge.identity_system import FactorPlusIdentity
from kronfill.ridge.problem import RidgeProblem
from kronfill.uncertainty.identity_part import IdentityPosterior
from kronfill.uncertainty.posterior import DualPosterior

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


def with_absent_items():
    """Sensors and hours: stretches, a fifth of the rows and a fifth of the columns are missing."""
    rng = np.random.default_rng(3)
    n, l = 60, 80
    place, hours = rng.random((n, 2)), np.arange(l)
    clock = np.column_stack([np.sin(hours / 4), np.cos(hours / 4), hours / 40])
    kernels = [
        kf.kernels.rbf(features) + kf.kernels.constant(size) + 0.1 * kf.kernels.identity(size)
        for features, size in ((place, n), (clock, l))
    ]
    seen = np.ones((n, l), bool)
    for row, start in enumerate(rng.integers(0, l - 20, n)):
        seen[row, start : start + 20] = False
    seen[rng.choice(n, n // 5, replace=False)] = False
    seen[:, rng.choice(l, l // 5, replace=False)] = False
    X = np.argwhere(seen)
    y = place[X[:, 0], 0] * np.sin(X[:, 1] / 4) + 0.1 * rng.standard_normal(len(X))
    return kernels, X, y


@pytest.mark.parametrize("mu", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("center", [None, "mean", "both"])
def test_absent_rows_and_columns_do_not_stall_the_iteration(mu, center):
    kernels, X, y = with_absent_items()
    est = kf.KKMCEX(*kernels, mu=mu, center=center, solver=kf.PCG()).fit(X, y)
    dense = kf.KKMCEX(*kernels, mu=mu, center=center, solver=kf.Cholesky()).fit(X, y)
    assert est.n_iter_ <= 150
    assert_allclose(est.predict_matrix(), dense.predict_matrix(), atol=1e-4)


def test_the_system_of_the_observed_items_has_the_same_posterior():
    kernels, X, y = with_absent_items()
    est = kf.KKMCEX(*kernels, mu=1e-2).fit(X, y)
    s = sampled_entries(est.observations_, None)
    splits = [FactorPlusIdentity.of(kernel) for kernel in kernels]
    posterior = IdentityPosterior(*splits, s, 1e-2)
    dense = DualPosterior(RidgeProblem(*kernels, s, 1e-2))
    rng = np.random.default_rng(0)
    entries = np.column_stack([rng.integers(0, 60, 40), rng.integers(0, 80, 40)])
    some = gaussian_process(est).targets(*entries.T)
    assert_allclose(posterior.variance(some), dense.variance(some), rtol=1e-6)
    assert_allclose(posterior.covariance(some, some), dense.covariance(some, some), atol=1e-7)

"""Every solver takes every kernel and every kind of number, or declines with one of our errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill import kernels

N, L = 14, 11
RNG = np.random.default_rng(0)
POINTS = RNG.random((N, 3))
CHAIN = np.diag(np.ones(N - 1), 1) + np.diag(np.ones(N - 1), -1)
KERNELS = {
    "rbf": kernels.rbf(POINTS),
    "matern": kernels.matern(POINTS, nu=0.5),
    "linear": kernels.linear(POINTS),
    "polynomial": kernels.polynomial(POINTS, degree=2),
    "periodic": kernels.periodic(POINTS, period=1.0),
    "tanimoto": kernels.tanimoto(RNG.random((N, 30)) < 0.3),
    "diffusion": kernels.diffusion(CHAIN),
    "regularised": kernels.regularized_laplacian(CHAIN),
    "walk": kernels.random_walk(CHAIN),
    "given": kernels.precomputed(POINTS @ POINTS.T + 0.1 * np.eye(N)),
    "identity": kernels.identity(N),
    "constant": kernels.constant(N),
    "sum": kernels.rbf(POINTS) + 0.1 * kernels.identity(N),
    "product": kernels.rbf(POINTS) * kernels.linear(POINTS),
    "normalised": (kernels.linear(POINTS) + kernels.identity(N)).normalized(),
}
SOLVERS = {
    "auto": "auto",
    "cholesky": kf.Cholesky(),
    "primal": kf.PrimalDirect(),
    "pcg": kf.PCG(tol=1e-9),
    "pcg single": kf.PCG(tol=1e-9, dtype="float32"),
    "dual": kf.DualPCG(tol=1e-9),
}
COLUMNS = kernels.rbf(RNG.random((L, 2)))
PAIRS = np.argwhere(RNG.random((N, L)) < 0.6)
VALUES = RNG.integers(0, 50, len(PAIRS))
DTYPES = [("int64", "float64"), ("int32", "float32"), ("uint8", "int16"), ("float64", "bool")]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_all_agree(kernel, solver):
    y = VALUES.astype(float)
    expected = kf.KKMCEX(KERNELS[kernel], COLUMNS, mu=0.5, solver=kf.Cholesky()).fit(PAIRS, y)
    got = kf.KKMCEX(KERNELS[kernel], COLUMNS, mu=0.5, solver=SOLVERS[solver]).fit(PAIRS, y)
    assert got.solution_.converged
    assert_allclose(got.predict_matrix(), expected.predict_matrix(), atol=1e-6 * y.max())
    assert_allclose(got.predict(PAIRS), expected.predict(PAIRS), atol=1e-6 * y.max())


@pytest.mark.parametrize(("solver", "kinds"), list(itertools.product(SOLVERS, DTYPES)))
def test_any_kind_of_number(solver, kinds):
    index, number = kinds
    X, y = PAIRS.astype(index), VALUES.astype(number)
    est = kf.KKMCEX(KERNELS["sum"], COLUMNS, mu=0.5, solver=SOLVERS[solver])
    plain = est.fit(PAIRS, y.astype(float)).predict_matrix()
    assert np.array_equal(est.fit(X, y).predict_matrix(), plain)


@pytest.mark.parametrize("kind", [kf.PCG, kf.DualPCG, kf.Auto])
def test_settings_are_checked(kind):
    for bad in ({"tol": 0}, {"tol": 2.0}, {"max_iter": 0}, {"time_limit": 0}):
        with pytest.raises(kf.errors.ParameterError, match=kind.__name__):
            kind(**bad)


@pytest.mark.parametrize("kind", [kf.PCG, kf.DualPCG, kf.Auto])
def test_progress_is_shown_when_asked(kind, capsys):
    rng = np.random.default_rng(0)
    k = kernels.rbf(rng.random((60, 2)), length_scale=0.4)
    X = np.argwhere(rng.random((60, 60)) < 0.5)
    kf.KKMCEX(k, k, mu=0.1, solver=kind(progress=True)).fit(X, rng.random(len(X)))
    shown = capsys.readouterr().err
    assert "iteration 1, residual" in shown
    assert shown.endswith("\n")
    kf.KKMCEX(k, k, mu=0.1, solver=kind()).fit(X, rng.random(len(X)))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("kind", [kf.PCG, kf.DualPCG])
def test_bounded_in_time(kind):
    rng = np.random.default_rng(0)
    k = kernels.matern(rng.random((60, 2)), length_scale=0.2, nu=0.5)
    X = np.argwhere(rng.random((60, 60)) < 0.5)
    est = kf.KKMCEX(k, k, mu=1e-6, solver=kind(tol=1e-12, time_limit=1e-4))
    with pytest.warns(kf.errors.ConvergenceWarning, match="time limit"):
        est.fit(X, rng.random(len(X)))
    assert not est.solution_.converged
    assert est.solution_.residual > 1e-12

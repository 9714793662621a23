"""Digits that are left: a word where there are few, silence in the ordinary range."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import kronfill as kf
from kronfill.errors import IllConditionedWarning, KronfillWarning
from kronfill.ridge import trust
from kronfill.ridge.solution import Solution, Status

from ..oracles.exact import exact_predictions

SOLVERS = {
    "auto": "auto",
    "cholesky": kf.Cholesky(),
    "primal": kf.PrimalDirect(),
    "pcg": kf.PCG(),
    "dual": kf.DualPCG(),
}
every_solver = pytest.mark.parametrize("solver", SOLVERS)
NEAR = 1 - 1e-16


@every_solver
def test_mu_below_the_rounding_of_the_kernel_is_told(solver):
    """Columns that differ in the last digit: what they say apart is rounding."""
    X, y = np.argwhere(np.ones((2, 2))), np.array([2.5, 0.5, 2.4, 0.4])
    est = kf.KKMCEX(
        np.ones((2, 2)), [[1, NEAR], [NEAR, 1]], mu=1e-16, center="mean", solver=SOLVERS[solver]
    )
    with pytest.warns(IllConditionedWarning):
        est.fit(X, y)
    assert not est.solution_.converged


@pytest.mark.parametrize("mu", [1e-18, 1e-40])
@every_solver
def test_constant_kernels(solver, mu):
    """Right, or with a word: the limit for a tiny mu is the mean."""
    y = np.array([3.1, 3.2, 3.3, 3.0, 3.4])
    est = kf.KKMCEX(np.ones((5, 5)), None, mu=mu, solver=SOLVERS[solver])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        est.fit([[i, 0] for i in range(5)], y)
    assert told or np.allclose(est.predict_matrix(), 3.2)
    assert est.solution_.converged == (not told)


def test_the_message_counts_the_digits():
    for error, said in ((0.004, "about 2 digits"), (0.04, "about 1 digit "), (3.0, "no digit")):
        with pytest.warns(IllConditionedWarning, match=f"{said}.*can be trusted.*larger mu"):
            Solution(Status.FEW_DIGITS, "PCG", error=error).warn()


@pytest.mark.parametrize("center", ["rows", "cols", "mean"])
@every_solver
def test_weights_over_24_decades(solver, center):
    """A light row has effects like any other, and they are not taken for rounding."""
    rng = np.random.default_rng(0)
    X = np.argwhere(np.ones((4, 3)))
    y = rng.standard_normal(12) + 2.0
    weights = np.repeat([1e12, 1.0, 1e-6, 1e-12], 3) * rng.uniform(0.5, 2, 12)
    points = rng.standard_normal((4, 4))
    kernels = points @ points.T, np.eye(3)
    est = kf.KKMCEX(*kernels, mu=100.0, center=center, solver=SOLVERS[solver])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        est.fit(X, y, sample_weight=weights)
    exact = exact_predictions(*kernels, X, y, 100.0, center, weights)
    error = np.abs(est.predict_matrix() - exact).max()
    assert told or error < 1e-2
    if solver in ("auto", "cholesky"):
        assert not told
        assert error < 1e-6


@every_solver
def test_a_kernel_of_zeros_at_the_observed_entries(solver):
    kernel = np.diag([1.0, 0.0])
    for center, expected in ((None, 0.0), ("mean", 1.5), ("rows", [[1.0], [2.0]])):
        est = kf.KKMCEX(np.eye(2), kernel, mu=1e-9, center=center, solver=SOLVERS[solver])
        est.fit([[0, 1], [1, 1]], [1.0, 2.0])
        np.testing.assert_allclose(est.predict_matrix(), np.broadcast_to(expected, (2, 2)))


@pytest.mark.parametrize("center", [None, "mean", "rows", "cols", "both"])
def test_kernels_of_zeros(center):
    nothing = np.zeros((2, 2))
    X, y = np.argwhere(np.ones((2, 2))), np.array([1.0, 2.0, 3.0, 4.0])
    expected = exact_predictions(nothing, nothing, X, y, 1.0, center)
    for solver in SOLVERS.values():
        est = kf.KKMCEX(nothing, nothing, center=center, solver=solver).fit(X, y)
        np.testing.assert_allclose(est.predict_matrix(), expected, atol=1e-12)
    cut = kf.RRMCEX(nothing, nothing, center=center)
    np.testing.assert_allclose(cut.fit(X, y).predict_matrix(), expected, atol=1e-12)
    online = kf.RRMCEX(nothing, nothing, center=center).partial_fit(X[:2], y[:2])
    np.testing.assert_allclose(
        online.partial_fit(X[2:], y[2:]).predict_matrix(), expected, atol=1e-12
    )


@pytest.fixture
def no_measurement(monkeypatch):
    def refuse(*_):
        raise AssertionError("the error was measured")

    monkeypatch.setattr(trust._Measurement, "of", refuse)


@pytest.mark.parametrize("mu", [1e-5, 1e-2, 1.0, 1e6])
@every_solver
def test_nothing_is_measured_in_the_ordinary_range(solver, mu, no_measurement):
    rng = np.random.default_rng(0)
    kernel = kf.kernels.rbf(rng.random((20, 2)), length_scale=0.5)
    X = np.argwhere(rng.random((20, 20)) < 0.5)
    est = kf.KKMCEX(kernel, kernel, mu=mu, solver=SOLVERS[solver])
    assert est.fit(X, rng.standard_normal(len(X))).solution_.error is None


def test_an_identity_part_is_as_good_as_mu(no_measurement):
    rng = np.random.default_rng(0)
    kernel = kf.kernels.rbf(rng.random((20, 2))) + 0.1 * kf.kernels.identity(20)
    X = np.argwhere(rng.random((20, 20)) < 0.5)
    y = rng.standard_normal(len(X))
    for solver in (kf.Cholesky(), kf.PCG()):
        assert kf.KKMCEX(kernel, kernel, mu=1e-15, solver=solver).fit(X, y).solution_.converged


@pytest.mark.parametrize("method", [kf.KKMCEX, kf.RRMCEX])
def test_a_measured_error_may_be_small(method):
    """mu is small beside a kernel that is far from singular: no digit is lost."""
    X, y = np.argwhere(np.ones((5, 4)))[:15], np.arange(15.0)
    est = method(np.eye(5), np.eye(4), mu=1e-9)
    if method is kf.RRMCEX:
        est.set_params(row_rank=5, col_rank=4)
    est.fit(X, y)
    assert est.solution_.converged
    assert est.solution_.error < 1e-3
    np.testing.assert_allclose(est.predict(X), y, atol=1e-6)


def test_the_second_solve_is_quiet():
    X, y = np.argwhere(np.ones((5, 4)))[:15], np.arange(15.0)
    seen = []
    solver = kf.DualPCG(callback=lambda k, _: seen.append(k))
    est = kf.KKMCEX(np.eye(5), np.eye(4), mu=1e-9, solver=solver).fit(X, y)
    assert est.solution_.error is not None
    assert seen == list(range(1, est.n_iter_ + 1))


def test_each_of_several_targets_is_looked_at():
    kernels = np.ones((2, 2)), np.array([[1, NEAR], [NEAR, 1]])
    Y = np.array([[1.0, 2.5], [1.0, 0.5], [1.0, 2.4], [1.0, 0.4]])
    est = kf.KKMCEX(*kernels, mu=1e-16, center="mean", solver=kf.PCG())
    with pytest.warns(IllConditionedWarning, match="can be trusted"):
        est.fit(np.argwhere(np.ones((2, 2))), Y)
    assert [one.converged for one in est.solution_] == [True, False]


def test_what_arrives_later_is_looked_at():
    X, y = np.argwhere(np.ones((2, 2))), np.array([2.5, 0.5, 2.4, 0.4])
    kernels = np.ones((2, 2)), np.array([[1, NEAR], [NEAR, 1]])
    for est in (
        kf.KKMCEX(*kernels, mu=1e-16, center="mean", solver=kf.PCG()),
        kf.RRMCEX(*kernels, row_rank=2, col_rank=2, mu=1e-16, center="mean"),
    ):
        with pytest.warns(IllConditionedWarning):
            est.partial_fit(X[:1], y[:1]).partial_fit(X[1:], y[1:])
        assert not est.solution_.converged


def test_a_table_outside_of_memory(tmp_path):
    pytest.importorskip("pyarrow")
    import pandas as pd

    X = np.argwhere(np.ones((6, 5)))
    frame = pd.DataFrame({"row": X[:, 0], "col": X[:, 1], "value": np.arange(30.0)})
    frame.to_parquet(tmp_path / "table.parquet")
    kernels = kf.kernels.constant(6), kf.kernels.constant(5)
    with pytest.warns(KronfillWarning):
        est = kf.KKMCEX(*kernels, mu=1e-14).fit(str(tmp_path / "table.parquet"))
    assert not est.solution_.converged
    ordinary = kf.KKMCEX(*kernels, mu=1e-3).fit(str(tmp_path / "table.parquet"))
    assert ordinary.solution_.converged
    frame["value"] *= 1e-170
    frame.to_parquet(tmp_path / "table.parquet")
    with pytest.raises(kf.errors.DataError, match="squares of the values is 0"):
        ordinary.fit(str(tmp_path / "table.parquet"))


def test_the_error_is_saved(tmp_path):
    est = kf.KKMCEX(np.eye(2), np.eye(2), mu=1e-12).fit([[0, 0], [1, 0]], [1.0, 2.0])
    est.save(tmp_path / "model.kf")
    assert est.solution_.error is not None
    assert kf.load(tmp_path / "model.kf").solution_ == est.solution_
    est.solution_ = replace(est.solution_, status=Status.FEW_DIGITS, error=np.inf)
    est.save(tmp_path / "model.kf")
    assert kf.load(tmp_path / "model.kf").solution_ == est.solution_


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_single_precision_has_the_range_of_double(scale):
    rng = np.random.default_rng(0)
    kernel = kf.kernels.rbf(rng.random((20, 2)), length_scale=0.5)
    X = np.argwhere(rng.random((20, 20)) < 0.5)
    y = rng.standard_normal(len(X))
    est = kf.KKMCEX(kernel, kernel, mu=0.1, solver=kf.PCG(dtype="float32"))
    plain = est.fit(X, y).predict_matrix()
    np.testing.assert_allclose(est.fit(X, scale * y).predict_matrix() / scale, plain, atol=1e-6)
    assert est.solution_.converged

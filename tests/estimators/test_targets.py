"""Several targets at the same entries, solved together, against one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.errors import NonFiniteError, ParameterError

SOLVERS = {
    "cholesky": kf.Cholesky(),
    "primal": kf.PrimalDirect(),
    "pcg": kf.PCG(tol=1e-11),
    "pcg single": kf.PCG(tol=1e-11, dtype="float32"),
    "dual": kf.DualPCG(tol=1e-11),
    "auto": "auto",
}


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = np.argwhere(rng.random((20, 15)) < 0.5)
    Y = rng.standard_normal((len(X), 3)) + np.array([0.0, 5.0, 0.0])
    Y[:, 2] = 0.0  # nothing to do for this one
    points = rng.random((20, 2)), rng.random((15, 2))
    return X, Y, [kf.kernels.rbf(p, length_scale=0.5) for p in points]


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize("center", [None, "mean", "both"])
@pytest.mark.parametrize("identity", [0.0, 0.3])
def test_together_as_one_by_one(solver, center, identity):
    X, Y, (k, l) = data()
    if identity:
        k, l = k + identity * kf.kernels.identity(20), l + identity * kf.kernels.identity(15)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    weights[3] = 0.0
    est = kf.KKMCEX(k, l, mu=0.2, center=center, solver=solver)
    together = est.fit(X, Y, sample_weight=weights)
    got = {
        "dual": together.dual_coef_, "pairs": together.predict(X),
        "block": together.predict_matrix(), "new": together.extrapolate(rows=[[0.5, 0.5]]),
    }  # fmt: skip
    assert len(together.solution_) == 3
    assert together.row_effects_.shape == (20, 3)
    for t in range(3):
        alone = kf.KKMCEX(k, l, mu=0.2, center=center, solver=solver)
        alone.fit(X, Y[:, t], sample_weight=weights)
        assert_allclose(got["dual"][:, t], alone.dual_coef_, atol=1e-8)
        assert_allclose(got["pairs"][:, t], alone.predict(X), atol=1e-8)
        assert_allclose(got["block"][..., t], alone.predict_matrix(), atol=1e-8)
        assert_allclose(got["new"][..., t], alone.extrapolate(rows=[[0.5, 0.5]]), atol=1e-8)


def test_what_needs_one_target_says_so():
    X, Y, (k, l) = data()
    est = kf.KKMCEX(k, l).fit(X, Y)
    assert est.score(X, Y) <= 1.0
    with pytest.raises(ParameterError, match="one target"):
        est.explain(0, 0)
    with pytest.raises(ParameterError, match="one target"):
        kf.KKMCEX(k, l, mu="auto").fit(X, Y)
    Y[4, 1] = np.nan
    with pytest.raises(NonFiniteError, match="position 4 of target 1"):
        kf.KKMCEX(k, l).fit(X, Y)
    with pytest.raises(kf.errors.ShapeError):
        kf.MC(shape=(20, 15), rank=2).fit(X, np.ones((len(X), 2)))

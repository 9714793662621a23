"""MC, KMC and IMC: what they share, that the objective never rises, and starting points."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

import kronfill as kf
from kronfill.errors import (
    ConvergenceWarning,
    DataError,
    KernelError,
    MemoryLimitError,
    ParameterError,
    ShapeError,
)
from kronfill.estimators import kmc as kmc_module
from kronfill.solvers import half_steps as halfstep

RNG = np.random.default_rng(3)
N, L, P = 13, 10, 3
PHI_W, PHI_H = RNG.standard_normal((N, 5)), RNG.standard_normal((L, 4))
X = RNG.permutation(np.argwhere(RNG.random((N, L)) < 0.6))
Y = RNG.standard_normal(len(X)) + 1.0
A_W, A_H = RNG.standard_normal((5, P)), RNG.standard_normal((4, P))
FIXED = {"sweeps": 40, "tol": 0.0}
STATE = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    """Each test draws the same numbers, whichever ran before it."""
    RNG.bit_generator.state = STATE


def quiet(est, *args, **kwargs):
    """Fit without caring that a fixed number of sweeps is not convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return est.fit(*args, **kwargs)


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize(
    ("wide", "cut"), [(False, False), (True, False), (False, True)], ids=["thin", "wide", "rank"]
)
def test_imc_is_kmc_with_linear_kernels(wide, cut, accelerate):
    """From matched starting points, whatever the rank of the features (erratum E14)."""
    phi_w = RNG.standard_normal((N, N + 6)) if wide else PHI_W
    phi_w = phi_w[:, :2] @ RNG.standard_normal((2, 5)) if cut else phi_w
    a_w = np.ones((phi_w.shape[1], P))
    settings_ = {**FIXED, "accelerate": accelerate}
    imc = quiet(
        kf.IMC(phi_w, PHI_H, rank=P, mu=0.4, solver=kf.ALS(start=(a_w, A_H), **settings_)), X, Y
    )
    start = (phi_w @ a_w, PHI_H @ A_H)
    kmc = quiet(
        kf.KMC(phi_w @ phi_w.T, PHI_H @ PHI_H.T, rank=P, mu=0.4,
               solver=kf.ALS(start=start, **settings_)), X, Y,
    )  # fmt: skip
    # Rounding decides now and then whether an extrapolated step is accepted.
    assert_allclose(kmc.predict_matrix(), imc.predict_matrix(), atol=1e-4 if accelerate else 1e-9)
    assert kmc.objective_ == pytest.approx(imc.objective_, rel=1e-10)


def test_kmc_with_identity_kernels_is_mc():
    start = (RNG.random((N, P)), RNG.random((L, P)))
    for center in (None, "both"):
        mc = quiet(kf.MC((N, L), P, 0.3, center, kf.ALS(start=start, **FIXED)), X, Y)
        kmc = quiet(
            kf.KMC(kf.kernels.identity(N), kf.kernels.identity(L), P, 0.3, center,
                   kf.ALS(start=start, **FIXED)), X, Y,
        )  # fmt: skip
        assert_allclose(kmc.predict_matrix(), mc.predict_matrix(), atol=1e-9)
        assert_allclose(kmc.W_, mc.W_, atol=1e-9)


@pytest.fixture
def limit(monkeypatch, request):
    """Force the half-steps through dense algebra (large) or conjugate gradients (0)."""
    monkeypatch.setattr(halfstep, "DENSE_HALF_STEP", request.param)
    return request.param


@pytest.mark.parametrize("limit", [0, 10_000], indirect=True)
@pytest.mark.parametrize("center", [None, "both"])
@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("kind", ["mc", "kmc", "imc", "singular"])
def test_objective_never_rises(kind, accelerate, center, limit):
    solver = kf.ALS(sweeps=60, tol=0.0, accelerate=accelerate, start="gaussian")
    k = [kf.kernels.rbf(f, length_scale=1.0) for f in (PHI_W, PHI_H)]
    est = {
        "mc": kf.MC((N, L), P, 0.2, center, solver),
        "kmc": kf.KMC(*k, P, 0.2, center, solver),
        "imc": kf.IMC(PHI_W, PHI_H, P, 0.2, center, solver),
        "singular": kf.KMC(PHI_W[:, :1] @ PHI_W[:, :1].T, k[1], P, 0.2, center, solver),
    }[kind]
    w = RNG.uniform(0.5, 2.0, len(X))
    quiet(est, X, Y, sample_weight=w)
    history = np.array(est.solution_.history)
    assert len(history) > (2 if kind == "singular" else 5)  # rank one settles in a few sweeps
    assert np.all(np.diff(history) <= 1e-12 * history[0])
    assert est.objective_ == history[-1]


@pytest.mark.parametrize("center", [None, "cols"])
def test_objective_is_the_one_written_down(center):
    kernels = [kf.kernels.rbf(f, length_scale=1.0) for f in (PHI_W, PHI_H)]
    est = kf.KMC(*kernels, P, 0.2, center, kf.ALS(sweeps=5000, tol=1e-9)).fit(X, Y)
    penalty = sum(
        np.trace(f.T @ np.linalg.pinv(k.to_array(), rcond=1e-13) @ f)
        for f, k in zip((est.W_, est.H_), kernels, strict=True)
    )
    loss = np.sum((Y - est.predict(X)) ** 2)
    assert est.objective_ == pytest.approx(loss + 0.2 * penalty, rel=1e-6)
    # At a stationary point mu ||A_w||^2 = mu ||A_h||^2 = <y - f, f>.
    rest = Y - est.predict(X)
    function = est.predict(X) - est.mean_ - est.col_effects_[X[:, 1]]
    assert 0.2 * penalty / 2 == pytest.approx(rest @ function, rel=1e-3)


def test_half_step_is_the_formula_of_the_paper():
    """One sweep from H: a = (K_w[r,r] o (H H^T)[c,c] + mu I)^-1 y, W = K_w[:, r] diag(a) H[c]."""
    kw, kh = (kf.kernels.rbf(f, length_scale=1.0).to_array() for f in (PHI_W, PHI_H))
    h = RNG.standard_normal((L, P))
    est = quiet(kf.KMC(kw, kh, P, 0.3, solver=kf.ALS(sweeps=1, start=(np.zeros((N, P)), h))), X, Y)
    r, c = X.T
    eye = 0.3 * np.eye(len(Y))
    a = np.linalg.solve(kw[np.ix_(r, r)] * (h @ h.T)[np.ix_(c, c)] + eye, Y)
    w = kw[:, r] @ (a[:, None] * h[c])
    b = np.linalg.solve(kh[np.ix_(c, c)] * (w @ w.T)[np.ix_(r, r)] + eye, Y)
    product = w @ (kh[:, c] @ (b[:, None] * w[r])).T
    assert_allclose(est.W_ @ est.H_.T, product, atol=1e-8)
    # The factors returned have the same product and are balanced in the kernels' norms.
    grams = [f.T @ np.linalg.solve(k, f) for f, k in zip((est.W_, est.H_), (kw, kh), strict=True)]
    assert_allclose(grams[0], grams[1], rtol=1e-4, atol=1e-6)


def test_rowwise_reaches_the_same_objective():
    kernels = [kf.kernels.rbf(f, length_scale=0.5) for f in (PHI_W, PHI_H)]
    rowwise = kf.KMC(
        *kernels, P, 1.0, solver=kf.RowWise(sweeps=20_000, tol=1e-13), random_state=0
    ).fit(X, Y)
    start = (rowwise.W_, rowwise.H_)
    exact = kf.KMC(*kernels, P, 1.0, solver=kf.ALS(sweeps=500, tol=1e-12, start=start)).fit(X, Y)
    assert rowwise.objective_ == pytest.approx(exact.objective_, rel=1e-6)
    assert np.all(np.diff(rowwise.solution_.history) <= 1e-9)
    assert_allclose(rowwise.predict_matrix(), exact.predict_matrix(), atol=1e-3)


def test_rowwise_inverts_a_kernel_once_and_keeps_nothing_of_it(monkeypatch):
    inverted = []
    honest = kmc_module.inverse_kernel
    monkeypatch.setattr(
        kmc_module, "inverse_kernel", lambda *given: inverted.append(given[1]) or honest(*given)
    )
    kernels = [kf.kernels.rbf(f, length_scale=0.5) for f in (PHI_W, PHI_H)]
    before = len(kmc_module._INVERSES)
    for mu in (0.1, 1.0):
        quiet(kf.KMC(*kernels, P, mu, solver=kf.RowWise(sweeps=2)), X, Y)
    quiet(kf.KMC(kernels[0], kernels[0], P, solver=kf.RowWise(sweeps=2)), [[0, 1]], [1.0])
    assert inverted == ["row_kernel", "col_kernel"]
    del kernels
    gc.collect()
    assert len(kmc_module._INVERSES) == before


def test_half_steps_make_the_kernel_of_the_observed_items_once(monkeypatch):
    asked = []
    honest = halfstep.FactorKernel.block

    def block(self, rows=None, cols=None):
        asked.append(id(self))
        return honest(self, rows, cols)

    monkeypatch.setattr(halfstep.FactorKernel, "block", block)
    pairs, values = X[::3], Y[::3]  # fewer than coefficients: through the observed entries
    k = [kf.kernels.rbf(f, length_scale=1.0) for f in (PHI_W, PHI_H)]
    solver = kf.ALS(sweeps=20, tol=0.0, accelerate=False, start="uniform")
    quiet(kf.KMC(*k, 6, 0.2, solver=solver), pairs, values)
    # One for each factor that changes, in each of two half-steps a sweep, and one for each axis.
    assert len(asked) <= 2 * 20 + 2


@pytest.mark.parametrize("start", ["spectral", "kkmcex", "uniform", "gaussian"])
@pytest.mark.parametrize("kind", ["mc", "kmc", "imc", "rowwise"])
def test_every_start_works(kind, start):
    als = kf.ALS(sweeps=2000, start=start)
    k = [kf.kernels.rbf(f, length_scale=0.5) for f in (PHI_W, PHI_H)]
    est = {
        "mc": kf.MC((N, L), P, 0.2, solver=als),
        "kmc": kf.KMC(*k, P, 0.2, solver=als),
        "imc": kf.IMC(PHI_W, PHI_H, P, 0.2, solver=als),
        "rowwise": kf.KMC(*k, P, 0.2, solver=kf.RowWise(sweeps=5000, start=start)),
    }[kind].fit(X, Y)
    assert est.objective_ < 0.9 * np.sum(Y**2)


def test_spectral_start_recovers_a_low_rank_matrix():
    truth = RNG.standard_normal((60, 2)) @ RNG.standard_normal((2, 40))
    pairs = np.argwhere(RNG.random((60, 40)) < 0.4)
    est = kf.MC(truth.shape, 2, 1e-6, solver=kf.ALS(tol=1e-12, sweeps=3000))
    est.fit(pairs, truth[pairs[:, 0], pairs[:, 1]])
    assert_allclose(est.predict_matrix(), truth, atol=1e-4)


def test_warm_start_goes_on_where_it_was():
    est = kf.MC((N, L), P, 0.2, warm_start=True, solver=kf.ALS(sweeps=3, tol=0))
    quiet(est, X, Y)
    first = est.objective_
    quiet(est, X, Y)
    assert est.objective_ < first
    cold = quiet(kf.MC((N, L), P, 0.2, solver=kf.ALS(sweeps=3, tol=0)), X, Y)
    assert cold.objective_ == pytest.approx(first)


def test_acceleration_saves_sweeps():
    """A count, not a time: the accelerated run reaches the plain one's objective sooner."""
    k = [kf.kernels.rbf(f, length_scale=1.0) for f in (PHI_W, PHI_H)]
    plain, fast = (
        kf.KMC(*k, P, 1e-2, solver=kf.ALS(tol=1e-8, accelerate=flag)).fit(X, Y)
        for flag in (False, True)
    )
    assert fast.objective_ == pytest.approx(plain.objective_, rel=1e-5)
    assert fast.n_iter_ < 0.6 * plain.n_iter_


def test_unfinished_alternation_warns():
    with pytest.warns(ConvergenceWarning, match="ALS ended after 2 iterations.*sweeps"):
        kf.MC((N, L), P, 0.2, solver=kf.ALS(sweeps=2)).fit(X, Y)


@settings(max_examples=15, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    rank=st.integers(1, 8),
    seed=st.integers(0, 99),
)
def test_rank_beyond_the_size_is_harmless(shape, rank, seed):
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(rng.random(shape) < 0.7)
    if len(pairs) == 0:
        return
    y = rng.standard_normal(len(pairs))
    est = kf.MC(shape, rank, 0.1, solver=kf.ALS(sweeps=5000)).fit(pairs, y)
    assert est.W_.shape == (shape[0], min(rank, *shape))
    assert np.isfinite(est.predict_matrix()).all()


def test_errors():
    k = kf.kernels.linear(PHI_W)
    with pytest.raises(KernelError, match="inverse of row_kernel"):
        kf.KMC(k, np.eye(L), rank=2, solver=kf.RowWise()).fit(X, Y)
    with pytest.raises(ShapeError, match=r"must have shapes \(13, 2\)"):
        kf.MC((N, L), 2, solver=kf.ALS(start=(np.ones((N, 3)), np.ones((L, 3))))).fit(X, Y)
    with pytest.raises(ParameterError, match="pair of arrays"):
        kf.MC((N, L), 2, solver=kf.ALS(start=5)).fit(X, Y)
    with pytest.raises(ParameterError, match="start must be one of"):
        kf.ALS(start="zero")
    with pytest.raises(ParameterError, match="sweeps must be at least 1"):
        kf.RowWise(sweeps=0)
    with pytest.raises(ParameterError, match=r"'auto' or kf.ALS"):
        kf.MC((N, L), 2, solver=kf.PCG()).fit(X, Y)
    with pytest.raises(ParameterError, match="two positive integers"):
        kf.MC((N, -1), 2).fit(X, Y)


def test_time_limit_and_callback():
    seen = []
    est = kf.MC((N, L), P, 0.2, solver=kf.ALS(time_limit=1e-9, callback=lambda *a: seen.append(a)))
    with pytest.warns(ConvergenceWarning, match="time limit"):
        est.fit(X, Y)
    assert [k for k, _ in seen] == [1]


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(1, 6)),
    ranks=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    log_scale=st.floats(-4, 4),
    seed=st.integers(0, 999),
)
def test_balancing_keeps_the_product_and_lowers_the_penalty(sizes, ranks, log_scale, seed):
    """Factors of deficient rank too; where both have full rank the penalty becomes 2 ||X||_*."""
    n, l, p = sizes
    rng = np.random.default_rng(seed)
    w, h = (
        rng.standard_normal((k, r)) @ rng.standard_normal((r, p))
        for k, r in zip((n, l), ranks, strict=True)
    )
    w = w * 10**log_scale
    got_w, got_h = halfstep._balanced(w, h)
    size = np.linalg.norm(w) * np.linalg.norm(h)
    assert_allclose(got_w @ got_h.T, w @ h.T, atol=1e-9 * max(size, 1e-300))
    before, after = (np.sum(a**2) + np.sum(b**2) for a, b in ((w, h), (got_w, got_h)))
    assert after <= before * (1 + 1e-9)
    if min(n, l, *ranks) >= p:
        nuclear = np.linalg.svd(w @ h.T, compute_uv=False).sum()
        assert after == pytest.approx(2 * nuclear, rel=1e-6)


@pytest.mark.parametrize("center", [None, "mean", "both"])
@pytest.mark.parametrize("large", [1e20, 1e60])
def test_weights_that_cannot_be_added_are_an_error_and_not_nan(center, large):
    """One entry that weighs more than all others by more than double precision holds."""
    rng = np.random.default_rng(0)
    X = np.argwhere(rng.random((8, 6)) < 0.7)
    weights = np.ones(len(X))
    weights[::2] = large
    est = kf.MC((8, 6), rank=2, mu=0.1, center=center)
    with pytest.raises(DataError, match="weights"):
        est.fit(X, rng.standard_normal(len(X)), sample_weight=weights)


@pytest.mark.parametrize("seed", [-1, "first", 0.5])
def test_a_seed_that_is_none(seed):
    est = kf.MC((N, L), P, 0.2, random_state=seed)
    with pytest.raises(ParameterError, match="random_state must be a whole number"):
        est.fit([[0, 0], [1, 1]], [1.0, 2.0])


def test_features_whose_products_overflow():
    with pytest.raises(DataError, match="scale the values and the features"):
        kf.IMC(1e160 * PHI_W, 1e160 * PHI_H, P, 0.2).fit(X, Y)


def test_sparse_features_that_are_too_wide_for_an_array():
    wide = sparse.csr_array((N, 10**12))
    with pytest.raises(MemoryLimitError, match=r"1000000000000 features of .* dense matrix"):
        kf.IMC(wide, PHI_H, P, 0.2).fit(X, Y)


@pytest.mark.parametrize("center", [None, "mean"])
@pytest.mark.parametrize("scale", [1.0, 1e20])
def test_rough_sweeps_in_single_precision_end_where_exact_ones_do(center, scale, monkeypatch):
    """Where numbers are of unusual size they are made in double precision."""
    rng = np.random.default_rng(0)
    kernels = [np.exp(-np.abs(np.subtract.outer(x, x))) for x in (np.arange(90), np.arange(40))]
    X = np.argwhere(rng.random((90, 40)) < 0.5)
    y = scale * np.sin(X[:, 0] / 9) * np.cos(X[:, 1] / 7)
    est = kf.KMC(*kernels, rank=5, mu=0.3 * scale, center=center).fit(X, y)
    monkeypatch.setattr("kronfill.solvers.half_steps.ROUGH_FROM", 10**9)
    exact = kf.KMC(*kernels, rank=5, mu=0.3 * scale, center=center).fit(X, y)
    assert est.objective_ == pytest.approx(exact.objective_, rel=1e-3)
    gap = np.abs(est.predict_matrix() - exact.predict_matrix()).max()
    assert gap <= 0.02 * np.abs(exact.predict_matrix()).max()

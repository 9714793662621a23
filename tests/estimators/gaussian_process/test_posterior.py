"""Uncertainty: against scikit-learn's Gaussian process, brute force, and what must hold anyway."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel

import kronfill as kf
from kronfill.errors import DataError, KernelError, ParameterError
from kronfill.estimators.gaussian_process import posterior as reading_module
from kronfill.estimators.gaussian_process.posterior import GaussianProcess
from kronfill.estimators.gaussian_process.regressor import gaussian_process
from kronfill.uncertainty.identity_part import IdentityPosterior
from kronfill.uncertainty.iterative import IterativePosterior
from kronfill.uncertainty.posterior import DirectPosterior, DualPosterior

CENTERS = [None, "mean", "rows", "cols", "both"]
ROUTES = ["dual", "direct", "iterative", "with_identity", "as_fitted"]
PARTS = [(0.0, 0.0), (0.3, 0.1), (0.0, 0.1)]


class EntryKernel(Kernel):
    """s^2 K_h (x) K_w as a kernel of scikit-learn over index pairs."""

    def __init__(self, kw, kh, scale):
        self.kw, self.kh, self.scale = kw, kh, scale

    def __call__(self, X, Y=None, eval_gradient=False):
        X, Y = (np.asarray(A, dtype=int) for A in (X, X if Y is None else Y))
        rows = self.kw[np.ix_(X[:, 0], Y[:, 0])]
        return self.scale * rows * self.kh[np.ix_(X[:, 1], Y[:, 1])]

    def diag(self, X):
        X = np.asarray(X, dtype=int)
        return self.scale * np.diag(self.kw)[X[:, 0]] * np.diag(self.kh)[X[:, 1]]

    def is_stationary(self):
        return False


def entries(n, l):
    return np.argwhere(np.ones((n, l)))


def with_identity(kernel, part):
    return kernel + part * kf.kernels.identity(kernel.n) if part else kernel


def problem(n=8, l=6, m=25, seed=0, cold=True, parts=(0.0, 0.0)):
    """Kernels from features, entries that leave the last row cold, values, weights.

    ``parts`` are the identity parts of the two kernels.
    """
    rng = np.random.default_rng(seed)
    kw = with_identity(kf.kernels.rbf(rng.random((n, 2)), length_scale=0.5), parts[0])
    kh = with_identity(kf.kernels.rbf(rng.random((l, 1)), length_scale=0.3), parts[1])
    pool = entries(n - cold, l)
    X = pool[rng.choice(len(pool), size=m, replace=False)]
    return kw, kh, X, rng.standard_normal(m) + 2.0, rng.uniform(0.3, 2.0, m)


def take_route(est, route):
    """Make the estimator compute its variances in one of the four ways, or as the fit left it."""
    if route == "as_fitted":
        return est
    r = gaussian_process(est)
    row, col = r.priors
    if route == "dual":
        made = DualPosterior(reading_module.RidgeProblem(row.kernel, col.kernel, r.sampled, r.mu))
    elif route == "with_identity":
        made = IdentityPosterior(row.split, col.split, r.sampled, r.mu)
    else:
        kind = DirectPosterior if route == "direct" else IterativePosterior
        made = kind(row.phi, col.phi, r.sampled, r.mu)
    r.__dict__["posterior"] = made
    return est


def brute(kernel, at, weights, z, y, mu):
    """Covariance of the latent values for s^2 = 1, s^2, and what is estimable; dense algebra."""
    k = kernel[at]
    inverse = np.linalg.inv(kernel[np.ix_(at, at)] + mu * np.diag(1 / weights))
    out = kernel - k.T @ inverse @ k
    m_matrix, rank, ok = inverse, 0, np.ones(len(kernel), dtype=bool)
    if z is not None:
        zo = z[at]
        gram = np.linalg.pinv(zo.T @ inverse @ zo, rcond=1e-10)
        b = z.T - zo.T @ inverse @ k
        out = out + b.T @ gram @ b
        m_matrix = inverse - inverse @ zo @ gram @ zo.T @ inverse
        rank = np.linalg.matrix_rank(zo)
        seen = np.linalg.pinv(zo, rcond=1e-10) @ zo
        ok = np.abs(z @ seen - z).max(axis=1) < 1e-9
    return out, float(y @ m_matrix @ y) / max(1, len(at) - rank), ok


def effects_design(n, l, center):
    if center is None:
        return None
    X = entries(n, l)
    parts = [np.ones((n * l, 1))]
    if center in ("rows", "both"):
        parts.append(np.eye(n)[X[:, 0]])
    if center in ("cols", "both"):
        parts.append(np.eye(l)[X[:, 1]])
    return np.hstack(parts)


@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_gaussian_process_of_scikit_learn(weighted):
    kw, kh, X, y, w = problem()
    weights = w if weighted else np.ones(len(y))
    est = kf.KKMCEX(kw, kh, mu=0.2).fit(X, y, sample_weight=w if weighted else None)
    s2 = est.signal_variance_
    kernel = EntryKernel(kw.block(), kh.block(), s2)
    gp = GaussianProcessRegressor(kernel, alpha=s2 * 0.2 / weights, optimizer=None).fit(X, y)
    everywhere = entries(8, 6)
    mean, std = gp.predict(everywhere, return_std=True)
    assert_allclose(est.predict(everywhere), mean, atol=1e-8)
    assert_allclose(est.predict_std(everywhere), std, atol=1e-8)
    k = EntryKernel(kw.block(), kh.block(), 1.0)(X)
    assert_allclose(s2, y @ np.linalg.solve(k + 0.2 * np.diag(1 / weights), y) / len(y), rtol=1e-10)
    assert est.noise_variance_ == pytest.approx(0.2 * s2)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("parts", PARTS)
def test_every_route_equals_brute_force(route, center, weighted, parts):
    kw, kh, X, y, w = problem(parts=parts)
    est = kf.KKMCEX(kw, kh, mu=0.2, center=center).fit(X, y, sample_weight=w if weighted else None)
    at = X[:, 0] * 6 + X[:, 1]
    kernel = np.kron(kw.block(), kh.block())  # entries are counted row by row here
    weights = w if weighted else np.ones(len(y))
    covariance, s2, ok = brute(kernel, at, weights, effects_design(8, 6, center), y, 0.2)
    assert_allclose(est.signal_variance_, s2, rtol=1e-9)
    std = take_route(est, route).predict_std(entries(8, 6))
    assert_array_equal(np.isfinite(std), ok)
    assert_allclose(std[ok], np.sqrt(s2 * np.diag(covariance)[ok]), atol=1e-8)
    targets = gaussian_process(est).targets(*entries(8, 6)[ok].T)
    some = targets.take(np.arange(0, len(targets), 9))
    ours = gaussian_process(est).posterior.covariance(targets, some)
    assert_allclose(ours, covariance[np.ix_(ok, ok)][:, ::9], atol=1e-8)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("center", [None, "mean", "cols"])
@pytest.mark.parametrize("parts", PARTS)
def test_a_new_row_is_as_uncertain_as_the_same_row_without_observations(route, center, parts):
    rng = np.random.default_rng(3)
    features = rng.random((9, 2))
    kh = with_identity(kf.kernels.rbf(rng.random((6, 1)), length_scale=0.3), parts[1])
    _, _, X, y, _ = problem()
    more, fewer = (
        with_identity(kf.kernels.rbf(some, length_scale=0.5), parts[0])
        for some in (features, features[:8])
    )
    given = kf.KKMCEX(more, kh, mu=0.2, center=center).fit(X, y)
    apart = take_route(kf.KKMCEX(fewer, kh, mu=0.2, center=center).fit(X, y), route)
    wanted = given.predict_std([[8, j] for j in range(6)])
    assert_allclose(apart.extrapolate_std(rows=features[8:])[0], wanted, atol=1e-8)
    assert_allclose(apart.extrapolate_std()[7], given.predict_std([[7, j] for j in range(6)]))


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("center", [None, "mean", "both"])
def test_rrmcex_of_full_rank_is_kkmcex(route, center):
    kw, kh, X, y, w = problem()
    full = kf.KKMCEX(kw, kh, mu=0.2, center=center).fit(X, y, sample_weight=w)
    cut = kf.RRMCEX(kw, kh, 1.0, 1.0, mu=0.2, center=center).fit(X, y, sample_weight=w)
    take_route(cut, route)
    assert_allclose(cut.signal_variance_, full.signal_variance_, rtol=1e-6)
    assert_allclose(cut.predict_std(entries(8, 6)), full.predict_std(entries(8, 6)), rtol=1e-6)
    new = np.array([[0.5, 0.5], [30.0, 30.0]])
    assert_allclose(cut.extrapolate_std(rows=new), full.extrapolate_std(rows=new), rtol=1e-6)


@pytest.mark.parametrize("route", ROUTES)
def test_rrmcex_is_the_gaussian_process_of_its_own_kernel(route):
    kw, kh, X, y, _ = problem()
    est = take_route(kf.RRMCEX(kw, kh, row_rank=3, col_rank=2, mu=0.2).fit(X, y), route)
    left, right = (b.known(None) for b in (est._model.row_basis, est._model.col_basis))
    whole = kf.KKMCEX(left @ left.T, right @ right.T, mu=0.2).fit(X, y)
    assert_allclose(est.signal_variance_, whole.signal_variance_, rtol=1e-8)
    assert_allclose(est.predict_std(entries(8, 6)), whole.predict_std(entries(8, 6)), atol=1e-7)


def test_the_smallest_system_is_taken(monkeypatch):
    kw, kh, X, y, _ = problem()
    thin = kf.kernels.linear(np.random.default_rng(0).random((8, 1)))

    def posterior(row, col):
        est = kf.KKMCEX(row, col, solver=kf.PCG())  # leaves no factorisation behind
        return type(gaussian_process(est.fit(X, y)).posterior)

    assert posterior(kw, kh) is DualPosterior
    monkeypatch.setattr(reading_module, "SMALL_SYSTEM", 0)
    assert posterior(kw, kh) is DualPosterior
    assert posterior(thin, kh) is DirectPosterior
    monkeypatch.setattr(reading_module, "DENSE_POSTERIOR", 5)
    assert posterior(kw, kh) is IterativePosterior
    assert posterior(with_identity(kw, 0.1), kh) is IdentityPosterior
    assert posterior(None, kh) is IdentityPosterior


@settings(max_examples=25, deadline=None)
@given(
    size=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    seed=st.integers(0, 999),
    mu=st.floats(0.01, 10),
    kinds=st.tuples(*[st.sampled_from(["rbf", "linear", None])] * 2),
    data=st.data(),
)
def test_more_data_never_make_it_less_sure(size, seed, mu, kinds, data):
    n, l = size
    rng = np.random.default_rng(seed)
    kernels = [
        None
        if kind is None
        else kf.kernels.rbf(rng.random((k, 2)), length_scale=0.5)
        if kind == "rbf"
        else kf.kernels.linear(rng.random((k, 2)))
        for kind, k in zip(kinds, size, strict=True)
    ]
    X = rng.permutation(entries(n, l))
    m = data.draw(st.integers(1, len(X)))
    less = data.draw(st.integers(1, m))
    y = rng.standard_normal(m) + 1.0
    diagonals = [
        np.ones(k) if q is None else q.diagonal() for q, k in zip(kernels, size, strict=True)
    ]
    prior = np.outer(*diagonals).ravel()

    def unscaled(count):
        obs = kf.Observations(*X[:count].T, y[:count], (n, l))
        est = kf.KKMCEX(*kernels, mu=mu).fit(obs)
        return est.predict_std(entries(n, l)) ** 2 / est.signal_variance_

    few, many = unscaled(less), unscaled(m)
    tiny = 1e-9 * max(1.0, prior.max())
    assert np.all(few <= prior + tiny)
    assert np.all(many <= few + tiny)


def test_without_kernels_what_is_not_observed_keeps_its_prior():
    X, y = np.array([[0, 0], [1, 2]]), np.array([1.0, 3.0])
    est = kf.KKMCEX(None, None, mu=0.5).fit(kf.Observations(*X.T, y, (3, 3)))
    variance = (est.predict_std(entries(3, 3)) ** 2 / est.signal_variance_).reshape(3, 3)
    wanted = np.ones((3, 3))
    wanted[X[:, 0], X[:, 1]] = 0.5 / 1.5
    assert_allclose(variance, wanted)
    assert_allclose(est.extrapolate_std(rows=2), np.sqrt(est.signal_variance_) * np.ones((2, 3)))


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("center", [None, "mean"])
def test_an_axis_with_a_single_item(shape, center):
    X = entries(*shape)[: max(1, max(shape) - 1)]
    y = np.arange(1.0, len(X) + 1)
    est = kf.KKMCEX(None, None, mu=0.5, center=center).fit(kf.Observations(*X.T, y, shape))
    if center == "mean" and len(X) == 1:
        assert np.isnan(est.signal_variance_)
        with pytest.raises(DataError, match="nothing is left"):
            est.predict_std(X)
        return
    std = est.predict_std(entries(*shape))
    assert std.shape == (shape[0] * shape[1],)
    assert np.all(std > 0)
    assert est.sample_posterior(n_samples=2).shape == (2, *shape)


def test_effects_in_unconnected_blocks_are_not_comparable():
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 2], [2, 3], [3, 2], [3, 3]])
    est = kf.KKMCEX(None, None, center="both").fit(X, np.arange(8.0))
    std = est.predict_std(entries(4, 4)).reshape(4, 4)
    assert np.all(np.isfinite(std[:2, :2]))
    assert np.all(np.isfinite(std[2:, 2:]))
    assert np.all(np.isinf(std[:2, 2:]))
    assert np.all(np.isinf(std[2:, :2]))
    with pytest.raises(ParameterError, match="8 entries, the first at"):
        est.sample_posterior()
    assert est.sample_posterior([0, 1], [0, 1]).shape == (1, 2, 2)


def test_free_effects_are_the_limit_of_a_wide_prior():
    kw, kh, X, y, _ = problem(cold=False)
    est = kf.KKMCEX(kw, kh, mu=0.2, center="both").fit(X, y)
    free = est.predict_std(entries(8, 6)) ** 2 / est.signal_variance_
    at = X[:, 0] * 6 + X[:, 1]
    z = effects_design(8, 6, "both")

    def gap(width):
        kernel = np.kron(kw.block(), kh.block()) + width * (z @ z.T)
        covariance, _, _ = brute(kernel, at, np.ones(len(y)), None, y, 0.2)
        return np.abs(np.diag(covariance) / free - 1).max()

    assert gap(1e3) < 0.01
    assert gap(1e3) < 0.15 * gap(1e2)  # it falls as one over the width


def test_entries_of_no_weight_say_nothing():
    kw, kh, X, y, w = problem()
    w[:3] = 0
    est = kf.KKMCEX(kw, kh, mu=0.2).fit(X, y, sample_weight=w)
    less = kf.KKMCEX(kw, kh, mu=0.2).fit(X[3:], y[3:], sample_weight=w[3:])
    assert_allclose(est.predict_std(X), less.predict_std(X))


def test_a_given_kernel_wants_the_diagonal_of_new_items():
    kw, kh, X, y, _ = problem()
    est = kf.KKMCEX(kw.block(), kh, mu=0.2).fit(X, y)
    new = kw.cross([[0.4, 0.4]])
    with pytest.raises(KernelError, match="similarities, diagonal"):
        est.extrapolate_std(rows=new)
    features = kf.KKMCEX(kw, kh, mu=0.2).fit(X, y)
    wanted = features.extrapolate_std(rows=[[0.4, 0.4]])
    assert_allclose(est.extrapolate_std(rows=(new, [1.0])), wanted, atol=1e-10)


def test_singular_kernels_and_a_tiny_mu():
    rng = np.random.default_rng(0)
    features = rng.random((5, 2))
    X = entries(5, 4)[:18]
    est = kf.KKMCEX(kf.kernels.linear(features), np.ones((4, 4)), mu=1e-9)
    est.fit(X, features[X[:, 0]] @ [1.0, 2.0])  # of the space: nothing is left over
    for route in ROUTES:
        ratio = take_route(est, route).predict_std(entries(5, 4)) ** 2 / est.signal_variance_
        assert np.all(ratio < 1e-6)


@pytest.mark.parametrize("center", [None, "mean", "rows"])
@pytest.mark.parametrize(
    "way", ["covariance", "Matheron", "Matheron, direct", "Matheron, with_identity"]
)
def test_samples_have_the_posterior_mean_and_covariance(center, way, monkeypatch):
    parts = (0.3, 0.5) if way == "Matheron, with_identity" else (0.0, 0.0)
    kw, kh, X, y, w = problem(n=4, l=3, m=7, parts=parts)
    est = kf.KKMCEX(kw, kh, mu=0.2, center=center).fit(X, y, sample_weight=w)
    if way != "covariance":
        monkeypatch.setattr(reading_module, "DENSE_BLOCK", 0)
        take_route(est, "direct" if way == "Matheron, direct" else "dual")
    rows = [0, 2] if center == "rows" else None
    count = 3000 if way == "covariance" else 300
    draws = est.sample_posterior(rows, [2, 0], n_samples=count, random_state=1)
    mean = est.predict_matrix(rows, [2, 0])
    chosen = np.array([(i, j) for i in (rows or range(4)) for j in (2, 0)])
    targets = gaussian_process(est).targets(*chosen.T)
    wanted = est.signal_variance_ * gaussian_process(est).posterior.covariance(targets, targets)
    flat = draws.reshape(count, -1)
    deviation = np.sqrt(np.diag(wanted))
    assert_allclose(flat.mean(axis=0), mean.ravel(), atol=5 * deviation.max() / np.sqrt(count))
    # The standard error of a covariance is at most sqrt(2 / count) of the product of deviations.
    allowed = 5 * np.sqrt(2 / count) * np.outer(deviation, deviation)
    assert np.all(np.abs(np.cov(flat.T) - wanted) <= allowed)
    again = est.sample_posterior(rows, [2, 0], n_samples=2, random_state=1)
    assert_array_equal(again, est.sample_posterior(rows, [2, 0], n_samples=2, random_state=1))


@pytest.mark.parametrize("parts", PARTS[:2])
def test_iterative_samples_at_work(monkeypatch, parts):
    kw, kh, X, y, _ = problem(parts=parts)
    monkeypatch.setattr(reading_module, "SMALL_SYSTEM", 0)
    monkeypatch.setattr(reading_module, "DENSE_POSTERIOR", 0)
    est = kf.KKMCEX(kw, kh, mu=0.2).fit(X, y)
    draws = est.sample_posterior(n_samples=100)
    ratio = draws.std(axis=0).ravel() / est.predict_std(entries(8, 6))
    assert np.all((ratio > 0.65) & (ratio < 1.35))  # five standard errors


def test_a_new_fit_forgets_and_pickles_stay_small():
    kw, kh, X, y, _ = problem()
    est = kf.KKMCEX(kw, kh, mu=0.2).fit(X, y)
    before = est.predict_std(X)
    assert "_kept_process" in vars(est)
    copy = pickle.loads(pickle.dumps(est))
    assert "_kept_process" not in vars(copy)
    assert_array_equal(copy.predict_std(X), before)
    est.fit(X[:5], y[:5])
    assert np.all(est.predict_std(X) / np.sqrt(est.signal_variance_) > 0)
    assert isinstance(gaussian_process(est), GaussianProcess)
    assert gaussian_process(est).sampled.m == 5


@pytest.mark.parametrize("bad", [0, 2.5, True])
def test_number_of_samples(bad):
    kw, kh, X, y, _ = problem()
    with pytest.raises(ParameterError, match="n_samples"):
        kf.KKMCEX(kw, kh).fit(X, y).sample_posterior(n_samples=bad)


@pytest.mark.parametrize("large", [1e18, 1e300])
def test_weights_far_apart_raise_an_error_of_kronfill(large):
    """With row and column effects; without them they are harmless up to 1e100."""
    X = np.argwhere(np.ones((4, 3)))
    weights = np.ones(12)
    weights[4] = large
    est = kf.KKMCEX(kf.kernels.rbf(np.arange(4.0)), None, mu=0.1, center="both")
    with pytest.raises(DataError, match="weights"):
        est.fit(X, np.arange(12.0), sample_weight=weights).predict_std(X)

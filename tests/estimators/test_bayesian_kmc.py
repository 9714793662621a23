"""BayesianKMC: against Gibbs sampling, new items, odd tables, weights, files, going on."""

from __future__ import annotations

import numba
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import kronfill as kf
from kronfill.completion.judging.evaluation import hold_out
from kronfill.core import memory
from kronfill.errors import ConvergenceWarning, MemoryLimitError, ParameterError
from tests.oracles.gibbs import sampled_tables

N, L = 20, 15
RNG = np.random.default_rng(0)
ROWS, COLS = np.linspace(0, 1, N), np.linspace(0, 1, L)
COLD_ROW, COLD_COL = 4, 7
TRUTH = (
    1.0
    + (np.column_stack([np.sin(6 * ROWS), np.cos(4 * ROWS)]) + 0.3 * RNG.standard_normal((N, 2)))
    @ (np.column_stack([np.cos(5 * COLS), np.sin(7 * COLS)]) + 0.3 * RNG.standard_normal((L, 2))).T
)
SEEN = RNG.random((N, L)) < 0.6
SEEN[COLD_ROW] = SEEN[:, COLD_COL] = False
X = np.argwhere(SEEN)
Y = TRUTH[SEEN] + 0.2 * RNG.standard_normal(len(X))
PAIRS = np.argwhere(np.ones((N, L)))


def rbf(points):
    return kf.kernels.rbf(points, length_scale=0.3)


def make(**settings):
    return kf.BayesianKMC(rbf(ROWS), rbf(COLS), **{"rank": 5, **settings})


@pytest.fixture(scope="module")
def fitted():
    return make().fit(X, Y)


# Against Gibbs sampling.


@pytest.mark.parametrize("known", [True, False])
def test_gibbs_sampling_has_the_same_means_and_nearly_the_same_deviations(known):
    """The same model with the same scales and noise, with no approximation but the sampling."""
    kernels = (rbf(ROWS), rbf(COLS)) if known else (None, None)
    est = kf.BayesianKMC(*kernels, rank=5, solver=kf.Variational(sweeps=2000, tol=1e-7))
    est.fit(kf.Observations(*X.T, Y, (N, L)))
    table = np.full((N, L), np.nan)
    table[SEEN] = Y
    priors = []
    for kernel, basis, size in zip(kernels, est._bases(), (N, L), strict=True):
        k = kernel.to_array() if known else np.zeros((size, size))
        priors.append([v * k + s * np.eye(size) for v, s in basis.scales.T])
    tables = sampled_tables(table, 1 / est.mu_, est.mean_, *priors, est.H_, sweeps=2500)
    samples = np.array(list(tables))
    means, deviations = samples.mean(axis=0), samples.std(axis=0)
    gap = est.predict_matrix() - means
    size = TRUTH.std()
    asked = np.ones((N, L), bool) if known else np.outer(SEEN.any(axis=1), SEEN.any(axis=0))
    assert np.sqrt(np.mean(gap[asked] ** 2)) < 0.02 * size
    ratio = est.predict_std(PAIRS).reshape(N, L) / deviations
    assert 0.9 < np.median(ratio[SEEN]) < 1.1
    assert 0.75 < np.median(ratio[asked & ~SEEN]) < 1.2
    if known:
        assert 0.75 < np.median(ratio[COLD_ROW]) < 1.3
        assert 0.75 < np.median(ratio[:, COLD_COL]) < 1.3


# What is learned.


def test_the_number_of_factors_and_the_noise_are_found(fitted):
    assert fitted.rank_ == 1  # the second is below the noise
    assert 0.1 < np.sqrt(fitted.noise_variance_) < 0.3
    assert fitted.mu_ == fitted.noise_variance_
    error = (fitted.predict_matrix() - TRUTH)[SEEN.any(axis=1)]
    assert np.sqrt(np.mean(error**2)) < 0.3 * TRUTH.std()


def test_pure_noise_leaves_no_factor():
    est = make(center="mean").fit(X, np.random.default_rng(1).standard_normal(len(X)))
    assert est.rank_ == 0
    assert est.W_.shape == (N, 0)
    assert_allclose(est.predict(X), est.mean_)
    assert_allclose(est.predict_std(X), 0.0, atol=1e-12)


def test_the_identity_and_no_kernel_are_bayesian_matrix_completion():
    obs = kf.Observations(*X.T, Y, (N, L))
    one = kf.BayesianKMC(rank=4).fit(obs)
    two = kf.BayesianKMC(3.0 * kf.kernels.identity(N), kf.kernels.identity(L), rank=4).fit(obs)
    assert_array_equal(two.predict_matrix(), one.predict_matrix())
    assert_array_equal(two.predict_std(X), one.predict_std(X))
    written = kf.BayesianKMC(np.eye(N), np.eye(L), rank=4).fit(obs)
    assert_allclose(written.predict_matrix(), one.predict_matrix(), atol=1e-2)


def test_the_identity_part_of_a_kernel_is_learned_anew():
    with_identity = rbf(ROWS) + 0.5 * kf.kernels.identity(N)
    one = make().fit(X, Y)
    two = kf.BayesianKMC(with_identity, rbf(COLS), rank=5).fit(X, Y)
    assert_array_equal(two.predict_matrix(), one.predict_matrix())
    assert_allclose(two.extrapolate_std(rows=[[0.4]]), one.extrapolate_std(rows=[[0.4]]))


def test_the_history_is_that_of_the_bound(fitted):
    history = fitted.solution_.history
    assert fitted.bound_ == history[-1]
    assert fitted.n_iter_ == len(history)
    assert np.diff(history).min() >= 0
    with pytest.warns(ConvergenceWarning):
        make(solver=kf.Variational(sweeps=2)).fit(X, Y)


# Known, cold and new items.


def test_a_cold_row_is_what_a_new_row_with_its_features_is(fitted):
    row, col = [[ROWS[COLD_ROW]]], [[COLS[COLD_COL]]]
    full = fitted.predict_matrix()
    std = fitted.predict_std(PAIRS).reshape(N, L)
    assert_allclose(fitted.extrapolate(rows=row)[0], full[COLD_ROW], atol=1e-8)
    assert_allclose(fitted.extrapolate(cols=col)[:, 0], full[:, COLD_COL], atol=1e-8)
    assert_allclose(fitted.extrapolate_std(rows=row)[0], std[COLD_ROW], rtol=1e-5)
    assert_allclose(fitted.extrapolate_std(cols=col)[:, 0], std[:, COLD_COL], rtol=1e-5)
    assert_allclose(fitted.extrapolate_std(row, col)[0, 0], std[COLD_ROW, COLD_COL], rtol=1e-5)
    assert_allclose(fitted.extrapolate_std(), std, rtol=1e-9)
    assert_allclose(fitted.row_factors(row)[0], fitted.W_[COLD_ROW], atol=1e-8)
    assert_allclose(fitted.col_factors(col)[0], fitted.H_[COLD_COL], atol=1e-8)
    assert_array_equal(fitted.row_factors(), fitted.W_)
    assert_array_equal(fitted.col_factors(), fitted.H_)


def test_factors_and_effects_make_up_the_prediction(fitted):
    effects = fitted.mean_ + fitted.row_effects_[:, None] + fitted.col_effects_
    assert_allclose(fitted.predict_matrix(), effects + fitted.W_ @ fitted.H_.T)


def test_a_new_row_unlike_all_others_is_the_mean_and_the_most_uncertain(fitted):
    far = fitted.extrapolate(rows=[[99.0]])[0]
    assert_allclose(far, fitted.mean_ + fitted.col_effects_, atol=1e-8)
    std = fitted.extrapolate_std(rows=[[99.0], [0.5]])
    assert (std[0] > std[1]).all()


def test_new_rows_of_a_table_without_kernels():
    est = kf.BayesianKMC(rank=3).fit(X, Y)
    assert_allclose(est.extrapolate(rows=2), np.tile(est.mean_ + est.col_effects_, (2, 1)))
    known = est.predict_std(PAIRS[: len(est.W_) * len(est.H_)]).reshape(len(est.W_), -1)
    warm = SEEN.any(axis=1)[: len(known)]
    assert (est.extrapolate_std(rows=1)[0] >= known[warm].mean(axis=0)).all()


def test_new_items_of_a_given_kernel_are_described_by_similarities():
    kernel, features = rbf(ROWS), rbf(ROWS).cross([[0.33]])
    given = kf.BayesianKMC(kernel.to_array(), rbf(COLS), rank=5).fit(X, Y)
    assert_allclose(
        given.extrapolate(rows=features), make().fit(X, Y).extrapolate([[0.33]]), atol=1e-5
    )
    std = given.extrapolate_std(rows=(features, np.ones(1)))
    assert_allclose(std, make().fit(X, Y).extrapolate_std([[0.33]]), rtol=1e-3)


@pytest.mark.parametrize("center", [None, "mean", "rows", "cols", "both"])
def test_every_center(center):
    est = make(center=center).fit(X, Y)
    assert (est.mean_ == 0.0) == (center is None)
    assert np.any(est.row_effects_) == (center in ("rows", "both"))
    assert np.any(est.col_effects_) == (center in ("cols", "both"))
    full = est.predict_matrix()
    assert_allclose(est.predict(PAIRS), full.ravel(), atol=1e-12)
    assert_allclose(est.extrapolate_std().ravel(), est.predict_std(PAIRS), rtol=1e-9)
    assert_allclose(est.extrapolate(rows=[[ROWS[COLD_ROW]]])[0], full[COLD_ROW], atol=1e-8)


def test_a_kernel_of_many_items_is_cut(monkeypatch):
    from kronfill.estimators import bayesian_kmc

    monkeypatch.setattr(bayesian_kmc, "WHOLE", N - 1)
    monkeypatch.setattr(bayesian_kmc, "COLUMNS", 6)
    est = make().fit(X, Y)
    assert est._bases()[0].coef.shape[0] == 6
    assert_allclose(est.predict(X), make().fit(X, Y).predict(X), atol=0.2)


# Odd tables.


def rank_one(n):
    return np.outer(np.arange(n) - 1.0, np.arange(n) - 1.0)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1), (2, 9)])
@pytest.mark.parametrize("kernel", [None, rank_one, np.eye])
@pytest.mark.parametrize("center", [None, "both"])
def test_odd_shapes(shape, kernel, center):
    kernels = (None, None) if kernel is None else (kernel(shape[0]), kernel(shape[1]))
    pairs = np.argwhere(np.ones(shape))
    values = np.random.default_rng(0).standard_normal(len(pairs)) + 3.0
    est = kf.BayesianKMC(*kernels, center=center, solver=kf.Variational(sweeps=2000))
    est.fit(pairs, values)
    assert np.isfinite(est.predict(pairs)).all()
    assert np.isfinite(est.predict_std(pairs)).all()
    assert np.isfinite(est.extrapolate_std()).all()


@pytest.mark.parametrize("value", [0.0, 5.0, -1e-3, 1e8])
def test_equal_values_are_predicted_everywhere(value):
    est = make().fit(X, np.full(len(X), value))
    assert_allclose(est.predict_matrix(), value, atol=1e-6 * abs(value))
    assert np.isfinite(est.predict_std(PAIRS)).all()
    assert est.rank_ == 0


def test_one_observation():
    est = make().fit([[3, 2]], [4.0])
    assert_allclose(est.predict_matrix(), 4.0)


def test_values_without_noise():
    truth = np.sin(X[:, 0] / 5) * np.cos(X[:, 1] / 5)
    est = make(solver=kf.Variational(sweeps=2000)).fit(X, truth)
    assert_allclose(est.predict(X), truth, atol=2e-2 * truth.std())
    assert est.noise_variance_ >= 0.9e-8 * truth.var()
    assert np.diff(est.solution_.history).min() >= 0


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
def test_other_units_are_other_units(scale):
    one, two = make().fit(X, Y), make().fit(X, scale * Y)
    assert two.rank_ == one.rank_
    assert_allclose(two.predict_matrix(), scale * one.predict_matrix(), rtol=1e-6)
    assert_allclose(two.predict_std(X), scale * one.predict_std(X), rtol=1e-6)


# Weights, seeds, threads.


def test_weights_are_precisions():
    """As many times the weight everywhere is that times the noise, and 0 is absence."""
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    one, two = make().fit(X, Y, weights), make().fit(X, Y, 8.0 * weights)
    assert_allclose(two.predict_matrix(), one.predict_matrix(), atol=1e-8)
    assert two.noise_variance_ == pytest.approx(8.0 * one.noise_variance_)
    weights[::3] = 0.0
    dropped = make().fit(X, Y, weights)
    absent = make().fit(X[weights > 0], Y[weights > 0], weights[weights > 0])
    assert_array_equal(dropped.predict_matrix(), absent.predict_matrix())
    heavy = np.where(np.arange(len(X)) == 3, 1e6, 1.0)
    assert abs(make().fit(X, Y, heavy).predict(X)[3] - Y[3]) < 1e-2


def test_the_same_bits_whatever_the_number_of_threads(monkeypatch):
    from kronfill.estimators import bayesian_kmc

    monkeypatch.setattr(bayesian_kmc, "SMALL", 0)
    before, found = numba.get_num_threads(), []
    try:
        for threads in {1, numba.config.NUMBA_NUM_THREADS}:
            numba.set_num_threads(threads)
            est = make().fit(X, Y)
            found.append((est.predict_matrix(), est.predict_std(X)))
    finally:
        numba.set_num_threads(before)
    assert_array_equal(found[0][0], found[-1][0])
    assert_array_equal(found[0][1], found[-1][1])


def test_clones_and_seeds(fitted):
    assert_array_equal(clone(fitted).fit(X, Y).predict_matrix(), fitted.predict_matrix())


def test_labels():
    frame = pd.DataFrame(np.where(SEEN, TRUTH, np.nan), index=[f"r{i}" for i in range(N)])
    est = make().fit(kf.Observations.from_matrix(frame))
    assert est.observations_.row_labels[3] == "r3"
    assert est.shape_ == (N, L)


# Going on.


def test_a_warm_start_goes_on_from_the_fit_before():
    part = np.random.default_rng(0).random(len(X)) < 0.9
    kernels = rbf(ROWS), rbf(COLS)
    tight = kf.Variational(sweeps=3000, tol=1e-6)
    warm = kf.BayesianKMC(*kernels, rank=5, warm_start=True, solver=tight)
    first = warm.fit(X[part], Y[part]).n_iter_
    second = warm.fit(X, Y)
    cold = kf.BayesianKMC(*kernels, rank=5, solver=tight).fit(X, Y)
    assert second.n_iter_ < cold.n_iter_ <= 3000
    assert first > 1
    assert second.bound_ == pytest.approx(cold.bound_, rel=1e-3)
    assert_allclose(second.predict(X), cold.predict(X), atol=0.02)
    again = warm.fit(X, Y)
    assert again.n_iter_ <= 2
    assert_array_equal(
        warm.set_params(center="mean").fit(X, Y).predict(X),
        kf.BayesianKMC(*kernels, rank=5, center="mean", solver=tight).fit(X, Y).predict(X),
    )


def test_a_warm_start_after_loading(tmp_path):
    est = make(warm_start=True).fit(X, Y)
    est.save(tmp_path / "model.kf")
    back = kf.load(tmp_path / "model.kf")
    assert_array_equal(back.fit(X, Y).predict(X), est.fit(X, Y).predict(X))


def test_a_file_brings_all_back_to_the_last_bit(fitted, tmp_path):
    fitted.save(tmp_path / "model.kf")
    back = kf.load(tmp_path / "model.kf")
    new = [[0.31]], [[0.77], [2.0]]
    assert_array_equal(back.predict_matrix(), fitted.predict_matrix())
    assert_array_equal(back.predict_std(PAIRS), fitted.predict_std(PAIRS))
    assert_array_equal(back.extrapolate(*new), fitted.extrapolate(*new))
    assert_array_equal(back.extrapolate_std(*new), fitted.extrapolate_std(*new))
    assert_array_equal(back.row_factors(new[0]), fitted.row_factors(new[0]))
    assert back.solution_ == fitted.solution_
    assert repr(back) == repr(fitted)


def test_through_complete(tmp_path):
    frame = pd.DataFrame(np.where(SEEN, TRUTH, np.nan), index=[f"r{i}" for i in range(N)])
    sides = pd.DataFrame({"at": ROWS}, index=frame.index)
    done = kf.complete(frame, rows=sides, method="bayesiankmc")
    assert isinstance(done.model, kf.BayesianKMC)
    assert done.details([("r4", 2)])["lower"].notna().all()
    new = pd.DataFrame({"at": [0.5]}, index=["new"])
    assert done.extrapolate_std(rows=new).shape == (1, L)
    assert hold_out(done.model, done.observations).parts
    done.report(tmp_path / "page.html")
    done.save(tmp_path / "done.kf")
    assert_array_equal(kf.load(tmp_path / "done.kf").predicted, done.predicted)
    with pytest.raises(ParameterError, match="which learns the noise"):
        kf.complete(frame, method="bayesiankmc", mu=1.0)


# Refusals.


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rank": 0}, "rank must be a positive integer"),
        ({"center": "all"}, "center must be one of"),
        ({"solver": kf.ALS()}, r"kf.Variational\(...\)"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_parameters_are_checked(settings, words):
    with pytest.raises(ParameterError, match=words):
        make(**settings).fit(X, Y)


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    with pytest.raises(MemoryLimitError, match="5 factors of 20 rows and 15 columns needs"):
        make().fit(X, Y)


@pytest.mark.parametrize("name", ["partial_fit", "explain", "suggest"])
def test_what_it_does_not_do_it_says(name, fitted):
    assert not hasattr(fitted, name)
    with pytest.raises(AttributeError, match=f"BayesianKMC has no {name}: .* kf.KKMCEX"):
        getattr(fitted, name)

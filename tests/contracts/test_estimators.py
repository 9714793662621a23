"""Laws that every estimator obeys, whatever its method."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import kronfill as kf
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    EmptyDataError,
    IndexRangeError,
    KronfillError,
    NonFiniteError,
    NotPSDError,
    ParameterError,
    ShapeError,
)

N, L = 11, 8
RNG = np.random.default_rng(7)
ROW, COL = RNG.standard_normal((N, 3)), RNG.standard_normal((L, 2))
COLD_ROW, COLD_COL = 4, 6
TABLE = RNG.random((N, L)) < 0.6
TABLE[COLD_ROW] = TABLE[:, COLD_COL] = False
X = RNG.permutation(np.argwhere(TABLE))
Y = np.sin(ROW[X[:, 0], 0]) + ROW[X[:, 0], 1] * COL[X[:, 1], 0] + 0.1 * RNG.standard_normal(len(X))
FIT = kf.ALS(sweeps=3000, tol=1e-14)


def rbf(features):
    return kf.kernels.rbf(features, length_scale=2.0)


def make(row=ROW, col=COL):
    """Each method on these features; names match the parametrisation."""
    return {
        "kkmcex": kf.KKMCEX(rbf(row), rbf(col), mu=0.1),
        "rrmcex": kf.RRMCEX(rbf(row), rbf(col), row_rank=5, col_rank=0.999, mu=0.1),
        "kmc": kf.KMC(rbf(row), rbf(col), rank=2, mu=0.5, solver=FIT),
        "rowwise": kf.KMC(
            rbf(row), rbf(col), rank=2, mu=0.5, solver=kf.RowWise(sweeps=9000, tol=1e-12)
        ),
        "imc": kf.IMC(row, col, rank=2, mu=0.5, solver=FIT),
        "mc": kf.MC(shape=(len(row), len(col)), rank=2, mu=0.5, solver=FIT),
    }


METHODS = list(make())
WITH_SIDE = [name for name in METHODS if name != "mc"]


@pytest.fixture(params=METHODS)
def name(request):
    return request.param


def with_center(est, center):
    return est if isinstance(est.solver, kf.RowWise) else est.set_params(center=center)


@pytest.mark.parametrize("center", [None, "both"])
def test_three_ways_to_predict_agree(name, center):
    est = with_center(make()[name], center).fit(X, Y)
    full = est.predict_matrix()
    pairs = np.argwhere(np.ones((N, L)))
    assert full.shape == (N, L)
    assert_allclose(est.predict(pairs), full.ravel(), atol=1e-11)
    assert_allclose(est.predict_matrix([3, 1], [0, 5, 2]), full[np.ix_([3, 1], [0, 5, 2])])
    assert_allclose(est.extrapolate(), full, atol=1e-12)


@pytest.mark.parametrize("name", WITH_SIDE)
@pytest.mark.parametrize("center", [None, "mean"])
def test_extrapolating_to_a_known_item_is_predicting_it(name, center):
    est = with_center(make()[name], center).fit(X, Y)
    full = est.predict_matrix()
    rows, cols = [2, COLD_ROW], [0, COLD_COL, 3]
    assert_allclose(est.extrapolate(rows=ROW[rows]), full[rows], atol=1e-9)
    assert_allclose(est.extrapolate(cols=COL[cols]), full[:, cols], atol=1e-9)
    both = est.extrapolate(ROW[rows], COL[cols])
    assert_allclose(both, full[np.ix_(rows, cols)], atol=1e-9)


def test_extrapolating_from_similarities():
    """Given kernels and graphs describe new items by their similarities with the known ones."""
    kw, kh = rbf(ROW).to_array(), rbf(COL).to_array()
    est = kf.KKMCEX(kw, kh, mu=0.1).fit(X, Y)
    assert_allclose(est.extrapolate(rows=kw[[3]]), est.predict_matrix([3]), atol=1e-12)
    assert_allclose(est.extrapolate(kw[[3]], kh[[1, 2]]), est.predict_matrix([3], [1, 2]))


def test_order_of_observations_does_not_matter(name):
    """Not a bit of the prediction needs to agree, but all that converges must."""
    order = np.random.default_rng(0).permutation(len(X))
    one, two = make()[name].fit(X, Y), make()[name].fit(X[order], Y[order])
    assert_allclose(two.predict_matrix(), one.predict_matrix(), atol=2e-5)
    if name == "kkmcex":
        assert_allclose(two.dual_coef_, one.dual_coef_[order], atol=1e-10)


@pytest.mark.parametrize("name", [m for m in METHODS if m != "rowwise"])  # it sweeps in order
def test_permuted_rows_and_columns_permute_the_prediction(name):
    pr, pc = np.random.default_rng(1).permutation(N), np.random.default_rng(2).permutation(L)
    where = np.column_stack([np.argsort(pr)[X[:, 0]], np.argsort(pc)[X[:, 1]]])
    one = make()[name].fit(X, Y).predict_matrix()
    two = make(ROW[pr], COL[pc])[name].fit(where, Y).predict_matrix()
    assert_allclose(two, one[np.ix_(pr, pc)], atol=2e-5)


@pytest.mark.parametrize("center", [None, "rows"])
def test_weights_of_whole_numbers_are_repetitions(name, center):
    """Weight 2 is the same as mu / 2 when all have it; weight 0 is absence."""
    base = with_center(make()[name], center)
    double = clone(base).fit(X, Y, sample_weight=np.full(len(X), 2.0))
    half = clone(base).set_params(mu=base.mu / 2).fit(X, Y)
    assert_allclose(double.predict_matrix(), half.predict_matrix(), atol=1e-4)
    weights = np.ones(len(X))
    weights[::3] = 0.0
    dropped = clone(base).fit(X, Y, sample_weight=weights)
    absent = clone(base).fit(X[weights > 0], Y[weights > 0])
    assert_allclose(dropped.predict_matrix(), absent.predict_matrix(), atol=1e-9)


def test_observations_and_pairs_agree(name):
    obs = kf.Observations(X[:, 0], X[:, 1], Y, shape=(N, L))
    one, two = make()[name].fit(obs), make()[name].fit(X, Y)
    assert_allclose(one.predict_matrix(), two.predict_matrix(), atol=1e-12)
    assert one.score(obs) == pytest.approx(two.score(X, Y))
    assert_allclose(one.predict(obs), two.predict(X))


def test_shifted_values_shift_the_prediction_with_a_center(name):
    """The mean is free: adding a constant to the data adds it to the prediction."""
    if name == "rowwise":
        with pytest.raises(ParameterError, match="no effects"):
            make()[name].set_params(center="mean").fit(X, Y)
        return
    one = make()[name].set_params(center="mean").fit(X, Y).predict_matrix()
    two = make()[name].set_params(center="mean").fit(X, Y + 100).predict_matrix()
    assert_allclose(two, one + 100, atol=2e-3)


def test_cold_rows_get_what_is_known_about_them(name):
    est = make()[name].fit(X, Y)
    cold = est.predict_matrix([COLD_ROW])
    if name == "mc":
        assert not cold.any()
        centred = make()[name].set_params(center="both").fit(X, Y)
        expected = centred.mean_ + centred.col_effects_
        assert_allclose(centred.predict_matrix([COLD_ROW])[0], expected)
        assert centred.row_effects_[COLD_ROW] == 0
    else:
        assert np.abs(cold).max() > 0.01


def test_fitted_attributes(name):
    est = make()[name].fit(X, Y)
    assert est.shape_ == (N, L)
    assert est.mu_ == est.mu
    assert est.n_iter_ >= 1
    assert est.n_features_in_ == 2
    assert est.solution_.converged
    assert est.row_effects_.shape == (N,)
    assert not vars(clone(est)).keys() - set(est.get_params())


def test_same_seed_same_result(name):
    est = make()[name]
    if "random_state" in est.get_params():
        kind = kf.RowWise if name == "rowwise" else kf.ALS
        est.set_params(random_state=3, solver=kind(sweeps=2000, tol=1e-8, start="gaussian"))
    one, two = clone(est).fit(X, Y).predict_matrix(), clone(est).fit(X, Y).predict_matrix()
    assert np.array_equal(one, two)


BAD = {
    "NaN": (X, np.where(np.arange(len(X)) == 2, np.nan, Y), NonFiniteError, "nan"),
    "infinite": (X, np.where(np.arange(len(X)) == 2, np.inf, Y), NonFiniteError, "inf"),
    "row out of range": (np.array([[N, 0]]), [1.0], IndexRangeError, str(N)),
    "negative": (np.array([[-1, 0]]), [1.0], IndexRangeError, "-1"),
    "fraction": (np.array([[0.5, 0]]), [1.0], IndexRangeError, "0.5"),
    "duplicate": (np.array([[0, 0], [0, 0]]), [1.0, 2.0], DuplicateEntryError, "0"),
    "empty": (np.empty((0, 2), int), [], EmptyDataError, "0 sample"),
    "three columns": (np.zeros((2, 3), int), [1.0, 2.0], ShapeError, r"\(m, 2\)"),
    "lengths differ": (np.array([[0, 0], [0, 1]]), [1.0], ShapeError, "1"),
    "wrong shape": (kf.Observations([0], [0], [1.0], (2, 2)), None, ShapeError, "2 rows"),
    "values twice": (kf.Observations([0], [0], [1.0], (N, L)), [1.0], ParameterError, "left out"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused(name, case):
    x, y, error, text = BAD[case]
    est = make()[name]
    with pytest.raises(error, match=text) as caught:
        est.fit(x, y)
    assert isinstance(caught.value, KronfillError)
    assert not hasattr(est, "solution_")


@pytest.mark.parametrize("mu", [0, -1.0, np.nan, np.inf, "big", None, True])
def test_bad_mu_is_refused(name, mu):
    with pytest.raises(ParameterError, match="mu must be a positive finite number"):
        make()[name].set_params(mu=mu).fit(X, Y)


@pytest.mark.parametrize("name", ["kmc", "imc", "mc"])
@pytest.mark.parametrize("rank", [0, 1.5, None, True])
def test_bad_rank_is_refused(name, rank):
    with pytest.raises(ParameterError, match="rank must be a positive integer"):
        make()[name].set_params(rank=rank).fit(X, Y)


def test_bad_weights_are_refused(name):
    for weights in (-np.ones(len(X)), np.full(len(X), np.nan), np.zeros(len(X)), np.ones(2)):
        with pytest.raises(DataError):
            make()[name].fit(X, Y, sample_weight=weights)


def test_predicting_outside_the_table_names_extrapolate(name):
    est = make()[name].fit(X, Y)
    with pytest.raises(IndexRangeError, match=f"row index {N} at position 1.*extrapolate"):
        est.predict([[0, 0], [N, 0]])
    with pytest.raises(IndexRangeError, match="column index 99"):
        est.predict_matrix(cols=[99])


@pytest.mark.parametrize("name", ["kkmcex", "rrmcex", "kmc"])
def test_indefinite_kernel_is_refused_before_any_work(name):
    bad = np.eye(N)
    bad[0, 1] = bad[1, 0] = 2.0
    with pytest.raises(NotPSDError, match="nearest_psd"):
        make()[name].set_params(row_kernel=bad).fit(X, Y)


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1), (2, 9)], ids=lambda s: f"{s[0]}x{s[1]}")
@pytest.mark.parametrize("m", [1, 2, None])
def test_odd_shapes(name, shape, m):
    rng = np.random.default_rng(0)
    row, col = rng.standard_normal((shape[0], 3)), rng.standard_normal((shape[1], 2))
    pairs = np.argwhere(np.ones(shape))[:m]
    y = rng.standard_normal(len(pairs))
    est = make(row, col)[name]
    if name == "rowwise":  # it crawls where the kernel is nearly singular
        est.set_params(solver=kf.RowWise(sweeps=9000, tol=1e-5))
    est.fit(pairs, y)
    assert np.isfinite(est.predict_matrix()).all()
    assert est.predict_matrix().shape == shape
    loss = np.sum((y - est.predict(pairs)) ** 2)
    assert loss <= np.sum(y**2) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["kkmcex", "rrmcex", "kmc", "imc"])
def test_nothing_known_about_an_axis(name):
    """None is the identity; its size comes from the observations."""
    obs = kf.Observations(X[:, 0], X[:, 1], Y, shape=(N, L))
    key = "col_features" if name == "imc" else "col_kernel"
    value = np.eye(L) if name == "imc" else kf.kernels.identity(L)
    full = {"row_rank": 1.0, "col_rank": 1.0} if name == "rrmcex" else {}
    one = make()[name].set_params(**{key: None}, **full).fit(obs)
    two = make()[name].set_params(**{key: value}, **full).fit(obs)
    assert_allclose(one.predict_matrix(), two.predict_matrix(), atol=1e-5)


@pytest.mark.parametrize("name", [m for m in METHODS if m != "rowwise"])
def test_mu_auto_is_close_to_the_best_of_a_grid(name):
    """On data with noise the choice is within 15% of the best held-out error on a grid."""
    rng = np.random.default_rng(5)
    row, col = rng.uniform(-1, 1, (40, 2)), rng.uniform(-1, 1, (30, 2))
    truth = np.sin(2 * row[:, :1]) @ np.cos(2 * col[:, :1]).T + row[:, 1:] @ col[:, 1:].T
    seen = rng.random(truth.shape) < 0.4
    pairs = np.argwhere(seen)
    y = truth[seen] + 0.2 * rng.standard_normal(len(pairs))

    def error(mu):
        est = make(row, col)[name].set_params(mu=mu)
        if "solver" in est.get_params() and not isinstance(est.solver, str):
            est.set_params(solver=kf.ALS(sweeps=1000, tol=1e-5))
        return np.sqrt(np.mean((est.fit(pairs, y).predict_matrix() - truth)[~seen] ** 2))

    best = min(error(mu) for mu in np.logspace(-3, 2, 11))
    assert error("auto") <= 1.15 * best

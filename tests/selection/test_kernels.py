"""Learned weights and parameters of kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import kronfill as kf
from kronfill._progress import told_to
from kronfill.errors import KernelError, ParameterError
from kronfill.selection import EntryKFold, KernelTuner, Mixture, Parameters, RowKFold, mu_path


def data(n=30, l=20, share=0.5, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    row, col = rng.random(n), rng.random(l)
    X = np.argwhere(rng.random((n, l)) < share)
    y = np.sin(6 * row[X[:, 0]]) * np.cos(5 * col[X[:, 1]]) + noise * rng.standard_normal(len(X))
    return row, col, X, y


def rows_and_noise(row):
    rng = np.random.default_rng(5)
    return [
        kf.kernels.rbf(row, 0.3),
        kf.kernels.rbf(rng.random(len(row)), 0.1),
        kf.kernels.identity(len(row)),
    ]


@pytest.mark.parametrize("criterion", ["lml", "loo"])
def test_learned_weights_beat_uniform_ones_when_a_kernel_is_noise(criterion):
    row, col, X, y = data()
    kernels, known = rows_and_noise(row), kf.kernels.rbf(col, 0.3)
    uniform = kf.KKMCEX(sum(kernels), known, mu="auto")
    learned = KernelTuner(kf.KKMCEX(None, known), rows=kernels, criterion=criterion)
    cv = RowKFold(4)
    score = [
        cross_val_score(e, X, y, cv=cv, scoring="neg_root_mean_squared_error").mean()
        for e in (uniform, learned)
    ]
    assert score[1] > 0.6 * score[0]  # an error less than 0.6 times that of equal weights
    weights = learned.fit(X, y).row_parameters_
    assert weights[0] > 0.9
    assert (weights >= 0).all()


@pytest.mark.parametrize("criterion", ["lml", "loo"])
def test_the_reported_value_is_that_of_the_fitted_estimator(criterion):
    row, col, X, y = data()
    est = KernelTuner(
        kf.KKMCEX(center="mean"), rows=rows_and_noise(row), cols=[kf.kernels.rbf(col, 0.3)],
        criterion=criterion,
    ).fit(X, y)  # fmt: skip
    final = est.estimator_
    assert final.get_params()["mu"] == est.mu_
    assert final.row_kernel is est.row_kernel_
    path = mu_path(final, X, y, mus=[est.mu_])
    got = path.criteria[criterion][0]
    got = got if criterion == "lml" else np.sqrt(got)
    # Weights below a ten-thousandth of the diagonal are dropped after the search.
    assert est.criterion_ == pytest.approx(got, rel=2e-3)
    assert_allclose(est.predict(X), final.predict(X))
    # Neither a hundred times smaller nor larger a mu is better.
    others = mu_path(final, X, y, mus=est.mu_ * np.array([0.01, 1.0, 100.0]))
    assert others.best[criterion] == pytest.approx(est.mu_)


@pytest.mark.parametrize("criterion", ["lml", "loo"])
def test_a_length_scale_is_found_again(criterion):
    rng = np.random.default_rng(0)
    points = rng.random((60, 1))
    truth = kf.kernels.rbf(points, 0.15).to_array() + 1e-9 * np.eye(60)
    f = np.linalg.cholesky(truth) @ rng.standard_normal((60, 8))
    X = np.argwhere(np.ones((60, 8)))
    y = f.ravel() + 0.05 * rng.standard_normal(480)
    family = Parameters(lambda scale: kf.kernels.rbf(points, scale), scale=1.0)
    est = KernelTuner(kf.KKMCEX(), rows=family, criterion=criterion).fit(X, y)
    assert est.row_parameters_["scale"] == pytest.approx(0.15, rel=0.15)
    assert est.col_parameters_ is None
    if criterion == "lml":  # an estimate of the noise; leave-one-out hardly depends on mu here
        assert est.mu_ == pytest.approx(0.05**2, rel=0.3)


def test_a_length_scale_for_each_feature():
    rng = np.random.default_rng(0)
    points = rng.random((50, 2))
    X = np.argwhere(np.ones((50, 5)))
    y = np.sin(6 * points[X[:, 0], 0]) * (1 + X[:, 1]) + 0.1 * rng.standard_normal(250)
    family = Parameters(lambda s: kf.kernels.rbf(points, s), s=[0.5, 0.5])
    est = KernelTuner(kf.KKMCEX(center="cols"), rows=family).fit(X, y)
    first, second = est.row_parameters_["s"]
    assert second > 10 * first  # the second feature says nothing


def test_of_many_entries_a_part_is_learned_from():
    row, col, X, y = data(40, 30)
    est = KernelTuner(
        kf.KKMCEX(None, kf.kernels.rbf(col, 0.3)), rows=rows_and_noise(row), max_entries=150
    ).fit(X, y)
    assert len(X) > 150
    assert est.row_parameters_[0] > 0.9
    assert est.estimator_.observations_.m == len(X)
    again = clone(est).fit(X, y)
    assert_allclose(again.row_parameters_, est.row_parameters_, rtol=0, atol=0)


@pytest.mark.parametrize("method", [kf.KKMCEX, kf.RRMCEX, kf.KMC])
def test_any_method_with_kernels_is_fitted(method):
    row, _, X, y = data()
    est = KernelTuner(method(), rows=rows_and_noise(row)[:2])
    assert est.fit(X, y).estimator_.get_params()["row_kernel"] is est.row_kernel_
    assert type(est.estimator_) is method
    assert est.col_kernel_ is None


@pytest.mark.parametrize("criterion", ["lml", "loo"])
def test_identity_parts_do_not_take_the_place_of_mu(criterion):
    """They could, on both axes: mu would end where nothing changes with it any more."""
    row, col = np.linspace(0, 1, 20), np.linspace(0, 1, 15)
    truth, errors = np.outer(np.sin(5 * row), np.cos(4 * col)), []
    rows, cols = (
        [kf.kernels.rbf(x, 0.3), kf.kernels.constant(len(x)), kf.kernels.identity(len(x))]
        for x in (row, col)
    )
    for seed in range(4):
        rng = np.random.default_rng(seed)
        seen = rng.random(truth.shape) < 0.4
        y = (truth + 0.1 * rng.standard_normal(truth.shape))[seen]
        tuner = KernelTuner(kf.KKMCEX(center="mean"), rows, cols, criterion)
        gap = tuner.fit(np.argwhere(seen), y).predict(np.argwhere(~seen)) - truth[~seen]
        errors.append(np.sqrt(np.mean(gap**2)))
    assert np.mean(errors) < 0.06


def test_an_axis_with_a_single_item():
    row, _, X, y = data()
    one = np.column_stack([X[:, 0], np.zeros(len(X), int)])
    _, first = np.unique(one[:, 0], return_index=True)
    est = KernelTuner(
        kf.KKMCEX(center="mean"), rows=rows_and_noise(row), cols=[np.ones((1, 1)), 2 * np.eye(1)]
    ).fit(one[first], y[first])
    assert est.col_kernel_.to_array() == pytest.approx(1.0)
    assert np.isfinite(est.predict([[0, 0]])).all()


def test_mixtures_have_unit_diagonal_and_drop_what_is_negligible():
    family = Mixture([2.0 * np.eye(3), np.ones((3, 3)), np.eye(3)])
    assert_allclose(family.kernel(family.start).to_array(), (2 * np.eye(3) + np.ones((3, 3))) / 3)
    weights = family.told(np.array([0.0, 0.0, -20.0]))
    assert weights[2] == 0
    assert 2 * weights[0] + weights[1] == pytest.approx(1.0)


def test_cross_validation_is_nested():
    """Kernels are learned from the training part alone: the test entries can be anything."""
    row, col, X, y = data()
    est = KernelTuner(kf.KKMCEX(None, kf.kernels.rbf(col, 0.3)), rows=rows_and_noise(row))
    train, test = next(iter(EntryKFold(3).split(X)))
    spoilt = y.copy()
    spoilt[test] = 1e6
    first, second = (clone(est).fit(X[train], v[train]) for v in (y, spoilt))
    assert_allclose(first.row_parameters_, second.row_parameters_)


def test_bad_input_is_refused():
    row, _, X, y = data()
    with pytest.raises(ParameterError, match="KKMCEX, RRMCEX or KMC"):
        KernelTuner(kf.MC()).fit(X, y)
    with pytest.raises(ParameterError, match="list of kernels"):
        KernelTuner(kf.KKMCEX(), rows=np.eye(3)).fit(X, y)
    with pytest.raises(KernelError, match="same items"):
        Mixture([np.eye(2), np.eye(3)])
    with pytest.raises(ParameterError, match="positive"):
        Parameters(lambda s: kf.kernels.rbf(row, s), s=-1.0)
    with pytest.raises(ParameterError, match="starting value"):
        Parameters(lambda: kf.kernels.rbf(row))
    with pytest.raises(ParameterError, match="criterion"):
        KernelTuner(kf.KKMCEX(), rows=[kf.kernels.rbf(row)], criterion="gcv").fit(X, y)


def test_a_tuner_tells_how_far_it_is():
    rng = np.random.default_rng(0)
    kernels = [kf.kernels.rbf(rng.random((12, 1))) for _ in range(2)]
    X = np.argwhere(np.ones((12, 6)))
    said = []
    est = KernelTuner(
        kf.KKMCEX(mu="auto"), rows=kernels, progress=lambda *told: said.append(told), max_entries=50
    ).fit(X, rng.standard_normal(72))
    steps = [done for what, done, _ in said if what == "steps to learn kernels"]
    assert steps == list(range(1, est.n_iter_ + 1))
    silent = []
    with told_to(lambda *told: silent.append(told)):  # who asks from outside hears it as well
        KernelTuner(kf.KKMCEX(), rows=kernels).fit(X, rng.standard_normal(72))
    assert silent

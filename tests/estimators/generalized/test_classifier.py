"""Logistic regression over entries, against scikit-learn on the features of the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import kronfill as kf
from kronfill.errors import DataError, DuplicateEntryError, ParameterError

N, L = 12, 8
RNG = np.random.default_rng(2)
ROW, COL = RNG.standard_normal((N, 3)), RNG.standard_normal((L, 2))
MASK = RNG.random((N, L)) < 0.6
MASK[5] = MASK[:, 4] = False
X = RNG.permutation(np.argwhere(MASK))
FEATURES = np.einsum("ka,kb->kab", ROW[X[:, 0]], COL[X[:, 1]]).reshape(len(X), -1)
LATENT = FEATURES @ RNG.standard_normal(6)
Y = (LATENT + RNG.logistic(size=len(X)) > 0).astype(int)
THREE = np.array(["low", "mid", "top"])[
    np.digitize(LATENT + 0.5 * RNG.standard_normal(len(X)), [-1, 1])
]
WEIGHTS = RNG.uniform(0.2, 3.0, len(X))


def linear(**settings):
    return kf.KKMCEXClassifier(kf.kernels.linear(ROW), kf.kernels.linear(COL), **settings)


def smooth(row=ROW, col=COL, **settings):
    kernels = (kf.kernels.rbf(one, length_scale=2.0) for one in (row, col))
    return kf.KKMCEXClassifier(*kernels, **{"mu": 0.3, **settings})


def by_sklearn(mu, **settings):
    return LogisticRegression(C=1 / mu, tol=1e-12, max_iter=10_000, solver="newton-cg", **settings)


@pytest.mark.parametrize("mu", [5.0, 0.1, 1e-3])
@pytest.mark.parametrize("center", [None, "mean"])
@pytest.mark.parametrize("weight", [None, "balanced", {0: 2.0, 1: 0.5}])
def test_two_classes_as_scikit_learn(mu, center, weight):
    weights = None if weight == "balanced" else WEIGHTS  # not every scikit-learn balances weights
    est = linear(mu=mu, center=center, class_weight=weight).fit(X, Y, weights)
    other = by_sklearn(mu, fit_intercept=center is not None, class_weight=weight)
    other.fit(FEATURES, Y, weights)
    assert_allclose(est.decision_function(X), other.decision_function(FEATURES), atol=1e-6)
    assert_allclose(est.predict_proba(X), other.predict_proba(FEATURES), atol=1e-6)
    assert_array_equal(est.predict(X), other.predict(FEATURES))
    assert est.score(X, Y, WEIGHTS) == pytest.approx(other.score(FEATURES, Y, WEIGHTS))


def test_balanced_classes_weigh_the_same():
    each = np.bincount(Y, WEIGHTS)
    given = {k: WEIGHTS.sum() / (2 * each[k]) for k in (0, 1)}
    one = linear(class_weight="balanced").fit(X, Y, WEIGHTS)
    two = linear(class_weight=given).fit(X, Y, WEIGHTS)
    assert_allclose(one.predict_matrix(), two.predict_matrix(), atol=1e-9)


def test_several_classes_one_against_the_rest():
    est = linear(mu=0.5).fit(X, THREE)
    other = OneVsRestClassifier(by_sklearn(0.5, fit_intercept=False)).fit(FEATURES, THREE)
    assert_array_equal(est.classes_, ["low", "mid", "top"])
    assert_allclose(est.decision_function(X), other.decision_function(FEATURES), atol=1e-6)
    assert_allclose(est.predict_proba(X), other.predict_proba(FEATURES), atol=1e-6)
    assert_array_equal(est.predict(X), other.predict(FEATURES))
    block = est.predict_matrix()
    assert block.shape == (N, L, 3)
    assert_allclose(block[tuple(X.T)], est.predict_proba(X))
    assert len(est.solution_) == 3


@pytest.mark.parametrize("averaged", [False, True])
def test_a_gaussian_process_classifier(averaged):
    """Laplace's approximation with the same kernel; scikit-learn averages by a rougher formula."""
    points = np.linspace(0, 4, 25)[:, None]
    y = (np.sin(2 * points[:, 0]) + 0.4 * RNG.standard_normal(25) > 0).astype(int)
    seen = np.arange(0, 25, 2)
    other = GaussianProcessClassifier(1.0 * RBF(0.7), optimizer=None).fit(points[seen], y[seen])
    est = kf.KKMCEXClassifier(kf.kernels.rbf(points, length_scale=0.7), mu=1.0)
    est.fit(np.column_stack([seen, 0 * seen]), y[seen])
    where = np.column_stack([np.arange(25), np.zeros(25, int)])
    if averaged:
        ours = est.predict_proba(where, averaged=True)
        assert_allclose(ours, other.predict_proba(points), atol=2e-3)
    else:
        f, variance = latent_of(other, points)
        assert_allclose(est.decision_function(where), f, atol=1e-5)
        assert_allclose(est.predict_std(where) ** 2, variance, atol=1e-5)


def latent_of(model, points):
    """Mean and variance of Laplace's posterior: Rasmussen and Williams, algorithm 3.2."""
    base = model.base_estimator_
    k = base.kernel_(base.X_train_, points)
    v = np.linalg.solve(base.L_, base.W_sr_[:, None] * k)
    mean = k.T @ (base.y_train_ - base.pi_)
    return mean, base.kernel_.diag(points) - (v**2).sum(axis=0)


def test_probabilities_are_the_link_of_the_decision():
    est = smooth().fit(X, Y)
    assert_allclose(est.predict_proba(X)[:, 1], expit(est.decision_function(X)))
    pairs = np.argwhere(np.ones((N, L)))
    assert_allclose(est.predict_matrix().ravel(), est.predict_proba(pairs)[:, 1])
    assert_allclose(est.extrapolate(ROW[[5, 2]], COL[[4]]), est.predict_matrix([5, 2], [4]))
    averaged = est.extrapolate(ROW[[5, 2]], COL[[4]], averaged=True)
    asked = [[5, 4], [2, 4]]
    assert_allclose(averaged.ravel(), est.predict_proba(asked, averaged=True)[:, 1], atol=1e-8)
    assert_allclose(
        est.extrapolate_std(ROW[[5, 2]], COL[[4]]).ravel(), est.predict_std(asked), atol=1e-8
    )
    sure, modest = est.predict_proba(pairs)[:, 1], est.predict_proba(pairs, averaged=True)[:, 1]
    assert (np.abs(modest - 0.5) <= np.abs(sure - 0.5) + 1e-9).all()


def test_given_kernels_average_at_new_rows():
    kr, kc = kf.kernels.rbf(ROW, length_scale=2.0).to_array(), np.eye(L)
    est = kf.KKMCEXClassifier(kr, kc, mu=0.3).fit(X, Y)
    new = (kr[[5]], np.ones(1))
    asked = np.column_stack([np.full(L, 5), np.arange(L)])
    expected = est.predict_proba(asked, averaged=True)[:, 1]
    assert_allclose(est.extrapolate(rows=new, averaged=True)[0], expected, atol=1e-9)


def test_observations_bring_their_labels():
    obs = kf.Observations(*X.T, Y.astype(float), (N, L), weights=WEIGHTS)
    one, two = smooth().fit(obs), smooth().fit(X, Y, WEIGHTS)
    assert_allclose(one.predict_matrix(), two.predict_matrix())
    assert one.score(obs) == pytest.approx(two.score(X, Y, WEIGHTS))
    assert_array_equal(one.classes_, [0.0, 1.0])


@settings(max_examples=15, deadline=None)
@given(st.permutations(list(range(len(X)))), st.integers(0, 3))
def test_order_and_names_of_classes_change_nothing(order, kind):
    names = [np.array([0, 1]), np.array(["no", "yes"]), np.array([False, True]), np.array([7, 90])]
    order = np.array(order)
    est = smooth().fit(X[order], names[kind][Y[order]], WEIGHTS[order])
    expected = smooth().fit(X, Y, WEIGHTS)
    assert_allclose(est.predict_matrix(), expected.predict_matrix(), atol=1e-7)
    assert_array_equal(est.classes_, names[kind])
    swapped = smooth().fit(X, 1 - Y, WEIGHTS)
    assert_allclose(swapped.predict_matrix(), 1 - expected.predict_matrix(), atol=1e-7)


@settings(max_examples=10, deadline=None)
@given(st.randoms(use_true_random=False))
def test_permuted_rows_permute_the_probabilities(random):
    order = np.array(random.sample(range(N), N))
    moved = X.copy()
    moved[:, 0] = np.argsort(order)[X[:, 0]]
    one = smooth(center="mean").fit(X, Y).predict_matrix()
    two = smooth(ROW[order], center="mean").fit(moved, Y).predict_matrix()
    assert_allclose(two, one[order], atol=1e-7)


def test_weights_are_repetitions():
    """Rows that are there several times are one row with their number as weight."""
    times = RNG.integers(0, 4, len(X))
    once = smooth(mu=0.5).fit(X, Y, sample_weight=times)
    rows = np.repeat(np.arange(len(X)), times)
    copies = kf.KKMCEXClassifier(
        kf.kernels.rbf(ROW[X[rows, 0]], length_scale=2.0) * entry_kernel(rows), mu=0.5
    ).fit(np.column_stack([np.arange(len(rows)), np.zeros(len(rows), int)]), Y[rows])
    seen = np.flatnonzero(np.isin(np.arange(len(X)), rows))
    first = np.searchsorted(rows, seen)
    expected = copies.decision_function(np.column_stack([first, 0 * first]))
    assert_allclose(once.decision_function(X[seen]), expected, atol=1e-6)


def entry_kernel(rows):
    return kf.kernels.rbf(COL[X[rows, 1]], length_scale=2.0)


@pytest.mark.parametrize("labels", [Y, THREE])
@pytest.mark.parametrize("center", [None, "mean"])
def test_partial_fit_is_a_fit_to_all(labels, center):
    first = 30
    est = smooth(center=center).partial_fit(X[:first], labels[:first], classes=np.unique(labels))
    est.partial_fit(X[first:], labels[first:])
    expected = smooth(center=center).fit(X, labels)
    assert_allclose(est.predict_matrix(), expected.predict_matrix(), atol=1e-7)
    with pytest.raises(DuplicateEntryError):
        est.partial_fit(X[:1], labels[:1])
    with pytest.raises(DataError, match="none of the classes"):
        est.partial_fit([[5, 4]], ["new"] if labels is THREE else [7])
    with pytest.raises(ParameterError, match="changed"):
        est.set_params(mu=2.0).partial_fit([[5, 4]], labels[:1])


def test_a_warm_start_takes_fewer_steps():
    est = smooth().fit(X[:-1], Y[:-1])
    cold = smooth().fit(X, Y).n_iter_
    assert est.partial_fit(X[-1:], Y[-1:]).n_iter_ < cold


def test_errors():
    with pytest.raises(DataError, match="at least 2 classes"):
        smooth().fit(X, np.ones(len(X)))
    with pytest.raises(DataError, match="Unknown label type"):
        smooth().fit(X, RNG.standard_normal(len(X)))
    with pytest.raises(ParameterError, match="class_weight"):
        smooth(class_weight={0: -1.0}).fit(X, Y)
    with pytest.raises(ParameterError, match="center"):
        smooth(center="middle").fit(X, Y)
    with pytest.raises(ParameterError, match="does not apply"):
        kf.bounds.certificate(kf.KKMCEXPoisson(np.eye(N), np.eye(L)).fit(X, Y), value_range=(0, 1))
    rows_of_one = Y.copy()
    rows_of_one[X[:, 0] == X[0, 0]] = 1
    with pytest.raises(DataError, match="would be infinite"):
        smooth(center="rows").fit(X, rows_of_one)


def test_uncertain_where_an_effect_is_not_known():
    labels = Y.copy()
    for row in np.unique(X[:, 0]):  # each row has both labels
        at = np.flatnonzero(X[:, 0] == row)
        labels[at[:2]] = [0, 1]
    est = smooth(center="rows").fit(X, labels)
    assert np.isinf(est.predict_std([[5, 0]]))[0]
    assert_allclose(est.predict_proba([[5, 0]], averaged=True), 0.5)


@pytest.mark.parametrize("labels", [Y, THREE, Y.astype(bool), np.array(["a", "b"])[Y]])
def test_saved_and_read_back(labels, tmp_path):
    est = smooth(center="mean", class_weight="balanced").fit(X, labels)
    est.save(tmp_path / "model.kf")
    same = kf.load(tmp_path / "model.kf")
    assert_array_equal(same.classes_, est.classes_)
    assert_array_equal(same.predict_matrix(), est.predict_matrix())
    assert_array_equal(same.predict_std(X), est.predict_std(X))
    assert_array_equal(same.predict(X), est.predict(X))
    one, two = (e.partial_fit([[5, 4]], labels[:1]) for e in (est, same))
    assert_array_equal(one.predict_matrix(), two.predict_matrix())

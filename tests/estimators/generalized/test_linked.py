"""Any method with a link behind it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.errors import DataError, ParameterError
from kronfill.estimators.base import fitted_form

RNG = np.random.default_rng(0)
N, L = 30, 20
TRUE = 2 * np.outer(RNG.standard_normal(N), RNG.standard_normal(L))
X = RNG.permutation(np.argwhere(RNG.random((N, L)) < 0.7))
ETA = TRUE[tuple(X.T)]
Y = {
    "bernoulli": (RNG.random(len(X)) < 1 / (1 + np.exp(-ETA))).astype(float),
    "poisson": RNG.poisson(np.exp(0.3 * ETA)).astype(float),
    "ordinal": np.clip(np.round(3 + ETA / 2 + 0.4 * RNG.standard_normal(len(X))), 1, 5),
}
MC = kf.MC((N, L), rank=1, mu=2.0, center="mean")


@pytest.mark.parametrize("likelihood", Y)
def test_predictions_are_expected_values_everywhere(likelihood):
    y = Y[likelihood]
    est = kf.LinkedRegressor(MC, likelihood).fit(X, y)
    whole = est.predict_matrix()
    np.testing.assert_allclose(est.predict(X), whole[tuple(X.T)])
    np.testing.assert_allclose(est.predict_matrix([3], [4, 5]), whole[[3]][:, [4, 5]])
    assert whole.min() >= y.min()
    if likelihood == "poisson":
        with pytest.raises(ParameterError, match="no list of levels"):
            est.predict_proba(X)
    else:
        share = est.predict_proba(X)
        np.testing.assert_allclose(share @ est.levels_, est.predict(X))
        new = est.extrapolate_proba(rows=2)
        assert new.shape == (2, L, len(est.levels_))
        np.testing.assert_allclose(new @ est.levels_, est.extrapolate(rows=2))
    assert est.predict_std(X).shape == (len(X),)
    assert est.extrapolate_std(rows=2).shape == (2, L)


@pytest.mark.parametrize("likelihood", Y)
def test_low_rank_is_better_than_the_same_for_all(likelihood):
    y, cut = Y[likelihood], len(X) * 3 // 4
    est = kf.LinkedRegressor(MC, likelihood).fit(X[:cut], y[:cut])
    same = kf.LinkedRegressor(kf.KKMCEX(np.zeros((N, N)), center="mean"), likelihood)
    same.fit(X[:cut], y[:cut])
    assert est.losses(X[cut:], y[cut:]).mean() < same.losses(X[cut:], y[cut:]).mean() - 0.02
    assert est.deviance_["known"] < same.deviance_["known"]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("likelihood", Y)
def test_of_new_rows_and_columns_no_less_is_known_than_the_shares(likelihood, axis):
    """Nothing tells them apart: what is said of all values together is the best that there is."""
    y, sizes = Y[likelihood], [N, L]
    sizes[axis] = 4 * sizes[axis] // 5
    known = X[:, axis] < sizes[axis]
    est = kf.LinkedRegressor(kf.MC(tuple(sizes), rank=1, mu=2.0, center="mean"), likelihood)
    est.fit(X[known], y[known])
    count = (N, L)[axis] - sizes[axis]
    asked, at = {"rows" if axis == 0 else "cols": count}, X[~known]
    at[:, axis] -= sizes[axis]
    if likelihood == "poisson":
        mean, rate = est.extrapolate(**asked)[tuple(at.T)], y[known].mean()
        said, constant = (one - y[~known] * np.log(one) for one in (mean, rate))
    else:
        code = np.searchsorted(est.levels_, y[~known])
        said = -np.log(est.extrapolate_proba(**asked)[(*at.T, code)])
        shares = np.bincount(np.searchsorted(est.levels_, y[known])) / known.sum()
        constant = -np.log(shares[code])
    assert said.mean() <= constant.mean() + 0.03


def test_a_table_of_stars_whose_columns_are_not_described():
    stars = np.full((N, L), np.nan)
    stars[tuple(X.T)] = Y["ordinal"]
    side = pd.DataFrame({"size": TRUE[:, 0]})
    done = kf.complete(pd.DataFrame(stars), rows=side, likelihood="ordinal")
    shares = np.unique(Y["ordinal"], return_counts=True)[1] / len(X)
    assert done.model.deviance_["new column"] <= -2 * shares @ np.log(shares) + 0.05


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [("bernoulli", kf.KKMCEXClassifier), ("poisson", kf.KKMCEXPoisson), ("ordinal", kf.KKMCEX)],
)
def test_a_method_with_the_likelihood_in_its_fit(likelihood, method):
    kernel = kf.kernels.rbf(np.arange(N), 3.0) + 0.5 * kf.kernels.identity(N)
    est = kf.LinkedRegressor(method(kernel, mu=1.0, center="mean"), likelihood)
    y = Y[likelihood]
    est.fit(X, y, sample_weight=np.ones(len(X)))
    assert est.mu_ == 1.0
    f = fitted_form(est.estimator_).pairs(*X.T)
    np.testing.assert_allclose(est.predict(X), est.links_[0].mean(f))
    if likelihood == "bernoulli":
        np.testing.assert_allclose(f, est.estimator_.decision_function(X))


def test_order_of_the_observations_and_of_weights_of_zero_change_nothing():
    y, w = Y["bernoulli"], np.ones(len(X))
    kernel = 0.5 * kf.kernels.identity(N) + kf.kernels.constant(N)
    est = kf.LinkedRegressor(kf.KKMCEXClassifier(kernel, mu=1.0), links=None)
    first = est.fit(X, y).links_
    w[:40] = 0.0
    out, without = est.fit(X, y, sample_weight=w).predict(X), est.fit(X[40:], y[40:]).predict(X)
    np.testing.assert_allclose(out, without, atol=0.1)  # other entries are hidden
    kept = kf.LinkedRegressor(kf.KKMCEXClassifier(kernel, mu=1.0), links=first)
    np.testing.assert_allclose(
        kept.fit(X[::-1], y[::-1]).predict(X), kept.fit(X, y).predict(X), rtol=1e-6
    )
    assert kept.links_ is first


def test_few_observations_are_linked_to_the_fit_itself():
    est = kf.LinkedRegressor(kf.KKMCEX(center="mean"), "poisson").fit([[0, 0], [1, 1]], [1, 3])
    assert est.deviance_ == {}
    assert np.isfinite(est.predict_matrix()).all()


def test_ones_alone():
    ones = X[Y["bernoulli"] == 1]
    est = kf.LinkedRegressor(kf.MC((N, L), rank=1, mu=2.0), negatives="sample").fit(ones)
    assert est.observations_.m == min(2 * len(ones), N * L)
    zeros = X[Y["bernoulli"] == 0]
    assert est.predict(ones).mean() > est.predict(zeros).mean()
    with pytest.raises(DataError, match="has zeros"):
        est.fit(X, Y["bernoulli"])
    same = kf.LinkedRegressor(kf.MC((N, L), rank=1, mu=2.0), negatives="sample").fit(ones)
    np.testing.assert_array_equal(est.predict(X), same.predict(X))


@pytest.mark.parametrize(
    ("settings", "y", "error", "words"),
    [
        ({}, [0, 2], DataError, "Yes or no is 1 or 0, got 2"),
        ({}, [1, 1], DataError, "All values are 1"),
        ({"likelihood": "poisson"}, [1, -1], DataError, "negative"),
        ({"likelihood": "ordinal"}, [1, 1], DataError, "distinct levels"),
        ({"likelihood": "normal"}, [1, 0], ParameterError, "likelihood must be one of"),
        ({"negatives": "all"}, [1, 0], ParameterError, "negatives must be"),
        ({"negatives": "sample", "likelihood": "poisson"}, [1, 0], ParameterError, "yes or no"),
        ({"links": 3}, [1, 0], ParameterError, "links must be"),
    ],
)
def test_what_is_refused(settings, y, error, words):
    with pytest.raises(error, match=words):
        kf.LinkedRegressor(kf.MC(), **settings).fit([[0, 0], [1, 1]], y)


def test_no_method_is_refused():
    with pytest.raises(ParameterError, match="estimator must be a method"):
        kf.LinkedRegressor("mc").fit([[0, 0]], [1])


@pytest.mark.parametrize("likelihood", Y)
def test_a_file_keeps_everything(likelihood, tmp_path):
    est = kf.LinkedRegressor(MC, likelihood).fit(X, Y[likelihood])
    est.save(tmp_path / "model.kf")
    again = kf.load(tmp_path / "model.kf")
    np.testing.assert_array_equal(again.predict_matrix(), est.predict_matrix())
    assert again.deviance_ == est.deviance_
    again.fit(X, Y[likelihood])
    np.testing.assert_array_equal(again.predict_matrix(), est.predict_matrix())

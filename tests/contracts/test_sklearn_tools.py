"""The estimators in scikit-learn's own tools, and what they make of bad input there."""

from __future__ import annotations

import pickle
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.utils.fixes import parse_version

import kronfill as kf
from kronfill import errors

N, L = 8, 6


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _kernels() -> tuple[Any, Any]:
    row, col = np.linspace(0, 1, N), np.linspace(0, 1, L)
    return kf.kernels.rbf(row, length_scale=0.4), kf.kernels.rbf(col, length_scale=0.4)


ESTIMATORS = {
    "KKMCEX": kf.KKMCEX(*_kernels(), mu=0.1),
    "RRMCEX": kf.RRMCEX(*_kernels(), row_rank=4, col_rank=4, mu=0.1),
    "KMC": kf.KMC(*_kernels(), rank=2, mu=0.1),
    "IMC": kf.IMC(np.vander(np.linspace(0, 1, N), 4), np.eye(L), rank=2, mu=0.1),
    "MC": kf.MC(shape=(N, L), rank=2, mu=0.1),
}


@pytest.fixture(params=ESTIMATORS)
def estimator(request: pytest.FixtureRequest) -> Any:
    return clone(ESTIMATORS[request.param])


@pytest.fixture
def X() -> np.ndarray:
    return _rng().permutation(np.argwhere(np.ones((N, L))))[:40]


@pytest.fixture
def y(X: np.ndarray) -> np.ndarray:
    return np.sin(X[:, 0] / 3) * np.cos(X[:, 1] / 3)


def _state(estimator: Any) -> dict[str, Any]:
    """Parameters by identity: nothing may be replaced, nothing may be changed in place."""
    return {name: (id(value), repr(value)) for name, value in estimator.get_params().items()}


# Parameters and fitted state.


def test_is_a_regressor_that_validates(estimator: Any) -> None:
    tags = sklearn.utils.get_tags(estimator)
    assert is_regressor(estimator)
    assert tags.target_tags.required
    assert tags.input_tags.positive_only
    assert not tags.no_validation
    assert not tags.input_tags.sparse


def test_fit_writes_no_parameter(estimator: Any, X: Any, y: Any) -> None:
    before = _state(estimator)
    assert estimator.fit(X, y) is estimator
    assert _state(estimator) == before
    estimator.predict(X)
    estimator.score(X, y)
    estimator.predict_matrix()
    assert _state(estimator) == before


def test_clone_is_unfitted_and_refits_alike(estimator: Any, X: Any, y: Any) -> None:
    fitted = estimator.fit(X, y)
    copy = clone(fitted)
    with pytest.raises(NotFittedError):
        copy.predict(X)
    np.testing.assert_array_equal(copy.fit(X, y).predict(X), fitted.predict(X))


def test_set_params(estimator: Any, X: Any, y: Any) -> None:
    weak = clone(estimator).fit(X, y).predict(X)
    estimator.set_params(mu=3.0, center="mean").fit(X, y)
    assert estimator.mu_ == 3.0
    assert not np.allclose(estimator.predict(X), weak)
    with pytest.raises(ValueError, match="Invalid parameter 'nu'"):
        estimator.set_params(nu=1.0)


def test_bad_parameters_are_told_at_fit(estimator: Any, X: Any, y: Any) -> None:
    with pytest.raises(errors.ParameterError, match="mu"):
        estimator.set_params(mu=-1.0).fit(X, y)


def test_repr_and_diagram(estimator: Any, X: Any, y: Any) -> None:
    name = type(estimator).__name__
    assert repr(estimator).startswith(f"{name}(")
    assert name in estimator.fit(X, y)._repr_html_()


def test_pickle_of_a_fitted_estimator(estimator: Any, X: Any, y: Any) -> None:
    estimator.fit(X, y)
    back = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(back.predict(X), estimator.predict(X))
    np.testing.assert_array_equal(back.predict_matrix(), estimator.predict_matrix())
    np.testing.assert_array_equal(back.fit(X, y).predict(X), estimator.predict(X))


def test_joblib_dump(estimator: Any, X: Any, y: Any, tmp_path: Any) -> None:
    joblib.dump(estimator.fit(X, y), tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    np.testing.assert_array_equal(mapped.predict(X), estimator.predict(X))


def test_refused_refit_keeps_the_model(estimator: Any, X: Any, y: Any) -> None:
    before = estimator.fit(X, y).predict(X)
    with pytest.raises(errors.NonFiniteError):
        estimator.fit(X, np.full(len(y), np.nan))
    np.testing.assert_array_equal(estimator.predict(X), before)


def test_broken_fit_is_not_fitted(
    estimator: Any, X: Any, y: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    estimator.fit(X, y)
    monkeypatch.setattr(type(estimator), "_publish", fail)
    for broken in (estimator, clone(estimator)):
        with pytest.raises(MemoryError):
            broken.fit(X[:5], y[:5])
        with pytest.raises(NotFittedError):
            broken.predict(X)


def test_bad_center(estimator: Any, X: Any, y: Any) -> None:
    with pytest.raises(errors.ParameterError, match="center"):
        estimator.set_params(center="diagonal").fit(X, y)


def test_predictions_need_a_fit(estimator: Any) -> None:
    pair = [[0, 0]]
    for call in (
        lambda: estimator.predict(pair),
        lambda: estimator.score(pair, [1.0]),
        estimator.predict_matrix,
        estimator.extrapolate,
    ):
        with pytest.raises(NotFittedError):
            call()


def test_n_iter(estimator: Any, X: Any, y: Any) -> None:
    assert estimator.fit(X, y).n_iter_ >= 1


# Input: pairs and observations, frames, names.


def test_observations_and_pairs_agree(estimator: Any, X: Any, y: Any) -> None:
    w = _rng().uniform(0.5, 2.0, len(y))
    entries = (X[:, 0], X[:, 1], y, (N, L))
    obs, weighted = kf.Observations(*entries), kf.Observations(*entries, weights=w)
    plain = clone(estimator).fit(X, y)
    np.testing.assert_array_equal(clone(estimator).fit(obs).predict(X), plain.predict(X))
    assert plain.score(obs) == plain.score(X, y)
    np.testing.assert_array_equal(plain.predict(obs), plain.predict(X))
    expected = clone(estimator).fit(X, y, w)
    for fitted in (clone(estimator).fit(weighted), clone(estimator).fit(obs, sample_weight=w)):
        np.testing.assert_array_equal(fitted.predict(X), expected.predict(X))
    assert plain.score(weighted) == plain.score(obs, sample_weight=w) == plain.score(X, y, w)
    assert plain.score(weighted) != plain.score(obs)


def test_observations_have_no_rival(estimator: Any, X: Any, y: Any) -> None:
    obs = kf.Observations(X[:, 0], X[:, 1], y, (N, L), weights=np.ones(len(y)))
    estimator.fit(obs)
    for method in (estimator.fit, estimator.score):
        with pytest.raises(errors.ParameterError, match="y must be left out"):
            method(obs, y)
        with pytest.raises(errors.ParameterError, match="give only one"):
            method(obs, sample_weight=np.ones(len(y)))


def test_weight_zero_is_leaving_out(estimator: Any, X: Any, y: Any) -> None:
    w = np.ones(len(y))
    w[30:] = 0.0
    np.testing.assert_allclose(
        clone(estimator).fit(X, y, w).predict(X),
        clone(estimator).fit(X[:30], y[:30]).predict(X),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    "form",
    [
        np.asfortranarray,
        lambda X: X.tolist(),
        lambda X: X.astype(float),
        lambda X: X.astype(np.uint8),
        lambda X: X.astype(object),
    ],
    ids=["fortran", "lists", "floats", "uint8", "objects"],
)
def test_forms_of_X(form: Any, X: Any, y: Any) -> None:
    expected = clone(ESTIMATORS["KKMCEX"]).fit(X, y)
    fitted = clone(ESTIMATORS["KKMCEX"]).fit(form(X), pd.Series(y))
    np.testing.assert_array_equal(fitted.predict(form(X)), expected.predict(X))
    assert fitted.n_features_in_ == 2


def test_feature_names(estimator: Any, X: Any, y: Any) -> None:
    frame = pd.DataFrame(X, columns=["station", "day"])
    estimator.fit(frame, y)
    assert estimator.n_features_in_ == 2
    assert list(estimator.feature_names_in_) == ["station", "day"]
    np.testing.assert_array_equal(estimator.predict(frame), clone(estimator).fit(X, y).predict(X))
    with pytest.raises(errors.DataError, match="same order"):
        estimator.predict(frame[["day", "station"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        estimator.predict(X)
    obs = kf.Observations(X[:, 0], X[:, 1], y, (N, L))
    estimator.score(obs)  # no names to compare, no warning
    estimator.fit(obs)
    assert "feature_names_in_" not in vars(estimator)
    estimator.predict(X)


def test_mixed_names_are_refused(X: Any, y: Any) -> None:
    with pytest.raises(errors.DataError, match="string"):
        clone(ESTIMATORS["MC"]).fit(pd.DataFrame(X, columns=["station", 1]), y)


BAD_X = {
    "one dimension": ([0, 1, 2], errors.ShapeError, "Reshape your data"),
    "three columns": (np.zeros((3, 3), int), errors.ShapeError, "expecting 2 features as input"),
    "ragged": ([[0, 1], [1]], errors.ShapeError, "different lengths"),
    "sparse": (sparse.csr_array(np.eye(2)), errors.ShapeError, "Observations.from_matrix"),
    "strings": ([["a", "b"], ["c", "d"]], errors.IndexRangeError, "OrdinalEncoder"),
    "digits": ([["0", "1"], ["1", "0"]], errors.IndexRangeError, "must be integers"),
    "string objects": (
        np.array([["0", 1], [1, 0]], dtype=object), errors.IndexRangeError, "must be integers"
    ),
    "booleans": ([[True, False], [False, True]], errors.IndexRangeError, "must be integers"),
    "complex": ([[0j, 1], [1, 0]], errors.IndexRangeError, "must be integers"),
    "fractions": ([[0.0, 0.5], [1.0, 0.0]], errors.IndexRangeError, "0.5 at position 0"),
    "NaN": ([[0.0, 0.0], [np.nan, 0.0]], errors.IndexRangeError, "NaN at position 1"),
    "infinite": ([[0.0, 0.0], [np.inf, 0.0]], errors.IndexRangeError, "inf at position 1"),
    "too large": ([[0.0, 0.0], [1e300, 0.0]], errors.IndexRangeError, "up to 2"),
    "wraps round": (
        np.array([[0, 0], [2**64 - 1, 0]], dtype=np.uint64), errors.IndexRangeError, "up to 2"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("bad", "kind", "text"), BAD_X.values(), ids=BAD_X)
def test_bad_X(bad: Any, kind: Any, text: str, X: Any, y: Any) -> None:
    with pytest.raises(kind, match=text):
        kf.KKMCEX().fit(bad, np.arange(2.0))
    with pytest.raises(kind, match=text):
        clone(ESTIMATORS["KKMCEX"]).fit(X, y).predict(bad)


def test_indices_outside(estimator: Any, X: Any, y: Any) -> None:
    with pytest.raises(errors.IndexRangeError, match="Negative values in data: row index -1"):
        estimator.fit([[0, 0], [-1, 0]], [1.0, 2.0])
    with pytest.raises(errors.IndexRangeError, match=f"got {N} at position 1"):
        estimator.fit([[0, 0], [N, 0]], [1.0, 2.0])
    estimator.fit(X, y)
    for pair in ([N, 0], [0, L], [-1, 0]):
        with pytest.raises(errors.IndexRangeError, match="outside the fitted matrix"):
            estimator.predict([pair])
    with pytest.raises(errors.IndexRangeError, match="must be integers"):
        estimator.predict_matrix(rows=np.arange(N) > 2)


def test_no_entries(estimator: Any, X: Any, y: Any) -> None:
    with pytest.raises(errors.EmptyDataError, match="0 sample"):
        estimator.fit(np.empty((0, 2), int), [])
    assert estimator.fit(X, y).predict(np.empty((0, 2), int)).shape == (0,)


def test_bad_y(estimator: Any, X: Any, y: Any) -> None:
    with pytest.raises(errors.ParameterError, match="requires y to be passed"):
        estimator.fit(X)
    if not isinstance(estimator, kf.KKMCEX):
        with pytest.raises(errors.ShapeError, match="1d array"):
            estimator.fit(X, np.column_stack([y, y]))
    with pytest.raises(errors.ShapeError):
        estimator.fit(X, y[:-1])
    with pytest.raises(errors.DataError):
        estimator.fit(X, np.full(len(y), "high"))
    for value in (np.nan, np.inf):
        with pytest.raises(errors.NonFiniteError):
            estimator.fit(X, np.where(np.arange(len(y)) == 3, value, y))
    with pytest.raises(errors.ParameterError, match="requires y to be passed"):
        estimator.fit(X, y).score(X)


def test_bad_weights(estimator: Any, X: Any, y: Any) -> None:
    ones = np.ones(len(y))
    for bad in (ones[:-1], -ones, 0 * ones, np.nan * ones, ones[:, None]):
        with pytest.raises(errors.DataError, match="weight"):
            estimator.fit(X, y, sample_weight=bad)


def test_column_vector_warns(estimator: Any, X: Any, y: Any) -> None:
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        fitted = clone(estimator).fit(X, y[:, None])
    np.testing.assert_array_equal(fitted.predict(X), estimator.fit(X, y).predict(X))


# Model selection.


def test_grid_search(estimator: Any, X: Any, y: Any) -> None:
    grid = {"mu": [0.1, 100.0]}
    search = GridSearchCV(estimator, grid, cv=KFold(3, shuffle=True, random_state=0)).fit(X, y)
    assert search.best_params_ == {"mu": 0.1}
    assert search.best_estimator_.mu_ == 0.1
    assert search.n_features_in_ == 2
    assert search.score(X, y) == search.best_estimator_.score(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_grid_over_kernels_and_solvers(X: Any, y: Any) -> None:
    place = np.linspace(0, 1, N)
    grid = {
        "row_kernel": [kf.kernels.rbf(place, s) for s in (1e-3, 0.4)],
        "solver": ["auto", kf.Cholesky(), kf.PCG(tol=1e-10)],
    }
    search = GridSearchCV(ESTIMATORS["KKMCEX"], grid, cv=3).fit(X, y)
    assert search.best_params_["row_kernel"] is grid["row_kernel"][1]  # shared, never copied
    scores = search.cv_results_["mean_test_score"].reshape(2, 3)
    np.testing.assert_allclose(scores, scores[:, :1].repeat(3, axis=1), atol=1e-6)


def test_failed_candidates_are_scored_as_asked(X: Any, y: Any) -> None:
    search = GridSearchCV(ESTIMATORS["KKMCEX"], {"mu": [-1.0, 0.1]}, cv=3, error_score="raise")
    with pytest.raises(errors.ParameterError, match="mu"):
        search.fit(X, y)


def test_parallel_jobs_agree_with_one(estimator: Any, X: Any, y: Any) -> None:
    one = cross_val_score(estimator, X, y, cv=4)
    with joblib.parallel_config(backend="loky"):
        two = cross_val_score(estimator, X, y, cv=4, n_jobs=2)
    np.testing.assert_allclose(two, one, rtol=1e-9)


def test_parallel_grid_search(X: Any, y: Any) -> None:
    grid = {"mu": [0.01, 0.1, 1.0]}
    one, two = (
        GridSearchCV(ESTIMATORS["KKMCEX"], grid, cv=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2)
    )
    scores = [search.cv_results_["mean_test_score"] for search in (one, two)]
    np.testing.assert_allclose(*scores, rtol=1e-9)


def test_threads_agree_with_one(estimator: Any, X: Any, y: Any) -> None:
    with joblib.parallel_config(backend="threading"):
        two = cross_val_score(estimator, X, y, cv=4, n_jobs=2)
    np.testing.assert_allclose(two, cross_val_score(estimator, X, y, cv=4), rtol=1e-12)


def test_cross_validate(estimator: Any, X: Any, y: Any) -> None:
    scoring = ("r2", "neg_root_mean_squared_error")
    out = cross_validate(
        estimator, X, y, cv=3, scoring=scoring, return_estimator=True, return_indices=True
    )
    for k, fitted in enumerate(out["estimator"]):
        test = out["indices"]["test"][k]
        assert out["test_r2"][k] == pytest.approx(fitted.score(X[test], y[test]))
        rmse = np.sqrt(np.mean((fitted.predict(X[test]) - y[test]) ** 2))
        assert out["test_neg_root_mean_squared_error"][k] == pytest.approx(-rmse)


def test_cold_rows_by_groups(X: Any, y: Any) -> None:
    guess = cross_val_predict(ESTIMATORS["KKMCEX"], X, y, groups=X[:, 0], cv=GroupKFold(N))
    assert np.corrcoef(guess, y)[0, 1] > 0.9  # every row was cold when it was predicted
    nothing = cross_val_predict(ESTIMATORS["MC"], X, y, groups=X[:, 0], cv=GroupKFold(N))
    np.testing.assert_array_equal(nothing, 0.0)


# Composition.


def test_pipeline_from_labels(X: Any, y: Any) -> None:
    towns, days = np.array(list("abcdefgh")), np.array(["d0", "d1", "d2", "d3", "d4", "d5"])
    names = pd.DataFrame({"town": towns[X[:, 0]], "day": days[X[:, 1]]})
    codes = OrdinalEncoder(categories=[towns, days])
    pipe = Pipeline([("codes", codes), ("complete", clone(ESTIMATORS["KKMCEX"]))])
    direct = clone(ESTIMATORS["KKMCEX"]).fit(X, y)
    np.testing.assert_array_equal(pipe.fit(names, y).predict(names), direct.predict(X))
    search = GridSearchCV(pipe, {"complete__mu": [0.01, 10.0]}, cv=3).fit(names, y)
    assert search.best_params_ == {"complete__mu": 0.01}
    pipe.set_params(complete__mu=2.0)
    assert pipe["complete"].mu == 2.0


def test_pipeline_passes_weights_by_step(estimator: Any, X: Any, y: Any) -> None:
    w = _rng().uniform(0.1, 3.0, len(y))
    pipe = Pipeline([("same", FunctionTransformer()), ("complete", clone(estimator))])
    pipe.fit(X, y, complete__sample_weight=w)
    np.testing.assert_array_equal(pipe.predict(X), estimator.fit(X, y, w).predict(X))


def test_log_counts(estimator: Any, X: Any, y: Any) -> None:
    counts = np.round(np.exp(3 + y))
    model = TransformedTargetRegressor(estimator, func=np.log1p, inverse_func=np.expm1)
    expected = np.expm1(clone(estimator).fit(X, np.log1p(counts)).predict(X))
    np.testing.assert_allclose(model.fit(X, counts).predict(X), expected)
    assert model.n_features_in_ == 2
    search = GridSearchCV(model, {"regressor__mu": [0.1, 100.0]}, cv=3).fit(X, counts)
    assert search.best_params_ == {"regressor__mu": 0.1}


def _logit(stars: np.ndarray) -> np.ndarray:
    return np.log((stars - 0.5) / (5.5 - stars))


def _stars(score: np.ndarray) -> np.ndarray:
    return 0.5 + 5.0 / (1.0 + np.exp(-score))


def test_logit_ratings(estimator: Any, X: Any, y: Any) -> None:
    ratings = np.clip(np.round(3 + 2 * y), 1, 5)
    model = TransformedTargetRegressor(estimator, func=_logit, inverse_func=_stars)
    w = _rng().uniform(0.1, 3.0, len(y))
    guess = model.fit(X, ratings, sample_weight=w).predict(X)
    expected = _stars(clone(estimator).fit(X, _logit(ratings), w).predict(X))
    np.testing.assert_allclose(guess, expected)
    assert guess.min() > 0.5
    assert guess.max() < 5.5


def test_ensembles(X: Any, y: Any) -> None:
    both = [("kkmcex", ESTIMATORS["KKMCEX"]), ("rrmcex", ESTIMATORS["RRMCEX"])]
    each = np.mean([clone(model).fit(X, y).predict(X) for _, model in both], axis=0)
    np.testing.assert_allclose(VotingRegressor(both).fit(X, y).predict(X), each)
    assert StackingRegressor(both, cv=3).fit(X, y).score(X, y) > 0.9


# Metadata routing.


@pytest.fixture
def weights(y: np.ndarray) -> np.ndarray:
    return _rng().uniform(0.1, 3.0, len(y))


@pytest.fixture
def routing() -> Any:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_weights_through_grid_search(estimator: Any, X: Any, y: Any, weights: Any) -> None:
    asked = clone(estimator).set_fit_request(sample_weight=True)
    asked.set_score_request(sample_weight=True)
    cv = KFold(3)
    search = GridSearchCV(asked, {"mu": [0.5]}, cv=cv).fit(X, y, sample_weight=weights)
    expected = clone(estimator).set_params(mu=0.5)
    for k, (train, test) in enumerate(cv.split(X)):
        expected.fit(X[train], y[train], weights[train])
        score = expected.score(X[test], y[test], weights[test])
        assert search.cv_results_[f"split{k}_test_score"][0] == pytest.approx(score)
    np.testing.assert_array_equal(search.predict(X), expected.fit(X, y, weights).predict(X))


@pytest.mark.usefixtures("routing")
def test_weights_through_a_pipeline(estimator: Any, X: Any, y: Any, weights: Any) -> None:
    asked = clone(estimator).set_fit_request(sample_weight=True)
    asked.set_score_request(sample_weight=True)
    pipe = make_pipeline(FunctionTransformer(), asked)
    fitted = clone(estimator).fit(X, y, weights)
    pipe.fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(pipe.predict(X), fitted.predict(X))
    assert pipe.score(X, y, sample_weight=weights) == fitted.score(X, y, weights)


@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="scikit-learn before 1.8 does not route weights to the score of a pipeline",
)
@pytest.mark.usefixtures("routing")
def test_weights_through_a_pipeline_in_cross_validation(
    estimator: Any, X: Any, y: Any, weights: Any
) -> None:
    asked = clone(estimator).set_fit_request(sample_weight=True)
    asked.set_score_request(sample_weight=True)
    pipe = make_pipeline(FunctionTransformer(), asked)
    fitted, cv = clone(estimator), KFold(3)
    scores = cross_val_score(pipe, X, y, cv=cv, params={"sample_weight": weights})
    for score, (train, test) in zip(scores, cv.split(X), strict=True):
        fitted.fit(X[train], y[train], weights[train])
        assert score == pytest.approx(fitted.score(X[test], y[test], weights[test]))


@pytest.mark.usefixtures("routing")
def test_weights_not_asked_for(estimator: Any, X: Any, y: Any, weights: Any) -> None:
    with pytest.raises(ValueError, match="not explicitly set as requested or not"):
        GridSearchCV(estimator, {"mu": [0.5]}, cv=3).fit(X, y, sample_weight=weights)
    scored = clone(estimator).set_fit_request(sample_weight=False)
    scored.set_score_request(sample_weight=True)
    search = GridSearchCV(scored, {"mu": [0.5]}, cv=3).fit(X, y, sample_weight=weights)
    plain = clone(estimator).set_params(mu=0.5).fit(X, y)
    np.testing.assert_array_equal(search.predict(X), plain.predict(X))


@pytest.mark.usefixtures("routing")
def test_weights_under_another_name(estimator: Any, X: Any, y: Any, weights: Any) -> None:
    asked = clone(estimator).set_fit_request(sample_weight="trust")
    pipe = make_pipeline(FunctionTransformer(), asked).fit(X, y, trust=weights)
    np.testing.assert_array_equal(pipe.predict(X), clone(estimator).fit(X, y, weights).predict(X))

"""What wraps a method in a model file: the same intervals, or a reason why there are none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

import kronfill as kf
from kronfill.errors import ModelFileError
from kronfill.estimators.conformal import regressor as conformal
from kronfill.io import save
from kronfill.io.classes import MODELS

from ..model_files import rebuilt

N, L = 10, 7
RNG = np.random.default_rng(3)
POINTS = RNG.standard_normal((N, 2))
X = RNG.permutation(np.argwhere(RNG.random((N, L)) < 0.6))
Y = np.sin(POINTS[X[:, 0], 0]) + 0.2 * X[:, 1] + 0.1 * RNG.standard_normal(len(X))
ROWS = kf.kernels.rbf(POINTS)
SOME = {"rank": 2, "mu": 0.5, "solver": kf.ALS(sweeps=30, tol=1e-2)}
METHODS = {
    "KKMCEX": kf.KKMCEX(ROWS, None, mu=0.1, center="mean"),
    "RRMCEX": kf.RRMCEX(ROWS, None, row_rank=3, mu="auto"),
    "KMC": kf.KMC(ROWS, None, **SOME),
    "BayesianKMC": kf.BayesianKMC(ROWS, None, rank=2),
    "IMC": kf.IMC(POINTS, None, **SOME),
    "MC": kf.MC((N, L), **SOME),
}


def warm(model):
    """Entries for which there is an interval."""
    obs = model.estimator_.observations_
    rows, cols = np.flatnonzero(obs.row_counts), np.flatnonzero(obs.col_counts)
    return np.array([(i, j) for i in rows for j in cols])


def assert_same(model, back):
    pairs = warm(model)
    assert_array_equal(back.predict(pairs), model.predict(pairs))
    for coverage in (0.5, 0.9, 0.99):
        wanted = model.predict_interval(pairs, coverage)
        assert_array_equal(back.predict_interval(pairs, coverage), wanted)
    assert_array_equal(back.scores_, model.scores_)
    assert repr(back) == repr(model)


def there_and_back(model, folder):
    model.save(folder / "model.kf")
    return kf.load(folder / "model.kf")


@pytest.mark.filterwarnings("ignore::kronfill.errors.ConvergenceWarning")
@pytest.mark.parametrize("way", ["split", "jackknife+"])
@pytest.mark.parametrize("name", METHODS)
def test_intervals_of_every_method_come_back_to_the_last_bit(name, way, tmp_path):
    model = kf.ConformalRegressor(METHODS[name], way, folds=3, random_state=1).fit(X, Y)
    back = there_and_back(model, tmp_path)
    assert_same(model, back)
    assert back.estimator_ is back._bounds.model
    assert_same(clone(model).fit(X, Y), clone(back).fit(X, Y))


def test_folds_in_place_of_single_observations(tmp_path, monkeypatch):
    monkeypatch.setattr(conformal, "EXACT_LIMIT", 0)
    model = kf.ConformalRegressor(METHODS["KKMCEX"], "jackknife+", folds=4).fit(X, Y)
    assert_same(model, there_and_back(model, tmp_path))


def test_weights_some_of_them_zero_and_a_lonely_entry(tmp_path):
    weights = RNG.uniform(0.5, 2.0, len(X))
    weights[:3] = 0.0
    alone = (X[:, 0] == X[5, 0]) & (np.arange(len(X)) != 5)
    weights[alone] = 0.0
    est = kf.KKMCEX(ROWS, None, mu=0.1, center="both")
    model = kf.ConformalRegressor(est, "jackknife+").fit(X, Y, sample_weight=weights)
    assert np.isinf(model.scores_).any()
    assert_same(model, there_and_back(model, tmp_path))


def test_two_observations_have_one_error(tmp_path):
    model = kf.ConformalRegressor(kf.MC(rank=1)).fit([[0, 0], [0, 1]], [1.0, 2.0])
    assert_same(model, there_and_back(model, tmp_path))


def test_labels_and_kernels_of_the_method_come_back(tmp_path):
    obs = kf.Observations(*X.T, Y, (N, L), row_labels=[f"r{i}" for i in range(N)])
    frame = pd.DataFrame(POINTS, columns=["a", "b"], index=obs.row_labels)
    model = kf.ConformalRegressor(kf.KKMCEX(kf.kernels.rbf(frame), None, mu=0.1)).fit(obs)
    back = there_and_back(model, tmp_path)
    assert_same(model, back)
    assert back.estimator_.observations_.row_labels == obs.row_labels
    new = pd.DataFrame([[0.5, 0.5]], columns=["a", "b"])
    assert_array_equal(back.estimator_.extrapolate(new), model.estimator_.extrapolate(new))


def test_of_a_method_that_was_fitted_before_the_parameters_are_kept(tmp_path):
    model = kf.ConformalRegressor(clone(METHODS["KKMCEX"]).fit(X, Y)).fit(X, Y)
    back = there_and_back(model, tmp_path)
    assert not back.estimator.__sklearn_is_fitted__()
    assert repr(back.estimator) == repr(model.estimator)


# What is not saved.


def test_nothing_is_saved_before_a_fit(tmp_path):
    for model in (kf.ConformalRegressor(METHODS["MC"]), METHODS["MC"]):
        with pytest.raises(ValueError, match="not fitted"):
            model.save(tmp_path / "model.kf")
        with pytest.raises(ValueError, match="not fitted"):
            save(model, tmp_path / "model.kf")
    assert not list(tmp_path.iterdir())


def test_a_search_says_what_to_save_of_it(tmp_path):
    rows = [kf.kernels.rbf(POINTS), kf.kernels.identity(N)]
    tuner = kf.selection.KernelTuner(kf.KKMCEX(center="mean"), rows=rows, max_iter=3).fit(X, Y)
    choice = kf.selection.choose({"one": METHODS["KKMCEX"]}, X, Y)
    grid = GridSearchCV(METHODS["KKMCEX"], {"mu": [0.1, 1.0]}, cv=2).fit(X, Y)
    for found, name in (
        (tuner, "estimator_"),
        (choice, "estimator"),
        (grid, "best_estimator_"),
    ):
        with pytest.raises(ModelFileError, match=f"its attribute {name}\\."):
            save(found, tmp_path / "model.kf")
        back = there_and_back(getattr(found, name), tmp_path)
        asked = found.estimator if found is choice else found
        assert_array_equal(back.predict(X), asked.predict(X))
    with pytest.raises(ModelFileError, match="KernelTuner cannot be saved"):
        tuner.save(tmp_path / "model.kf")


def test_every_public_estimator_can_be_saved_or_says_what_can():
    """The five methods and the intervals can; a search of kernels may hold functions."""
    homes = [(kf, name) for name in kf.__all__]
    homes += [(kf.selection, name) for name in kf.selection.__all__]
    public = {getattr(home, name) for home, name in homes}
    regressors = {one for one in public if isinstance(one, type) and issubclass(one, BaseEstimator)}
    assert regressors - set(MODELS) == {kf.selection.KernelTuner}
    assert all(hasattr(one, "save") for one in regressors)


# Forged files. More of them in tests/slow/test_io_fuzz.py.


def changed(name, key, value):
    def change(manifest, _):
        state = next(line["state"] for line in manifest["objects"] if line["class"] == name)
        state[key] = value(manifest) if callable(value) else value

    return change


def bare(manifest):
    """The method as it was given, without a fit."""
    lines = manifest["objects"]
    return {"object": next(k for k, line in enumerate(lines) if "mu_" not in line["state"]
                           and line["class"] == "KKMCEX")}  # fmt: skip


FORGED = {
    "another way": changed("ConformalRegressor", "method", "magic"),
    "folds": changed("ConformalRegressor", "folds", 0),
    "no estimator": changed("ConformalRegressor", "estimator", None),
    "no bounds": changed("ConformalRegressor", "bounds", None),
    "a fit is missing": changed("LeavingFoldsOut", "model", bare),
    "no folds": changed("LeavingFoldsOut", "models", {"tuple": []}),
    "a method without a fit": lambda manifest, _: manifest.update(model=bare(manifest)),
    "half a method": changed("KKMCEX", "shape_", {"tuple": [N, L]}),
    "labels beyond the folds": lambda manifest, _: next(
        line["state"]["models"]["tuple"].pop()
        for line in manifest["objects"]
        if line["class"] == "LeavingFoldsOut"
    ),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.kf"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conformal, "EXACT_LIMIT", 0)
        kf.ConformalRegressor(METHODS["KKMCEX"], "jackknife+", folds=3).fit(X, Y).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("name", FORGED)
def test_forged_files_are_refused(name, small, tmp_path):
    path = tmp_path / "model.kf"
    path.write_bytes(rebuilt(small, lambda *_: None))
    kf.load(path)
    path.write_bytes(rebuilt(small, FORGED[name]))
    with pytest.raises(ModelFileError, match="damaged or was changed"):
        kf.load(path)

"""Kernels that were chosen by looking at values: what is known of it, and what it costs."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

import kronfill as kf
from kronfill.completion import Completion
from kronfill.kernels.thin import thin
from kronfill.selection import EntryKFold, KernelTuner, Mixture, Parameters, choose

B = kf.bounds
SIZE = 30
PLACES = np.linspace(0, 1, SIZE)
RANGE = (-1, 1)


def rbf(length_scale):
    return kf.kernels.rbf(PLACES, length_scale=length_scale)


@pytest.fixture(scope="module")
def observed():
    rng = np.random.default_rng(0)
    values = np.outer(np.sin(3 * PLACES), np.cos(2 * PLACES))
    values = np.clip(values + 0.05 * rng.standard_normal(values.shape), *RANGE)
    rows, cols = np.divmod(rng.permutation(SIZE**2)[:300], SIZE)
    return kf.Observations(rows, cols, values[rows, cols], values.shape)


@pytest.fixture(scope="module")
def tuner(observed):
    cols = Parameters(rbf, length_scale=0.5)
    return KernelTuner(kf.KKMCEX(), rows=[rbf(0.5), rbf(0.1)], cols=cols, max_iter=3).fit(observed)


def is_refused(estimator, **settings):
    found = B.certificate(estimator, RANGE, **settings)
    refused = "learned from the values" in found.reason
    assert refused == (not found.valid) == (found.value == np.inf)
    return refused


def saved(model, folder):
    model.save(folder / "model.kf")
    return kf.load(folder / "model.kf")


def test_the_model_of_a_tuner_is_not_certified_as_if_its_kernels_were_given(tuner):
    assert is_refused(tuner)
    assert is_refused(tuner.estimator_)
    assert is_refused(tuner.estimator_, kernels="fixed")
    assert is_refused(tuner.estimator_, kernels=5)
    assert is_refused(tuner.estimator_, kernels="tuned")
    assert "[DOES NOT HOLD] kernels" in str(B.certificate(tuner, RANGE))


def test_with_a_holdout_it_is(observed):
    train, held = observed.take(slice(0, 220)), observed.take(slice(220, 300))
    tuner = KernelTuner(kf.KKMCEX(), rows=[rbf(0.5), rbf(0.1)], max_iter=3).fit(train)
    found = B.certificate(tuner, RANGE, holdout=held)
    assert found.valid
    assert len(found.candidates) == 1
    assert found.name.startswith("hold-out")


METHODS = {
    "KKMCEX": kf.KKMCEX(mu=0.1),
    "RRMCEX": kf.RRMCEX(mu=0.1, row_rank=4, col_rank=4),
    "KMC": kf.KMC(rank=2, mu=0.1),
}
WAYS = {
    "cloned": lambda est, obs, folder: clone(est).fit(obs),
    "fitted again": lambda est, obs, folder: copy.deepcopy(est).fit(obs),
    "copied": lambda est, obs, folder: copy.copy(est),
    "pickled": lambda est, obs, folder: pickle.loads(pickle.dumps(est)),
    "saved": lambda est, obs, folder: saved(est, folder),
    "saved and fitted again": lambda est, obs, folder: clone(saved(est, folder)).fit(obs),
    "a completion, saved": lambda est, obs, folder: saved(Completion.from_model(est), folder).model,
    "another mu": lambda est, obs, folder: clone(est).set_params(mu=1.0).fit(obs),
    "in a search": lambda est, obs, folder: GridSearchCV(est, {"mu": [0.1, 1.0]}, cv=2).fit(
        obs.X, obs.values
    ),
    "in intervals": lambda est, obs, folder: kf.ConformalRegressor(est).fit(obs),
    "in intervals, saved": lambda est, obs, folder: saved(
        kf.ConformalRegressor(est).fit(obs), folder
    ),
    "other parameters, not fitted": lambda est, obs, folder: copy.copy(est).set_params(
        row_kernel=rbf(0.3), col_kernel=rbf(0.3)
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_kernels_are_known_as_learned_after(way, tuner, observed, tmp_path):
    assert is_refused(WAYS[way](tuner.estimator_, observed, tmp_path))


@pytest.mark.parametrize("method", METHODS)
def test_learned_kernels_are_known_in_every_method(method, observed):
    tuner = KernelTuner(METHODS[method], rows=[rbf(0.5), rbf(0.1)], max_iter=2).fit(observed)
    assert is_refused(tuner)


MADE_OF = {
    "itself": lambda k: k,
    "a sum": lambda k: kf.kernels.identity(SIZE) + k,
    "a sum of sums": lambda k: (kf.kernels.identity(SIZE) + k) + kf.kernels.constant(SIZE),
    "a product": lambda k: k * rbf(0.5),
    "a multiple": lambda k: 2.0 * (0.5 * k),
    "a unit diagonal": lambda k: k.normalized(),
    "a thin factor": lambda k: thin(k, 5),
    "some items": lambda k: k.take(np.arange(SIZE)),
}


@pytest.mark.parametrize("way", MADE_OF)
@pytest.mark.parametrize("axis", ["row_kernel", "col_kernel"])
def test_what_is_made_of_learned_kernels_is_learned(way, axis, tuner, observed, tmp_path):
    kernel = MADE_OF[way](getattr(tuner, f"{axis}_"))
    assert kernel.learned
    est = kf.KKMCEX(**{axis: kernel}, mu=0.1).fit(observed)
    assert is_refused(est)
    assert is_refused(saved(est, tmp_path))


def test_kernels_given_anew_are_not_learned(tuner, observed):
    fresh = {"row_kernel": rbf(0.5), "col_kernel": rbf(0.3)}
    assert not is_refused(clone(tuner.estimator_).set_params(**fresh).fit(observed))
    assert is_refused(clone(tuner.estimator_).set_params(row_kernel=rbf(0.5)).fit(observed))
    one_axis = KernelTuner(kf.KKMCEX(None, rbf(0.3)), rows=[rbf(0.5), rbf(0.1)], max_iter=2)
    one_axis.fit(observed)
    assert one_axis.row_kernel_.learned
    assert not one_axis.col_kernel_.learned
    parts = Mixture([rbf(0.5), rbf(0.1)])
    assert not any(part.learned for part in parts.kernels)
    nothing = KernelTuner(kf.KKMCEX(rbf(0.5), rbf(0.3)), max_iter=2).fit(observed)
    assert not is_refused(nothing)
    assert not is_refused(kf.KKMCEX(kf.kernels.rbf(PLACES), kf.kernels.rbf(PLACES)).fit(observed))


def told_count(estimator, **settings):
    """Number of candidates that a certificate says it was chosen from."""
    found = B.certificate(estimator, RANGE, **settings)
    assert found.valid
    counted = [part.text for part in found.assumptions if "which is paid for" in part.text]
    return int(counted[0].split("among ")[1].split()[0]) if counted else 1


@pytest.fixture(scope="module")
def choice(observed):
    scales = (0.1, 0.3, 0.5)
    return choose({str(s): kf.KKMCEX(rbf(s), rbf(s), mu=0.1) for s in scales}, observed)


def test_a_choice_is_paid_for(choice, observed):
    assert told_count(choice.estimator) == 3
    assert told_count(choice.estimator, kernels=2) == 3
    assert told_count(choice.estimator, kernels=7) == 7
    given = clone(choice.estimator).get_params()
    plain = kf.KKMCEX(**given).fit(observed)
    assert told_count(plain) == 1
    paid = B.certificate(choice.estimator, RANGE).value
    assert paid == B.certificate(plain, RANGE, kernels=3).value > B.certificate(plain, RANGE).value


@pytest.mark.parametrize("way", WAYS)
def test_a_choice_is_paid_for_after(way, choice, observed, tmp_path):
    assert told_count(WAYS[way](choice.estimator, observed, tmp_path)) == 3


def test_a_choice_among_choices_and_tuners(choice, observed):
    tuned = KernelTuner(kf.KKMCEX(), rows=[rbf(0.5), rbf(0.1)], max_iter=2)
    bad = kf.KKMCEX(kf.kernels.identity(SIZE), kf.kernels.identity(SIZE), mu=10.0)
    cv = EntryKFold(2)
    again = choose({"chosen": choice.estimator, "bad": bad}, observed, cv=cv)
    assert again.name == "chosen"
    assert told_count(again.estimator) == 4
    fixed = KernelTuner(choice.estimator, max_iter=1)  # nothing to learn but mu
    assert told_count(choose({"fixed": fixed, "bad": bad}, observed, cv=cv).estimator) == 4
    with_tuner = choose({"tuned": tuned, "bad": bad}, observed, cv=cv)
    assert with_tuner.name == "tuned"
    assert is_refused(with_tuner.estimator)
    lost = choose({"tuned": KernelTuner(bad, rows=[bad.row_kernel]), "b": choice.estimator},
                  observed, cv=cv)  # fmt: skip
    assert lost.name == "b"
    assert told_count(lost.estimator) == 4


def test_searches(choice, tuner, observed):
    X, y = observed.X, observed.values
    base = kf.KKMCEX(rbf(0.5), rbf(0.5), mu=0.1)
    kernels = {"row_kernel": [rbf(0.5), rbf(0.1)]}
    assert told_count(GridSearchCV(base, kernels, cv=2).fit(X, y)) == 2
    assert told_count(RandomizedSearchCV(base, kernels, n_iter=2, cv=2).fit(X, y)) == 2
    assert (
        told_count(GridSearchCV(choice.estimator, {"center": [None, "mean"]}, cv=2).fit(X, y)) == 6
    )
    over_tuners = GridSearchCV(tuner, {"criterion": ["lml"]}, cv=2).fit(X, y)
    assert is_refused(over_tuners)


def test_a_search_that_may_follow_the_values_has_no_list(choice):
    tried = [{"row_kernel": rbf(s)} for s in (0.1, 0.2)]
    results = {"params": tried}
    found = choice.estimator
    other = SimpleNamespace(best_estimator_=found, cv_results_=results)
    assert "no declared finite list" in B.certificate(other, RANGE).reason
    assert (
        "no declared finite list"
        in B.certificate(SimpleNamespace(best_estimator_=found), RANGE).reason
    )
    only_mu = SimpleNamespace(best_estimator_=found, cv_results_={"params": [{"mu": 1.0}] * 2})
    assert told_count(only_mu) == 3


def test_what_was_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        B.certificate(KernelTuner(kf.KKMCEX()), RANGE)

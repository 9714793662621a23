"""Methods beside each other on the same hidden entries: errors, their errors, what is advised."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.auto.plan import Plan
from kronfill.completion.judging.comparison import compare_methods, compared_methods
from kronfill.completion.judging.evaluation import cross_validate
from kronfill.errors import ConvergenceWarning

X = np.linspace(0, 1, 18)
KERNEL = kf.kernels.rbf(X, 0.3) + kf.kernels.constant(18) + 0.1 * kf.kernels.identity(18)


@pytest.fixture(scope="module")
def obs():
    rng = np.random.default_rng(0)
    values = np.sin(6 * X)[:, None] * rng.standard_normal(12) + 0.05 * rng.standard_normal((18, 12))
    return kf.Observations.from_matrix(np.where(rng.random(values.shape) < 0.8, values, np.nan))


@pytest.fixture(scope="module")
def found(obs):
    methods = {"MC": kf.MC(rank=1, mu=0.1), "KKMCEX": kf.KKMCEX(KERNEL, None, mu=0.05)}
    return compare_methods(methods, obs, folds=3)


def test_scores_are_those_of_each_method_alone(found, obs):
    alone = cross_validate(kf.KKMCEX(KERNEL, None, mu=0.05), obs, ("row",), folds=3)
    scores = found.scores.set_index(["question", "method"])
    own, _, effects = alone.parts["row"].scores()
    assert scores.loc[("new rows", "KKMCEX"), "rmse"] == own.rmse
    assert scores.loc[("new rows", "effects"), "rmse"] == effects.rmse
    assert set(scores.index.get_level_values(0)) == {
        "entries", "new rows", "new columns", "both new"
    }  # fmt: skip


def test_standard_errors_count_hidden_rows_once(found):
    hidden = found.evaluations["MC"].parts["row"]
    squares = (hidden.observed - hidden.predicted) ** 2
    groups = pd.Series(squares - squares.mean()).groupby(hidden.rows).sum().to_numpy()
    error = np.sqrt(len(groups) / (len(groups) - 1) * (groups**2).sum()) / len(squares)
    scores = found.scores.set_index(["question", "method"])
    got = scores.loc[("new rows", "MC"), "standard error"]
    assert_allclose(got, error / (2 * np.sqrt(squares.mean())))


def test_it_advises_the_method_that_is_clearly_better(found):
    assert "method='kkmcex' for new rows" in found.recommendation
    assert "method='mc' for the rest" in found.recommendation
    assert found.recommendation in repr(found)


def test_everything_is_chosen_again_without_what_is_hidden(obs):
    table = pd.DataFrame(obs.to_dense())
    done = kf.complete(table, pd.DataFrame({"x": X}), method="kkmcex")
    methods = compared_methods(done.model)
    assert set(methods) == {"KKMCEX", "auto", "KMC", "MC"}
    assert methods["KKMCEX"].mu == "auto"
    plan = Plan(rank=3, steps=1)
    est = kf.AutoMC(kf.kernels.rbf(X, 0.3), plan=plan).fit(obs)
    methods = compared_methods(est.set_params(choice=est.choice_))
    assert methods["auto"].choice is None
    assert list(methods) == ["auto", "KKMCEX", "KMC", "MC"]
    assert_allclose(methods["KKMCEX"].row_kernel.to_array(), KERNEL.to_array())


def test_doubts_about_other_methods_are_noted_not_warned_of(obs):
    rough = kf.ALS(sweeps=2, tol=1e-12)
    methods = {"KKMCEX": kf.KKMCEX(KERNEL, None, mu=0.05), "MC": kf.MC(rank=2, solver=rough)}
    found = compare_methods(methods, obs, folds=2)
    assert len(found.notes) == 1
    assert found.notes[0].startswith("MC, entries, ")
    assert found.notes[0] in repr(found)
    with pytest.warns(ConvergenceWarning, match="They may be too large"):
        assert compare_methods({"MC": methods["MC"]}, obs, folds=2).notes == []


def test_very_few_entries_and_equal_ones():
    table = kf.Observations.from_matrix([[5.0, 5.0, np.nan], [5.0, np.nan, 5.0]])
    found = compare_methods({"MC": kf.MC(rank=1, mu=1.0, center="mean")}, table, folds=2)
    assert "4 hidden entries can hardly tell. Use method='mc'" in found.recommendation
    assert found.scores["r2"].isna().all()
    one = kf.Observations.from_matrix([[1.0, 2.0, 4.0]])
    found = compare_methods({"MC": kf.MC(rank=1, mu=1.0, center="mean")}, one, folds=2)
    assert found.first.notes["row"] == "Only one row has entries: without it nothing is known."

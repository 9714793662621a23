"""Budgets, plans and Ctrl-C through kf.complete."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.auto import model as auto_model
from kronfill.auto.plan import Plan
from kronfill.completion.effort import expected_seconds
from kronfill.completion.problem import CompletionProblem
from kronfill.errors import ParameterError

RNG = np.random.default_rng(0)
X = RNG.random(30)
VALUES = np.sin(5 * X)[:, None] * RNG.standard_normal(12) + 0.1 * RNG.standard_normal((30, 12))
TABLE = pd.DataFrame(VALUES).mask(RNG.random(VALUES.shape) < 0.4)
KNOWN = pd.DataFrame({"x": X})
SKEWED = np.exp(2 * TABLE)
SMALLEST = Plan(rank=8, steps=0, entries=5000, folds=1, hidden=0.2)


def test_a_budget_is_a_plan_that_can_be_given_back():
    free = CompletionProblem.of(TABLE, KNOWN).seconds()
    done = kf.complete(TABLE, KNOWN, budget=0.6)
    assert done.model.plan_.seconds <= 0.6 < free
    again = kf.complete(TABLE, KNOWN, plan=done.model.plan_)
    assert again.predicted.equals(done.predicted)
    assert again.model.plan_ == done.model.plan_


def test_what_is_done_around_the_choice_is_taken_off_the_budget():
    problem = CompletionProblem.of(SKEWED, KNOWN)
    inner = problem.estimator.estimator
    around = problem.seconds() - inner.planned_for(problem.observations).seconds
    assert around > 0
    budget = 0.7 + around
    done = kf.complete(SKEWED, KNOWN, budget=budget)
    assert done.model.plan_.seconds <= 0.7
    assert expected_seconds(done.model, done.observations) <= 1.001 * budget


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"budget": 0.1}, r"budget=0\.1 is too little: with everything cut down it takes about 0"),
        ({"budget": -1}, "positive number of seconds"),
        ({"budget": "5"}, "positive number of seconds"),
        ({"budget": True}, "positive number of seconds"),
        ({"plan": 3}, "plan must be a Plan"),
        ({"on_interrupt": "stop"}, "'raise' or 'keep'"),
        ({"budget": 3, "method": "mc"}, r"budget is for method='auto', .*method='mc' does not"),
        ({"on_interrupt": "keep", "method": "kkmcex"}, "on_interrupt is for method='auto'"),
    ],
)
def test_what_cannot_be_is_refused_before_any_fit(settings, said, monkeypatch):
    monkeypatch.setattr(auto_model, "chosen", lambda *_: pytest.fail("fitted"))
    with pytest.raises(ParameterError, match=said):
        kf.complete(TABLE, KNOWN, **settings)


def test_a_budget_that_other_scales_use_up_is_refused():
    inner = CompletionProblem.of(SKEWED, KNOWN).estimator.estimator
    least = kf.AutoMC(**{**inner.get_params(deep=False), "plan": SMALLEST})
    budget = least.planned_for(CompletionProblem.of(SKEWED).observations).seconds + 0.01
    assert kf.complete(SKEWED, KNOWN, transform=None, budget=budget).model.plan_.steps < 12
    with pytest.raises(ParameterError, match="too little: other scales"):
        kf.complete(SKEWED, KNOWN, budget=budget)


def test_a_streamed_table_says_who_takes_a_limit():
    with pytest.raises(ParameterError, match=r"kf\.Streamed\(time_limit=\.\.\.\)"):
        kf.complete("nothing/*.parquet", budget=3.0)


def test_ctrl_c_keeps_the_best_so_far_on_request(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(auto_model, "fitted_members", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kf.complete(TABLE, KNOWN)
    kept = kf.complete(TABLE, KNOWN, on_interrupt="keep")
    gap = (kept.predicted.to_numpy() - VALUES)[TABLE.isna().to_numpy()]
    assert np.sqrt(np.mean(gap**2)) < 0.5 * VALUES.std()


def test_what_was_chosen_can_be_read_whatever_the_scale():
    done = kf.complete(SKEWED, KNOWN, budget=5.0)
    model = done.model
    assert model.scale_.kind != "none"
    for name in ("plan_", "shares_", "weights_", "hidden_error_", "choice_", "members_"):
        assert getattr(model, name) is getattr(model.estimator_, name)
    with pytest.raises(AttributeError, match=r"no partial_fit: .*use kf\.KKMCEX"):
        model.partial_fit([[0, 0]], [1.0])
    assert not hasattr(model, "no_such_thing_")
    assert f"values as {model.scale_.words}" in repr(done.explain(0, 1))
    assert "larger mu" not in repr(done.explain(0, 1))

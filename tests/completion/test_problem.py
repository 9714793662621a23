"""What is settled before a fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.completion import problem as problem_module
from kronfill.completion.problem import CompletionProblem, fitted_center


@pytest.fixture
def large(monkeypatch):
    """A table that counts as one of very many observations."""
    monkeypatch.setattr(problem_module, "LARGE", 100)
    monkeypatch.setattr(problem_module, "PART", 1000)
    monkeypatch.setattr("kronfill.completion.sides.MANY", 5)
    rng = np.random.default_rng(0)
    rows, cols = pd.DataFrame({"x": rng.random(40)}), pd.DataFrame({"t": rng.random(30)})
    return rng.standard_normal((40, 30)), rows, cols


def test_settings_that_save_time_leave_what_was_asked(large):
    problem = CompletionProblem.of(*large, method="kkmcex")
    asked = problem.estimator.get_params(deep=False)
    model = problem.fit()
    assert problem.estimator.get_params(deep=False) == asked
    assert asked["mu"] == "auto"
    assert model.mu == model.mu_


def test_thin_kernels_carry_the_mean_of_many_observations(monkeypatch):
    thin = kf.kernels.thin.thin(kf.kernels.rbf(np.linspace(0, 1, 20)), 5)
    monkeypatch.setattr(problem_module, "LARGE", 100)
    plain = kf.kernels.rbf(np.linspace(0, 1, 20))
    assert fitted_center("mean", 101, (thin, thin)) is None
    for center, count, kernels in (
        ("mean", 100, (thin, thin)),
        ("rows", 101, (thin, thin)),
        ("mean", 101, (thin, plain)),
        (None, 101, (plain, plain)),
    ):
        assert fitted_center(center, count, kernels) == center

"""A choice among candidates and its nested error."""

from __future__ import annotations

import numpy as np
import pytest

import kronfill as kf
from kronfill.errors import ParameterError
from kronfill.selection import EntryKFold, KernelTuner, RowKFold, choose, leave_out


def data(seed=0):
    rng = np.random.default_rng(seed)
    place, noise = rng.random(25), rng.random(25)
    X = np.argwhere(rng.random((25, 12)) < 0.5)
    y = np.sin(6 * place[X[:, 0]]) * (1 + X[:, 1] / 6) + 0.1 * rng.standard_normal(len(X))
    return kf.kernels.rbf(place, 0.3), kf.kernels.rbf(noise, 0.1), X, y


def test_leave_one_out_chooses_the_right_kernel():
    place, noise, X, y = data()
    candidates = {
        "noise": kf.KKMCEX(noise, mu=0.1),
        "place": kf.KKMCEX(place, mu=0.1),
    }
    choice = choose(candidates, X, y)
    assert choice.name == "place"
    assert choice.nested is None
    for name, est in candidates.items():
        wanted = np.sqrt(np.mean(leave_out(est, X, y) ** 2))
        assert choice.rmse[name] == pytest.approx(wanted)
    assert choice.estimator.observations_.m == len(y)


def test_nested_errors_are_those_of_the_outer_folds():
    place, noise, X, y = data()
    candidates = {
        "noise": kf.KKMCEX(noise, mu="auto", center="mean"),
        "tuned": KernelTuner(kf.KKMCEX(center="mean"), rows=[place, noise]),
    }
    outer = RowKFold(3)
    choice = choose(candidates, X, y, cv=RowKFold(3), outer=outer)
    assert choice.nested.names == ("tuned",) * 3
    gaps = []
    for train, test in outer.split(X):
        inner = choose(candidates, X[train], y[train], cv=RowKFold(3))
        gaps.append(y[test] - inner.estimator.predict(X[test]))
    assert choice.nested.by_fold == pytest.approx([np.sqrt(np.mean(g**2)) for g in gaps])
    pooled = np.sqrt(np.mean(np.concatenate(gaps) ** 2))
    assert choice.nested.rmse == pytest.approx(pooled)
    assert 0 < choice.nested.standard_error < pooled


def test_methods_without_a_closed_form_compete_with_folds():
    place, _, X, y = data()
    observations = kf.Observations(*X.T, y, (25, 12))
    candidates = {"mc": kf.MC(rank=2), "kkmcex": kf.KKMCEX(place, mu="auto")}
    assert set(choose(candidates, observations, cv=EntryKFold(3)).rmse) == {"mc", "kkmcex"}
    with pytest.raises(ParameterError, match="EntryKFold"):
        choose(candidates, observations)


def test_whoever_asks_is_told_how_far_a_choice_is():
    place, noise, X, y = data()
    candidates = {"place": kf.KKMCEX(place, mu="auto"), "noise": kf.KKMCEX(noise, mu="auto")}
    told = []
    choose(candidates, X, y, progress=lambda *what: told.append(what))
    assert [what for what in told if what[0] == "candidates"] == [
        ("candidates", 0, 2), ("candidates", 1, 2)
    ]  # fmt: skip


def test_bad_input_is_refused():
    place, _, X, y = data()
    with pytest.raises(ParameterError, match="dictionary"):
        choose([kf.KKMCEX(place)], X, y)
    with pytest.raises(ParameterError, match="alone determines"):
        choose({"a": kf.KKMCEX(center="rows")}, [[0, 0], [1, 1]], [1.0, 2.0])

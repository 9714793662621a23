"""Scores of hidden entries beside simple rules."""

from __future__ import annotations

import numpy as np
import pandas as pd

import kronfill as kf
from kronfill.completion.judging.evaluated import Evaluation
from kronfill.completion.judging.scores import HiddenEntries
from kronfill.report import evaluate
from kronfill.report.accuracy import accuracy

from .conftest import completed


def test_nothing_hidden_has_no_scores():
    done = kf.complete(np.array([[1.0, np.nan]]), method="mc", mu=1.0)
    assert accuracy(evaluate(done)).parts == []


def test_useless_predictions_are_told_apart_from_good_ones():
    rng = np.random.default_rng(0)
    noise = pd.DataFrame(rng.standard_normal((12, 10)))
    places = pd.DataFrame({"x": rng.random(12)})
    bad = accuracy(evaluate(kf.complete(noise, places, method="kkmcex", mu=1e-3))).parts[0]
    good = accuracy(evaluate(completed())).parts[0]
    assert good.gain > 0.5
    assert good.clear
    assert bad.gain < 0.05


def test_a_gain_of_less_than_a_hundredth_is_not_clear():
    rng = np.random.default_rng(0)
    at = np.arange(2000)
    seen = 10.0 + rng.standard_normal(2000)
    level = np.full(2000, 10.0)
    for off, clear in ((0.05, False), (0.5, True)):  # of the simple rules
        hidden = HiddenEntries(at, at, seen, level, level + off, level + off)
        part = accuracy(Evaluation("folds", 5, 0, {"known": hidden})).parts[0]
        assert part.gain > 0
        assert part.clear == clear

"""Reports on yes or no, counts and stars: probabilities and calibration in place of residuals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import kronfill as kf
from kronfill.completion.judging.scores import HiddenEntries
from kronfill.report.accuracy import calibration
from kronfill.report.blocks import edges, predicted_means

from .conftest import numbers_of

RNG = np.random.default_rng(0)
TRUE = np.outer(RNG.standard_normal(24), RNG.standard_normal(16))
KINDS = {
    "bernoulli": RNG.random(TRUE.shape) < 1 / (1 + np.exp(-3 * TRUE)),
    "poisson": RNG.poisson(np.exp(TRUE)),
    "ordinal": np.clip(np.round(3 + TRUE), 1, 5),
}


def completed(kind, **settings):
    table = pd.DataFrame(np.where(RNG.random(TRUE.shape) < 0.7, KINDS[kind], np.nan))
    return kf.complete(table, method="mc", rank=1, mu=2.0, likelihood=kind, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_shows_calibration(kind, tmp_path):
    text = completed(kind).report(tmp_path / "page.html").read_text(encoding="utf-8")
    numbers = numbers_of(text)
    assert numbers["method"]["likelihood"] == kind
    part = numbers["accuracy"]["parts"][0]
    assert sum(one["count"] for one in part["calibration"]) == part["count"]
    assert part["method"]["deviance"] > 0
    assert "two standard errors" in text
    assert "Predicted while hidden, against observed" not in text
    assert "Where the prediction comes from" not in text
    assert ("Hidden ones of each row" in text) == (kind == "bernoulli")
    assert ("the 1 has the larger probability" in text) == (kind == "bernoulli")


def test_a_page_about_ones_alone(tmp_path):
    table = pd.DataFrame(np.where(KINDS["bernoulli"], 1.0, np.nan))
    done = kf.complete(
        table, method="mc", rank=1, mu=2.0, likelihood="bernoulli", negatives="sample"
    )
    numbers = numbers_of(done.report(tmp_path / "page.html").read_text(encoding="utf-8"))
    assert 0 < numbers["accuracy"]["ranking"]["auc"] <= 1
    assert numbers["uncertainty"]["kind"] == "none"


def test_groups_have_the_means_of_what_was_said_and_seen():
    said = RNG.random(1000)
    seen = (RNG.random(1000) < said).astype(float)
    at = np.zeros(1000, int)
    groups = calibration(HiddenEntries(at, at, seen, said, said, said, said, "bernoulli"))
    assert [one.count for one in groups] == [100] * 10
    order = np.argsort(said)
    assert groups[3].said == pytest.approx(said[order[300:400]].mean())
    assert groups[3].seen == pytest.approx(seen[order[300:400]].mean())
    assert sum(abs(one.said - one.seen) <= one.margin for one in groups) >= 7


def mixed():
    some = np.where(RNG.random(TRUE.shape) < 0.7, TRUE, np.nan)
    return kf.AutoMC(rank=2).fit(kf.Observations.from_matrix(some))


@pytest.mark.parametrize("model", [lambda: completed("poisson").model, mixed])
def test_means_over_blocks_of_what_is_no_product(model):
    made = model()
    rows, cols = edges(24, 5), edges(16, 3)
    whole = made.predict_matrix()
    means = predicted_means(made, rows, cols)
    for i in range(5):
        for j in range(3):
            block = whole[rows[i] : rows[i + 1], cols[j] : cols[j + 1]]
            assert means[i, j] == pytest.approx(block.mean())

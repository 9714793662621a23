"""The figure under other constants that the calibration accepts."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from kronfill.paper.calibrate import acceptable, spread_out
from kronfill.paper.constants import load_constants
from kronfill.paper.methods import fit
from kronfill.paper.pairs import (
    Deviation,
    acceptable_settings,
    deviations,
    pairs_text,
    run_pairs,
    what_hangs_on_it,
    write_pairs,
)
from kronfill.paper.published import METRICS, PANELS, SIZES, paper_values
from kronfill.paper.results.table import Point, algorithms_shown
from kronfill.paper.running.backends import Serial
from kronfill.paper.running.spec import RunPlan
from kronfill.paper.synthetic import draw


def points(factor):
    return [
        Point(panel, snr, label, metric, n, factor * value, 0.01 * value, 9, value)
        for panel, snr in PANELS.items()
        for algorithm, label in algorithms_shown().items()
        for metric in METRICS
        for n, value in paper_values(panel, algorithm, metric).items()
    ]


def test_the_pairs_are_acceptable_and_the_one_of_the_figure_is_among_them():
    data = load_constants()["data"]
    kept = data["acceptable"]
    assert acceptable(kept, len(SIZES)) == kept
    assert len(kept) > 2
    pairs = [(found.exponent, found.power) for found in acceptable_settings(0)]
    assert (data["exponent"], data["power"]) in pairs
    assert pairs == sorted(set(pairs))


def test_spread_out_keeps_the_ends():
    rows = [{"exponent": float(k), "power": 1.0, "chi2": 0.0} for k in range(11)]
    assert [row["exponent"] for row in spread_out(rows, 3)] == [0.0, 5.0, 10.0]
    assert spread_out(rows[:1], 3) == rows[:1]
    assert spread_out([], 3) == []


@pytest.mark.parametrize("method", ["kkmcex", "mc", "kmc"])
def test_ridge_weights_follow_the_power(method):
    """With the weights of a pair the fit to data c times as large is c times as large."""
    one, *_, last = acceptable_settings(0)
    found = []
    for settings in (one, last):
        made = draw(34, 4.0, 0, exponent=1.3, power=settings.power)
        mu = settings.mu["b"][method]
        outcome = fit(method, made.kernel, made.observations, mu, np.random.default_rng(0))
        seen = made.observations
        found.append(outcome.prediction.at(seen.rows, seen.cols) / math.sqrt(settings.power))
    # MC starts at random on [0, 1], whatever the scale of the data.
    assert np.corrcoef(*found)[0, 1] > (0.95 if method == "mc" else 1 - 1e-6)
    if method != "mc":
        np.testing.assert_allclose(*found, atol=2e-3)


def test_all_198_numbers_are_compared_and_the_sentence_follows_them():
    one, *_, last = acceptable_settings(0)
    found = deviations(one, points(1.0)) + deviations(last, points(1.5))
    assert len(found) == 2 * 198
    text = what_hangs_on_it(found)
    assert f"187 of 187 for a = {one.exponent:g}" in text
    assert f"0 of 187 for a = {last.exponent:g}" in text
    assert "187 of 187 numbers are within it for some acceptable pairs" in text
    assert "differs by 50% between pairs" in text


def test_a_small_run_is_written(tmp_path):
    plan = RunPlan(sizes=(100,), panels=("a",), counts={"kkmcex": 2})
    found = run_pairs(plan, tmp_path, Serial())
    page = write_pairs(found, tmp_path)
    assert "| (a) | KKMCEX | test | 100 |" in page.read_text(encoding="utf-8")
    with (tmp_path / "constants.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * len(acceptable_settings(0))
    assert run_pairs(plan, tmp_path, Serial()) == found


def test_the_page_quotes_its_table():
    docs = Path(__file__).parents[2] / "docs"
    line = next(
        line
        for line in (docs / "fig1-constants.md").read_text("utf-8").splitlines()
        if line.startswith("| (a) | MC | test | 1000 |")
    )
    low, *_, high = re.findall(r"([+-]\d+)%", line)
    text = f"is {-int(low)}% below or {int(high)}% above the paper's"
    assert text in (docs / "fig1.md").read_text("utf-8")


def test_the_published_page_is_that_of_the_published_table():
    docs = Path(__file__).parents[2] / "docs"
    kinds = {"str": str, "int": int, "float": float}
    types = {field.name: kinds[field.type] for field in fields(Deviation)}
    with (docs / "fig1-constants.csv").open(encoding="utf-8") as file:
        found = [
            Deviation(**{name: types[name](x) for name, x in row.items()})
            for row in csv.DictReader(file)
        ]
    assert len(found) == 198 * len(acceptable_settings(0))
    assert (docs / "fig1-constants.md").read_text("utf-8") == pairs_text(found)

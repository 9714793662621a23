"""What the sentences say, for the numbers they are made from."""

from __future__ import annotations

import re

import pytest

from kronfill.report.build import build
from kronfill.report.content import plain
from kronfill.report.html.formats import Numbers
from kronfill.report.verdicts import part_verdict, verdicts


@pytest.fixture
def numbers(kkmcex):
    return Numbers(plain(build(kkmcex, None, (-2, 2), 0, None)))


def said(verdict):
    return re.sub("<[^>]*>", "", verdict.text), verdict.tone


def test_a_part_that_is_better(numbers):
    text, tone = said(part_verdict(numbers, 0))
    gain = numbers.get("accuracy.parts.0.gain")
    assert f"are {100 * gain:.0f}% better than the mean of all values." in text
    assert tone == "good"


@pytest.mark.parametrize(
    ("changes", "words", "tone"),
    [
        ({"gain": -0.1}, "no better than the mean of all values: do not use them", "bad"),
        ({"gain": 0.0}, "no better than", "bad"),
        ({"gain": 0.3, "clear": False}, "30% better than the mean of all values, but this", "warn"),
        ({"gain": 0.3, "count": 7}, "may be chance (only 7 entries)", "warn"),
        ({"gain": 0.3, "best": "effects"}, "30% better than row and column averages.", "good"),
        ({"gain": None}, "is exact already", "good"),
    ],
)
def test_other_parts(numbers, changes, words, tone):
    numbers.get("accuracy.parts.0").update(changes)
    found = said(part_verdict(numbers, 0))
    assert words in found[0]
    assert found[1] == tone


def test_all_kinds_together(numbers):
    assert said(verdicts(numbers)["accuracy"])[1] == "good"
    numbers.get("accuracy.parts.1")["gain"] = -1.0
    text, tone = said(verdicts(numbers)["accuracy"])
    assert text == (
        "Clearly better than simple rules for missing entries of known rows and columns and new "
        "columns; not for the rest."
    )
    assert tone == "warn"
    for part in numbers.get("accuracy.parts"):
        part["gain"] = -1.0
    assert said(verdicts(numbers)["accuracy"])[1] == "bad"
    numbers.get("accuracy")["parts"] = []
    assert "could not be measured" in said(verdicts(numbers)["accuracy"])[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rmse": 0.01, "valid": True}, "is at most 0.01."),
        ({"rmse": 100.0, "valid": True}, "this says little"),
        ({"rmse": None, "valid": True}, "Nothing useful can be proved"),
        ({"rmse": 0.01, "valid": False}, "does not apply here"),
    ],
)
def test_the_certificate(numbers, changes, words):
    numbers.get("guarantee").update(changes)
    assert words in said(verdicts(numbers)["certificate"])[0]
    numbers.tree["guarantee"] = None
    assert (
        "needs the range of the values, and a method" in said(verdicts(numbers)["certificate"])[0]
    )


def test_what_else_may_be_wrong(numbers):
    numbers.get("method")["converged"] = False
    numbers.get("data").update(even=False, cold_rows=1, cold_columns=2)
    numbers.get("cells")["width_widest"] = True
    found = {name: said(verdict) for name, verdict in verdicts(numbers).items()}
    assert found["method"][1] == "bad"
    assert "1 row and 2 columns had no measurement at all" in found["data"][0]
    assert "spread unevenly" in found["data"][0]
    assert "nothing bounds the value" in found["table"][0]

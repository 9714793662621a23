"""Labels on a page: short, on one line, harmless."""

from __future__ import annotations

import datetime

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kronfill.report.labels import LONGEST, shown


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("plain", "plain"),
        (7, "7"),
        (("a", 1), "a / 1"),
        (datetime.datetime(2024, 5, 1), "2024-05-01"),
        (datetime.datetime(2024, 5, 1, 12, 30), "2024-05-01 12:30:00"),
        (pd.Timestamp("2024-05-01"), "2024-05-01"),
        (datetime.date(2024, 5, 1), "2024-05-01"),
        ("", "(blank)"),
        (" \n\t ", "(blank)"),
        ("two\nlines", "two lines"),
        ("\u202edesrever", "desrever"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("שלום", "שלום"),
    ],
)
def test_how_labels_are_shown(label, text):
    assert shown(label) == text


def test_a_long_label_is_cut():
    assert shown("x" * 1000) == "x" * (LONGEST - 1) + "…"


@given(st.text())
def test_any_text_is_one_short_line(text):
    found = shown(text)
    assert 0 < len(found) <= LONGEST
    assert len(found.splitlines()) == 1
    assert not set(found) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x00")

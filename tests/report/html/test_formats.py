"""Numbers as they are written."""

from __future__ import annotations

import pytest

from kronfill.report.html.formats import Numbers, written


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (None, "g", "–"),
        ("infinite", "g", "∞"),
        ("-infinite", "g", "−∞"),
        (1234567, "i", "1,234,567"),
        (3.0, "i", "3"),
        (0.123456, "g", "0.1235"),
        (-2.5, "g", "−2.5"),
        (1.5e-7, "g", "1.5e−7"),
        (1e20, "g", "1e20"),
        (0.5, "%", "50%"),
        (0.0, "%", "0%"),
        (0.0012, "%", "0.12%"),
        (0.9996, "%", "99.9%"),
        (1.0, "%", "100%"),
        (-0.2, "%", "-20%"),
        (0.0312, "p", "= 0.031"),
        (1e-9, "p", "< 0.0001"),
        (-0.756, "r", "−0.76"),
        (-0.001, "r", "0.00"),
        ("any text", "t", "any text"),
    ],
)
def test_written(value, form, text):
    assert written(value, form) == text


def test_a_number_is_shown_with_its_path_and_text_is_escaped():
    numbers = Numbers({"a": [{"b": 0.25}, {"b": "<i>"}]})
    assert numbers.show("a.0.b", "%") == '<span data-n="a.0.b" data-f="%">25%</span>'
    assert numbers.show("a.1.b", "t") == '<bdi data-n="a.1.b" data-f="t">&lt;i&gt;</bdi>'

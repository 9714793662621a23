"""Numbers with their nouns."""

from __future__ import annotations

import pytest

from kronfill.data._counts import count_of


@pytest.mark.parametrize(
    ("n", "nouns", "said"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (1, ("entry", "entries"), "1 entry"),
        (1234567, ("entry", "entries"), "1,234,567 entries"),
    ],
)
def test_singular_and_plural(n, nouns, said):
    assert count_of(n, *nouns) == said

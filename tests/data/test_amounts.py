"""Numbers with their nouns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import kronfill
from kronfill.data.amounts import count_of, size_of
from kronfill.streaming.streamed import parse_memory


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


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (2**20, "1.05 MB"),
        (999_499, "999 kB"),
        (999_600, "1 MB"),
        (123_456_789, "123 MB"),
        (2.5e9, "2.5 GB"),
        (8e18, "8 EB"),
        (8e22, "8e+04 EB"),
    ],
)
def test_a_megabyte_is_a_million_bytes(count, said):
    assert size_of(count) == said


@pytest.mark.parametrize("count", [5, 4321, 31_415_926, 2**30, 25_300_000_000, 7e12])
def test_sizes_are_printed_as_they_are_read(count):
    assert parse_memory(size_of(count)) == pytest.approx(count, rel=0.005)


def test_nothing_else_prints_sizes():
    """A number before a unit comes from size_of; a text such as "2GB" may stand as it is."""
    by_hand = re.compile(r"\}\s?([kKMGT]i?)B\b|2\s?\*\*\s?[23]0.*[MG]i?B|1e[69].*[MG]i?B")
    for path in Path(kronfill.__file__).parent.rglob("*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not by_hand.search(line), f"{path.name}: {line}"

"""Tables of several runs put together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kronfill.paper.results.joined import joined, write_joined
from kronfill.paper.results.numbers import numbers
from kronfill.paper.results.table import from_csv, to_csv

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "fig1.csv").read_text("utf-8")


def test_of_each_point_the_row_with_more_realisations_counts():
    points = from_csv(TEXT)
    more = [replace(p, value=2 * p.value, realizations=p.realizations + 1) for p in points[::2]]
    fewer = [replace(p, value=3 * p.value, realizations=p.realizations - 1) for p in points]
    alike = [replace(p, value=4 * p.value) for p in points]
    found = joined([points, more[::-1], fewer, alike])
    assert [p.value for p in found[::2]] == [2 * p.value for p in points[::2]]
    assert found[1::2] == points[1::2]


def test_a_part_of_a_table_and_the_rest_give_the_table_in_any_order():
    points = from_csv(TEXT)
    assert to_csv(joined([points[100:], points[:100]])) == TEXT
    assert to_csv(joined([points[::-1]])) == TEXT
    assert joined([]) == []


def test_what_follows_from_the_table_is_written_anew(tmp_path):
    (tmp_path / "fig1.csv").write_text(TEXT, "utf-8")
    (tmp_path / "fig1.md").write_text("It is 0.1 ± 0.2 (`a/MC/test/100`).", "utf-8")
    (tmp_path / "figures").mkdir()
    point = next(p for p in from_csv(TEXT) if (p.algorithm, p.metric) == ("MC", "test"))
    better = replace(point, value=0.5, stderr=0.01, realizations=point.realizations + 1)
    (tmp_path / "more.csv").write_text(to_csv([better]), "utf-8")
    points = write_joined(tmp_path, [tmp_path / "more.csv"])
    assert (tmp_path / "fig1.csv").read_text("utf-8") == to_csv(points)
    assert better in points
    assert (tmp_path / "fig1-numbers.md").read_text("utf-8") == numbers(points)
    assert (tmp_path / "fig1.md").read_text("utf-8") == "It is 0.5 ± 0.01 (`a/MC/test/100`)."
    for name in ("fig1", "fig1-variants"):
        assert (tmp_path / "figures" / f"{name}.png").stat().st_size > 10_000

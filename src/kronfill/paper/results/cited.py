"""Numbers of a page that name their row of the table: written from the table, never by hand.

A number is followed by the name of its row, panel/method/loss/N, in code and parentheses:
``0.0303 ± 0.0016 (`a/MC (mu = 0.1)/test/100`)``. ``python -m kronfill.paper.results.cited PAGE
TABLE`` writes every such number anew; a test asserts that this changes nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from kronfill.errors import DataError
from kronfill.paper.results.table import Point, from_csv

__all__ = ["cited"]

_NUMBER = r"[0-9][0-9.]*(?:e[+-]?[0-9]+)?"
_CITED = re.compile(
    rf"{_NUMBER}(?P<error> ± {_NUMBER})?"
    r" \(`(?P<panel>[a-z]+)/(?P<label>[^/`]+)/(?P<metric>[a-z]+)/(?P<size>\d+)`\)"
)


def cited(text: str, points: Iterable[Point]) -> str:
    """The text with every number that names its row as the table has it.

    Raises
    ------
    DataError
        If the table has no such row.

    Examples
    --------
    >>> from kronfill.paper.results.cited import cited
    >>> from kronfill.paper.results.table import Point
    >>> row = Point("a", 4.0, "MC", "test", 100, 0.25, 0.0125, 9, 0.3)
    >>> cited("MC has 0.2 ± 0.1 (`a/MC/test/100`).", [row])
    'MC has 0.25 ± 0.013 (`a/MC/test/100`).'
    """
    rows = {f"{p.panel}/{p.algorithm}/{p.metric}/{p.N}": p for p in points}

    def written(found: re.Match[str]) -> str:
        name = "/".join(found[part] for part in ("panel", "label", "metric", "size"))
        if name not in rows:
            msg = f"The page names the row {name}, which the table does not have."
            raise DataError(msg)
        point = rows[name]
        error = f" ± {point.stderr:.2g}" if found["error"] else ""
        return f"{point.value:.3g}{error} (`{name}`)"

    return _CITED.sub(written, text)


if __name__ == "__main__":
    page, table = map(Path, sys.argv[1:])
    text = cited(page.read_text("utf-8"), from_csv(table.read_text("utf-8")))
    page.write_text(text, "utf-8")

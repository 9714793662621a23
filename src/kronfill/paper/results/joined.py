"""Tables of several runs put together, and what follows from the table alone written anew.

A long run need not be done in one piece: runs of some sizes or methods, with the same seed and
constants, have the same realisations in the same order, so that of two rows for one point the one
with more realisations contains the other. ``python -m kronfill.paper.results.joined FOLDER
TABLE...`` puts tables into that of the folder of this documentation, and writes its numbers,
figures and cited numbers anew.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from kronfill._atomic import Publication
from kronfill.paper.results.cited import cited
from kronfill.paper.results.figure import draw_figure, draw_variants
from kronfill.paper.results.numbers import numbers
from kronfill.paper.results.table import Point, from_csv, in_order, to_csv

__all__ = ["joined", "png", "write_joined"]


def joined(tables: Iterable[Sequence[Point]]) -> list[Point]:
    """Of every point the row with the most realisations, of equals the first.

    Examples
    --------
    >>> from kronfill.paper.results.joined import joined
    >>> from kronfill.paper.results.table import Point
    >>> few, many = (Point("a", 4.0, "MC", "test", 100, x, 0.1, n, 1.0)
    ...              for x, n in ((0.9, 30), (1.1, 100)))
    >>> [point.value for point in joined([[few], [many]])]
    [1.1]
    """
    best: dict[tuple[str, str, str, int], Point] = {}
    for point in chain.from_iterable(tables):
        key = point.panel, point.algorithm, point.metric, point.N
        if key not in best or point.realizations > best[key].realizations:
            best[key] = point
    return in_order(best.values())


def write_joined(folder: Path, tables: Iterable[Path]) -> list[Point]:
    """Join tables into ``fig1.csv`` of a folder and write what follows from it; gives the points.

    That is ``fig1-numbers.md``, ``figures/fig1.png``, ``figures/fig1-variants.png`` and the numbers
    of ``fig1.md`` that name their row.
    """
    table, page = folder / "fig1.csv", folder / "fig1.md"
    points = joined(from_csv(path.read_text("utf-8")) for path in (table, *tables))
    contents = {
        table: to_csv(points).encode("utf-8"),
        folder / "fig1-numbers.md": numbers(points).encode("utf-8"),
        page: cited(page.read_text("utf-8"), points).encode("utf-8"),
        folder / "figures" / "fig1.png": png(draw_figure(points)),
        folder / "figures" / "fig1-variants.png": png(draw_variants(points)),
    }
    with Publication() as publication:
        for path, content in contents.items():
            with publication.open(path) as file:
                file.write(content)
    return points


def png(figure: Any) -> bytes:
    """A figure as a PNG file."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=130)
    return out.getvalue()


if __name__ == "__main__":
    write_joined(Path(sys.argv[1]), map(Path, sys.argv[2:]))

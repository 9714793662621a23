"""The completed table on the page: still pictures, and a viewer where scripts may run."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from kronfill.report.cells import decoded
from kronfill.report.html.formats import Numbers
from kronfill.report.html.pictures import STATUS, VALUES, WIDTHS, Color, palette, png_uri
from kronfill.report.html.pieces import section, table
from kronfill.report.verdicts import Finding

__all__ = ["picture", "table_section"]


def table_section(n: Numbers, verdict: Finding) -> str:
    """The completed table as a picture, with uncertainty."""
    cells = n.tree["cells"]
    if cells["averaged"]:
        size = (
            f"The table is too large for a page: each of the {n.show('cells.rows', 'i')} × "
            f"{n.show('cells.columns', 'i')} cells is the mean of a block of neighbouring rows and "
            "columns; its uncertainty is that of the entry in its middle."
        )
    else:
        size = "Each cell is one entry of the table, in the order of the table."
        if (cells["width_rows"], cells["width_columns"]) != (cells["rows"], cells["columns"]):
            size += (
                f" Uncertainty was computed at {n.show('cells.width_rows', 'i')} × "
                f"{n.show('cells.width_columns', 'i')} entries spread over the table."
            )
    level = n.show("uncertainty.level", "%")
    if n.tree["uncertainty"]["kind"] == "none":
        sure = f"There are no intervals: {n.show('uncertainty.told', 't')}."
    else:
        sure = (
            f"“±” is half the width of the interval that is to contain {level} of the values "
            f"({n.show('uncertainty.told', 't')})."
        )
    filled = picture(n, "values", palette(VALUES), "The completed table", "The completed table.")
    unsure = ""
    if cells["width_high"] > 0:
        unsure = picture(
            n, "width", palette(WIDTHS), "Uncertainty of the completed table",
            "Half the width of the interval; empty where the table was measured.",
        )  # fmt: skip
    body = (
        f"<p>{size} {sure}</p>{_viewer(n)}"
        f'<div class="static">{_legends(n)["completed"]}{filled}</div>'
        f'<div class="static">{_legends(n)["uncertainty"] if unsure else ""}{unsure}</div>'
        f"{_coverage(n)}"
    )
    return section("table", verdict, body)


def _coverage(n: Numbers) -> str:
    """How often intervals hold, group by group."""
    count = len(n.tree["uncertainty"]["coverage"])
    if not count:
        return ""
    lines = []
    for k in range(count):
        at = f"uncertainty.coverage.{k}"
        shares = [n.show(f"{at}.entries", "i"), n.show(f"{at}.coverage", "%")]
        lines.append([n.show(f"{at}.group", "t"), *shares, n.show(f"{at}.width")])
    head = ("known rows and columns", "hidden entries", "inside", "median width")
    return table("How often the intervals hold", head, lines, numbers=3)


def _viewer(n: Numbers) -> str:
    layers = {"completed": "Completed values", "uncertainty": "Uncertainty (±)",
              "status": "Measured, filled, extrapolated"}  # fmt: skip
    if not n.tree["cells"]["width_high"] > 0:
        del layers["uncertainty"]
    options = "".join(f'<option value="{key}">{name}</option>' for key, name in layers.items())
    legends = "".join(
        f'<div data-layer="{key}" class="legend"{"" if key == "completed" else " hidden"}>'
        f"{_legends(n)[key]}</div>"
        for key in layers
    )
    return (
        '<div id="viewer"><div class="tools"><label for="layer">Show</label>'
        f'<select id="layer">{options}</select>'
        '<button id="in" aria-label="Zoom in">+</button>'
        '<button id="out" aria-label="Zoom out">−</button>'
        '<button id="all">Whole table</button></div>'
        f'{legends}<canvas id="heat" tabindex="0" role="img" aria-describedby="where keys" '
        'aria-label="The completed table as a picture; arrow keys move from entry to entry">'
        '</canvas><p id="where" aria-live="polite"></p>'
        '<p class="note" id="keys">Point at or tap a cell. Zoom: buttons, two fingers, double '
        "click, or the wheel after a click; drag to move; arrow keys, + − and 0.</p></div>"
    )


def _legends(n: Numbers) -> dict[str, str]:
    words = ("measured", "filled", "extrapolated")
    swatches = " ".join(
        f'<span><span class="swatch" style="background:rgb{color}"></span>{word}</span>'
        for word, color in zip(words, STATUS, strict=True)
    )
    return {
        "completed": _bar(n.show("cells.scale.0"), VALUES, n.show("cells.scale.1")),
        "uncertainty": _bar("±" + n.show("cells.width_low"), WIDTHS,
                            "±" + n.show("cells.width_high")),
        "status": f'<span class="legend">{swatches}</span>',
    }  # fmt: skip


def _bar(low: str, anchors: Sequence[Color], high: str) -> str:
    colors = ", ".join(f"rgb{color}" for color in anchors)
    return (
        f'<span class="legend">{low}<span class="bar" role="presentation" '
        f'style="background:linear-gradient(to right, {colors})"></span>{high}</span>'
    )


def picture(n: Numbers, name: str, colors: list[Color], alt: str, caption: str) -> str:
    """One of the grids as a picture that needs no script."""
    cells = n.tree["cells"]
    shape = (cells["rows"], cells["columns"])
    if name == "width":
        shape = (cells["width_rows"], cells["width_columns"])
    grid = decoded(cells[name], 0.0, 1.0).reshape(shape)
    if name == "values":
        span = cells["high"] - cells["low"]
        low, high = (((end - cells["low"]) / span if span else 0.5) for end in cells["scale"])
        grid = np.clip((grid - low) / ((high - low) or 1.0), 0.0, 1.0)
    if name == "observed":
        grid = np.sqrt(grid / cells["observed_most"])  # small shares are to be seen too
    # The last code is the transparent one: where there is nothing. Shares fade into the page.
    codes = np.where(np.isnan(grid), 255, np.rint(grid * 254)).astype(np.uint8)
    alpha = bytes(range(255)) if name == "observed" else bytes([255]) * 255
    source = png_uri(codes, colors, alpha + bytes(1))
    return (
        f'<figure><img class="cells" alt="{escape(alt)}" src="{source}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )

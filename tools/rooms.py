"""Draw the rooms of the library: the layers in pyproject.toml, and what each says of itself.

``python tools/rooms.py`` writes docs/figures/rooms.svg.
"""

from __future__ import annotations

import ast
import tomllib
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "figures" / "rooms.svg"
WIDTH, HEIGHT, GAP, NAME = 860, 44, 8, 150


def layers(settings: dict[str, Any]) -> list[list[str]]:
    """Names of the rooms, those that may call all others first; rooms of a layer side by side.

    Examples
    --------
    >>> contract = {"layers": ["lib.cli", "lib.data | lib.core"]}
    >>> layers({"tool": {"importlinter": {"contracts": [contract]}}})
    [['lib.cli'], ['lib.data', 'lib.core']]
    """
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def summary(room: str) -> str:
    """First line of what a package or module says of itself."""
    path = ROOT / "src" / Path(*room.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text("utf-8"))) or ""
    return text.partition("\n")[0]


def picture(rooms: list[list[str]]) -> str:
    """One bar for each room, a line of them for each layer."""
    below = len(rooms) * (HEIGHT + GAP) + GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {below}" '
        'font-family="system-ui, sans-serif" role="img">'
    )
    parts = [
        head,
        "<title>The rooms of kronfill: each calls only those below it</title>",
    ]
    for at, layer in enumerate(rooms):
        width = (WIDTH - GAP * (len(layer) + 1)) / len(layer)
        for place, room in enumerate(layer):
            x, y = GAP + place * (width + GAP), GAP + at * (HEIGHT + GAP)
            parts += _bar(room.partition(".")[2], summary(room), x, y, width, len(layer) > 1)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(name: str, words: str, x: float, y: float, width: float, narrow: bool) -> list[str]:
    bar = (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{HEIGHT}" rx="6" '
        'fill="#e8eef7" stroke="#7c93b8"/>'
    )
    middle = y + HEIGHT / 2 + 5
    shown = (
        f'<text x="{x + 12:.0f}" y="{middle:.0f}" font-size="15" font-weight="600" '
        f'fill="#1d3557">{escape(name)}</text>'
    )
    if narrow:  # what the rooms of such a layer hold is in the table of the page
        return [bar, shown]
    line = (
        f'<text x="{x + NAME:.0f}" y="{middle:.0f}" font-size="13" '
        f'fill="#333">{escape(words)}</text>'
    )
    return [bar, shown, line]


def main() -> None:
    """Write the picture."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    PICTURE.write_text(picture(layers(settings)), encoding="utf-8")


if __name__ == "__main__":
    main()

"""How numbers are written, and the one place where they get into the page."""

from __future__ import annotations

import math
from html import escape
from typing import Any

__all__ = ["Numbers", "written"]


def written(value: Any, form: str) -> str:
    """A value as text.

    "i" is whole, "g" has four digits, "r" two decimals, "%" is per cent, "p" a probability and "t"
    stands as it is.
    """
    if value is None:
        return "–"
    if value in ("infinite", "-infinite"):
        return "∞" if value == "infinite" else "−∞"
    if form == "t":
        return str(value)
    if form == "i":
        return f"{round(value):,}"
    if form == "%":
        return _percent(100.0 * float(value))
    if form == "r":
        return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")
    if form == "p":
        return f"= {value:.2g}" if value >= 1e-4 else "< 0.0001"
    return _four(float(value))


def _percent(value: float) -> str:
    if value and abs(value) < 1:
        return f"{value:.2g}%"
    if 99 < value < 100:
        return f"{math.floor(10 * value) / 10:g}%"
    return f"{value:.0f}%"


def _four(value: float) -> str:
    text = f"{value:.4g}"
    if "e" in text:
        base, power = text.split("e")
        text = f"{base}e{int(power)}"
    return text.replace("-", "−")


class Numbers:
    """The contents of a report as plain dicts and lists, by path.

    Whatever is shown goes through :meth:`show`, which leaves the path beside it: a reader (and a
    test) can tell for each number on the page where it comes from.
    """

    def __init__(self, tree: dict[str, Any]) -> None:
        self.tree = tree

    def get(self, path: str) -> Any:
        """What is at a path such as ``accuracy.parts.0.count``."""
        found: Any = self.tree
        for step in path.split("."):
            found = found[int(step)] if isinstance(found, list) else found[step]
        return found

    def show(self, path: str, form: str = "g") -> str:
        """HTML of what is there."""
        tag = "bdi" if form == "t" else "span"
        text = escape(written(self.get(path), form))
        return f'<{tag} data-n="{escape(path)}" data-f="{form}">{text}</{tag}>'

"""How labels are shown: short, on one line, dates as dates."""

from __future__ import annotations

import datetime
import unicodedata
from typing import Any

__all__ = ["LONGEST", "shown"]

LONGEST = 48
"""Characters of a label that are shown."""


def shown(label: Any) -> str:
    """The label as text of one line and bounded length.

    Control characters, line breaks and marks that turn the direction of what follows become spaces:
    a label must not be able to change how the text around it reads.
    """
    text = _text(label)
    plain = "".join(" " if _disturbs(char) else char for char in text[: 4 * LONGEST])
    plain = " ".join(plain.split())
    if not plain:
        return "(blank)"
    return plain if len(plain) <= LONGEST else plain[: LONGEST - 1] + "…"


def _text(label: Any) -> str:
    if isinstance(label, tuple):
        return " / ".join(_text(part) for part in label)
    if isinstance(label, datetime.datetime) and label.time() == datetime.time():
        return label.date().isoformat()
    return str(label)


def _disturbs(char: str) -> bool:
    # Cf holds the joiners of emoji too (U+200D), which disturb nothing.
    kind = unicodedata.category(char)
    return kind in ("Cc", "Cs", "Zl", "Zp") or (kind == "Cf" and char != "\u200d")

"""Pieces of HTML that all sections are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from kronfill.report.verdicts import Finding

__all__ = ["TITLES", "fact_table", "scrolling", "section", "table"]

TITLES = {
    "data": "What went in",
    "method": "Method and parameters",
    "accuracy": "How accurate it is",
    "table": "The completed table",
    "entries": "Entries to look at",
    "certificate": "Certificate",
    "environment": "Environment",
}
"""The sections of the page, in their order."""


def section(key: str, verdict: Finding | None, body: str) -> str:
    """A section: heading, verdict, what it is about."""
    lead = "" if verdict is None else f'<p class="lead {verdict.tone}">{verdict.text}</p>'
    title = f'<h2 id="{key}">{TITLES[key]}</h2>'
    return f'<section aria-labelledby="{key}">{title}{lead}{body}</section>'


def fact_table(caption: str, lines: Iterable[tuple[str, str]]) -> str:
    """A table of two columns: what, and how much."""
    rows = "".join(f'<tr><th scope="row">{name}</th><td>{text}</td></tr>' for name, text in lines)
    return scrolling(f"<table><caption>{caption}</caption><tbody>{rows}</tbody></table>", caption)


def table(
    caption: str, head: Sequence[str], lines: Iterable[Sequence[str]], numbers: int = 0
) -> str:
    """A table whose last ``numbers`` columns hold numbers."""
    first = len(head) - numbers
    kinds = ["" if k < first else ' class="num"' for k in range(len(head))]
    top = "".join(
        f'<th scope="col"{kind}>{name}</th>' for kind, name in zip(kinds, head, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{text}</td>" for kind, text in zip(kinds, line, strict=True))
        + "</tr>"
        for line in lines
    )
    table = f"<table><caption>{caption}</caption><thead><tr>{top}</tr></thead><tbody>{rows}</tbody>"
    return scrolling(f"{table}</table>", caption)


def scrolling(content: str, label: str) -> str:
    """A table that scrolls by itself where the page is narrow."""
    name = escape(label)
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{name}">{content}</div>'

"""The whole page, from the contents of a report: head, summary, sections, numbers as JSON."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from kronfill.report.content import Report, plain
from kronfill.report.html.accuracy import accuracy_section
from kronfill.report.html.formats import Numbers
from kronfill.report.html.opening import opening
from kronfill.report.html.pictures import STATUS, VALUES, WIDTHS, palette
from kronfill.report.html.pieces import TITLES
from kronfill.report.html.sections import (
    data_section,
    entries_section,
    environment_section,
    guarantee_section,
    method_section,
)
from kronfill.report.html.viewer import table_section
from kronfill.report.verdicts import WHAT, Finding, part_verdict, verdicts

__all__ = ["page"]

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<link rel="icon" href="data:,">
"""


def page(report: Report) -> str:
    """The whole document; every number in it is also in its block of JSON."""
    n = Numbers(plain(report))
    findings = verdicts(n)
    sections = [
        data_section(n, findings["data"]),
        method_section(n, findings["method"]),
        accuracy_section(n, findings["accuracy"]),
        table_section(n, findings["table"]),
        entries_section(n, findings["entries"]),
        guarantee_section(n, findings["certificate"]),
        environment_section(n),
    ]
    rows, columns = (_counted(n, f"data.{what}s", what) for what in ("row", "column"))
    title = f"Completed table: {rows} × {columns}"
    view = {
        "values": palette(VALUES),
        "widths": palette(WIDTHS),
        "status": STATUS,
        "words": ("measured", "filled", "extrapolated"),
    }
    return (
        f"{HEAD}<title>Completed table</title>\n<style>{_file('report.css')}</style></head>\n"
        f"<body>\n<header><h1>{title}</h1>{opening(n)}{_summary(n, findings)}{_contents()}</header>"
        "\n<main>\n"
        + "\n".join(sections)
        + "\n</main>\n<footer>Written by kronfill. The page is complete in itself: it loads "
        "nothing and sends nothing.</footer>\n"
        f'<script type="application/json" id="numbers">{_json(n.tree)}</script>\n'
        f'<script type="application/json" id="view">{_json(view)}</script>\n'
        f"<script>{_file('report.js')}</script>\n</body></html>\n"
    )


def _counted(n: Numbers, path: str, what: str) -> str:
    return f"{n.show(path, 'i')} {what}{'' if n.get(path) == 1 else 's'}"


def _summary(n: Numbers, findings: dict[str, Finding]) -> str:
    """The verdicts that matter most, at the top."""
    lines = [(TITLES["data"], findings["data"]), ("Method", findings["method"])]
    kinds = [part["kind"] for part in n.tree["accuracy"]["parts"]]
    names = {kind: what.capitalize() for kind, what in WHAT.items()} | {"known": "Missing entries"}
    lines += [(names[kind], part_verdict(n, k)) for k, kind in enumerate(kinds)]
    if not kinds:
        lines.append(("Accuracy", findings["accuracy"]))
    lines.append((TITLES["certificate"], findings["certificate"]))
    items = "".join(
        f'<li class="{verdict.tone}"><b>{name}</b>{verdict.text}</li>' for name, verdict in lines
    )
    return f'<ul class="summary" aria-label="In short">{items}</ul>'


def _contents() -> str:
    links = "".join(f'<li><a href="#{key}">{name}</a></li>' for key, name in TITLES.items())
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _json(tree: Any) -> str:
    """JSON that cannot end the script it stands in."""
    text = json.dumps(tree, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    return files("kronfill.report").joinpath("files", name).read_text(encoding="utf-8")

"""The page of results: tables between markers come from the JSON files, the prose is kept."""

from __future__ import annotations

import re
from pathlib import Path

from studies import active_choice, bixi, certificates, conformal_coverage, drug_response, seattle
from studies.common import RESULTS, load

PAGE = Path(__file__).parents[1] / "docs" / "results.md"


def tables(folder=RESULTS):
    """Markdown of every study that has a result, by the name of its place on the page."""
    made = {}
    for name, study in {
        "seattle": seattle,
        "drug_response": drug_response,
        "bixi": bixi,
        "certificates": certificates,
    }.items():
        result = load(name, folder)
        if result is not None:
            made[name] = study.table(result)
    intervals = [load(f"conformal_{name}", folder) for name in ("drug", "bixi", "seattle")]
    if any(result is not None for result in intervals):
        made["conformal"] = conformal_coverage.table(intervals)
    choices = [load(f"active_{name}", folder) for name in ("drug", "bixi")]
    if any(result is not None for result in choices):
        made["active"] = "\n\n".join(active_choice.table(r) for r in choices if r is not None)
    return made


def write(page=PAGE, folder=RESULTS, found=None):
    """Put the tables between their markers; a table without markers is an error."""
    text = page.read_text(encoding="utf-8")
    for name, made in (tables(folder) if found is None else found).items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
        text, found = pattern.subn(lambda _, new=f"{begin}\n{made}\n{end}": new, text)
        if found != 1:
            raise SystemExit(f"{page} has {found} places for {name!r}, expected one.")
    page.write_text(text, encoding="utf-8")

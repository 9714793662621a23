"""Options of ``kronfill complete`` that a streamed table does not have, one sentence each."""

from __future__ import annotations

from typing import Any

from kronfill.errors import ParameterError

__all__ = ["refuse"]

_WHY = {
    "report": "--report needs all observations in memory: take a part of the lines as a table of "
    "its own and write its report, or measure it with 'kronfill evaluate'.",
    "details": "--details is for wide tables; the output of a long one has a status in each line.",
    "index": "--index is for wide tables; a streamed table is long: name its columns with "
    "--row-column and --col-column.",
    "sheet": "--sheet is for Excel files; a streamed table consists of Parquet files.",
    "layout": "--layout wide cannot be streamed: write the table as a long one (row, column, "
    "value).",
    "duplicates": "--duplicates mean needs all observations in memory: merge the lines of an entry "
    "beforehand.",
    "unmatched": "--unmatched keep and drop need all labels beforehand: a streamed table may only "
    "have rows and columns that the side files describe.",
    "method": "A table is streamed by --method kkmcex or rrmcex; the other methods need it in "
    "memory.",
    "center": "A table is streamed with --center mean or none: take the effects of rows and "
    "columns off the values beforehand.",
    "intervals": "A streamed fit has no intervals: leave --intervals out, or complete a part of "
    "the table in memory.",
}
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "layout": ("long",), "duplicates": ("error",), "unmatched": ("error",),
    "method": ("kkmcex", "rrmcex"), "center": ("mean", "none"), "intervals": ("auto", "none"),
}  # fmt: skip


def refuse(**options: Any) -> None:
    """Raise for the first option that a streamed table does not have; None is not given."""
    for name, value in options.items():
        if value is not None and value not in _ALLOWED.get(name, ()):
            raise ParameterError(_WHY[name])

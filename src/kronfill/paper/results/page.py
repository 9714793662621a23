"""A page that needs nothing but a browser: figures, verdicts, tables."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

from kronfill.paper.limits import CLIP, DELTA, Limit
from kronfill.paper.methods import METHODS
from kronfill.paper.results.claims import claims
from kronfill.paper.results.table import (
    SOLVER_COLUMNS,
    Point,
    Records,
    costs,
    paired,
    solver_means,
)
from kronfill.paper.results.verdict import CurveVerdict, summary
from kronfill.paper.running.work import CellSettings

__all__ = ["page"]

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
img { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: 13px; } .wide { overflow-x: auto; }
td, th { padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: right; }
th { background: #f4f4f4; } td.text, th.text { text-align: left; }
.agrees { color: #176b2c; } .same { color: #8a5a00; } .differs { color: #a3141b; }
.not, .undecided, .calibrated { color: #666; }
details { margin-top: .6rem; }
"""

FIGURE_NOTE = (
    "<p>Lines with bands of two standard errors are ours, open markers the paper's. Shown are "
    "MC with mu = 0.1 from a uniform start and KMC by the paper's row-wise solver. All losses are "
    "mean squared errors, in squared units of the data, on logarithmic axes.</p>"
)
VERDICT_NOTE = (
    "A value agrees if it is within the tolerance and two standard errors are smaller than that. "
    "Curves that had a part in choosing a constant are marked as calibrated and do not count as "
    "agreement; the levels of MC and of panel (b) were in view when the power was chosen, so only "
    "their shapes count."
)
VARIANTS_NOTE = (
    "<p>MC: the same objective from another starting point, or with the ridge weight that "
    "cross-validation chooses. KMC: the same objective, carried to convergence by exact "
    "half-steps.</p>"
)
BOUNDS_NOTE = (
    f"<p>Bounds hold with probability {1 - DELTA:.0%} for a loss clipped to {CLIP:g} standard "
    "deviations of the data to either side. As printed they leave the range of the loss out, "
    "and are smaller than what can be proved.</p>"
)


def page(
    points: Sequence[Point],
    records: Records,
    judged: Sequence[CurveVerdict],
    bounds: Sequence[Limit],
    settings: CellSettings,
    pictures: Mapping[str, bytes],
) -> str:
    """The HTML page of a run, a document that needs no other file.

    ``pictures`` are PNG files: "fig1", "fig1-variants", "fig1-bounds" and "fig1-costs".
    """
    failed = [row for row in records if row["status"] == "failed"]
    parts = [
        "<h1>Figure 1 of the paper, reproduced</h1>",
        _introduction(records, settings),
        _failures(failed),
        "<h2>The figure</h2>",
        _image(pictures["fig1"], "Figure 1: ours as lines, the paper's values as open markers"),
        FIGURE_NOTE,
        "<h2>The paper's claims</h2>",
        _claims_table(points),
        "<h2>Verdict per curve</h2>",
        f"<p>{summary(judged)} {VERDICT_NOTE}</p>",
        _verdict_table(judged),
        "<h2>What the curves of MC and KMC hang on</h2>",
        _image(pictures["fig1-variants"], "Test loss of the variants of MC and KMC"),
        VARIANTS_NOTE,
        _solver_table(records),
        "<h2>Bounds beside the generalization error</h2>",
        _image(pictures["fig1-bounds"], "Measured generalization error and bounds against N"),
        BOUNDS_NOTE,
        _bounds_table(bounds),
        "<h2>Cost of a cell</h2>",
        _image(pictures["fig1-costs"], "Processor seconds per cell against N"),
        _cost_table(records),
        "<h2>All numbers</h2>",
        _points_table(points),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,"><title>Figure 1, reproduced</title>'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _introduction(records: Records, settings: CellSettings) -> str:
    done = sum(row["status"] == "done" for row in records)
    mu = "; ".join(
        f"({panel}) " + ", ".join(f"{name} {value:g}" for name, value in values.items())
        for panel, values in settings.mu.items()
    )
    made_with = html.escape("; ".join(sorted({row["versions"] for row in records})))
    return (
        f"<p>{done:,} cells, seed {settings.seed}. Data: weights k<sup>-{settings.exponent:g}</sup>"
        f" on the diagonal of D, mean power {settings.power:g}: of the pairs with which the test "
        "loss of KKMCEX without noise comes out as in the paper, the one nearest to earlier trials."
        f" No other curve was used. Ridge weights by cross-validation: {mu}. "
        f"Made with {made_with}.</p>"
    )


def _failures(failed: Sequence[Mapping[str, Any]]) -> str:
    if not failed:
        return ""
    rows = "".join(
        f'<tr><td class="text">{html.escape(row["key"])}</td>'
        f'<td class="text"><pre>{html.escape(row["error"])}</pre></td></tr>'
        for row in failed
    )
    return (
        f'<h2 class="differs">{len(failed)} cells failed</h2><p>They are missing from everything '
        f"below. Run the command again to try them again.</p><table>{rows}</table>"
    )


def _image(png: bytes, alt: str) -> str:
    code = base64.b64encode(png).decode("ascii")
    return f'<img alt="{html.escape(alt)}" src="data:image/png;base64,{code}">'


def _claims_table(points: Sequence[Point]) -> str:
    rows = [[html.escape(text) for text in row] for row in claims(points)]
    return _table(("claim", "what the numbers say"), rows, text=2) if rows else ""


def _verdict_table(judged: Sequence[CurveVerdict]) -> str:
    rows = "".join(
        f'<tr><td class="text">({v.panel})</td><td class="text">{v.algorithm}</td>'
        f'<td class="text">{v.metric}</td>'
        f'<td class="text {v.word.split()[0]}"><b>{v.word}</b></td>'
        f'<td class="text">{html.escape(v.sentence)}</td></tr>'
        for v in judged
    )
    return _framed(("panel", "method", "loss", "verdict", "why"), rows, text=5)


def _solver_table(records: Records) -> str:
    """KMC by both solvers on the realisations that both have."""
    rows = [
        [f"({panel})", str(size), str(len(pair[0])), *solver_means(pair, ".4g")]
        for (panel, size), pair in paired(records, "kmc-rowwise", "kmc").items()
    ]
    return _table(("panel", "N", "realisations", *SOLVER_COLUMNS), rows, text=1) if rows else ""


def _bounds_table(bounds: Sequence[Limit]) -> str:
    rows = [
        [f"({x.panel})", METHODS[x.method].label, str(x.N)]
        + [f"{value:.4g}" for value in (x.ge, x.norm, x.printed, x.corrected)]
        for x in bounds
    ]
    head = ("panel", "method", "N", "measured", "norm", "as printed", "corrected")
    return _folded("The numbers", _table(head, rows, text=2))


def _cost_table(records: Records) -> str:
    rows = [
        [label, str(size), *(f"{value:.4f}" for value in times)]
        for label, size, *times in costs(records)
    ]
    head = ("method", "N", "data, s", "fit, s", "losses, s")
    return _folded("Median processor seconds", _table(head, rows, text=1))


def _points_table(points: Sequence[Point]) -> str:
    rows = [
        [f"({p.panel})", p.algorithm, p.metric, str(p.N), f"{p.value:.4g}", _number(p.stderr),
         str(p.realizations), _number(p.paper)]
        for p in points
    ]  # fmt: skip
    head = ("panel", "method", "loss", "N", "value", "s.e.", "realisations", "paper")
    return _folded("Table", _table(head, rows, text=3))


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], text: int) -> str:
    """A table whose first ``text`` columns are text, the others numbers."""
    return _framed(head, "".join(f"<tr>{_cells('td', row, text)}</tr>" for row in rows), text)


def _framed(head: Sequence[str], rows: str, text: int) -> str:
    return f'<div class="wide"><table><tr>{_cells("th", head, text)}</tr>{rows}</table></div>'


def _cells(tag: str, row: Sequence[str], text: int) -> str:
    return "".join(
        f'<{tag} class="text">{cell}</{tag}>' if k < text else f"<{tag}>{cell}</{tag}>"
        for k, cell in enumerate(row)
    )


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>{content}</details>"

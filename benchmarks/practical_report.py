"""The part of ``docs/speed.md`` about ``practical``, and its picture: error against time."""

from __future__ import annotations

from pathlib import Path

from benchmarks import practical_goals as goals
from benchmarks.report import number

BEGIN, END = "<!-- practical: begin -->", "<!-- practical: end -->"
LABELS = {
    "default": "kronfill, default", "complete": "kronfill, KKMCEX", "kmc": "kronfill, KMC",
    "tuner": "kronfill, KernelTuner", "smurff": "SMURFF Macau", "myfm": "myFM",
    "cmfrec": "cmfrec", "botorch": "LatentKroneckerGP",
}  # fmt: skip
LOOKS = {
    "default": ("#B2182B", "*"), "complete": ("#D55E00", "o"), "kmc": ("#E69F00", "o"),
    "tuner": ("#8C510A", "P"), "smurff": ("#0072B2", "s"), "myfm": ("#009E73", "^"),
    "cmfrec": ("#CC79A7", "D"), "botorch": ("#666666", "v"),
}  # fmt: skip
SIZES = {"default": 13}
"""Of marks, in points, where it is not the usual one."""

SPAN, TICKS = (0.2, 150.0), (0.3, 1, 3, 10, 30, 100)
"""Seconds of every panel of the picture."""


def publish(results: dict, docs: Path) -> None:
    """Put the tables between the markers of the page, at its end where there are none; draw."""
    page = docs / "speed.md"
    text = page.read_text() if page.exists() else "# Speed\n"
    picture = "![Error against time](figures/practical.png)"
    new = f"{BEGIN}\n\n{picture}\n\n{tables(results)}\n{END}"
    if BEGIN in text:
        text = text[: text.index(BEGIN)] + new + text[text.index(END) + len(END) :]
    else:
        text = f"{text.rstrip()}\n\n## Ordinary tables\n\n{new}\n"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)
    draw(results, docs / "figures" / "practical.png")


def tables(results: dict) -> str:
    """Everything measured, as Markdown."""
    parts = [_goals(results), _seconds(results), _errors(results), _fixed(results)]
    return "\n".join(part for part in parts if part)


def _lines(title: str, head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return f"### {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _what(row: dict) -> str:
    if "shape" not in row:
        return row["name"]
    n, l = row["shape"]
    return f"{row['name']}, {n:,} x {l:,}, m = {row['m']:,}"


def _cell(row: dict, part: str, name: str = "seconds") -> str:
    found = row.get(part)
    if found is None:
        return row.get("failed", "") if part == "complete" else ""
    if name not in found:
        failed = found.get("failed", "")
        return "" if "no axis of numbers" in failed else failed[:60]
    return f"{found[name]:.3g}"


def ran(results: dict) -> list[str]:
    """Libraries and methods that were measured."""
    return [name for name in LABELS if any(name in row for row in results["tables"])]


def _goals(results: dict) -> str:
    said = {True: "yes", False: "**no**", None: ""}
    rows = [
        [
            goal["what"], f"at most {number(goal['bound'], goal['unit'])}",
            number(goal["value"], goal["unit"]), said[goal["met"]],
        ]
        for goal in goals.check(results)
    ]  # fmt: skip
    return _lines("Goals of ordinary tables", ["what", "goal", "measured", "met"], rows)


def _seconds(results: dict) -> str:
    names = ran(results)
    rows = []
    for row in results["tables"]:
        slowest = goals.slowest(row)
        goal = f"{goals.SECONDS[row['name']]:g}" if row["name"] in goals.SECONDS else ""
        cells = [_cell(row, name) for name in (*names, "evaluate", "folds")]
        rows.append([_what(row), "" if slowest is None else f"{slowest:.3g}", goal, *cells])
    head = ["table", "slowest fit at fixed mu", "goal of KKMCEX", *(LABELS[name] for name in names)]
    more = ["`evaluate` of the default", "`evaluate` of KKMCEX in folds"]
    return _lines("Seconds, everything chosen", [*head, *more], rows)


def _errors(results: dict) -> str:
    names = ran(results)
    rows = [
        [_what(row), *(_cell(row, name, "rmse") for name in names)] for row in results["tables"]
    ]
    return _lines("Root mean squared error", ["table", *(LABELS[name] for name in names)], rows)


def _fixed(results: dict) -> str:
    rows = []
    for row in results["tables"]:
        for fit in row.get("fixed", {}).get("fits", []):
            expected = fit["expected"]
            rows.append([
                row["name"], f"{fit['mu']:g}", f"{fit['seconds']:.2f}",
                "" if expected is None else f"{expected:.2g}",
                "" if expected is None else f"{expected / fit['seconds']:.2f}",
                fit["solver"], str(fit["iterations"]), f"{fit['residual']:.0e}",
                f"{fit['rmse']:.4f}", f"{fit['peak_gb']:.2f}",
            ])  # fmt: skip
    if not rows:
        return ""
    head = [
        "table", "mu", "seconds", "expected", "expected / taken", "solver", "iterations",
        "residual", "error", "GB",
    ]  # fmt: skip
    return _lines(f"Fits at fixed mu (goal: {goals.FIXED} s each)", head, rows)


def draw(results: dict, path: Path) -> None:
    """One panel per table: error against seconds."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rows = [row for row in results["tables"] if "shape" in row]
    across = min(4, max(1, len(rows)))
    down = -(-len(rows) // across) or 1
    figure, axes = plt.subplots(
        down, across, figsize=(3.4 * across, 3.0 * down), squeeze=False, layout="constrained"
    )
    for row, axis in zip(rows, axes.ravel(), strict=False):
        for name in ran(results):
            found = row.get(name, {})
            if "rmse" in found:
                colour, marker = LOOKS[name]
                axis.plot(
                    found["seconds"], found["rmse"], marker, color=colour, label=LABELS[name],
                    markersize=SIZES.get(name, 7), markeredgecolor="white", markeredgewidth=0.6,
                )  # fmt: skip
        axis.set_xscale("log")
        axis.set_xlim(*SPAN)
        axis.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axis.set_xticks([], minor=True)
        axis.set_title(_what(row).replace(", m", "\nm"), fontsize=8, loc="left")
        axis.grid(alpha=0.25)
        axis.margins(y=0.12)
    for axis in axes.ravel()[len(rows) :]:
        axis.set_visible(False)
    known = {
        label: handle
        for axis in axes.ravel()
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if known:
        figure.legend(known.values(), known.keys(), loc="outside upper center", ncols=8, fontsize=8)
    figure.supxlabel("seconds, everything chosen: further left is faster", fontsize=9)
    figure.supylabel("root mean squared error: lower is better", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)

"""One sentence for each section: what it comes to."""

from __future__ import annotations

from dataclasses import dataclass

from kronfill.completion.judging.evaluated import QUESTIONS, Evaluation
from kronfill.data.amounts import count_of
from kronfill.report.accuracy import accuracy
from kronfill.report.html.formats import Numbers

__all__ = ["WHAT", "Finding", "part_verdict", "plain_verdicts", "verdicts"]

FEW = 20
"""Fewer hidden entries say little."""
WHAT = {
    "known": "missing entries of known rows and columns",
    "row": "new rows",
    "column": "new columns",
    "both": "new rows in new columns",
}
RULES = {"mean": "the mean of all values", "effects": "row and column averages"}


@dataclass(frozen=True)
class Finding:
    """A sentence in HTML, and whether it is good news."""

    text: str
    tone: str = ""


def part_verdict(n: Numbers, k: int) -> Finding:
    """How the method compares with the better of two simple rules, for one kind of entries."""
    at = f"accuracy.parts.{k}"
    part = n.get(at)
    what, rule = WHAT[part["kind"]], RULES[part["best"]]
    few = f" (only {n.show(f'{at}.count', 'i')} entries)" if part["count"] < FEW else ""
    if part["doubt"]:
        return Finding(f"How good predictions for {what} are is not sure: {part['doubt']}.", "warn")
    if part["gain"] is None:
        return Finding(f"For {what} {rule} is exact already{few}.", "good")
    if part["gain"] <= 0:
        return Finding(
            f"Predictions for {what} are no better than {rule}{few}: do not use them here.", "bad"
        )
    better = f"Predictions for {what} are {n.show(f'{at}.gain', '%')} better than {rule}"
    if not part["clear"] or part["count"] < FEW:
        return Finding(f"{better}, but this may be chance{few}.", "warn")
    return Finding(f"{better}.", "good")


def plain_verdicts(evaluation: Evaluation) -> dict[str, str]:
    """One sentence for each question of an evaluation: how it compares with a simple rule."""
    sentences = {}
    for part in accuracy(evaluation).parts:
        what, rule = WHAT[part.kind].capitalize(), RULES[part.best]
        few = f" (only {count_of(part.count, 'entry', 'entries')})" if part.count < FEW else ""
        if part.doubt:
            text = f"{what}: not sure, {part.doubt}."
        elif part.gain is None:
            text = f"{what}: {rule} is exact already{few}."
        elif part.gain <= 0:
            text = f"{what}: no better than {rule}{few}; do not use it there."
        else:
            chance = "" if part.clear and part.count >= FEW else ", but this may be chance"
            text = f"{what}: {100 * part.gain:.0f}% better than {rule}{chance}{few}."
        sentences[QUESTIONS[part.kind]] = text
    return sentences


def verdicts(n: Numbers) -> dict[str, Finding]:
    """The sentence of each section."""
    return {
        "data": _data(n),
        "method": _method(n),
        "accuracy": _accuracy(n),
        "table": _table(n),
        "entries": _entries(n),
        "certificate": _guarantee(n),
    }


def _data(n: Numbers) -> Finding:
    data = n.tree["data"]
    text = f"{n.show('data.share', '%')} of the table was measured; the rest is predicted."
    cold = [
        f"{n.show(f'data.cold_{axis}s', 'i')} {axis}{'' if data[f'cold_{axis}s'] == 1 else 's'}"
        for axis in ("row", "column")
        if data[f"cold_{axis}s"]
    ]
    if cold:
        text += f" {' and '.join(cold)} had no measurement at all."
    if data["even"]:
        return Finding(text)
    return Finding(f"{text} Measurements are spread unevenly.", "warn")


def _method(n: Numbers) -> Finding:
    name = n.show("method.name", "t")
    if not n.tree["method"]["converged"]:
        return Finding(f"{name} did not reach its tolerance: read “how it ended” below.", "bad")
    return Finding(f"{name} was fitted with ridge weight mu = {n.show('method.mu')}.")


def _accuracy(n: Numbers) -> Finding:
    parts = n.tree["accuracy"]["parts"]
    if not parts:
        return Finding("How accurate the predictions are could not be measured.", "warn")
    tones = {k: part_verdict(n, k).tone for k in range(len(parts))}
    good = [WHAT[parts[k]["kind"]] for k, tone in tones.items() if tone == "good"]
    if len(good) == len(parts):
        return Finding("Better than simple rules for every kind of entry that was hidden.", "good")
    if not good:
        return Finding("Not clearly better than simple rules: use it with care, or not.", "bad")
    return Finding(f"Clearly better than simple rules for {_and(good)}; not for the rest.", "warn")


def _and(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _table(n: Numbers) -> Finding:
    text = "All entries: measured values as they are, the others predicted."
    if n.tree["cells"]["width_widest"]:
        return Finding(f"{text} For some of them nothing bounds the value.", "warn")
    return Finding(text)


def _entries(n: Numbers) -> Finding:
    if not n.tree["uncertain"] and not n.tree["surprising"]:
        return Finding("There is nothing to single out.")
    return Finding("Where the predictions are least sure, and which measurements look odd.")


def _guarantee(n: Numbers) -> Finding:
    found = n.tree["guarantee"]
    if found is None:
        return Finding(
            "No certificate: that needs the range of the values, and a method of which bounds "
            "speak, such as KKMCEX, with values on their own scale."
        )
    if not found["valid"]:
        return Finding("The certificate does not apply here: an assumption fails.", "warn")
    if found["rmse"] is None:
        return Finding("Nothing useful can be proved from so few measurements.", "warn")
    proved = (
        f"Proved: the error (RMSE) on all entries that were not measured is at most "
        f"{n.show('guarantee.rmse')}"
    )
    if found["rmse"] >= n.get("data.std"):
        spread = n.show("data.std")
        return Finding(f"{proved}. The values themselves spread by {spread}: this says little.")
    return Finding(f"{proved}.", "good")

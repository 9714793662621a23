"""``kronfill evaluate``: cross-validated accuracy, known rows and new ones, beside baselines."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kronfill.cli import options as o
from kronfill.cli.helps import grouped
from kronfill.cli.inputs import read_tables, say_matches
from kronfill.cli.outputs import check_outputs, write_table

if TYPE_CHECKING:
    from kronfill.completion.evaluation import Evaluation

__all__ = ["evaluate"]

Folds = Annotated[int, typer.Option("--folds", help="Number of folds.", min=2)]
Out = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="The scores as a table.")
]


@grouped
def evaluate(
    table: o.TableFile,
    *,
    sides: o.SideOptions,
    folds: Folds = 5,
    output: Out = None,
    reading: o.TableOptions,
    model: o.MethodOptions,
    messages: o.MessageOptions,
) -> None:
    """Measure how good the predictions are: hide entries, rows, columns, both, and predict them.

    kronfill evaluate ratings.csv --rows users.csv --cols items.csv
    """
    with messages.session() as session:
        check_outputs({"--output (table)": output}, (table, *sides.paths))
        tables = read_tables(session, table, reading, sides)
        problem = tables.problem(**model.settings, unmatched=sides.unmatched)
        say_matches(session, problem, sides.unmatched)
        from kronfill.completion.evaluation import cross_validate
        from kronfill.report.verdicts import plain_verdicts

        estimator = problem.prepared()
        with session.stage("Cross-validation") as say:
            found = cross_validate(
                estimator, problem.observations, folds=folds, seed=model.seed,
                progress=lambda what, _: say(what),
            )  # fmt: skip
        scores = _scores(found, type(estimator).__name__)
        session.fact(method=problem.method, folds=folds, scores=scores)
        lines = [[line[name] for name in _SHOWN] for line in scores]
        session.table("Errors on what was hidden from the fit", list(_SHOWN.values()), lines)
        verdicts = plain_verdicts(found)
        session.fact(verdicts=verdicts)
        for text in verdicts.values():
            session.result(text)
        for line in scores:
            if line["note"]:
                session.warn(f"{line['question']}: {line['note']}")
        if output is not None:
            import pandas as pd

            write_table(output, [pd.DataFrame(scores)])
            session.result(f"Wrote {output}.")


_SHOWN = {
    "question": "predicted", "method": "by", "rmse": "RMSE", "mae": "MAE", "r2": "R2",
    "tested": "tested",
}  # fmt: skip


def _scores(found: Evaluation, method: str) -> list[dict[str, Any]]:
    """One line for each question and method; a question that cannot be asked says why."""
    from kronfill.completion.evaluation import QUESTIONS

    lines: list[dict[str, Any]] = []
    for kind, question in QUESTIONS.items():
        if kind in found.notes:
            line = {"question": question, "method": method, **_NOTHING, "note": found.notes[kind]}
            lines.append(line)
            continue
        hidden = found.parts[kind]
        for name, score in zip((method, *_RULES), hidden.scores(), strict=True):
            line = {"question": question, "method": name, **_NOTHING, "tested": len(hidden)}
            if name == method:
                line["note"] = found.doubts.get(kind, "")
            measured = {key: value for key, value in asdict(score).items() if value is not None}
            lines.append(line | measured)
    return lines


_RULES = ("mean", "row + column effects")
_NOTHING = {"rmse": math.nan, "mae": math.nan, "r2": math.nan, "tested": 0, "note": ""}

"""``kronfill evaluate``: cross-validated accuracy, known rows and new ones, beside baselines."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kronfill.cli import options as o
from kronfill.cli.inputs import Sides, as_mu, read_tables, say_matches
from kronfill.cli.outputs import check_outputs, write_table
from kronfill.cli.session import Session
from kronfill.data._counts import count_of
from kronfill.data.reading.entry_files import Roles

if TYPE_CHECKING:
    from kronfill.completion.evaluation import Evaluation

__all__ = ["evaluate"]

Folds = Annotated[int, typer.Option("--folds", help="Number of folds.", min=2)]
Out = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="The scores as a table.")
]


def evaluate(
    table: o.TableFile,
    rows: o.RowsFile = None,
    cols: o.ColsFile = None,
    folds: Folds = 5,
    output: Out = None,
    layout: o.LayoutOption = None,
    row_column: o.RowColumn = None,
    col_column: o.ColColumn = None,
    value_column: o.ValueColumn = None,
    weight_column: o.WeightColumn = None,
    index: o.TableIndex = None,
    sheet: o.Sheet = None,
    duplicates: o.DuplicatesOption = o.Duplicates.error,
    rows_as: o.RowsAs = None,
    cols_as: o.ColsAs = None,
    rows_index: o.RowsIndex = None,
    cols_index: o.ColsIndex = None,
    ignore: o.Ignore = None,
    impute: o.ImputeOption = o.Impute.error,
    unmatched: o.UnmatchedOption = o.Unmatched.error,
    method: o.MethodOption = o.MethodName.kkmcex,
    mu: o.Mu = "auto",
    rank: o.Rank = 10,
    center: o.CenterOption = o.Center.mean,
    seed: o.Seed = 0,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Measure how good the predictions are: hide entries, rows, columns, both, and predict them.

    kronfill evaluate ratings.csv --rows users.csv --cols items.csv
    """
    with Session(quiet, as_json, debug) as session:
        check_outputs({"--output (table)": output}, (table, rows, cols))
        roles = Roles(
            layout and layout.value, row_column, col_column, value_column, weight_column, index
        )
        sides = Sides(
            (rows, cols),
            (rows_as and rows_as.value, cols_as and cols_as.value),
            (rows_index, cols_index),
            ignore or [],
            impute.value,
        )
        tables = read_tables(session, table, roles, sides, sheet, duplicates.value)
        problem = tables.problem(
            method=method.value, mu=as_mu(mu), rank=rank, random_state=seed,
            center=None if center is o.Center.none else center.value, unmatched=unmatched.value,
        )  # fmt: skip
        say_matches(session, problem, unmatched.value)
        from kronfill.completion.evaluation import cross_validate

        estimator = problem.prepared()
        with session.stage("Cross-validation") as step:
            found = cross_validate(
                estimator, problem.observations, folds=folds, seed=seed,
                progress=lambda what, _: step(what),
            )  # fmt: skip
        scores = _scores(found, type(estimator).__name__)
        session.fact(method=problem.method, folds=folds, scores=scores)
        lines = [[line[name] for name in _SHOWN] for line in scores]
        session.table("Errors on what was hidden from the fit", list(_SHOWN.values()), lines)
        told = _verdicts(found)
        session.fact(verdicts=told)
        for text in told.values():
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
        held = found.parts[kind]
        for name, score in zip((method, *_RULES), held.scores(), strict=True):
            line = {"question": question, "method": name, **_NOTHING, "tested": len(held)}
            if name == method:
                line["note"] = found.doubts.get(kind, "")
            told = {key: value for key, value in asdict(score).items() if value is not None}
            lines.append(line | told)
    return lines


def _verdicts(found: Evaluation) -> dict[str, str]:
    """One sentence for each question, as in the report: how it compares with a simple rule."""
    from kronfill.completion.evaluation import QUESTIONS
    from kronfill.report.accuracy import accuracy
    from kronfill.report.verdicts import FEW, RULES, WHAT

    told = {}
    for part in accuracy(found).parts:
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
        told[QUESTIONS[part.kind]] = text
    return told


_RULES = ("mean", "row + column effects")
_NOTHING = {"rmse": math.nan, "mae": math.nan, "r2": math.nan, "tested": 0, "note": ""}

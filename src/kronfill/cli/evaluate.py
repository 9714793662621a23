"""``kronfill evaluate``: cross-validated accuracy, known rows and new ones, beside baselines."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kronfill.cli import options as o
from kronfill.cli.inputs import Sides, as_mu, read_tables
from kronfill.cli.outputs import check_outputs, write_table
from kronfill.cli.session import Session
from kronfill.data.entry_files import Roles

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
    method: o.MethodOption = o.Method.kkmcex,
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
        from kronfill.evaluation import evaluate as cross_validate

        with session.stage("Cross-validation") as step:
            scores = cross_validate(
                problem.prepared(), problem.observations, folds, seed, progress=step
            )
        session.fact(method=problem.method, folds=folds, scores=[asdict(s) for s in scores])
        lines = [[s.question, s.method, s.rmse, s.mae, s.r2, s.tested] for s in scores]
        names = ["predicted", "by", "RMSE", "MAE", "R2", "tested"]
        session.table("Errors on what was hidden from the fit", names, lines)
        for score in scores:
            if score.note:
                session.warn(f"{score.question}, {score.method}: {score.note}")
        if output is not None:
            import pandas as pd

            write_table(output, [pd.DataFrame([asdict(s) for s in scores])])
            session.result(f"Wrote {output}.")

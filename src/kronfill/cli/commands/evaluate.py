"""``kronfill evaluate``: cross-validated accuracy, known rows and new ones, beside baselines."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kronfill.cli import options as o
from kronfill.cli.helps import grouped
from kronfill.cli.inputs import read_tables, say_matches
from kronfill.cli.outputs import check_outputs, write_table
from kronfill.cli.session import Session

if TYPE_CHECKING:
    from kronfill.completion.judging.comparison import Comparison
    from kronfill.completion.judging.evaluation import Evaluation

__all__ = ["evaluate"]

Folds = Annotated[int, typer.Option("--folds", help="Number of folds.", min=2)]
By = Annotated[
    str | None,
    typer.Option(
        "--by", metavar="GROUP",
        help="Measure how often 90% intervals hold by row, column, observations (of the row), or a "
        "category among the features: one more fit.",
    ),
]  # fmt: skip
Out = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="The scores as a table.")
]


@grouped
def evaluate(
    table: o.TableFile,
    *,
    sides: o.SideOptions,
    folds: Folds = 5,
    by: By = None,
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
        from kronfill.completion.judging.evaluation import cross_validate
        from kronfill.report.verdicts import plain_verdicts

        estimator = problem.prepared()
        from kronfill.cli.progress import with_time_left

        compared = None
        with session.stage("Cross-validation") as say:
            how: dict[str, Any] = {
                "folds": folds, "seed": model.seed, "progress": with_time_left(say)
            }  # fmt: skip
            if problem.method == "auto" and problem.likelihood == "gaussian":
                from kronfill.completion.judging.comparison import compare_methods

                compared = compare_methods(problem.compared(), problem.observations, **how)
                found = compared.first
            else:
                found = cross_validate(estimator, problem.observations, **how)
        scores = found.lines()
        if compared is not None:
            scores = _beside(replace(found, method="auto").lines(), compared)
            session.fact(recommendation=compared.recommendation)
        session.fact(
            method=problem.method, likelihood=problem.likelihood, folds=folds, scores=scores
        )
        heads = _SHOWN | _OF_LIKELIHOODS.get(problem.likelihood, {})
        shown = {name: head for name, head in heads.items() if name in scores[0]}
        lines = [[line[name] for name in shown] for line in scores]
        session.table("Errors on what was hidden from the fit", list(shown.values()), lines)
        _show_ranking(session, found)
        verdicts = plain_verdicts(found)
        session.fact(verdicts=verdicts)
        for text in verdicts.values():
            session.result(text)
        if compared is not None:
            session.result(compared.recommendation)
            for note in compared.notes:
                session.warn(note)
        for line in scores:
            if line["note"]:
                session.warn(f"{line['question']}: {line['note']}")
        if by is not None:
            _show_coverage(session, problem, by)
        if output is not None:
            import pandas as pd

            write_table(output, [pd.DataFrame(scores)])
            session.result(f"Wrote {output}.")


def _show_ranking(session: Session, found: Evaluation) -> None:
    """How high hidden ones are ranked."""
    figures = found.ranking
    if figures is None:
        return
    session.fact(ranking=asdict(figures))
    head = [f"recall at {figures.k}", f"NDCG at {figures.k}", "AUC", "average precision", "rows"]
    line = [figures.recall, figures.ndcg, figures.auc, figures.average_precision, figures.rows]
    session.table("Hidden ones of each row among its columns without a one", head, [line])


def _show_coverage(session: Session, problem: Any, by: str) -> None:
    """How often intervals of the completed table hold in each group."""
    from kronfill.completion import Completion

    with session.stage("Measuring how often intervals hold"):
        found = Completion.of(problem).coverage(by)
    session.fact(coverage=found.to_dict("records"))
    lines = [[str(line.group), line.entries, line.coverage, line.width]
             for line in found.itertuples()]  # fmt: skip
    head = [by, "hidden entries", "inside", "median width"]
    session.table("How often 90% intervals hold", head, lines)


_SHOWN = {
    "question": "predicted", "method": "by", "rmse": "RMSE", "standard error": "±", "mae": "MAE",
    "r2": "R2", "tested": "tested",
}  # fmt: skip


def _beside(scores: list[dict[str, Any]], compared: Comparison) -> list[dict[str, Any]]:
    """With lines for the other methods after that of the first."""
    from kronfill.completion.judging.comparison import EFFECTS
    from kronfill.completion.judging.evaluated import NO_SCORES, RULES

    measured = {(line["question"], line["method"]): line for line in compared.lines()}
    lines: list[dict[str, Any]] = []
    for line in scores:
        question = line["question"]
        own = measured.get((question, EFFECTS if line["method"] == RULES[1] else line["method"]))
        lines.append({**line, "standard error": math.nan if own is None else own["standard error"]})
        if line["method"] == "auto":
            lines += [
                {**NO_SCORES, **other}
                for (asked, name), other in measured.items()
                if asked == question and name not in ("auto", EFFECTS)
            ]
    return lines


_OF_LIKELIHOODS = {
    "bernoulli": {"deviance": "deviance", "auc": "AUC", "average_precision": "AP"},
    "poisson": {"deviance": "deviance"},
    "ordinal": {"deviance": "deviance"},
}

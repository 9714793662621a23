"""``kronfill complete``: from a table with gaps to a filled one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from kronfill._atomic import Publication
from kronfill.cli import options as o
from kronfill.cli.inputs import (
    Sides,
    Tables,
    as_mu,
    ask_pairs,
    check_range,
    read_tables,
    say_matches,
)
from kronfill.cli.longfiles import as_given, check_fits, is_parquet
from kronfill.cli.outputs import named_as, save_model, text_style, write_table
from kronfill.cli.refusals import refuse
from kronfill.cli.session import Session
from kronfill.cli.targets import OutputFiles
from kronfill.data._counts import count_of, size_of
from kronfill.data.reading.entry_files import Roles
from kronfill.errors import ParameterError

__all__ = ["complete"]

MANY_LINES = 20_000_000
"""More lines than this are written only if asked for with --all."""
WIDE_FLOATS = 4_000_000
OUTPUT = "Output"

Out = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="FILE", rich_help_panel=OUTPUT,
        help="The filled table; TABLE with '-filled' in its name by default.",
    ),
]  # fmt: skip
Details = Annotated[
    Path | None,
    typer.Option(
        "--details", metavar="FILE", rich_help_panel=OUTPUT,
        help="For a wide table: status and interval of every entry, one line each; the output with "
        "'-details' in its name by default, up to a million entries.",
    ),
]  # fmt: skip
NoDetails = Annotated[
    bool, typer.Option("--no-details", help="Write no details.", rich_help_panel=OUTPUT)
]
Pairs = Annotated[
    Path | None,
    typer.Option(
        "--pairs", metavar="FILE", rich_help_panel=OUTPUT,
        help="Only these entries: a file with a row and a column label in each line.",
    ),
]  # fmt: skip
All = Annotated[
    bool,
    typer.Option(
        "--all", help="Write every entry, even more than 20 million.", rich_help_panel=OUTPUT
    ),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE", help="An HTML report.", rich_help_panel=OUTPUT),
]
ValueRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--range", metavar="LOW HIGH", rich_help_panel=OUTPUT,
        help="Range that all values obey, whatever is observed: the report then has a certificate.",
    ),
]  # fmt: skip
Save = Annotated[
    Path | None,
    typer.Option(
        "--save", metavar="FILE", help="The model, as a .kf file.", rich_help_panel=OUTPUT
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done and what memory it needs.")
]


def complete(
    table: o.TableFiles,
    rows: o.RowsFile = None,
    cols: o.ColsFile = None,
    output: Out = None,
    details: Details = None,
    no_details: NoDetails = False,
    pairs: Pairs = None,
    everything: All = False,
    report: Report = None,
    value_range: ValueRange = None,
    save: Save = None,
    dry_run: DryRun = False,
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
    level: o.Level = 0.9,
    intervals: o.IntervalsOption = o.KindOfInterval.auto,
    memory: o.Memory = None,
    work_dir: o.WorkDir = None,
    scheduler: o.Scheduler = None,
    resume: o.Resume = False,
    quiet: o.Quiet = False,
    as_json: o.Json = False,
    debug: o.Debug = False,
) -> None:
    """Fill in the missing entries of a table, and rows and columns that are only described.

    kronfill complete ratings.csv --rows users.csv --cols items.csv -o filled.csv
    """
    with Session(quiet, as_json, debug) as session:
        _check_level(level)
        check_range(value_range)
        if value_range is not None and report is None:
            msg = "--range is for the certificate in the report: give --report as well."
            raise ParameterError(msg)
        given = as_given(table)
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
        if given.several or resume or any((memory, work_dir, scheduler)):
            from kronfill.cli.commands import streamed

            given.require_parquet("only Parquet files are streamed")
            refuse(
                report=report, details=details, index=index, sheet=sheet,
                layout=layout, duplicates=duplicates, unmatched=unmatched, method=method,
                center=center, intervals=intervals,
            )  # fmt: skip
            streamed.complete_long(
                session,
                given,
                streamed.Streaming(memory, work_dir, scheduler, resume),
                streamed.Settings(
                    method.value, mu, None if center is o.Center.none else center.value, roles,
                    sides,
                ),
                streamed.Outputs(output, pairs, everything, save, MANY_LINES),
                dry_run,
            )  # fmt: skip
            return
        path = given.paths[0]
        files = OutputFiles(path, output, details, no_details, pairs, report, save)
        files.check((rows, cols))
        check_fits(path)
        with session.stage("Reading"):
            tables = read_tables(session, path, roles, sides, sheet, duplicates.value)
            problem = tables.problem(
                method=method.value, mu=as_mu(mu), rank=rank, random_state=seed,
                center=None if center is o.Center.none else center.value,
                unmatched=unmatched.value,
            )  # fmt: skip
        say_matches(session, problem, unmatched.value)
        asked = None
        if pairs is not None:
            labels = (problem.observations.row_labels, problem.observations.col_labels)
            asked = ask_pairs(pairs, Roles(row=row_column, col=col_column), labels)
        lines = _lines(problem, asked)
        if (
            lines > MANY_LINES
            and not everything
            and (asked is not None or tables.entries.layout == "long")
        ):
            msg = (
                f"The result has {lines:,} entries, a line each. Name those that you need in a "
                "file (--pairs FILE), or ask for all of them (--all)."
            )
            raise ParameterError(msg)
        files = files.named(tables.entries.layout, lines)
        _say_plan(session, problem, files, tables, lines)
        if dry_run:
            session.result("Dry run: nothing was fitted or written.")
            return
        _run(session, problem, files, tables, asked, (level, intervals.value, seed, value_range))


def _check_level(level: float) -> None:
    from kronfill.completion.details import check_level

    check_level(level)


def _lines(problem: Any, asked: Any) -> int:
    n, l = problem.observations.shape
    return n * l if asked is None else len(asked[0])


def _say_plan(
    session: Session, problem: Any, files: OutputFiles, tables: Tables, lines: int
) -> None:
    from kronfill.core.memory import available_memory

    obs = problem.observations
    n, l = obs.shape
    warm = (n - len(obs.cold_rows)) * (l - len(obs.cold_cols))
    settings = f"mu = {problem.estimator.mu}, center = {problem.estimator.center}"
    session.note(
        f"To do: {problem.method.upper()} ({settings}) on {count_of(n, 'row')} x "
        f"{count_of(l, 'column')}: {count_of(obs.m, 'entry', 'entries')} observed, "
        f"{warm - obs.m:,} to fill in, {n * l - warm:,} to extrapolate."
    )
    memory = problem.memory()
    total = sum(memory.values()) + 8 * WIDE_FLOATS + 100 * min(lines, 500_000)
    free = available_memory()
    there = "" if free is None else f" of {size_of(free)} available"
    session.note(f"Memory: about {size_of(total)}{there}.")
    told = [f"{files.output} ({count_of(lines, 'entry', 'entries')})"]
    told += [str(path) for path in (files.details, files.report, files.save) if path is not None]
    session.note(f"Output: {', '.join(told)}.")
    session.fact(
        method=problem.method, shape=[n, l], observed=obs.m, filled=warm - obs.m,
        extrapolated=n * l - warm, memory_bytes=round(total),
        outputs={"table": files.output, "details": files.details, "report": files.report,
                 "model": files.save},
    )  # fmt: skip
    if free is not None and total > free:
        streams = ""
        if tables.entries.layout == "long" and is_parquet(tables.entries.table.path):
            streams = " --memory 2GB --work-dir DIR streams the table from the disk."
        session.warn(f"This may not fit in memory: about {size_of(total)} needed{there}.{streams}")


def _run(
    session: Session,
    problem: Any,
    files: OutputFiles,
    tables: Tables,
    asked: Any,
    settings: tuple[float, str, int, tuple[float, float] | None],
) -> None:
    from kronfill.completion import Completion

    level, kind, seed, value_range = settings
    known = count_of(problem.observations.m, "entry", "entries")
    with session.stage(f"Fitting {problem.method.upper()} to {known}"):
        done = Completion.of(problem)
    session.fact(mu=float(done.model.mu_))
    evaluation = None
    if files.report is not None:
        from kronfill.report import evaluate

        with session.stage("Measuring accuracy on hidden entries") as step:
            evaluation = evaluate(
                done, seed=seed, progress=lambda _, share: step(f"{100 * share:.0f}%")
            )
    with Publication() as outputs:
        told = _write_tables(
            session, done, files, tables, asked, (level, kind), evaluation, outputs
        )
        if files.save is not None:
            told.append(save_model(session, done, files.save, outputs))
        if files.report is not None:
            _write_report(session, done, files.report, (evaluation, value_range, seed), outputs)
            told.append(str(files.report))
    session.result(repr(done))
    session.result(f"Wrote {', '.join(told)}.")
    if files.report is None:
        session.note("How good it is: --report FILE, or 'kronfill evaluate' with the same files.")


def _write_tables(
    session: Session,
    done: Any,
    files: OutputFiles,
    tables: Tables,
    asked: Any,
    settings: tuple[float, str],
    evaluation: Any,
    outputs: Publication,
) -> list[str]:
    """Write the filled table and its details; returns what was written."""
    level, kind = settings
    long = asked is not None or tables.entries.layout == "long"
    n, l = done.observations.shape
    count = n * l if asked is None else len(asked[0])
    if long or files.details is not None:
        with session.stage("Measuring how sure the predictions are"):
            intervals = _intervals(done, count, kind, evaluation)
        session.note(f"Intervals ({100 * level:g}%): {intervals.told}.")
        session.fact(intervals=intervals.told, level=level)
    names, style = tables.entries.names, text_style(tables.entries.table)
    told = []
    frames: Iterator[Any]
    with session.stage(f"Writing {files.output}"):
        if long:
            blocks = done.iter_details(asked, level=level, intervals=intervals)
            frames = (named_as(block, names) for block in blocks)
        else:
            frames = _wide(done, names[0])
        lines = write_table(files.output, frames, style, outputs)
        told.append(f"{files.output} ({count_of(lines, 'line')})")
    if files.details is not None:
        with session.stage(f"Writing {files.details}"):
            blocks = done.iter_details(level=level, intervals=intervals)
            frames = (named_as(block, names) for block in blocks)
            lines = write_table(files.details, frames, style, outputs)
        told.append(f"{files.details} ({count_of(lines, 'line')})")
    return told


def _write_report(
    session: Session,
    done: Any,
    path: Path,
    settings: tuple[Any, tuple[float, float] | None, int],
    outputs: Publication,
) -> None:
    from kronfill.report.build import build
    from kronfill.report.html.page import page

    with session.stage(f"Writing {path}") as step:
        text = page(build(done, *settings, lambda what, _: step(what)))
        with outputs.open(path) as file:
            file.write(text.encode("utf-8"))


def _intervals(done: Any, count: int, kind: str, evaluation: Any) -> Any:
    """Intervals; errors on hidden entries that were measured for the report are used again."""
    from kronfill.completion.intervals import Calibrated, intervals_for, wants_hidden

    hidden = evaluation is not None and evaluation.scheme == "hold-out"
    if hidden and wants_hidden(done.model, count, kind):
        return Calibrated(done.model, evaluation)
    return intervals_for(done.model, count, kind)


def _wide(done: Any, name: str) -> Iterator[Any]:
    """The filled table in blocks of rows, labels in the first column."""
    import numpy as np
    import pandas as pd

    obs = done.observations
    n, l = obs.shape
    index, columns = pd.Index(obs.row_labels), [str(label) for label in obs.col_labels]
    name = name if name not in columns else f"({name})"
    seen = obs.to_sparse()
    step = max(1, WIDE_FLOATS // l)
    for first in range(0, n, step):
        part = np.arange(first, min(first + step, n))
        values = done.model.predict_matrix(rows=part)
        known = seen[part].tocoo()
        values[known.row, known.col] = known.data
        frame = pd.DataFrame(values, columns=columns)
        frame.insert(0, name, index[part])
        yield frame

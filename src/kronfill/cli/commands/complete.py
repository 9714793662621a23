"""``kronfill complete``: from a table with gaps to a filled one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from kronfill._atomic import Publication
from kronfill.cli import options as o
from kronfill.cli.helps import grouped
from kronfill.cli.inputs import Tables, ask_pairs, check_range, read_tables, say_matches
from kronfill.cli.outputs import (
    certificate_facts,
    named_as,
    new_items_facts,
    save_model,
    text_style,
    write_table,
)
from kronfill.cli.session import Session
from kronfill.cli.table_argument import check_fits, find_table, is_parquet
from kronfill.cli.targets import OutputFiles, OutputOptions
from kronfill.completion.certified import check_certify
from kronfill.completion.entries.details import check_level
from kronfill.completion.likelihood import MEANINGS
from kronfill.data.amounts import count_of, duration_of, size_of
from kronfill.errors import ParameterError

__all__ = ["complete"]

MANY_LINES = 20_000_000
"""More lines than this are written only if asked for with --all."""
WIDE_FLOATS = 4_000_000


class Proof(NamedTuple):
    """The range of the values, the share set aside, and whether whole rows or columns are too."""

    value_range: tuple[float, float] | None
    share: float | None
    new: str | None


DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be done and what memory it needs.")
]

OnInterrupt = Annotated[
    Literal["raise", "keep"],
    typer.Option(
        "--on-interrupt",
        help="What Ctrl-C does while --method auto chooses: stop, or keep the best model so far "
        "and write what was asked for.",
        rich_help_panel=o.MODEL,
    ),
]


@grouped
def complete(
    table: o.TableFiles,
    *,
    sides: o.SideOptions,
    outputs: OutputOptions,
    dry_run: DryRun = False,
    reading: o.TableOptions,
    model: o.MethodOptions,
    on_interrupt: OnInterrupt = "raise",
    sureness: o.IntervalOptions,
    streaming: o.StreamingOptions,
    messages: o.MessageOptions,
) -> None:
    """Fill in the missing entries of a table, and rows and columns that are only described.

    kronfill complete ratings.csv --rows users.csv --cols items.csv -o filled.csv
    """
    with messages.session() as session:
        check_level(sureness.level)
        check_range(model.value_range)
        if outputs.certify is not None or outputs.certify_new is not None:
            check_certify(model.value_range, outputs.certify, outputs.certify_new)
        source = find_table(table)
        if source.several or streaming.wanted:
            from kronfill.cli.commands import streamed

            source.require_parquet("only Parquet files are streamed")
            streamed.refuse(
                report=outputs.report, details=outputs.details, index=reading.index,
                sheet=reading.sheet, layout=reading.layout, duplicates=reading.duplicates,
                unmatched=sides.unmatched, method=model.method, center=model.center,
                intervals=sureness.intervals, by=sureness.by, certify=outputs.certify,
                likelihood=model.likelihood, negatives=model.negatives,
                range=model.value_range, round=model.rounded or None, budget=model.budget,
                on_interrupt=None if on_interrupt == "raise" else on_interrupt,
                transform=None if model.transform == "auto" else model.transform,
            )  # fmt: skip
            streamed.complete_streamed(
                session, streamed.StreamedFiles(source, outputs, MANY_LINES), sides, reading,
                model, streaming, dry_run=dry_run,
            )  # fmt: skip
            return
        path = source.paths[0]
        files = OutputFiles(path, outputs)
        files.check(sides.paths)
        check_fits(path)
        with session.stage("Reading"):
            tables = read_tables(session, path, reading, sides)
            settings = model.settings
            settings["effort"] = replace(settings["effort"], on_interrupt=on_interrupt)
            if outputs.certify is not None and model.transform == "auto":
                settings["transform"] = None
            problem = tables.problem(**settings, unmatched=sides.unmatched)
        say_matches(session, problem, sides.unmatched)
        pairs = None
        if outputs.pairs is not None:
            labels = (problem.observations.row_labels, problem.observations.col_labels)
            pairs = ask_pairs(outputs.pairs, reading.pair_roles, labels)
        lines = _lines(problem, pairs)
        is_long = pairs is not None or tables.entries.layout == "long"
        if lines > MANY_LINES and not outputs.everything and is_long:
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
        proof = Proof(model.value_range, outputs.certify, outputs.certify_new)
        _run(session, problem, files, tables, pairs, sureness, model.seed, proof)


def _lines(problem: Any, pairs: Any) -> int:
    n, l = problem.observations.shape
    return n * l if pairs is None else len(pairs[0])


def _say_plan(
    session: Session, problem: Any, files: OutputFiles, tables: Tables, lines: int
) -> None:
    from kronfill.core.memory import available_memory

    obs = problem.observations
    n, l = obs.shape
    warm = (n - len(obs.cold_rows)) * (l - len(obs.cold_cols))
    given = problem.estimator.get_params(deep=False)
    settings = ", ".join(f"{name} = {given[name]}" for name in ("mu", "center") if name in given)
    settings = settings or "everything chosen"
    session.note(
        f"To do: {problem.method.upper()}{_kind_of_values(problem)} ({settings}) on "
        f"{count_of(n, 'row')} x {count_of(l, 'column')}: "
        f"{count_of(obs.m, 'entry', 'entries')} observed, {warm - obs.m:,} to fill in, "
        f"{n * l - warm:,} to extrapolate."
    )
    memory = problem.memory()
    total = sum(memory.values()) + 8 * WIDE_FLOATS + 100 * min(lines, 500_000)
    free = available_memory()
    beside = "" if free is None else f" of {size_of(free)} available"
    session.note(f"Memory: about {size_of(total)}{beside}.")
    seconds = problem.seconds()
    if seconds is not None:
        session.note(f"Time: about {duration_of(seconds)} to choose everything and fit.")
        session.fact(seconds=seconds)
    named = [f"{files.output} ({count_of(lines, 'entry', 'entries')})"]
    named += [str(path) for path in (files.details, files.report, files.save) if path is not None]
    session.note(f"Output: {', '.join(named)}.")
    session.fact(
        method=problem.method, likelihood=problem.likelihood, shape=[n, l], observed=obs.m,
        filled=warm - obs.m, extrapolated=n * l - warm, memory_bytes=round(total),
        outputs={"table": files.output, "details": files.details, "report": files.report,
                 "model": files.save},
    )  # fmt: skip
    if free is not None and total > free:
        streams = ""
        if tables.entries.layout == "long" and is_parquet(tables.entries.table.path):
            streams = " --memory 2GB --work-dir DIR streams the table from the disk."
        session.warn(f"This may not fit in memory: about {size_of(total)} needed{beside}.{streams}")


def _kind_of_values(problem: Any) -> str:
    words = MEANINGS.get(problem.likelihood)
    return "" if words is None else f" for {words.partition(':')[0]}"


def _run(
    session: Session,
    problem: Any,
    files: OutputFiles,
    tables: Tables,
    pairs: Any,
    sureness: o.IntervalOptions,
    seed: int,
    proof: Proof,
) -> None:
    from kronfill.completion import Completion
    from kronfill.completion.certified import can_be_certified
    from kronfill.report import evaluate

    known = count_of(problem.observations.m, "entry", "entries")
    with session.stage(f"Fitting {problem.method.upper()} to {known}"):
        done = Completion.of(problem, proof.value_range, proof.share, seed, proof.new)
    session.fact(mu=float(done.model.mu_))
    evaluation = None
    if files.report is not None:
        with session.stage("Measuring accuracy on hidden entries") as say:
            evaluation = evaluate(
                done, seed=seed, progress=lambda _, share: say(f"{100 * share:.0f}%")
            )
    with Publication() as publication:
        written = _write_tables(session, done, files, tables, pairs, sureness, publication)
        if files.save is not None:
            written.append(save_model(session, done, files.save, publication))
        if files.report is not None:
            limits = proof.value_range if can_be_certified(done.model) else None
            settings = (evaluation, limits, seed)
            _write_report(session, done, files.report, settings, publication)
            written.append(str(files.report))
    session.result(repr(done))
    if done.certified is not None:
        session.fact(certificate=certificate_facts(done.certified))
        session.result(f"{done.certified.sentence}\n{done.certified.beside}")
    if done.certified_new is not None:
        session.fact(certificate_new=new_items_facts(done.certified_new))
        session.result(done.certified_new.sentence)
    session.result(f"Wrote {', '.join(written)}.")
    if files.report is None:
        session.note("How good it is: --report FILE, or 'kronfill evaluate' with the same files.")


def _write_tables(
    session: Session,
    done: Any,
    files: OutputFiles,
    tables: Tables,
    pairs: Any,
    sureness: o.IntervalOptions,
    publication: Publication,
) -> list[str]:
    """Write the filled table and its details; returns what was written."""
    level = sureness.level
    is_long = pairs is not None or tables.entries.layout == "long"
    if is_long or files.details is not None:
        with session.stage("Measuring how sure the predictions are"):
            count = _lines(done, pairs)
            intervals = done.intervals_for(count, sureness.intervals, sureness.by)
    names, style = tables.entries.names, text_style(tables.entries.table)

    def write(path: Path, frames: Iterator[Any]) -> str:
        with session.stage(f"Writing {path}"):
            lines = write_table(path, frames, style, publication)
        return f"{path} ({count_of(lines, 'line')})"

    def details(pairs: Any) -> Iterator[Any]:
        blocks = done.iter_details(pairs, level=level, intervals=intervals)
        return (named_as(block, names) for block in blocks)

    written = [write(files.output, details(pairs) if is_long else _wide(done, names[0]))]
    if files.details is not None:
        written.append(write(files.details, details(None)))
    if is_long or files.details is not None:
        session.note(f"Intervals ({100 * level:g}%): {intervals.words}.")
        session.fact(intervals=intervals.words, level=level)
    return written


def _write_report(
    session: Session,
    done: Any,
    path: Path,
    settings: tuple[Any, tuple[float, float] | None, int],
    publication: Publication,
) -> None:
    from kronfill.report.build import build
    from kronfill.report.html.page import page

    with session.stage(f"Writing {path}") as say:
        text = page(build(done, *settings, lambda what, _: say(what)))
        with publication.open(path) as file:
            file.write(text.encode("utf-8"))


def _wide(done: Any, name: str) -> Iterator[Any]:
    """The filled table in blocks of rows, labels in the first column."""
    columns = [str(label) for label in done.observations.col_labels]
    name = name if name not in columns else f"({name})"
    for block in done.iter_filled(WIDE_FLOATS):
        frame = block.set_axis(columns, axis=1)
        frame.insert(0, name, block.index)
        yield frame

"""``kronfill complete`` for tables that are not held in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from kronfill._atomic import Publication
from kronfill.cli.inputs import AxisFiles, ask_pairs, read_sides
from kronfill.cli.options import MethodOptions, SideOptions, StreamingOptions, TableOptions
from kronfill.cli.outputs import check_outputs, named_as, save_model, write_table
from kronfill.cli.progress import PassProgress
from kronfill.cli.session import Session
from kronfill.cli.table_argument import TableArgument, is_parquet
from kronfill.cli.targets import OutputOptions
from kronfill.completion.streamed.problem import StreamedProblem
from kronfill.completion.streamed.table import StreamedCompletion
from kronfill.data.reading.entry_files import Roles, are_numbers
from kronfill.errors import ParameterError
from kronfill.streaming.distributed import Distributed
from kronfill.streaming.long_table import ParquetTable
from kronfill.streaming.pairs import ParquetPairs
from kronfill.streaming.plan import StreamingPlan
from kronfill.streaming.storage.work_directory import TABLE, WorkDirectory
from kronfill.streaming.streamed import Streamed, TableSolver, parse_memory

__all__ = ["StreamedFiles", "complete_streamed", "refuse"]

WEIGHTS = ("weight", "weights")


@dataclass(frozen=True)
class StreamedFiles:
    """The table and what is to be written; ``limit`` is the size of a table written unasked."""

    source: TableArgument
    options: OutputOptions
    limit: int

    def table(self, shape: tuple[int, int], sides: SideOptions) -> Path | None:
        """The file for the table, None if there is to be none.

        Raises if something could not be written, or would destroy an input.
        """
        table, save = self._table(shape), self.options.save
        inputs = (*self.source.paths, self.options.pairs, *sides.paths)
        check_outputs({"--output (table)": table, "--save": save}, inputs)
        self.source.refuse_inside("--output", table)
        return table

    def _table(self, shape: tuple[int, int]) -> Path | None:
        chosen, entries = self.options, shape[0] * shape[1]
        if chosen.pairs is not None or chosen.everything or entries <= self.limit:
            return chosen.output or Path(f"{self.source.name}-filled.parquet")
        if chosen.output is None and chosen.save is not None:
            return None
        msg = (
            f"The whole table has {entries:,} entries. Name those that you need in a file (--pairs "
            "FILE), ask for all of them (--all), or keep the model and no table (--save FILE "
            "without --output)."
        )
        raise ParameterError(msg)


def complete_streamed(
    session: Session,
    files: StreamedFiles,
    sides: SideOptions,
    reading: TableOptions,
    model: MethodOptions,
    streaming: StreamingOptions,
    *,
    dry_run: bool = False,
) -> None:
    """Fit a long table where it is and write what is asked for."""
    _check(streaming)
    options = files.options
    with session.stage("Reading"):
        problem = _read(session, files.source, sides, reading, model)
    table = files.table(problem.shape, sides)
    pairs = None if options.pairs is None else _pairs(options.pairs, problem, reading.pair_roles)
    solver = _solver(streaming, problem.tol)
    _say_plan(session, problem, problem.plan(solver, streaming.memory))
    _say_outputs(session, table, _count(problem, table, pairs), options.save)
    noted = _noted(problem, sides, model)
    if streaming.work_dir is not None:
        found = WorkDirectory(streaming.work_dir).check(noted, streaming.resume)
        session.note(f"{streaming.work_dir} holds {found}.")
    if dry_run:
        session.result("Dry run: nothing was fitted or written.")
        return
    if isinstance(pairs, ParquetPairs):
        pairs.check()
    written = []
    with _fitted(session, problem, solver, streaming, noted) as done, Publication() as publication:
        if table is not None:
            written.append(_write(session, problem, done, pairs, table, publication))
        if options.save is not None:
            written.append(save_model(session, done.model, options.save, publication))
        summary = repr(done)
    session.result(summary)
    session.result(f"Wrote {', '.join(written)}.")


def _check(streaming: StreamingOptions) -> None:
    """Raise if the options do not go together."""
    if streaming.memory is not None:
        parse_memory(streaming.memory)
    if streaming.resume and streaming.work_dir is None:
        msg = "--resume goes on with what a folder holds: name it with --work-dir DIR."
        raise ParameterError(msg)


def _solver(streaming: StreamingOptions, tol: float) -> TableSolver:
    """The solver: on this machine, or on a cluster."""
    if streaming.scheduler is None:
        return Streamed(tol=tol, work_dir=streaming.work_dir, memory=streaming.memory)
    return Distributed(streaming.scheduler, tol=tol, work_dir=streaming.work_dir)


def _read(
    session: Session,
    source: TableArgument,
    options: SideOptions,
    reading: TableOptions,
    model: MethodOptions,
) -> StreamedProblem:
    """Read the side files, and of the table what its files say about themselves."""
    table = _opened(source, reading.roles)
    names = table.columns
    weight = "" if names.weight is None else f", weights from {names.weight!r}"
    session.note(
        f"{source.description}: long table of {table.lines:,} lines: rows from {names.row!r}, "
        f"columns from {names.col!r}, values from {names.value!r}{weight}. It is streamed, never "
        "held in memory."
    )
    sides = read_sides(session, options)
    rows, cols = (
        None if side is None else _built(side, table.kind(column))
        for side, column in zip(sides, (names.row, names.col), strict=True)
    )
    problem = StreamedProblem.of(
        table, rows, cols, model.method, mu=model.weight, center=model.effects,
        kinds=options.feature_kinds or None,
    )  # fmt: skip
    for side, axis in zip(sides, problem.axes, strict=True):
        if side is not None and axis.labels is None:
            session.note(
                f"The table names its {axis.name}s by integer codes: 0 is {side.labels[0]!r}, the "
                f"first of {side.files[0].table.path}."
            )
    session.fact(
        table={"path": source.description, "files": len(source.paths), "lines": table.lines},
        side_information={
            name: side.facts
            for name, side in zip(("rows", "columns"), sides, strict=True)
            if side is not None
        },
    )
    return problem


def _built(side: AxisFiles, kind: str) -> Any:
    """The side information; labels are numbers where the table and the file have nothing else."""
    return side.build(kind in ("integer", "number") and are_numbers(side.labels))


def _opened(source: TableArgument, roles: Roles) -> ParquetTable:
    """The files as one table; a column called weight has weights, as in a table in memory."""
    paths = [str(path.absolute()) for path in source.paths]
    weight = roles.weight or _weights(paths[0], (roles.row, roles.col, roles.value))
    return ParquetTable(paths, roles.value, weight, roles.row, roles.col)


def _weights(path: str, taken: tuple[str | None, ...]) -> str | None:
    """The column that is called weight, if any."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = [str(name) for name in pq.read_schema(path).names]
    except (pa.ArrowException, OSError):
        return None  # ParquetTable says what is wrong
    free = (name for name in names if name not in taken)
    return next((name for name in free if name.lower() in WEIGHTS), None)


def _pairs(path: Path, problem: StreamedProblem, roles: Roles) -> Any:
    """The entries that a file asks for: positions, or a Parquet file that stays on the disk."""
    if is_parquet(path):
        return ParquetPairs(path, problem.axes, roles.row, roles.col)
    labels = [range(axis.size) if axis.labels is None else axis.labels for axis in problem.axes]
    return ask_pairs(path, roles, (labels[0], labels[1]))


def _count(problem: StreamedProblem, table: Path | None, pairs: Any) -> int:
    """Number of entries that will be written."""
    if table is None:
        return 0
    if pairs is None:
        return problem.shape[0] * problem.shape[1]
    return len(pairs) if isinstance(pairs, ParquetPairs) else len(pairs[0])


def _noted(problem: StreamedProblem, sides: SideOptions, model: MethodOptions) -> dict[str, Any]:
    """All that the answer depends on, by the options' names."""
    rows, cols = (
        ", ".join(blake2b(path.read_bytes(), digest_size=16).hexdigest() for _, path in some)
        for some in sides.files
    )
    return {
        TABLE: problem.table.fingerprint(),
        "--rows": rows,
        "--cols": cols,
        "how --rows and --cols are read": repr(
            (sides.kinds, sides.indices, sides.ignored, sides.feature_kinds)
        ),
        "--impute": sides.impute,
        "--method": model.method,
        "--mu": model.mu,
        "--center": model.effects,
    }


def _say_plan(session: Session, problem: StreamedProblem, plan: StreamingPlan) -> None:
    est, (n, l) = problem.estimator(), problem.shape
    session.note(
        f"To do: {type(est).__name__} (mu = {est.mu}, center = {est.center}) on {n:,} rows x "
        f"{l:,} columns, {plan.lines:,} lines, in factors of rank {plan.ranks[0]} x "
        f"{plan.ranks[1]}."
    )
    session.note(str(plan))
    session.fact(
        method=problem.method, shape=[n, l], lines=plan.lines, ranks=list(plan.ranks),
        memory_bytes=plan.memory_bytes,
    )  # fmt: skip
    if plan.scheduler is None:
        session.fact(disk_bytes=plan.disk_bytes, partitions_expected=plan.partitions)
    else:
        session.fact(cluster_bytes=plan.cluster_bytes, scheduler=plan.scheduler, m=plan.lines)


def _say_outputs(session: Session, table: Path | None, count: int, save: Path | None) -> None:
    files = [] if table is None else [f"{table} ({count:,} entries)"]
    files += [] if save is None else [str(save)]
    session.note(f"Output: {', '.join(files)}. A streamed fit has no intervals.")
    session.fact(outputs={"table": table, "model": save}, entries=count)


def _fitted(
    session: Session,
    problem: StreamedProblem,
    solver: TableSolver,
    streaming: StreamingOptions,
    noted: dict[str, Any],
) -> StreamedCompletion:
    begun = time.perf_counter()
    name = type(problem.estimator()).__name__
    with session.stage(f"Fitting {name} to {problem.table.lines:,} lines") as say:
        progress = PassProgress(session, say)
        try:
            done = StreamedCompletion.of(problem, solver.watched(progress), settings=noted)
        except KeyboardInterrupt:
            if streaming.work_dir is not None:
                session.warn(
                    f"{streaming.work_dir} keeps what was done: the same with --resume goes on."
                )
            raise
    model, solution = done.model, done.model.solution_
    session.fact(
        mu=model.mu_, iterations=solution.iterations, passes=progress.passes,
        residual=solution.residual, status=solution.status.name.lower(), solve=solution.reason,
        seconds=round(time.perf_counter() - begun, 3),
    )  # fmt: skip
    session.note(
        f"mu = {model.mu_:.3g}; {solution.iterations} iterations, residual "
        f"{solution.residual:.1e}: {solution.reason}."
    )
    if done.partitions is not None:
        session.fact(m=done.partitions.m, partitions=len(done.partitions))
    return done


def _write(
    session: Session,
    problem: StreamedProblem,
    done: StreamedCompletion,
    pairs: Any,
    path: Path,
    publication: Publication,
) -> str:
    if done.partitions is None:
        session.note(
            "The observations are on the cluster: the output has the prediction of every entry, "
            "observed or not, and no status."
        )
    with session.stage(f"Writing {path}") as say:
        blocks = (named_as(block, problem.names) for block in done.iter_details(pairs))
        lines = write_table(path, _counted(blocks, say), among=publication)
    return f"{path} ({lines:,} lines)"


def _counted(blocks: Iterator[Any], say: Any) -> Iterator[Any]:
    done = 0
    for block in blocks:
        yield block
        done += len(block)
        say(f"{done:,} lines")


_WHY = {
    "report": "--report needs all observations in memory: take a part of the lines as a table of "
    "its own and write its report, or measure it with 'kronfill evaluate'.",
    "certify": "--certify needs all observations in memory: take a part of the lines as a table of "
    "its own and certify that.",
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
    "likelihood": "--likelihood needs all observations in memory: take a part of the lines as a "
    "table of its own, or stream the values as numbers.",
    "negatives": "--negatives needs all observations in memory: draw zeros beforehand.",
    **dict.fromkeys(
        ("range", "round", "transform"),
        "--range, --round and --transform need the table in memory: leave them out, and change "
        "predictions where they are used.",
    ),
    **dict.fromkeys(
        ("budget", "on_interrupt"),
        "--budget and --on-interrupt are for --method auto and a table in memory: leave them out. "
        "A streamed fit that was stopped goes on with --resume.",
    ),
    "by": "A streamed fit has no intervals: leave --by out, or complete a part of the table in "
    "memory.",
}
_ALLOWED: dict[str, tuple[Any, ...]] = {
    "layout": ("long",), "duplicates": ("error",), "unmatched": ("error",),
    "method": ("auto", "kkmcex", "rrmcex"), "center": ("auto", "mean", "none"),
    "intervals": ("auto", "none"), "likelihood": ("gaussian",), "negatives": ("none",),
}  # fmt: skip


def refuse(**options: Any) -> None:
    """Raise for the first option that a streamed table does not have; None is not given."""
    for name, value in options.items():
        if value is not None and value not in _ALLOWED.get(name, ()):
            raise ParameterError(_WHY[name])

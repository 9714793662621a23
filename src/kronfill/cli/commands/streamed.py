"""``kronfill complete`` for tables that are not held in memory."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kronfill._atomic import Publication
from kronfill.cli.inputs import Sides, as_mu
from kronfill.cli.longfiles import TableArgument
from kronfill.cli.longpairs import RequestedPairs, described
from kronfill.cli.longplan import StreamingPlan
from kronfill.cli.longproblem import LongProblem
from kronfill.cli.outputs import check_outputs, save_model, write_table
from kronfill.cli.passes import PassProgress
from kronfill.cli.session import Session
from kronfill.cli.workdir import TABLE, WorkDir, content
from kronfill.completion.problem import LARGE
from kronfill.data.reading.entry_files import Roles
from kronfill.errors import ParameterError
from kronfill.streaming.distributed import Distributed
from kronfill.streaming.storage.partitions import Partitions
from kronfill.streaming.streamed import Streamed, TableSolver, parse_memory
from kronfill.streaming.system import outer_axis

__all__ = ["Outputs", "Settings", "Streaming", "complete_long"]

FINE, USUAL = 1e-8, 1e-6
"""Relative residual at which the solve stops, up to LARGE observations and beyond.

The rounding errors of a sum over very many observations do not allow much less."""


@dataclass(frozen=True)
class Streaming:
    """What the options say about streaming."""

    memory: str | None = None
    work_dir: Path | None = None
    scheduler: str | None = None
    resume: bool = False

    def check(self) -> None:
        """Raise if they do not go together."""
        if self.memory is not None:
            parse_memory(self.memory)
        if self.resume and self.work_dir is None:
            msg = "--resume goes on with what a folder holds: name it with --work-dir DIR."
            raise ParameterError(msg)


@dataclass(frozen=True)
class Settings:
    """What is fitted."""

    method: str
    mu: str
    center: str | None
    roles: Roles
    sides: Sides


@dataclass(frozen=True)
class Outputs:
    """What is to be written; ``limit`` is the size of a table that is written unasked."""

    output: Path | None
    pairs: Path | None
    everything: bool
    save: Path | None
    limit: int

    def table(self, given: TableArgument, shape: tuple[int, int]) -> Path | None:
        """The file for the table, None if there is to be none."""
        entries = shape[0] * shape[1]
        if self.pairs is not None or self.everything or entries <= self.limit:
            return self.output or Path(f"{given.name}-filled.parquet")
        if self.output is None and self.save is not None:
            return None
        msg = (
            f"The whole table has {entries:,} entries. Name those that you need in a file (--pairs "
            "FILE), ask for all of them (--all), or keep the model and no table (--save FILE "
            "without --output)."
        )
        raise ParameterError(msg)

    def check(self, given: TableArgument, table: Path | None, sides: Sides) -> None:
        """Raise if something could not be written, or would destroy an input."""
        written = {"--output (table)": table, "--save": self.save}
        check_outputs(written, (*given.paths, self.pairs, *sides.paths))
        given.refuse_inside("--output", table)


def complete_long(
    session: Session,
    given: TableArgument,
    streaming: Streaming,
    settings: Settings,
    outputs: Outputs,
    dry_run: bool = False,
) -> None:
    """Fit a long table where it is and write what is asked for."""
    streaming.check()
    with session.stage("Reading"):
        problem = LongProblem.of(session, given, settings.roles, settings.sides)
    table = outputs.table(given, problem.shape)
    outputs.check(given, table, settings.sides)
    roles = Roles(row=settings.roles.row, col=settings.roles.col)
    asked = None if table is None else RequestedPairs(outputs.pairs, problem.axes, roles)
    estimator = problem.estimator(settings.method, as_mu(settings.mu), settings.center)
    plan = StreamingPlan(
        problem, estimator, streaming.memory, streaming.scheduler, streaming.work_dir
    )
    plan.say(session)
    _say_outputs(session, table, asked, outputs.save)
    noted = _noted(problem, settings)
    if streaming.work_dir is not None:
        held = WorkDir(streaming.work_dir, streaming.resume).check(noted)
        session.note(f"{streaming.work_dir} holds {held}.")
    if dry_run:
        session.result("Dry run: nothing was fitted or written.")
        return
    if asked is not None:
        asked.check()
    told = []
    with _folder(streaming) as work, Publication() as written:
        plan.require_disk(work.path)
        work.note(noted, done=False)
        begun = time.perf_counter()
        _fit(session, problem, estimator, streaming, work)
        session.fact(seconds=round(time.perf_counter() - begun, 3))
        work.note(noted, done=True)
        parts = None if streaming.scheduler else _partitions(work.path, plan.ranks)
        if parts is not None:
            session.fact(m=parts.m, partitions=len(parts))
        if table is not None:
            told.append(_write(session, problem, estimator, asked, parts, table, written))
        if outputs.save is not None:
            told.append(save_model(session, estimator, outputs.save, written))
    session.result(_summary(problem, estimator, parts))
    session.result(f"Wrote {', '.join(told)}.")


def _noted(problem: LongProblem, settings: Settings) -> dict[str, Any]:
    """All that the answer depends on, by the options' names."""
    rows, cols = settings.sides.paths
    return {
        TABLE: problem.table.fingerprint(),
        "--rows": content(rows),
        "--cols": content(cols),
        "how --rows and --cols are read": repr(
            (settings.sides.kinds, settings.sides.indices, settings.sides.ignore)
        ),
        "--impute": settings.sides.impute,
        "--method": settings.method,
        "--mu": settings.mu,
        "--center": settings.center,
    }


def _say_outputs(
    session: Session, table: Path | None, asked: RequestedPairs | None, save: Path | None
) -> None:
    count = 0 if asked is None else asked.count()
    told = [*([] if table is None else [f"{table} ({count:,} entries)"]), *filter(None, [save])]
    session.note(f"Output: {', '.join(map(str, told))}. A streamed fit has no intervals.")
    session.fact(outputs={"table": table, "model": save}, entries=count)


@contextmanager
def _folder(streaming: Streaming) -> Iterator[WorkDir]:
    """The work directory, or one that is gone afterwards."""
    if streaming.work_dir is not None:
        yield WorkDir(streaming.work_dir, streaming.resume)
        return
    with tempfile.TemporaryDirectory(prefix="kronfill-") as name:
        yield WorkDir(Path(name), False)


def _fit(
    session: Session, problem: LongProblem, estimator: Any, streaming: Streaming, work: WorkDir
) -> None:
    solver: TableSolver
    tol = FINE if problem.table.lines <= LARGE else USUAL
    if streaming.scheduler is None:
        solver = Streamed(tol=tol, work_dir=work.path, memory=streaming.memory)
    else:
        solver = Distributed(streaming.scheduler, tol=tol, work_dir=work.path)
    what = f"Fitting {type(estimator).__name__} to {problem.table.lines:,} lines"
    with session.stage(what) as say:
        progress = PassProgress(session, say)
        estimator.set_params(solver=solver.watched(progress))
        try:
            estimator.fit(problem.table)
        except KeyboardInterrupt:
            if streaming.work_dir is not None:
                session.warn(f"{work.path} keeps what was done: the same with --resume goes on.")
            raise
    estimator.set_params(solver="auto")  # the solver belongs to this run
    solution = estimator.solution_
    session.fact(
        mu=estimator.mu_, iterations=solution.iterations, passes=progress.passes,
        residual=solution.residual, status=solution.status.name.lower(), solve=solution.reason,
    )  # fmt: skip
    session.note(
        f"mu = {estimator.mu_:.3g}; {solution.iterations} iterations, residual "
        f"{solution.residual:.1e}: {solution.reason}."
    )


def _partitions(folder: Path, ranks: tuple[int, int]) -> Partitions | None:
    """The observations on disk."""
    return Partitions.open(folder / ("by-columns" if outer_axis(ranks) else "by-rows"))


def _write(
    session: Session,
    problem: LongProblem,
    model: Any,
    asked: RequestedPairs | None,
    parts: Partitions | None,
    path: Path,
    written: Publication,
) -> str:
    assert asked is not None
    if parts is None:
        session.note(
            "The observations are on the cluster: the output has the prediction of every entry, "
            "observed or not, and no status."
        )
    with session.stage(f"Writing {path}") as say:
        blocks = _counted(described(model, asked, parts, problem.names), say)
        lines = write_table(path, blocks, among=written)
    return f"{path} ({lines:,} lines)"


def _counted(blocks: Iterator[Any], say: Any) -> Iterator[Any]:
    done = 0
    for block in blocks:
        yield block
        done += len(block)
        say(f"{done:,} lines")


def _summary(problem: LongProblem, model: Any, parts: Partitions | None) -> str:
    n, l = problem.shape
    lines = [
        f"Completion of {n:,} rows x {l:,} columns by {type(model).__name__} (mu = {model.mu_:.3g})"
    ]
    if parts is not None:
        warm = int((parts.counts[0] > 0).sum()) * int((parts.counts[1] > 0).sum())
        counts = {"observed": parts.m, "filled": warm - parts.m, "extrapolated": n * l - warm}
        lines += [f"  {name:<13} {k:,} entries" for name, k in counts.items()]
    return "\n".join([*lines, f"  rows: {problem.told[0]}; columns: {problem.told[1]}"])

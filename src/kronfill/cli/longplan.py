"""What a fit to a long table will take, said before it begins."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kronfill.cli.longproblem import LongProblem
from kronfill.cli.session import Session
from kronfill.core.memory import available_memory
from kronfill.data._counts import size_of
from kronfill.errors import MemoryLimitError, StorageError
from kronfill.estimators.longtables import choice_memory
from kronfill.streaming.streamed import Streamed, parse_memory, resident_memory

__all__ = ["StreamingPlan"]

DISK = (24, 40)
"""Bytes on disk per observation while the table is sorted, without and with weights."""
SPARE = 5
"""Copies of the factors that the machine in front of a cluster may hold at a time."""


@dataclass(frozen=True, eq=False)
class StreamingPlan:
    """A problem, the method, and where it is fitted: on this machine or on a cluster."""

    problem: LongProblem
    estimator: Any
    memory: str | None
    scheduler: str | None
    work_dir: Path | None

    @cached_property
    def ranks(self) -> tuple[int, int]:
        """Columns of the two factors."""
        return self.problem.ranks(self.estimator)

    @property
    def _factors(self) -> int:
        """Bytes of both factors."""
        return 8 * sum(n * rank for n, rank in zip(self.problem.shape, self.ranks, strict=True))

    @property
    def _disk(self) -> int:
        return DISK[self.problem.weighted] * self.problem.table.lines

    def say(self, session: Session) -> None:
        """Say what will be done; raise if memory does not allow it."""
        (n, l), lines, est = self.problem.shape, self.problem.table.lines, self.estimator
        session.note(
            f"To do: {type(est).__name__} (mu = {est.mu}, center = {est.center}) on {n:,} rows x "
            f"{l:,} columns, {lines:,} lines, in factors of rank {self.ranks[0]} x {self.ranks[1]}."
        )
        session.fact(
            method=type(est).__name__.lower(), shape=[n, l], lines=lines, ranks=list(self.ranks)
        )
        if self.scheduler is None:
            self._say_memory(session)
        else:
            self._say_cluster(session)

    def _say_memory(self, session: Session) -> None:
        problem = self.problem
        solver = Streamed(memory=self.memory)
        needed, count = solver.predicted(
            problem.table.lines, problem.shape, self.ranks, problem.weighted
        )
        if self.estimator.mu == "auto":
            needed = self._with_choice(needed)
        free = available_memory()
        limit = f", {self.memory} allowed" if self.memory else ""
        limit += "" if free is None else f", {size_of(free)} available"
        session.note(
            f"Memory: up to {size_of(needed)}{limit}. Disk: up to {size_of(self._disk)} in "
            f"{self.work_dir or tempfile.gettempdir()} while the table is sorted into about "
            f"{count:,} partition{'s' * (count != 1)}, half of it afterwards."
        )
        session.fact(memory_bytes=needed, disk_bytes=self._disk, partitions_expected=count)

    def _with_choice(self, needed: int) -> int:
        """Memory of the fit when mu is chosen before it; raise if that takes too much."""
        peak, kept = choice_memory(self.problem.shape, self.ranks)
        most = max(peak + resident_memory() + self._factors, needed + kept)
        if self.memory is not None and most > parse_memory(self.memory):
            msg = (
                f"The fit takes {size_of(most)} if mu is chosen before it, --memory allows "
                f"{self.memory}. Allow more, or choose mu on a part of the table and give it (--mu "
                "NUMBER)."
            )
            raise MemoryLimitError(msg)
        return most

    def _say_cluster(self, session: Session) -> None:
        needed = resident_memory() + SPARE * self._factors
        blocks = self._disk // 2
        session.note(
            f"On the cluster at {self.scheduler}: {size_of(blocks)} of observations on all workers "
            "together, about four times that while they are sorted, and "
            f"{size_of(self._factors)} of factors on each. Memory here: up to {size_of(needed)}."
        )
        session.fact(
            memory_bytes=needed, cluster_bytes=blocks, scheduler=self.scheduler,
            m=self.problem.table.lines,
        )  # fmt: skip
        if self.memory is not None and needed > parse_memory(self.memory):
            msg = (
                f"The factors of rank {self.ranks[0]} x {self.ranks[1]} need {size_of(needed)} "
                f"here; --memory allows {self.memory}."
            )
            raise MemoryLimitError(msg)

    def require_disk(self, folder: Path) -> None:
        """Raise if the table cannot be sorted for want of space."""
        if self.scheduler is not None or any(folder.glob("by-*/journal.json")):
            return
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        free = shutil.disk_usage(there).free
        if self._disk > free:
            msg = (
                f"Sorting {self.problem.table.lines:,} lines takes {size_of(self._disk)}, in "
                f"{folder} {size_of(free)} are free. Choose a folder with more (--work-dir)."
            )
            raise StorageError(msg)

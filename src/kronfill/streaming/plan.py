"""What a fit to a long table will take, known before it begins."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba

from kronfill.core.memory import available_memory
from kronfill.data.amounts import size_of
from kronfill.errors import MemoryLimitError, StorageError, argument
from kronfill.streaming.samples import SAMPLE
from kronfill.streaming.storage.work_directory import WorkDirectory
from kronfill.streaming.streamed import Streamed, factor_bytes, parse_memory, resident_memory

__all__ = ["StreamingPlan"]

DISK = (24, 40)
"""Bytes on disk per observation while the table is sorted, without and with weights."""
SPARE = 5
"""Copies of the factors that the machine in front of a cluster may hold at a time."""
SORTING = 1.8e-7
"""Seconds to read and sort a line."""
PASSES, SPEED = 12, 2.5e10
"""Passes of a fit, and multiplications and additions of a core in a second."""


@dataclass(frozen=True)
class StreamingPlan:
    """Memory, disk and time of a fit to a long table.

    Parameters
    ----------
    lines : int
        Observations.
    shape, ranks : pair of int
        Rows and columns, and the ranks of what is known about them.
    weighted : bool, default=False
        Whether observations have weights.
    chooses_mu : bool, default=False
        Whether mu is chosen before the fit.
    memory : int or str, optional
        Most memory of this process, as for :class:`~kronfill.solvers.Streamed`.
    work_dir : path, optional
        Folder of the sorted observations; a temporary one by default.
    scheduler : object, optional
        The Dask cluster, if the observations go to one.

    Examples
    --------
    >>> from kronfill.streaming.plan import StreamingPlan
    >>> plan = StreamingPlan(10**9, (100_000, 100_000), (64, 65), memory="4GB")
    >>> plan.disk_bytes, plan.partitions > 1, plan.memory_bytes < 4e9
    (24000000000, True, True)
    """

    lines: int
    shape: tuple[int, int]
    ranks: tuple[int, int]
    weighted: bool = False
    chooses_mu: bool = False
    memory: Any = None
    work_dir: Any = None
    scheduler: Any = None

    @property
    def factor_bytes(self) -> int:
        """Bytes of both factors."""
        return factor_bytes(self.shape, self.ranks)

    @property
    def disk_bytes(self) -> int:
        """Bytes on the disk while the table is sorted; afterwards it is half of them."""
        return DISK[self.weighted] * self.lines

    @property
    def cluster_bytes(self) -> int:
        """Bytes of the observations on all workers of a cluster together."""
        return self.disk_bytes // 2

    @property
    def partitions(self) -> int:
        """Partitions into which the table is sorted, about."""
        return self._streamed[1]

    @cached_property
    def memory_bytes(self) -> int:
        """Bytes of this process at most; MemoryLimitError if it may not have, or has not, them."""
        if self.scheduler is not None:
            return self._in_front_of_cluster()
        needed = self._streamed[0]
        return self._with_choice(needed) if self.chooses_mu else needed

    @property
    def seconds(self) -> float:
        """Time that reading, sorting and fitting take on this machine; the order of magnitude."""
        flops = PASSES * 4.0 * min(self.ranks)
        return self.lines * (SORTING + flops / (SPEED * numba.get_num_threads()))

    @cached_property
    def _streamed(self) -> tuple[int, int]:
        solver = Streamed(memory=self.memory)
        return solver.predicted(self.lines, self.shape, self.ranks, self.weighted)

    def _with_choice(self, needed: int) -> int:
        """Memory of the fit when mu is chosen before it.

        That takes four copies of the factors at the items of the sample, and keeps two.
        """
        n, l = (min(size, SAMPLE) for size in self.shape)
        copy = factor_bytes((n, l), self.ranks)
        most = max(4 * copy + resident_memory() + self.factor_bytes, needed + 2 * copy)
        if self.memory is not None and most > parse_memory(self.memory):
            msg = (
                f"The fit takes {size_of(most)} if mu is chosen before it, {argument('memory')} "
                f"allows {self.memory}. Allow more, or choose mu on a part of the table and give "
                f"it ({argument('mu', ...)})."
            )
            raise MemoryLimitError(msg)
        return most

    def _in_front_of_cluster(self) -> int:
        needed = resident_memory() + SPARE * self.factor_bytes
        if self.memory is not None and needed > parse_memory(self.memory):
            msg = (
                f"The factors of rank {self.ranks[0]} x {self.ranks[1]} need {size_of(needed)} "
                f"here; {argument('memory')} allows {self.memory}."
            )
            raise MemoryLimitError(msg)
        return needed

    def require(self, work: WorkDirectory) -> None:
        """Raise if memory or the disk do not allow it."""
        _ = self.memory_bytes
        if self.scheduler is not None or work.has_partitions:
            return
        folder = work.path
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        free = shutil.disk_usage(there).free
        if self.disk_bytes > free:
            msg = (
                f"Sorting {self.lines:,} lines takes {size_of(self.disk_bytes)}, in {folder} "
                f"{size_of(free)} are free. Choose a folder with more ({argument('work_dir=')})."
            )
            raise StorageError(msg)

    def __str__(self) -> str:
        needed = size_of(self.memory_bytes)
        if self.scheduler is not None:
            return (
                f"On the cluster at {self.scheduler}: {size_of(self.cluster_bytes)} of "
                "observations on all workers together, about four times that while they are "
                f"sorted, and {size_of(self.factor_bytes)} of factors on each. Memory here: up to "
                f"{needed}."
            )
        free = available_memory()
        limit = f", {self.memory} allowed" if self.memory else ""
        limit += "" if free is None else f", {size_of(free)} available"
        return (
            f"Memory: up to {needed}{limit}. Disk: up to {size_of(self.disk_bytes)} in "
            f"{self.work_dir or tempfile.gettempdir()} while the table is sorted into about "
            f"{self.partitions:,} partition{'s' * (self.partitions != 1)}, half of it afterwards."
        )

"""Conjugate gradients over observations on disk: one sequential pass per iteration."""

from __future__ import annotations

import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, fields, replace
from numbers import Real
from pathlib import Path
from typing import Any, Self

import numba
import numpy as np

from kronfill._types import Floats
from kronfill.core.grouping import Grouped
from kronfill.core.loops.lanes import lined, width
from kronfill.core.memory import available_memory
from kronfill.core.operator import SEGMENTS
from kronfill.data.amounts import size_of
from kronfill.errors import MemoryLimitError, ParameterError, argument
from kronfill.ridge.problem import CoreResult, RidgeProblem, RidgeResult
from kronfill.solvers.iterative import Iterative
from kronfill.solvers.pcg import PCG
from kronfill.streaming.columns import TableAxis
from kronfill.streaming.long_table import LongTable
from kronfill.streaming.storage.checkpoint import Products, digest
from kronfill.streaming.storage.files import alone_in
from kronfill.streaming.storage.partitions import Partition, Partitions
from kronfill.streaming.storage.sorting import BYTES, first_repeat, prepare
from kronfill.streaming.storage.work_directory import WorkDirectory
from kronfill.streaming.system import (
    PartitionedSystem,
    Sums,
    Totals,
    moments_of,
    normal_of,
    outer_axis,
)  # fmt: skip
from kronfill.streaming.watching import Watcher

__all__ = [
    "Streamed", "TableSolver", "factor_bytes", "needed_memory", "parse_memory", "partition_size",
    "resident_memory",
]  # fmt: skip

PRECISIONS = (np.dtype(np.float64), np.dtype(np.float32))
BATCH = 1 << 24
"""Observations of a partition where memory does not ask for fewer."""
PROCESS = 400_000_000
"""Bytes that a process is taken to hold with everything loaded, whatever it does hold."""
SPARE = 2
"""Copies of both factors that choosing mu before may have left in memory."""
SHARE, LEAST = 1 / 2, 1 / 32
"""Of the memory that is left, and at least of all that is allowed: what sorting a partition takes.

The rest is for threads, and for a process that holds more than was thought."""
THREAD = 8_000_000
"""Bytes that a thread takes: what it works on, the buffers of BLAS, and what malloc keeps."""
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
         "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}  # fmt: skip


def parse_memory(memory: Any) -> int:
    """Bytes from a number or a text such as "2GB" or "1.5 GiB"."""
    text = str(memory).strip().upper() if isinstance(memory, str) else ""
    number = text.rstrip("BIKMGT ")
    try:
        size = float(number) * UNITS[text[len(number) :].strip()] if text else float(memory)
    except (KeyError, TypeError, ValueError):
        size = -1.0
    if not 0 < size < np.inf or isinstance(memory, bool):
        msg = f'memory must be a number of bytes or a text such as "2GB", got {memory!r}.'
        raise ParameterError(msg)
    return int(size)


def resident_memory() -> int:
    """Bytes of memory that this process holds now; 0 where the system does not tell."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def factor_bytes(shape: tuple[int, int], ranks: tuple[int, int]) -> int:
    """Bytes of the two factors of a problem."""
    return 8 * (shape[0] * ranks[0] + shape[1] * ranks[1])


def needed_memory(
    shape: tuple[int, int], ranks: tuple[int, int], batch: int, weighted: bool = False
) -> int:
    """Bytes that a streamed fit takes beside the two factors it is given.

    Both factors are rotated, which takes a scaled copy of one at a time; that of the inner axis is
    then laid out in double and in single precision, and a pass takes a copy of its rows of the
    other; a batch is sorted; each segment of a pass has a sum of its own, and each thread its
    working space.
    """
    threads = THREAD * numba.get_num_threads()
    return _fixed_memory(shape, ranks) + threads + BYTES[weighted] * batch


def _fixed_memory(shape: tuple[int, int], ranks: tuple[int, int]) -> int:
    """Bytes of :func:`needed_memory` that neither batches nor threads ask for."""
    sizes = [8 * n * rank for n, rank in zip(shape, ranks, strict=True)]
    inner = 1 - outer_axis(ranks)
    laid = sum(kind.itemsize * shape[inner] * width(ranks[inner], kind) for kind in PRECISIONS)
    sums = 8 * ranks[0] * ranks[1] * (SEGMENTS + 16)
    return sum(sizes) + max(*sizes, laid) + 40 * sum(shape) + sums


def partition_size(
    memory: int | None, shape: tuple[int, int], ranks: tuple[int, int], weighted: bool = False
) -> int:
    """Observations of a partition.

    It follows from the memory allowed, in bytes, and the sizes of the problem alone: what the
    process or the machine happens to hold, or the number of threads, must not change the
    partitions, and with them the last bits of the answer.
    """
    most = max(BATCH, *shape)
    if memory is None:
        return most
    factors = (1 + SPARE) * factor_bytes(shape, ranks)
    left = memory - PROCESS - factors - _fixed_memory(shape, ranks)
    room = max(LEAST * memory, SHARE * left)
    return max(1, min(most, int(room / BYTES[weighted])))


class TableSolver(Iterative):
    """A solver of problems whose observations are in a long table."""

    _watcher: Watcher | None = None

    def watched(self, watcher: Watcher) -> Self:
        """Return the same solver, with someone who is told how far it is."""
        return self._with("_watcher", watcher)

    def in_folder(self, work_dir: Path) -> Self:
        """Return the same solver, working in this folder."""
        return self._with("work_dir", work_dir)

    def _with(self, name: str, value: Any) -> Self:
        made = copy(self)
        object.__setattr__(made, name, value)
        return made

    @abstractmethod
    def solve_table(
        self,
        table: LongTable,
        axes: tuple[TableAxis, TableAxis],
        phis: tuple[Floats, Floats],
        mu: float,
        center: str | None,
    ) -> CoreResult:
        """Coefficients X of F = phis[0] X phis[1]^T, effects and record."""

    def solve_targets(self, problem: RidgeProblem) -> list[RidgeResult]:
        """Refuse: observations in memory have faster solvers."""
        name = type(self).__name__
        msg = (
            f"{name} is for observations outside of memory: fit a Parquet path, a pyarrow data set "
            "or a Dask DataFrame. For arrays use kf.PCG() or leave out solver."
        )
        raise ParameterError(msg)

    def _iterate(
        self, system: PartitionedSystem, mu: float, begun: float, reason: str
    ) -> CoreResult:
        settings = {field.name: getattr(self, field.name) for field in fields(Iterative)}
        plain = PCG(**settings | {"callback": self.report, "progress": False})
        (result,) = plain.solve_all(system, mu, begun=begun)
        solution = replace(result.solution, solver=type(self).__name__, reason=reason)
        return replace(result, solution=solution)

    def report(self, iteration: int, residual: float) -> None:
        """See :class:`Iterative`."""
        super().report(iteration, residual)
        if self._watcher is not None:
            self._watcher.iterated(iteration, residual)

    def passing(self, number: int, done: int, total: int) -> None:
        """Tell whoever asked how far a pass is."""
        if self._watcher is not None:
            self._watcher.passing(number, done, total)

    def notice(self, what: str, done: int, total: int) -> None:
        """Tell whoever asked how far the preparation is."""
        if self._watcher is not None:
            self._watcher.preparing(what, done, total)
        if self.progress:
            self.printer(what, done, total)


@dataclass(frozen=True)
class Streamed(TableSolver):
    """Conjugate gradients over observations on disk, for tables larger than memory.

    The table is read once and written to the work directory as sorted partitions of 8 or 12 bytes
    per observation; each iteration then reads 4 bytes per observation, one partition after the
    other. Memory holds the factors and one partition.

    Parameters
    ----------
    tol, max_iter, time_limit, callback, progress :
        As for :class:`PCG`.
    work_dir : str or path, optional
        Folder for the partitions and the checkpoint. The same fit with the same folder goes on
        where it was stopped, and the partitions serve later fits. By default a temporary one.
    memory : int or str, optional
        Most memory of this process, in bytes or as "2GB"; by default what partitions of 16 million
        observations take. Less memory means smaller partitions. What cannot be kept is refused
        beforehand. The same table with the same ``memory`` gives the same bits.
    checkpoint : float, default=10
        Seconds between two checkpoints.

    Examples
    --------
    >>> import numpy as np, pandas as pd, tempfile, kronfill as kf
    >>> folder = tempfile.mkdtemp()
    >>> i, j = np.nonzero(np.random.default_rng(0).random((40, 40)) < 0.3)
    >>> long = pd.DataFrame({"i": i, "j": j, "y": np.sin(i / 9) * np.cos(j / 9)})
    >>> long.to_parquet(folder + "/part.parquet")
    >>> k = kf.kernels.rbf(np.linspace(0, 1, 40), length_scale=0.3)
    >>> est = kf.KKMCEX(k, k, mu=0.1, solver=kf.solvers.Streamed(work_dir=folder + "/work"))
    >>> est.fit(folder + "/*.parquet").predict([[0, 0], [39, 39]]).round(2)
    array([0.05, 0.39])
    """

    work_dir: Any = None
    memory: Any = None
    checkpoint: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory is not None:
            parse_memory(self.memory)
        if not isinstance(self.checkpoint, Real) or not self.checkpoint >= 0:
            msg = f"Streamed: checkpoint must be a number of seconds, got {self.checkpoint!r}."
            raise ParameterError(msg)

    def solve_table(
        self,
        table: LongTable,
        axes: tuple[TableAxis, TableAxis],
        phis: tuple[Floats, Floats],
        mu: float,
        center: str | None,
    ) -> CoreResult:
        """See :class:`TableSolver`."""
        begun = time.monotonic()
        ranks = (phis[0].shape[1], phis[1].shape[1])
        by = outer_axis(ranks)
        shape, weighted = (axes[0].size, axes[1].size), table.columns.weight is not None
        batch = self._batch(shape, ranks, weighted)
        self._require(shape, ranks, weighted, batch if table.lines is None else table.lines)
        with self._folder() as work:
            folder = WorkDirectory(work).partitions(by)
            parts = prepare(table, axes, by, folder, batch, self.notice)
            kept = Products(None if self.work_dir is None else work / "products", self.checkpoint)
            sums = StreamedSums(parts, kept, self.passing)
            system = PartitionedSystem(phis, sums, center, mu * self.tol)
            reason = f"m = {parts.m} in {len(parts)} partitions of up to {parts.batch}"
            result = self._iterate(system, mu, begun, reason)
            kept.clear()
        return result

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        if self.work_dir is None:
            with tempfile.TemporaryDirectory(prefix="kronfill-") as name:
                yield Path(name)
            return
        with alone_in(Path(self.work_dir)) as folder:
            yield folder

    def predicted(
        self, m: int, shape: tuple[int, int], ranks: tuple[int, int], weighted: bool
    ) -> tuple[int, int]:
        """Memory of this process at most, in bytes, and partitions on disk, about.

        Raises :class:`MemoryLimitError` if the memory allowed is not enough.
        """
        batch = self._batch(shape, ranks, weighted)
        needed = self._require(shape, ranks, weighted, m) + factor_bytes(shape, ranks)
        return needed, max(1, -(-m // batch))

    def _batch(self, shape: tuple[int, int], ranks: tuple[int, int], weighted: bool) -> int:
        """Observations of a partition."""
        memory = None if self.memory is None else parse_memory(self.memory)
        return partition_size(memory, shape, ranks, weighted)

    def _require(
        self, shape: tuple[int, int], ranks: tuple[int, int], weighted: bool, m: int
    ) -> int:
        """Memory of this process at most, beside the factors, for up to m observations.

        Raises :class:`MemoryLimitError` if it is more than is allowed, or than there is.
        """
        _load()
        resident, free = resident_memory(), available_memory()
        batch = min(m, self._batch(shape, ranks, weighted))
        needed = resident + needed_memory(shape, ranks, batch, weighted)
        if self.memory is not None:
            limit, advice = parse_memory(self.memory), "Allow more"
        else:
            limit = resident + (free or 1 << 40)
            advice = f"Ask for less ({argument('memory=')}), which takes longer"
        if needed > limit:
            msg = (
                f"Streaming with ranks {ranks[0]} x {ranks[1]} on {shape[0]} x {shape[1]} needs "
                f"{size_of(needed)}, of which this process holds {size_of(resident)} already; "
                f"memory is {size_of(limit)}. {advice}, or use kernels of lower rank."
            )
            raise MemoryLimitError(msg)
        return needed


def _load() -> None:
    """Have what is compiled in memory before the rest is measured."""
    one: Any = np.zeros(1, np.int32)
    x = np.ones((1, 1))
    grouped = Grouped.by(one, one, 1)
    first_repeat(grouped)
    for kind in PRECISIONS:
        normal_of(x, lined(x, kind), grouped, x)
    moments_of(x, lined(x, np.float64), grouped, grouped.gather(np.ones(1)), 1)


class StreamedSums(Sums):
    """Sums over partitions on disk, one after the other."""

    def __init__(
        self,
        parts: Partitions,
        kept: Products,
        passing: Callable[[int, int, int], None] = lambda number, done, total: None,
    ) -> None:
        self._parts, self._kept = parts, kept
        self._passing, self._passes = passing, 0
        self.totals = Totals(parts.m, parts.shape, parts.counts, parts.square, parts.total)

    def place(self, outer: Floats, inner: Floats) -> None:
        """See :class:`Sums`."""
        self._outer = outer
        self._inner = [lined(inner, kind) for kind in PRECISIONS]
        self._shape = (outer.shape[1], inner.shape[1])
        data = repr((self._parts.checksums, self._parts.bounds)).encode()
        self._key = digest([data, outer, inner])

    def _part(self, number: int) -> Partition:
        """A partition; the next one, after the last the first of the next pass, is read ahead."""
        count = len(self._parts)
        self._passing(self._passes, number, count)
        self._parts[(number + 1) % count].ahead()
        return self._parts[number]

    def normal(self, x: Floats, single: bool = False) -> Floats:
        """See :class:`Sums`."""
        self._passes += 1

        def term(number: int) -> Floats:
            part = self._part(number)
            return normal_of(self._outer[part.items], self._inner[single], part.grouped, x)

        what: list[bytes | Floats] = [self._key, PRECISIONS[single].str.encode(), x]
        return self._kept.total(what, x.shape, len(self._parts), term)

    def moments(self) -> Floats:
        """See :class:`Sums`."""
        self._passes += 1

        def term(number: int) -> Floats:
            part = self._part(number)
            outer = self._outer[part.items]
            return moments_of(outer, self._inner[0], part.grouped, part.values, self._shape[1])

        return self._kept.total([self._key, b"moments"], (2, *self._shape), len(self._parts), term)

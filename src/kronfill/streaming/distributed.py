"""Conjugate gradients over observations on a Dask cluster.

The observations are sorted by outer item across the cluster once and stay on the workers. The
factors are sent once; each iteration is a map over blocks of observations and a tree of sums of one
small matrix. Blocks and tree depend on the data alone: the same bits come out for any number of
workers. A block that is lost with its worker is made again by Dask from where it came.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kronfill._optional import needed
from kronfill._types import Floats
from kronfill.errors import (
    EmptyDataError,
    ParameterError,
    StorageError,
)
from kronfill.ridge.problem import CoreResult
from kronfill.streaming import workers
from kronfill.streaming.columns import TableAxis, repeated_entry
from kronfill.streaming.long_table import FrameTable, LongTable
from kronfill.streaming.storage.checkpoint import Products, digest
from kronfill.streaming.storage.sorting import cuts
from kronfill.streaming.streamed import TableSolver
from kronfill.streaming.system import (
    PartitionedSystem,
    Sums,
    Totals,
    outer_axis,
)

__all__ = ["Distributed", "has_client"]

BLOCK, LEAST_BLOCK = 1 << 22, 1 << 19
"""Observations of a block: not more, unless there are very many; not fewer, unless pieces are."""
BLOCKS, MOST_BLOCKS = 64, 2048
"""Blocks that are made where the pieces are fewer; and most of them: each is a task per pass."""
FAN_IN = 8
"""Matrices that are added in one task."""
TRIES = 10
"""So often a sum is begun anew after workers were lost with all copies of what was sent to them."""
MANY = 256
"""Pieces up to which the sort is made of tasks; beyond, it is left to Dask's choice."""


@dataclass(frozen=True, init=False)
class Distributed(TableSolver):
    """Conjugate gradients on a Dask cluster, for tables larger than a machine.

    Parameters
    ----------
    client : distributed.Client or str, optional
        A client, or the address of a scheduler such as "tcp://10.0.0.1:8786"; by default the
        client that is current. kronfill must be installed where the workers are.
    tol, max_iter, time_limit, callback, progress :
        As for :class:`PCG`.
    work_dir : str or path, optional
        Folder of this machine for the checkpoint: the same fit goes on where it was stopped.
    checkpoint : float, default=10
        Seconds between two checkpoints.

    Examples
    --------
    >>> import kronfill as kf
    >>> solver = kf.solvers.Distributed("tcp://10.0.0.1:8786", tol=1e-8)
    >>> solver.client, solver.tol
    ('tcp://10.0.0.1:8786', 1e-08)
    """

    client: Any = None
    work_dir: Any = None
    checkpoint: float = 10.0

    def __init__(
        self,
        client: Any = None,
        *,
        tol: float = 1e-6,
        max_iter: int = 1000,
        time_limit: float = float("inf"),
        callback: Callable[[int, float], None] | None = None,
        progress: bool = False,
        work_dir: Any = None,
        checkpoint: float = 10.0,
    ) -> None:
        super().__init__(tol, max_iter, time_limit, callback, progress)
        for name, value in (("client", client), ("work_dir", work_dir), ("checkpoint", checkpoint)):
            object.__setattr__(self, name, value)

    def __deepcopy__(self, memo: Any) -> Distributed:
        return self  # immutable, and a client has no copy

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
        by = outer_axis((phis[0].shape[1], phis[1].shape[1]))
        folder = None if self.work_dir is None else Path(self.work_dir) / "products"
        kept = Products(folder, self.checkpoint)
        with connected(self.client) as client:
            self.notice("sorting on the cluster, pieces", 0, table.pieces)
            sums = ClusterSums(client, table, axes, by, kept, self.passing)
            self.notice("sorting on the cluster, pieces", table.pieces, table.pieces)
            system = PartitionedSystem(phis, sums, center)
            reason = f"m = {sums.totals.m} in {len(sums)} blocks on the cluster"
            result = self._iterate(system, mu, begun, reason)
        kept.clear()
        return result


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """A client of the cluster; one that was made here is closed again."""
    distributed = _distributed()
    if isinstance(client, distributed.Client):
        yield client
    elif client is None:
        try:
            found = distributed.default_client()
        except ValueError:
            msg = "There is no Dask client; make one with distributed.Client(address)."
            raise ParameterError(msg) from None
        yield found
    elif isinstance(client, str):
        try:
            made = distributed.Client(client, timeout="30s", set_as_default=False)
        except (OSError, ValueError) as error:
            msg = f"No Dask scheduler answers at {client!r}: {error}"
            raise StorageError(msg) from error
        with made:
            yield made
    else:
        msg = f"client must be a distributed.Client or the address of a scheduler, got {client!r}."
        raise ParameterError(msg)


def has_client() -> bool:
    """Whether a client is current; Dask is not imported to find out."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    try:
        distributed.default_client()
    except ValueError:
        return False
    return True


def _distributed() -> Any:
    needed("dask.dataframe", "A Dask cluster")
    return needed("distributed", "A Dask cluster")


class ClusterSums(Sums):
    """Sums over blocks on the workers.

    What a worker is given comes in two kinds: tasks, which Dask repeats where it must, and the
    factors, which are copied to every worker and sent again if all copies are lost.
    """

    def __init__(
        self,
        client: Any,
        table: LongTable,
        axes: tuple[TableAxis, TableAxis],
        by: int,
        kept: Products,
        passing: Callable[[int, int, int], None] = lambda number, done, total: None,
    ) -> None:
        self._client, self._kept = client, kept
        self._passing, self._passes = passing, 0
        self._table, self._axes, self._by = table, axes, by
        self._name = table.fingerprint().encode()
        self._sort()

    def __len__(self) -> int:
        return len(self._blocks)

    def _sort(self) -> None:
        """Sort the observations across the cluster; the workers keep the blocks."""
        by, sizes = self._by, (self._axes[0].size, self._axes[1].size)
        read = self._read()
        counted = [self._client.submit(workers.counted, one, sizes, by, pure=False) for one in read]
        numbers, rows, cols, sums = self._tree(counted)
        m = int(numbers.sum())
        if m == 0:
            msg = "The table has no line with an observation."
            raise EmptyDataError(msg)
        self.totals = Totals(m, sizes, (rows, cols), float(sums[0]), float(sums[1]))
        count = max(len(read), -(-m // BLOCK), min(BLOCKS, m // LEAST_BLOCK))
        most = -(-m // min(count, MOST_BLOCKS))
        bounds = cuts(np.concatenate([[0], np.cumsum(numbers)]), most)
        self._blocks = self._grouped(read, bounds)
        found = self._client.map(workers.repeat_of, self._blocks, pure=False)
        for repeat in self._client.gather(found):
            if repeat is not None:
                self._refuse(read, repeat)

    def _read(self) -> list[Any]:
        """The pieces of the table on the workers, decoded: futures of pandas frames."""
        client, table, by = self._client, self._table, self._by
        shared = client.submit(workers.same, (table.columns, self._axes, by), pure=False)
        names = [table.named(piece) for piece in range(table.pieces)]
        if isinstance(table, FrameTable):
            parts = client.compute(table.frame.to_delayed())
        else:
            whole = client.submit(workers.same, table, pure=False)
            parts = [
                client.submit(workers.piece_of, whole, piece, pure=False)
                for piece in range(table.pieces)
            ]
        return [
            client.submit(workers.decoded, part, shared, name, pure=False)
            for part, name in zip(parts, names, strict=True)
        ]

    def _grouped(self, read: list[Any], bounds: list[int]) -> list[Any]:
        """Blocks of observations, one for each range of outer items."""
        import dask.dataframe as dd
        from dask.delayed import delayed

        weighted = self._table.columns.weight is not None
        lines = dd.from_delayed(
            read, meta=workers.frame_of(*workers.nothing(weighted)), verify_meta=False
        )
        # Tasks are repeated one by one after a loss; for many pieces they are too many.
        method = "tasks" if len(read) <= MANY else None
        ranges = lines.set_index("outer", divisions=bounds, shuffle_method=method).to_delayed()
        make = delayed(workers.block_of, pure=False)
        return list(
            self._client.compute(
                [
                    make(part, first, last)
                    for part, first, last in zip(ranges, bounds[:-1], bounds[1:], strict=True)
                ]
            )
        )

    def _refuse(self, read: list[Any], repeat: tuple[int, int]) -> None:
        """Name the pieces with an entry that occurs twice."""
        found = self._client.map(workers.times, read, repeat=repeat, pure=False)
        counts = self._client.gather(found)
        where = [self._table.named(k) for k, times in enumerate(counts) if times]
        raise repeated_entry(self._axes, repeat if self._by == 0 else repeat[::-1], where)

    def place(self, outer: Floats, inner: Floats) -> None:
        """See :class:`Sums`."""
        self._factors = (outer, workers.InnerFactor(inner))
        self._key = digest([self._name, outer, inner])
        self._send()

    def _send(self) -> None:
        """Copy the factors to every worker."""
        self._sent = self._client.scatter(list(self._factors), broadcast=True, hash=False)

    def normal(self, x: Floats, single: bool = False) -> Floats:
        """See :class:`Sums`: always in double precision, passes do not wait for arithmetic."""
        return self._total(workers.normal, x, x.shape, [self._key, x])

    def moments(self) -> Floats:
        """See :class:`Sums`."""
        shape = (2, self._factors[0].shape[1], self._factors[1].columns)
        return self._total(workers.moments, None, shape, [self._key, b"moments"])

    def _total(self, job: Any, x: Any, shape: tuple[int, ...], key: list[Any]) -> Floats:
        self._passes += 1

        def term(_: int) -> Floats:
            self._passing(self._passes, 0, len(self._blocks))
            sent = self._client.submit(workers.same, x, pure=False)
            outer, inner = self._sent
            terms = self._client.map(
                job, self._blocks, outer=outer, inner=inner, x=sent, pure=False
            )
            return np.asarray(self._tree(terms)[0])

        return self._kept.total(key, shape, 1, lambda k: self._patiently(lambda: term(k)))

    def _tree(self, terms: list[Any]) -> Any:
        """Sum of futures, FAN_IN at a time, always in the same order."""
        while len(terms) > 1:
            terms = [
                self._client.submit(workers.added, terms[k : k + FAN_IN], pure=False)
                for k in range(0, len(terms), FAN_IN)
            ]
        return terms[0].result()

    def _patiently(self, work: Callable[[], Floats]) -> Floats:
        """Do the work; if workers were lost with all copies of the factors, send them again."""
        from distributed.scheduler import KilledWorker

        for left in reversed(range(TRIES)):
            try:
                return work()
            except (CancelledError, KilledWorker) as error:
                if not left:
                    msg = (
                        f"Workers were lost {TRIES} times during one pass ({error}). Look into "
                        "their logs; too little memory is the usual reason."
                    )
                    raise StorageError(msg) from error
                self._client.wait_for_workers(1)
                self._send()
        raise AssertionError

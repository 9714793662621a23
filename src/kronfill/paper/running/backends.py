"""Where cells are worked on: here, in processes of this machine, or on a Dask cluster.

A backend takes cells and gives back their records as they complete, in any order. Every record is
the same wherever it was made; only this process writes to the store.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

from kronfill._optional import needed
from kronfill.errors import ParameterError
from kronfill.paper.running.spec import Cell
from kronfill.paper.running.work import CellSettings, failed_record, run_cell

__all__ = ["Backend", "Dask", "Processes", "Serial", "backend_for"]

AHEAD = 4
"""Groups of cells per worker that are handed out ahead of time."""


class Backend(ABC):
    """A way to run cells."""

    @abstractmethod
    def run(self, cells: Sequence[Cell], settings: CellSettings) -> Iterator[dict[str, Any]]:
        """Records of the cells, as they complete."""


@dataclass(frozen=True)
class Serial(Backend):
    """One cell after the other in this process."""

    def run(self, cells: Sequence[Cell], settings: CellSettings) -> Iterator[dict[str, Any]]:
        """See :class:`Backend`."""
        for cell in cells:
            yield run_cell(cell, settings)


@dataclass(frozen=True)
class Processes(Backend):
    """Processes of this machine, each with one thread.

    Cells on the same data that come one after the other go to one worker, which draws the data
    once. A worker that dies takes the pool with it; the cells it had are reported as failed, the
    others go to a new pool.

    Parameters
    ----------
    workers : int
        Number of processes.
    """

    workers: int

    def __post_init__(self) -> None:
        if self.workers < 1:
            msg = f"workers must be at least 1, got {self.workers}"
            raise ParameterError(msg)

    def run(self, cells: Sequence[Cell], settings: CellSettings) -> Iterator[dict[str, Any]]:
        """See :class:`Backend`."""
        waiting = [list(group) for _, group in groupby(cells, key=_data_of)][::-1]
        while waiting:
            # spawn: a forked child would inherit the state of the thread pools of its parent.
            context = multiprocessing.get_context("spawn")
            pool = ProcessPoolExecutor(self.workers, mp_context=context, initializer=_quiet)
            try:
                yield from self._drain(pool, waiting, settings)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _drain(
        self, pool: ProcessPoolExecutor, waiting: list[list[Cell]], settings: CellSettings
    ) -> Iterator[dict[str, Any]]:
        """Hand out groups of cells until none is left or the pool breaks."""
        running: dict[Future[list[dict[str, Any]]], list[Cell]] = {}
        while waiting or running:
            try:
                while waiting and len(running) < AHEAD * self.workers:
                    running[pool.submit(_run_group, waiting[-1], settings)] = waiting[-1]
                    waiting.pop()
                done = next(as_completed(running))
                records = done.result()
            except BrokenProcessPool:
                for cell in chain.from_iterable(running.values()):
                    yield failed_record(cell, settings, traceback.format_exc(limit=-1))
                return
            running.pop(done)
            yield from records


def _data_of(cell: Cell) -> tuple[str, int, int]:
    return cell.panel, cell.size, cell.realization


def _run_group(cells: Sequence[Cell], settings: CellSettings) -> list[dict[str, Any]]:
    return [run_cell(cell, settings) for cell in cells]


def _quiet() -> None:
    """Leave Ctrl-C to the process that writes the store."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass(frozen=True)
class Dask(Backend):
    """A running Dask cluster.

    Parameters
    ----------
    cluster : str or distributed.Client
        Address of the scheduler, such as "tcp://10.0.0.1:8786", or a client of it. kronfill must be
        installed where the workers are. A cell whose worker is lost goes to another one.
    """

    cluster: Any

    def run(self, cells: Sequence[Cell], settings: CellSettings) -> Iterator[dict[str, Any]]:
        """See :class:`Backend`."""
        distributed = _distributed()
        if isinstance(self.cluster, distributed.Client):
            yield from _on_cluster(self.cluster, cells, settings)
            return
        with distributed.Client(self.cluster, timeout="30s") as client:
            yield from _on_cluster(client, cells, settings)


def _on_cluster(
    client: Any, cells: Sequence[Cell], settings: CellSettings
) -> Iterator[dict[str, Any]]:
    distributed = _distributed()
    futures = {
        client.submit(run_cell, cell, settings, pure=False, retries=3, priority=-rank): cell
        for rank, cell in enumerate(cells)
    }
    try:
        for future in distributed.as_completed(futures):
            if future.status == "finished":
                yield future.result()
            else:
                words = str(future.exception() if future.status == "error" else future.status)
                yield failed_record(futures[future], settings, words)
            future.release()
    finally:
        client.cancel(list(futures))


def _distributed() -> Any:
    return needed("distributed", "A Dask cluster")


def backend_for(workers: int, scheduler: str | None) -> Backend:
    """The backend that was asked for.

    Parameters
    ----------
    workers : int
        Processes of this machine; 1 works in this one.
    scheduler : str or None
        Address of a Dask scheduler, which is used instead.

    Returns
    -------
    Backend

    Examples
    --------
    >>> from kronfill.paper.running.backends import backend_for
    >>> backend_for(1, None), backend_for(2, None)
    (Serial(), Processes(workers=2))
    """
    if scheduler is not None:
        return Dask(scheduler)
    return Serial() if workers == 1 else Processes(workers)

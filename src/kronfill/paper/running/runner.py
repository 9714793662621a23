"""Run a plan: what is missing in the store is done, what failed is tried again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kronfill._progress import Progress, silent
from kronfill.paper.methods import METHODS
from kronfill.paper.running.backends import Backend
from kronfill.paper.running.spec import Cell, RunPlan
from kronfill.paper.running.store import Store
from kronfill.paper.running.work import CellSettings

__all__ = ["RunWatcher", "missing_cells", "run_plan"]

ATTEMPTS = 3


class RunWatcher:
    """Is told how a run goes, and passes it on.

    Parameters
    ----------
    progress : callable, optional
        Called with the number of cells that are done, in words, their expected cost, and that of
        all, so that the time left means something.
    """

    _progress: Progress = staticmethod(silent)

    def __init__(self, progress: Progress = silent) -> None:
        self._progress = progress

    def begin(self, cells: Sequence[Cell]) -> None:
        """These cells are missing and will be done now."""
        self._waiting = {cell.key: METHODS[cell.method].cost(cell.size) for cell in cells}
        self._count, self._total = len(cells), math.fsum(self._waiting.values())
        self._report()

    def finish(self, record: dict[str, Any]) -> None:
        """A cell is done, or has failed in every attempt."""
        del self._waiting[record["key"]]
        self._report()

    def _report(self) -> None:
        done = self._count - len(self._waiting)
        left = math.fsum(self._waiting.values())
        self._progress(f"{done:,} of {self._count:,} cells", self._total - left, self._total)


def missing_cells(plan: RunPlan, store: Store) -> list[Cell]:
    """Cells of the plan that the store does not have, or has as failed.

    Parameters
    ----------
    plan : RunPlan
        What is wanted.
    store : Store
        What is there.

    Returns
    -------
    list of Cell
    """
    done = store.done()
    return [cell for cell in plan.cells() if cell.key not in done]


def run_plan(
    plan: RunPlan,
    settings: CellSettings,
    store: Store,
    backend: Backend,
    watcher: RunWatcher | None = None,
) -> list[dict[str, Any]]:
    """Do every cell that is missing and write each as it completes.

    Parameters
    ----------
    plan : RunPlan
        What is wanted.
    settings : CellSettings
        Seed and constants.
    store : Store
        Where finished cells go.
    backend : Backend
        Where the work is done.
    watcher : RunWatcher, optional
        Is told what will be done and what is done.

    Returns
    -------
    list of dict
        Cells of the plan that failed in every attempt; they stay in the store, marked as failed,
        and the next run tries them again.
    """
    watcher = watcher or RunWatcher()
    waiting = missing_cells(plan, store)
    watcher.begin(waiting)
    failed: list[dict[str, Any]] = []
    for attempt in range(1, ATTEMPTS + 1):
        failed = []
        by_key = {cell.key: cell for cell in waiting}
        for record in backend.run(waiting, settings):
            store.put(record)
            if record["status"] == "failed":
                failed.append(record)
            if record["status"] == "done" or attempt == ATTEMPTS:
                watcher.finish(record)
        waiting = [by_key[record["key"]] for record in failed]
        if not waiting:
            break
    return failed

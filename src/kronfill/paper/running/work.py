"""Do the work of one cell and report it as a flat record."""

from __future__ import annotations

import platform
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from typing import Any

import numpy as np

from kronfill.core.threads import one_thread
from kronfill.paper.constants import load_constants
from kronfill.paper.losses import measure
from kronfill.paper.methods import METHODS, PAPER_MU, fit
from kronfill.paper.running.seeds import Purpose, data_seed, start_seed
from kronfill.paper.running.spec import Cell, snr_of
from kronfill.paper.synthetic import Draw, draw

__all__ = ["CellSettings", "failed_record", "run_cell", "settings_for", "versions"]


@dataclass(frozen=True)
class CellSettings:
    """What all cells of a run share."""

    seed: int
    """Root of all random numbers."""
    exponent: float
    power: float
    """Constants of the data."""
    mu: Mapping[str, Mapping[str, float]]
    """Ridge weight per panel and tuned method, for a kernel of unit diagonal."""

    def mu_of(self, cell: Cell) -> float:
        """Ridge weight of a cell.

        The paper scales mu of KMC and KKMCEX with N to compensate for the growing trace of its
        kernels. Ours has a unit diagonal for every N, Tr(S K_f S^T) = m: dividing the kernel by
        that trace is the same compensation, and leaves one number for all N.
        """
        tuned = METHODS[cell.method].tuned
        if not tuned:
            return PAPER_MU
        # A panel that the paper does not have takes the weights of its noisy one.
        panel = cell.panel if cell.panel in self.mu else "b"
        return float(self.mu[panel][tuned])


def settings_for(seed: int) -> CellSettings:
    """Settings with the constants that come with the package.

    Examples
    --------
    >>> from kronfill.paper.running.work import settings_for
    >>> settings_for(0).seed
    0
    """
    found = load_constants()
    data = found["data"]
    mu = {panel: dict(values) for panel, values in found["mu"]["values"].items()}
    return CellSettings(seed, data["exponent"], data["power"], mu)


@cache
def versions() -> str:
    """The versions that a result may depend on."""
    names = ("kronfill", "numpy", "scipy", "numba")
    packages = [f"{name} {metadata.version(name)}" for name in names]
    return ", ".join([*packages, f"Python {platform.python_version()}", sys.platform])


@lru_cache(maxsize=1)
def _data(
    panel: str, size: int, realization: int, seed: int, exponent: float, power: float
) -> Draw:
    """The data of the cell; methods that come one after the other on the same data share them."""
    chosen = data_seed(seed, panel, size, realization)
    return draw(size, snr_of(panel), chosen, exponent=exponent, power=power)


def run_cell(cell: Cell, settings: CellSettings) -> dict[str, Any]:
    """Draw the data, fit, measure: one row of the store. An error is reported, not raised.

    The work uses one thread, so the numbers do not depend on the machine being busy or on how many
    workers there are; seconds are those of the processor.

    Examples
    --------
    >>> from kronfill.paper.running.spec import Cell
    >>> from kronfill.paper.running.work import CellSettings, run_cell
    >>> settings = CellSettings(0, 1.35, 0.45, {"a": {"kkmcex": 1e-6}})
    >>> found = run_cell(Cell("kkmcex", 100, "a", 0), settings)
    >>> found["status"], found["train"] < found["test"]
    ('done', True)
    """
    record = _header(cell, settings)
    try:
        with one_thread():
            record.update(_results(cell, settings))
    except Exception:
        return failed_record(cell, settings, traceback.format_exc(limit=-5))
    return record


def failed_record(cell: Cell, settings: CellSettings, error: str) -> dict[str, Any]:
    """The record of a cell that could not be done, with the reason."""
    return {**_header(cell, settings), "status": "failed", "error": error}


def _header(cell: Cell, settings: CellSettings) -> dict[str, Any]:
    """What the cell is and what it was done with; results still missing."""
    key = data_seed(settings.seed, cell.panel, cell.size, cell.realization).spawn_key
    return {
        "key": cell.key,
        "panel": cell.panel,
        "snr": snr_of(cell.panel),
        "N": cell.size,
        "realization": cell.realization,
        "method": cell.method,
        "status": "done",
        "error": "",
        "mu": settings.mu_of(cell),
        **dict.fromkeys(("train", "test", "ge", "norm", "objective"), float("nan")),
        "sweeps": 0,
        "converged": False,
        **dict.fromkeys(("seconds_data", "seconds_fit", "seconds_losses"), float("nan")),
        "exponent": settings.exponent,
        "power": settings.power,
        "seed": settings.seed,
        "spawn_key": ",".join(map(str, key)),
        "versions": versions(),
    }


def _results(cell: Cell, settings: CellSettings) -> dict[str, Any]:
    where = cell.panel, cell.size, cell.realization
    times = [time.process_time()]
    made = _data(*where, settings.seed, settings.exponent, settings.power)
    made.square  # noqa: B018 - draws the noise, which belongs to the time of the data
    times.append(time.process_time())
    rng = np.random.default_rng(start_seed(settings.seed, *where, Purpose.FIGURE))
    outcome = fit(cell.method, made.kernel, made.observations, settings.mu_of(cell), rng)
    times.append(time.process_time())
    losses = measure(made, outcome.prediction)
    times.append(time.process_time())
    names = ("seconds_data", "seconds_fit", "seconds_losses")
    return {
        "train": losses.train,
        "test": losses.test,
        "ge": losses.ge,
        "norm": outcome.norm,
        "objective": outcome.objective,
        "sweeps": outcome.sweeps,
        "converged": outcome.converged,
        **dict(zip(names, np.diff(times).tolist(), strict=True)),
    }

"""Solver objects: how a method is fitted, with the settings of its iteration.

Hand one to an estimator as ``solver=``; the default ``"auto"`` chooses by expected cost. Those that
read a table piece by piece live in :mod:`kronfill.streaming`, and are reached from here as well.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kronfill.ridge.solution import Solution, Status
from kronfill.solvers.alternating import ALS
from kronfill.solvers.auto import Auto
from kronfill.solvers.dense import Cholesky, GridEigen
from kronfill.solvers.dual_pcg import DualPCG
from kronfill.solvers.pcg import PCG
from kronfill.solvers.primal import PrimalDirect
from kronfill.solvers.row_wise import RowWise

if TYPE_CHECKING:
    from kronfill.streaming.distributed import Distributed
    from kronfill.streaming.streamed import Streamed

__all__ = [
    "ALS", "PCG", "Auto", "Cholesky", "Distributed", "DualPCG", "GridEigen", "PrimalDirect",
    "RowWise", "Solution", "Status", "Streamed",
]  # fmt: skip

_STREAMING = {
    "Distributed": "kronfill.streaming.distributed",
    "Streamed": "kronfill.streaming.streamed",
}


def __getattr__(name: str) -> Any:
    if name not in _STREAMING:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(_STREAMING[name]), name)

"""Solver objects: how a method is fitted, with the settings of its iteration.

Hand one to an estimator as ``solver=``; the default ``"auto"`` chooses by expected cost.
"""

from kronfill.linalg.alternating import ALS
from kronfill.linalg.auto import Auto
from kronfill.linalg.dense import Cholesky, GridEigen
from kronfill.linalg.distributed import Distributed
from kronfill.linalg.dualpcg import DualPCG
from kronfill.linalg.pcg import PCG
from kronfill.linalg.primal import PrimalDirect
from kronfill.linalg.rowwise import RowWise
from kronfill.linalg.solution import Solution, Status
from kronfill.linalg.streamed import Streamed

__all__ = [
    "ALS", "PCG", "Auto", "Cholesky", "Distributed", "DualPCG", "GridEigen", "PrimalDirect",
    "RowWise", "Solution", "Status", "Streamed",
]  # fmt: skip

"""Choosing mu and kernels: paths, splits, searches, and an honest look at the choice.

Examples
--------
>>> import numpy as np, kronfill as kf
>>> from kronfill import selection
>>> k = kf.kernels.rbf(np.linspace(0, 1, 30), length_scale=0.3)
>>> X = np.argwhere(np.random.default_rng(0).random((30, 30)) < 0.3)
>>> y = np.sin(X[:, 0] / 5) * np.cos(X[:, 1] / 5)
>>> selection.mu_path(kf.KKMCEX(k, k), X, y).method
'exact'
"""

from kronfill.selection.choice import Choice, Nested, choose
from kronfill.selection.families import Mixture, Parameters
from kronfill.selection.kernels import KernelTuner
from kronfill.selection.leaving import leave_out
from kronfill.selection.path import MuPath, mu_path
from kronfill.selection.ranking import RankingFigures, ranking_figures
from kronfill.selection.splitters import ColumnKFold, EntryKFold, RowColumnKFold, RowKFold

__all__ = [
    "Choice",
    "ColumnKFold",
    "EntryKFold",
    "KernelTuner",
    "Mixture",
    "MuPath",
    "Nested",
    "Parameters",
    "RankingFigures",
    "RowColumnKFold",
    "RowKFold",
    "choose",
    "leave_out",
    "mu_path",
    "ranking_figures",
]

"""Conformal intervals and sets around any method.

What is calibrated on is in ``calibration``, the errors of it in ``left_out_errors``, how they scale
in ``scales``; ``regressor`` gives intervals, ``sets`` those of classes and counts.
"""

from kronfill.estimators.conformal.regressor import ConformalRegressor
from kronfill.estimators.conformal.sets import ConformalClassifier, ConformalCounts

__all__ = ["ConformalClassifier", "ConformalCounts", "ConformalRegressor"]

"""The five methods, MC, KMC, IMC, KKMCEX and RRMCEX, and intervals around any of them."""

from kronfill.estimators.conformal import ConformalRegressor
from kronfill.estimators.imc import IMC
from kronfill.estimators.kkmcex import KKMCEX
from kronfill.estimators.kmc import KMC
from kronfill.estimators.mc import MC
from kronfill.estimators.rrmcex import RRMCEX

__all__ = ["IMC", "KKMCEX", "KMC", "MC", "RRMCEX", "ConformalRegressor"]

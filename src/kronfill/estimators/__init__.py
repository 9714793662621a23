"""The five methods: MC, KMC, IMC, KKMCEX and RRMCEX."""

from kronfill.estimators.factorised import IMC, KMC, MC
from kronfill.estimators.kkmcex import KKMCEX
from kronfill.estimators.rrmcex import RRMCEX

__all__ = ["IMC", "KKMCEX", "KMC", "MC", "RRMCEX"]

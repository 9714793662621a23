"""The five methods, MC, KMC, IMC, KKMCEX and RRMCEX, and intervals around any of them.

Each method has a file in which its ``fit`` reads from top to bottom; ``base`` says what a method
has to provide. What a fit leaves behind is in ``fitted``, what observations that keep arriving do
to it in ``updates``. Solvers, criteria and posteriors are rooms of their own.
"""

from kronfill.estimators.bayesian_kmc import BayesianKMC
from kronfill.estimators.conformal import (
    ConformalClassifier,
    ConformalCounts,
    ConformalRegressor,
)
from kronfill.estimators.generalized import (
    KKMCEXClassifier,
    KKMCEXOrdinal,
    KKMCEXPoisson,
    LinkedRegressor,
)
from kronfill.estimators.imc import IMC
from kronfill.estimators.kkmcex import KKMCEX
from kronfill.estimators.kmc import KMC
from kronfill.estimators.mc import MC
from kronfill.estimators.rrmcex import RRMCEX

__all__ = [
    "IMC",
    "KKMCEX",
    "KMC",
    "MC",
    "RRMCEX",
    "BayesianKMC",
    "ConformalClassifier",
    "ConformalCounts",
    "ConformalRegressor",
    "KKMCEXClassifier",
    "KKMCEXOrdinal",
    "KKMCEXPoisson",
    "LinkedRegressor",
]

"""Classes, counts and ordered values: the likelihoods that are not Gaussian, over entries.

``base`` says what those with kernels share: Newton steps, each a weighted KKMCEX solve. ``linked``
makes probabilities and counts of the predictions of any method.
"""

from kronfill.estimators.generalized.classifier import KKMCEXClassifier
from kronfill.estimators.generalized.linked import LinkedRegressor
from kronfill.estimators.generalized.ordinal import KKMCEXOrdinal
from kronfill.estimators.generalized.poisson import KKMCEXPoisson

__all__ = ["KKMCEXClassifier", "KKMCEXOrdinal", "KKMCEXPoisson", "LinkedRegressor"]

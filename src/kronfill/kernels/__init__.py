"""Kernels: what it means for two rows, or two columns, to be similar.

From features (:func:`rbf`, :func:`matern`, :func:`linear`, :func:`polynomial`, :func:`periodic`,
:func:`tanimoto`), from graphs (:func:`diffusion`, :func:`regularized_laplacian`,
:func:`random_walk`), given (:func:`precomputed`, :func:`identity`), or a function of your own
(:func:`from_function`). Kernels add, multiply and scale: ``rbf(x) + 0.1 * identity(n)``.
"""

from __future__ import annotations

from kronfill.core.low_rank import LowRankFactor
from kronfill.core.psd import nearest_psd
from kronfill.kernels.algebra import Parts
from kronfill.kernels.base import Kernel
from kronfill.kernels.dotproduct import linear, polynomial, tanimoto
from kronfill.kernels.features import FeatureTable
from kronfill.kernels.functions import from_function
from kronfill.kernels.given import as_kernel, constant, identity, precomputed
from kronfill.kernels.graphs import diffusion, random_walk, regularized_laplacian
from kronfill.kernels.stationary import matern, periodic, rbf

__all__ = [
    "FeatureTable",
    "Kernel",
    "LowRankFactor",
    "Parts",
    "as_kernel",
    "constant",
    "diffusion",
    "from_function",
    "identity",
    "linear",
    "matern",
    "nearest_psd",
    "periodic",
    "polynomial",
    "precomputed",
    "random_walk",
    "rbf",
    "regularized_laplacian",
    "tanimoto",
]

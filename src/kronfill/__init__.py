"""Complete and extend a partly observed matrix from what is known about its rows and columns.

Everything is reached as an attribute of this package and loaded on first use, so that
``import kronfill`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kronfill import bounds, errors, kernels, report, selection, solvers
    from kronfill.auto.model import AutoMC
    from kronfill.completion import Completion, complete
    from kronfill.data import Observations, datasets
    from kronfill.estimators import (
        IMC,
        KKMCEX,
        KMC,
        MC,
        RRMCEX,
        BayesianKMC,
        ConformalClassifier,
        ConformalCounts,
        ConformalRegressor,
        KKMCEXClassifier,
        KKMCEXOrdinal,
        KKMCEXPoisson,
        LinkedRegressor,
    )
    from kronfill.io import load
    from kronfill.solvers import (
        ALS,
        PCG,
        Auto,
        Cholesky,
        Distributed,
        DualPCG,
        GridEigen,
        PrimalDirect,
        RowWise,
        Streamed,
    )

__all__ = [
    "ALS",
    "IMC",
    "KKMCEX",
    "KMC",
    "MC",
    "PCG",
    "RRMCEX",
    "Auto",
    "AutoMC",
    "BayesianKMC",
    "Cholesky",
    "Completion",
    "ConformalClassifier",
    "ConformalCounts",
    "ConformalRegressor",
    "Distributed",
    "DualPCG",
    "GridEigen",
    "KKMCEXClassifier",
    "KKMCEXOrdinal",
    "KKMCEXPoisson",
    "LinkedRegressor",
    "Observations",
    "PrimalDirect",
    "RowWise",
    "Streamed",
    "Variational",
    "bounds",
    "complete",
    "datasets",
    "errors",
    "kernels",
    "load",
    "report",
    "selection",
    "solvers",
]

_HOMES = {
    "AutoMC": "kronfill.auto.model",
    **dict.fromkeys(("Completion", "complete"), "kronfill.completion"),
    "Observations": "kronfill.data",
    "Variational": "kronfill.variational.factors",
    "load": "kronfill.io",
    **dict.fromkeys(
        (
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
        ),
        "kronfill.estimators",
    ),
    **dict.fromkeys(
        (
            "ALS",
            "PCG",
            "Auto",
            "Cholesky",
            "Distributed",
            "DualPCG",
            "GridEigen",
            "PrimalDirect",
            "RowWise",
            "Streamed",
        ),
        "kronfill.solvers",
    ),
}
_MODULES = {
    "bounds": "kronfill.bounds",
    "datasets": "kronfill.data.datasets",
    "errors": "kronfill.errors",
    "kernels": "kronfill.kernels",
    "report": "kronfill.report",
    "selection": "kronfill.selection",
    "solvers": "kronfill.solvers",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(_MODULES[name])
    else:
        msg = f"module 'kronfill' has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])

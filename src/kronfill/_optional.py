"""Optional packages: imported where they are used, and if one is missing, who brings it."""

from __future__ import annotations

import importlib
from typing import Any

from kronfill.errors import MissingDependencyError

__all__ = ["needed"]

EXTRAS = {
    "dask": "experiments",
    "distributed": "experiments",
    "matplotlib": "plots",
    "networkx": "graphs",
    "openpyxl": "excel",
    "pandas": "tables",
    "pyarrow": "tables",
    "rdkit": "chem",
}


def needed(module: str, purpose: str) -> Any:
    """Import a module of an optional package, or say with which extra it is installed.

    ``purpose`` begins the sentence: "Reading Parquet".
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f"{purpose} needs {package}: pip install 'kronfill[{EXTRAS[package]}]'."
        raise MissingDependencyError(msg) from error

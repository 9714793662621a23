"""Constants of the experiment that were chosen once, with how they were chosen.

``files/constants.json`` holds what :mod:`kronfill.paper.calibrate` and
:mod:`kronfill.paper.tune` found; nothing else writes it.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from kronfill._atomic import written_whole

__all__ = ["ROOT_SEED", "load_constants", "update_constants"]

ROOT_SEED = 1906
"""Root of the random numbers with which constants are chosen."""


def load_constants() -> dict[str, Any]:
    """Read the constants: "data" has exponent and power, "mu" the weights by panel and method.

    Examples
    --------
    >>> from kronfill.paper.constants import load_constants
    >>> load_constants()["data"]["exponent"]
    1.335
    """
    found: dict[str, Any] = json.loads(_file().read_text("utf-8"))
    return found


def update_constants(section: str, values: dict[str, Any]) -> None:
    """Replace one section of the file."""
    path = _file()
    known = json.loads(path.read_text("utf-8")) if path.exists() else {}
    known[section] = values
    with written_whole(path) as file:
        file.write((json.dumps(known, indent=2) + "\n").encode("utf-8"))


def _file() -> Path:
    return Path(str(resources.files("kronfill.paper"))) / "files" / "constants.json"

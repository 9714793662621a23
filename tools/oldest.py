"""Print the oldest releases that pyproject.toml allows, as constraints for pip."""

from __future__ import annotations

import re
import sys
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
AT_LEAST = re.compile(r"(?P<name>[\w.-]+)(\[[\w,-]+\])?>=(?P<oldest>[\w.]+)(,!=[\w.]+)*")


def pins(settings: dict[str, Any]) -> list[str]:
    """Pin all that users install and the tests need to the least that is declared.

    Examples
    --------
    >>> extras = {"tables": ["pandas>=2.1"], "all": ["kronfill[tables]"]}
    >>> project = {"name": "kronfill", "dependencies": ["numpy>=1.26,!=1.27"]}
    >>> groups = {"test": ["pytest>=8.2"], "docs": ["sphinx>=8.1"]}
    >>> pins({"project": project | {"optional-dependencies": extras}, "dependency-groups": groups})
    ['numpy==1.26', 'pandas==2.1', 'pytest==8.2']
    """
    project = settings["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    needed = chain(*lists, settings["dependency-groups"]["test"])
    own = project["name"] + "["  # an extra that takes in another
    return sorted({pin(each) for each in needed if not each.startswith(own)})


def pin(requirement: str) -> str:
    """Return the requirement of exactly the least release that one allows.

    Examples
    --------
    >>> pin("dask[dataframe]>=2024.1")
    'dask==2024.1'
    >>> pin("dask")
    Traceback (most recent call last):
    ValueError: 'dask' must say which release is the oldest, as in name>=1.2.
    """
    found = AT_LEAST.fullmatch(requirement)
    if found is None:
        msg = f"{requirement!r} must say which release is the oldest, as in name>=1.2."
        raise ValueError(msg)
    return f"{found['name']}=={found['oldest']}"


if __name__ == "__main__":
    sys.stdout.write("\n".join(pins(tomllib.loads(PROJECT.read_text(encoding="utf-8")))) + "\n")

"""Observed entries, their labels, and data sets to try things on."""

from __future__ import annotations

from kronfill.data.labels import Labels
from kronfill.data.observations import Observations

__all__ = ["Labels", "Observations"]

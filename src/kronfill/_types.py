"""Arrays by what they hold."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Flags", "Floats", "Index"]

Floats: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.intp]
"""Positions of rows, columns or entries."""
Flags: TypeAlias = NDArray[np.bool_]

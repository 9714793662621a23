"""One root seed, and from it a stream of random numbers for every piece of work.

A stream is found from what the work is (purpose, panel, N, realisation), not from when or where it
is done: the same numbers come out whatever the order, the workers and the interruptions. The method
is not part of it, so that all methods see the same data.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

__all__ = ["Purpose", "data_seed", "start_seed"]


class Purpose(IntEnum):
    """What random numbers are for: constants are never chosen on the data that are shown."""

    FIGURE = 0
    CALIBRATION = 1
    TUNING = 2


def data_seed(
    root: int, panel: str, size: int, realization: int, purpose: Purpose = Purpose.FIGURE
) -> np.random.SeedSequence:
    """Seed of the data: kernel coefficients, observed entries, noise.

    Examples
    --------
    >>> from kronfill.paper.running.seeds import data_seed
    >>> data_seed(0, "b", 400, 7).spawn_key
    (0, 98, 400, 7, 0)
    """
    name = int.from_bytes(panel.encode("ascii"), "big")
    return np.random.SeedSequence(root, spawn_key=(int(purpose), name, size, realization, 0))


def start_seed(
    root: int, panel: str, size: int, realization: int, purpose: Purpose = Purpose.FIGURE
) -> np.random.SeedSequence:
    """Seed of random starting points for the same data, and independent of it.

    Examples
    --------
    >>> from kronfill.paper.running.seeds import start_seed
    >>> start_seed(0, "b", 400, 7).spawn_key
    (0, 98, 400, 7, 1)
    """
    data = data_seed(root, panel, size, realization, purpose)
    return np.random.SeedSequence(root, spawn_key=(*data.spawn_key[:-1], 1))

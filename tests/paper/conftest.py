"""Settings that do not depend on the constants of the package."""

from __future__ import annotations

import pytest

from kronfill.paper.running.work import CellSettings


@pytest.fixture
def settings():
    mu = {
        "a": {"kkmcex": 1e-8, "mc": 0.1, "kmc": 1e-2},
        "b": {"kkmcex": 0.3, "mc": 1.0, "kmc": 0.3},
    }
    return CellSettings(seed=0, exponent=1.35, power=0.45, mu=mu)

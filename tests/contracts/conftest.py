"""Many small fits: threads only get in each other's way."""

from __future__ import annotations

from collections.abc import Iterator

import numba
import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    with threadpool_limits(limits=1):
        yield
    numba.set_num_threads(before)

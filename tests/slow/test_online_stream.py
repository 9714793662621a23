"""A long stream of single updates to an RRMCEX model of 4,096 coefficients: it does not drift."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.online import difference, make, run

pytestmark = pytest.mark.slow


def test_a_long_stream_stays_at_the_batch_solution():
    """Several times through all slabs, removals among them."""
    stream = make(items=1000, observations=100_000, updates=1200, rank=64)
    for _ in range(3):
        run(stream, 400)
        assert stream.model.coef_.shape == (64, 64)
        assert difference(stream) < 1e-8
    assert 0 < stream.model.solution_.residual < 1e-8


def test_every_step_of_a_short_stream():
    """The promise holds after each update, not only where the slabs have just been worked in."""
    stream = make(items=150, observations=4000, updates=120, rank=30)  # 900 coefficients
    worst = 0.0
    for _ in range(100):
        run(stream, 1)
        worst = max(worst, difference(stream))
    assert 0 < worst < 1e-8
    assert np.isfinite(stream.model.coef_).all()

"""Losses from factors against going through all entries."""

from __future__ import annotations

import numpy as np
import pytest

from kronfill.paper.losses import Factors, KernelSum, measure
from kronfill.paper.synthetic import draw


def by_brute_force(made, predicted):
    truth = made.left @ made.right.T
    data = truth if made.noise is None else truth + made.noise
    seen = np.zeros(truth.shape, dtype=bool)
    seen[made.observations.rows, made.observations.cols] = True
    square = (data - predicted) ** 2
    return square[seen].mean(), square[~seen].mean()


@pytest.mark.parametrize("snr", [np.inf, 4.0])
@pytest.mark.parametrize(("size", "samples"), [(12, 1), (33, 100), (130, 300)])
@pytest.mark.parametrize("kind", ["factors", "kernel sum"])
def test_all_entries(kind, size, samples, snr):
    made = draw(size, snr, 1, exponent=1.35, power=0.45, samples=samples)
    rng = np.random.default_rng(0)
    if kind == "factors":
        w, h = rng.standard_normal((2, size, 4))
        prediction, predicted = Factors(w, h), w @ h.T
    else:
        seen, dense = made.observations, made.kernel.to_array()
        dual = rng.standard_normal(samples)
        core = np.zeros((size, size))
        core[seen.rows, seen.cols] = dual
        prediction = KernelSum(made.kernel, seen.rows, seen.cols, dual)
        predicted = dense @ core @ dense
    train, test = by_brute_force(made, predicted)
    found = measure(made, prediction)
    assert found.train == pytest.approx(train, rel=1e-10)
    assert found.test == pytest.approx(test, rel=1e-10)
    assert found.ge == pytest.approx(test - train, rel=1e-9, abs=1e-12)

"""Recursive least squares against a solve of the sums."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kronfill.errors import DataError
from kronfill.online import halves, recursive
from kronfill.online.recursive import CAPACITY, RecursiveRidge, _even_slabs


class Record:
    """The observations, kept, and the slow way to the coefficients."""

    def __init__(self, size, mu, seed):
        self.rng = np.random.default_rng(seed)
        self.size, self.mu = size, mu
        self.live = []
        self.ridge = RecursiveRidge(np.zeros((size, size)), np.zeros(size), mu)

    def add(self, count):
        v = self.rng.standard_normal((count, self.size)) * np.logspace(0, -2, self.size)
        y, d = self.rng.standard_normal(count), self.rng.uniform(0.5, 2.0, count)
        self.ridge.update(v, y, d)
        self.live += list(zip(v, y, d, strict=True))

    def remove(self, count):
        picked = [self.live.pop(self.rng.integers(len(self.live))) for _ in range(count)]
        v, y, d = (np.array(part) for part in zip(*picked, strict=True))
        self.ridge.update(v, y, -d)

    def system(self):
        a, t = self.mu * np.eye(self.size), np.zeros(self.size)
        for v, y, d in self.live:
            a += d * np.outer(v, v)
            t += d * y * v
        return a, t

    def error(self):
        a, t = self.system()
        wanted = np.linalg.solve(a, t)
        return np.linalg.norm(self.ridge.coef - wanted) / np.linalg.norm(wanted)


@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 7, 130]),
    st.lists(st.integers(-3, 5).filter(bool), min_size=1, max_size=60),
)
@settings(max_examples=15, deadline=None)
def test_any_sequence_of_additions_and_removals(seed, size, steps):
    record = Record(size, 0.1, seed)
    record.add(4)
    for step in steps:
        if step > 0:
            record.add(step)
        elif len(record.live) > -step:
            record.remove(-step)
    assert record.error() < 1e-9
    a, _ = record.system()
    vectors = np.random.default_rng(seed).standard_normal((3, size))
    wanted = np.linalg.solve(a, vectors.T).T
    assert np.linalg.norm(record.ridge.products(vectors) - wanted) < 1e-10 * np.linalg.norm(wanted)
    lower = record.ridge.system()
    assert_allclose(np.tril(lower), np.tril(a), atol=1e-10)


def test_thousands_of_single_steps():
    record = Record(140, 1e-3, 0)
    record.add(300)
    for _ in range(1000):
        record.add(1)
        record.remove(1)
    assert record.error() < 1e-10
    assert 0 < record.ridge.drift < 1e-11


def test_rough_products_stay_within_their_budget(monkeypatch):
    """Two halves from the first coefficient on: the error stays below what is promised."""
    monkeypatch.setattr(halves, "IN_CACHE", 1)
    record = Record(90, 1e-2, 1)
    record.add(200)
    errors = []
    for _ in range(200):
        record.add(1)
        if len(errors) % 3 == 0:
            record.remove(1)
        errors.append(record.error())
    assert 1e-13 < max(errors) < 1e-8


def test_without_corrections_rounding_would_add_up(monkeypatch):
    """The residual that the slabs sum up is the true one: settling it removes an error put in."""
    record = Record(70, 0.1, 2)
    record.add(100)
    record.add(1)
    record.ridge.coef = record.ridge.coef * (1 + 1e-8)
    for _ in range(2 * CAPACITY + 2):
        record.add(1)
    assert record.error() < 1e-13
    record.ridge.coef = record.ridge.coef * 1.01  # so wrong that nothing is trusted any more
    for _ in range(2 * CAPACITY + 2):
        record.add(1)
    assert record.error() < 1e-12


def test_large_batches_and_what_would_be():
    record = Record(40, 0.3, 3)
    record.add(500)
    assert record.error() < 1e-12
    v, y = record.rng.standard_normal((6, 40)), record.rng.standard_normal(6)
    d = np.full(6, 0.7)
    kept = record.ridge.coef.copy()
    found = record.ridge.after(v, y, d)
    assert_allclose(record.ridge.coef, kept, rtol=0)
    record.ridge.update(v, y, d)
    assert_allclose(found, record.ridge.coef, rtol=1e-11)
    record.ridge.shift(0.5 * v[0])
    record.live += list(zip(v, y, d, strict=True))
    a, t = record.system()
    assert_allclose(record.ridge.coef, np.linalg.solve(a, t + 0.5 * v[0]), rtol=1e-10)


def test_removing_what_alone_determined_something():
    """With a tiny mu the last observation of a direction leaves almost nothing behind."""
    ridge = RecursiveRidge(np.diag([5.0, 0.0]), np.array([5.0, 0.0]), 1e-9)
    ridge.update(np.array([[0.0, 1.0]]), np.array([2.0]), np.ones(1))
    assert_allclose(ridge.coef, [1.0, 2.0], rtol=1e-8)
    ridge.update(np.array([[0.0, 1.0]]), np.array([2.0]), -np.ones(1))
    assert_allclose(ridge.coef, [1.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("count", [1, 40])
def test_removing_what_was_never_there(count):
    record = Record(5, 0.1, 4)
    record.add(10)
    kept = record.ridge.coef.copy()
    v = np.full((count, 5), 10.0)
    with pytest.raises(DataError, match="had not been added"):
        record.ridge.update(v, np.ones(count), -np.ones(count))
    assert_allclose(record.ridge.coef, kept, rtol=0)
    record.add(3)
    assert record.error() < 1e-11


@pytest.mark.parametrize("size", [1, 2, 63, 64, 500, 4096])
def test_slabs_have_even_areas(size):
    cuts = _even_slabs(size)
    assert cuts[0] == 0
    assert cuts[-1] == size
    assert len(cuts) <= CAPACITY + 1
    areas = [(last - first) * last for first, last in pairwise(cuts)]
    assert max(areas) <= 1.3 * size**2 / (2 * (len(cuts) - 1)) or len(areas) < 4


def test_weights_of_nothing_change_nothing():
    record = Record(4, 0.5, 5)
    record.add(6)
    kept = record.ridge.coef.copy()
    record.ridge.update(np.ones((2, 4)), np.ones(2), np.zeros(2))
    assert_allclose(record.ridge.coef, kept, rtol=0)
    assert recursive.ROUGH < 1e-8

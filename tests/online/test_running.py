"""Running sums against a fit to the observations they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kronfill.errors import DataError
from kronfill.online.group_means import GroupMeans
from kronfill.online.grouped_sums import GroupedSums, SummedRidge
from kronfill.online.running import Change
from kronfill.online.two_way_sums import TwoWaySums
from kronfill.solvers.primal import solve_primal

KINDS = [None, "mean", "rows", "cols", "both"]
SHAPES = [(7, 5, 3, 2), (1, 6, 1, 2), (6, 1, 2, 1), (9, 11, 3, 4)]


def sums_of(p, q, mu, kind):
    return TwoWaySums(p, q, mu) if kind == "both" else GroupedSums(p, q, mu, kind)


class Book:
    """Entries with values and weights, kept; and the sums that go with them."""

    def __init__(self, shape, kind, seed, mu=0.3):
        self.rng = np.random.default_rng(seed)
        n, l, a, b = shape
        self.p, self.q = self.rng.standard_normal((n, a)), self.rng.standard_normal((l, b))
        self.kind, self.mu = kind, mu
        self.sums = sums_of(self.p, self.q, mu, kind)
        self.entries = {}
        self.free = [tuple(e) for e in self.rng.permutation(np.argwhere(np.ones((n, l))))]

    def batch(self, keys):
        at = np.array(keys).reshape(-1, 2)
        found = np.array([self.entries[key] for key in keys])
        return Change(at[:, 0], at[:, 1], found[:, 0], found[:, 1])

    def some(self, count):
        keys = list(self.entries)
        return [keys[k] for k in self.rng.permutation(len(keys))[:count]]

    def add(self, count):
        new, self.free = self.free[:count], self.free[count:]
        for key in new:
            self.entries[key] = (self.rng.normal(3.0), self.rng.uniform(0.5, 1.5))
        if new:
            self.sums.add(self.batch(new))

    def remove(self, count):
        gone = self.some(min(count, len(self.entries) - 1))
        if gone:
            self.sums.remove(self.batch(gone))
            for key in gone:
                del self.entries[key]
            self.free += gone

    def revise(self, count):
        changed = self.some(count)
        values = self.rng.standard_normal(len(changed))
        self.sums.revise(self.batch(changed), values)
        for key, value in zip(changed, values, strict=True):
            self.entries[key] = (value, self.entries[key][1])

    def check(self):
        s = self.batch(list(self.entries)).sampled(self.sums.shape, self.kind)
        wanted = solve_primal(self.p, self.q, s, self.mu)
        assert self.sums.m == s.m
        assert_allclose(self.sums.core, wanted.core, atol=1e-9)
        rest = s.values - np.einsum(
            "ka,ab,kb->k", self.p[s.rows], wanted.core, self.q[s.cols]
        )  # fmt: skip
        if self.kind is None:
            assert self.sums.effects is None
        else:
            rest -= wanted.effects.at(s.rows, s.cols)
            for part in ("mean", "row", "col"):
                found = getattr(self.sums.effects, part)
                assert_allclose(found, getattr(wanted.effects, part), atol=1e-9)
        least = s.weights @ rest**2 / self.mu + np.vdot(wanted.core, wanted.core)
        assert_allclose(self.sums.least, least, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_odd_shapes(kind, shape):
    book = Book(shape, kind, 0)
    for step in (1, 2, -1, 3, 40, -20, -100, 5, 40):  # the last ones at once, and all but one
        if step > 0:
            book.add(step)
        else:
            book.remove(-step)
        book.check()
        book.revise(2)
        book.check()


@given(
    st.integers(0, 10**6),
    st.sampled_from(KINDS),
    st.lists(st.integers(-4, 6).filter(bool), min_size=1, max_size=15),
)
@settings(max_examples=15, deadline=None)
def test_any_sequence(seed, kind, steps):
    book = Book((6, 8, 3, 2), kind, seed)
    book.add(1)
    for step in steps:
        if step > 0:
            book.add(step)
        else:
            book.remove(-step)
    book.check()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("axis", [0, 1])
def test_a_new_item(kind, axis):
    """With the item in the table, its row of the factor being the same, nothing else comes out."""
    book = Book((7, 5, 3, 2), kind, 1)
    book.add(20)
    before = book.sums.core.copy()
    phi = book.rng.standard_normal((1, (3, 2)[axis]))
    index, values = np.array([0, 3, 4]), np.array([1.0, -2.0, 0.5])
    weights = np.array([1.0, 0.5, 2.0])
    core, effects = book.sums.with_item(phi, index, values, weights, axis)
    old = book.batch(list(book.entries))
    new = np.full(3, (7, 5)[axis])
    pairs = (new, index) if axis == 0 else (index, new)
    both = Change(
        np.append(old.rows, pairs[0]), np.append(old.cols, pairs[1]),
        np.append(old.values, values), np.append(old.weights, weights),
    )  # fmt: skip
    p = np.vstack([book.p, phi]) if axis == 0 else book.p
    q = np.vstack([book.q, phi]) if axis == 1 else book.q
    wanted = solve_primal(p, q, both.sampled((len(p), len(q)), kind), book.mu)
    assert_allclose(core, wanted.core, atol=1e-10)
    if kind is not None:
        assert_allclose(effects.row, wanted.effects.row, atol=1e-10)
        assert_allclose(effects.col, wanted.effects.col, atol=1e-10)
    assert_allclose(book.sums.core, before, rtol=0)


def test_a_mu_below_rounding_is_solved_anew():
    """The normal equations cannot tell mu from their rounding errors: directions are left out."""
    rng = np.random.default_rng(0)
    p, q = rng.standard_normal((6, 2)), np.ones((5, 2))  # the columns tell one direction only
    sums = GroupedSums(p, q, 1e-14, None)
    rows, cols = np.divmod(rng.permutation(30), 5)
    values = rng.standard_normal(30)
    for part in (slice(0, 20), slice(20, 21), slice(21, 30)):
        sums.add(Change(rows[part], cols[part], values[part], np.ones(len(rows[part]))))
    assert isinstance(sums._ridge, SummedRidge)
    s = Change(rows, cols, values, np.ones(30)).sampled((6, 5), None)
    wanted = solve_primal(p, q, s, 1e-14)
    assert sums.rank == wanted.solution.rank == 2
    assert_allclose(sums.core, wanted.core, atol=1e-9)
    with_one = sums.with_item(p[:1], np.array([0]), np.array([1.0]), np.ones(1), 0)[0]
    assert np.isfinite(with_one).all()
    sums.revise(Change(rows[:1], cols[:1], values[:1], np.ones(1)), values[:1] + 1)
    assert np.abs(sums.core - wanted.core).max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_removing_what_is_not_there_changes_nothing(kind):
    book = Book((7, 5, 3, 2), kind, 2)
    book.add(12)
    counts = book.sums.row_counts
    row = int(np.argmin(counts))
    columns = np.arange(counts[row] + 1) % 5
    wrong = Change(
        np.full(len(columns), row), columns, np.ones(len(columns)), np.ones(len(columns))
    )
    with pytest.raises(DataError, match="are to be forgotten, but it has"):
        book.sums.remove(wrong)
    with pytest.raises(DataError, match="at least one must stay"):
        book.sums.remove(book.batch(list(book.entries)))
    key = next(iter(book.entries))
    heavy = Change(np.array([key[0]]), np.array([key[1]]), np.array([1.0]), np.array([1e6]))
    with pytest.raises(DataError):
        book.sums.remove(heavy)
    book.check()
    book.add(3)
    book.check()


@pytest.mark.parametrize("sign", [1, -1])
def test_means_of_many_at_once_are_those_one_by_one(sign):
    rng = np.random.default_rng(3)
    group, features = rng.integers(0, 4, 30), rng.standard_normal((30, 2))
    values, weights = rng.standard_normal(30), rng.uniform(0.5, 2.0, 30)

    def of(part):
        sums = np.zeros((5, 2))
        np.add.at(sums, group[part], weights[part, None] * features[part])
        return GroupMeans.of(group[part], values[part], weights[part], sums)

    start, moved = of(slice(0, 30) if sign < 0 else slice(0, 20)), slice(20, 30)
    one_by_one = start.copy()
    step = one_by_one.join if sign > 0 else one_by_one.leave
    for k in range(20, 30):
        step(int(group[k]), features[k], values[k], weights[k])
    start.merge(of(moved), sign)
    wanted = of(slice(0, 30) if sign > 0 else slice(0, 20))
    for found in (start, one_by_one):
        for part in ("weights", "counts", "values", "features"):
            assert_allclose(getattr(found, part), getattr(wanted, part), atol=1e-12)

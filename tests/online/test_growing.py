"""A Cholesky factorisation that grows and shrinks, against a new one each time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kronfill.online.growing import AFRESH, GrowingCholesky


def system(seed, size, targets=3):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, size))
    return root @ root.T / size + 0.1 * np.eye(size), rng.standard_normal((size, targets))


def begin(a, t, live):
    return GrowingCholesky(np.linalg.cholesky(a[np.ix_(live, live)]), t[live])


def agrees(factor, a, t, live):
    block = a[np.ix_(live, live)]
    for k in range(t.shape[1]):
        wanted = np.linalg.solve(block, t[live, k])
        assert_allclose(factor.adjoint(factor.solved[:, k]), wanted, atol=1e-10)
    wanted = t[live].T @ np.linalg.solve(block, t[live])
    assert_allclose(factor.normal, wanted, atol=1e-10)


@given(st.integers(0, 10**6), st.lists(st.integers(-4, 4).filter(bool), max_size=12))
@settings(max_examples=25, deadline=None)
def test_any_sequence_of_appends_and_deletes(seed, steps):
    """A positive step appends so many, a negative one deletes them one by one."""
    a, t = system(seed, 60)
    rng = np.random.default_rng(seed)
    live, rest = [0], list(range(1, 60))
    factor = begin(a, t, live)
    for step in steps:
        if step > 0:
            new, rest = rest[:step], rest[step:]
            added = factor.extension(a[np.ix_(new, live)], a[np.ix_(new, new)], t[new])
            assert added is not None
            factor.append(added)
            live += new
        for _ in range(-step):
            if len(live) > 1:
                at = int(rng.integers(len(live)))
                factor.delete(at)
                rest.append(live.pop(at))
        agrees(factor, a, t, live)


def test_an_extension_changes_nothing_and_solves_the_larger_system():
    a, t = system(1, 12)
    live, new = list(range(8)), [8, 9, 10, 11]
    factor = begin(a, t, live)
    added = factor.extension(a[np.ix_(new, live)], a[np.ix_(new, new)], t[new])
    both = np.concatenate([factor.solved[:, 1], added.solved[:, 1]])
    assert_allclose(factor.adjoint(both, added), np.linalg.solve(a, t[:, 1]), atol=1e-11)
    agrees(factor, a, t, live)


def test_an_extension_that_is_not_definite_is_refused():
    factor = GrowingCholesky(np.eye(1), np.ones((1, 1)))
    assert factor.extension(np.array([[2.0]]), np.array([[1.0]]), np.ones((1, 1))) is None


def test_other_right_hand_sides():
    a, t = system(2, 9)
    factor = begin(a, t, list(range(9)))
    t[:, 2] = np.arange(9.0)
    factor.replace(2, t[:, 2])
    agrees(factor, a, t, list(range(9)))


def test_many_removals_do_not_add_up():
    a, t = system(3, 20)
    live = list(range(20))
    factor = begin(a, t, live)
    for k in range(2 * AFRESH + 3):  # always the oldest leaves and comes back at the end
        factor.delete(0)
        live = live[1:] + live[:1]
        old, new = live[:-1], live[-1:]
        added = factor.extension(a[np.ix_(new, old)], a[np.ix_(new, new)], t[new])
        factor.append(added)
        if k % 100 == 0:
            agrees(factor, a, t, live)
    agrees(factor, a, t, live)


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_down_to_one_row(gone):
    a, t = system(4, 3)
    factor = begin(a, t, [0, 1, 2])
    live = [0, 1, 2]
    for at in (gone, 0):
        factor.delete(at)
        live.pop(at)
        agrees(factor, a, t, live)

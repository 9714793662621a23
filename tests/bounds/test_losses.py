"""Losses: range and Lipschitz constant are attained, never exceeded; the generalization error."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.bounds import Absolute, Split, Square, Truncated, generalization_error
from kronfill.errors import DataError, DuplicateEntryError, ParameterError, ShapeError

BOUNDED = [
    Square(clip=(-1, 1)),
    Square(clip=(0, 3)) / 9,
    Absolute(clip=(-2, 1)),
    Truncated(Square(), 4.0),
    Truncated(2 * Square(), 4.0) * 3,
    Truncated(Absolute(), 0.5),
    Truncated(Square(clip=(-1, 1)), 3.0),
]


@pytest.mark.parametrize("loss", BOUNDED, ids=str)
def test_range_and_lipschitz_constant_are_attained_and_not_exceeded(loss):
    clip = getattr(loss, "clip", None) or getattr(getattr(loss, "of", None), "clip", None)
    low, high = clip or (-5, 5)
    values = np.linspace(low, high, 81)[:, None]
    predictions = np.linspace(low - 2, high + 2, 4001)[None, :]
    found = loss(values, np.broadcast_to(predictions, (81, 4001)))
    assert found.min() >= 0
    assert_allclose(found.max(), loss.bound, rtol=1e-12)
    steps = np.abs(np.diff(found, axis=1)) / np.diff(predictions)
    assert steps.max() <= loss.lipschitz * (1 + 1e-9)
    assert steps.max() > 0.99 * loss.lipschitz


def test_unbounded_losses_say_so():
    assert Square().bound == Square().lipschitz == Absolute().bound == np.inf
    assert Absolute().lipschitz == 1.0
    assert "clipped to [0, 1]" in str(Square(clip=(0, 1)))


def test_bad_losses_are_refused():
    with pytest.raises(ParameterError, match="low < high"):
        Square(clip=(1, 1))
    with pytest.raises(ParameterError, match="level must be"):
        Truncated(Square(), 0.0)
    with pytest.raises(ParameterError, match="of must be"):
        Truncated(Truncated(Square(), 1.0), 1.0)
    with pytest.raises(ParameterError, match="positive finite"):
        Square() * -1
    with pytest.raises(DataError, match=r"stated range \[0, 1\], got 2 at position 1"):
        Square(clip=(0, 1))([0.5, 2.0], [0.0, 0.0])
    with pytest.raises(ParameterError, match="loss must be"):
        generalization_error(np.eye(2), *pair(), loss="hinge")


def pair():
    train = kf.Observations([0, 1], [0, 1], [1.0, -1.0], shape=(2, 2))
    test = kf.Observations([0], [1], [0.5], shape=(2, 2))
    return train, test


def test_the_generalization_error_of_a_matrix_a_pair_and_a_model():
    train, test = pair()
    matrix = np.array([[0.0, 2.0], [0.0, 0.0]])
    assert_allclose(generalization_error(matrix, train, test), 1.5**2 - 1.0)
    given = (np.zeros(2), np.array([2.0]))
    assert_allclose(generalization_error(given, train, test, "absolute"), 1.5 - 1.0)
    clipped = Square(clip=(-1, 1))
    assert_allclose(generalization_error(matrix, train, test, clipped), 0.25 - 1.0)
    est = kf.KKMCEX(np.eye(2), np.eye(2), mu=1.0).fit(train)
    assert_allclose(generalization_error(est, train, test), 0.25 - 0.25, atol=1e-15)
    cut = Truncated(Square(), 0.1)
    assert_allclose(generalization_error(est, train, test, cut), 0.0)


def test_the_generalization_error_refuses_what_does_not_fit():
    train, test = pair()
    with pytest.raises(ShapeError, match=r"shape \(2, 2\)"):
        generalization_error(np.eye(3), train, test)
    with pytest.raises(ShapeError, match=r"shapes \(2,\) and \(1,\)"):
        generalization_error((np.zeros(1), np.zeros(1)), train, test)
    with pytest.raises(DataError, match="test must be an Observations"):
        generalization_error(np.eye(2), train, np.eye(2))


def test_splits_refuse_what_is_no_split():
    train, test = pair()
    with pytest.raises(DuplicateEntryError, match=r"entry \(0, 0\) comes twice"):
        Split.of(train, train)
    with pytest.raises(DuplicateEntryError, match="train and without"):
        Split.of(train, without=([1], [1]))
    with pytest.raises(ParameterError, match="shape must be given"):
        Split.of(([0], [0]))
    with pytest.raises(DataError, match="outside the 2 x 2 matrix"):
        Split.of(train, ([5], [0]))
    with pytest.raises(ShapeError, match="equal length"):
        Split.of(([0, 1], [0]), shape=(2, 2))
    with pytest.raises(DataError, match=r"must be integers, got 0\.7"):
        Split.of(([0.7], [0]), shape=(2, 2))
    with pytest.raises(ParameterError, match="u must be a positive integer"):
        _ = Split.of(kf.Observations.from_matrix(np.ones((2, 2)))).sizes
    assert Split.of(train, test).sizes.n == 3


def test_grids_count_sum_and_draw_like_lists():
    rng = np.random.default_rng(0)
    flat = rng.permutation(56)
    without = np.sort(flat[:9])
    grid = Split.of(np.divmod(flat[9:12], 8), shape=(7, 8), without=np.divmod(without, 8)).entries
    rest = np.setdiff1d(np.arange(56), without)
    assert grid.n == 47
    rows, cols = grid.at(np.arange(47))
    assert np.array_equal(rows * 8 + cols, rest)
    row, col = rng.random(7), rng.random(8)
    assert_allclose(grid.total(row, col), np.sum(row[rows] * col[cols]))
    assert_allclose(grid.row_sums(col), np.bincount(rows, weights=col[cols], minlength=7))
    assert_allclose(grid.col_sums(row), np.bincount(cols, weights=row[rows], minlength=8))
    hits = np.zeros(56)
    for _ in range(3000):
        i, j = grid.draw(rng, 10)
        assert len(np.unique(i * 8 + j)) == 10
        hits[i * 8 + j] += 1
    assert not hits[without].any()
    assert np.abs(hits[rest] / 3000 - 10 / 47).max() < 0.035


def test_a_large_grid_is_drawn_from_without_listing_it():
    grid = Split.of(([0], [0]), shape=(40_000, 50_000)).entries
    rows, cols = grid.draw(np.random.default_rng(0), 5000)
    assert len(np.unique(rows * 50_000 + cols)) == 5000
    assert abs(rows.mean() / 40_000 - 0.5) < 0.02

"""Sums that were made are found again, and those under way go on."""

from __future__ import annotations

import numpy as np
import pytest

from kronfill.streaming.storage.checkpoint import Products


class Halt(Exception):
    """Ends a sum."""


def terms(rng, count):
    return [rng.standard_normal((3, 2)) for _ in range(count)]


@pytest.mark.parametrize("stop", [0, 1, 6])
def test_a_sum_goes_on_where_it_was(tmp_path, stop):
    parts = terms(np.random.default_rng(0), 9)
    made = []

    def term(k):
        if len(made) == stop and not made[stop:]:
            made.append("halted")
            raise Halt
        made.append(k)
        return parts[k]

    with pytest.raises(Halt):
        Products(tmp_path, 0.0).total([b"x"], (3, 2), 9, term)
    found = Products(tmp_path, 0.0).total([b"x"], (3, 2), 9, term)
    clean = Products(None, 0.0).total([b"x"], (3, 2), 9, lambda k: parts[k])
    assert np.array_equal(found, clean)
    assert [k for k in made if k != "halted"] == list(range(9))


def test_sums_are_told_apart_by_what_went_in(tmp_path):
    kept = Products(tmp_path, 0.0)
    x = np.arange(6.0).reshape(3, 2)
    one = kept.total([b"a", x], (3, 2), 2, lambda k: x)
    two = kept.total([b"a", x + 1], (3, 2), 2, lambda k: x + 1)
    assert np.array_equal(two - one, np.full((3, 2), 2.0))
    assert kept.found == 0
    again = Products(tmp_path, 0.0)
    assert np.array_equal(again.total([b"a", x], (3, 2), 2, lambda k: 1 / 0), one)
    assert again.found == 1


def test_a_result_may_be_changed_without_harm(tmp_path):
    kept = Products(tmp_path, 1e9)  # nothing is written yet
    x = np.ones((3, 2))
    first = kept.total([x], (3, 2), 1, lambda k: x)
    first += 7
    kept._flush()
    assert np.array_equal(Products(tmp_path, 0.0).total([x], (3, 2), 1, lambda k: 1 / 0), x)


def test_what_is_cut_short_is_made_again(tmp_path):
    x = np.ones((3, 2))
    Products(tmp_path, 0.0).total([x], (3, 2), 1, lambda k: x)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:10])
    kept = Products(tmp_path, 0.0)
    assert np.array_equal(kept.total([x], (3, 2), 1, lambda k: x), x)
    assert kept.found == 0


def test_nothing_is_left_when_all_is_done(tmp_path):
    kept = Products(tmp_path / "p", 0.0)
    kept.total([b"a"], (1, 1), 1, lambda k: np.ones((1, 1)))
    kept.clear()
    assert not (tmp_path / "p").exists()

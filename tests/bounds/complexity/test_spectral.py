"""Bounds on the expected norm of random sign matrices."""

from __future__ import annotations

import numpy as np
import pytest

from kronfill import bounds as B
from kronfill.bounds.complexity import spectral
from kronfill.bounds.complexity.spectral import Counts


def norms(mask, draws, seed):
    rng = np.random.default_rng(seed)
    return np.array(
        [np.linalg.norm(mask * (2.0 * rng.integers(0, 2, mask.shape) - 1), 2) for _ in range(draws)]
    )


def counts_of(mask):
    rows, cols = np.nonzero(mask)
    split = B.Split.of((rows[:1], cols[:1]), (rows[1:], cols[1:]), shape=mask.shape)
    return Counts.of(split.entries)


def one_full_row(n):
    mask = np.eye(n, dtype=bool)
    mask[0] = True
    return mask


CASES = {
    "dense": (np.ones((100, 100), bool), "walk counting", 19.47),
    "one full row": (one_full_row(300), "fourth moment", 17.5),
}


@pytest.mark.parametrize("case", CASES)
def test_all_forms_are_above_and_the_best_is_close(case):
    mask, _, known = CASES[case]
    found = norms(mask, 20, seed=0)
    mean, error = found.mean(), found.std(ddof=1) / np.sqrt(20)
    assert abs(mean - known) < 0.3
    forms = spectral.closed_forms(counts_of(mask), 1.0, independent=True)
    assert min(forms.values()) > mean - 4 * error
    assert min(forms.values()) < 1.4 * mean


def test_figures_of_the_three_shapes():
    dense = spectral.closed_forms(counts_of(np.ones((100, 100), bool)), 1.0, True)
    assert abs(dense["Gaussian comparison"] - 25.07) < 0.01
    row = spectral.closed_forms(counts_of(one_full_row(300)), 1.0, True)
    assert abs(row["fourth moment"] - 18.5) < 1.3
    assert abs(row["Gaussian comparison"] - 43.4) < 0.1
    rng = np.random.default_rng(0)
    sparse = rng.random((1000, 1000)) < 0.01
    forms = spectral.closed_forms(counts_of(sparse), 1.0, True)
    best = min(forms.values())
    assert 6.5 < best < 20.0  # the norm itself is about 6.6
    assert abs(forms["Gaussian comparison"] - 79.3) < 0.1


@pytest.mark.parametrize("keep", [0.05, 0.3])
@pytest.mark.parametrize("law", ["eyp", "sub"])
def test_thinned_signs_obey_the_thinned_bounds(keep, law):
    rng = np.random.default_rng(1)
    shape = (40, 30)
    found = []
    for _ in range(200):
        if law == "eyp":
            mask = rng.random(shape) < keep
        else:
            mask = np.zeros(1200, bool)
            mask[rng.permutation(1200)[: int(keep * 1200)]] = True
            mask = mask.reshape(shape)
        found.append(np.linalg.norm(mask * (2.0 * rng.integers(0, 2, shape) - 1), 2))
    forms = spectral.closed_forms(counts_of(np.ones(shape, bool)), keep, law == "eyp")
    for name, value in forms.items():
        assert np.mean(found) < value, name
    assert min(forms.values()) < 2.2 * np.mean(found)
    assert ("matrix Bernstein" in forms) == (law == "eyp")


def test_walk_counting_beats_the_papers_form_where_rows_are_sparse():
    mask = np.zeros((2000, 2000), bool)
    for shift in range(30):
        mask[np.arange(2000), (np.arange(2000) + 37 * shift) % 2000] = True
    forms = spectral.closed_forms(counts_of(mask), 1.0, True)
    assert forms["walk counting"] < 0.35 * forms["Gaussian comparison"]
    assert forms["walk counting"] > 2 * np.sqrt(29)

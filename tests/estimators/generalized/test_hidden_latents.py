"""Which entries, rows and columns are hidden from a method to learn what its numbers mean."""

from __future__ import annotations

import numpy as np
import pytest

import kronfill as kf
from kronfill.estimators.generalized import hidden_latents as module


def hidden(shape):
    """What is hidden of a whole table, the fits being of no account."""
    rows, cols = np.nonzero(np.ones(shape))
    obs = kf.Observations(rows, cols, np.arange(float(len(rows))), shape)
    fitted = kf.MC(rank=1, mu=1e9).fit(obs)
    return obs, module.hidden_latents(lambda part: fitted, obs, np.random.default_rng(0))


@pytest.mark.parametrize("shape", [(12, 9), (30, 130), (130, 30), (20, 700)])
def test_each_row_is_hidden_once_where_there_are_few(shape):
    obs, found = hidden(shape)
    for index, kind, size in ((obs.rows, 1, shape[0]), (obs.cols, 2, shape[1])):
        new = found.kinds & kind > 0
        items = np.unique(index[found.at[new]])
        assert len(items) >= min(size, module.ITEMS)
        cells = found.at[found.kinds == kind]
        assert len(np.unique(cells)) == len(cells)  # none twice


def test_one_fit_hides_enough_of_many_rows():
    obs, found = hidden((600, 510))
    rows = np.unique(obs.rows[found.at[found.kinds == 1]])
    assert len(rows) == 120

"""The table as a grid of cells."""

from __future__ import annotations

import numpy as np
import pytest

from kronfill.report import cells as module
from kronfill.report.cells import decoded, grid_shape, table_cells, widths
from kronfill.report.uncertainty import chosen_intervals

from .conftest import completed


def grid_of(done, most):
    intervals, _ = chosen_intervals(done, most)
    return table_cells(done, widths(done, intervals, most))


@pytest.mark.parametrize(
    ("shape", "cells"),
    [
        ((1, 1), (1, 1)),
        ((587, 196), (587, 196)),
        ((400, 400), (400, 400)),
        ((20_000, 5_000), (400, 400)),
        ((1, 100_000), (1, 2000)),
        ((100_000, 1), (2000, 1)),
        ((100_000, 10), (2000, 10)),
        ((2, 10**7), (2, 2000)),
    ],
)
def test_the_grid_is_bounded(shape, cells):
    assert grid_shape(shape) == cells


@pytest.mark.parametrize("most", [1, 7, 100, 5000])
def test_a_smaller_grid_has_no_more_cells_than_asked_for(most):
    for shape in ((587, 196), (3, 10_000), (10_000, 3), (50, 50)):
        rows, cols = grid_shape(shape, most)
        assert 1 <= rows * cols <= most
        assert rows <= shape[0]
        assert cols <= shape[1]


def test_encoding_keeps_numbers_to_a_65534th_of_the_range():
    values = np.array([-1.0, 0.123456, 2.0, np.nan])
    back = decoded(module._encoded(values, -1.0, 2.0), -1.0, 2.0)
    np.testing.assert_allclose(back[:3], values[:3], atol=3 / 65534 / 2)
    assert np.isnan(back[3])


def test_an_infinite_width_stands_at_the_top():
    assert decoded(module._encoded(np.array([np.inf, 0.5]), 0.0, 1.0), 0.0, 1.0)[0] == 1.0


def test_widths_of_entries_whose_effects_nothing_tells_are_infinite():
    done = completed(center="both", mu=0.1)
    assert grid_of(done, 1000).width_widest


def test_blocks_where_the_table_is_large(monkeypatch):
    monkeypatch.setattr(module, "MOST", 30)
    monkeypatch.setattr(module, "SIDE", 6)
    monkeypatch.setattr(module.grid_shape, "__defaults__", (30,))
    done = completed(mu=0.1)
    found = grid_of(done, 12)
    assert found.averaged
    assert (found.rows, found.columns) == (5, 6)
    filled = done.filled.to_numpy()
    value = decoded(found.values, found.low, found.high).reshape(5, 6)
    first = filled[: found.row_edges[1], : found.column_edges[1]].mean()
    assert value[0, 0] == pytest.approx(first, abs=(found.high - found.low) / 65534)
    assert found.row_labels[0] == "r0 … r2"
    # Each width is that of the middle entry of its cell, observed or not.
    grid = (found.width_rows, found.width_columns)
    assert grid == (3, 4)
    std = np.sqrt(done.model.predict_std([[2, 0]])[0] ** 2 + done.model.noise_variance_)
    width = decoded(found.width, found.width_low, found.width_high)
    assert width[0] == pytest.approx(1.6448536 * std, abs=found.width_high / 65534)

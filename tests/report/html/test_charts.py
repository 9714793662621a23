"""Charts: points where they belong, whatever the numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kronfill.report.html.charts import HEIGHT, WIDTH, curve_chart, scatter_chart

FINITE = st.floats(-1e12, 1e12, allow_subnormal=False)


def dots(svg):
    return np.array(re.findall(r'class="dot" r="2.5" cx="([\d.]+)" cy="([\d.]+)"', svg), float)


def test_points_keep_their_proportions():
    observed, predicted = [0.0, 1.0, 3.0], [0.0, 3.0, 1.0]
    at = dots(scatter_chart(observed, predicted, "x"))
    np.testing.assert_allclose(np.diff(at[:, 0]) / np.diff(observed), at[1, 0] - at[0, 0], atol=0.2)
    down = np.diff(at[:, 1]) / np.diff(predicted)
    assert down[0] == pytest.approx(down[1], abs=0.2)
    assert down[0] < 0  # larger is higher


@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=20))
@settings(max_examples=50)
def test_any_points_are_inside(pairs):
    svg = scatter_chart(*zip(*pairs, strict=True), "any")
    ET.fromstring(svg)
    at = dots(svg)
    assert len(at) == len(pairs)
    assert (at >= 0).all()
    assert (at <= [WIDTH, HEIGHT]).all()


@given(
    st.lists(st.tuples(st.floats(1e-12, 1e12), st.none() | st.floats(0, 1e6)), max_size=12),
    st.floats(1e-12, 1e12),
)
@settings(max_examples=50)
def test_any_curve_is_drawn(points, used):
    points = [*points, (1.0, 2.0)]
    mus, values = zip(*points, strict=True)
    svg = curve_chart(mus, values, [None] * len(mus), (1.0, 2.0), used, 'a "label" <b>')
    ET.fromstring(svg)
    line = re.search(r'class="curve" points="([^"]*)"', svg).group(1).split()
    assert len(line) == sum(value is not None for value in values)

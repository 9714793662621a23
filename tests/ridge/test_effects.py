"""Additive effects: least squares by brute force, and the smallest of the equivalent ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kronfill.errors import DataError, ParameterError
from kronfill.ridge import effects
from kronfill.ridge.effects import EffectsDesign

from ..oracles.dense import smallest


def brute(design, values):
    z = design.matrix().toarray()
    w = np.ones(len(values)) if design.weights is None else design.weights
    root = np.sqrt(w)[:, None]
    beta = np.linalg.lstsq(root * z, root[:, 0] * values, rcond=1e-12)[0]
    return smallest(design, z @ beta)


@pytest.mark.parametrize("iterative", [False, True])
@example(shape=(1, 5), share=1.0, kind="both", weighted=False, seed=2)
@settings(max_examples=30, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    share=st.floats(0.05, 1),
    kind=st.sampled_from(effects.CENTERS),
    weighted=st.booleans(),
    seed=st.integers(0, 999),
)
def test_fit_equals_brute_force(iterative, shape, share, kind, weighted, seed):
    """Few entries make unconnected masks and cold rows, where effects are far from unique."""
    rng = np.random.default_rng(seed)
    m = max(1, round(share * shape[0] * shape[1]))
    rows, cols = np.divmod(rng.choice(shape[0] * shape[1], size=m, replace=False), shape[1])
    weights = rng.uniform(0.5, 2, m) if weighted else None
    values = rng.standard_normal(m) + 3
    limit = effects.DENSE_EFFECTS
    effects.DENSE_EFFECTS = 0 if iterative else limit
    try:
        design = EffectsDesign(rows, cols, shape, kind, weights)
        got = design.fit(values)
    finally:
        effects.DENSE_EFFECTS = limit
    expected = brute(design, values)
    assert got.mean == pytest.approx(expected.mean, abs=1e-7)
    assert_allclose(got.row, expected.row, atol=1e-7)
    assert_allclose(got.col, expected.col, atol=1e-7)
    assert_allclose(design.remove(values), values - got.at(rows, cols), atol=1e-12)


def test_cold_rows_are_at_the_mean_of_the_others():
    design = EffectsDesign(np.array([0, 0, 2]), np.array([0, 1, 1]), (3, 2), "rows")
    got = design.fit(np.array([1.0, 3.0, 6.0]))
    assert_allclose(got.mean + got.row, [2.0, 4.0, 6.0])


@pytest.mark.parametrize("large", [1e6, 1e11])
def test_a_heavy_entry_is_met(large):
    """Its effects add up to its value; the others are those of a fit to what is left."""
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(np.arange(42), 6)
    values, weights = rng.standard_normal(42), rng.uniform(0.5, 2, 42)
    weights[8] = large
    design = EffectsDesign(rows, cols, (7, 6), "both", weights)
    got, expected = design.fit(values), brute(design, values)
    fitted = got.at(rows, cols)
    assert fitted[8] == pytest.approx(values[8], abs=20 / large)
    wanted = expected.mean + expected.row[rows] + expected.col[cols]
    assert_allclose(fitted, wanted, atol=1e-14 * large)  # as many digits as the weight leaves


@pytest.mark.parametrize("large", [1e18, 1e99, 1e300])
def test_weights_too_far_apart_are_refused(large):
    rows, cols = np.divmod(np.arange(42), 6)
    weights = np.ones(42)
    weights[8] = large
    with pytest.raises(DataError, match=r"the weights go from 1 to 1e\+"):
        EffectsDesign(rows, cols, (7, 6), "both", weights)


@pytest.mark.parametrize("kind", effects.CENTERS)
def test_normal_equations_of_light_entries(kind):
    """What entries of little weight determine is not taken for rounding."""
    rng = np.random.default_rng(2)
    rows, cols = np.divmod(np.arange(20), 5)
    values = rng.standard_normal(20)
    light = 1e-9 if kind == "both" else 1e-24
    weights = rng.uniform(0.5, 2, 20) * np.where(rows == 3, light, 1.0)
    design = EffectsDesign(rows, cols, (4, 5), kind, weights)
    z = design.matrix().toarray()
    got = design.solve_normal(z.T @ (weights[:, None] * z), z.T @ (weights * values))
    expected = design.fit(values)
    assert_allclose(got.at(rows, cols), expected.at(rows, cols), atol=1e-6)
    assert_allclose(got.row, expected.row, atol=1e-6)
    assert_allclose(got.col, expected.col, atol=1e-6)


def test_rounding_in_the_place_of_an_unseen_row_is_no_effect():
    """Sums from which all observations of a row were taken again."""
    rows, cols, values = np.array([0, 0, 2]), np.array([0, 1, 1]), np.array([1.0, 3.0, 6.0])
    design = EffectsDesign(rows, cols, (3, 2), "rows")
    z = design.matrix().toarray()
    gram, moment = z.T @ z, z.T @ values
    gram[2, 2], moment[2] = 1e-17, 3e-17
    assert_allclose(design.solve_normal(gram, moment).row, design.fit(values).row, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-99, 1e99])
def test_the_size_of_all_weights_does_not_matter(scale):
    rng = np.random.default_rng(1)
    rows, cols = np.divmod(rng.choice(42, size=30, replace=False), 6)
    values, weights = rng.standard_normal(30), rng.uniform(0.5, 2, 30)
    plain = EffectsDesign(rows, cols, (7, 6), "both", weights).fit(values)
    scaled = EffectsDesign(rows, cols, (7, 6), "both", scale * weights).fit(values)
    assert_allclose(scaled.at(rows, cols), plain.at(rows, cols), atol=1e-12)


def test_unknown_kind():
    with pytest.raises(ParameterError, match="center must be None or one of"):
        EffectsDesign(np.array([0]), np.array([0]), (1, 1), "row")

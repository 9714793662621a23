"""Weighted sources against the dense sum; mapped kernels; shares of a mix."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.auto.mixing import MixedForm, shares
from kronfill.auto.sources import AxisParts, WeightedSources
from kronfill.errors import KernelError, ParameterError
from kronfill.kernels import Parts
from kronfill.kernels.columns.gaps import gappy_rbf
from kronfill.kernels.columns.single_columns import KmerEncoder, column_table
from kronfill.kernels.dotproduct import Linear
from kronfill.kernels.mapped import Mapped, SimilarityRows

RNG = np.random.default_rng(0)
POINTS = RNG.random((9, 2))
ALIKE = kf.kernels.rbf(RNG.random((9, 3)), 0.5).to_array()
WEIGHTS = np.array([0.7, 0.0, 1.3, 0.6, 0.3, 0.4, 0.2, 0.5])
SCALES = np.array([1.2, 0.6, 2.0, 0.5, 0.8])


def axis():
    return AxisParts.of(
        {"places": kf.kernels.rbf(POINTS, 0.4), "none": kf.kernels.linear(POINTS), "matrix": ALIKE},
        "row_sources",
    )


def test_a_sum_of_its_parts():
    parts = axis()
    assert parts.labels == (
        "places", "none", "matrix", "places, near by", "places, linear",
        "matrix, by profile",
    )  # fmt: skip
    kernel = parts.kernel(WEIGHTS, SCALES)
    made = parts.arrays(np.arange(9)).at(WEIGHTS, SCALES)
    dense = made.smooth + made.own * np.eye(9)
    assert_allclose(kernel.to_array(), dense)
    assert_allclose(kernel.diagonal(), np.diag(dense))
    assert_allclose(kernel.apply(POINTS), dense @ POINTS)
    assert_allclose(kernel.take([3, 1]).to_array(), dense[np.ix_([3, 1], [3, 1])])
    smooth, own = kernel.split()
    assert own == 0.5
    assert_allclose(smooth.to_array(), dense - 0.5 * np.eye(9))
    assert len(kernel.parts) == 5  # the one without weight is gone


def test_sequences_are_compared_by_all_their_similarities_too():
    texts = ["ACDEFGHIK", "ACDEFGHIR", "WWYYPPGGC", "ACDEFGPPG"]
    table = column_table(KmerEncoder("s", "protein", 3), pd.Series(texts, dtype=object))
    given = kf.kernels.linear(table.values.toarray())
    parts = AxisParts.of({"strings": Linear(table), "numbers": given}, "row_sources")
    assert parts.labels == ("strings", "numbers", "strings, by profile")
    profile = parts.kernels[2]
    S = given.to_array()
    apart = ((S[:, None] - S) ** 2).sum(axis=2)
    length = np.median(apart[np.triu_indices(4, 1)])
    assert_allclose(profile.to_array(), np.exp(-apart / length))
    assert_allclose(profile.cross(pd.DataFrame({"s": texts[:2]})), profile.block([0, 1]))


def test_new_items_are_described_by_source():
    parts = axis()
    kernel = parts.kernel(WEIGHTS, SCALES)
    places, similar = POINTS[[2, 5]], ALIKE[[2, 5]]
    cross = kernel.cross(Parts(places, places, similar))
    # A new item with the description of a known one differs from it by its own part only.
    assert_allclose(cross, kernel.block([2, 5], None) - 0.5 * np.eye(9)[[2, 5]], atol=1e-12)
    diagonal = kernel.new_diagonal(Parts(places, places, (similar, np.ones(2))))
    assert_allclose(diagonal, kernel.diagonal([2, 5]))


def test_sources_of_different_sizes_are_refused():
    with pytest.raises(KernelError, match="same items"):
        AxisParts.of([kf.kernels.identity(3), kf.kernels.identity(4)], "row_sources")
    with pytest.raises(ParameterError, match="dict of kernels"):
        AxisParts.of(3.0, "row_sources")


def test_mapped_kernels_compute_features_of_new_items():
    base = kf.kernels.precomputed(ALIKE)
    mapped = Mapped(kf.kernels.rbf(ALIKE, 1.0), SimilarityRows(base, 1.0))
    assert_allclose(mapped.cross(ALIKE[[4]]), mapped.block([4], None))
    assert_allclose(mapped.take([1, 2]).cross(ALIKE[[4]]), mapped.block([4], [1, 2]))
    assert_allclose(mapped.new_diagonal(ALIKE[[4]]), 1.0)


def test_nothing_known_is_a_constant_and_an_identity():
    parts = AxisParts.of(None, "row_sources").resized(4)
    assert not parts.are_known
    assert_allclose(parts.kernel(parts.first(), np.empty(0)).to_array(), 1 + np.eye(4))
    assert isinstance(parts.kernel(parts.first(), np.empty(0)), WeightedSources)
    assert parts.smooth(parts.first(), np.empty(0)) is None


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 30))
def test_shares_are_the_best_convex_mix(seed, members, count):
    rng = np.random.default_rng(seed)
    predicted, observed = rng.standard_normal((members, count)), rng.standard_normal(count)
    weights = rng.uniform(0.1, 2, count)
    found = shares(predicted, observed, weights)
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)

    def loss(share):
        return np.average((share @ predicted - observed) ** 2, weights=weights)

    grid = np.random.default_rng(1).dirichlet(np.ones(members), 200)
    best = min(map(loss, [*grid, *np.eye(members)]))
    assert loss(found) <= best + 0.01 * np.average(observed**2, weights=weights) + 0.1 * best


def test_kinds_of_entries_have_their_own_shares():
    class Constant:
        shape = (3, 2)

        def __init__(self, value):
            self.value = value

        def pairs(self, rows, cols):
            return np.full(len(rows), self.value)

        def block(self, rows, cols):
            return np.full((3, 2), self.value)

        def extended(self, rows, cols):
            return np.full((3 if rows is None else len(rows), 2), self.value)

    share = np.array([[1, 0], [0, 1], [0.5, 0.5], [0.25, 0.75]])
    seen = np.array([True, False, True]), np.array([True, False])
    form = MixedForm((Constant(0.0), Constant(4.0)), share, *seen)
    want = np.array([[0, 2], [4, 3], [0, 2.0]])
    assert_allclose(form.block(None, None), want)
    rows, cols = np.divmod(np.arange(6), 2)
    assert_allclose(form.pairs(rows, cols), want.ravel())
    assert_allclose(form.extended([0, 0], None), [[4, 3], [4, 3]])


@pytest.mark.parametrize("gaps", [False, True])
def test_places_are_a_part_of_their_own(gaps):
    frame = pd.DataFrame(
        np.column_stack([POINTS, RNG.random(9)]), columns=["dock_lat", "dock_lon", "size"]
    )
    if gaps:
        frame.loc[4, "size"] = np.nan
    features = gappy_rbf(frame)
    parts = AxisParts.of({"features": features}, "row_sources")
    assert parts.labels[-2:] == ("features, place", "features, place, near by")
    scaled = (POINTS - POINTS.mean(axis=0)) / POINTS.std(axis=0)
    apart = np.sqrt(((scaled[:, None] - scaled) ** 2).sum(axis=-1))
    length = np.median(apart[np.triu_indices(9, 1)])
    whole = parts.kernels[0].diagonal()
    size = np.sqrt(np.outer(whole, whole))  # an item that lacks something is less like all others
    assert_allclose(parts.kernels[-2].to_array(), size * np.exp(-0.5 * (apart / length) ** 2))
    assert_allclose(
        parts.kernels[-1].to_array(), size * np.exp(-4 * apart / length), rtol=1e-5, atol=1e-8
    )
    new = parts.kernels[-2].cross(frame.iloc[[2, 6]])
    assert_allclose(new, parts.kernels[-2].block([2, 6], None))
    assert parts.together is not None
    assert_allclose(parts.together.to_array(), parts.kernels[0].to_array())


@pytest.mark.parametrize("names", [["lat", "lon"], ["age", "size"], ["lat", "size"]])
def test_places_alone_and_other_columns_make_no_further_part(names):
    parts = AxisParts.of(gappy_rbf(pd.DataFrame(POINTS, columns=names)), "row_sources")
    assert parts.labels == ("similarity", "similarity, near by", "similarity, linear")

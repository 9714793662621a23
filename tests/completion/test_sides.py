"""What is known about an axis as labelled sources."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kronfill as kf
from kronfill.completion.sides import match, read_axis
from kronfill.errors import LabelError, NotPSDError, ParameterError

LABELS = [f"p{i}" for i in range(8)]
NEW = ["n1", "n2", "n3"]
RNG = np.random.default_rng(3)
PLACES = pd.DataFrame(RNG.random((11, 2)), index=[*LABELS, *NEW], columns=["x", "y"])
TASTES = pd.DataFrame(RNG.random((11, 3)), index=[*LABELS, *NEW])
ALIKE = pd.DataFrame(3.0 * kf.kernels.rbf(TASTES.to_numpy()).to_array(), TASTES.index, TASTES.index)
DAYS = [f"d{j}" for j in range(5)]


def axis(side, **settings):
    return read_axis(side, LABELS, len(LABELS), "row", **settings)


def table():
    rng = np.random.default_rng(1)
    values = np.add.outer(PLACES["x"].to_numpy()[:8], np.arange(5.0)) + rng.random((8, 5))
    values[rng.random(values.shape) < 0.3] = np.nan
    return pd.DataFrame(values, index=LABELS, columns=DAYS)


def test_nothing_known_has_no_source():
    assert axis(None).sources == ()


@pytest.mark.parametrize(
    ("side", "label"),
    [
        (PLACES.loc[LABELS[2:]], "features"),
        (ALIKE.loc[LABELS[2:], LABELS[2:]], "similarity"),
        (nx.path_graph(LABELS[2:]), "graph"),
    ],
)
def test_a_source_has_zeros_for_what_it_lacks(side, label):
    (source,) = axis(side).sources
    assert source.label == label
    K = source.kernel.to_array()
    assert not K[:2].any()
    assert not K[:, :2].any()
    assert_allclose(np.diag(K)[2:].mean(), 1.0)
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_one_source_is_all_of_the_kernel_but_constant_and_identity():
    found = axis(PLACES.loc[LABELS])
    want = found.sources[0].kernel.to_array() + 1.0 + 0.1 * np.eye(8)
    assert_array_equal(found.kernel.to_array(), want)


def test_several_sources_are_averaged():
    side = {"places": PLACES.loc[LABELS[:5]], "tastes": ALIKE.loc[LABELS[3:], LABELS[3:]]}
    found = axis(side)
    assert [source.label for source in found.sources] == ["places", "tastes"]
    mean = sum(source.kernel.to_array() for source in found.sources) / 2
    level = np.diag(mean).mean()
    assert_allclose(found.kernel.to_array(), mean + level + 0.1 * level * np.eye(8))
    listed = axis(list(side.values()))
    assert [source.label for source in listed.sources] == ["features", "similarity"]
    assert_allclose(listed.kernel.to_array(), found.kernel.to_array())


def test_items_of_all_sources_become_items_of_the_axis():
    found = axis([PLACES.loc[["p1", "n1"]], ALIKE.loc[["n2", "n1"], ["n2", "n1"]]])
    assert found.labels == (*LABELS, "n1", "n2")
    places, tastes = (source.kernel.to_array() for source in found.sources)
    assert_array_equal(np.flatnonzero(np.diag(places)), [1, 8])
    assert_array_equal(np.flatnonzero(np.diag(tastes)), [8, 9])


def test_sources_of_one_kind_have_labels_of_their_own():
    found = axis([PLACES, PLACES[["x"]], PLACES[["y"]]])
    assert [s.label for s in found.sources] == ["features", "features (2)", "features (3)"]


def test_an_item_is_unmatched_if_no_source_knows_it():
    side = [PLACES.loc[LABELS[:4]], nx.path_graph(LABELS[3:6])]
    assert match(side, LABELS, "row").only_table == ("p6", "p7")
    # What has no labels describes the whole table.
    array = ALIKE.loc[LABELS, LABELS].to_numpy()
    assert match([side[0], array], LABELS, "row").only_table == ()
    with pytest.raises(LabelError, match=r"2 of 8 row labels"):
        kf.complete(table(), method="kkmcex", rows=side)
    assert kf.complete(
        table(), method="kkmcex", rows=side, mu=0.1, unmatched="keep"
    ).filled.shape == (8, 5)
    assert kf.complete(
        table(), method="kkmcex", rows=side, mu=0.1, unmatched="drop"
    ).filled.shape == (6, 5)


def test_a_nested_list_is_still_a_matrix():
    alike = ALIKE.loc[LABELS, LABELS].to_numpy()
    want = axis(alike)
    assert_array_equal(axis(alike.tolist()).kernel.to_array(), want.kernel.to_array())
    assert want.sources[0].label == "similarity"


def test_an_identity_part_of_a_kernel_is_no_part_of_its_source():
    smooth = kf.kernels.rbf(PLACES.loc[LABELS])
    found = axis(smooth + 0.5 * kf.kernels.identity(8))
    assert_allclose(found.sources[0].kernel.to_array(), smooth.to_array())
    assert_allclose(found.kernel.to_array(), smooth.to_array() + 0.5 * np.eye(8))


def test_similarities_that_are_none_are_repaired_on_request_only():
    odd = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.9], [0.0, 0.9, 1.0]])
    for side in (odd, pd.DataFrame(odd)):
        with pytest.raises(NotPSDError):
            read_axis(side, range(3), 3, "row")
        (source,) = read_axis(side, range(3), 3, "row", repair=True).sources
        nearest = kf.kernels.nearest_psd(odd)
        assert_allclose(source.kernel.to_array(), nearest / np.diag(nearest).mean())
        values = np.linalg.eigvalsh(odd)
        share = -values[values < 0].sum() / np.abs(values).sum()
        assert f"repaired: {100 * share:.2g}% of its spectrum" in source.words


def test_names_of_sources_are_text():
    with pytest.raises(ParameterError, match=r"called by some text.*got 3"):
        axis({3: PLACES})
    with pytest.raises(ParameterError, match="must be one thing"):
        axis({"a": [PLACES, PLACES]})


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc"])
def test_new_items_of_several_sources(method):
    """The slow way: they are in the side information from the start."""
    known = {"places": PLACES.loc[LABELS[:6]], "tastes": ALIKE.loc[LABELS, LABELS] / 3}
    settings = {"mu": 0.1, "method": method, "rank": 2, "random_state": 0}
    done = kf.complete(table(), rows=known, **settings)
    new = {"places": PLACES.loc[NEW[:2]], "tastes": ALIKE.loc[NEW[1:], [*LABELS, *NEW[1:]]] / 3}
    found = done.extrapolate(rows=new)
    assert list(found.index) == NEW
    assert_array_equal(done.extrapolate(rows=list(new.values())), found)
    if method != "kkmcex":
        return
    both = [*LABELS, *NEW[1:]]
    everything = {
        "places": PLACES.loc[[*LABELS[:6], *NEW[:2]]], "tastes": ALIKE.loc[both, both] / 3
    }  # fmt: skip
    kernel = read_axis(everything, (*LABELS, *NEW), 11, "row").sources
    sums = (kernel[0].kernel.to_array() + kernel[1].kernel.to_array()) / 2
    # The length scale is that of the known items.
    places = kf.kernels.rbf(PLACES.loc[LABELS[:6]]).cross(PLACES.loc[NEW[:2]])
    cross = sums[8:, :8] - kernel[0].kernel.to_array()[8:, :8] / 2
    cross[:2, :6] += places / 2
    level = done.model.row_kernel.parts[-2].scale
    weights = done.model.row_kernel.split()[0]
    assert_allclose(weights.cross(done._newcomers(new, None)[0].given), cross + level)
    std = done.extrapolate_std(rows=new)
    assert (std.loc["n2"] < std.loc["n1"] + 1e-12).all()


def test_new_items_in_another_form_are_refused():
    done = kf.complete(
        table(), method="kkmcex", rows={"places": PLACES, "graph": nx.path_graph(LABELS)}, mu=0.1
    )
    with pytest.raises(ParameterError, match=r"one or more of 'places', 'graph'"):
        done.extrapolate(rows={"place": PLACES})
    with pytest.raises(ParameterError, match="got DataFrame"):
        done.extrapolate(rows=PLACES)
    assert done.extrapolate(rows=[PLACES.loc[NEW], None]).shape == (3, 5)


def test_several_sources_are_saved(tmp_path):
    side = {"places": PLACES.loc[LABELS[:5]], "tastes": ALIKE.loc[LABELS, LABELS]}
    done = kf.complete(table(), method="kkmcex", rows=side, mu=0.1)
    done.save(tmp_path / "model.kf")
    again = kf.load(tmp_path / "model.kf")
    new = {"places": PLACES.loc[NEW], "tastes": ALIKE.loc[NEW[:1], [*LABELS, "n1"]]}
    pd.testing.assert_frame_equal(again.extrapolate(rows=new), done.extrapolate(rows=new))


# Dates on an axis.

HOURS = pd.date_range("2026-06-01", periods=24 * 21, freq="h")


def rhythm():
    """Four places with a rhythm of day and week; one place lacks two days."""
    rng = np.random.default_rng(2)
    wave = 3 * np.sin(2 * np.pi * HOURS.hour / 24) + np.cos(2 * np.pi * np.arange(504) / 168)
    values = np.outer([1.0, 1.5, 0.5, 2.0], wave) + 0.1 * rng.standard_normal((4, len(HOURS)))
    frame = pd.DataFrame(values, index=list("abcd"), columns=HOURS)
    gone = np.outer([0, 1, 0, 0], np.isin(np.arange(504), np.arange(99, 147))) > 0
    return frame, frame.mask(gone)


def test_dates_on_an_axis_are_sources():
    found = read_axis(None, tuple(HOURS), len(HOURS), "column")
    assert [s.label for s in found.sources] == ["date: trend", "date: day", "date: week"]
    for source in found.sources:
        assert_allclose(source.kernel.diagonal(), 1.0)
    assert read_axis(None, tuple(HOURS), len(HOURS), "column", dates=False).sources == ()
    beside = pd.DataFrame({"rain": RNG.random(len(HOURS))}, index=HOURS)
    found = read_axis(beside, tuple(HOURS), len(HOURS), "column")
    assert [s.label for s in found.sources][:2] == ["features", "date: trend"]
    # Dates that are given are not taken twice.
    found = read_axis(beside.assign(when=HOURS), tuple(HOURS), len(HOURS), "column")
    assert [s.label for s in found.sources][:2] == ["features", "when: trend"]
    assert len(found.sources) == 4


def test_dates_fill_gaps_and_go_on(tmp_path):
    truth, seen = rhythm()
    done = kf.complete(seen, method="kkmcex", mu=0.1)
    gone = seen.isna().to_numpy()
    error = (done.filled - truth).to_numpy()[gone]
    assert np.sqrt(np.mean(error**2)) < 0.4  # of 2.6 without the rhythm
    later = pd.date_range(HOURS[-1], periods=25, freq="h")[1:]
    ahead = done.extrapolate(cols=later)
    assert ahead.shape == (4, 24)
    done.save(tmp_path / "m.kf")
    again = kf.load(tmp_path / "m.kf").extrapolate(cols=list(later))
    assert_allclose(again.to_numpy(), ahead.to_numpy())
    beside = pd.DataFrame({"rain": RNG.random(len(HOURS))}, index=HOURS)
    both = kf.complete(seen, cols=beside, method="kkmcex", mu=0.1)
    new = pd.DataFrame({"rain": [0.5, None]}, index=later[:2])
    assert list(both.extrapolate(cols=new).columns) == list(later[:2])

"""New rows and columns of a completed table, whatever is known about the others."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kronfill as kf
from kronfill.errors import FeatureError, KernelError, LabelError, NonFiniteError, ParameterError

RNG = np.random.default_rng(0)
ITEMS = [f"p{i}" for i in range(9)]
NEW = ["n1", "n2"]
FEATURES = pd.DataFrame({"x": RNG.random(11), "kind": list("abcabcabcab")}, index=[*ITEMS, *NEW])
# Similarities with themselves that differ: nothing can be taken for granted.
SCALES = 1.0 + RNG.random(11)
UNIT = pd.DataFrame(
    kf.kernels.rbf(FEATURES).to_array(), index=FEATURES.index, columns=FEATURES.index
)
ALIKE = UNIT.mul(SCALES, axis=0).mul(SCALES, axis=1)
GRAPH = nx.path_graph(ITEMS)
DAYS = [f"d{j}" for j in range(6)]
AXES = ("rows", "cols")


def table(axis):
    """Items in another order than theirs, some entries missing, two items without any."""
    rng = np.random.default_rng(1)
    x = FEATURES["x"].to_numpy()[:9]
    values = 5 * np.add.outer(x, np.linspace(0, 1, 6)) + 0.1 * rng.standard_normal((9, 6))
    values[rng.random(values.shape) < 0.3] = np.nan
    frame = pd.DataFrame(values, index=ITEMS, columns=DAYS)
    frame.loc[["p3", "p7"]] = np.nan
    frame = frame.iloc[[5, 3, 0, 1, 8, 2, 4, 7, 6]]
    return frame if axis == "rows" else frame.T


def completed(axis, side, **settings):
    return kf.complete(table(axis), **{axis: side}, **{"mu": 0.1, "method": "kkmcex", **settings})


def known(similar=ALIKE):
    return similar.loc[ITEMS, ITEMS]


def turned(axis, frame):
    """New items in the rows, whichever axis they are on."""
    return frame if axis == "rows" else frame.T


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc"])
def test_similarities_are_matched_by_label(axis, method):
    done = completed(axis, known(), method=method, rank=2)
    order = done.filled.index if axis == "rows" else done.filled.columns
    given = ALIKE.loc[NEW, [*NEW, *ITEMS[::-1]]]
    found = turned(axis, done.extrapolate(**{axis: given}))
    want = done.model.extrapolate(**{axis: ALIKE.loc[NEW, order].to_numpy()})
    assert_array_equal(found.to_numpy(), turned(axis, want))
    assert list(found.index) == NEW
    assert list(found.columns) == DAYS
    if method != "kmc":
        pair = (ALIKE.loc[NEW, order].to_numpy(), np.diag(ALIKE.loc[NEW, NEW]))
        std = turned(axis, done.extrapolate_std(**{axis: given}))
        assert_array_equal(std.to_numpy(), turned(axis, done.model.extrapolate_std(**{axis: pair})))
        assert (list(std.index), list(std.columns)) == (NEW, DAYS)


@pytest.mark.parametrize("axis", AXES)
def test_new_items_are_predicted_as_if_they_had_been_there(axis):
    """The slow way: they are in the side information from the start."""
    done, more = completed(axis, known(UNIT)), completed(axis, UNIT)
    want = turned(axis, more.predicted).loc[NEW]
    found = turned(axis, done.extrapolate(**{axis: UNIT.loc[NEW]}))
    assert_allclose(found.to_numpy(), want.to_numpy(), rtol=1e-9)
    cells = np.argwhere(np.ones(more.filled.shape))
    std = more._frame(more.model.predict_std(cells).reshape(more.filled.shape))
    found = turned(axis, done.extrapolate_std(**{axis: UNIT.loc[NEW]}))
    assert_allclose(found.to_numpy(), turned(axis, std).loc[NEW].to_numpy(), rtol=1e-9)


@pytest.mark.parametrize("axis", AXES)
def test_a_line_of_the_matrix_itself(axis):
    """A twin of a known item, described by its own similarities."""
    done = completed(axis, known())
    twin = known().iloc[[0]]
    found = done.extrapolate(**{axis: twin})
    assert list(found.index if axis == "rows" else found.columns) == ["p0"]
    pair = (twin, [ALIKE.loc["p0", "p0"]])
    std = done.extrapolate_std(**{axis: twin})
    pd.testing.assert_frame_equal(std, done.extrapolate_std(**{axis: pair}))
    assert (std.to_numpy() > 0).all()


def test_what_a_new_item_is_to_itself():
    done = completed("rows", known())
    bare = ALIKE.loc[NEW, ITEMS]
    own = pd.Series(np.diag(ALIKE), ALIKE.index)
    want = done.extrapolate_std(rows=ALIKE.loc[NEW])
    pd.testing.assert_frame_equal(done.extrapolate_std(rows=(bare, own[NEW].to_list())), want)
    # A labelled diagonal is matched too.
    pd.testing.assert_frame_equal(done.extrapolate_std(rows=(bare, own[NEW[::-1]])), want)
    assert done.extrapolate(rows=bare).shape == (2, 6)
    with pytest.raises(KernelError, match="with themselves is needed"):
        done.extrapolate_std(rows=bare)
    # One of them does not do: n2 has the label of nobody and no column.
    with pytest.raises(KernelError, match="with themselves is needed"):
        done.extrapolate_std(rows=ALIKE.loc[NEW, [*ITEMS, "n1"]])
    # Where all known ones are alike in this, so are new ones.
    unit = completed("rows", known(UNIT))
    pd.testing.assert_frame_equal(
        unit.extrapolate_std(rows=UNIT.loc[NEW, ITEMS]), unit.extrapolate_std(rows=UNIT.loc[NEW])
    )
    # But not one that is more similar to others than they are to themselves.
    loud = 1.5 * UNIT.loc[["p1"], ITEMS].set_axis(["n3"])
    with pytest.raises(KernelError, match="with themselves is needed"):
        unit.extrapolate_std(rows=loud)


def test_a_number_for_a_label_is_no_twin():
    """New item 0 is not known item 0: the similarity of these two is not its own."""
    plain = UNIT.iloc[:9, :9].set_axis(range(9)).set_axis(range(9), axis=1)
    rows = kf.complete(table("rows").set_axis(range(9)), method="kkmcex", rows=plain, mu=0.1)
    new = pd.DataFrame(UNIT.loc[["n1"], ITEMS].to_numpy())
    want = rows.model.extrapolate_std((new.to_numpy(), [1.0]))
    assert_array_equal(rows.extrapolate_std(rows=new).to_numpy(), want)


@pytest.mark.parametrize("axis", AXES)
def test_contradictory_similarities_are_refused(axis):
    done = completed(axis, known(UNIT))
    bad = UNIT.loc[NEW].copy()
    bad.loc["n2", "n2"] = 0.1
    with pytest.raises(KernelError, match=r"'n2' has the similarity 0\.1 with itself"):
        done.extrapolate_std(**{axis: bad})
    cross = np.array([[0.9, 0.1]])
    est = kf.KKMCEX([[1.0, 0.0], [0.0, 1.0]], mu=0.1).fit([[0, 0], [1, 0]], [1.0, 2.0])
    with pytest.raises(KernelError, match="root of the product"):
        est.extrapolate_std(rows=(cross, [0.2]))
    with pytest.raises(KernelError, match="root of the product"):
        est.fold_in((cross, [0.2]), [0], [1.0])


@pytest.mark.parametrize("axis", AXES)
def test_labels_that_are_missing_or_too_many(axis):
    done = completed(axis, known())
    with pytest.raises(LabelError, match="there is none for 'p8', 'p4'"):
        done.extrapolate(**{axis: ALIKE.loc[NEW].drop(columns=["p4", "p8"])})
    with pytest.raises(LabelError, match=r"1 column too many.*: 'p9'"):
        done.extrapolate(**{axis: ALIKE.loc[NEW].assign(p9=0.0)})
    with pytest.raises(LabelError, match="two columns for 'p4'"):
        done.extrapolate(**{axis: ALIKE.loc[NEW, [*ITEMS, "p4"]]})
    with pytest.raises(NonFiniteError, match="'n2' and 'p4' is nan"):
        done.extrapolate(**{axis: ALIKE.loc[NEW].mask(ALIKE.loc["n2", "p4"] == ALIKE)})
    with pytest.raises(KernelError, match="must be numbers"):
        done.extrapolate(**{axis: ALIKE.loc[NEW].astype(object).assign(p0="near")})
    # One item is a data frame with one line.
    with pytest.raises(LabelError, match="a table with a line for each"):
        done.extrapolate(**{axis: ALIKE.loc["n1"]})
    # The matrix was matched by label: which number of an array would be whose?
    with pytest.raises(LabelError, match=r"an array does not tell.*Got ndarray"):
        done.extrapolate(**{axis: ALIKE.loc[NEW, ITEMS].to_numpy()})


@pytest.mark.parametrize("axis", AXES)
def test_a_matrix_without_labels(axis):
    order = table("rows").index
    done = completed(axis, ALIKE.loc[order, order].to_numpy())
    by_place = done.extrapolate(**{axis: ALIKE.loc[NEW, order].to_numpy()})
    by_label = done.extrapolate(**{axis: ALIKE.loc[NEW, ITEMS]})
    assert_array_equal(by_place.to_numpy(), by_label.to_numpy())
    assert list(turned(axis, by_place).index) == [0, 1]
    assert list(turned(axis, by_label).index) == NEW


def test_items_that_only_the_table_has_need_no_similarity():
    less = known().drop(index="p1", columns="p1")
    done = completed("rows", less, unmatched="keep")
    without, zero = ALIKE.loc[NEW].drop(columns="p1"), ALIKE.loc[NEW].assign(p1=0.0)
    pd.testing.assert_frame_equal(
        done.extrapolate_std(rows=without), done.extrapolate_std(rows=zero)
    )
    pd.testing.assert_frame_equal(done.extrapolate(rows=without), done.extrapolate(rows=zero))


@pytest.mark.parametrize("axis", AXES)
def test_nodes_of_a_graph(axis):
    done = completed(axis, GRAPH)
    order = done.filled.index if axis == "rows" else done.filled.columns
    alike = kf.kernels.diffusion(GRAPH)
    near = 0.5 * (alike.block([2]) + alike.block([6]))
    new = pd.DataFrame(near, index=["n1"], columns=ITEMS).assign(n1=1.0)
    pair = (new[list(order)].to_numpy(), [1.0])
    for name in ("extrapolate", "extrapolate_std"):
        found = getattr(done, name)(**{axis: new})
        assert_array_equal(found.to_numpy(), getattr(done.model, name)(**{axis: pair}))
        assert list(turned(axis, found).index) == ["n1"]
    more = GRAPH.copy()
    more.add_edge("p0", "n1")
    with pytest.raises(ParameterError, match="Put the new nodes into the graph"):
        done.extrapolate(**{axis: more})


def test_a_large_graph_is_known_by_its_products(monkeypatch):
    monkeypatch.setattr("kronfill.kernels.graphs.nodes._DENSE_UP_TO", 3)
    assert kf.kernels.diffusion(GRAPH).by_products
    test_nodes_of_a_graph("rows")


@pytest.mark.parametrize("axis", AXES)
def test_many_items_are_cut_to_a_thin_factor(axis, monkeypatch):
    monkeypatch.setattr("kronfill.completion.sides.MANY", 5)
    monkeypatch.setattr("kronfill.completion.sides.THIN_RANK", 9)
    cut = completed(axis, known())
    monkeypatch.undo()
    whole = completed(axis, known())
    assert "Thin" in repr(cut.model.row_kernel if axis == "rows" else cut.model.col_kernel)
    new = {axis: ALIKE.loc[NEW]}
    assert_allclose(cut.extrapolate(**new), whole.extrapolate(**new), rtol=1e-8)
    assert (cut.extrapolate_std(**new).to_numpy() > 0).all()


@pytest.mark.parametrize("axis", AXES)
def test_kernels_are_taken_as_they_are(axis):
    order = table("rows").index
    labelled = completed(axis, kf.kernels.precomputed(known()))
    given = completed(axis, kf.kernels.precomputed(ALIKE.loc[order, order].to_numpy()))
    want = given.extrapolate_std(
        **{axis: (ALIKE.loc[NEW, order].to_numpy(), np.diag(ALIKE.loc[NEW, NEW]))}
    )
    found = labelled.extrapolate_std(**{axis: ALIKE.loc[NEW]})
    assert_allclose(found.to_numpy(), want.to_numpy(), rtol=1e-9)
    by_features = completed(axis, kf.kernels.rbf(FEATURES.loc[ITEMS]))
    found = by_features.extrapolate_std(**{axis: FEATURES.loc[NEW]})
    assert list(turned(axis, found).index) == NEW
    # Each part of a kernel has its own description.
    both = kf.kernels.rbf(FEATURES.loc[ITEMS]) + kf.kernels.precomputed(known())
    parts = kf.kernels.Parts(FEATURES.loc[NEW], ALIKE.loc[NEW])
    done = completed(axis, both)
    assert turned(axis, done.extrapolate(**{axis: parts})).shape == (2, 6)
    assert turned(axis, done.extrapolate_std(**{axis: parts})).shape == (2, 6)
    alone = completed(axis, kf.kernels.precomputed(known()).normalized())
    assert turned(axis, alone.extrapolate(**{axis: ALIKE.loc[NEW]})).shape == (2, 6)


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "imc"])
def test_features_that_were_added_are_not_asked_for(axis, method):
    """Neither the frame nor an error shows the columns that the library works with."""
    done = completed(axis, FEATURES.loc[ITEMS], method=method, rank=2)
    new = FEATURES.loc[NEW]
    assert list(turned(axis, done.extrapolate(**{axis: new})).index) == NEW
    assert list(new.columns) == ["x", "kind"]
    for bad in (new[["x"]], new.to_numpy(), new.iloc[0]):
        with pytest.raises(FeatureError, match=r"'x', 'kind'; got .* without .*'kind'") as caught:
            done.extrapolate(**{axis: bad})
        assert "(" not in str(caught.value)
    if method in ("kkmcex", "rrmcex"):
        want = done.model.extrapolate_std(**{axis: new})
        assert_array_equal(done.extrapolate_std(**{axis: new}).to_numpy(), want)
    # A frame of another library has no index.
    other = done.extrapolate(**{axis: pl.from_pandas(new)})
    assert_array_equal(other.to_numpy(), done.extrapolate(**{axis: new}).to_numpy())


@pytest.mark.filterwarnings("ignore:Nothing is known")
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "imc", "mc"])
def test_items_of_which_nothing_is_known(axis, method):
    done = completed(axis, None, method=method, rank=2)
    for given, labels in (
        (2, [0, 1]),
        (NEW, NEW),
        (pd.Index(NEW), NEW),
        (pd.DataFrame(index=NEW), NEW),
        ("n1", ["n1"]),
    ):
        found = done.extrapolate(**{axis: given})
        assert list(turned(axis, found).index) == labels
        assert np.isfinite(found.to_numpy()).all()
        if method in ("kkmcex", "rrmcex"):
            std = done.extrapolate_std(**{axis: given})
            assert list(turned(axis, std).index) == labels
    if method == "mc":  # it never takes notice of what is known
        assert list(turned(axis, done.extrapolate(**{axis: FEATURES.loc[NEW]})).index) == NEW
        return
    with pytest.raises(ParameterError, match=r"Nothing is known about the .*2 columns"):
        done.extrapolate(**{axis: FEATURES.loc[NEW]})


@pytest.mark.parametrize("method", ["kmc", "imc", "mc"])
def test_methods_without_a_standard_deviation_say_so(method):
    done = completed("rows", FEATURES.loc[ITEMS], method=method, rank=2)
    with pytest.raises(ParameterError, match="no standard deviation of its own: use"):
        done.extrapolate_std(rows=FEATURES.loc[NEW])


def test_both_axes_at_once():
    alike = pd.DataFrame(0.5 * np.eye(6) + 0.5, DAYS, DAYS)
    done = kf.complete(table("rows"), known(), alike, method="kkmcex", mu=0.1)
    day = pd.DataFrame(0.7, index=["d9"], columns=DAYS)
    for name in ("extrapolate", "extrapolate_std"):
        found = getattr(done, name)(rows=ALIKE.loc[NEW], cols=day)
        assert (list(found.index), list(found.columns)) == (NEW, ["d9"])
        order = list(done.filled.index)
        pair = (ALIKE.loc[NEW, order].to_numpy(), np.diag(ALIKE.loc[NEW, NEW]))
        want = getattr(done.model, name)(pair, (day.to_numpy(), [1.0]))
        assert_array_equal(found.to_numpy(), want)


def test_new_entries_one_by_one():
    done = completed("rows", known())
    (found,) = done.iter_predictions(rows=ALIKE.loc[NEW])
    assert_allclose(found["value"], done.extrapolate(rows=ALIKE.loc[NEW]).to_numpy().ravel())
    std = done.extrapolate_std(rows=ALIKE.loc[NEW]).to_numpy().ravel()
    assert_allclose(found["std"], np.sqrt(std**2 + done.model.noise_variance_))
    pieces = pd.concat(done.iter_predictions(rows=ALIKE.loc[NEW], chunk=5), ignore_index=True)
    pd.testing.assert_frame_equal(pieces, found)


def test_a_saved_completion(tmp_path):
    done = completed("rows", known())
    done.save(tmp_path / "model.kf")
    back = kf.load(tmp_path / "model.kf")
    for name in ("extrapolate", "extrapolate_std"):
        found, want = (getattr(one, name)(rows=ALIKE.loc[NEW]) for one in (back, done))
        pd.testing.assert_frame_equal(found, want, check_exact=True)


def test_estimators_match_labels_too():
    X = np.argwhere(np.ones((9, 6)))
    est = kf.KKMCEX(known(), mu=0.1).fit(X, np.arange(54.0))
    mixed = ALIKE.loc[NEW, [*NEW, *ITEMS[::-1]]]
    pair = (ALIKE.loc[NEW, ITEMS].to_numpy(), np.diag(ALIKE.loc[NEW, NEW]))
    assert_array_equal(est.extrapolate(rows=mixed), est.extrapolate(rows=pair))
    assert_array_equal(est.extrapolate_std(rows=mixed), est.extrapolate_std(rows=pair))
    one = (pair[0][:1], pair[1][:1])
    assert_array_equal(est.fold_in(mixed.iloc[[0]].drop(columns="n2"), [0], [1.0]),
                       est.fold_in(one, [0], [1.0]))  # fmt: skip
    # A kernel without labels has positions.
    bare = kf.KKMCEX(known().to_numpy(), mu=0.1).fit(X, np.arange(54.0))
    numbered = pd.DataFrame(pair[0])[list(range(9))[::-1]]
    assert_array_equal(bare.extrapolate(rows=numbered), bare.extrapolate(rows=pair[0]))
    with pytest.raises(LabelError, match="there is none for 0, 1, 2"):
        bare.extrapolate(rows=ALIKE.loc[NEW])


def test_a_matrix_with_plain_numbers_for_labels_is_matched_too():
    """The default index 0, 1, 2, ... of a matrix are labels: the table may have another order."""
    plain = UNIT.iloc[:9, :9].set_axis(pd.RangeIndex(9)).set_axis(pd.RangeIndex(9), axis=1)
    numbers = [5, 3, 0, 1, 8, 2, 4, 7, 6]
    done = kf.complete(table("rows").set_axis(numbers), method="kkmcex", rows=plain, mu=0.1)
    named = kf.complete(table("rows"), method="kkmcex", rows=known(UNIT), mu=0.1)
    assert_array_equal(done.filled.to_numpy(), named.filled.to_numpy())
    # Items that only the matrix has are extrapolated.
    more = kf.complete(
        table("rows").set_axis(numbers).iloc[:4], method="kkmcex", rows=plain, mu=0.1
    )
    assert more.filled.shape == (9, 6)

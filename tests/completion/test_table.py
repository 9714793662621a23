"""Labelled tables in, labelled tables out."""

from __future__ import annotations

import tracemalloc
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import kronfill as kf
from kronfill.completion.sides import match
from kronfill.errors import KronfillWarning, LabelError, ParameterError

RNG = np.random.default_rng(0)
PLACES = pd.DataFrame(
    {"x": RNG.random(12), "y": RNG.random(12), "kind": list("abcabcabcabc")},
    index=[f"p{i}" for i in range(12)],
)
DAYS = pd.DataFrame(
    {"rain": RNG.random(8), "date": pd.date_range("2024-01-01", periods=8)},
    index=pd.date_range("2024-01-01", periods=8),
)


def table():
    """Ten of the places in another order, six of the days; p3 has no entry."""
    rng = np.random.default_rng(1)
    values = np.add.outer(PLACES["x"].to_numpy() * 5, DAYS["rain"].to_numpy() * 3)
    values = values + 0.1 * rng.standard_normal(values.shape) + 10
    values[rng.random(values.shape) < 0.3] = np.nan
    frame = pd.DataFrame(values, index=PLACES.index, columns=DAYS.index)
    frame.loc["p3"] = np.nan
    return frame.iloc[[5, 3, 0, 1, 2, 4, 6, 7, 9, 8], :6]


def test_an_array_of_xarray_keeps_its_labels():
    frame = table().rename_axis("place").rename_axis("day", axis=1)
    array = xr.DataArray(frame)
    plain = kf.complete(frame, PLACES, DAYS, method="kkmcex", mu=0.1)
    done = kf.complete(array, PLACES, DAYS, method="kkmcex", mu=0.1)
    pd.testing.assert_frame_equal(done.filled, plain.filled, check_freq=False)
    with pytest.raises(ParameterError, match="to_pandas"):
        kf.complete(frame, method="kkmcex", rows=xr.DataArray(PLACES[["x", "y"]]), mu=0.1)


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "imc", "mc"])
def test_every_method_fills_the_table(method):
    frame = table()
    done = kf.complete(frame, PLACES, DAYS, method=method, rank=2)
    filled = done.filled
    assert list(filled.index[:10]) == list(frame.index)
    assert set(filled.index) == set(PLACES.index)
    assert filled.shape == (12, 8)
    assert not filled.isna().to_numpy().any()
    # Observed values stay as they were; the others are the model's.
    assert_allclose(filled.loc[frame.index, frame.columns].to_numpy()[frame.notna().to_numpy()],
                    frame.to_numpy()[frame.notna().to_numpy()])  # fmt: skip
    assert_allclose(done.predict([("p11", DAYS.index[7])]), filled.loc["p11", DAYS.index[7]])
    assert_allclose(done.predicted.to_numpy(), done.model.predict_matrix())


def test_status_tells_observed_filled_and_extrapolated():
    done = kf.complete(table(), PLACES, DAYS, method="kkmcex", mu=0.1)
    status = done.status
    counts = status.stack().value_counts()
    assert counts["observed"] == done.observations.m
    assert (status.loc[["p3", "p10", "p11"]] == "extrapolated").all(axis=None)
    assert (status.iloc[:, 6:] == "extrapolated").all(axis=None)
    text = repr(done)
    assert f"extrapolated  {counts['extrapolated']} entries" in text
    assert "3 features of 12 items" in text


def test_labels_are_matched_not_positions():
    """Shuffled side information gives the same answer."""
    frame = table()
    one = kf.complete(frame, PLACES, DAYS, method="kkmcex", mu=0.1).filled
    two = kf.complete(
        frame, PLACES.sample(frac=1, random_state=1), DAYS[::-1], method="kkmcex", mu=0.1
    ).filled
    assert_allclose(two.loc[one.index, one.columns].to_numpy(), one.to_numpy(), atol=1e-8)


def test_equals_the_estimator():
    """Nothing but kernels, a mean and mu are added."""
    frame = table().set_axis(list("abcdef"), axis=1)
    done = kf.complete(frame, PLACES, method="kkmcex", mu=0.3)
    order = list(done.filled.index)
    n = len(order)
    kernel = kf.kernels.rbf(PLACES.loc[order]) + kf.kernels.constant(n)
    kernel = kernel + 0.1 * kf.kernels.identity(n)
    obs = done.observations
    columns = kf.kernels.constant(6) + kf.kernels.identity(6)
    est = kf.KKMCEX(kernel, columns, mu=0.3, center="mean").fit(obs)
    assert_allclose(done.predicted.to_numpy(), est.predict_matrix(), atol=1e-10)


def test_graph_kernel_and_similarity_matrix():
    frame = table()
    graph = nx.path_graph(list(PLACES.index))
    by_graph = kf.complete(frame, method="kkmcex", rows=graph, mu=0.1)
    assert "graph of 12 nodes" in repr(by_graph)
    assert by_graph.filled.shape == (12, 6)
    matrix = kf.kernels.rbf(PLACES[["x", "y"]]).to_array()
    similar = pd.DataFrame(matrix, index=PLACES.index, columns=PLACES.index)
    by_matrix = kf.complete(frame, method="kkmcex", rows=similar, mu=0.1)
    assert by_matrix.filled.shape == (12, 6)
    # A kernel object is taken as it is; a similarity matrix gets a constant and an identity part.
    own = kf.kernels.precomputed(similar)
    labels = list(PLACES.index)
    parts = own + kf.kernels.constant(labels) + 0.1 * kf.kernels.identity(labels)
    by_kernel = kf.complete(frame, method="kkmcex", rows=parts, mu=0.1)
    assert_allclose(by_matrix.filled.to_numpy(), by_kernel.filled.to_numpy(), atol=1e-9)
    assert not np.allclose(
        kf.complete(frame, method="kkmcex", rows=own, mu=0.1).filled, by_kernel.filled
    )
    positional = PLACES.loc[frame.index, ["x", "y"]].to_numpy()
    array = kf.kernels.rbf(positional).to_array()
    assert kf.complete(frame, method="kkmcex", rows=array, mu=0.1).filled.shape == (10, 6)


def test_best_columns_per_row():
    done = kf.complete(table(), PLACES, DAYS, method="kkmcex", mu=0.1)
    best = done.best(2, rows=["p5", "p11"])
    assert list(best.columns) == ["row", "rank", "column", "value"]
    assert list(best["row"]) == ["p5", "p5", "p11", "p11"]
    row = done.predicted.loc["p11"].sort_values(ascending=False)
    assert list(best["column"][2:]) == list(row.index[:2])
    seen = done.status.loc["p5"]
    assert all(seen[c] != "observed" for c in best["column"][:2])
    everything = done.best(8, rows=["p5"], observed=True)
    assert len(everything) == 8
    assert everything["value"].is_monotonic_decreasing


def test_arrays_and_observations_work_too():
    values = table().to_numpy()
    one = kf.complete(values, method="mc", rank=2, mu=0.1)
    assert list(one.filled.index) == list(range(10))
    obs = kf.Observations.from_matrix(table())
    two = kf.complete(obs, method="mc", rank=2, mu=0.1)
    assert_allclose(one.filled.to_numpy(), two.filled.to_numpy())
    assert list(two.filled.index) == list(table().index)


def test_html_is_escaped_and_short():
    frame = table().rename(index={"p5": "<b>p5</b>"})
    html = kf.complete(frame, method="mc", mu=0.1)._repr_html_()
    assert "<b>p5</b>" not in html
    assert "&lt;b&gt;p5" in html
    assert len(html) < 20_000


def test_html_of_a_large_table_predicts_what_it_shows():
    """Eight rows and columns of 3,000 x 2,000; all of them would take 48 MB."""
    rng = np.random.default_rng(0)
    codes = np.unique(np.concatenate([[0, 1, 2001], rng.integers(0, 6_000_000, 20_000)]))
    rows, cols = np.divmod(codes, 2000)
    obs = kf.Observations(rows, cols, rng.standard_normal(len(codes)), (3000, 2000))
    done = kf.complete(obs, method="mc", rank=2, mu=1.0)
    tracemalloc.start()
    html = done._repr_html_()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6
    shown = done.filled.iloc[:8, :8].to_html(float_format=lambda v: f"{v:.4g}")
    assert shown in html


@pytest.mark.parametrize("shape", [(1, 1), (3, 20), (20, 3)])
def test_html_of_a_small_table_shows_all_of_it(shape):
    values = np.add.outer(np.arange(shape[0]) + 0.5, np.arange(shape[1]))
    done = kf.complete(pd.DataFrame(values), method="mc", rank=1, mu=0.1)
    shown = done.filled.iloc[:8, :8].to_html(float_format=lambda v: f"{v:.4g}")
    assert shown in done._repr_html_()


def test_missing_labels_are_named():
    with pytest.raises(LabelError, match=r"1 of 10 row labels .* \('p9'\)"):
        kf.complete(table(), PLACES.drop(index="p9"), method="kkmcex")
    with pytest.raises(LabelError, match=r"labels of the table's rows.*exchange rows= and cols="):
        kf.complete(table(), method="kkmcex", cols=PLACES)
    with pytest.raises(LabelError, match="12 items without labels"):
        kf.complete(table(), np.eye(12), method="kkmcex")
    done = kf.complete(table(), PLACES, method="kkmcex", mu=0.1)
    with pytest.raises(LabelError, match="did you mean 'p1"):
        done.predict([("p1x", DAYS.index[0])])
    with pytest.raises(ParameterError, match="one pair per entry"):
        done.predict([("p1", DAYS.index[0], 3)])
    with pytest.raises(ParameterError, match="list of"):
        done.predict(("p1", DAYS.index[0]))
    with pytest.raises(ParameterError, match="n must be a positive integer"):
        done.best(-1)
    assert len(done.best(1, rows="p1")) == 1


def test_bad_arguments():
    with pytest.raises(ParameterError, match="method must be one of"):
        kf.complete(table(), method="svd")
    with pytest.raises(ParameterError, match="to_frame"):
        kf.complete(table(), method="kkmcex", rows=PLACES["x"])
    assert kf.complete(table(), PLACES, method="KKMCEX", mu=1.0).model.mu_ == 1.0
    with pytest.raises(ParameterError, match="needs a table of features"):
        kf.complete(table(), rows=nx.path_graph(list(PLACES.index)), method="imc")
    with pytest.warns(KronfillWarning, match="Nothing is known"):
        kf.complete(table().set_axis(list("abcdef"), axis=1), method="kkmcex", mu=1.0)


@pytest.mark.parametrize("known", ["rows", "cols", "graph", "similarity", "nothing"])
def test_known_on_one_axis_beats_the_effects(known):
    """Levels of rows and columns are used, whatever is known.

    The noise is 1, predicting the mean has error 3.6, and the truth is additive: fitting row and
    column effects, its own model, has 0.35.
    """
    rng = np.random.default_rng(4)
    x, t = rng.random(40), rng.random(30)
    truth = 20 + 10 * np.sin(3 * x)[:, None] + 5 * t[None, :]
    truth = truth + rng.standard_normal((40, 1))
    noisy = truth + rng.standard_normal(truth.shape)
    seen = rng.random(truth.shape) < 0.5
    frame = pd.DataFrame(np.where(seen, noisy, np.nan))
    rows = pd.DataFrame({"x": x})
    similar = pd.DataFrame(kf.kernels.rbf(rows).to_array())
    graph = nx.from_numpy_array((np.abs(x[:, None] - x) < 0.1) * 1.0)
    sides = {
        "rows": {"rows": rows}, "cols": {"cols": pd.DataFrame({"t": t})},
        "graph": {"rows": graph}, "similarity": {"rows": similar}, "nothing": {},
    }[known]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KronfillWarning)
        predicted = kf.complete(frame, **sides).predicted.to_numpy()
    error = np.sqrt(np.mean((predicted - truth)[~seen] ** 2))
    assert error < 0.6


def test_index_names_frequency_and_multiindex_are_kept():
    frame = table().rename_axis(index="place", columns="day")
    same = kf.complete(frame, method="mc", mu=0.1).filled
    assert same.index.equals(frame.index)
    assert (same.index.name, same.columns.name) == ("place", "day")
    assert same.columns.freq == frame.columns.freq
    more = kf.complete(frame, PLACES, DAYS, method="kkmcex", mu=0.1).filled
    assert (more.index.name, more.columns.name) == ("place", "day")
    levels = pd.MultiIndex.from_product([["n", "s"], range(5)], names=["region", "id"])
    nested = kf.complete(frame.set_axis(levels), method="mc", mu=0.1).filled
    assert nested.index.equals(levels)
    assert nested.loc["n"].shape == (5, 6)


def test_new_rows_are_labelled():
    done = kf.complete(table(), PLACES, DAYS, method="kkmcex", mu=0.1)
    new = PLACES.iloc[[2]].rename(index={"p2": "twin"})
    got = done.extrapolate(rows=new)
    assert list(got.index) == ["twin"]
    assert list(got.columns) == list(done.filled.columns)
    assert np.isfinite(got.to_numpy()).all()


def test_certificate_of_a_completion():
    found = kf.complete(table(), PLACES, DAYS, method="kkmcex", mu=0.1).certificate(
        value_range=(0, 40)
    )
    assert found.value >= 0


def test_single_row_and_single_column():
    frame = pd.DataFrame([[1.0, np.nan, 3.0]], index=["a"], columns=list("xyz"))
    columns = pd.DataFrame({"t": [0.0, 1.0, 2.0]}, index=list("xyz"))
    filled = kf.complete(frame, method="kkmcex", cols=columns).filled
    assert 1.0 < filled.loc["a", "y"] < 3.0
    flipped = kf.complete(frame.T, method="kkmcex", rows=columns).filled
    assert_allclose(flipped.to_numpy().T, filled.to_numpy(), atol=1e-6)


def test_unmatched_rows_are_kept_or_dropped_when_asked():
    frame = table()
    known = PLACES.drop(index=["p9", "p2"])
    kept = kf.complete(frame, known, DAYS, method="kkmcex", mu=0.1, unmatched="keep")
    assert list(kept.filled.index[:10]) == list(frame.index)
    assert set(kept.filled.index) == set(PLACES.index)
    # They share nothing with the others but a constant: their similarity is as if they were alone.
    kernel = kept.model.row_kernel.to_array()
    at, others = list(frame.index).index("p9"), list(frame.index).index("p5")
    assert kernel[at, others] == pytest.approx(kernel.min())
    assert kernel[at, at] < kernel[others, others]
    dropped = kf.complete(frame, known, DAYS, method="kkmcex", mu=0.1, unmatched="drop")
    rest = kf.complete(frame.drop(index=["p9", "p2"]), known, DAYS, method="kkmcex", mu=0.1)
    assert_allclose(dropped.filled.to_numpy(), rest.filled.to_numpy())
    assert list(dropped.filled.index) == list(rest.filled.index)


def test_unmatched_in_graphs_and_matrices():
    frame = table()
    graph = nx.path_graph([p for p in PLACES.index if p != "p9"])
    by_graph = kf.complete(frame, method="kkmcex", rows=graph, mu=0.1, unmatched="keep")
    assert set(by_graph.filled.index) == set(PLACES.index)
    assert "p9" not in graph
    part = PLACES.drop(index="p9")
    matrix = pd.DataFrame(kf.kernels.rbf(part).to_array(), index=part.index, columns=part.index)
    by_matrix = kf.complete(frame, method="kkmcex", rows=matrix, mu=0.1, unmatched="keep")
    assert np.isfinite(by_matrix.filled.loc["p9"]).all()
    own = kf.kernels.precomputed(matrix)
    with pytest.raises(LabelError, match="must describe every row"):
        kf.complete(frame, method="kkmcex", rows=own, mu=0.1, unmatched="keep")


@pytest.mark.parametrize("unmatched", ["keep", "drop"])
def test_a_plain_list_of_lists(unmatched):
    """Labelled by position, whatever list.index is."""
    rows = [[1.0, 2.0, None], [2.0, None, 4.0], [None, 4.0, 5.0]]
    known = pd.DataFrame({"x": [0.0, 1.0, 3.0]}, index=[0, 1, 7])
    done = kf.complete(rows, known, method="kkmcex", mu=0.1, unmatched=unmatched)
    same = kf.complete(pd.DataFrame(rows), known, method="kkmcex", mu=0.1, unmatched=unmatched)
    pd.testing.assert_frame_equal(done.filled, same.filled, check_index_type=False)
    assert list(done.filled.index) == ([0, 1, 2, 7] if unmatched == "keep" else [0, 1, 7])


def test_new_rows_as_a_plain_list_are_numbered():
    near = [[1.0, 0.5, 0.2], [0.5, 1.0, 0.5], [0.2, 0.5, 1.0]]
    done = kf.complete([[1.0, 2.0], [2.0, None], [None, 3.0]], method="kkmcex", rows=near, mu=0.1)
    new = [[0.4, 0.9, 0.4]]
    found = done.extrapolate(rows=new)
    assert list(found.index) == [0]
    assert_allclose(found, done.extrapolate(rows=np.array(new)))


def test_counts_of_one_are_singular():
    one = pd.DataFrame({"x": [1.0]}, index=["a"])
    done = kf.complete(pd.DataFrame([[1.0, 2.0, None]], index=["a"]), one, method="kkmcex", mu=0.1)
    assert "1 feature of 1 item" in repr(done)
    assert str(match(one, ("a",), "row")) == "1 of 1 row of the table is in the side information"
    with pytest.raises(LabelError, match="1 of 1 row label of the table is not in"):
        kf.complete(pd.DataFrame([[1.0, None]], index=["b"]), one, method="kkmcex")


def test_unmatched_cannot_be_everything():
    strange = PLACES.set_axis([f"q{i}" for i in range(12)])
    for how, says in (("keep", "No row label"), ("drop", "nothing would be left")):
        with pytest.raises(kf.errors.DataError, match=says):
            kf.complete(table(), strange, method="kkmcex", unmatched=how)
    with pytest.raises(LabelError, match="predicts from features alone"):
        kf.complete(table(), PLACES.drop(index="p9"), method="imc", unmatched="keep")
    with pytest.raises(ParameterError, match="unmatched must be"):
        kf.complete(table(), PLACES, method="kkmcex", unmatched="maybe")


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "imc"])
def test_new_rows_whatever_the_method_and_the_match(method):
    new = PLACES.iloc[[2]].rename(index={"p2": "twin"})
    done = kf.complete(table(), PLACES, DAYS, method=method, rank=2, mu=0.1)
    assert done.extrapolate(rows=new).shape == (1, 8)
    if method == "imc":  # no part of its own: a twin is predicted as what it is a twin of
        assert_allclose(done.extrapolate(rows=new).to_numpy()[0], done.predicted.loc["p2"])
        return
    kept = kf.complete(table(), PLACES.drop(index="p9"), DAYS, method, mu=0.1, unmatched="keep")
    assert np.isfinite(kept.extrapolate(rows=new).to_numpy()).all()


def test_many_items_are_cut_to_a_thin_factor(monkeypatch):
    frame = table()
    whole = kf.complete(frame, PLACES, DAYS, method="kkmcex", mu=0.1)
    monkeypatch.setattr("kronfill.completion.sides.MANY", 5)
    monkeypatch.setattr("kronfill.completion.sides.THIN_RANK", 12)
    same = kf.complete(frame, PLACES, DAYS, method="kkmcex", mu=0.1)
    assert_allclose(same.filled.to_numpy(), whole.filled.to_numpy(), atol=1e-6)
    monkeypatch.setattr("kronfill.completion.sides.THIN_RANK", 3)
    cut = kf.complete(frame, PLACES, DAYS, method="kkmcex", mu=0.1)
    assert "Thin" in repr(cut.model.row_kernel)
    # What the factor leaves out goes to the identity part: the mean diagonal stays.
    assert_allclose(
        cut.model.row_kernel.diagonal().mean(), whole.model.row_kernel.diagonal().mean()
    )
    new = PLACES.iloc[[2]].rename(index={"p2": "twin"})
    assert np.isfinite(cut.extrapolate(rows=new).to_numpy()).all()


def test_mu_of_a_part_is_that_of_the_whole(monkeypatch):
    """With very many observations mu comes from some rows; here it is compared with all."""
    rng = np.random.default_rng(0)
    x, t = rng.random(80), rng.random(40)
    truth = 3 * np.sin(4 * x)[:, None] * np.cos(3 * t)[None, :]
    values = truth + 0.5 * rng.standard_normal(truth.shape)
    values[rng.random(values.shape) < 0.4] = np.nan
    rows, cols = pd.DataFrame({"x": x}), pd.DataFrame({"t": t})
    want = kf.complete(values, rows, cols, method="kkmcex").model.mu_
    monkeypatch.setattr("kronfill.completion.problem.LARGE", 100)
    monkeypatch.setattr("kronfill.completion.problem.PART", 1000)
    got = kf.complete(values, rows, cols, method="kkmcex")
    assert 0.1 < got.model.mu_ / want < 10
    exact = kf.KKMCEX(
        got.model.row_kernel, got.model.col_kernel, mu=got.model.mu_, center="mean"
    ).fit(got.observations)
    assert_allclose(got.predicted.to_numpy(), exact.predict_matrix(), atol=1e-2)
    # A level far above the spread changes nothing: neither the mu nor how exact the solve is.
    high = kf.complete(values + 1e4, rows, cols, method="kkmcex")
    assert high.model.mu_ == pytest.approx(got.model.mu_)
    assert_allclose(high.predicted.to_numpy() - 1e4, exact.predict_matrix(), atol=2e-2)


def test_predictions_of_known_and_new_entries_together():
    done = kf.complete(table(), PLACES, DAYS, method="kkmcex", mu=0.1)
    rows = PLACES.iloc[[2, 5]].set_axis(["n1", "n2"])
    cols = DAYS.iloc[[1]].set_axis([pd.Timestamp("2030-01-01")])
    at = (np.array([13, 0, 12, 1]), np.array([2, 8, 8, 1]))
    (found,) = done.iter_predictions(at, rows=rows, cols=cols)
    by_row, by_col = done.extrapolate(rows=rows), done.extrapolate(cols=cols)
    both = done.extrapolate(rows=rows, cols=cols)
    want = [by_row.iloc[1, 2], by_col.iloc[0, 0], both.iloc[0, 0], done.filled.iloc[1, 1]]
    assert_allclose(found["value"], want)
    assert list(found["row"]) == ["n2", done.filled.index[0], "n1", done.filled.index[1]]
    std = done.model.extrapolate_std(rows=rows)[1, 2]
    assert_allclose(found["std"][0], np.sqrt(std**2 + done.model.noise_variance_))
    everything = pd.concat(done.iter_predictions(rows=rows, cols=cols, chunk=5))
    assert len(everything) == 2 * 9 + 12
    assert_allclose(everything["value"].to_numpy()[:8], by_row.iloc[0])


def test_a_completion_of_a_bare_model():
    X = np.argwhere(np.ones((4, 3)))
    est = kf.MC(rank=1, mu=0.1, center="mean").fit(X, np.arange(12.0))
    done = kf.Completion.from_model(est)
    assert_allclose(done.predict([(1, 2)]), est.predict([[1, 2]]))

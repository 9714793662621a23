"""Saved models: what comes back gives the same numbers, and what is not whole is refused."""

from __future__ import annotations

import datetime
import inspect
import json
import mmap
import os
import re
import stat
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

import kronfill as kf
from kronfill._atomic import written_whole
from kronfill.errors import KronfillError, ModelFileError
from kronfill.io import arrays, container
from kronfill.io.classes import RECORDS
from kronfill.kernels import Kernel, Parts
from kronfill.kernels.graphs.nodes import GraphSection, SparseGraphKernel
from kronfill.kernels.thin import thin

from ..model_files import parts_of, rebuilt

GOLDEN = Path(__file__).parents[1] / "files" / "model-v1.kf"
N, L = 12, 9
RNG = np.random.default_rng(5)
POINTS, NEW = RNG.standard_normal((N, 3)) + 2.0, RNG.standard_normal((2, 3)) + 2.0
COLS, NEW_COLS = RNG.standard_normal((L, 2)), RNG.standard_normal((3, 2))
COUNTS = RNG.poisson(1.0, (N, 6)).astype(float)
X = RNG.permutation(np.argwhere(RNG.random((N, L)) < 0.5))
Y = np.sin(POINTS[X[:, 0], 0]) + COLS[X[:, 1], 0] + 0.1 * RNG.standard_normal(len(X))
PAIRS = np.argwhere(np.ones((N, L)))


def frame(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": rng.normal(100.0, 20.0, n),
            "town": rng.choice(["Oslo", "Rome", "Lima"], n),
            "kind": pd.Categorical(rng.choice([1, 2], n)),
            "open": rng.random(n) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            7: rng.integers(0, 5, n),
        },
        index=[f"item{i}" for i in range(n)],
    )


def gram():
    return POINTS @ POINTS.T


def similar(kernel):
    """Two new items, described by their similarities."""
    return 0.5 * kernel.to_array()[:2], np.full(2, 5.0)


def kernel_cases():
    """Each kernel with what describes two new items."""
    kk = kf.kernels
    rbf, graph = kk.rbf(POINTS), nx.gnm_random_graph(N, 20, seed=3)
    wide = pd.DataFrame({"id": [f"a{i}" for i in range(N)], "x": np.arange(N) / 7})
    by_graph = {
        "diffusion": kk.diffusion(graph, t=2.0),
        "regularized_laplacian": kk.regularized_laplacian(graph, sigma=2.0, normalized=False),
        "random_walk": kk.random_walk(nx.to_scipy_sparse_array(graph), steps=3),
        "precomputed": kk.precomputed(gram(), labels=[f"p{i}" for i in range(N)]),
    }
    given_kernel = by_graph["precomputed"]
    return {
        "rbf": (rbf, NEW),
        "rbf_ard": (kk.rbf(POINTS, [0.5, 1.0, 2.0]), NEW),
        "rbf_sparse": (kk.rbf(sparse.csr_matrix(COUNTS), 2.0), COUNTS[:2] + 1),
        "rbf_frame": (kk.rbf(frame(N)), frame(2, 1)),
        "matern": (kk.matern(POINTS, nu=2.5), NEW),
        "linear": (kk.linear(POINTS), NEW),
        "linear_frame": (kk.linear(wide), wide.iloc[:2]),
        "polynomial": (kk.polynomial(POINTS, degree=2, coef0=0.5), NEW),
        "periodic": (kk.periodic(POINTS, [1.0, 2.0, 3.0], 0.8), NEW),
        "periodic_dates": (kk.periodic(frame(N)[["since"]], 365.25), frame(2, 1)),
        "tanimoto": (kk.tanimoto(COUNTS), COUNTS[3:5] * 2),
        **{name: (kernel, similar(kernel)) for name, kernel in by_graph.items()},
        "not_computed_yet": (kk.diffusion(graph), similar(rbf)),
        "identity": (kk.identity(N), 2),
        "constant": (kk.constant(range(N)), 2),
        "sum": (rbf + kk.linear(POINTS), NEW),
        "sum_parts": (rbf + given_kernel, Parts(NEW, similar(given_kernel))),
        "sum_identity": (rbf + 0.1 * kk.identity(N), NEW),
        "product": (rbf * kk.polynomial(POINTS), NEW),
        "scaled": (0.3 * kk.linear(POINTS), NEW),
        "normalized": (kk.polynomial(POINTS).normalized(), NEW),
        "thin": (thin(rbf, 6), NEW),
        "take": (kk.rbf(np.vstack([NEW, POINTS])).take(np.arange(2, N + 2)), NEW),
        "take_given": (given_kernel.take([*range(1, N), 0]), similar(rbf)),
        "array": (gram() + np.eye(N), similar(rbf)),
        "array_by_columns": (np.asfortranarray(gram() + np.eye(N)), similar(rbf)),
        "list": ((gram() + np.eye(N)).tolist(), similar(rbf)),
        "sparse_matrix": (sparse.eye_array(N, format="csc"), similar(rbf)),
        "similarity_frame": (
            pd.DataFrame(gram(), index=list("abcdefghijkl"), columns=list("abcdefghijkl")),
            similar(rbf),
        ),
        "nothing": (None, 2),
    }


CASES = kernel_cases()


def methods(row, col):
    return {
        "kkmcex": kf.KKMCEX(row, col, mu=0.1, center="mean"),
        "rrmcex": kf.RRMCEX(row, col, row_rank=4, col_rank=0.999, mu=0.1),
        "kmc": kf.KMC(row, col, rank=2, mu=0.5, solver=kf.ALS(sweeps=20, tol=1e-3), center="rows"),
    }


def saved(model, folder, **settings):
    """The model after a round trip through a file."""
    path = folder / "model.kf"
    model.save(path)
    return kf.load(path, **settings)


def numbers(est, new_rows=None, new_cols=None):
    """All that can be asked of an estimator, as arrays."""
    found = {
        "predict": est.predict(PAIRS),
        "matrix": est.predict_matrix(),
        "block": est.predict_matrix([3, 1], [0, 5]),
        "all": est.extrapolate(),
        "rows": est.extrapolate(rows=new_rows),
        "cols": est.extrapolate(cols=new_cols),
        "both": est.extrapolate(new_rows, new_cols),
        "mu": np.array(est.mu_),
    }
    if hasattr(est, "predict_std"):
        why, next_ones = est.explain(1, 2), est.suggest(3)
        found |= {
            "std": est.predict_std(PAIRS),
            "new_std": est.extrapolate_std(new_rows, new_cols),
            "signal": np.array(est.signal_variance_),
            "why": np.array([*why.contributions, why.prediction, why.rest]),
            "next": np.asarray(next_ones),
            "next_std": next_ones.std,
        }
    return found


def assert_same(one, other, **new):
    before, after = numbers(one, **new), numbers(other, **new)
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert_array_equal(after[name], array, err_msg=name)


# Kernels x methods.


@pytest.mark.filterwarnings("ignore::kronfill.errors.KronfillWarning")
@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc"])
@pytest.mark.parametrize("name", CASES)
def test_every_kernel_comes_back_with_the_same_numbers(name, method, tmp_path):
    kernel, new_rows = CASES[name]
    est = methods(kernel, kf.kernels.rbf(COLS))[method].fit(X, Y)
    back = saved(est, tmp_path)
    assert_same(est, back, new_rows=new_rows, new_cols=NEW_COLS)
    assert type(back) is type(est)
    assert back.solution_ == est.solution_
    assert back.observations_ == est.observations_
    if isinstance(kernel, Kernel):
        assert repr(back.row_kernel) == repr(kernel)
        assert back.row_kernel.labels == kernel.labels
    again = clone(back).fit(X, Y)
    assert_array_equal(again.predict_matrix(), est.predict_matrix())


def test_every_kernel_class_has_a_place():
    """A kernel that is added later cannot be forgotten."""
    known = {record.kind for record in RECORDS.values()}

    def below(kind):
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    found = {k for k in below(Kernel) if k.__module__.startswith("kronfill.kernels.")}
    concrete = {k for k in found if not (inspect.isabstract(k) or k.__name__.startswith("_"))}
    assert concrete <= known


def test_a_large_graph_and_a_section_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr("kronfill.kernels.graphs.nodes._DENSE_UP_TO", 5)
    ring = sparse.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(2 * N)))
    whole = kf.kernels.regularized_laplacian(ring, sigma=3.0)
    part = whole.take(np.arange(N))
    assert isinstance(whole, SparseGraphKernel)
    assert isinstance(part, GraphSection)
    est = kf.KKMCEX(part, kf.kernels.rbf(COLS), mu=0.1).fit(X, Y)
    assert_same(est, saved(est, tmp_path), new_rows=similar(part), new_cols=NEW_COLS)


# The other methods, and all that can be set.


@pytest.mark.parametrize(
    ("features", "new"),
    [
        (POINTS, NEW),
        (sparse.csr_array(COUNTS), COUNTS[:2]),
        (frame(N), frame(2, 1)),
        (frame(N)["size"], frame(2, 1)[["size"]]),
        (None, 2),
    ],
    ids=["array", "sparse", "frame", "series", "nothing"],
)
def test_imc(features, new, tmp_path):
    est = kf.IMC(features, COLS, rank=2, mu=0.5, solver=kf.ALS(sweeps=30, tol=1e-3)).fit(X, Y)
    back = saved(est, tmp_path)
    assert_same(est, back, new_rows=new, new_cols=NEW_COLS)
    assert_array_equal(back.row_coef_, est.row_coef_)
    assert_array_equal(clone(back).fit(X, Y).W_, est.W_)
    if isinstance(features, pd.DataFrame):
        pd.testing.assert_frame_equal(back.row_features, features)
    if isinstance(features, pd.Series):
        pd.testing.assert_series_equal(back.row_features, features)


@pytest.mark.parametrize("random_state", [3, None, np.random.default_rng(1)])
def test_mc_and_its_random_state(random_state, tmp_path):
    settings = kf.ALS(start="gaussian", sweeps=40, tol=1e-3, callback=print)
    est = kf.MC((N, L), rank=2, mu=0.5, solver=settings, warm_start=True, random_state=random_state)
    est.fit(X, Y)
    back = saved(est, tmp_path)
    assert_same(est, back, new_rows=2, new_cols=3)
    assert back.shape == (N, L)
    assert back.solver.callback is None  # it watches; it is no part of the model
    assert back.solver.sweeps == 40
    assert_array_equal(back.fit(X, Y).H_, est.fit(X, Y).H_)  # goes on from the factors it has
    if isinstance(random_state, np.random.Generator):
        assert back.random_state.random() == est.random_state.random()


def test_an_old_random_state(tmp_path):
    state = np.random.RandomState(3)
    state.standard_normal(5)
    est = kf.MC(rank=1, random_state=state).fit(X, Y)
    assert saved(est, tmp_path).random_state.rand() == est.random_state.rand()


SOLVERS = {
    "auto": kf.Auto(tol=1e-9),
    "cholesky": kf.Cholesky(),
    "primal": kf.PrimalDirect(),
    "pcg": kf.PCG(tol=1e-9, max_iter=500),
    "dual": kf.DualPCG(tol=1e-9),
}


@pytest.mark.parametrize("center", [None, "cols", "both"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_and_centre(solver, center, tmp_path):
    row = kf.kernels.rbf(POINTS) + 0.2 * kf.kernels.identity(N)
    est = kf.KKMCEX(row, kf.kernels.rbf(COLS), 0.1, center, SOLVERS[solver])
    est.fit(X, Y, sample_weight=np.linspace(0.0, 2.0, len(Y)))
    back = saved(est, tmp_path)
    assert_array_equal(back.predict_matrix(), est.predict_matrix())
    assert_array_equal(back.dual_coef_, est.dual_coef_)
    assert_array_equal(back.predict_std(PAIRS), est.predict_std(PAIRS))
    assert type(back.solver) is type(SOLVERS[solver])
    assert back.get_params().keys() == est.get_params().keys()


def test_the_solver_of_the_whole_grid(tmp_path):
    est = kf.KKMCEX(kf.kernels.rbf(POINTS), kf.kernels.rbf(COLS), solver=kf.GridEigen())
    est.fit(PAIRS, np.arange(len(PAIRS), dtype=float))
    back = saved(est, tmp_path)
    assert_array_equal(back.extrapolate(NEW, NEW_COLS), est.extrapolate(NEW, NEW_COLS))
    assert_array_equal(back.predict_std(PAIRS), est.predict_std(PAIRS))
    assert type(back.solver) is kf.GridEigen


def test_the_papers_solver_with_a_start(tmp_path):
    start = (RNG.random((N, 2)), RNG.random((L, 2)))
    solver = kf.RowWise(sweeps=2000, tol=1e-6, start=start)
    kernels = kf.kernels.rbf(POINTS), kf.kernels.rbf(COLS)
    est = kf.KMC(*kernels, rank=2, mu=0.5, solver=solver).fit(X, Y)
    back = saved(est, tmp_path)
    assert_same(est, back, new_rows=NEW, new_cols=NEW_COLS)
    assert_array_equal(back.solver.start[1], start[1])


def test_several_targets(tmp_path):
    est = kf.KKMCEX(kf.kernels.rbf(POINTS), kf.kernels.rbf(COLS), mu=0.1, center="mean")
    est.fit(X, np.column_stack([Y, Y**2, -Y]))
    back = saved(est, tmp_path)
    assert back.predict(PAIRS).shape == (N * L, 3)
    assert_array_equal(back.predict(PAIRS), est.predict(PAIRS))
    assert_array_equal(back.mean_, est.mean_)
    assert len(back.solution_) == 3


@pytest.mark.parametrize("method", [kf.KKMCEX, kf.RRMCEX])
def test_a_fit_to_a_table_outside_of_memory(method, tmp_path):
    path = tmp_path / "long.parquet"
    pd.DataFrame({"i": X[:, 0], "j": X[:, 1], "y": Y}).to_parquet(path)
    est = method(kf.kernels.rbf(POINTS), kf.kernels.rbf(COLS), mu=0.1)
    est.set_params(solver=kf.solvers.Streamed(work_dir=tmp_path / "work", tol=1e-8))
    est.fit(str(path))
    back = saved(est, tmp_path)
    assert_array_equal(back.predict_matrix(), est.predict_matrix())
    assert_array_equal(back.extrapolate(rows=NEW), est.extrapolate(rows=NEW))
    assert not hasattr(back, "observations_")
    assert back.solver.work_dir is None  # a folder of this machine


def test_names_of_the_columns_of_x(tmp_path):
    est = kf.KKMCEX(kf.kernels.rbf(POINTS)).fit(pd.DataFrame(X, columns=["place", "day"]), Y)
    assert saved(est, tmp_path).feature_names_in_.tolist() == ["place", "day"]


def test_one_kernel_on_both_axes_stays_one(tmp_path):
    kernel = kf.kernels.rbf(POINTS)
    est = kf.KKMCEX(kernel, kernel, mu=0.1).fit([[0, 1], [2, 3]], [1.0, 2.0])
    back = saved(est, tmp_path)
    assert back.row_kernel is back.col_kernel
    assert back._kernels[0] is back.row_kernel
    assert back._model.row_basis.kernel is back.row_kernel


def test_a_single_observation_and_a_single_row(tmp_path):
    est = kf.KKMCEX(None, kf.kernels.rbf(COLS)).fit([[0, 4]], [2.0])
    assert est.shape_ == (1, L)
    assert_array_equal(saved(est, tmp_path).predict_matrix(), est.predict_matrix())


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc"])
def test_the_certificate_of_a_loaded_model(method, tmp_path):
    est = methods(kf.kernels.rbf(POINTS), kf.kernels.rbf(COLS))[method].set_params(center=None)
    est.fit(X, Y)
    back = saved(est, tmp_path)
    before, after = (kf.bounds.certificate(one, value_range=(-5, 5)) for one in (est, back))
    assert after.value == before.value
    assert after.terms == before.terms


def test_the_estimator_that_was_saved_is_unchanged(tmp_path):
    est = kf.KKMCEX(gram() + np.eye(N), kf.kernels.rbf(COLS)).fit(X, Y)
    est.predict_std(PAIRS)
    before = dict(vars(est))
    saved(est, tmp_path)
    assert {name: id(value) for name, value in vars(est).items()} == {
        name: id(value) for name, value in before.items()
    }


# What cannot be saved.


def test_nothing_is_saved_before_a_fit(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        kf.KKMCEX().save(tmp_path / "model.kf")
    assert not list(tmp_path.iterdir())


def test_state_without_a_place_is_named(tmp_path):
    est = kf.MC(rank=1).fit(X, Y)
    est.note = "mine"
    with pytest.raises(ModelFileError, match="'note'"):
        est.save(tmp_path / "model.kf")

    class Own(kf.MC):
        pass

    with pytest.raises(ModelFileError, match="Own cannot be saved; these can: KKMCEX"):
        Own(rank=1).fit(X, Y).save(tmp_path / "model.kf")


def test_a_label_without_a_place_is_named(tmp_path):
    obs = kf.Observations([0], [0], [1.0], (1, 1), row_labels=[frozenset("ab")])
    with pytest.raises(ModelFileError, match=r"frozenset in MC.observations_.row_labels"):
        kf.MC(rank=1).fit(obs).save(tmp_path / "model.kf")
    assert not list(tmp_path.iterdir())


def test_too_much_text_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("kronfill.io.models.MAX_MANIFEST", 1000)
    with pytest.raises(ModelFileError, match="more than the 1000"):
        kf.MC(rank=1).fit(X, Y).save(tmp_path / "model.kf")


# Completed tables.

INDEXES = {
    "text": pd.Index([f"r{i}" for i in range(5)], name="place"),
    "objects": pd.Index([f"r{i}" for i in range(5)], dtype=object),
    "whole": pd.Index([3, 1, 4, 15, 9], dtype="int32"),
    "range": pd.RangeIndex(10, 15),
    "floats": pd.Index([0.5, 1.5, 2.0, 7.25, -1.0]),
    "days": pd.date_range("2026-03-01", periods=5, name="day"),
    "hours": pd.date_range("2026-03-29", periods=5, freq="h", tz="Europe/Oslo"),
    "irregular": pd.DatetimeIndex(["2026-01-01", "2026-01-02", "2026-02-01", "2027-01-01", "2030"]),
    "months": pd.period_range("2026-01", periods=5, freq="M"),
    "categories": pd.CategoricalIndex(list("edcba"), ordered=True),
    "levels": pd.MultiIndex.from_product([["a"], pd.date_range("2026", periods=5)], names=["k", 3]),
    "tuples": pd.Index([("a", i) for i in range(5)], tupleize_cols=False),
    "mixed": pd.Index([1, "a", 2.5, datetime.date(2026, 1, 1), ("x", 1)], tupleize_cols=False),
}


def table(index, columns=INDEXES["days"]):
    data = np.add.outer(np.arange(5.0), np.arange(5.0) ** 2)
    data[[0, 2, 3], [1, 2, 4]] = np.nan
    return pd.DataFrame(data, index=index, columns=columns)


@pytest.mark.filterwarnings("ignore::kronfill.errors.KronfillWarning")
@pytest.mark.parametrize("index", INDEXES)
def test_a_completion_keeps_its_index_and_columns(index, tmp_path):
    done = kf.complete(table(INDEXES[index]), mu=0.1)
    back = saved(done, tmp_path)
    for name in ("filled", "predicted", "status"):
        pd.testing.assert_frame_equal(getattr(back, name), getattr(done, name), check_exact=True)
    assert repr(back) == repr(done)
    labels = done.observations.row_labels, done.observations.col_labels
    assert back.observations.row_labels == labels[0]
    assert [type(one) for one in back.observations.row_labels] == [type(one) for one in labels[0]]
    pairs = list(zip(*labels, strict=True))
    assert_array_equal(back.predict(pairs), done.predict(pairs))


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "imc", "mc"])
def test_a_completion_with_features_and_new_rows(method, tmp_path):
    places = frame(8).set_index(pd.Index([f"r{i}" for i in range(8)]))
    side = {} if method == "mc" else {"rows": places}
    done = kf.complete(table(INDEXES["text"]), method=method, mu=0.1, rank=2, **side)
    back = saved(done, tmp_path)
    pd.testing.assert_frame_equal(back.filled, done.filled, check_exact=True)
    assert back.filled.shape == ((5 if method == "mc" else 8), 5)
    if method not in ("mc", "imc"):
        new = frame(2, 1)
        after, before = back.extrapolate(rows=new), done.extrapolate(rows=new)
        pd.testing.assert_frame_equal(after, before, check_exact=True)
    if method == "kkmcex":
        ranges = {"value_range": (0.0, 30.0)}
        assert back.certificate(**ranges).value == done.certificate(**ranges).value
    pd.testing.assert_frame_equal(back.best(2), done.best(2), check_exact=True)


def test_a_completion_of_a_list_has_no_index_of_its_own(tmp_path):
    done = kf.complete([[1.0, 2.0], [2.0, None]], method="mc", rank=1, mu=0.1)
    pd.testing.assert_frame_equal(saved(done, tmp_path).filled, done.filled)


# Labels and other values.

texts = st.text(max_size=8)
dates = st.datetimes(timezones=st.sampled_from([None, datetime.UTC]))
simple = st.one_of(
    texts,
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.binary(max_size=4),
    st.dates(),
    dates,
    st.timedeltas(),
    st.just(pd.Timestamp("2026-03-01T00:00:00.000000001")),
    st.just(np.datetime64("2026-03", "M")),
)
one_type = [texts, st.integers(), st.floats(allow_nan=False), st.dates(), st.datetimes()]
label_lists = st.one_of(
    *(st.lists(kind, min_size=1, max_size=40, unique=True) for kind in one_type),
    st.lists(st.tuples(texts, st.integers(), st.dates()), min_size=1, max_size=40, unique=True),
    st.lists(st.one_of(simple, st.tuples(simple, simple)), min_size=1, max_size=6, unique=True),
)


@settings(max_examples=60, deadline=None)
@given(labels=label_lists)
def test_labels_come_back_equal_and_of_the_same_type(labels, tmp_path_factory):
    obs = kf.Observations([0], [0], [1.0], (len(labels), 1), row_labels=labels)
    est = kf.MC(rank=1).fit(obs)
    back = saved(est, tmp_path_factory.mktemp("labels")).observations_
    assert back.row_labels == tuple(labels)
    assert [type(one) for one in back.row_labels] == [type(one) for one in labels]
    assert_array_equal(back.row_index(labels), np.arange(len(labels)))


def test_labels_that_are_used_twice_are_stored_and_read_once(tmp_path):
    names = [f"a rather long name {i}" for i in range(3000)]
    kernel = kf.kernels.identity(names)
    obs = kf.Observations([0], [0], [1.0], (3000, 1), row_labels=names)
    est = kf.KKMCEX(kernel + 0.5 * kernel).fit(obs)
    back = saved(est, tmp_path)
    assert (tmp_path / "model.kf").stat().st_size < 200_000
    assert back.row_kernel.labels is back.row_kernel.parts[0].labels
    assert back.row_kernel.labels == tuple(names)


# The file.


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small model, its file and its predictions."""
    row = kf.kernels.rbf(frame(N)) + 0.1 * kf.kernels.identity(N)
    obs = kf.Observations(*X.T, Y, (N, L), row_labels=[f"r{i}" for i in range(N)])
    est = kf.KKMCEX(row, kf.kernels.rbf(COLS), mu=0.1, center="mean").fit(obs)
    path = tmp_path_factory.mktemp("small") / "model.kf"
    est.save(path)
    return est, path.read_bytes(), est.predict_matrix()


def test_the_file_is_a_plain_zip_of_json_and_aligned_numbers(small, tmp_path):
    path = tmp_path / "model.kf"
    path.write_bytes(small[1])
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        manifest = json.loads(archive.read("manifest.json"))
        assert manifest["version"] == 1
        assert manifest["kronfill"] == kf.__version__
        for info in archive.infolist():
            assert info.compress_type == zipfile.ZIP_STORED
            name, extra = struct.unpack_from("<2H", small[1], info.header_offset + 26)
            assert (info.header_offset + 30 + name + extra) % 64 == 0
        line = manifest["arrays"][0]
        read = np.frombuffer(archive.read(line["entry"]), line["dtype"]).reshape(line["shape"])
    assert any(np.array_equal(read, array) for array in [small[0].row_kernel.parts[0]._centre])


def test_the_same_model_makes_the_same_bytes(small, tmp_path):
    small[0].save(tmp_path / "again.kf")
    assert (tmp_path / "again.kf").read_bytes() == small[1]
    kf.load(tmp_path / "again.kf").save(tmp_path / "third.kf")
    assert (tmp_path / "third.kf").read_bytes() == small[1]


def test_large_arrays_stay_in_the_file_and_small_ones_do_not(tmp_path):
    wide = kf.MC((200_000, 3), rank=1).fit([[0, 0], [199_999, 2]], [1.0, 2.0])
    back = saved(wide, tmp_path)

    def owner(array):
        while isinstance(array, np.ndarray):
            array = array.base
        return array

    assert back.W_.nbytes >= arrays.MAPPED_FROM
    assert isinstance(getattr(owner(back.W_), "obj", owner(back.W_)), mmap.mmap)
    assert not back.W_.flags.writeable
    assert owner(back.H_) is None
    before = back.predict([[199_999, 2]])
    wide.set_params(mu=5.0).fit([[0, 0]], [1.0]).save(tmp_path / "model.kf")  # over the mapped file
    assert_array_equal(back.predict([[199_999, 2]]), before)
    back.fit([[0, 0], [199_999, 2]], [1.0, 2.0])
    assert_array_equal(back.predict([[199_999, 2]]), before)


def test_indices_do_not_stay_in_the_file(tmp_path):
    """Compiled code trusts them, and a file can change after it was checked."""
    rows = np.arange(140_000)
    seen = kf.Observations(rows, 0 * rows, rows % 7 + 1.0, (len(rows), 1))
    assert seen.rows.nbytes >= arrays.MAPPED_FROM
    back = saved(kf.MC(rank=1, mu=0.1).fit(seen), tmp_path).observations_
    path = tmp_path / "model.kf"
    with path.open("r+b") as file:  # in place
        file.write(b"\xff" * path.stat().st_size)
    assert_array_equal(back.rows, seen.rows)
    assert_array_equal(back.cols, seen.cols)


def test_numbers_of_large_arrays_are_checked_unless_told_otherwise(tmp_path):
    path = tmp_path / "model.kf"
    kf.MC((200_000, 3), rank=1).fit([[0, 0], [199_999, 2]], [1.0, 2.0]).save(path)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda info: info.file_size)
    data[largest.header_offset + 100_000] ^= 1
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="checksum"):
        kf.load(path)
    assert kf.load(path, verify=False).shape_ == (200_000, 3)


def test_loading_needs_no_pandas_where_the_model_has_none(tmp_path):
    path = tmp_path / "model.kf"
    kf.KKMCEX(kf.kernels.rbf(POINTS)).fit(X, Y).save(path)
    code = f"""
import sys

class NoPandas:
    def find_spec(self, name, *_):
        if name == "pandas":
            raise ImportError(name)

sys.meta_path.insert(0, NoPandas())
import kronfill as kf

print(kf.load({str(path)!r}).predict([[0, 0]]).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1,)"


# Writing.


def test_a_failed_save_leaves_the_old_file_and_nothing_else(small, tmp_path, monkeypatch):
    path = tmp_path / "model.kf"
    path.write_bytes(b"what was there")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match="No space left on device"):
        small[0].save(path)
    monkeypatch.undo()
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ModelFileError, match="What was there before is unchanged"):
        small[0].save(path)
    assert path.read_bytes() == b"what was there"
    assert [one.name for one in tmp_path.iterdir()] == ["model.kf"]


def test_an_interrupted_write_leaves_nothing(tmp_path):
    path = tmp_path / "model.kf"
    path.write_bytes(b"what was there")

    def interrupted():
        with written_whole(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"what was there"
    assert [one.name for one in tmp_path.iterdir()] == ["model.kf"]


def test_a_link_is_followed_and_permissions_are_kept(small, tmp_path):
    target, link = tmp_path / "real.kf", tmp_path / "link.kf"
    target.write_bytes(b"")
    target.chmod(0o640)
    link.symlink_to(target)
    small[0].save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert_array_equal(kf.load(link).predict_matrix(), small[2])
    small[0].save(tmp_path / "new.kf")
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert (tmp_path / "new.kf").stat().st_mode == plain.stat().st_mode


@pytest.mark.parametrize("path", ["missing/model.kf", ".", 3])
def test_a_place_that_cannot_be_written_to(path, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelFileError):
        small[0].save(path)


# Files that are not what they should be. More of them in tests/slow/test_io_fuzz.py.


def test_what_is_no_model_is_called_so(tmp_path):
    path = tmp_path / "model.kf"
    with pytest.raises(ModelFileError, match="There is no file"):
        kf.load(path)
    with pytest.raises(ModelFileError, match="a folder or a device"):
        kf.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="a folder or a device"):
        kf.load(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="cannot be read"):
        kf.load("a name with \0 in it")
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match="empty"):
        kf.load(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match="not a kronfill model"):
        kf.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", "{}")
    with pytest.raises(ModelFileError, match="did not write"):
        kf.load(path)


def test_an_error_of_a_model_file_is_an_os_and_a_value_error():
    assert issubclass(ModelFileError, (KronfillError, OSError, ValueError))


def written(path, data):
    path.write_bytes(data)
    return path


def test_a_file_that_was_only_rebuilt_is_fine(small, tmp_path):
    path = written(tmp_path / "model.kf", rebuilt(small[1], lambda manifest, parts: None))
    assert_array_equal(kf.load(path).predict_matrix(), small[2])


def test_a_newer_version_says_who_wrote_it(small, tmp_path):
    def newer(manifest, _):
        manifest.update(version=2, kronfill="9.1")

    path = written(tmp_path / "model.kf", rebuilt(small[1], newer))
    with pytest.raises(ModelFileError, match=r"written by kronfill 9\.1 .* Upgrade"):
        kf.load(path)


def test_a_class_of_a_later_kronfill_is_not_called_damage_only(small, tmp_path):
    def later(manifest, _):
        manifest["kronfill"] = "9.1"
        manifest["objects"][0]["class"] = "Quantum"

    path = written(tmp_path / "model.kf", rebuilt(small[1], later))
    with pytest.raises(ModelFileError, match=r"'Quantum'.* written by kronfill 9\.1.* upgrade"):
        kf.load(path)


def first(manifest, name):
    return next(line for line in manifest["objects"] if line["class"] == name)["state"]


def set_state(name, key, value):
    def change(manifest, _):
        first(manifest, name)[key] = value

    return change


def update(**changes):
    return lambda manifest, _: manifest.update(changes)


def nested(manifest, _):
    first(manifest, "KKMCEX")["center"] = None
    text = json.dumps(manifest).encode()
    return text.replace(b'"center": null', b'"center": ' + b'{"list": [' * 20_000 + b"]}" * 20_000)


def laughs(manifest, _):
    """Sums of sums: ten to the power of forty kernels in forty lines."""
    one = {"class": "Identity", "state": {"n": 1, "labels": None}}
    lines = [one]
    for k in range(40):
        parts = {"tuple": [{"object": k}] * 10}
        lines.append({"class": "Product", "state": {"n": 1, "labels": None, "parts": parts}})
    manifest.update(objects=lines)


def chain(manifest, _):
    one = {"class": "Identity", "state": {"n": 1, "labels": None}}
    lines = [one]
    for k in range(5000):
        base = {"object": k}
        state = {"n": 1, "labels": None, "base": base, "scale": 1.0}
        lines.append({"class": "Scaled", "state": state})
    manifest.update(objects=lines)


def shape_of(number, shape):
    return lambda manifest, _: manifest["arrays"][number].update(shape=shape)


CRAFTED = {
    "no manifest": lambda manifest, parts: b"",
    "a list": lambda manifest, parts: b"[]",
    "not json": lambda manifest, parts: b"{",
    "nan": lambda manifest, parts: b'{"format": NaN}',
    "not text": lambda manifest, parts: b"\xff\xfe",
    "another format": update(format="zip"),
    "version 0": update(version=0),
    "version true": update(version=True),
    "version text": update(version="1"),
    "more keys": update(more=1),
    "no arrays": update(arrays=[]),
    "arrays are none": update(arrays=None),
    "no objects": update(objects=[]),
    "objects are text": update(objects="many"),
    "another root": update(model={"object": 0}),
    "a root of text": update(model="KKMCEX"),
    "a root to come": update(model={"object": 10**6}),
    "a root before": update(model={"object": -1}),
    "an unknown kind": update(model={"python": "print(1)"}),
    "deep": nested,
    "laughs": laughs,
    "chain": chain,
    "an unlisted entry": lambda manifest, parts: parts.update({"more.bin": b"x"}),
    "a missing entry": lambda manifest, parts: parts.pop("0.bin")[:0] or None,
    "a large shape": shape_of(0, [2**62, 2**62]),
    "a larger shape": shape_of(0, [10**30]),
    "a negative shape": shape_of(0, [-1]),
    "a shape of zeros": shape_of(0, [2**61, 0]),
    "a shape of text": shape_of(0, "12"),
    "many dimensions": shape_of(0, [1] * 70),
    "objects as type": lambda manifest, _: manifest["arrays"][0].update(dtype="|O"),
    "another order": lambda manifest, _: manifest["arrays"][0].update(order="K"),
    "a class of python": lambda manifest, _: manifest["objects"][0].update({"class": "os.system"}),
    "a class in a list": lambda manifest, _: manifest["objects"][0].update({"class": ["RBF"]}),
    "more state": set_state("RBF", "more", 1),
    "a negative scale": set_state("RBF", "length_scale", -1.0),
    "another size": set_state("Identity", "n", 5),
    "no size": set_state("Identity", "n", 10**400),
    "another weight": set_state("KKMCEX", "mu_", {"float": "nan"}),
    "another table size": set_state("KKMCEX", "shape_", {"tuple": [N, L + 1]}),
    "no labels": set_state("Observations", "row_labels", {"tuple": ["a"]}),
    "labels of lists": set_state("Observations", "row_labels", {"tuple": [{"list": []}] * N}),
    "other values": set_state("Observations", "values", {"array": 0}),
    "rows out of range": set_state("Observations", "shape", {"tuple": [1, L]}),
    "an unknown array": set_state("Observations", "values", {"array": 999}),
    "an array by name": set_state("Observations", "values", {"array": "0"}),
    "a date of nonsense": set_state("KKMCEX", "center", {"date": "yesterday"}),
    "an endless date": set_state("KKMCEX", "center", {"time64": [1, "<M8[x]"]}),
    "an evil zone": set_state(
        "KKMCEX", "center", {"datetime": ["2026-01-01T00:00:00", "../../etc/passwd", 0]}
    ),
    "an evil generator": set_state(
        "KKMCEX", "center", {"random": [False, {"dict": [["bit_generator", "Generator"]]}]}
    ),
    "half a generator": set_state(
        "KKMCEX", "center", {"random": [False, {"dict": [["bit_generator", "PCG64"]]}]}
    ),
    "an index of nothing": set_state("KKMCEX", "center", {"index": [{"numbers": 0}, None, "D"]}),
    "a bad frame": set_state("KKMCEX", "center", {"frame": [{"object": 0}, {"object": 0}, []]}),
    "bad levels": set_state(
        "KKMCEX", "center", {"levels": [[{"range": [0, 1, 1, None]}], [0], [1]]}
    ),
    "a wrong step": set_state("KKMCEX", "center", {"range": [0, 1, 0, None]}),
    "bad strings": set_state("KKMCEX", "center", {"tuple": {"texts": [0, 0]}}),
    "bad columns": set_state("KKMCEX", "center", {"tuple": {"columns": []}}),
    "bad numbers": set_state("KKMCEX", "center", {"float": "1e400"}),
    "a bad status": set_state("Solution", "status", {"status": "GOOD"}),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_manifests_with_valid_checksums_are_refused(name, small, tmp_path):
    path = written(tmp_path / "model.kf", rebuilt(small[1], CRAFTED[name]))
    with pytest.raises(ModelFileError) as caught:
        kf.load(path)
    assert str(path) in str(caught.value)


def test_a_sparse_matrix_with_indices_out_of_range_is_refused(small, tmp_path):
    def change(manifest, _):
        node = first(manifest, "SplitModel")["own"] if "SplitModel" in str(manifest) else None
        node = node or first(manifest, "Bilinear")["core"]
        node["csr"][3] = [N, 1]
        first(manifest, "Bilinear")

    path = written(tmp_path / "model.kf", rebuilt(small[1], change))
    with pytest.raises(ModelFileError, match="damaged or was changed"):
        kf.load(path)


def test_compressed_entries_are_refused(small, tmp_path):
    """Nothing unpacks to more than the file holds."""
    path = tmp_path / "model.kf"
    data = bytearray(small[1])
    start = data.rindex(b"PK\1\2")
    data[start + 10] = 8
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match="compressed, which is not accepted"):
        kf.load(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts_of(small[1]).items():
            archive.writestr(name, part)
    with pytest.raises(ModelFileError):
        kf.load(path)


def test_every_byte_counts(small, tmp_path):
    """A file with one bit changed, wherever it is, is refused."""
    rng, path = np.random.default_rng(0), tmp_path / "model.kf"
    data = small[1]
    places = rng.choice(len(data), size=200, replace=False).tolist()
    places += [0, len(data) - 1, data.index(b"PK\1\2") + 40, len(data) - 50]
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(ModelFileError):
            kf.load(path)


def test_a_file_that_was_cut_or_extended_is_refused(small, tmp_path):
    rng, path = np.random.default_rng(1), tmp_path / "model.kf"
    for length in [1, 3, 22, 97, 98, len(small[1]) - 1, *rng.integers(1, len(small[1]), 40)]:
        path.write_bytes(small[1][:length])
        with pytest.raises(ModelFileError):
            kf.load(path)
    for longer in (small[1] + b"\0", b"\0" + small[1], small[1] + small[1]):
        path.write_bytes(longer)
        with pytest.raises(ModelFileError):
            kf.load(path)


def test_two_entries_of_the_same_name_are_refused(tmp_path, monkeypatch):
    entry = container._Entry(b"a", 1, 0)
    layout = container._Layout.of([entry, entry])
    path = tmp_path / "twice.kf"
    path.write_bytes(b"".join(header + b"x" for header in layout.headers) + layout.tail)
    with pytest.raises(ModelFileError, match="two entries of the same name"):
        kf.load(path)


def test_too_many_entries_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "MAX_ENTRIES", 3)
    with pytest.raises(ModelFileError, match="at most 3"):
        kf.MC(rank=1).fit(X, Y).save(tmp_path / "model.kf")


# Version 1, as it was written: a change that no longer reads it needs a new version.


def golden_model():
    """The model in tests/files/model-v1.kf."""
    days = pd.date_range("2026-03-01", periods=3, name="day", unit="us")
    names = pd.Index(["a", "b", "c"], name="shop")
    sales = pd.DataFrame([[1.0, 2.0, None], [2.0, None, 4.0], [None] * 3], names, days)
    shops = pd.DataFrame({"size": [1.0, 2.0, 4.0], "town": ["x", "y", "x"]}, index=names)
    return kf.complete(sales, rows=shops, mu=0.25)


def test_the_first_version_of_the_format_can_be_read():
    assert GOLDEN.stat().st_size < 10_000
    back = kf.load(GOLDEN)
    now = golden_model()
    pd.testing.assert_frame_equal(back.filled, now.filled, rtol=1e-9)
    new = pd.DataFrame({"size": [3.0], "town": ["z"]})
    pd.testing.assert_frame_equal(back.extrapolate(rows=new), now.extrapolate(rows=new), rtol=1e-9)
    assert back.filled.columns.freqstr == "D"
    assert repr(back) == repr(now)


def test_the_page_about_files_lists_every_class_and_its_state():
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    told = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 2:
            told[cells[0].strip("`")] = set(re.findall(r"`(\w+)`", cells[1]))
    for name, record in RECORDS.items():
        assert told[name] == {n.lstrip("_") for n in (*record.state, *record.at_times)}, name

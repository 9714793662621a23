"""Saved models: what comes back gives the same numbers, and what has no place is refused."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

import kronfill as kf
from kronfill._stored import Stored
from kronfill.errors import ModelFileError
from kronfill.io.classes import RECORDS
from kronfill.kernels import Kernel, Parts
from kronfill.kernels.graphs.nodes import GraphSection, SparseGraphKernel
from kronfill.kernels.thin import thin

from .samples import (
    COLS,
    COUNTS,
    NEW,
    NEW_COLS,
    PAIRS,
    POINTS,
    RNG,
    L,
    N,
    X,
    Y,
    assert_same,
    frame,
    gram,
    methods,
    saved,
    similar,
)

GOLDEN = Path(__file__).parents[1] / "files" / "model-v1.kf"


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


def test_every_class_that_says_what_is_stored_has_a_place():
    known = {record.kind for record in RECORDS.values()}

    def below(kind):
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    found = {k for k in below(Stored) if k.__module__.startswith("kronfill.")}
    named = {k for k in found if k.stored and not inspect.isabstract(k)}
    helpers = {k for k in named if k.__name__.startswith("_") and k.__subclasses__()}
    assert {k.__name__ for k in named - helpers - known} <= {"Circulant"}
    for record in RECORDS.values():
        if issubclass(record.kind, Stored):
            assert record.state is record.kind.stored


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

    with pytest.raises(ModelFileError, match="Own cannot be saved; these can: AutoMC, "):
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


# Version 1, as it was written: a change that no longer reads it needs a new version.


def golden_model():
    """The model in tests/files/model-v1.kf."""
    days = pd.date_range("2026-03-01", periods=3, name="day", unit="us")
    names = pd.Index(["a", "b", "c"], name="shop")
    sales = pd.DataFrame([[1.0, 2.0, None], [2.0, None, 4.0], [None] * 3], names, days)
    shops = pd.DataFrame({"size": [1.0, 2.0, 4.0], "town": ["x", "y", "x"]}, index=names)
    return kf.complete(sales, method="kkmcex", rows=shops, mu=0.25)


def test_the_first_version_of_the_format_can_be_read():
    assert GOLDEN.stat().st_size < 10_000
    back = kf.load(GOLDEN)
    now = golden_model()
    pd.testing.assert_frame_equal(back.filled, now.filled, rtol=1e-9)
    new = pd.DataFrame({"size": [3.0], "town": ["z"]})
    pd.testing.assert_frame_equal(back.extrapolate(rows=new), now.extrapolate(rows=new), rtol=1e-9)
    assert back.filled.columns.freqstr == "D"
    *same, told = repr(back).splitlines()  # what side information was taken for is kept as it was
    assert same == repr(now).splitlines()[:-1]
    assert "of 3 items; columns: nothing known" in told


def test_the_page_about_files_lists_every_class_and_its_state():
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text(encoding="utf-8")
    told = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 2:
            told[cells[0].strip("`")] = set(re.findall(r"`(\w+)`", cells[1]))
    for name, record in RECORDS.items():
        assert told[name] == {n.lstrip("_") for n in (*record.state, *record.at_times)}, name

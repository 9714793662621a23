"""A fit to files is the fit to the same observations in memory."""

from __future__ import annotations

import json
import operator
import os
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kronfill as kf
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    EmptyDataError,
    IndexRangeError,
    LabelError,
    MemoryLimitError,
    NonFiniteError,
    ParameterError,
    StorageError,
)
from kronfill.streaming import streamed
from kronfill.streaming.storage.checkpoint import Products
from kronfill.streaming.storage.files import alone_in
from kronfill.streaming.storage.partitions import Partitions
from kronfill.streaming.storage.sorting import cuts
from kronfill.streaming.streamed import Streamed, StreamedSums, parse_memory, partition_size
from tests.disks import full_for


@dataclass(frozen=True)
class InBatches(Streamed):
    """So many observations in memory at a time."""

    batch: int = 7

    def _batch(self, shape, ranks, weighted):
        return self.batch


def kernels(rng, shape, scales=(0.5, 0.3)):
    return [
        kf.kernels.rbf(rng.random((n, 2)), length_scale=scale)
        for n, scale in zip(shape, scales, strict=True)
    ]


def entries(rng, shape, share=0.4, weighted=False):
    i, j = np.nonzero(rng.random(shape) < share)
    if not len(i):
        i, j = np.array([0]), np.array([0])
    frame = pd.DataFrame({"i": i, "j": j, "y": rng.standard_normal(len(i))})
    if weighted:
        frame["w"] = rng.integers(0, 4, len(i)) / 2
        frame.loc[0, "w"] = 1.0
    return frame


def write(frame, folder, files=1, group=10**6):
    folder.mkdir(parents=True, exist_ok=True)
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[rows].to_parquet(folder / f"{k:03d}.parquet", row_group_size=group, index=False)
    return folder


def in_memory(estimator, frame, weighted=False):
    pairs = frame[["i", "j"]].to_numpy()
    return estimator.fit(pairs, frame["y"], sample_weight=frame["w"] if weighted else None)


@given(
    shape=st.tuples(st.integers(1, 14), st.integers(1, 14)),
    seed=st.integers(0, 999),
    files=st.integers(1, 4),
    group=st.integers(1, 30),
    batch=st.integers(5, 60),
    weighted=st.booleans(),
    center=st.sampled_from([None, "mean"]),
    cut=st.booleans(),
)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_files_order_and_batches_give_the_fit_in_memory(
    tmp_path_factory, shape, seed, files, group, batch, weighted, center, cut
):
    rng = np.random.default_rng(seed)
    row, col = kernels(rng, shape)
    frame = entries(rng, shape, rng.uniform(0.05, 0.9), weighted)
    folder = write(
        frame.sample(frac=1.0, random_state=seed), tmp_path_factory.mktemp("t"), files, group
    )
    method = kf.RRMCEX if cut else kf.KKMCEX
    extra = {"row_rank": 3, "col_rank": 4} if cut else {}
    common = {"mu": 0.1, "center": center, **extra}
    here = in_memory(method(row, col, solver=kf.PCG(tol=1e-12), **common), frame, weighted)
    there = method(row, col, solver=InBatches(tol=1e-12, batch=batch), **common)
    there.fit(folder, sample_weight="w" if weighted else None)
    assert there.solution_.converged
    np.testing.assert_allclose(
        there.predict_matrix(), here.predict_matrix(), rtol=0, atol=1e-8 * np.abs(frame["y"]).max()
    )


def test_the_bits_depend_on_the_observations_alone(tmp_path):
    rng = np.random.default_rng(3)
    row, col = kernels(rng, (40, 30))
    frame = entries(rng, (40, 30))
    made = []
    for k, (files, group) in enumerate([(1, 999), (3, 17)]):
        shuffled = frame.sample(frac=1.0, random_state=k)
        folder = write(shuffled, tmp_path / str(k), files, group)
        est = kf.KKMCEX(row, col, mu=0.1, solver=InBatches(tol=1e-10, batch=50)).fit(folder)
        made.append(est.predict_matrix())
        assert "partitions of up to 50" in est.solution_.reason
    assert np.array_equal(*made)


@pytest.mark.parametrize("kind", ["file", "folder", "pattern", "data set", "named columns"])
def test_what_a_table_may_be(tmp_path, kind):
    rng = np.random.default_rng(0)
    row, col = kernels(rng, (20, 25))
    frame = entries(rng, (20, 25))
    columns = ["i", "j", "y"]
    if kind == "named columns":
        columns = ["y", "i", "j"]
    folder = write(frame[columns], tmp_path / "t", 1 if kind == "file" else 3)
    source = {
        "file": folder / "000.parquet",
        "folder": str(folder),
        "pattern": str(folder / "*.parquet"),
        "data set": ds.dataset(folder),
        "named columns": folder,
    }[kind]
    est = kf.KKMCEX(row, col, mu=0.1).fit(source, *["y"] * (kind == "named columns"))
    here = in_memory(kf.KKMCEX(row, col, mu=0.1, solver=kf.PCG()), frame)
    np.testing.assert_allclose(est.predict_matrix(), here.predict_matrix(), atol=1e-5)


@pytest.mark.parametrize("kind", ["text", "dictionary", "numbers"])
def test_labels_are_those_of_the_kernel(tmp_path, kind):
    rng = np.random.default_rng(1)
    frame = entries(rng, (12, 9))
    names = np.array([f"item {k}" for k in rng.permutation(12)])
    if kind == "numbers":
        names = 1000 + 7 * rng.permutation(12)
    features = pd.DataFrame({"x": rng.random(12)}, index=names)
    row, col = kf.kernels.rbf(features, length_scale=0.5), kernels(rng, (9, 9))[0]
    labelled = frame.assign(i=names[frame["i"]])
    if kind == "dictionary":
        labelled["i"] = labelled["i"].astype("category")
    folder = write(labelled, tmp_path / "t", 2)
    est = kf.KKMCEX(row, col, mu=0.1, solver=Streamed(tol=1e-12)).fit(folder)
    here = in_memory(kf.KKMCEX(row, col, mu=0.1, solver=kf.PCG(tol=1e-12)), frame)
    np.testing.assert_allclose(est.predict_matrix(), here.predict_matrix(), atol=1e-9)
    labelled["i"] = labelled["i"].astype(object)
    labelled.loc[3, "i"] = "unheard of" if kind != "numbers" else 5
    labelled["i"] = labelled["i"].astype(str if kind != "numbers" else int)
    write(labelled, tmp_path / "u", 1, 2)
    with pytest.raises(LabelError, match=r"000\.parquet, row group 1: .* line 1 is none of"):
        est.fit(tmp_path / "u")


def changed(frame, column, line, value):
    out = frame.copy()
    out[column] = out[column].astype(type(value))
    out.loc[line, column] = value
    return out


@pytest.mark.parametrize(
    ("column", "value", "error", "told"),
    [
        ("y", np.nan, NonFiniteError, r"values must be finite, got nan on line 2"),
        ("y", np.inf, NonFiniteError, r"got inf on line 2"),
        ("i", 20, IndexRangeError, r"row 20 on line 2 is outside .* 20 rows \(0 to 19\)"),
        ("j", -1, IndexRangeError, r"column -1 on line 2"),
        ("w", -1.0, DataError, r"weights must not be negative, got -1.0 on line 2"),
    ],
)
def test_bad_lines_are_named(tmp_path, column, value, error, told):
    rng = np.random.default_rng(0)
    frame = entries(rng, (20, 25), weighted=True)
    folder = write(changed(frame, column, 12, value), tmp_path, 1, 5)
    est = kf.KKMCEX(*kernels(rng, (20, 25)), mu=0.1)
    with pytest.raises(error, match=rf"000\.parquet, row group 2: .*{told}"):
        est.fit(folder, sample_weight="w")
    assert not hasattr(est, "_model")


def test_an_entry_may_occur_once(tmp_path):
    rng = np.random.default_rng(0)
    frame = entries(rng, (20, 25))
    twice = pd.concat([frame, frame.iloc[[7]]])
    folder = write(twice, tmp_path, 2, 10)
    est = kf.KKMCEX(*kernels(rng, (20, 25)), mu=0.1, solver=InBatches(batch=9))
    i, j = frame.loc[7, ["i", "j"]].astype(int)
    with pytest.raises(DuplicateEntryError) as caught:
        est.fit(folder)
    told = str(caught.value)
    assert f"row {i}, column {j}" in told
    assert "000.parquet, row group 0, line 7" in told
    assert "001.parquet" in told


def test_columns_that_change_between_files_are_refused_before_work(tmp_path):
    rng = np.random.default_rng(0)
    frame = entries(rng, (20, 25))
    folder = write(frame, tmp_path / "t", 2)
    est = kf.KKMCEX(*kernels(rng, (20, 25)), mu=0.1, solver=Streamed(work_dir=tmp_path / "w"))
    frame.rename(columns={"y": "z"}).to_parquet(folder / "002.parquet")
    with pytest.raises(DataError, match=r"002\.parquet: the columns are .*y: missing"):
        est.fit(folder)
    frame.assign(y=frame["y"].astype(str)).to_parquet(folder / "002.parquet")
    with pytest.raises(DataError, match=r"002\.parquet: the columns are .*string"):
        est.fit(folder)
    assert not (tmp_path / "w").exists()


def test_a_file_that_changes_while_it_is_read(tmp_path):
    """The columns of the file that is open count, not those that were promised."""
    rng = np.random.default_rng(0)
    frame = entries(rng, (20, 25))
    folder = write(frame, tmp_path / "t", 2)
    dataset = ds.dataset(folder)
    work = tmp_path / "w"
    est = kf.KKMCEX(*kernels(rng, (20, 25)), mu=0.1)

    @dataclass(frozen=True)
    class Meddling(InBatches):
        def notice(self, what, done, total):
            if what == "row groups read" and done == 0:
                other = frame.iloc[:5].rename(columns={"y": "z"})
                other.to_parquet(folder / "001.parquet", index=False)

    with pytest.raises(DataError, match=r"001\.parquet, row group 0: there is no column 'y'"):
        est.set_params(solver=Meddling(batch=50, work_dir=work)).fit(dataset)
    (journal,) = work.rglob("journal.json")
    assert json.loads(journal.read_text())["counts"]


def test_unreadable_files(tmp_path):
    rng = np.random.default_rng(0)
    frame = entries(rng, (20, 25))
    est = kf.KKMCEX(*kernels(rng, (20, 25)), mu=0.1)
    with pytest.raises(StorageError, match="there is no such file"):
        est.fit(tmp_path / "nothing.parquet")
    with pytest.raises(StorageError, match="there is no such file"):
        est.fit(str(tmp_path / "*.parquet"))
    folder = write(frame, tmp_path / "t", 2)
    whole = (folder / "001.parquet").read_bytes()
    (folder / "001.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StorageError, match=r"001\.parquet"):
        est.fit(folder)
    table = pa.table({"i": pa.array([], pa.int64()), "j": pa.array([], pa.int64()), "y": []})
    pq.write_table(table.cast(pa.schema([("i", "i8"), ("j", "i8"), ("y", "f8")])), tmp_path / "e")
    with pytest.raises(EmptyDataError, match="no line with an observation"):
        est.fit(tmp_path / "e")


def prepared(tmp_path, **settings):
    rng = np.random.default_rng(0)
    frame = entries(rng, (20, 25))
    folder = write(frame, tmp_path / "t", 2)
    solver = InBatches(batch=50, work_dir=tmp_path / "w", tol=1e-11, **settings)
    return kf.KKMCEX(*kernels(rng, (20, 25)), mu=0.1, solver=solver), folder


def test_partitions_serve_later_fits(tmp_path):
    est, folder = prepared(tmp_path)
    first = est.fit(folder).predict_matrix()
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "w").rglob("*.inner")}
    assert len(made) > 2
    assert np.array_equal(est.fit(folder).predict_matrix(), first)
    est.set_params(mu=1.0).fit(folder)
    assert made == {path: path.stat().st_mtime_ns for path in (tmp_path / "w").rglob("*.inner")}


@pytest.mark.parametrize("harm", ["changed", "cut", "gone"])
def test_a_damaged_partition_is_found(tmp_path, harm):
    est, folder = prepared(tmp_path)
    est.fit(folder)
    path = tmp_path / "w" / "by-columns" / "00002.inner"
    path = path if path.exists() else tmp_path / "w" / "by-rows" / "00002.inner"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(data if harm == "changed" else data[:8])
    told = {"changed": "damaged", "cut": "damaged", "gone": "cannot be read"}[harm]
    with pytest.raises(StorageError, match=rf"00002\.inner .*{told}"):
        est.fit(folder)


def test_data_that_changed_is_not_taken_for_the_old(tmp_path):
    est, folder = prepared(tmp_path)
    est.fit(folder)
    os.utime(folder / "000.parquet", ns=(1, 1))
    with pytest.raises(StorageError, match="the partitions of other data"):
        est.fit(folder)


@pytest.mark.parametrize(
    "name", ["runs/00001.values", "00002.inner", "manifest.json", "journal.json"]
)
def test_a_full_disk_loses_nothing(tmp_path, name):
    est, folder = prepared(tmp_path)
    full = pytest.raises(StorageError, match=r"disk is full.*What was finished before is kept")
    with full_for(name), full:
        est.fit(folder)
    assert not list((tmp_path / "w").rglob("*.part"))
    again = est.fit(folder).predict_matrix()
    clean = est.set_params(solver=InBatches(batch=50, tol=1e-11)).fit(folder).predict_matrix()
    assert np.array_equal(again, clean)


class Stop(Exception):
    """Ends a fit from its callback."""


def stop_after(count):
    def callback(iteration, residual):
        if iteration == count:
            raise Stop

    return callback


@pytest.mark.parametrize("count", [1, 4])
def test_a_fit_that_was_stopped_goes_on(tmp_path, count):
    est, folder = prepared(tmp_path, checkpoint=0.0, callback=stop_after(count))
    with pytest.raises(Stop):
        est.fit(folder)
    kept = list((tmp_path / "w" / "products").iterdir())
    assert len([path for path in kept if path.name != "partial"]) == count + 1
    heard = []
    ready = InBatches(
        batch=50, work_dir=tmp_path / "w", tol=1e-11, callback=lambda k, r: heard.append(k)
    )
    resumed = est.set_params(solver=ready).fit(folder).predict_matrix()
    clean = est.set_params(solver=InBatches(batch=50, tol=1e-11)).fit(folder).predict_matrix()
    assert np.array_equal(resumed, clean)
    assert not (tmp_path / "w" / "products").exists()


def test_a_full_disk_during_the_iterations(tmp_path):
    est, folder = prepared(tmp_path, checkpoint=0.0, callback=stop_after(3))
    with pytest.raises(Stop):
        est.fit(folder)
    products = tmp_path / "w" / "products"
    before = {path.name: path.read_bytes() for path in products.iterdir()}
    est.set_params(solver=InBatches(batch=50, work_dir=tmp_path / "w", tol=1e-11, checkpoint=0.0))
    with full_for("partial"), pytest.raises(StorageError, match="disk is full"):
        est.fit(folder)
    after = {path.name: path.read_bytes() for path in products.iterdir()}
    assert before.items() <= after.items()
    resumed = est.fit(folder).predict_matrix()
    clean = est.set_params(solver=InBatches(batch=50, tol=1e-11)).fit(folder).predict_matrix()
    assert np.array_equal(resumed, clean)


def test_memory_is_refused_beforehand(tmp_path):
    est, folder = prepared(tmp_path)
    est.set_params(solver=Streamed(memory="1MB", work_dir=tmp_path / "w"))
    with pytest.raises(
        MemoryLimitError, match=r"needs .*B, of which this process holds .*; memory is 1 MB"
    ):
        est.fit(folder)
    assert not (tmp_path / "w").exists()


def machine(monkeypatch, held, free, threads):
    """A process that holds so much on a machine with so much free; only these are asked for."""
    monkeypatch.setattr(streamed, "resident_memory", lambda: held)
    monkeypatch.setattr(streamed, "available_memory", lambda: free)
    monkeypatch.setattr(streamed.numba, "get_num_threads", lambda: threads)


MACHINES = ((10**6, 10**9, 1), (8 * 10**6, 10**10, 2), (3 * 10**6, None, 1))


@pytest.mark.parametrize("memory", [None, "30MB", "2GB"])
@pytest.mark.parametrize("ranks", [(5, 9), (64, 65)])
def test_partitions_follow_from_the_problem_and_the_limit_alone(monkeypatch, memory, ranks):
    found = set()
    for one in MACHINES:
        machine(monkeypatch, *one)
        found.add(Streamed(memory=memory)._batch((3000, 40_000), ranks, False))
    assert len(found) == 1


def test_less_memory_means_smaller_partitions():
    sizes = [
        partition_size(limit, (10**5, 10**5), (64, 65))
        for limit in (10**8, 10**9, 2 * 10**9, 10**10, None)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] == 10**8 // 32 // 52
    assert sizes[-2:] == [1 << 24] * 2
    weighted = partition_size(10**9, (10**5, 10**5), (64, 65), weighted=True)
    assert weighted == pytest.approx(sizes[1] * 52 / 76, rel=1e-3)


def test_two_runs_give_the_same_model_files(tmp_path, monkeypatch):
    """Whatever the process holds meanwhile: the same partitions, bits and files."""
    rng = np.random.default_rng(0)
    folder = write(entries(rng, (300, 250), 0.6), tmp_path / "t", 2, 5000)
    row, col = kernels(rng, (300, 250), (2.0, 1.5))
    made = []
    for k, one in enumerate(MACHINES):
        machine(monkeypatch, *one)
        est = kf.KKMCEX(row, col, mu=0.1, solver=Streamed(memory="30MB")).fit(folder)
        assert "in 3 partitions" in est.solution_.reason
        est.set_params(solver="auto").save(tmp_path / f"{k}.kf")
        made.append((tmp_path / f"{k}.kf").read_bytes())
    assert made[0] == made[1] == made[2]


def test_a_process_that_holds_too_much_is_told(tmp_path, monkeypatch):
    est, folder = prepared(tmp_path)
    machine(monkeypatch, 15 * 10**6, 10**9, 2)
    est.set_params(solver=Streamed(memory="30MB"))
    with pytest.raises(MemoryLimitError, match=r"holds 15 MB already; memory is 30 MB"):
        est.fit(folder)
    machine(monkeypatch, 15 * 10**6, 10**6, 2)
    est.set_params(solver=Streamed())
    with pytest.raises(MemoryLimitError, match=r"Ask for less \(memory=\)"):
        est.fit(folder)


def test_work_goes_on_with_the_memory_it_was_begun_with(tmp_path):
    est, folder = prepared(tmp_path)
    est.fit(folder)
    est.set_params(solver=InBatches(batch=20, work_dir=tmp_path / "w"))
    with pytest.raises(MemoryLimitError, match="begun with batches of 50 observations"):
        est.fit(folder)


def test_a_sort_goes_on_with_less_memory(tmp_path):
    """Runs of one size and of another are merged into the partitions that memory allows."""
    est, folder = prepared(tmp_path)
    clean = est.fit(folder).predict_matrix()

    @dataclass(frozen=True)
    class Stopped(InBatches):
        def notice(self, what, done, total):
            if what == "row groups read" and done == 1:
                raise KeyboardInterrupt

    work = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        est.set_params(solver=Stopped(batch=50, work_dir=work)).fit(folder)
    (journal,) = work.glob("by-*/journal.json")
    assert json.loads(journal.read_text())["counts"][0] == 50
    est.set_params(solver=InBatches(batch=20, work_dir=work, tol=1e-11)).fit(folder)
    assert "partitions of up to 20" in est.solution_.reason
    np.testing.assert_allclose(est.predict_matrix(), clean, rtol=0, atol=1e-9)


def test_a_little_less_memory_changes_nothing(tmp_path):
    est, folder = prepared(tmp_path)
    clean = est.fit(folder).predict_matrix()
    est.set_params(solver=InBatches(batch=45, work_dir=tmp_path / "w", tol=1e-11)).fit(folder)
    assert "partitions of up to 50" in est.solution_.reason
    assert np.array_equal(est.predict_matrix(), clean)


def test_a_folder_has_one_user(tmp_path):
    est, folder = prepared(tmp_path)
    with (
        alone_in(tmp_path / "w"),
        pytest.raises(StorageError, match="Another process is working in"),
    ):
        est.fit(folder)
    est.fit(folder)


def test_a_folder_that_cannot_be_made(tmp_path):
    est, folder = prepared(tmp_path)
    (tmp_path / "w").write_text("a file")
    with pytest.raises(StorageError, match="choose another work_dir"):
        est.fit(folder)


def test_sizes_in_words():
    assert parse_memory("2GB") == 2 * 10**9
    assert parse_memory(" 1.5 GiB ") == 3 * 2**29
    assert parse_memory(12345) == 12345
    for wrong in ("much", "-1GB", 0, None, True, "2 XB"):
        with pytest.raises(ParameterError, match="memory must be"):
            parse_memory(wrong)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"mu": "best"}, "mu must be a positive finite number"),
        ({"center": "rows"}, 'center must be None or "mean"'),
        ({"solver": kf.Cholesky()}, "is fitted by kf.Streamed"),
        ({"row_kernel": None}, "needs a kernel for the rows"),
    ],
)
def test_what_a_long_table_cannot_have(tmp_path, parameters, told):
    est, folder = prepared(tmp_path)
    with pytest.raises(ParameterError, match=told):
        est.set_params(**parameters).fit(folder)


def test_an_identity_part_is_refused(tmp_path):
    est, folder = prepared(tmp_path)
    with pytest.raises(ParameterError, match="col_kernel has an identity part"):
        est.set_params(col_kernel=est.col_kernel + 0.1 * kf.kernels.identity(25)).fit(folder)


def test_observations_in_memory_have_other_solvers():
    k = kf.kernels.rbf(np.linspace(0, 1, 4), length_scale=1.0)
    with pytest.raises(ParameterError, match="Streamed is for observations outside of memory"):
        kf.KKMCEX(k, k, solver=Streamed()).fit([[0, 0]], [1.0])


def test_what_asks_for_observations_says_that_there_are_none(tmp_path):
    est, folder = prepared(tmp_path)
    est.fit(folder)
    with pytest.raises(AttributeError, match="fitted to a table that is not in memory"):
        est.predict_std([[0, 0]])
    assert not hasattr(est, "dual_coef_")
    with pytest.raises(AttributeError, match=r"has no attribute 'no'$"):
        operator.attrgetter("no")(est)


def test_ranges_hold_what_they_may():
    indptr = np.array([0, 0, 0, 5, 6, 9, 9])
    assert cuts(indptr, 3) == [0, 2, 3, 4, 6]
    assert cuts(indptr, 100) == [0, 6]


def test_what_is_kept_tells_the_precisions_apart(tmp_path):
    est, folder = prepared(tmp_path)
    est.fit(folder)
    (made,) = (tmp_path / "w").glob("by-*")
    parts = Partitions.open(made)
    rng = np.random.default_rng(0)
    sizes = parts.shape[parts.by], parts.shape[1 - parts.by]
    factors = rng.standard_normal((sizes[0], 5)), rng.standard_normal((sizes[1], 3))
    x = rng.standard_normal((5, 3))
    found = []
    for _ in range(2):
        kept = Products(tmp_path / "kept", 0.0)
        sums = StreamedSums(parts, kept)
        sums.place(*factors)
        found.append([sums.normal(x, single) for single in (False, True)])
        assert kept.found == (0 if len(found) == 1 else 2)
    (double, single), again = found
    assert not np.array_equal(double, single)
    np.testing.assert_allclose(single, double, rtol=0, atol=1e-5 * np.abs(double).max())
    assert np.array_equal(again, [double, single])

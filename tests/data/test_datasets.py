"""The data sets are what they are said to be."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kronfill.data import Observations, datasets
from kronfill.errors import DataError, ParameterError


@pytest.fixture(scope="module")
def bixi():
    return datasets.load_bixi()


def test_bixi_figures(bixi):
    obs = Observations.from_matrix(bixi.trips)
    assert obs.shape == (587, 196)
    assert obs.m == 100_112
    assert (obs.values.min(), obs.values.max(), obs.values.sum()) == (1.0, 101.0, 3_801_211.0)
    emptied = pd.to_datetime(["2019-05-26", "2019-08-25", "2019-09-27"])
    assert obs.cold_cols.tolist() == obs.col_index(emptied).tolist()
    assert obs.cold_rows.size == 0


def test_bixi_tables_fit_together(bixi):
    assert bixi.stations.index.equals(bixi.trips.index)
    assert bixi.days.index.equals(bixi.trips.columns)
    assert bixi.days.index.equals(pd.date_range("2019-04-15", periods=196, name="day"))
    assert bixi.stations.shape == (587, 15)
    assert bixi.days.shape == (196, 5)
    assert not bixi.stations.isna().any(axis=None)
    assert not bixi.days.isna().any(axis=None)
    first = bixi.stations.loc["10002 - Métro Charlevoix (Centre / Charlevoix)"]
    assert (first["latitude"], first["longitude"]) == (45.47822787309145, -73.56965124607086)
    assert bixi.days.loc["2019-04-15"].tolist() == [87.9, 5.3, 4.1, 1.7, 0.0]
    assert "pyBKTR" in bixi.attribution
    assert "Permission is hereby granted" in bixi.licence


def test_bixi_is_a_dataset_like_the_others(bixi):
    assert isinstance(bixi, datasets.Dataset)
    assert bixi.trips is bixi.table
    assert bixi.stations is bixi.rows
    assert bixi.days is bixi.cols
    assert (bixi.published, bixi.test_masks) == ((), ())
    assert "2109.00046" in bixi.citation


def test_a_damaged_file_is_refused(monkeypatch):
    monkeypatch.setattr("kronfill.data.datasets.bixi.packaged", lambda name: b"something else")
    with pytest.raises(DataError, match=r"bixi2019.npz is not the file expected: its SHA-256 is"):
        datasets.load_bixi()


LOADERS = {"seattle": datasets.load_seattle, "drug_response": datasets.load_drug_response}
FIRST = {"seattle": "sedata_amonth_matrix.mat", "drug_response": "Labels.txt"}


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No variable, and a user without data."""
    monkeypatch.delenv("KRONFILL_DATA", raising=False)
    monkeypatch.setattr("kronfill.data.datasets.store._of_the_user", lambda: tmp_path / "user")
    return tmp_path


@pytest.mark.parametrize("name", LOADERS)
def test_absent_files_are_named_with_where_and_whence(name, nowhere, monkeypatch):
    monkeypatch.setenv("KRONFILL_DATA", str(nowhere / "variable"))
    with pytest.raises(DataError) as caught:
        LOADERS[name]()
    text = str(caught.value)
    assert text.startswith(f"{name}: missing {FIRST[name]} and ")
    assert f"{nowhere / 'variable' / name} and {nowhere / 'user' / name}" in text
    assert "https://github.com/" in text
    assert "MIT licence" in text
    assert f"DIRECTORY/{name}" in text
    assert "KRONFILL_DATA=DIRECTORY" in text


@pytest.mark.parametrize("name", LOADERS)
def test_the_argument_is_looked_at_alone(name, nowhere, monkeypatch):
    monkeypatch.setenv("KRONFILL_DATA", str(nowhere / "variable"))
    with pytest.raises(DataError) as caught:
        LOADERS[name](nowhere / "argument")
    assert f"looked in {nowhere / 'argument' / name}. " in str(caught.value)


def test_the_first_directory_with_the_folder_is_taken(nowhere, monkeypatch):
    monkeypatch.setenv("KRONFILL_DATA", str(nowhere / "variable"))
    assert datasets.data_directories() == (nowhere / "variable", nowhere / "user")
    assert datasets.data_directories("~/x")[0].is_absolute()
    (nowhere / "user" / "seattle").mkdir(parents=True)
    with pytest.raises(DataError) as caught:
        datasets.load_seattle()
    assert f"looked in {nowhere / 'user' / 'seattle'}. " in str(caught.value)


def test_one_missing_file_and_a_wrong_one(nowhere):
    folder = nowhere / "seattle"
    folder.mkdir()
    for name in ("sedata_amonth_matrix.mat", "LICENSE"):
        (folder / name).write_bytes(b"not the data")
    with pytest.raises(DataError, match=r"^seattle: missing seattle_adj.mat; looked in"):
        datasets.load_seattle(nowhere)
    (folder / "seattle_adj.mat").write_bytes(b"")
    with pytest.raises(DataError, match=r"sedata_amonth_matrix.mat is not the file expected: its"):
        datasets.load_seattle(nowhere)


def test_data_home_must_be_a_path():
    with pytest.raises(ParameterError, match="data_home must be a path or None, got 3"):
        datasets.load_seattle(3)


def loaded(name):
    """The data set, or a skip that says that it is not there."""
    places = datasets.data_directories()
    if not any((place / name).is_dir() for place in places):
        pytest.skip(f"no folder {name} in {', '.join(map(str, places))} (set KRONFILL_DATA)")
    return LOADERS[name]()


def test_seattle_is_what_it_is_said_to_be():
    data = loaded("seattle")
    values = data.table.to_numpy()
    assert values.shape == (323, 720)
    assert (values.min().round(3), values.max().round(3)) == (2.244, 75.311)
    links = data.rows.to_numpy()
    assert np.array_equal(links, links.T)
    assert (links.sum(), np.diag(links).sum()) == (678, 0)
    assert data.rows.index.equals(data.table.index)
    assert data.cols.index.equals(data.table.columns)
    assert data.cols.loc[25].tolist() == [1, 1, 25]
    np.random.seed(6)  # noqa: NPY002 - as the authors' script does
    seen = np.round(np.random.rand(323, 720) + 0.5 - 0.5) == 1  # noqa: NPY002
    (hidden,) = data.test_masks
    assert np.array_equal(hidden, ~seen)
    assert (seen.sum(), hidden.sum()) == (116_093, 116_467)
    (published,) = data.published
    assert (published.rmse, published.mae, published.seconds) == (3.830, 2.216, 6365.0)
    assert "Permission is hereby granted" in data.licence


def test_drug_response_is_what_it_is_said_to_be():
    data = loaded("drug_response")
    assert data.table.shape == (124, 124)
    assert data.table.loc["176870", "ES3"] == 5.457453
    assert not data.table.isna().any(axis=None)
    assert (len(data.rows), len(data.cols)) == (10, 12)
    for kernels, labels in ((data.rows, data.table.index), (data.cols, data.table.columns)):
        assert labels.is_unique
        for kernel in kernels.values():
            assert kernel.index.equals(labels)
            assert kernel.columns.equals(labels)
            np.testing.assert_allclose(np.diag(kernel), 1.0, atol=1e-12)
            assert np.linalg.eigvalsh(kernel).min() > -1e-12
    assert np.array_equal(np.sum(data.test_masks, axis=0), np.ones((124, 124)))
    assert data.test_masks[1][0, :2].tolist() == [True, True]  # the first two numbers of the file
    assert "Permission is hereby granted" in data.licence


@pytest.mark.parametrize(("N", "L"), [(1, 1), (2, 3), (60, None), (61, 40)])
@pytest.mark.parametrize("exponent", [0.5, 1.35, 3.0])
def test_kernels_are_the_definition(N, L, exponent):
    made = datasets.make_paper_matrix(N, L=L, m=1, exponent=exponent, random_state=0)
    for kernel, size in ((made.row_kernel, N), (made.col_kernel, L or N)):
        k = np.arange(size)
        R = np.exp(-2j * np.pi * np.outer(k, k) / size) / np.sqrt(size)
        K = np.abs(R @ np.diag((k + 1.0) ** -exponent) @ R.conj().T)
        np.testing.assert_allclose(kernel, K / K[0, 0], atol=1e-12)
        assert np.array_equal(kernel, kernel.T)
        assert np.linalg.eigvalsh(kernel).min() > -1e-12 * size


def test_truth_has_the_rank_and_power_asked_for():
    made = datasets.make_paper_matrix(50, L=40, rank=3, power=2.0, m=10, random_state=1)
    assert np.linalg.matrix_rank(made.truth) == 3
    assert np.mean(made.truth**2) == pytest.approx(2.0)
    assert np.array_equal(made.truth, made.data)  # no noise


def test_snr_is_reached_and_leaves_the_signal_alone():
    clean = datasets.make_paper_matrix(200, random_state=5)
    noisy = datasets.make_paper_matrix(200, snr=4.0, random_state=5)
    noise = noisy.data - noisy.truth
    # 40,000 squares: the ratio has a relative standard deviation of sqrt(2 / 40,000) = 0.7 %.
    assert np.sum(noisy.truth**2) / np.sum(noise**2) == pytest.approx(4.0, rel=0.03)
    assert np.array_equal(clean.truth, noisy.truth)
    assert np.array_equal(clean.observations.X, noisy.observations.X)


@pytest.mark.parametrize("seed", [3, lambda: np.random.default_rng(3)])
def test_same_seed_same_result(seed):
    def make(seed):
        state = seed() if callable(seed) else seed
        return datasets.make_paper_matrix(30, snr=2.0, m=100, random_state=state)

    one, two = make(seed), make(seed)
    assert np.array_equal(one.data, two.data)
    assert one.observations == two.observations == make(3).observations
    assert not np.array_equal(one.data, make(4).data)


def test_observations_are_distinct_entries_of_the_data():
    made = datasets.make_paper_matrix(7, L=5, snr=1.0, m=35, random_state=0)
    assert made.observations.is_complete
    assert np.array_equal(made.observations.to_dense(), made.data)
    for array in (made.row_kernel, made.col_kernel, made.truth, made.data):
        assert not array.flags.writeable


BAD = [
    ({"N": 0}, "N must be at least 1, got 0"),
    ({"N": 2.5}, "N must be an integer, got 2.5"),
    ({"L": -1}, "L must be at least 1"),
    ({"rank": 0}, "rank must be at least 1"),
    ({"m": 101}, r"m must be at most N \* L = 100, got 101"),
    ({"snr": 0}, "snr must be a positive number, got 0"),
    ({"snr": np.nan}, "snr must be a positive number, got nan"),
    ({"power": np.inf}, "power must be a positive finite number, got inf"),
    ({"exponent": "x"}, "exponent must be a positive finite number, got 'x'"),
    ({"random_state": -1}, "random_state must be"),
]


@pytest.mark.parametrize(("change", "text"), BAD)
def test_parameters_out_of_range(change, text):
    with pytest.raises(ParameterError, match=text):
        datasets.make_paper_matrix(**({"N": 10, "m": 5} | change))

"""The benchmark hides what it says it hides, and compares only what may be compared."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

from kronfill.bench import run as bench
from kronfill.bench.problems import LOADERS
from kronfill.data import datasets
from kronfill.errors import DataError, ParameterError
from kronfill.selection import RowKFold

CHEAP = ["effects", "mc"]


def needs(name):
    places = datasets.data_directories()
    if not any((place / name).is_dir() for place in places):
        pytest.skip(f"no folder {name} in {', '.join(map(str, places))} (set KRONFILL_DATA)")


def shown(found):
    """What is printed on a terminal of 120 columns."""
    out = io.StringIO()
    bench.show(found, Console(width=120, file=out))
    return out.getvalue()


def test_every_split_of_a_data_set():
    calls = []
    found = bench.run(["bixi"], CHEAP, progress=lambda *call: calls.append(call))
    named = [(line.split, line.method) for line in found.lines]
    assert named == [(split, method) for split in bench.SPLITS for method in ("effects", "MC")]
    assert [call[0] for call in calls] == list(range(9))
    assert {call[1] for call in calls} == {8}
    assert calls[0][2] == "BIXI, entries: effects"
    assert all(0 < line.rmse < 2 and 0 < line.mae <= line.rmse for line in found.lines)
    assert found.absent == {}
    # A row effect is known where the row has entries, and 0 where it has none.
    at = {(line.split, line.method): line.rmse for line in found.lines}
    assert at["entries", "effects"] < 0.7 * at["new rows", "effects"]


def test_effects_by_hand():
    """New rows: what is left is the least squares fit of column effects, a mean of each column."""
    (line,) = bench.run(["bixi"], ["effects"], ["new rows"], seed=3).lines
    values = LOADERS["bixi"](True, None).values
    known = np.argwhere(~np.isnan(values))
    train, test = next(iter(RowKFold(5, random_state=3).split(known)))
    seen = np.full_like(values, np.nan)
    seen[tuple(known[train].T)] = values[tuple(known[train].T)]
    # mean + row + column effects by brute force, with the smallest row and column effects
    n, l = values.shape
    Z = np.zeros((len(train), 1 + n + l))
    Z[:, 0] = 1.0
    Z[np.arange(len(train)), 1 + known[train, 0]] = 1.0
    Z[np.arange(len(train)), 1 + n + known[train, 1]] = 1.0
    assert not np.isnan(seen).all(axis=0).any()
    levels = np.linalg.lstsq(Z, values[tuple(known[train].T)], rcond=None)[0]
    row, col = levels[1 : 1 + n], levels[1 + n :]
    warm = np.unique(known[train, 0])
    mean = levels[0] + row[warm].mean() + col.mean()
    predicted = mean + (col - col.mean())[known[test, 1]]
    gap = predicted - values[tuple(known[test].T)]
    assert line.rmse == pytest.approx(np.sqrt(np.mean(gap**2)), rel=1e-6)
    assert (line.train, line.test) == (len(train), len(test))


def test_what_is_known_helps_where_nothing_was_seen():
    found = bench.run(["bixi"], ["effects", "rrmcex", "kkmcex"], ["new-rows"])
    effects, rrmcex, kkmcex = (line.rmse for line in found.lines)
    assert rrmcex < effects
    assert kkmcex < effects


def test_same_seed_same_errors():
    one, two, other = (
        [line.rmse for line in bench.run(["bixi"], ["imc"], ["entries"], seed=seed).lines]
        for seed in (0, 0, 1)
    )
    assert one == two
    assert one != other


def test_records_are_json():
    found = bench.run(["bixi"], ["effects"], ["both"])
    (record,) = json.loads(json.dumps(found.to_records()))
    assert record["rmse"] == found.lines[0].rmse
    assert record["protocol"] == "1 fold, new rows and columns hidden; 60 stations, 35 days"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"datasets": ["netflix"]}, "datasets must be of 'bixi', 'seattle', 'drug response'; got"),
        ({"methods": "svd"}, "methods must be of 'effects', 'mc', .*; got 'svd'"),
        ({"splits": []}, "splits must be of 'entries', .*; got none"),
    ],
)
def test_unknown_names(arguments, text):
    with pytest.raises(ParameterError, match=text):
        bench.run(**arguments)


def test_data_that_are_not_there(tmp_path):
    found = bench.run(methods=["effects"], splits=["entries"], data_home=tmp_path)
    assert {line.dataset for line in found.lines} == {"BIXI"}
    assert list(found.absent) == ["seattle", "drug response"]
    text = shown(found)
    assert "seattle: not in the table. seattle: missing sedata_amonth_matrix.mat" in text
    with pytest.raises(DataError, match="drug_response: missing"):
        bench.run(["drug_response"], ["effects"], data_home=tmp_path)


@pytest.mark.parametrize("same", [True, False])
def test_published_results_stand_beside_ours(same):
    result = datasets.Published("their method", 1.25, 0.5, 3600.0, "a random half", "their paper")
    ours = bench.Line(
        dataset="speeds", split="entries", method="KKMCEX", unit="mph", rmse=1.125, mae=0.25,
        seconds=2.0, folds=1, train=10, test=10, published=(result,), same_protocol=same,
        protocol="1 fold, entries hidden",
    )  # fmt: skip
    text = shown(bench.Benchmark((ours,), {}))
    for part in ("speeds: RMSE of mph", "1.125 (2.0)", "1.250 (3,600.0)", "their method"):
        assert part in text
    assert ("not the same protocol" in text) is not same
    assert ("other protocol" in text) is not same


def test_seattle_by_the_published_protocol():
    """Row and column effects on the very mask, by alternating means."""
    needs("seattle")
    (line,) = bench.run(["seattle"], ["effects"], ["entries"], quick=False).lines
    assert line.same_protocol
    assert (line.folds, line.train, line.test) == (1, 116_093, 116_467)
    assert line.published[0].rmse == 3.830
    data = datasets.load_seattle()
    values, (hidden,) = data.table.to_numpy(), data.test_masks
    seen = np.where(hidden, np.nan, values)
    row, col = np.zeros((323, 1)), np.zeros(720)
    for _ in range(50):
        row = np.nanmean(seen - col, axis=1, keepdims=True)
        col = np.nanmean(seen - row, axis=0)
    gap = (row + col - values)[hidden]
    assert line.rmse == pytest.approx(np.sqrt(np.mean(gap**2)), rel=1e-6)
    assert line.mae == pytest.approx(np.mean(np.abs(gap)), rel=1e-6)
    assert line.rmse == pytest.approx(7.63, abs=0.01)


def test_drug_response_by_the_published_folds():
    needs("drug_response")
    (line,) = bench.run(["drug response"], ["effects"], ["entries"], quick=False).lines
    assert (line.folds, line.test) == (10, 124 * 124)
    assert line.rmse == pytest.approx(1.738, abs=0.001)
    assert not line.same_protocol  # no published figure to compare with


def test_a_part_is_not_the_published_protocol():
    needs("seattle")
    (line,) = bench.run(["seattle"], ["effects"], ["entries"]).lines
    assert line.published
    assert not line.same_protocol
    assert "60 sensors" in line.protocol

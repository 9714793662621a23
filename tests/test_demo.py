"""The demonstration, on a corner of the data."""

from __future__ import annotations

import numpy as np
import pytest

from kronfill import demo


@pytest.fixture(scope="module")
def corner():
    """60 stations and 40 days of the split that the demonstration uses."""
    split = demo.HiddenPart.make()
    rows, cols = slice(0, 60), slice(0, 40)
    cut = [
        a[rows, cols]
        for a in (split.truth, split.seen, split.hidden_entries, split.hidden_stations)
    ]
    return demo.HiddenPart(*cut, split.stations.iloc[rows], split.days.iloc[cols])


def test_a_fifth_is_hidden():
    split = demo.HiddenPart.make()
    known = np.isfinite(split.truth)
    assert split.hidden_stations.any(axis=1).sum() == len(split.truth) // 5
    rest = known & ~split.hidden_stations
    assert (split.hidden_entries & rest).sum() / rest.sum() == pytest.approx(0.2, abs=0.01)
    assert not np.isfinite(split.seen[split.hidden_entries | split.hidden_stations]).any()
    assert not (split.hidden_entries & split.hidden_stations).any()


def test_baselines_are_what_they_say(corner):
    seen = corner.seen
    columns = demo.column_mean(corner)
    for j in range(seen.shape[1]):
        if np.isfinite(seen[:, j]).any():
            assert columns[:, j] == pytest.approx(np.nanmean(seen[:, j]))


def test_the_picture_is_of_the_default(corner, monkeypatch):
    said = [("KKMCEX", 1.0, 1.0, 0.0, "not this"), (demo.DEFAULT, 1.0, 1.0, 0.0, "this")]
    drawn = []
    monkeypatch.setattr(demo.HiddenPart, "make", classmethod(lambda cls, seed=0: corner))
    monkeypatch.setattr(demo, "run", lambda split: iter(said))
    monkeypatch.setattr(demo, "draw", lambda split, predicted, path: drawn.append(predicted))
    demo.main()
    assert drawn == ["this"]


def test_table_and_picture(corner, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo.HiddenPart, "make", classmethod(lambda cls, seed=0: corner))
    monkeypatch.setattr(demo, "OUTPUT", tmp_path / "out" / "bixi.png")
    demo.main()
    printed = capsys.readouterr().out
    rows = {line[:22].strip(): line[22:].split() for line in printed.splitlines() if len(line) > 50}
    methods = [
        "column mean", "row + column effects", "BayesianKMC", "MC", "IMC", "KMC", "RRMCEX",
        "KKMCEX", "default (auto)",
    ]  # fmt: skip
    assert [name for name in methods if name in rows] == methods
    assert float(rows["KKMCEX"][0]) < float(rows["row + column effects"][0])
    assert float(rows["KKMCEX"][1]) < float(rows["MC"][1])
    assert float(rows["default (auto)"][0]) < float(rows["row + column effects"][0])
    assert float(rows["default (auto)"][1]) < float(rows["MC"][1])
    assert (tmp_path / "out" / "bixi.png").stat().st_size > 20_000
    assert str((tmp_path / "out" / "bixi.png").resolve()) in printed

"""What a streamed table cannot have is refused in a sentence, before any work."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.cli.conftest import SIDES, entries, run, write_parts


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--report", "r.html"), "--report needs all observations in memory"),
        (("--details", "d.csv"), "--details is for wide tables"),
        (("--layout", "wide"), "--layout wide cannot be streamed"),
        (("--index", "user"), "--index is for wide tables"),
        (("--sheet", "a"), "--sheet is for Excel"),
        (("--duplicates", "mean"), "merge the lines"),
        (("--unmatched", "keep"), "may only have rows and columns that the side files describe"),
        (("--method", "kmc"), "--method kkmcex or rrmcex"),
        (("--method", "mc"), "--method kkmcex or rrmcex"),
        (("--center", "both"), "--center mean or none"),
        (("--intervals", "calibrated"), "has no intervals"),
        (("--resume",), "--work-dir DIR"),
        (("--memory", "much"), 'such as "2GB"'),
        (("--mu", "-1"), "mu must be a positive"),
        (("--row-column", "nobody"), "no column 'nobody'"),
        (("-o", "big/out.parquet"), "would be read as a part of the table"),
        (("-o", "users.csv"), "is also an input"),
        (("--save", "no/where.kf"), "there is no folder"),
    ],
)
def test_options(folder, options, told):
    done = run("complete", "big", *SIDES, *options, code=2)
    assert told in done.stderr
    assert not list(folder.glob("*-filled*"))


def test_both_sides_are_needed(folder):
    done = run("complete", "big", "--rows", "users.csv", code=2)
    assert "give --cols FILE too" in done.stderr
    assert "give --rows FILE too" in run("complete", "big", code=2).stderr


def test_too_little_memory(folder):
    done = run("complete", "big", *SIDES, "--memory", "1MB", "--mu", 1, code=1)
    assert "Allow more, or use kernels of lower rank" in done.stderr


def test_files_that_are_not_parquet(folder):
    entries().to_csv("long.csv", index=False)
    told = run("complete", "long.csv", *SIDES, "--memory", "2GB", code=2).stderr
    assert "long.csv is not a Parquet file" in told
    told = run("complete", "one.parquet", "long.csv", *SIDES, code=2).stderr
    assert "long.csv is not a Parquet file" in told
    (folder / "empty").mkdir()
    assert "has no Parquet files" in run("complete", "empty", *SIDES, code=2).stderr
    told = run("complete", "nothing.parquet", *SIDES, "--memory", "2GB", code=2).stderr
    assert "There is no file nothing.parquet" in told
    assert "matches no file" in run("complete", "none/*.parquet", *SIDES, code=2).stderr


def test_lines_that_cannot_be_used_are_named(folder):
    frame = entries()
    write_parts(frame.assign(user=frame["user"].where(frame.index != 3, "nobody")), folder / "big")
    done = run("complete", "big", *SIDES, "--mu", 0.2, code=2)
    assert "0.parquet, row group 0: the row 'nobody' on line 3" in done.stderr
    write_parts(pd.concat([frame, frame.iloc[[9]]]), folder / "big")
    done = run("complete", "big", *SIDES, code=2)
    assert "occurs more than once" in done.stderr
    assert "2.parquet" in done.stderr


def test_a_file_that_does_not_fit_in_memory_may_be_streamed(folder, monkeypatch):
    monkeypatch.setattr("kronfill.core.memory.available_memory", lambda: 1000)
    done = run("complete", "one.parquet", *SIDES, code=1)
    assert "--memory 2GB --work-dir DIR" in done.stderr
    monkeypatch.setattr("kronfill.core.memory.available_memory", lambda: 10**6)
    done = run("complete", "one.parquet", *SIDES, "--dry-run")
    assert "--memory 2GB --work-dir DIR streams the table" in done.stderr


def test_no_space_on_the_disk(folder, monkeypatch):
    monkeypatch.setattr("kronfill.streaming.plan.DISK", (10**15, 10**15))
    done = run("complete", "big", *SIDES, "--work-dir", "work", code=1)
    assert "Choose a folder with more (--work-dir)" in done.stderr

"""What a work directory holds is gone on with if asked for, and only then."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from kronfill.cli.progress import PassProgress
from kronfill.cli.session import Session
from tests.cli.conftest import SIDES, entries, items, run, write_parts

WORK = ("--work-dir", "work")


def complete(*more, code=0):
    return run("complete", "big", *SIDES, *WORK, *more, code=code)


@pytest.fixture
def interrupted(folder, monkeypatch):
    """A fit that Ctrl-C ended in its fourth iteration."""
    with monkeypatch.context() as patch:

        def stop(self, iteration, residual):
            if iteration == 4:
                raise KeyboardInterrupt

        patch.setattr(PassProgress, "iterated", stop)
        done = complete("--mu", 0.2, "-o", "out.parquet", code=130)
    assert "the same with --resume goes on" in done.stderr
    return folder


def test_an_interrupted_fit_goes_on_to_the_same_bits(interrupted):
    told = complete("--mu", 0.2, "-o", "out.parquet", "--resume").stderr
    assert "work holds a fit that is not finished" in told
    run("complete", "big", *SIDES, "--mu", 0.2, "-o", "clean.parquet")
    assert pd.read_parquet("out.parquet").equals(pd.read_parquet("clean.parquet"))


def test_without_resume_it_is_not_touched(interrupted):
    before = {path: path.stat().st_mtime_ns for path in (interrupted / "work").rglob("*")}
    done = complete("--mu", 0.2, code=2)
    assert "work holds a fit that is not finished already. Go on with it (--resume)" in done.stderr
    assert {path: path.stat().st_mtime_ns for path in (interrupted / "work").rglob("*")} == before


@pytest.mark.parametrize(
    ("changed", "told"),
    [(("--mu", 0.3), "--mu"), (("--mu", 0.2, "--method", "rrmcex"), "--method"),
     (("--mu", 0.2, "--ignore", "town"), "how --rows and --cols are read")],
)  # fmt: skip
def test_an_unfinished_fit_goes_on_with_its_own_settings_only(interrupted, changed, told):
    done = complete(*changed, "--resume", code=2)
    assert f"other settings: {told} changed since" in done.stderr


def test_other_side_information(interrupted):
    items().assign(size=0.5 * items()["size"]).to_csv("items.csv")
    assert "--cols changed since" in complete("--mu", 0.2, "--resume", code=2).stderr


def test_finished_partitions_serve_other_settings(folder):
    complete("--mu", 0.2)
    assert "the partitions of a fit that is done" in complete("--mu", 0.3, code=2).stderr
    made = (folder / "work" / "by-rows" / "manifest.json").stat().st_mtime_ns
    done = complete("--mu", 0.3, "--resume", "-o", "out.parquet")
    assert "the partitions of a fit that is done" in done.stderr
    assert (folder / "work" / "by-rows" / "manifest.json").stat().st_mtime_ns == made
    run("complete", "big", *SIDES, "--mu", 0.3, "-o", "clean.parquet")
    assert pd.read_parquet("out.parquet").equals(pd.read_parquet("clean.parquet"))
    assert json.loads((folder / "work" / "fit.json").read_text())["done"]


def test_another_table(folder):
    complete("--mu", 0.2)
    write_parts(entries().head(100), folder / "big")
    assert "the table changed since" in complete("--mu", 0.2, "--resume", code=2).stderr


def test_nothing_to_go_on_with_is_a_beginning(folder):
    assert "work holds nothing yet" in complete("--mu", 0.2, "--resume").stderr


def test_a_damaged_note(folder):
    complete("--mu", 0.2)
    (folder / "work" / "fit.json").write_text("[")
    assert "fit.json cannot be read" in complete("--mu", 0.2, "--resume", code=1).stderr


def test_a_file_in_its_place(folder):
    (folder / "work").write_text("mine")
    assert "Use another folder (--work-dir)" in complete("--mu", 0.2, code=1).stderr
    assert (folder / "work").read_text() == "mine"


def test_progress_names_pass_share_and_residual(monkeypatch):
    said = []
    progress = PassProgress(Session(), said.append)
    progress.preparing("row groups read", 3, 8)
    progress.passing(1, 0, 4)
    progress.passing(1, 3, 4)
    progress.iterated(1, 0.00123)
    progress.passing(2, 1, 4)
    assert said == [
        "row groups read: 3 of 8",
        "pass 1, 0 of 4 partitions",
        "pass 1, 3 of 4 partitions",
        "pass 2, 1 of 4 partitions, residual 1.2e-03",
    ]
    assert progress.passes == 2


def test_a_pass_that_takes_long_leaves_a_line(capsys, monkeypatch):
    monkeypatch.setattr("kronfill.cli.progress.SECOND", 0.0)
    progress = PassProgress(Session(), lambda part: None)
    progress.passing(7, 0, 2)
    progress.iterated(5, 0.5)
    assert "Pass 7: residual 5.0e-01, 0.0 s" in capsys.readouterr().err

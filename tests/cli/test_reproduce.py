"""``kronfill reproduce``."""

from __future__ import annotations

import csv

import pytest
from typer.testing import CliRunner

from kronfill import cli
from kronfill.cli.commands.reproduce import _plan
from kronfill.errors import ParameterError
from kronfill.paper.running.spec import RunPlan

run = CliRunner().invoke
SMALL = ["--sizes", "40,100", "--realizations", "2", "--methods", "kkmcex", "--workers", "1"]


def test_a_small_run_writes_table_page_and_figures(tmp_path):
    arguments = ["reproduce", "fig1", *SMALL, "--snr", "inf", "--out", str(tmp_path)]
    done = run(cli.app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert "KKMCEX" in done.stdout
    with (tmp_path / "fig1.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["N"], row["metric"]) for row in rows] == [
        (size, metric) for metric in ("train", "test", "ge") for size in ("40", "100")
    ]
    assert "data:image/png" in (tmp_path / "fig1.html").read_text(encoding="utf-8")
    before = (tmp_path / "fig1.csv").read_bytes()
    again = run(cli.app, arguments, catch_exceptions=False)  # nothing is left to do
    assert again.exit_code == 0
    assert (tmp_path / "fig1.csv").read_bytes() == before


def test_options_make_the_plan():
    base = RunPlan(seed=3)
    plan = _plan(base, "100, 200", "kkmcex=5", "inf,2", "kkmcex,mc")
    assert plan.sizes == (100, 200)
    assert plan.panels == ("a", "snr=2")
    assert plan.counts == {"kkmcex": 5, "mc": base.counts["mc"]}
    assert plan.seed == 3
    assert _plan(base, None, None, None, None) == base
    assert set(_plan(base, None, "7", None, None).counts.values()) == {7}


def test_what_cannot_be_is_said(tmp_path):
    done = run(cli.app, ["reproduce", "fig1", "--sizes", "many", "--out", str(tmp_path)])
    assert done.exit_code == 2
    with pytest.raises(ParameterError, match="methods must be among"):
        _plan(RunPlan(), None, None, None, "nothing")


def test_errors_of_the_library_become_messages(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["kronfill", "reproduce", "fig1", "--sizes", "3"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert "sizes must be" in capsys.readouterr().err

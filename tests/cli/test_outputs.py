"""All outputs of a command appear together at its end, or none; labels stay text in Excel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import typer
from typer.main import get_command

from kronfill import cli
from kronfill.cli.outputs import write_table
from kronfill.errors import ParameterError
from tests.cli.conftest import SIDES, entries, run
from tests.disks import full_for

WIDE = ("out.csv", "out-details.csv", "report.html", "model.kf")
LONG = ("out.parquet", "model.kf")


@pytest.fixture
def wide(folder):
    table = entries().pivot_table(index="user", columns="item", values="stars")
    table.to_csv("table.csv")
    return folder


def before(names):
    for name in names:
        with open(name, "w") as file:
            file.write("before")


def as_before(names):
    for name in names:
        with open(name, encoding="utf-8") as file:
            assert file.read() == "before"
    assert not [name for name in os.listdir() if name.endswith(".part")]


def complete_wide(*more, code=0):
    outputs = ("-o", "out.csv", "--report", "report.html", "--save", "model.kf", "--mu", 0.1)
    return run("complete", "table.csv", *SIDES, *outputs, *more, code=code)


def complete_long(*more, code=0):
    outputs = ("-o", "out.parquet", "--save", "model.kf", "--mu", 0.1)
    return run("complete", "big", *SIDES, *outputs, *more, code=code)


@pytest.mark.parametrize("name", WIDE)
def test_a_disk_that_is_full_for_one_output_leaves_all_as_they_were(wide, name):
    before(WIDE)
    with full_for(f"/{name}"):
        done = complete_wide(code=1)
    assert f"{name} cannot be written: the disk is full" in done.stderr
    as_before(WIDE)


@pytest.mark.parametrize("name", LONG)
def test_a_streamed_table_and_its_model_appear_together(folder, name):
    before(LONG)
    with full_for(f"/{name}"):
        done = complete_long(code=1)
    assert f"{name} cannot be written: the disk is full" in done.stderr
    as_before(LONG)
    complete_long()
    assert len(pd.read_parquet("out.parquet")) == 750


def test_a_report_that_cannot_be_made_takes_the_table_with_it(wide):
    before(WIDE)
    done = complete_wide("--range", 0, 0.001, code=2)
    assert "Error:" in done.stderr
    as_before(WIDE)


def test_details_that_nobody_named_replace_no_input(wide):
    os.rename("users.csv", "out-details.csv")
    sides = ("--rows", "out-details.csv", "--cols", "items.csv")
    done = run("complete", "table.csv", *sides, "-o", "out.csv", "--mu", 0.1, code=2)
    assert "--details out-details.csv is also an input" in done.stderr
    assert not os.path.exists("out.csv")


@pytest.mark.parametrize("command", ["predict", "suggest", "evaluate"])
def test_the_other_commands_on_a_full_disk(wide, command):
    complete_wide()
    users_items = [("u01", "i1"), ("u02", "i2")]
    pd.DataFrame(users_items, columns=["user", "item"]).to_csv("pairs.csv", index=False)
    arguments = {
        "predict": ("predict", "model.kf", "pairs.csv"),
        "suggest": ("suggest", "model.kf", "-n", 2),
        "evaluate": ("evaluate", "table.csv", *SIDES, "--mu", 0.1, "--folds", 2),
    }[command]
    before(["found.xlsx"])
    with full_for("/found.xlsx"):
        run(*arguments, "-o", "found.xlsx", code=1)
    as_before(["found.xlsx"])


def test_a_resumed_run_removes_what_a_killed_one_left(folder):
    complete_long("--work-dir", "work")
    left = [folder / ".out.parquet.0a1b2c3d.part", folder / ".model.kf.0a1b2c3d.part"]
    for inside in (".fit.json", "by-rows/.00000.inner", "by-rows/runs/.00001.values"):
        left.append(folder / "work" / f"{inside}.0a1b2c3d.part")
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    complete_long("--work-dir", "work", "--resume")
    assert not list(folder.rglob("*.part"))


# Options.


def single_valued():
    commands = dict(get_command(cli.app).commands)
    commands |= {f"reproduce {k}": v for k, v in commands.pop("reproduce").commands.items()}
    for name, command in commands.items():
        for param in command.params:
            if param.param_type_name == "option" and not (param.is_flag or param.multiple):
                yield pytest.param(command, param, id=f"{name} {param.opts[-1]}")


@pytest.mark.parametrize(("command", "param"), list(single_valued()))
def test_an_option_given_twice_is_refused(command, param):
    once = [param.opts[0], *["1"] * param.nargs]
    again = [param.opts[-1], *["2"] * param.nargs]
    with pytest.raises(typer.BadParameter, match="It is given 2 times, and only the last") as told:
        command.make_context("kronfill", [*once, *again])
    assert told.value.param is param


def test_it_is_named_and_nothing_is_done(wide):
    there = sorted(os.listdir())
    done = run("complete", "table.csv", *SIDES, "--mu", 1, "--mu", 2, code=2)
    said = " ".join(done.stderr.replace("│", " ").split())
    assert "'--mu': It is given 2 times, and only the last would count: give it once." in said
    assert sorted(os.listdir()) == there


def test_flags_and_lists_may_be_given_twice(wide):
    pd.read_csv("users.csv").assign(name="x", key="y").to_csv("users.csv", index=False)
    complete_wide("--ignore", "name", "--ignore", "key", "-q", "-q")


# Excel.

LABELS = ("=1+1", "+1", "-a", "@SUM(A1)", '=cmd|"/C calc"!A1', "=", "#N/A", "\tx", "plain")


def cells_of(path):
    openpyxl = pytest.importorskip("openpyxl")
    return [list(line) for line in openpyxl.load_workbook(path).active.iter_rows()]


def test_labels_are_text_in_an_excel_file(tmp_path):
    """Headers and the column of row labels; no cell is a formula or an error."""
    path = tmp_path / "t.xlsx"
    frame = pd.DataFrame(np.arange(81.0).reshape(9, 9), columns=list(LABELS))
    frame.insert(0, "=label", LABELS)
    write_table(path, [frame])
    head, *lines = cells_of(path)
    assert [cell.value for cell in head] == ["=label", *LABELS]
    assert [line[0].value for line in lines] == list(LABELS)
    text = [*head, *(line[0] for line in lines)]
    assert {cell.data_type for cell in text} == {"s"}
    assert [cell.quotePrefix for cell in text[1:]] == [*[True] * 8, False] * 2
    assert {cell.data_type for line in lines for cell in line[1:]} == {"n"}
    assert (pd.read_excel(path).iloc[:, 1:].to_numpy() == frame.iloc[:, 1:].to_numpy()).all()


def test_a_table_with_such_labels_through_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    labels = list(LABELS[:5])
    table = pd.DataFrame(np.add.outer(np.arange(5.0), np.arange(5.0)), labels, labels)
    table.iloc[1, 2] = np.nan
    table.rename_axis("=id").to_csv("t.csv")
    run("complete", "t.csv", "--method", "mc", "-o", "f.xlsx", "--mu", 0.1)
    for name in ("f.xlsx", "f-details.xlsx"):
        cells = [cell for line in cells_of(name) for cell in line]
        assert {cell.data_type for cell in cells} <= {"s", "n"}
        assert {cell.value for cell in cells if isinstance(cell.value, str)} >= {"=id", *labels}
    run("complete", "t.csv", "--method", "mc", "-o", "f.csv", "--mu", 0.1)
    assert list(pd.read_csv("f.csv", index_col=0).index) == labels  # as it is


@pytest.mark.parametrize("label", ["a\x00b", "x" * 40_000])
def test_text_that_excel_has_no_place_for(tmp_path, label):
    pytest.importorskip("openpyxl")
    with pytest.raises(ParameterError, match="An Excel cell holds up to 32,767 characters"):
        write_table(tmp_path / "t.xlsx", [pd.DataFrame({"x": [label]})])
    assert list(tmp_path.iterdir()) == []


# The process as a whole.

PROGRAM = """
import os, signal, sys

module = sys.argv.pop(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored


class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)


sys.meta_path.insert(0, Interrupting())
from kronfill.cli import main

main()
"""


@pytest.mark.parametrize("module", ["typer", "numpy", "sklearn"])
def test_ctrl_c_while_modules_are_imported(module):
    command = [sys.executable, "-c", PROGRAM, module, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "Error: Interrupted; nothing was written.\n"
    assert done.stdout == ""


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.default_int_handler])
def test_what_ctrl_c_does_later_is_not_changed(handler):
    before = signal.signal(signal.SIGINT, handler)
    try:
        cli._imported()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def main(monkeypatch, *arguments, full="stdout"):
    """Exit code of a command one of whose streams takes nothing."""
    with open("/dev/full", "w") as file, open(os.devnull, "w") as nothing:
        monkeypatch.setattr(sys, full, file)
        monkeypatch.setattr(sys, "argv", ["kronfill", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        monkeypatch.undo()
        os.dup2(nothing.fileno(), file.fileno())  # it can be closed
    return end.value.code


@pytest.mark.parametrize("arguments", [["info", "--json"], ["info"], ["--help"], ["--version"]])
def test_standard_output_that_takes_nothing(monkeypatch, capsys, arguments):
    assert main(monkeypatch, *arguments) == 1
    told = "Error: Standard output cannot be written: No space left on device.\n"
    assert capsys.readouterr().err == told


def test_what_is_wrong_counts_more_than_where_it_cannot_be_said(monkeypatch, capsys):
    assert main(monkeypatch, "info", "missing.csv", "--json") == 2
    told = capsys.readouterr().err
    assert told.startswith("Error: There is no file missing.csv. Standard output cannot be written")
    assert main(monkeypatch, "info", "missing.csv", "--json", full="stderr") == 2
    assert json.loads(capsys.readouterr().out)["error"] == "There is no file missing.csv."

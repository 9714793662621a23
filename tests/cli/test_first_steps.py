"""The first hours with three CSV files made by hand: every stumble has a message that helps."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import kronfill
from kronfill import cli
from kronfill.bench import run as bench
from kronfill.cli.commands import showcase
from kronfill.cli.session import Session
from kronfill.paper.methods import METHODS as FIGURE_METHODS
from tests.cli.conftest import run

RATINGS = """\
user,Alien,Brazil,Casablanca,Dune,Heat
ann,5,4,,4,4
bob,4,,2,5,4
carl,,5,4,,
dora,2,3,5,,
gus,,,,,
leo,4,3,,5,5
"""
USERS = """\
user,age,city,joined
ann,31,Lyon,2021-03-04
bob,24,Paris,2022-11-20
carl,45,Lyon,2019-07-01
dora,62,Nice,2018-01-15
gus,,Paris,2024-01-09
mia,27,Paris,2024-04-01
noah,66,Nice,2017-05-23
"""
FILMS = """\
film,genre,year,length
Alien,sf,1979,117
Brazil,satire,1985,132
Casablanca,romance,1942,102
Dune,sf,2021,155
Heat,crime,1995,170
"""
SIDES = ("--rows", "users.csv", "--cols", "films.csv")
SETTLED = (*SIDES, "--unmatched", "keep")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("ratings", RATINGS), ("users", USERS), ("films", FILMS)):
        Path(f"{name}.csv").write_text(text)
    return tmp_path


@pytest.fixture
def model(folder):
    run("complete", "ratings.csv", *SETTLED, "--save", "model.kf")
    return folder


def write(name, text):
    Path(name).write_text(text)


def refused(*arguments):
    """What is said on standard error about arguments that cannot be used: one paragraph."""
    text = run(*arguments, code=2).stderr
    errors = [line for line in text.splitlines() if line.startswith("Error:")]
    assert len(errors) == 1
    return errors[0]


# From the files to a filled table.


def test_each_message_leads_to_the_next_step(folder):
    first = refused("complete", "ratings.csv", *SIDES, "--impute", "error")
    assert "column 'age' has no value at line 6" in first
    second = refused("complete", "ratings.csv", *SIDES)
    assert "1 of 6 row labels of the table is not in what is known about the rows ('leo')" in second
    assert "only there: 'mia', 'noah'" in second
    done = run("complete", "ratings.csv", *SETTLED)
    assert "1 row without any entry, 'gus'" in done.stderr
    assert "1 only in the table, 'leo': kept" in done.stderr
    assert "2 only in the side information, 'mia', 'noah': to be" in done.stderr
    assert "How good it is: --report FILE, or 'kronfill evaluate'" in done.stderr
    filled = pd.read_csv("ratings-filled.csv", index_col="user")
    assert list(filled.index) == ["ann", "bob", "carl", "dora", "gus", "leo", "mia", "noah"]
    assert filled.notna().all(axis=None)


def test_evaluate_says_what_matched_and_what_to_make_of_it(folder):
    done = run("evaluate", "ratings.csv", *SETTLED)
    assert "5 of 6 rows of the table are in the side information" in done.stderr
    assert re.search(r"New rows: (no|\d+%) better than", done.stdout)
    told = json.loads(run("evaluate", "ratings.csv", *SETTLED, "--json").stdout)
    assert set(told["verdicts"]) == {"entries", "new rows", "new columns", "both new"}
    scores = {(s["question"], s["method"]): s["rmse"] for s in told["scores"]}
    for question, sentence in told["verdicts"].items():
        own = scores[question, "KKMCEX"]
        rival = min(scores[question, rule] for rule in ("mean", "row + column effects"))
        if own >= rival:
            assert "no better than" in sentence
        else:
            assert f"{100 * (1 - own / rival):.0f}% better" in sentence


@pytest.mark.parametrize("separator", [";", "|"])
def test_a_csv_file_is_written_as_the_table_was(folder, separator):
    table = pd.read_csv("ratings.csv", index_col="user") + 0.5
    table.to_csv("ours.csv", sep=separator, decimal=",")
    run("complete", "ours.csv", *SETTLED, "-o", "filled.csv")
    run("complete", "ours.csv", *SETTLED, "-o", "filled.parquet")
    for name in ("filled", "filled-details"):
        ours = pd.read_csv(f"{name}.csv", sep=separator, dtype=str)
        plain = pd.read_parquet(f"{name}.parquet")
        assert list(ours.columns) == list(plain.columns)
        numbers = [c for c in plain if plain[c].dtype == float]
        for column in numbers:  # pandas loses the last digit where it reads a comma itself
            exact = ours[column].str.replace(",", ".").astype(float)
            assert_allclose(exact, plain[column], rtol=0, atol=0)
    run("complete", "ours.csv", *SETTLED, "-o", "filled.tsv")
    assert "\t" in Path("filled.tsv").read_text().splitlines()[0]


@pytest.mark.slow
def test_the_first_run_of_the_docs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    section = page.split("## A first run")[1].split("\n## ")[0]
    files = re.findall(r"```text\n(.*?)```", section, re.S)
    for name, text in zip(("ratings", "users", "films"), files, strict=True):
        write(f"{name}.csv", text)
    shown = "".join(re.findall(r"```console\n(.*?)```", section, re.S)).replace("\\\n", " ")
    runs = [part.split("\n", 1) for part in shown.split("$ kronfill ")[1:]]
    assert len(runs) == 3
    for command, expected in runs:
        done = CliRunner().invoke(cli.app, command.split())
        said = " ".join((done.stderr + done.stdout).split())
        for part in expected.split("...\n"):
            assert " ".join(part.split()) in said, part


# Options and files that cannot be meant.


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("ratings.csv", "--cols", "users.csv", "--impute", "mean"), "exchange --rows and --cols"),
        (("ratings.csv", "users.csv", "films.csv"), "is given with --rows and --cols"),
        (("ratings.csv", "--report", "report.pdf"), "the name must end in .html"),
        (("ratings.csv", "--save", "model.zip"), "the name must end in .kf"),
        (("ratings.csv", "--range", "5", "1", "--report", "r.html"), "smallest and the largest"),
        (("ratings.csv", "--mu", "-1"), "--mu must be a positive number or 'auto', got '-1'"),
        (("ratings.csv", "--mu", "inf"), "--mu must be a positive number"),
        (("ratings.csv", "--level", "90"), "--level must lie between 0 and 1"),
        (("ratings.csv", "-o", "."), "--output . is a folder"),
        (("ratings.csv", "-o", "filled"), "which may be .csv, .tsv"),
        (("ratings.csv", "--index", "name"), "has no column 'name'; it has 'user', 'Alien'"),
    ],
)
def test_options_that_cannot_be_meant(folder, options, says):
    assert says in refused("complete", *options)
    assert sorted(os.listdir()) == ["films.csv", "ratings.csv", "users.csv"]


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_that_no_generator_takes(folder, seed):
    for command in ("complete", "evaluate"):
        options = (*SETTLED, "--method", "kmc", "--seed", seed)
        assert "--seed" in run(command, "ratings.csv", *options, code=2).stderr
    run("complete", "ratings.csv", *SETTLED, "--method", "kmc", "--rank", 2, "--seed", 2**32 - 1)


def test_repeated_entries_are_named_with_their_lines(folder):
    write("long.csv", "user,film,stars\nann,Up,5\nbob,Up,\nann,Jaws,3\nbob,Jaws,4\nann,Up,1\n")
    said = refused("complete", "long.csv")
    assert "'ann', 'Up' at lines 2 and 6" in said
    assert "--duplicates mean" in said


def test_weights_are_named_with_their_line(folder):
    write("long.csv", "user,film,stars,weight\nann,Up,,1\nbob,Up,3,2\nann,Jaws,3,-1\n")
    assert "column 'weight', line 4: the weight is -1" in refused("complete", "long.csv")
    write("long.csv", "user,film,stars,weight\nann,Up,,1\nbob,Up,3,\nann,Jaws,3,1\n")
    assert "line 3: the weight is missing" in refused("complete", "long.csv")


def test_a_line_with_too_many_cells_is_named(folder):
    write("ratings.csv", RATINGS.replace("carl,,5", "carl,the first,,5"))
    said = refused("complete", "ratings.csv")
    assert "line 4 has 7 cells, the header 6: 'carl,the first,,5,4,,'" in said
    assert "must stand in quotes" in said


def test_what_is_wrong_with_similarities_is_told_by_label(folder):
    names = pd.read_csv("films.csv")["film"].to_list()
    similar = pd.DataFrame(0.5 * (np.eye(5) + 1), index=names, columns=names)
    similar.loc["Dune", "Alien"] = 0.1
    similar.to_csv("similar.csv")
    said = refused("complete", "ratings.csv", "--cols", "similar.csv")
    assert "of the columns are not symmetric" in said
    assert "'Alien' and 'Dune' is 0.5, that of 'Dune' and 'Alien' 0.1" in said
    similar.loc["Dune", "Alien"] = similar.loc["Alien", "Dune"] = 3.0
    similar.to_csv("similar.csv")
    said = refused("complete", "ratings.csv", "--cols", "similar.csv")
    assert "of the columns is not positive semidefinite" in said
    assert "--cols-as features" in said
    done = run("complete", "ratings.csv", "--cols", "similar.csv", "--cols-as", "features")
    assert "columns: 5 features of 5 items" in done.stdout


def test_a_mark_among_numbers_is_a_gap(folder):
    write("users.csv", USERS.replace("gus,,", "gus,-,"))
    said = refused("complete", "ratings.csv", *SETTLED)
    assert "column 'age', line 6: '-' stands among numbers" in said


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("gus,,", "gus,unknown,", "'age' holds numbers but for 1 line, such as 'unknown' at line"),
        ("2018-01-15", "31/02/2018", "'joined' holds dates but for 1 line, such as '31/02/2018'"),
    ],
)
def test_text_among_numbers_or_dates_is_said(folder, old, new, says):
    write("users.csv", USERS.replace(old, new))
    assert says in run("complete", "ratings.csv", *SETTLED, "--dry-run").stderr


def test_a_column_of_names_is_said(folder):
    lines = [f"{line},{k}th" for k, line in enumerate(USERS.splitlines())]
    write("users.csv", "\n".join(lines))
    said = run("complete", "ratings.csv", *SETTLED, "--dry-run").stderr
    assert "column '0th' has another text in every line" in said
    quiet = run("complete", "ratings.csv", *SETTLED, "--dry-run", "--ignore", "0th").stderr
    assert "another text" not in quiet


# With a saved model.


def test_exchanged_columns_of_pairs_are_noticed(model):
    write("pairs.csv", "film,user\nDune,ann\nHeat,mia\n")
    said = refused("predict", "model.kf", "pairs.csv")
    assert "The table has such columns: say which" in said
    asked = ("pairs.csv", "--row-column", "user", "--col-column", "film")
    done = run("predict", "model.kf", *asked, "--json").stdout
    assert [line["row"] for line in json.loads(done)["predictions"]] == ["ann", "mia"]


def test_unknown_labels(model):
    write("pairs.csv", "user,film\nzoe,Dune\n")
    assert "needs side information: --rows FILE" in refused("predict", "model.kf", "pairs.csv")
    said = refused("suggest", "model.kf", "--candidates", "pairs.csv")
    assert "1 unknown row label, 'zoe'" in said
    assert "Only rows of the model can be chosen" in said


def test_new_rows(model):
    write("new.csv", "user,age,city,joined\nolga,35,Rome,2022-05-06\n")
    said = run("predict", "model.kf", "--rows", "new.csv").stderr
    assert "no row of the model has the city 'Rome'; known are 'Lyon', 'Nice', 'Paris'" in said
    write("new.csv", "user,age,city,joined\nolga,35,Lyon,2022-05-06\n")
    assert "Note" not in run("predict", "model.kf", "--rows", "new.csv").stderr
    write("new.csv", "user,age,city,joined\nann,35,Lyon,2022-05-06\n")
    assert "1 row, 'ann', is in the model" in refused("predict", "model.kf", "--rows", "new.csv")


def test_messages_name_options_not_python(model):
    assert "kronfill complete --save" in refused("suggest", "ratings.csv")
    assert "smallest and the largest" in refused("bound", "model.kf", "--range", 5, 1)
    assert "--delta must be" in refused("bound", "model.kf", "--range", 1, 5, "--delta", 2)
    assert ". is a folder" in refused("info", ".")


# How it looks.


def test_help_and_version(folder):
    assert run("--version").stdout == f"kronfill {kronfill.__version__}\n"
    for command in (["complete"], ["predict"], ["info"], ["reproduce"], ["reproduce", "fig1"]):
        told = run(*command, "--help").stdout
        assert "<bool>" not in told
        assert "<str>" not in told
    assert ", ".join(FIGURE_METHODS) in " ".join(told.replace("│", " ").split())
    assert (showcase.DATASETS, showcase.METHODS, showcase.SPLITS) == (
        bench.DATASETS, bench.METHODS, bench.SPLITS,
    )  # fmt: skip


def test_lines_break_between_words_on_a_terminal(folder, monkeypatch):
    whole = run("complete", "ratings.csv", *SIDES, code=2).stderr
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    done = CliRunner().invoke(cli.app, ["complete", "ratings.csv", *SIDES])
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.stderr)
    shown = "\n".join(line for line in shown.splitlines() if "Reading" not in line)
    assert max(map(len, shown.splitlines())) <= 60
    words = shown.split()
    assert words == [word for word in whole.split() if word in set(words)]
    assert set(whole.split()) == set(words)


def test_nothing_is_left_of_the_spinner(model):
    write("pairs.csv", "user,film\nmia,Dune\n")
    screen, terminal = pty.openpty()
    command = [sys.executable, "-m", "kronfill.cli", "predict", "model.kf", "pairs.csv"]
    with subprocess.Popen(command, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        seen = b""
        while chunk := _read(screen):
            seen += chunk
    os.close(screen)
    assert process.returncode == 0
    last = seen.decode().split("\x1b[2K")[-1]
    assert "extrapolated" in last
    assert "Predicting 0:" not in last


def _read(screen):
    try:
        return os.read(screen, 4096)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize("terminal", [False, True])
def test_tables_show_all_numbers_and_labels(capsys, monkeypatch, terminal):
    monkeypatch.setenv("COLUMNS", "30")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    label = "6346 - Nicolet / Sherbrooke"
    Session().table("", ["station", "day", "mean"], [[label, "Monday", 0.1234], ["b", "c", 2.5]])
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().out)
    assert "0.123" in shown
    assert "2.500" in shown
    assert "…" not in shown
    if terminal:
        assert max(map(len, shown.splitlines())) <= 30
    else:
        assert label in shown


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([4.38515, 2.85, -0.02443], ["4.385", "2.850", "-0.024"]),
        ([1.0, 12.0], ["1", "12"]),
        ([123.456, 0.5], ["123.5", "0.5"]),
        ([3e-7, 2.5], ["3e-07", "2.5"]),
        ([float("nan"), 0.25], ["", "0.2500"]),
        ([12345, 7], ["12,345", "7"]),
        ([0.0, 0.0], ["0", "0"]),
    ],
)
def test_numbers_of_a_column_have_the_same_decimals(capsys, values, cells):
    Session().table("", ["name", "x"], [["a", value] for value in values])
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.strip().removeprefix("a").strip() for line in lines] == cells
    assert len({len(line.rstrip()) for line in lines if line.strip() != "a"}) == 1

"""Hostile files, drawn by seed: broken encodings, ragged lines, odd headers, huge numbers, NULs.

Never a traceback; an error is one paragraph, and an output that was there stays.
"""

from __future__ import annotations

import random
import warnings

import pytest
from typer.testing import CliRunner

from kronfill import cli

CASES = 30
WORDS = (
    "a", "b", "é", "7", "07", "x y", '"', "''", "\x00", "\ufeff", "inf", "nan", "1e400", "1e308",
    "5e-324", "0x10", "1_000", "1,5", "NA", "", "  ", "2020-01-01", "31/12/2020", "true", "😀",
    "\u202e", "[red]", "[/]", "%s", "{0}", "=1+1", "9" * 40, "---", "１２",
)  # fmt: skip
FLAGS = (
    ("--unmatched", "keep"), ("--unmatched", "drop"), ("--impute", "mean"),
    ("--duplicates", "mean"), ("--layout", "long"), ("--layout", "wide"), ("--index", "none"),
    ("--rows-as", "edges"),
    ("--rows-as", "features"), ("--rows-as", "similarity"), ("--method", "mc"), ("--method", "kmc"),
    ("--method", "rrmcex"), ("--center", "both"), ("--mu", "0.1"), ("--mu", "nan"), ("--json",),
    ("--ignore", "c1"), ("--weight-column", "c1"), ("-q",),
)  # fmt: skip
ENCODINGS = ("utf-8",) * 16 + ("utf-8-sig", "utf-16", "latin-1", "utf-32")


def text(draw, label):
    """A table with a few faults."""
    clean = draw.choice([1.0] * 6 + [0.95, 0.6])
    head = ["id", *(f"c{j}" for j in range(draw.randint(1, 6)))]
    if label == "r" and draw.random() < 0.2:
        head = ["row", "col", "value"]
    if draw.random() < 0.05:
        head[draw.randrange(len(head))] = draw.choice(["", "c0", "\x00", "weight", "a\nb"])
    lines = [head]
    for i in range(draw.randint(0, 8)):
        width = len(head) - 1 + (draw.random() < 0.01)
        cells = [str(round(draw.uniform(-5, 5), 2)) for _ in range(width)]
        lines.append(
            [f"{label}{i}"] + [c if draw.random() < clean else draw.choice(WORDS) for c in cells]
        )
    separator, end = draw.choice([",", ",", ";", "\t", "|"]), draw.choice(["\n", "\r\n", "\r"])
    return end.join(separator.join(line) for line in lines)


def content(draw, label="r"):
    """Bytes of a file: mostly text, sometimes damaged, sometimes anything."""
    if draw.random() < 0.06:
        return draw.randbytes(draw.randint(0, 200))
    data = bytearray(text(draw, label).encode(draw.choice(ENCODINGS), errors="replace"))
    if data and draw.random() < 0.15:
        data[draw.randrange(len(data))] = draw.choice([0, 255, 34, 10, 13, 44, 27])
    return bytes(data)


@pytest.mark.parametrize("seed", range(CASES))
def test_hostile_files(tmp_path, monkeypatch, seed):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(seed)
    command = draw.choice(["complete", "complete", "evaluate", "info"])
    name = f"t.{draw.choice(['csv'] * 16 + ['tsv', 'xlsx', 'parquet', 'csv.gz'])}"
    (tmp_path / name).write_bytes(content(draw))
    (tmp_path / "out.csv").write_text("before")
    arguments = [command, name]
    if command != "info":
        arguments += ["-o", "out.csv"]
        for side in ("rows", "cols"):
            if draw.random() < 0.5:
                (tmp_path / f"{side}.csv").write_bytes(content(draw, side[0]))
                arguments += [f"--{side}", f"{side}.csv"]
        if draw.random() < 0.7:
            arguments += ["--unmatched", "keep", "--impute", "mean", "--duplicates", "mean"]
        for flag in draw.sample(FLAGS, draw.randint(0, 2)):
            arguments += () if flag[0] in arguments else flag  # an option is given once
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = CliRunner().invoke(cli.app, arguments)
    assert isinstance(done.exception, SystemExit | None), (arguments, done.exception)
    assert done.exit_code in (0, 2), (arguments, done.stderr)
    errors = [line for line in done.stderr.splitlines() if line.startswith("Error:")]
    assert len(errors) == (done.exit_code == 2), (arguments, done.stderr)
    assert all(len(error) < 900 for error in errors)
    assert all(ord(letter) >= 32 for error in errors for letter in error)
    assert "Traceback" not in done.stderr
    if done.exit_code:
        assert (tmp_path / "out.csv").read_text() == "before"

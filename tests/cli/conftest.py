"""A small long table in several Parquet files, with what is known about its rows and columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from kronfill import cli

SIDES = ("--rows", "users.csv", "--cols", "items.csv")


def run(*arguments, code=0):
    """Run a command; standard output and error are in what is returned."""
    if arguments[0] in ("complete", "evaluate") and "--method" not in arguments:
        arguments = (*arguments, "--method", "kkmcex")  # this is about commands, not methods
    done = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output + done.stderr
    return done


def users():
    rng = np.random.default_rng(0)
    labels = pd.Index([f"u{k:02d}" for k in rng.permutation(30)], name="id")
    return pd.DataFrame({"age": rng.random(30), "town": list("abc") * 10}, index=labels)


def items():
    rng = np.random.default_rng(1)
    labels = pd.Index([f"i{k}" for k in range(25)], name="item")
    return pd.DataFrame({"size": rng.random(25)}, index=labels)


def entries():
    """Users 0 to 27 and items 0 to 23 by position: the last ones have no entries."""
    rng = np.random.default_rng(2)
    row, col = users(), items()
    truth = np.add.outer(3 * row["age"].to_numpy(), np.sin(5 * col["size"].to_numpy()))
    i, j = np.nonzero(rng.random((28, 24)) < 0.4)
    y = truth[i, j] + 0.1 * rng.standard_normal(len(i))
    frame = pd.DataFrame({"user": row.index[i], "item": col.index[j], "stars": y})
    return frame.sample(frac=1.0, random_state=3, ignore_index=True)


def write_parts(frame, folder, files=3):
    folder.mkdir(parents=True, exist_ok=True)
    for k, at in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[at].to_parquet(folder / f"{k}.parquet", row_group_size=50, index=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    users().to_csv("users.csv")
    items().to_csv("items.csv")
    write_parts(entries(), tmp_path / "big")
    entries().to_parquet("one.parquet", index=False)
    return tmp_path

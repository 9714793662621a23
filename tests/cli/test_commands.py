"""The command line, as a user has it: files in, files out, messages, exit codes."""

from __future__ import annotations

import importlib
import json
import os

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from typer.testing import CliRunner

import kronfill as kf
from kronfill import cli
from kronfill.cli import outputs
from kronfill.data.amounts import size_of
from kronfill.errors import ParameterError
from kronfill.estimators.base import inner_method

COMPLETE = importlib.import_module("kronfill.cli.commands.complete")
RUN = CliRunner()
RNG = np.random.default_rng(0)
USERS = pd.DataFrame(
    {
        "age": RNG.integers(18, 80, 9),
        "since": pd.date_range("2021-01-31", periods=9, freq="40D").strftime("%Y-%m-%d"),
        "town": list("abcabcabc"),
    },
    index=pd.Index([f"{k:03d}" for k in range(1, 10)], name="id"),
)
ITEMS = pd.DataFrame({"size": RNG.random(6)}, index=pd.Index(list("uvwxyz"), name="item"))


def ratings():
    """Eight of the users, one without entries; five of the items."""
    rng = np.random.default_rng(1)
    values = np.add.outer(USERS["age"].to_numpy() / 20, 3 * ITEMS["size"].to_numpy())
    values = values + 0.1 * rng.standard_normal(values.shape)
    values[rng.random(values.shape) < 0.3] = np.nan
    table = pd.DataFrame(values, index=USERS.index, columns=ITEMS.index).iloc[:8, :5]
    table.iloc[3] = np.nan
    return table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ratings().to_csv("ratings.csv")
    USERS.to_csv("users.csv")
    ITEMS.to_csv("items.csv")
    long = ratings().rename_axis("user").reset_index().melt("user", var_name="item").dropna()
    long.sample(frac=1, random_state=0).to_csv("long.csv", index=False)
    return tmp_path


def run(*arguments, code=0):
    """Most of this is about commands, not methods: the quick one, unless another is named."""
    if arguments[0] in ("complete", "evaluate") and "--method" not in arguments:
        arguments = (*arguments, "--method", "kkmcex")
    done = RUN.invoke(cli.app, [str(a) for a in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output + done.stderr
    return done


SIDES = ("--rows", "users.csv", "--cols", "items.csv")


def expected(**settings):
    """The same by the Python interface."""
    users = USERS.assign(since=pd.to_datetime(USERS["since"]), age=USERS["age"].astype(float))
    return kf.complete(ratings(), users, ITEMS, **{"method": "kkmcex", **settings})


def read(path, index=None):
    kinds = {"id": str, "user": str, "row": str}
    frame = pd.read_csv(path, dtype=kinds) if str(path).endswith("csv") else pd.read_parquet(path)
    return frame if index is None else frame.set_index(index)


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "imc", "mc"])
def test_wide_values_are_those_of_python(folder, method):
    run("complete", "ratings.csv", *SIDES, "-o", "filled.csv", "--method", method, "--rank", 2)
    filled = read("filled.csv", "id")
    want = expected(method=method, rank=2)
    assert list(filled.index) == list(want.filled.index)
    assert_allclose(filled.to_numpy(), want.filled.to_numpy(), rtol=0, atol=1e-12)
    details = read("filled-details.csv").rename(columns={"id": "row"})
    wanted = want.details()
    assert list(details["status"]) == list(wanted["status"])
    for name in ("value", "lower", "upper", "std"):
        assert_allclose(details[name], wanted[name], rtol=0, atol=1e-12)


def test_long_table_has_a_line_for_each_entry(folder):
    run("complete", "long.csv", *SIDES, "-o", "out.parquet", "--mu", 0.3, "--level", 0.8)
    got = read("out.parquet")
    names = ["user", "item", "value", "status", "lower", "upper", "std", "interval"]
    assert list(got.columns) == names
    want = expected(mu=0.3)
    assert len(got) == 54
    assert_allclose(got["value"], want.predict(got[["user", "item"]].to_numpy().tolist()), atol=1.0)
    table = got.pivot(index="user", columns="item", values="value")
    wide = want.filled.loc[table.index, table.columns]
    assert_allclose(table.to_numpy(), wide.to_numpy(), rtol=0, atol=1e-12)
    assert (got.loc[got["user"].isin(["004", "009"]), "status"] == "extrapolated").all()
    inside = got[got["status"] != "observed"]
    assert (inside["lower"] < inside["value"]).all()
    assert got.loc[got["status"] == "observed", "lower"].isna().all()


def test_only_the_entries_asked_for(folder):
    pairs = pd.DataFrame({"item": ["z", "u"], "user": ["009", "001"]})
    pairs.to_csv("pairs.csv", index=False)
    run(
        "complete", "ratings.csv", *SIDES, "--pairs", "pairs.csv", "--row-column", "user",
        "-o", "some.csv", code=2,
    )  # fmt: skip
    pairs[["user", "item"]].to_csv("pairs.csv", index=False)
    run("complete", "ratings.csv", *SIDES, "--pairs", "pairs.csv", "-o", "some.csv", "--mu", 1)
    got = read("some.csv")
    want = expected(mu=1.0).details([("009", "z"), ("001", "u")])
    assert_allclose(got["value"], want["value"], rtol=0, atol=1e-12)
    assert not os.path.exists("some-details.csv")


@pytest.mark.parametrize("end", ["csv", "tsv", "parquet", "feather", "xlsx"])
def test_every_format_in_and_out(folder, end):
    table = ratings()
    if end == "xlsx":
        pytest.importorskip("openpyxl")
        table.to_excel("t.xlsx")
    elif end in ("parquet", "feather"):
        whole = table.reset_index()
        (whole.to_parquet if end == "parquet" else whole.to_feather)(f"t.{end}")
    else:
        table.to_csv(f"t.{end}", sep="\t" if end == "tsv" else ",")
    run("complete", f"t.{end}", *SIDES, "--mu", 1)
    from kronfill.data.reading.entry_files import read_entries
    from kronfill.data.reading.table_files import open_file

    found = read_entries(open_file(f"t-filled.{end}")).observations()
    assert found.row_labels == tuple(USERS.index)
    assert_allclose(found.to_dense(), expected(mu=1.0).filled.to_numpy(), rtol=0, atol=1e-12)
    assert os.path.exists(f"t-filled-details.{end}")


def test_unmatched_labels(folder):
    USERS.drop(index="002").to_csv("users.csv")
    failed = run("complete", "ratings.csv", *SIDES, code=2)
    assert "1 of 8 row labels" in failed.stderr
    assert "--unmatched keep" in failed.stderr
    kept = run("complete", "ratings.csv", *SIDES, "--unmatched", "keep", "-o", "kept.csv")
    assert "7 of 8 rows of the table are in the side information" in kept.stderr
    assert "1 only in the table, '002': kept" in kept.stderr
    assert "1 only in the side information, '009': to be extrapolated" in kept.stderr
    assert set(read("kept.csv", "id").index) == set(USERS.index)
    run("complete", "ratings.csv", *SIDES, "--unmatched", "drop", "-o", "dropped.csv")
    assert "002" not in read("dropped.csv", "id").index


def test_graph_and_similarities(folder):
    edges = nx.to_pandas_edgelist(nx.path_graph(list(USERS.index)))
    edges.to_csv("edges.csv", index=False)
    kernel = kf.kernels.rbf(ITEMS).to_array()
    pd.DataFrame(kernel, index=ITEMS.index, columns=ITEMS.index).to_csv("similar.csv")
    done = run(
        "complete", "ratings.csv", "--rows", "edges.csv", "--cols", "similar.csv", "-o", "f.csv",
        "--mu", 1,
    )  # fmt: skip
    assert "graph of 9 nodes and 8 edges" in done.stderr
    similar = pd.read_csv("similar.csv", index_col=0)
    want = kf.complete(
        ratings(), nx.path_graph(list(USERS.index)), similar, method="kkmcex", mu=1.0
    )
    assert_allclose(read("f.csv", "id"), want.filled, rtol=0, atol=1e-12)


def test_dry_run_writes_nothing(folder):
    before = sorted(os.listdir())
    done = run("complete", "ratings.csv", *SIDES, "--dry-run")
    assert sorted(os.listdir()) == before
    assert "To do: KKMCEX" in done.stderr
    assert "Memory: about" in done.stderr
    assert "ratings-filled.csv" in done.stderr


def test_the_default_says_beforehand_how_long_it_takes(folder):
    default = ("complete", "ratings.csv", *SIDES, "--method", "auto")
    done = run(*default, "--budget", 2, "--on-interrupt", "keep", "--dry-run")
    assert "Time: about" in done.stderr
    facts = json.loads(run(*default, "--budget", 2, "--dry-run", "--json").stdout)
    assert 0 < facts["seconds"] <= 2
    said = " ".join(run(*default, "--budget", 0.001, code=2).stderr.split())
    assert "--budget 0.001 is too little" in said
    assert "--budget is for --method auto" in run(
        "complete", "ratings.csv", "--budget", 2, "--method", "mc", code=2
    ).stderr.replace("\n", " ")


def test_json_and_quiet(folder):
    done = run("complete", "ratings.csv", *SIDES, "-o", "f.csv", "--json", "--save", "m.kf")
    facts = json.loads(done.stdout)
    assert facts["ok"]
    assert facts["table"]["layout"] == "wide"
    assert facts["matched_rows"] == {
        "both": 8, "only_in_table": 0, "only_in_side_information": 1,
    }  # fmt: skip
    assert facts["outputs"]["model"] == "m.kf"
    assert facts["observed"] + facts["filled"] + facts["extrapolated"] == 54
    assert done.stderr == ""
    failed = run("complete", "none.csv", "--json", code=2)
    assert json.loads(failed.stdout)["ok"] is False
    assert "none.csv" in json.loads(failed.stdout)["error"]
    assert run("complete", "ratings.csv", *SIDES, "-o", "f.csv", "-q").stderr == ""


def test_a_saved_model_predicts_the_same(folder):
    run("complete", "ratings.csv", *SIDES, "-o", "f.csv", "--save", "m.kf")
    pd.DataFrame({"who": ["009", "001"], "what": ["z", "u"]}).to_csv("pairs.csv", index=False)
    run("predict", "m.kf", "pairs.csv", "-o", "p.csv")
    got = read("p.csv")
    want = expected().details([("009", "z"), ("001", "u")])
    for name in ("value", "lower", "upper"):
        assert_allclose(got[name], want[name], rtol=0, atol=1e-12)
    assert list(got["status"]) == ["extrapolated", want["status"][1]]


@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc", "imc"])
def test_new_rows_and_columns_by_features(folder, method):
    run("complete", "ratings.csv", *SIDES, "-o", "f.csv", "--save", "m.kf", "--method", method)
    # Columns in another order, a town that nobody has, an age that is written without a point.
    new = pd.DataFrame({"id": ["n1", "n2"], "town": ["q", "a"], "age": [30, 40]})
    new.assign(since=["2022-01-01", "2022-02-01"]).to_csv("new.csv", index=False)
    pd.DataFrame({"item": ["k"], "size": [0.5]}).to_csv("newitems.csv", index=False)
    run("predict", "m.kf", "--rows", "new.csv", "-o", "all.csv")
    got = read("all.csv")
    done = expected(method=method)
    frame = new.set_index("id").assign(since=pd.to_datetime(["2022-01-01", "2022-02-01"]))
    frame["age"] = frame["age"].astype(float)
    want = done.extrapolate(rows=frame[["age", "since", "town"]])
    assert_allclose(got["value"], want.to_numpy().ravel(), rtol=0, atol=1e-12)
    assert (got["status"] == "extrapolated").all()
    lines = "row,col\nn2,u\n001,k\nn1,k\n001,u\n"
    (folder / "pairs.csv").write_text(lines)
    run(
        "predict", "m.kf", "pairs.csv", "--rows", "new.csv", "--cols", "newitems.csv", "-o", "p.csv"
    )
    got = read("p.csv")
    items = pd.DataFrame({"size": [0.5]}, index=["k"])
    both = [
        want.loc["n2", "u"],
        done.extrapolate(cols=items).loc["001", "k"],
        done.extrapolate(rows=frame, cols=items).loc["n1", "k"],
        done.filled.loc["001", "u"],
    ]
    assert_allclose(got["value"], both, rtol=0, atol=1e-12)
    assert list(got["row"]) == ["n2", "001", "n1", "001"]


def similarities(numbers=False):
    """How alike users are, two new ones included; what they are to themselves differs."""
    age = np.array([*USERS["age"], 30.0, 60.0])
    alike = np.exp(-((age[:, None] - age) ** 2) / 800) * np.outer(age, age) / 2000
    names = [*(range(1, 10) if numbers else USERS.index), "n1", "n2"]
    return pd.DataFrame(alike, index=pd.Index(names, name="id"), columns=names)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("method", ["kkmcex", "rrmcex", "kmc"])
def test_new_rows_and_columns_by_similarities(folder, method, numbers):
    alike = similarities(numbers)
    known, new = alike.iloc[:9, :9], alike.iloc[9:, ::-1]
    table = ratings().set_axis(range(1, 9)) if numbers else ratings()
    for axis, name in (("rows", "by_row"), ("cols", "by_col")):
        along = table.rename_axis("id") if axis == "rows" else table.T.rename_axis("item")
        along.to_csv("t.csv")
        known.to_csv("known.csv")
        new.to_csv("new.csv")
        side = (f"--{axis}", "known.csv")
        run("complete", "t.csv", *side, "-o", "f.csv", "--save", f"{name}.kf", "--method", method)
        run("predict", f"{name}.kf", f"--{axis}", "new.csv", "-o", "new-values.csv")
        done = kf.complete(along, **{axis: known}, method=method)
        want = done.extrapolate(**{axis: new})
        got = read("new-values.csv")
        assert_allclose(got["value"], want.to_numpy().ravel(), rtol=0, atol=1e-9)
        if method != "kmc":
            std = done.extrapolate_std(**{axis: new}).to_numpy().ravel()
            noise = done.model.noise_variance_
            assert_allclose(got["std"], np.sqrt(std**2 + noise), rtol=1e-9)
            assert (got["lower"] < got["value"]).all()


def test_similarities_that_predict_refuses(folder):
    alike = similarities()
    alike.iloc[:9, :9].to_csv("known.csv")
    run("complete", "ratings.csv", "--rows", "known.csv", "-o", "f.csv", "--save", "m.kf")

    def said(frame, *more, code=2):
        frame.to_csv("new.csv")
        return run("predict", "m.kf", "--rows", "new.csv", *more, "-o", "p.csv", code=code).stderr

    new = alike.iloc[9:]
    assert "new.csv: New items are" in said(new.drop(columns="003"))
    assert "there is none for '003'" in said(new.drop(columns="003"))
    assert "1 column too many, neither known items nor new ones: '3'" in said(
        new.assign(**{"3": 0})
    )
    assert "'n2' and '003' is missing" in said(new.mask(new == new.loc["n2", "003"]))
    assert "9 rows, such as '001', '002', '003', are in the model already" in said(alike)
    # What a new item is to itself is needed for its interval only.
    bare = new[list(USERS.index)]
    assert "a column for each new item" in said(bare)
    said(bare, "--intervals", "none", code=0)
    want = kf.load("m.kf").extrapolate(rows=new)
    assert_allclose(read("p.csv")["value"], want.to_numpy().ravel(), rtol=0, atol=1e-9)
    (folder / "pairs.csv").write_text("row,col\nn2,u\n001,v\n")
    said(new, code=0)
    run("predict", "m.kf", "pairs.csv", "--rows", "new.csv", "-o", "p.csv")
    assert list(read("p.csv")["row"]) == ["n2", "001"]


def test_new_nodes_of_a_graph_by_similarities(folder):
    nodes = list(USERS.index)
    pd.DataFrame({"source": nodes[:-1], "target": nodes[1:]}).to_csv("edges.csv", index=False)
    run("complete", "ratings.csv", "--rows", "edges.csv", "-o", "f.csv", "--save", "m.kf")
    graph = nx.path_graph(nodes)
    new = pd.DataFrame(kf.kernels.diffusion(graph).block([2]) / 2, ["n1"], nodes).assign(n1=0.5)
    new.rename_axis("id").to_csv("new.csv")
    run("predict", "m.kf", "--rows", "new.csv", "-o", "p.csv")
    done = kf.complete(ratings(), rows=graph, method="kkmcex")
    want = done.extrapolate(rows=new).to_numpy().ravel()
    assert_allclose(read("p.csv")["value"], want, rtol=0, atol=1e-9)


def test_what_predict_refuses(folder):
    run("complete", "ratings.csv", *SIDES, "-o", "f.csv", "--save", "m.kf")
    assert "Nothing to predict" in run("predict", "m.kf", code=2).stderr
    (folder / "p.csv").write_text("u,i\nnobody,z\n")
    assert "'nobody'" in run("predict", "m.kf", "p.csv", code=2).stderr
    assert (
        "are in the model already" in run("predict", "m.kf", "--rows", "users.csv", code=2).stderr
    )
    (folder / "new.csv").write_text("id,age\nn1,3\n")
    assert "lacks the columns" in run("predict", "m.kf", "--rows", "new.csv", code=2).stderr
    (folder / "bad.kf").write_bytes(b"PK\x03\x04 nothing")
    assert "Error" in run("predict", "bad.kf", "p.csv", code=2).stderr
    assert "no file" in run("predict", "none.kf", "p.csv", code=2).stderr
    run("complete", "ratings.csv", "--method", "mc", "-o", "f.csv", "--save", "mc.kf")
    assert "by features" in run("predict", "mc.kf", "--rows", "users.csv", code=2).stderr
    assert "cannot tell" in run("suggest", "mc.kf", code=2).stderr


def test_suggest_and_bound(folder):
    run("complete", "ratings.csv", *SIDES, "-o", "f.csv", "--save", "m.kf")
    done = run("suggest", "m.kf", "-n", 3, "--json")
    found = json.loads(done.stdout)["suggestions"]
    want = expected().model.suggest(3)
    assert [(line["row"], line["column"]) for line in found] == list(
        zip(want.row_labels, want.col_labels, strict=True)
    )
    (folder / "c.csv").write_text("user,item,euro\n009,z,1\n009,u,100\n")
    run("suggest", "m.kf", "-n", 1, "--candidates", "c.csv", "--cost", "euro", "-o", "s.csv")
    assert read("s.csv").loc[0, "column"] == "z"
    assert "give them with --candidates" in run("suggest", "m.kf", "--cost", "x", code=2).stderr
    facts = json.loads(run("bound", "m.kf", "--range", 0, 10, "--json").stdout)
    assert_allclose(facts["value"], expected().certificate((0, 10)).value)
    assert "With probability" in run("bound", "m.kf", "--range", 0, 10).stdout
    run("bound", "m.kf", "--range", 5, 1, code=2)


def test_a_certificate_in_one_step(folder):
    options = ("--mu", 1, "--range", 0, 10, "--certify", 0.2)
    done = run("complete", "ratings.csv", *SIDES, "-o", "f.csv", "--save", "m.kf", *options)
    said = " ".join(done.stdout.split())
    rows = inner_method(kf.load("m.kf").model).row_kernel
    want = kf.complete(
        ratings(), rows=rows, method="kkmcex", mu=1.0, value_range=(0, 10), certify=0.2
    )
    assert "With probability at least 0.95" in said
    assert "The variance of the observed values is" in said
    shown = " ".join(run("bound", "m.kf").stdout.split())
    found = kf.load("m.kf").certified
    assert " ".join(str(found).split()) == shown
    assert found.holdout_size == want.certified.holdout_size
    facts = json.loads(run("bound", "m.kf", "--json").stdout)
    assert facts["value"] == found.value
    assert facts["holdout_loss"] == found.holdout_loss
    other = json.loads(run("bound", "m.kf", "--range", 0, 10, "--json").stdout)
    assert other["holdout_loss"] is None
    facts = json.loads(
        run("complete", "ratings.csv", *SIDES, "-o", "g.csv", *options, "--json").stdout
    )
    assert facts["certificate"]["value"] == found.value
    run("complete", "ratings.csv", *SIDES, "-o", "f.csv", "--save", "plain.kf", "--mu", 1)
    assert "has no certificate" in run("bound", "plain.kf", code=2).stderr
    for wrong in (("--certify", 0.2), ("--range", 0, 10, "--certify", 2)):  # a range alone clips
        said = run("complete", "ratings.csv", *SIDES, "-o", "h.csv", *wrong, code=2).stderr
        assert "--certify" in said
    assert not os.path.exists("h.csv")
    more = (*options, "--certify-new", "cols")
    done = run("complete", "ratings.csv", *SIDES, "-o", "f.csv", "--save", "new.kf", *more)
    assert "columns that were held out" in " ".join(done.stdout.split())
    found = kf.load("new.kf").certified_new
    assert " ".join(found.sentence.split()) in " ".join(run("bound", "new.kf").stdout.split())
    assert json.loads(run("bound", "new.kf", "--json").stdout)["new"]["value"] == found.value
    said = run("complete", "ratings.csv", *SIDES, "-o", "h.csv", "--certify-new", "rows", code=2)
    assert "--certify-new needs --certify" in said.stderr


def test_a_model_that_was_fed_by_partial_fit(folder):
    """It keeps no observations either, but nothing was streamed."""
    kernel = kf.kernels.rbf(np.linspace(0, 1, 6), length_scale=0.3)
    X = np.argwhere(np.ones((6, 6)))
    kf.RRMCEX(kernel, kernel, 3, 3).partial_fit(X, np.arange(36.0)).save("m.kf")
    (folder / "p.csv").write_text("row,column\n0,1\n")
    said = run("predict", "m.kf", "p.csv").stderr
    assert "partial_fit" in said
    said += run("predict", "m.kf", "p.csv", "--intervals", "gaussian", code=2).stderr
    for command in (["suggest", "m.kf"], ["bound", "m.kf", "--range", 0, 9]):
        found = run(*command, code=2).stderr
        assert "keeps no observations" in found
        assert "partial_fit" in found
        said += found
    assert "streamed" not in said
    assert "a table that is not in memory" not in said


def test_evaluate(folder):
    done = run("evaluate", "ratings.csv", *SIDES, "--folds", 3, "-o", "scores.csv")
    assert "Errors on what was hidden" in done.stdout
    scores = read("scores.csv")
    assert list(scores["question"].unique()) == ["entries", "new rows", "new columns", "both new"]
    entries = scores[scores["question"] == "entries"].set_index("method")
    assert entries.loc["KKMCEX", "rmse"] < entries.loc["mean", "rmse"]


def test_a_megabyte_is_the_same_everywhere(folder, monkeypatch):
    """What is said to be available, and what is needed, is told in millions of bytes."""
    monkeypatch.setattr("kronfill.core.memory.available_memory", lambda: 2**31)
    assert "2.15 GB" in run("info").stdout
    done = run("complete", "ratings.csv", *SIDES, "--dry-run", "--json")
    needed = json.loads(done.stdout)["memory_bytes"]
    said = run("complete", "ratings.csv", *SIDES, "--dry-run").stderr
    assert f"Memory: about {size_of(needed)} of 2.15 GB available." in " ".join(said.split())


def test_info(folder):
    facts = json.loads(run("info", "--json").stdout)
    assert facts["kronfill"] == kf.__version__
    assert "wide table" in run("info", "ratings.csv").stdout
    assert "3 features of 9 items" in run("info", "users.csv").stdout
    run("complete", "ratings.csv", *SIDES, "-o", "f.csv", "--save", "m.kf")
    assert "Completion of 9 rows x 6 columns" in run("info", "m.kf").stdout
    run("info", "none", code=2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ratings.csv", "-o", "ratings.csv"], "also an input"),
        (["ratings.csv", "-o", "users.csv", *SIDES], "also an input"),
        (["ratings.csv", "-o", "f.doc"], "format of f.doc"),
        (["ratings.csv", "-o", "no/f.csv"], "no folder"),
        (["ratings.csv", "-o", "."], "is a folder"),
        (["ratings.csv", "-o", "f.csv", "--save", "f.csv"], "the same file"),
        (["ratings.csv", "--mu", "little"], "positive number"),
        (["ratings.csv", "--mu", "-1"], "must be a positive"),
        (["ratings.csv", "--level", "90"], "between 0 and 1"),
        (["ratings.csv", "--rows-as", "edges"], "give it with --rows"),
        (["ratings.csv", *SIDES, "--ignore", "name"], "no file of side information"),
        (["ratings.csv", "--details", "d.csv", "--no-details"], "together"),
        (["long.csv", "--details", "d.csv"], "wide tables"),
        (["ratings.csv", "--method", "mc", "--intervals", "gaussian"], "no standard deviation"),
    ],
)
def test_what_cannot_be_is_said_before_any_work(folder, arguments, says):
    before = sorted(os.listdir())
    done = run("complete", *arguments, code=2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir()) == before


def test_names_of_users_are_left_out_when_asked(folder):
    USERS.assign(name=[f"person {k}" for k in range(9)]).to_csv("users.csv")
    done = run("complete", "ratings.csv", *SIDES, "--ignore", "name", "-o", "f.csv")
    assert "3 features of 9 items" in done.stderr


def test_debug_shows_where(folder):
    assert "Traceback" in run("complete", "none.csv", "--debug", code=2).stderr
    assert "Traceback" not in run("complete", "none.csv", code=2).stderr


def test_faults_and_interruptions_have_their_exit_codes(folder, monkeypatch):
    (folder / "f.csv").write_text("what was there\n")
    for error, code, says in (
        (KeyboardInterrupt(), 130, "Interrupted"),
        (ValueError("odd"), 1, "please report"),
        (MemoryError(), 1, "--dry-run"),
        (OSError(28, "No space left on device"), 1, "No space left"),
    ):

        def fail(*_arguments, error=error):
            yield pd.DataFrame({"id": ["a"], "u": [1.0]})
            raise error

        monkeypatch.setattr(COMPLETE, "_wide", fail)
        done = run("complete", "ratings.csv", *SIDES, "-o", "f.csv", code=code)
        assert says in done.stderr
        assert (folder / "f.csv").read_text() == "what was there\n"
        assert not [name for name in os.listdir() if name.endswith(".part")]


def test_large_tables_are_not_written_unasked(folder, monkeypatch):
    monkeypatch.setattr(COMPLETE, "MANY_LINES", 10)
    failed = run("complete", "long.csv", *SIDES, "-o", "f.csv", code=2)
    assert "54 entries" in failed.stderr
    run("complete", "long.csv", *SIDES, "-o", "f.csv", "--all")
    monkeypatch.setattr("kronfill.cli.targets.MANY_DETAILS", 10)
    run("complete", "ratings.csv", *SIDES, "-o", "g.csv")
    assert not os.path.exists("g-details.csv")


def test_blocks_give_the_same_file(folder, monkeypatch):
    run("complete", "ratings.csv", *SIDES, "-o", "one.csv", "--mu", 1)
    monkeypatch.setattr(COMPLETE, "WIDE_FLOATS", 7)
    run("complete", "ratings.csv", *SIDES, "-o", "two.csv", "--mu", 1)
    assert_allclose(read("one.csv", "id"), read("two.csv", "id"), rtol=0, atol=1e-12)


def test_excel_has_its_limits(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    monkeypatch.setattr(outputs, "EXCEL_ROWS", 3)
    with pytest.raises(ParameterError, match="at most 3 lines"):
        outputs.write_table(tmp_path / "t.xlsx", [pd.DataFrame({"x": range(5)})])
    assert not list(tmp_path.iterdir())


def test_help_names_every_command():
    text = run("--help").stdout
    for name in (
        "complete", "predict", "evaluate", "suggest", "bound", "reproduce", "bench", "demo", "info",
    ):  # fmt: skip
        assert name in text
        assert run(name, "--help").exit_code == 0


def test_bench(folder):
    done = run(
        "bench", "--datasets", "bixi", "--methods", "effects", "--splits", "entries", "--json"
    )
    assert json.loads(done.stdout)["lines"][0]["dataset"] == "BIXI"
    assert "datasets must be of" in run("bench", "--datasets", "netflix", code=2).stderr


def test_a_file_with_intervals_of_python_is_used_and_said_to_be_so(folder):
    done = expected(mu=0.1)
    kf.ConformalRegressor(done.model).fit(done.observations).save("m.kf")
    (folder / "pairs.csv").write_text("user,item\n009,z\n")
    told = run("predict", "m.kf", "pairs.csv", "-o", "p.csv")
    assert "ConformalRegressor: the method in it is used" in told.stderr
    model = kf.load("m.kf").estimator_
    at = [[list(done.filled.index).index("009"), list(done.filled.columns).index("z")]]
    assert_allclose(read("p.csv")["value"], model.predict(at), rtol=0, atol=1e-12)
    assert "ConformalRegressor" in run("info", "m.kf").stdout

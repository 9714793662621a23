"""Whatever is in the tables and whatever the flags: nothing but errors of the library surfaces."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from kronfill import cli

RUN = CliRunner()
CELLS = st.one_of(
    st.sampled_from(
        ["", "1", "-2.5", "3e2", "007", "NA", "x", "ä", "inf", "nan", "1,5", '"', "a b"]
    ),
    st.floats(-1e3, 1e3).map(str),
    st.text(max_size=3),
)
LABELS = st.sampled_from(["a", "b", "c", "7", "07", "2024-01-31", "", "é", "NA"])
FLAGS = st.lists(
    st.sampled_from(
        [
            ["--layout", "wide"], ["--layout", "long"], ["--index", "none"], ["--index", "c1"],
            ["--row-column", "c0"], ["--value-column", "c2"], ["--weight-column", "c1"],
            ["--method", "mc"], ["--method", "imc"], ["--method", "kmc"], ["--method", "rrmcex"],
            ["--unmatched", "keep"], ["--unmatched", "drop"], ["--duplicates", "mean"],
            ["--impute", "mean"], ["--rows-as", "edges"], ["--rows-as", "similarity"],
            ["--rows-as", "features"], ["--center", "both"], ["--center", "none"],
            ["--mu", "0.1"], ["--mu", "0"], ["--level", "0.5"], ["--intervals", "calibrated"],
            ["--intervals", "none"], ["--ignore", "c1"], ["--rank", "1"], ["--no-details"], ["-q"],
        ]
    ),
    max_size=4,
    unique_by=lambda flag: flag[0],
)  # fmt: skip


NUMBERS = st.one_of(st.just(""), st.floats(-1e3, 1e3).map(str), st.sampled_from(["0", "1e308"]))


@st.composite
def csv_texts(draw):
    """A table that may be anything from reasonable to broken."""
    width, height = draw(st.integers(1, 5)), draw(st.integers(0, 6))
    cells = draw(st.sampled_from([NUMBERS, CELLS]))
    names = [f"c{j}" for j in range(width)]
    lines = [[draw(LABELS), *(draw(cells) for _ in range(width - 1))] for _ in range(height)]
    separator = draw(st.sampled_from([",", ";", "\t"]))
    return "\n".join(separator.join(line) for line in [names, *lines])


@st.composite
def good_tables(draw):
    """A wide or a long table of numbers with distinct labels, and features of some of them."""
    n, l = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rows, cols = [f"r{i}" for i in range(n)], [f"c{j}" for j in range(l)]
    seen = [(i, j, draw(NUMBERS)) for i in rows for j in cols]
    if draw(st.booleans()):
        values = {(i, j): v for i, j, v in seen}
        text = "\n".join([",".join(["id", *cols])] + [
            ",".join([i, *(values[i, j] for j in cols)]) for i in rows
        ])  # fmt: skip
    else:
        text = "\n".join(["u,i,v", *(f"{i},{j},{v}" for i, j, v in seen if v)])
    known = draw(st.lists(st.sampled_from([*rows, "new"]), unique=True))
    lines = [f"{i},{draw(CELLS)},{draw(st.floats(-5, 5))}" for i in known]
    return text, "\n".join(["id,what,number", *lines])


def _run(arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RUN.invoke(cli.app, arguments)


def _check(done, folder):
    assert done.exit_code in (0, 2), done.stderr
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert "Traceback" not in done.stderr
    assert "should not happen" not in done.stderr
    kept = (folder / "out.csv").read_text(encoding="utf-8")
    assert (kept == "before") == (done.exit_code != 0)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(csv_texts(), st.none() | csv_texts(), st.none() | csv_texts(), FLAGS)
def test_tables_and_flags(table, rows, cols, flags):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "out.csv").write_text("before", encoding="utf-8")
        arguments = ["complete", str(folder / "t.csv"), "-o", str(folder / "out.csv")]
        for file, text in (("t.csv", table), ("rows.csv", rows), ("cols.csv", cols)):
            if text is not None:
                (folder / file).write_text(text, encoding="utf-8", errors="surrogatepass")
                arguments += [] if file == "t.csv" else [f"--{file[:4]}", str(folder / file)]
        _check(_run([*arguments, *(word for flag in flags for word in flag)]), folder)


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(good_tables(), st.booleans(), FLAGS)
@example(("u,i,v\nr0,c1,0\nr0,c2,0\nr1,c1,0\nr1,c2,-7e-97", "id,what,number"), False, [])
def test_numbers_and_features(texts, described, flags):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (("out.csv", "before"), ("t.csv", texts[0]), ("rows.csv", texts[1])):
            (folder / file).write_text(text, encoding="utf-8", errors="surrogatepass")
        arguments = ["complete", str(folder / "t.csv"), "-o", str(folder / "out.csv")]
        arguments += ["--rows", str(folder / "rows.csv")] if described else []
        _check(_run([*arguments, *(word for flag in flags for word in flag)]), folder)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=200), st.sampled_from(["csv", "parquet", "xlsx", "feather", "csv.gz"]))
def test_files_of_any_bytes(content, end):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "out.csv").write_text("before", encoding="utf-8")
        signs = {"parquet": b"PAR1", "xlsx": b"PK\x03\x04", "feather": b"ARROW1"}
        (folder / f"t.{end}").write_bytes(signs.get(end, b"") + content)
        _check(_run(["complete", str(folder / f"t.{end}"), "-o", str(folder / "out.csv")]), folder)

"""Files of every format give the same table."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from kronfill.data.reading.entry_files import Roles, are_numbers, read_entries, read_pairs
from kronfill.data.reading.file_table import label_text
from kronfill.data.reading.side_files import read_side
from kronfill.data.reading.table_files import open_file
from kronfill.errors import (
    DataError,
    DuplicateEntryError,
    EmptyDataError,
    FeatureError,
    LabelError,
    ParameterError,
)

FRAME = pd.DataFrame(
    {"id": ["007", "b", "NA"], "x": [1.5, np.nan, -3.0], "day": ["2024-01-31", "", "2024-03-01"]}
)


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.feather", "t.xlsx"])
def test_every_format_gives_the_same_columns(tmp_path, name):
    path = tmp_path / name
    if name.endswith(".xlsx"):
        pytest.importorskip("openpyxl")
        FRAME.to_excel(path, index=False)
    elif name.endswith((".parquet", ".feather")):
        (FRAME.to_parquet if name.endswith("parquet") else FRAME.to_feather)(path)
    else:
        text = FRAME.to_csv(index=False, sep="\t" if "tsv" in name else ",").encode()
        path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    table = open_file(path)
    assert table.names == ["id", "x", "day"]
    codes, labels = table.labels(0)
    assert [labels[k] for k in codes] == ["007", "b", "NA"]
    assert_array_equal(table.numbers(1), FRAME["x"])
    assert not table.is_numeric(2)


def test_labels_read_alike_whatever_the_type(tmp_path):
    dates = pd.to_datetime(["2024-01-31", "2024-02-01"])
    typed = pd.DataFrame(
        {"n": [7, 8], "f": [7.0, 8.5], "d": dates, "c": pd.Categorical(["p", "q"])}
    )
    typed.to_parquet(tmp_path / "t.parquet")
    text = open_file(write(tmp_path / "t.csv", "n,f,d,c\n7,7,2024-01-31, p\n8,8.5,2024-02-01,q \n"))
    table = open_file(tmp_path / "t.parquet")
    for j in range(4):
        assert table.labels(j)[1] == text.labels(j)[1]
    assert label_text(pd.Timestamp("2024-01-31 12:30")) == "2024-01-31 12:30:00"


def test_index_of_pandas_is_the_first_column(tmp_path):
    FRAME.set_index("id")[["x"]].to_parquet(tmp_path / "named.parquet")
    assert open_file(tmp_path / "named.parquet").names == ["id", "x"]
    FRAME[["x"]].set_axis(["a", "b", "c"]).to_parquet(tmp_path / "bare.parquet")
    bare = open_file(tmp_path / "bare.parquet")
    assert bare.names == ["", "x"]
    assert bare.labels(0)[1] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a;b\n1;2,5\n", "CSV separated by ';' with decimal commas"),
        ("a;b\n1;2.5\n", "CSV separated by ';'"),
        ("a\tb\n1\t2.5\n", "TSV"),
        ("\ufeffa|b\r\n1|2.5\r\n", "CSV separated by '|'"),
        ('\n"a",b\n"1",2.5\n', "CSV"),
    ],
)
def test_separators_are_found(tmp_path, text, told):
    table = open_file(write(tmp_path / "t.csv", text))
    assert table.words == told
    assert table.names == ["a", "b"]
    assert_array_equal(table.numbers(1), [2.5])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"a,b\n1,2,3\n", "line 2 has 3 cells, the header 2"),
        (b'a,b\n"x\ny",2\n\n1\n', "line 5 has 1 cell, the header 2"),
        (b"a,b", "a header but no lines below it"),
        (b"a,b,a\n1,2,3\n", "more than one column called 'a'"),
        (b"a,,b\n1,2,3\n", "column 2 has no name"),
        (b"a,b\n\xff,1\n", "UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-8"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, content, says):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=says):
        open_file(path)


def test_names_and_content_must_agree(tmp_path):
    for name in ("t.parquet", "t.xlsx", "t.feather"):
        with pytest.raises(DataError, match="is none that can be read"):
            open_file(write(tmp_path / name, "a,b\n1,2\n"))
    for sign, name in ((b"PAR1", "p.parquet"), (b"ARROW1", "f.feather"), (b"PK\x03\x04", "x.xlsx")):
        (tmp_path / name).write_bytes(sign + b"garbage" * 10)
        with pytest.raises(DataError, match="Cannot read"):
            open_file(tmp_path / name)
    with pytest.raises(DataError, match="no such file"):
        open_file(tmp_path / "none.csv")
    with pytest.raises(DataError, match="only those have sheets"):
        open_file(write(tmp_path / "t.csv", "a,b\n1,2\n"), sheet="one")


def test_sheets(tmp_path):
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(tmp_path / "t.xlsx") as writer:
        FRAME.to_excel(writer, sheet_name="first", index=False)
        FRAME[["x"]].to_excel(writer, sheet_name="second", index=False)
    assert open_file(tmp_path / "t.xlsx").words == "Excel, sheet 'first' of 2"
    assert open_file(tmp_path / "t.xlsx", "second").names == ["x"]
    with pytest.raises(DataError, match="its sheets are 'first', 'second'"):
        open_file(tmp_path / "t.xlsx", "third")


# Entries.


def entries(tmp_path, text, **roles):
    return read_entries(open_file(write(tmp_path / "t.csv", text)), Roles(**roles))


def test_wide_and_long_are_told_apart(tmp_path):
    wide = entries(tmp_path, "id,x,y\n007,1,\nb,,2\nc,,\n")
    assert wide.layout == "wide"
    obs = wide.observations()
    assert obs.row_labels == ("007", "b", "c")
    assert obs.X.tolist() == [[0, 0], [1, 1]]
    long = entries(tmp_path, "who,what,v\nb,x,1\na,y,2\nb,y,\n")
    assert long.layout == "long"
    assert "to be filled in: 1 line without a value" in long.words
    obs = long.observations()
    assert (obs.row_labels, obs.col_labels) == (("a", "b"), ("x", "y"))
    assert obs.to_dense()[1, 0] == 1
    assert np.isnan(obs.to_dense()[1, 1])
    # Ids that are numbers: a repeated one makes the table long, distinct ones make it wide.
    assert entries(tmp_path, "u,i,v\n1,1,3\n1,2,4\n").layout == "long"
    assert entries(tmp_path, "u,i,v\n1,1,3\n2,2,4\n").layout == "wide"
    assert entries(tmp_path, "u,i,v\n1,1,3\n2,2,4\n", layout="long").layout == "long"
    assert entries(tmp_path, "v,u,i\n3,1,1\n4,2,2\n", row="u", col="i").names == ("u", "i", "v")


MEANT_WIDE = {
    "a label twice": "station,jan,feb,mar\na,1,2,3\nb,4,5,6\na,7,8,9\n",
    "a label twice, two columns": "station,jan,feb\na,1,2\nb,1,4\na,5,6\n",
    "a label twice, years": "id,2019,2020\n7,0,1\n7,1,1\n8,0,0\n7,0,0\n",
    "thousands": 'station,jan,feb,mar\na,"3,000",2,3\nb,4,5,6\nc,7,8,9\n',
    "only thousands": 'station,jan,feb\na,"3,000",2\nb,"4,500",5\n',
    "thousands and a gap": 'station,jan,feb\na,"3,000",2\nb,,5\n',
    "per cent": "station,jan,feb\na,12%,2\nb,13%,5\n",
    "another sign for a gap": "station,jan,feb\na,n.a.,2\nb,4,5\n",
    "gaps only": "station,jan,feb\na,-,2\nb,-,5\n",
}


@pytest.mark.parametrize("case", MEANT_WIDE)
def test_a_wide_table_with_a_slip_is_not_read_as_a_long_one(tmp_path, case):
    with pytest.raises(DataError, match=r"As a wide table.*As a long one.*--layout wide or --layo"):
        entries(tmp_path, MEANT_WIDE[case])
    with pytest.raises(DataError, match=r"more than once|is not a number"):
        entries(tmp_path, MEANT_WIDE[case], layout="wide")


def test_a_label_twice_beside_what_cannot_be_labels(tmp_path):
    for text in ("id,x,y\na,1.5,2\nb,4,5\na,7,8\n", "id,x,y\na,1,2\nb,,5\na,7,8\n"):
        with pytest.raises(LabelError, match="the row label 'a' more than once"):
            entries(tmp_path, text)


MEANT_LONG = {
    "ids": "user,film,stars,when\n1,1,4,964\n1,3,4,981\n2,1,3,703\n2,3,5,649\n",
    "text and ids": "user,film,stars\nann,1,4\nann,2,5\nbob,1,3\nbob,2,2\n",
    "dates": "station,day,v\na,2024-01-01,3\nb,2024-01-01,4\n",
    "text, each row once": "who,what,v\na,x,1\nb,y,2\n",
    "rooms": "day,room,v\nm,101,1\nm,102a,2\nt,101,3\nt,102a,4\n",
}


@pytest.mark.parametrize("case", MEANT_LONG)
def test_long_tables_are_still_known(tmp_path, case):
    assert entries(tmp_path, MEANT_LONG[case]).layout == "long"


@pytest.mark.parametrize("first", ["", "line"])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("users", ["1122", ["ann", "bob", "ann", "bob"]])
def test_a_column_that_numbers_the_lines_of_a_long_table(tmp_path, first, start, users):
    """As pandas writes a table with its index."""
    lines = [
        f"{k + start},{u},{f},{5 - k}" for k, (u, f) in enumerate(zip(users, "1313", strict=True))
    ]
    text = "\n".join([f"{first},user,film,stars", *lines, ""])
    with pytest.raises(DataError, match=r"only numbers the lines.*--layout wide, or name"):
        entries(tmp_path, text)
    named = entries(tmp_path, text, row="user", col="film", value="stars")
    assert named.layout == "long"


def test_numbered_rows_of_a_wide_table(tmp_path):
    scores = "student,maths,physics,music\n1,70,81,90\n2,70,64,\n3,55,81,77\n4,91,40,33\n"
    assert entries(tmp_path, scores).layout == "wide"


def test_wide_without_labels_and_with_others(tmp_path):
    bare = entries(tmp_path, "x,y\n1,\n,2\n", index="none")
    assert bare.row_labels == ["0", "1"]
    named = entries(tmp_path, "x,id,y\n1,a,\n,b,2\n", index="id")
    assert (named.row_labels, named.col_labels) == (["a", "b"], ["x", "y"])


def test_numbers_as_labels(tmp_path):
    assert are_numbers(["7", "-3", "0"], [])
    assert not are_numbers(["7"], ["07"])
    assert not are_numbers(["7.0"])
    long = entries(tmp_path, "u,i,v\n10,1,3\n9,1,4\n10,2,5\n")
    assert long.observations((True, True)).row_labels == (9, 10)
    assert long.observations((False, True)).row_labels == ("10", "9")


def test_weights_and_duplicates(tmp_path):
    text = "u,i,v,weight\na,x,1,1\na,x,4,3\na,y,2,1\n"
    long = entries(tmp_path, text)
    with pytest.raises(DuplicateEntryError, match="--duplicates mean"):
        long.observations()
    obs = long.observations(duplicates="mean")
    assert obs.values.tolist() == [3.25, 2.0]
    assert obs.weights.tolist() == [4.0, 1.0]


@pytest.mark.parametrize(
    ("text", "roles", "kind", "says"),
    [
        ("id,x\n", {}, EmptyDataError, "no lines below"),
        ("id,x\na,\n", {}, EmptyDataError, "every value is missing"),
        ("id,x\na,1\na,2\n", {}, LabelError, "more than once"),
        ("id,x\na,1\nb,two\n", {}, DataError, "line 3: 'two' is not a number"),
        ("id\na\n", {}, DataError, "no column besides"),
        ("id,x\n,1\n", {}, DataError, "no label at line 2"),
        ("id,x,y\na,1,p\na,2,q\n", {}, DataError, "neither a wide table"),
        ("id,x\na,1\n", {"layout": "long"}, DataError, "needs three columns"),
        ("id,x\na,1\n", {"layout": "deep"}, ParameterError, "layout must be"),
        ("id,x\na,1\n", {"layout": "wide", "row": "id"}, ParameterError, "choose one"),
        ("id,x\na,1\n", {"row": "who"}, DataError, "no column 'who'"),
        ("id,x\na,inf\n", {}, DataError, "line 2: 'inf' is not a finite"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path, text, roles, kind, says):
    with pytest.raises(kind, match=says):
        entries(tmp_path, text, **roles).observations()


def test_pairs(tmp_path):
    table = open_file(write(tmp_path / "t.csv", "n,u,i\n1,a,x\n2,b,x\n"))
    (rows, names), (cols, _) = read_pairs(table, Roles(row="u", col="i"))
    assert [names[k] for k in rows] == ["a", "b"]
    assert cols.tolist() == [0, 0]
    with pytest.raises(DataError, match="needs two columns"):
        read_pairs(open_file(write(tmp_path / "t.csv", "u\na\n")))


# Side information.


def side(tmp_path, text, **settings):
    return read_side(open_file(write(tmp_path / "t.csv", text)), **settings)


def test_kinds_of_features(tmp_path):
    text = (
        "id,age,since,german,town,active,zip\n"
        "007,31,2024-01-31,31.01.2024,Oslo,true,0150\n"
        "008,28.5,2024-02-01 12:00,01.02.2024,Rome,FALSE,0155\n"
    )
    found = side(tmp_path, text)
    assert found.kind == "features"
    frame = found.build()
    assert list(frame.index) == ["007", "008"]
    assert frame["age"].tolist() == [31.0, 28.5]
    assert frame["german"].tolist() == [pd.Timestamp("2024-01-31"), pd.Timestamp("2024-02-01")]
    assert frame["since"].dtype.kind == "M"
    assert frame["active"].dtype == bool
    assert "town (2 categories)" in found.words
    # The same file read as the known items were.
    again = side(tmp_path, text, kinds={"zip": "category", "age": "number"}).build()
    assert again["zip"].tolist() == ["0150", "0155"]
    assert list(again.columns) == ["zip", "age"]


def test_dates_with_day_or_month_first(tmp_path):
    with pytest.raises(FeatureError, match="day or the month first"):
        side(tmp_path, "id,d\na,01/02/2024\nb,03/04/2024\n")
    day_first = side(tmp_path, "id,d\na,01/02/2024\nb,31/01/2024\n").build()
    assert day_first["d"].tolist() == [pd.Timestamp("2024-02-01"), pd.Timestamp("2024-01-31")]


def test_missing_features(tmp_path):
    text = "id,x,d,c,b\np,1,2024-01-01,u,true\nq,,,,\nr,3,2024-01-03,u,true\n"
    with pytest.raises(FeatureError, match=r"column 'x' has no value at line 3.*--impute mean"):
        side(tmp_path, text)
    frame = side(tmp_path, text, impute="mean").build()
    assert frame.loc["q"].tolist() == [2.0, pd.Timestamp("2024-01-02"), "u", True]
    assert "x (empty, left out)" in side(tmp_path, "id,x\np,\n", impute="mean").words
    gaps = side(tmp_path, text, impute="none")
    assert gaps.words.endswith("c (1 category, 1 missing), b (yes or no, 1 missing)")
    assert gaps.build().loc["q"].isna().all()
    assert side(tmp_path, text, ignore=["x", "d", "b"], impute="mean").words.startswith(
        "1 feature "
    )


def test_edges_and_similarities(tmp_path):
    graph = side(tmp_path, "source,target,weight\na,b,2\nb,c,1\nb,a,3\n")
    assert graph.kind == "edges"
    assert graph.build()["a"]["b"]["weight"] == 3
    assert side(tmp_path, "p,q\na,b\na,c\nb,c\n").kind == "edges"
    assert side(tmp_path, "id,town\na,x\nb,x\n").kind == "features"
    assert side(tmp_path, "id,n\n1,2\n2,3\n3,1\n").kind == "features"
    similar = side(tmp_path, "id,a,b\na,1,0.5\nb,0.5,1\n")
    assert similar.kind == "similarity"
    assert similar.build().loc["a", "b"] == 0.5
    numbered = side(tmp_path, "id,1,2\n1,1,0.5\n2,0.5,1\n").build(numbers=True)
    assert list(numbered.columns) == [1, 2]


@pytest.mark.parametrize(
    ("text", "settings", "kind", "says"),
    [
        ("id,x\na,1\na,2\n", {}, LabelError, "more than once"),
        ("id,x\na,1\n", {"index": "key"}, DataError, "no column 'key'"),
        ("id,x\na,1\n", {"kind": "graph"}, ParameterError, "must be one of"),
        ("id,x\na,1\n", {"impute": "zero"}, ParameterError, "impute must be"),
        ("id\na\n", {}, DataError, "tells nothing"),
        ("s,t,w\na,b,-1\n", {"kind": "edges"}, DataError, "0 or larger"),
        ("s,t,w,z\na,b,1,1\n", {"kind": "edges"}, DataError, "at most one of weights"),
        ("id,a,b\na,1,0\nc,0,1\n", {"kind": "similarity"}, LabelError, "in one of them only"),
        ("id,a,b\na,1,\nb,0,1\n", {}, DataError, "is missing"),
        ("id,x\na,1\n", {"kinds": {"y": "number"}}, FeatureError, "lacks the columns"),
        ("id,x\na,p\n", {"kinds": {"x": "number"}}, DataError, "is not a number"),
        ("id,x\na,pqrst\n", {"kinds": {"x": "date"}}, FeatureError, "holds no dates"),
    ],
)
def test_side_information_that_cannot_be_read(tmp_path, text, settings, kind, says):
    with pytest.raises(kind, match=says):
        side(tmp_path, text, **settings)

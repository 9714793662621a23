"""Sequences and molecules in files of their own, from the file to what they are taken for."""

from __future__ import annotations

import gzip

import pytest

from kronfill.data.reading.side_files import read_side
from kronfill.data.reading.table_files import open_file
from kronfill.errors import DataError

FASTA = """
>sp|P1|ONE_HUMAN the first of them
MKVLLAGGHW
kvllaqrstw*
>two
MDEFGHIKLM NPQRSTVWYK
; a comment
AAAA

>gi|3|gb|X.1|
MKVLLAGGHWKVLLAQRSTWCCCC
"""


@pytest.mark.parametrize("name", ["kinases.fasta", "kinases.fa.gz", "kinases.txt"])
def test_sequences_are_read_by_name(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(FASTA.encode()) if name.endswith("gz") else FASTA.encode())
    table = open_file(path)
    assert (table.words, table.names, len(table)) == ("FASTA", ["name", "sequence"], 3)
    side = read_side(table)
    assert side.labels == ["P1", "two", "gi|3|gb|X.1|"]
    assert "sequence (protein sequences" in side.words
    frame = side.build()
    assert frame.loc["P1", "sequence"] == "MKVLLAGGHWKVLLAQRSTW"
    assert frame.loc["two", "sequence"] == "MDEFGHIKLMNPQRSTVWYKAAAA"


@pytest.mark.parametrize("name", ["drugs.smi", "drugs.smiles.gz"])
def test_molecules_are_read_by_name(tmp_path, name):
    pytest.importorskip("rdkit")
    text = b"smiles name\nCCO ethanol\n\nCCN\tethylamine\nCC(=O)O acetic acid\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    side = read_side(open_file(tmp_path / name))
    assert side.labels == ["ethanol", "ethylamine", "acetic acid"]
    assert "smiles (molecules" in side.words
    assert side.build()["smiles"].tolist() == ["CCO", "CCN", "CC(=O)O"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.fasta", ">one\n>two\nMK\n", "no sequence for 'one'"),
        ("x.fasta", "> \nMK\n", "a sequence without a name"),
        ("x.smi", "CCO ethanol\nCCN\n", "line 2: 'CCN' has no name"),
        ("x.smi", "", "is empty|tells nothing"),
    ],
)
def test_what_is_missing_is_said(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=said):
        read_side(open_file(tmp_path / name))


def test_a_name_twice_is_refused(tmp_path):
    (tmp_path / "x.fasta").write_text(">one\nMKV\n>one\nMKV\n")
    with pytest.raises(DataError, match="one"):
        read_side(open_file(tmp_path / "x.fasta"))
